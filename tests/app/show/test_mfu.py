"""From files to MFU: conventions, steps, all allocated time, and tensor activity beside the logs."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeAlias

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from app.cli import main as cli
from app.compute import pipeline as computing
from app.config.settings import Config
from app.show.answer import Question
from app.show.registry import question_of
from app.window import Window
from ingest.prometheus.load_files import ingest_files
from ingest.prometheus.target import TelemetryRequest
from ingest.runlog import store as runlogs
from ingest.slurm import load_files as ingesting
from ingest.store.report import first_error
from queries.warehouse import open_reader, open_writer
from tests.support.command import trackside

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

NOW = datetime(2026, 11, 1, tzinfo=UTC)
START = 1_790_002_800  # 2026-09-21T15:00:00Z
HOUR = 3600
H100 = "NVIDIA H100 80GB HBM3"
PEAK = 989e12
MODEL: dict[str, Any] = {
    "gpu_model": H100, "dtype": "bf16", "n_gpus": 8, "params": 8_030_261_248, "layers": 32, "heads": 32,
    "head_dim": 128, "seq_len": 8192, "hidden": 4096, "ffn_hidden": 14336, "kv_heads": 8, "vocab": 128256,
    "gated": True, "tied": False, "recompute": "full",
}  # fmt: skip
PER_TOKEN = 6 * 8_030_261_248 + 12_884_901_888
TOKENS = 8 * 10 * 0.4 * PEAK / PER_TOKEN
"""Of a step of 10 s at 40 % MFU."""

HEAD = (
    "JobID|JobIDRaw|Cluster|User|Account|Partition|JobName|State|ExitCode|Submit|Eligible|Start|End|NNodes|AllocTRES"
    "|NodeList\n"
)
JOBS = {"7": "n1", "8": "n2", "9": "n3", "10": "n4"}
TENSOR = {"n1": 0.6, "n2": 0.5, "n3": 0.2, "n4": 0.9}
"""Tensor activity: n2's job keeps no log; n3's logs say more than its pipes did, n4's much less."""


def sacct() -> str:
    rows = (
        f"{job}|{job}|c|alice|lab|main|train|COMPLETED|0:0|{START}|{START}|{START}|{START + 5 * HOUR}|1|"
        f"cpu=64,gres/gpu:h100=8,gres/gpu=8,node=1|{node}\n"
        for job, node in JOBS.items()
    )
    return HEAD + "".join(rows)


def log(run: str, job: str, **facts: object) -> str:
    """Steps of 10 s without a break, an hour after the start and for four hours."""
    begin = START + HOUR
    lines: list[dict[str, Any]] = [
        {"type": "run", "v": 1, "t": begin - 60, "run_id": run, "cluster": "c", "job_id": job, **MODEL, **facts}
    ]
    lines += [
        {"type": "step", "step": n, "t": begin + 10 * n, "duration_s": 10.0, "tokens": TOKENS} for n in range(1440)
    ]
    return "".join(json.dumps(line) + "\n" for line in lines)


def dcgm() -> str:
    """Every minute the tensor activity and the SM clock of all GPUs."""
    result = []
    for node, activity in TENSOR.items():
        for gpu in range(8):
            labels = f'gpu="{gpu}",UUID="GPU-{node}-{gpu}",modelName="{H100}",Hostname="{node}"'
            for second in range(START, START + 5 * HOUR + 1, 60):
                result += [
                    f"DCGM_FI_PROF_PIPE_TENSOR_ACTIVE{{{labels}}} {activity} {second}",
                    f"DCGM_FI_DEV_SM_CLOCK{{{labels}}} 1830 {second}",
                ]
    return "\n".join([*result, "# EOF"]) + "\n"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mfu")
    (folder / "sacct.txt").write_text(sacct())
    (folder / "dcgm.om").write_text(dcgm())
    logs = [("llama", "7", {}), ("boast", "9", {}), ("mixed", "10", {"dtype": "bf16+fp8", "recompute": None})]
    for run, job, facts in logs:
        (folder / f"{run}.jsonl").write_text(log(run, job, **facts))
    with open_writer(folder / "w", verb="test", now=NOW) as writer:
        reports = ingesting.ingest_files(
            writer, Config(), [str(folder / "sacct.txt")], ingesting.Options(), now=NOW, progress=lambda *_: None
        )
        requested = TelemetryRequest(cluster="c")
        reports += ingest_files(
            writer, Config(), [str(folder / "dcgm.om")], requested, now=NOW, progress=lambda *_: None
        )
        files = [str(folder / f"{run}.jsonl") for run, _, _ in logs]
        reports += runlogs.ingest_files(writer, files, cluster="c", now=NOW, progress=lambda *_: None)
        assert first_error(reports) is None
        computing.compute(writer, Config(), now=NOW)
    return folder / "w"


Ask: TypeAlias = "Callable[..., str]"
Shown: TypeAlias = "Callable[..., list[dict[str, Any]]]"


@pytest.fixture
def ask(root: Path, capsys: pytest.CaptureFixture[str]) -> Ask:
    """What `show mfu` prints, in this process."""

    def printed(*arguments: str) -> str:
        capsys.readouterr()
        assert cli.main(["show", "mfu", *arguments, "--warehouse", str(root)]) == 0
        return capsys.readouterr().out

    return printed


@pytest.fixture
def shown(ask: Ask) -> Shown:
    """Its rows."""

    def rows(*arguments: str) -> list[dict[str, Any]]:
        result: list[dict[str, Any]] = json.loads(ask(*arguments, "--format", "json"))
        return result

    return rows


def of(rows: list[dict[str, Any]], **wanted: object) -> dict[str, Any]:
    (row,) = (row for row in rows if all(row[name] == value for name, value in wanted.items()))
    return row


def test_one_log_gives_every_convention_of_mfu_and_hfu(shown: Shown) -> None:
    rows = shown("--run", "llama")
    per_token = {
        "palm_full": PER_TOKEN, "causal_half": PER_TOKEN - 12_884_901_888 / 2, "6N_only": 6 * 8_030_261_248,
        "megatron_legacy": 57_912_852_480, "megatron_causal": 51_470_401_536, "torchtitan": 57_914_449_920,
    }  # fmt: skip
    for convention, flop in per_token.items():
        row = of(rows, convention=convention, measure="mfu")
        assert row["value"] == pytest.approx(0.4 * flop / PER_TOKEN, rel=1e-6)
        assert (row["mean"], row["median"]) == (pytest.approx(row["value"]), pytest.approx(row["value"]))
    assert of(rows, convention="palm_full", measure="hfu")["value"] == pytest.approx(0.4 * 4 / 3)
    assert of(rows, convention="executed", measure="hfu")["value"] == pytest.approx(0.4 * 4 / 3)


def test_over_all_time_is_what_the_steps_took_of_it(root: Path, shown: Shown) -> None:
    row = of(shown("--run", "llama", "--convention", "palm_full"), measure="mfu")
    assert row["step_share"] == pytest.approx(4 / 5)
    assert row["mfu_wall"] == pytest.approx(0.4 * 4 / 5)
    with open_reader(root) as reader:
        stored = reader.table("cluster_metrics").filter(pl.col("metric") == "mfu_wall").row(0, named=True)
    assert stored["numerator"] / stored["denominator"] == pytest.approx(stored["value"])
    assert stored["bound_low"] == pytest.approx(stored["value"])


def test_run_with_two_data_types_is_shown_over_both_peaks(shown: Shown) -> None:
    """The higher peak comes first."""
    rows = [row for row in shown("--run", "mixed", "--convention", "palm_full") if row["measure"] == "mfu"]
    assert [row["dtype"] for row in rows] == ["fp8", "bf16"]
    assert [row["value"] for row in rows] == pytest.approx([0.4 * 989 / 1979, 0.4])
    assert all("several data types" in row["note"] for row in rows)


@pytest.mark.slow
@pytest.mark.parametrize("question", [{}, {"convention": "causal_half"}, {"by": "run"}, {"run": "mixed"}], ids=str)
def test_stored_mfu_equals_computed(root: Path, question: dict[str, Any]) -> None:
    entry = question_of("mfu")
    with open_reader(root) as reader:
        computed = reader.query("computed", cluster="c").row(0, named=True)
        whole = Window("c", computed["since"], computed["until"])
        read, made = (entry(reader, whole, Question(**question, details=details)) for details in (False, True))
        part = entry(
            reader, replace(whole, until=whole.until - timedelta(hours=1)), Question(**question, details=False)
        )
    assert_frame_equal(read.rows, made.rows, check_exact=True)
    assert (read.notes, read.headline, read.columns) == (made.notes, made.headline, made.columns)
    assert ("steps" in part.queries, "steps" in read.queries) == (True, False)
    brief = [] if read.brief is None else read.brief.rows.select("run_id", "measure", "convention").unique().rows()
    assert len(brief) == (read.rows["run_id"].n_unique() if question == {"by": "run"} else 0)


def test_hfu_needs_the_recomputed_share(shown: Shown) -> None:
    assert {row["measure"] for row in shown("--run", "mixed")} == {"mfu"}


@pytest.mark.slow
def test_each_step_has_its_parts(shown: Shown) -> None:
    rows = shown("--by", "step", "--run", "llama")
    assert len(rows) == 1440
    assert rows[5]["step"] == 5
    assert (rows[5]["tokens"], rows[5]["seconds"]) == (pytest.approx(TOKENS), 10.0)
    assert rows[5]["mfu"] == pytest.approx(0.4)
    assert rows[5]["flop"] / rows[5]["peak_flop"] == pytest.approx(rows[5]["mfu"])


def test_by_gpu_and_data_type(shown: Shown) -> None:
    rows = shown("--by", "gpu_model", "--convention", "palm_full")
    assert of(rows, dtype="bf16", metric="mfu")["value"] == pytest.approx(0.4)
    assert of(rows, dtype="bf16+fp8", metric="mfu")["gpu_model"] == "H100 SXM"


def test_tensor_activity_is_calibrated_against_the_logs(root: Path, shown: Shown) -> None:
    rows = shown("--by", "proxy")
    mine = of(rows, run_id="llama")
    assert (mine["n"], mine["gpu_hours"]) == (4, 32)
    assert (mine["mfu_log"], mine["hfu_est"]) == (pytest.approx(0.4), pytest.approx(0.6, abs=1e-6))
    assert mine["slope"] == pytest.approx(2 / 3, abs=1e-5)
    assert mine["residual"] == pytest.approx(0, abs=1e-6)
    both = of(rows, run_id="", dtype="bf16")
    assert both["slope"] == pytest.approx((0.6 * 0.4 + 0.2 * 0.4) / (0.36 + 0.04), abs=1e-5)
    with open_reader(root) as reader:
        assert reader.table("mfu_proxies").height == len(rows)


@pytest.mark.slow
def test_logs_that_do_not_fit_the_pipes_are_reported(root: Path, ask: Ask, shown: Shown) -> None:
    rows = shown("--by", "proxy")
    assert {row["run_id"] for row in rows if row["run_id"] and row["disagrees"]} == {"boast", "mixed"}
    assert "more than the tensor pipes can have done" in of(rows, run_id="boast")["note"]
    assert "did more than 2 times" in of(rows, run_id="mixed")["note"]
    assert "boast: MFU 40.0 % by its logs" in ask()
    with open_reader(root) as reader:
        (failed,) = (each for each in reader.checks() if each.check.name == "source_mfu_disagrees")
    assert failed.count == 2


@pytest.mark.slow
def test_run_without_a_log_gets_a_separate_mfu_estimate(root: Path, shown: Shown) -> None:
    """No other figure contains the estimate."""
    (row,) = shown("--by", "estimate")
    slope = of(shown("--by", "proxy"), run_id="", dtype="bf16")["slope"]
    assert row["value"] == pytest.approx(slope * 0.5, abs=1e-5)
    assert (row["n"], row["metric"], row["evidence_telemetry"]) == (5, "mfu_estimated", 1.0)
    assert row["numerator"] / row["denominator"] == pytest.approx(row["value"])
    assert row["run_id"] not in {each["run_id"] for each in shown("--by", "run")}
    with open_reader(root) as reader:
        stored = reader.table("cluster_metrics").filter(pl.col("metric") == "mfu_estimated").row(0, named=True)
    assert stored["value"] == pytest.approx(row["value"])
    assert "estimate" in stored["note"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "by", [(), ("--by", "run"), ("--by", "step"), ("--by", "gpu_model"), ("--by", "proxy"), ("--by", "estimate")]
)
def test_every_answer_has_an_explanation_and_json(ask: Ask, tmp_path: Path, by: tuple[str, ...]) -> None:
    assert "SELECT" in ask(*by, "--explain")
    file = tmp_path / "rows.parquet"
    ask(*by, "--output", str(file))
    assert pl.read_parquet(file).height == len(ask(*by, "--format", "csv").splitlines()) - 1 > 0


def test_a_convention_that_does_not_exist_is_refused(root: Path) -> None:
    done = trackside("show", "mfu", "--convention", "palm", "--warehouse", str(root))
    assert done.returncode == 2
    assert "palm_full" in done.stderr
    other = trackside("show", "runs", "--convention", "palm_full", "--warehouse", str(root))
    assert "does not take --convention; these do: show mfu, show scaling" in other.stderr
