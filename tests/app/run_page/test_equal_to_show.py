"""The numbers of the page are those of `trackside show`, and it reads the rows of its own run only."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from app.config.settings import Config
from app.run_page.contents import gather
from app.run_page.document import document
from app.run_page.request import choose
from ingest.slurm.accounting.jobstats import digest
from ingest.tables import ATTEMPT_KEY, JOB_SUMMARIES, STEP_USAGE, conform
from queries.run_filter import CONDITIONS
from queries.warehouse import Reader, open_reader, open_writer
from tests.support.command import trackside
from tests.support.warehouses import from_everything

if TYPE_CHECKING:
    from pathlib import Path

    from queries.warehouse import Writer

Row = dict[str, Any]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = from_everything(tmp_path_factory.mktemp("run_equal"))
    with open_writer(root, verb="test", now=datetime(2026, 11, 23, tzinfo=UTC)) as writer, writer.transaction():
        _record_use(writer)
    return root


def _record_use(writer: Writer) -> None:
    """Give every attempt that started a step and a summary of jobstats: the demo's accounting has neither."""
    comment = "JS1:one for all"
    attempts = writer.frame("SELECT * FROM stored.attempts WHERE started_at IS NOT NULL")
    writer.replace("stored.attempts", attempts.with_columns(admin_comment=pl.lit(comment)), keys=ATTEMPT_KEY)
    steps = attempts.select(*ATTEMPT_KEY[:3], "started_at", "elapsed_s", step=pl.lit("batch"), cpu_s="elapsed_s")
    writer.append("step_usage", conform(steps, STEP_USAGE))
    writer.append("job_summaries", conform(pl.DataFrame({"digest": digest(comment), "node": "n1"}), JOB_SUMMARIES))


@pytest.fixture(scope="module")
def runs(root: Path) -> dict[str, str]:
    """A run of each kind: with logs and most attempts, and without a log."""
    with open_reader(root) as reader:
        logged = reader.table("run_sessions")["run_id"].unique()
        by_attempts = reader.table("runs").filter(pl.col("n_gpus") > 0).sort("n_attempts", "run_id", descending=True)
    is_logged = pl.col("run_id").is_in(logged.to_list())
    return {
        "logged": by_attempts.filter(is_logged)["run_id"][0],
        "unlogged": by_attempts.filter(~is_logged)["run_id"][0],
    }


@pytest.fixture(scope="module", params=["logged", "unlogged"])
def pair(request: pytest.FixtureRequest, root: Path, runs: dict[str, str]) -> tuple[Path, str, Row]:
    """The warehouse, a run, and its page."""
    run = runs[request.param]
    with open_reader(root) as reader:
        contents = gather(reader, choose(reader, run, None, environment={}, user=None), Config().rules)
    return root, run, json.loads(json.dumps(document(contents), default=str))


def shown(root: Path, *arguments: str) -> list[Row]:
    """Rows of `trackside show`."""
    done = trackside("show", *arguments, "--format", "json", "--warehouse", str(root))
    assert done.returncode == 0, done.stderr
    rows: list[Row] = json.loads(done.stdout)
    return rows


@pytest.mark.slow
def test_ettr_and_its_parts_are_those_of_show_ettr(pair: tuple[Path, str, Row]) -> None:
    root, run, page = pair
    (row,) = shown(root, "ettr", "--run", run)
    parts = (
        "ettr",
        "ettr_low",
        "ettr_high",
        "productive",
        "allocated",
        "wall_gpu_s",
        "queued_initial",
        "queued_requeue",
    )
    assert {name: page["ettr"][name] for name in parts} == {name: row[name] for name in parts}


@pytest.mark.slow
def test_categories_are_those_of_show_lost(pair: tuple[Path, str, Row]) -> None:
    root, run, page = pair
    lost: dict[str, float] = {}
    for row in shown(root, "lost", "--by", "run"):
        if row["subject"] == run:
            lost[row["category"]] = lost.get(row["category"], 0.0) + float(row["gpu_seconds"])
    held: dict[str, float] = {}
    for row in page["categories"]:
        if row["category"] not in {"queued", "requeued"}:
            held[row["category"]] = held.get(row["category"], 0.0) + row["gpu_seconds"]
    assert held == pytest.approx(lost)
    assert sum(row["gpu_seconds"] for row in page["categories"]) == pytest.approx(page["ettr"]["wall_gpu_s"])


def test_interruptions_cost_what_show_interruptions_has(pair: tuple[Path, str, Row]) -> None:
    root, run, page = pair
    rows = {row["attempt_no"]: row["cost_gpu_s"] for row in shown(root, "interruptions", "--run", run)}
    assert {row["attempt_no"]: row["cost_gpu_s"] for row in page["interruptions"]} == rows


def test_restarts_are_those_of_show_restarts(pair: tuple[Path, str, Row]) -> None:
    root, run, page = pair
    names = ("attempt_no", "time_to_job_restart_s", "time_to_first_step_s")
    rows = shown(root, "restarts", "--by", "event", "--run", run)
    assert [[row[name] for name in names] for row in page["restarts"]] == [
        [row[name] for name in names] for row in rows
    ]


@pytest.mark.slow
def test_mfu_is_that_of_show_mfu(pair: tuple[Path, str, Row]) -> None:
    root, run, page = pair
    names = ("measure", "convention", "value", "ci_low", "ci_high", "n")
    rows = shown(root, "mfu", "--run", run)
    assert [[row[name] for name in names] for row in page["mfu_by_convention"]] == [
        [row[name] for name in names] for row in rows
    ]
    for row in rows:
        assert row["mfu_wall"] == pytest.approx(row["value"] * page["mfu_wall_share"])


@pytest.mark.slow
def test_checkpoint_advice_is_that_of_show_checkpoints(pair: tuple[Path, str, Row]) -> None:
    root, run, page = pair
    (row,) = shown(root, "checkpoints", "--run", run)
    if page["steps"] is None:
        assert (page["checkpoints"], row["n_checkpoints"]) == (None, 0)
        return
    names = ("n_checkpoints", "interval_s", "optimal_s", "optimal_low_s", "optimal_high_s", "gain_gpu_s", "advice")
    assert {name: page["checkpoints"][name] for name in names} == {name: row[name] for name in names}


def test_utilisation_is_that_of_show_utilisation(pair: tuple[Path, str, Row]) -> None:
    root, run, page = pair
    (row,) = [row for row in shown(root, "utilisation", "--by", "run") if row["subject"] == run]
    names = ("allocated_s", "observed_s", "idle_s", "gpu_util", "tensor_active", "power_w", "coverage")
    assert {name: page["utilisation"][name] for name in names} == pytest.approx({name: row[name] for name in names})


@pytest.mark.slow
@pytest.mark.parametrize("name", CONDITIONS)
def test_narrowed_query_returns_the_rows_of_the_run(root: Path, runs: dict[str, str], name: str) -> None:
    run = runs["logged"]
    with open_reader(root) as reader:
        computed = reader.query("computed", cluster="demo").row(0, named=True)
        window = {"cluster": "demo", "since": computed["since"], "until": computed["until"], "dimension": "run"}
        window["of_class"] = ""
        jobs = reader.table("run_attempts").filter(pl.col("run_id") == run).select("scheduler", "job_id").unique()
        everything, own = reader.query(name, **window), reader.query_of_runs(name, [run], **window)
    if name == "ledger_sums":
        expected = everything.filter(pl.col("subject") == run)
    elif "run_id" in everything.columns and name != "run_attempts":
        expected = everything.filter(pl.col("run_id") == run)
    else:
        expected = everything.join(jobs, on=["scheduler", "job_id"], how="semi")
    assert own.height == expected.height > 0
    assert own.sort(own.columns).equals(expected.select(own.columns).sort(own.columns))


@pytest.fixture
def rows_read(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """How many rows each query returned."""
    read: list[tuple[str, int]] = []
    for method in ("query", "query_of_runs"):
        original = getattr(Reader, method)

        def counted(self: Reader, name: str, *args: Any, _original: Any = original, **params: Any) -> pl.DataFrame:
            rows: pl.DataFrame = _original(self, name, *args, **params)
            read.append((name, rows.height))
            return rows

        monkeypatch.setattr(Reader, method, counted)
    return read


@pytest.mark.slow
def test_page_reads_the_rows_of_its_run_only(
    root: Path, runs: dict[str, str], rows_read: list[tuple[str, int]]
) -> None:
    with open_reader(root) as reader:
        gather(reader, choose(reader, runs["unlogged"], None, environment={}, user=None), Config().rules)
        whole = reader.query("attempts", cluster="demo").height
    of_page = rows_read[:-1]
    assert max(height for name, height in of_page if name != "stored_failure_rates") <= 16  # steps of three attempts
    assert sum(height for _, height in of_page) < whole
