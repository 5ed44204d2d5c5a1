"""One user's run log may say anything: the numbers, pages, metrics and reports of the others stay as they are."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from app.cli import main as cli
from app.compute import pipeline as computing
from app.config.settings import Config
from app.explorer import create_app
from app.results.ettr import ettr_run_rows
from app.results.mfu import mfu_run_rows, mfu_wall_run_rows
from app.results.runs import job_goodput
from app.results.runs.job_goodput import job_accounts, job_goodput_rows
from app.results.serving.cache import AnswerCache
from app.service import exporter
from app.window import Window
from ingest.runlog import store as runlogs
from ingest.runlog.parse import read_runlog
from ingest.slurm import load_files as ingesting
from ingest.store.report import InputFaultError, first_error
from metrics.goodput.google_library import library_goodput
from queries.warehouse import open_reader, open_writer
from tests.app.show.test_mfu import HOUR, NOW, START, TOKENS, log, sacct
from tests.app.test_json_text import strict

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

BEGIN = START + HOUR
BIG = (1e308, 1.7976931348623157e308, 2**53, 1e12, 1e11, 5e-324, 0)
NAMES = (
    "evil\0run",
    "../../etc",
    "'; DROP TABLE steps; --",
    "=cmd|'/c calc'!A1",
    "\u202egnp",
    "x" * 1_000,
    "NaN",
    "[]",
)


def hostile(job: str, *, within: bool) -> str:
    """Lines that are read, refused or half believed, in sessions with names and sizes of all kinds.

    Those of a log whose times lie `within` its job are used as far as they can be.
    """
    far, longest = (BEGIN + 3 * HOUR, 600.0) if within else (4.1e9, 1e9)
    lines: list[dict[str, Any]] = []
    for count, name in enumerate(NAMES):
        size = BIG[count % len(BIG)]
        begin = BEGIN + count
        sizes = dict.fromkeys(
            ("n_gpus", "params", "layers", "heads", "head_dim", "seq_len", "flops_per_token", "hidden", "vocab"), size
        )
        named = {"run_id": name, "gpu_model": name, "dtype": name, "flop_convention": "stated"}
        lines.append({"type": "run", "v": 1, "t": begin, "cluster": "c", "job_id": job} | sizes | named)
        for number, value in enumerate(BIG):
            at, took = begin + 100 * number, min(value, longest)
            lines += [
                {
                    "type": "step",
                    "step": number,
                    "t": at,
                    "duration_s": min(value, longest),
                    "tokens": value,
                    "loss": -value,
                },
                {"type": "step", "step": value, "t": at + 1, "duration_s": 1e-300, "tokens": TOKENS},
                {
                    "type": "step",
                    "step": int(min(value, 1e12)),
                    "t": at + 1,
                    "duration_s": longest / 500,
                    "tokens": 1e12,
                },
                {"type": "event", "kind": name, "begin": at, "end": at + took, "step": 10**12},
                {"type": "ckpt", "step": 0, "begin": at, "end": at, "durable": far},
                {"type": "ckpt", "step": 10**12, "begin": 946684800, "end": at, "durable": True},
                {"type": "event", "kind": "step_start", "begin": at + 2, "step": 10**12},
            ]
    return "".join(json.dumps(line) + "\n" for line in lines) + "[" * 100_000 + "\n" + "9" * 5_000 + "\n"


def built(folder: Path, *, with_hostile: bool) -> Path:
    folder.mkdir()
    (folder / "sacct.txt").write_text(sacct())
    (folder / "good.jsonl").write_text(log("good", "7"))
    (folder / "evil.jsonl").write_text(hostile("9", within=True) if with_hostile else log("evil", "9"))
    (folder / "far.jsonl").write_text(hostile("10", within=False) if with_hostile else log("far", "10"))
    files = [str(folder / f"{name}.jsonl") for name in ("evil", "far", "good")]
    with open_writer(folder / "w", verb="test", now=NOW) as writer:
        reports = ingesting.ingest_files(
            writer, Config(), [str(folder / "sacct.txt")], ingesting.Options(), now=NOW, progress=lambda *_: None
        )
        reports += runlogs.ingest_files(writer, files, cluster="c", now=NOW, progress=lambda *_: None)
        assert first_error(reports) is None
        computing.compute(writer, Config(), now=NOW)
    return folder / "w"


@pytest.fixture(scope="module")
def beside(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse with a hostile log beside a sound one."""
    return built(tmp_path_factory.mktemp("hostile") / "a", with_hostile=True)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with two sound ones."""
    return built(tmp_path_factory.mktemp("sound") / "a", with_hostile=False)


def of_good(root: Path) -> list[dict[str, Any]]:
    """The numbers of the sound run."""
    with open_reader(root) as reader:
        (row,) = reader.query("computed", cluster="c").to_dicts()
        window = Window("c", row["since"], row["until"])
        found = [
            mfu_run_rows(reader, window),
            mfu_wall_run_rows(reader, window),
            ettr_run_rows(reader, window),
            job_accounts(reader, window).runs,
        ]
    mine = [rows.filter(pl.col("run_id") == "good").drop("note", strict=False) for rows in found]
    return [row for rows in mine for row in rows.to_dicts()]


@pytest.mark.slow
def test_the_numbers_of_another_run_are_what_they_are_without_it(beside: Path, alone: Path) -> None:
    theirs = of_good(alone)
    assert len(theirs) > 3
    assert of_good(beside) == theirs
    with open_reader(beside) as reader:
        assert reader.table("mfu").filter(pl.col("run_id") != "good")["value"].is_between(0, 2).all()
        assert reader.table("run_metrics").filter(pl.col("run_id") != "good").height


QUESTIONS = (
    ("goodput",), ("goodput", "--by", "run"), ("mfu",), ("mfu", "--by", "run"), ("runs",), ("ettr", "--by", "run"),
    ("checkpoints",), ("restarts",), ("waste",), ("lost",), ("interruptions",), ("mttf",),
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("question", QUESTIONS, ids=" ".join)
def test_every_question_has_an_answer_in_finite_numbers(
    beside: Path, question: tuple[str, ...], capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    assert cli.main(["show", *question, "--format", "json", "--warehouse", str(beside)]) == 0
    strict(capsys.readouterr().out)
    assert caplog.messages == []
    assert cli.main(["show", *question, "--warehouse", str(beside)]) == 0


def test_log_that_cannot_be_loaded_does_not_block_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(chunks: Iterable[bytes], **told: Any) -> object:
        data = b"".join(chunks)
        if b"good" not in data:
            raise IndexError("list index out of range")
        return read_runlog([data], **told)

    monkeypatch.setattr(runlogs, "read_runlog", broken)
    for name in ("bad", "good"):
        (tmp_path / name).write_text(log(name, "7"))
    with open_writer(tmp_path / "w", verb="test", now=NOW) as writer:
        files = [str(tmp_path / "bad"), str(tmp_path / "good")]
        bad, good = runlogs.ingest_files(writer, files, cluster="c", now=NOW, progress=lambda *_: None)
    assert isinstance(bad.error, InputFaultError)
    assert str(bad.error).endswith("bad could not be loaded (IndexError: list index out of range); please report it")
    assert good.parsed is not None


def test_a_run_that_cannot_be_computed_is_left_out_and_named(alone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failures = iter([ZeroDivisionError("division by zero")])

    def broken(*told: Any, **more: Any) -> object:
        for failure in failures:
            raise failure
        return library_goodput(*told, **more)

    monkeypatch.setattr(job_goodput, "library_goodput", broken)
    with open_reader(alone) as reader:
        (row,) = reader.query("computed", cluster="c").to_dicts()
        window = Window("c", row["since"], row["until"])
        found = job_accounts(reader, window)
        (whole,) = job_goodput_rows(reader, window, accounts=found).to_dicts()
    evil, _, good = found.runs.to_dicts()
    assert (evil["run_id"], evil["value"], good["run_id"]) == ("evil", None, "good")
    assert "its log could not be computed (ZeroDivisionError: division by zero)" in evil["note"]
    assert whole["value"] == good["value"] > 0.9
    assert "1 logs that the library refuses, or that could not be computed, left out" in whole["note"]


@pytest.mark.slow
def test_the_report_the_metrics_and_the_verdicts_are_made(
    beside: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    where = ["--warehouse", str(beside)]
    status = cli.main(["report", "sla", "--period", "2026-09", *where, "--format", "json", "-o", str(tmp_path / "r")])
    assert status == 0, capsys.readouterr().err
    assert cli.main(["verify", *where, "--format", "json"]) in {0, 3, 4}
    told = exporter.negotiated(AnswerCache(beside), "", now=NOW + timedelta(hours=1))[0].decode()
    assert 'trackside_goodput_ratio{bound="lower"' in told
    assert not [line for line in told.splitlines() if line.lower().endswith((" inf", " +inf", " -inf", " nan"))]
    assert caplog.messages == []


@pytest.mark.parametrize("page", ["/", "/runs", "/runs/good?cluster=c"])
def test_the_pages_are_served(beside: Path, page: str) -> None:
    client = create_app(beside, Config()).server.test_client()
    assert client.get(page).status_code == 200
