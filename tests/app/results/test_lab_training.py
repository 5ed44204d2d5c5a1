"""The whole road on real parts: a training loop under real Slurm that logs, GPUs watched by a real Prometheus.

A node dies under the loop; Slurm requeues it; it goes on from its last checkpoint. Beside it a job holds eight GPUs
and leaves them idle. What Trackside says is held against what the loop itself wrote down, by other means.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from ingest.runlog.recorder import trackside_log
from queries.warehouse import open_reader
from tests.lab.dcgm_exporter import DcgmExporter
from tests.lab.prometheus import PrometheusLab, need_prometheus
from tests.lab.scenario.played import played
from tests.metrics.oracles.flops import flops_per_token

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.lab import SlurmLab

pytestmark = [pytest.mark.lab, pytest.mark.xdist_group("lab")]

LAST = 60
KILLED_AT_STEP = 22
GPUS = 16
PEAK = 989e12
TOKENS, SAVE_EVERY = 100_000, 5  # as in tests/lab/loops/training_loop.py


@dataclass(frozen=True)
class Training:
    """What was done, what the loop saw, and the warehouse that Trackside made of it."""

    job: int
    idle_job: int
    truth: list[dict[str, Any]]
    warehouse: Path
    killed_at: float

    def rows(self, *arguments: str) -> list[dict[str, Any]]:
        """Rows of a `show` in JSON."""
        result: list[dict[str, Any]] = json.loads(trackside(self.warehouse, "show", *arguments, "--format", "json"))
        return result

    def table(self, name: str, which: pl.Expr) -> pl.DataFrame:
        with open_reader(self.warehouse) as reader:
            return reader.table(name).filter(which)

    def steps(self, attempt: int) -> list[dict[str, Any]]:
        return [line for line in self.truth if line["kind"] == "step" and line["attempt"] == attempt]


def trackside(warehouse: Path, *arguments: str, lab: SlurmLab | None = None) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "app.cli.main", *arguments, "--warehouse", str(warehouse)],
        env=None if lab is None else dict(lab.env),
        cwd=warehouse.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def truth_of(folder: Path) -> list[dict[str, Any]]:
    path = folder / "truth.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def busy(exporter: DcgmExporter, share: float) -> None:
    exporter.set("DCGM_FI_DEV_GPU_UTIL", round(share * 100))
    exporter.set("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", share * 0.5)
    exporter.set("DCGM_FI_PROF_GR_ENGINE_ACTIVE", share)
    exporter.set("DCGM_FI_DEV_POWER_USAGE", 90 + 600 * share)
    exporter.set("DCGM_FI_DEV_XID_ERRORS", 0)


@pytest.fixture(scope="module")
def training(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Training]:
    need_prometheus()
    with played(lambda lab: _play(lab, tmp_path_factory)) as scenario:
        yield scenario


def _play(lab: SlurmLab, tmp_path_factory: pytest.TempPathFactory) -> Training:
    work = lab.layout.base / "training"
    work.mkdir()
    work.chmod(0o777)
    shutil.copy(Path(trackside_log.__file__), work / "trackside_log.py")
    shutil.copy(Path(__file__).parents[2] / "lab" / "loops" / "training_loop.py", work / "loop.py")
    warehouse = tmp_path_factory.mktemp("training") / "warehouse"
    with ExitStack() as stack:
        exporters = {name: stack.enter_context(DcgmExporter(name)) for name in ("n1", "n2", "n3")}
        for exporter in exporters.values():
            busy(exporter, 0.0)
        prometheus = stack.enter_context(PrometheusLab(targets=[e.address for e in exporters.values()], scrape_s=1))
        idle_job = lab.sbatch("sleep 600", "-p", "main", "-w", "n3", "-N1", "--gres=gpu:8")
        job = lab.sbatch(
            f"cd {work} && /usr/bin/python3 loop.py {work} {LAST}",
            "-p", "main", "-w", "n1,n2", "-N2", "--ntasks-per-node=1", "--gres=gpu:8", "--requeue",
        )  # fmt: skip
        lab.wait_for(job, "RUNNING")
        for name in ("n1", "n2"):
            busy(exporters[name], 0.9)
        lab.wait_until(
            lambda: any(line.get("step") == KILLED_AT_STEP for line in truth_of(work)),
            60,
            "the loop to be on its way",
            seldom=0.1,  # before the next checkpoint
        )
        exporters["n1"].set("DCGM_FI_DEV_XID_ERRORS", 79, gpu=3)
        killed_at = lab.kill_node("n1")
        lab.wait_until(lambda: "down" in lab.node_state("n1").lower(), 60, "n1 to be called down")
        exporters["n1"].set("DCGM_FI_DEV_XID_ERRORS", 0, gpu=3)
        lab.start_slurmd("n1")
        lab.wait_for(job, "COMPLETED", timeout=120)
        lab.scancel(idle_job)
        lab.wait_for(idle_job, "CANCELLED")
        time.sleep(12)  # so that the last ten seconds have been scraped
        trackside(warehouse, "ingest", "slurm", lab=lab)
        trackside(warehouse, "ingest", "runlog", str(work / "run.jsonl"), lab=lab)
        (warehouse.parent / "trackside.toml").write_text(
            f'[prometheus]\nurl = "{prometheus.url}"\ncluster = "bench"\ninterval_s = 10\nlookback_hours = 1\n'
        )
        trackside(warehouse, "ingest", "prometheus", lab=lab)
    trackside(warehouse, "compute", lab=lab)
    return Training(job, idle_job, truth_of(work), warehouse, killed_at)


def test_training_is_one_named_run_of_two_attempts(training: Training) -> None:
    (run,) = training.rows("runs", "--run", "lab-llama")
    assert (run["n_attempts"], run["joined_by"], run["state"], run["n_gpus"]) == (2, "explicit", "COMPLETED", GPUS)


def test_the_ledger_has_the_loops_own_seconds(training: Training) -> None:
    resumed = training.steps(1)[0]["step"]
    assert resumed == KILLED_AT_STEP // SAVE_EVERY * SAVE_EVERY  # the kill came behind a checkpoint
    lost = [line for line in training.steps(0) if line["step"] >= resumed]
    saves = [line for line in training.truth if line["kind"] == "save"]
    ledger = training.table("gpu_time", pl.col("job_id") == str(training.job))
    spent = dict(ledger.group_by("category").agg(pl.col("gpu_seconds").sum().cast(pl.Float64)).rows())
    saving = sum(line["end"] - line["begin"] for line in saves)
    # Slurm cuts an attempt's end to the second, and with it what its log says of the rest.
    assert spent["checkpoint"] == pytest.approx(GPUS * saving, abs=GPUS * 1.0)
    kept = [line for line in training.steps(0) if line["step"] < resumed] + training.steps(1)
    assert spent["productive"] == pytest.approx(GPUS * sum(s["end"] - s["begin"] for s in kept), abs=GPUS * 1.5)
    # Lost: the steps that were run again, and one more that the kill cut short.
    redone = sum(s["end"] - s["begin"] for s in lost)
    assert GPUS * redone * 0.9 <= spent["lost"] <= GPUS * (redone + 0.6) * 1.1
    assert set(ledger.filter(pl.col("category") == "lost")["cause"]) == {"node_fail"}
    assert set(ledger.filter(pl.col("category").is_in(["productive", "lost", "checkpoint"]))["evidence"]) == {"log"}
    held = training.table("attempts", pl.col("job_id") == str(training.job)).select(
        ((pl.col("ended_at") - pl.col("started_at")).dt.total_seconds() * GPUS).sum()
    )
    assert ledger["gpu_seconds"].sum() == held.item()  # decimals, so to the last of them


def test_lost_steps_are_those_that_were_run_twice(training: Training) -> None:
    from app.results.runs.runs import run_steps

    with open_reader(training.warehouse) as reader:
        steps = run_steps(reader, "bench", "lab-llama")
    twice = {s["step"] for s in training.steps(0)} & {s["step"] for s in training.steps(1)}
    assert twice
    assert set(steps.filter(~pl.col("kept"))["step"]) == twice
    assert set(steps.filter("kept")["step"]) == set(range(LAST))


def test_mfu_is_what_the_loops_own_clock_gives(training: Training) -> None:
    (row,) = (r for r in training.rows("mfu", "--run", "lab-llama") if r["convention"] == "palm_full")
    resumed = training.steps(1)[0]["step"]
    kept = [line for line in training.steps(0) if line["step"] < resumed] + training.steps(1)
    per_token = flops_per_token("palm_full", params=8.03e9, layers=32, heads=32, head_dim=128, seq_len=8192)
    flop = per_token * TOKENS * LAST
    assert row["numerator"] == pytest.approx(flop)
    assert row["value"] == pytest.approx(flop / (GPUS * PEAK * sum(s["end"] - s["begin"] for s in kept)), rel=0.05)


def test_restart_times_are_the_loops(training: Training) -> None:
    (row,) = (r for r in training.rows("restarts", "--by", "event") if r["run_id"] == "lab-llama")
    t0 = training.steps(0)[-1]["end"]
    again = next(line for line in training.steps(1) if line["step"] == training.steps(0)[-1]["step"])
    assert row["time_to_first_step_s"] == pytest.approx(training.steps(1)[0]["end"] - t0, abs=0.2)
    assert row["time_to_recover_s"] == pytest.approx(again["end"] - t0, abs=0.2)
    assert 0.4 < row["load_s"] < row["time_to_first_step_s"]  # it sleeps for 0.5 s, and longer on a busy machine
    assert row["launch_s"] >= 0
    assert row["time_to_job_restart_s"] >= 6


def test_telemetry_identifies_the_idle_gpus(training: Training) -> None:
    ledger = training.table("gpu_time", pl.col("job_id") == str(training.idle_job))
    spent = dict(ledger.group_by("category").agg(pl.col("gpu_seconds").sum().cast(pl.Float64)).rows())
    reported = ledger.filter(pl.col("category") == "stalled")
    assert set(reported["cause"]) == {"idle_gpus"}
    assert set(reported["evidence"]) == {"telemetry"}
    # All but what lies before the first and behind the last whole ten seconds.
    assert spent["stalled"] >= 8 * (sum(spent.values()) / 8 - 25)


def test_the_xid_is_an_event_and_explains_the_interruption(training: Training) -> None:
    events = training.table("health_events", pl.col("kind") == "xid")
    assert events.select("node", "gpu", "code", "class").rows() == [("n1", "3", "79", "HW")]
    assert events["ts"][0].timestamp() == pytest.approx(training.killed_at, abs=12)
    (event,) = (r for r in training.rows("interruptions") if r["job_id"] == str(training.job))
    assert (event["class"], event["node"]) == ("infrastructure", "n1")


def test_the_ledger_still_adds_up_to_capacity(training: Training) -> None:
    with open_reader(training.warehouse) as reader:
        total = reader.frame("SELECT SUM(gpu_seconds) AS s FROM capacity")["s"].item()
        assert total == reader.frame("SELECT SUM(gpu_seconds) AS s FROM gpu_time")["s"].item()


def test_reading_everything_again_changes_nothing(training: Training) -> None:
    tables = ("run_sessions", "run_events", "gpu_hours", "health_events", "steps", "gpu_samples")
    with open_reader(training.warehouse) as reader:
        before = {name: reader.table(name) for name in tables}
    assert before["steps"].height == len([line for line in training.truth if line["kind"] == "step"])
    assert all(rows.height > 0 for rows in before.values())
