"""The main path, on a real Slurm: jobs of every ending, a node that dies under one, and what Trackside says of them.

The truth comes from outside Slurm's accounting: what job scripts, prologs and a poller of squeue saw.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from app.cli.sources.slurm import DUMP_COMMANDS
from app.results.usage import recorded_use
from queries.warehouse import open_reader
from tests.lab.config import CLUSTER
from tests.lab.scenario.played import played
from tests.support.command import trackside_on

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.lab import SlurmLab
    from tests.lab.truth import ObservedAttempt

pytestmark = [pytest.mark.lab, pytest.mark.xdist_group("lab")]

ONE_GPU = ("-p", "main", "-w", "n3", "-n1", "--gres=gpu:1")


@dataclass(frozen=True)
class Scenario:
    """What was done, and the warehouse that Trackside made of it."""

    lab: SlurmLab
    warehouse: Path
    jobs: dict[str, int]
    killed_at: float

    def trackside(self, *arguments: str) -> str:
        """Output of the command line, which must succeed."""
        return trackside_on(self.lab, self.warehouse, *arguments)

    def rows(self, *arguments: str) -> list[dict[str, Any]]:
        """Rows of a `show` in JSON."""
        result: list[dict[str, Any]] = json.loads(self.trackside("show", *arguments, "--format", "json"))
        return result

    def attempts(self, name: str) -> list[dict[str, Any]]:
        """What the warehouse says of a job, oldest first."""
        with open_reader(self.warehouse) as reader:
            result = reader.table("attempts").filter(pl.col("job_id") == str(self.jobs[name]))
        return result.sort("submitted_at").to_dicts()

    def seen(self, name: str) -> list[ObservedAttempt]:
        """What was seen from outside of a job."""
        return self.lab.truth.attempts(self.jobs[name])


@pytest.fixture(scope="module")
def scenario(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scenario]:
    with played(lambda lab: _play(lab, tmp_path_factory)) as scenario:
        yield scenario


def _play(lab: SlurmLab, tmp_path_factory: pytest.TempPathFactory) -> Scenario:
    jobs = {"timed out": lab.sbatch("sleep 300", *ONE_GPU, "-t", "1")}
    jobs["killed"] = lab.sbatch(
        'if [ "${SLURM_RESTART_COUNT:-0}" = 0 ]; then sleep 300; else sleep 6; fi',
        "-p", "main", "-w", "n1,n2", "-N2", "--ntasks-per-node=1", "--gres=gpu:8", "--requeue",
    )  # fmt: skip
    jobs["completed"] = lab.sbatch("sleep 4", *ONE_GPU[:-1], "--gres=gpu:2")
    jobs["failed"] = lab.sbatch("sleep 2; exit 3", *ONE_GPU)
    jobs["without gpus"] = lab.sbatch("sleep 2", "-p", "main", "-w", "n3", "-n1")
    jobs["cancelled"] = lab.sbatch("sleep 300", *ONE_GPU)
    jobs["requeued"] = lab.sbatch('if [ "${SLURM_RESTART_COUNT:-0}" = 0 ]; then sleep 300; else sleep 3; fi', *ONE_GPU)
    jobs["preempted"] = lab.sbatch(
        'if [ "${SLURM_RESTART_COUNT:-0}" = 0 ]; then sleep 300; else sleep 3; fi',
        "-p", "scav", "-w", "n4", "-n1", "--gres=gpu:8", user="bob",
    )  # fmt: skip
    for name in ("killed", "cancelled", "requeued", "preempted"):
        lab.wait_for(jobs[name], "RUNNING")
    jobs["never started"] = lab.sbatch("sleep 300", "-p", "main", "-w", "n3", "-n1", "--gres=gpu:8")
    time.sleep(3)
    jobs["preempting"] = lab.sbatch("sleep 4", "-p", "main", "-w", "n4", "-n1", "--gres=gpu:8", user="carol")
    lab.scancel(jobs["cancelled"], user="alice")
    lab.scancel(jobs["never started"], user="alice")
    lab.scontrol("requeue", str(jobs["requeued"]))
    killed_at = lab.kill_node("n1")
    lab.wait_until(lambda: "down" in lab.node_state("n1").lower(), 60, "n1 to be called down")
    time.sleep(4)  # so that it is down for a while that can be measured
    lab.start_slurmd("n1")
    for name in ("killed", "requeued", "preempted", "completed", "failed", "preempting"):
        lab.wait_for(jobs[name], "COMPLETED", "FAILED", timeout=120)
    lab.wait_for(jobs["timed out"], "TIMEOUT", timeout=150)
    time.sleep(2)
    lab.truth.look()
    warehouse = tmp_path_factory.mktemp("live") / "warehouse"
    trackside_on(lab, warehouse, "ingest", "slurm")
    trackside_on(lab, warehouse, "compute")
    return Scenario(lab, warehouse, jobs, killed_at)


ENDINGS = {
    "completed": ["COMPLETED"],
    "failed": ["FAILED"],
    "timed out": ["TIMEOUT"],
    "cancelled": ["CANCELLED"],
    "killed": ["NODE_FAIL", "COMPLETED"],
    "requeued": ["REQUEUED", "COMPLETED"],
    "preempted": ["PREEMPTED", "COMPLETED"],
    "preempting": ["COMPLETED"],
}


@pytest.mark.parametrize("name", ENDINGS)
def test_every_attempt_is_as_observed_from_outside(scenario: Scenario, name: str) -> None:
    result, seen = scenario.attempts(name), scenario.seen(name)
    assert [attempt["state"] for attempt in result] == ENDINGS[name]
    assert len(result) == len(seen)
    with open_reader(scenario.warehouse) as reader:
        on_nodes = reader.table("attempt_nodes")
    for attempt, truth in zip(result, seen, strict=True):
        # Slurm cuts to whole seconds, and the poller looks twice a second.
        assert attempt["started_at"].timestamp() == pytest.approx(truth.start, abs=1 + truth.uncertainty_s)
        assert truth.end is not None
        assert attempt["ended_at"].timestamp() == pytest.approx(truth.end, abs=1.5 + truth.uncertainty_s)
        assert attempt["n_gpus"] == truth.gpus
        own = on_nodes.filter(
            (pl.col("job_id") == attempt["job_id"]) & (pl.col("submitted_at") == attempt["submitted_at"])
        ).sort("node")
        assert tuple(own["node"]) == truth.nodes
        assert set(own["n_gpus"]) == {truth.gpus_per_node}


def test_a_job_that_never_got_a_node_holds_nothing(scenario: Scenario) -> None:
    (attempt,) = scenario.attempts("never started")
    assert (attempt["state"], attempt["n_nodes"], attempt["n_gpus"]) == ("CANCELLED", 0, 0)
    assert attempt["started_at"] is None
    assert attempt["node_list"] is None
    assert attempt["cancelled_by"] == "2001"


def test_use_of_steps_is_read_live_and_belongs_to_its_attempt(scenario: Scenario) -> None:
    with open_reader(scenario.warehouse) as reader:
        use = recorded_use(reader, CLUSTER)
    for name in ("completed", "failed", "requeued"):
        ended = scenario.attempts(name)[-1]
        row = use.filter(job_id=ended["job_id"], submitted_at=ended["submitted_at"]).row(0, named=True)
        assert 0 < row["cpu_s"] < row["cpu_held_s"]
        assert 0 < row["used_bytes"] < row["held_bytes"] == ended["alloc_mem_bytes"]
        assert (row["n_lost_steps"], row["worst_step"]) == (0, "batch")


def test_the_dead_node_is_blamed_and_its_gpus_counted_as_stalled(scenario: Scenario) -> None:
    (event,) = (row for row in scenario.rows("interruptions") if row["job_id"] == str(scenario.jobs["killed"]))
    assert (event["state"], event["class"], event["cause"], event["node"]) == (
        "NODE_FAIL", "infrastructure", "node_fail", "n1",
    )  # fmt: skip
    with open_reader(scenario.warehouse) as reader:
        ledger = reader.table("gpu_time").filter(pl.col("job_id") == event["job_id"])
    stalled = ledger.filter(pl.col("category") == "stalled")
    assert set(stalled["node"]) == {"n1"}
    assert set(stalled["cause"]) == {"node_down"}
    # Slurm heard nothing for at least SlurmdTimeout (10 s), and for no longer than the node had been dead.
    dead_s = scenario.seen("killed")[0].end - scenario.killed_at  # type: ignore[operator]  # it has ended
    assert 8 * 10 <= float(stalled["gpu_seconds"].sum()) <= 8 * (dead_s + 2)
    down = reader_rows(scenario, "gpu_time", (pl.col("node") == "n1") & (pl.col("category") == "down"))
    assert float(down["gpu_seconds"].sum()) == pytest.approx(8 * 5, abs=8 * 3)


def reader_rows(scenario: Scenario, table: str, which: pl.Expr) -> pl.DataFrame:
    with open_reader(scenario.warehouse) as reader:
        return reader.table(table).filter(which)


def test_the_requeued_attempt_is_of_the_same_run(scenario: Scenario) -> None:
    for name in ("killed", "requeued", "preempted"):
        job = str(scenario.jobs[name])
        (run,) = scenario.rows("runs", "--run", job)
        assert (run["n_attempts"], run["joined_by"], run["state"]) == (2, "requeue_chain", "COMPLETED")
    (single,) = scenario.rows("runs", "--run", str(scenario.jobs["completed"]))
    assert (single["n_attempts"], single["joined_by"]) == (1, "single")


def test_restart_time_is_as_observed_and_is_hold_and_queue(scenario: Scenario) -> None:
    restarts = {row["job_id"]: row for row in scenario.rows("restarts", "--by", "event")}
    for name, cause in (("killed", "node_fail"), ("preempted", "preempted"), ("requeued", "requeued")):
        row = restarts[str(scenario.jobs[name])]
        first, second = scenario.seen(name)
        assert first.end is not None
        assert row["cause"] == cause
        assert row["time_to_job_restart_s"] == pytest.approx(second.start - first.end, abs=2)
        assert row["time_to_requeue_s"] + row["queue_s"] == row["time_to_job_restart_s"]
        assert row["time_to_requeue_s"] >= 6  # cred_expire + 1: Slurm's own hold after a requeue


def test_classes_of_the_other_endings(scenario: Scenario) -> None:
    result = {row["job_id"]: (row["class"], row["cause"]) for row in scenario.rows("interruptions")}
    expected = {
        "failed": ("user", "failed"),
        "timed out": ("timeout", "timeout"),
        "cancelled": ("user", "cancelled"),
        "preempted": ("preemption", "preempted"),
        "requeued": ("planned", "requeued"),
    }
    assert {name: result[str(scenario.jobs[name])] for name in expected} == expected
    assert str(scenario.jobs["completed"]) not in result
    assert str(scenario.jobs["never started"]) not in result


def test_the_inventory_is_the_clusters(scenario: Scenario) -> None:
    result = {row["node"]: (row["n_gpus"], row["gpu_model"]) for row in scenario.rows("nodes")}
    assert result == {f"n{i}": (8, "h100") for i in range(1, 5)} | {f"n{i}": (4, "a100") for i in (5, 6)}


def test_the_ledger_adds_up_to_capacity_exactly_at_any_clipping(scenario: Scenario) -> None:
    with open_reader(scenario.warehouse) as reader:
        total = reader.frame("SELECT SUM(gpu_seconds) AS s FROM capacity")["s"].item()
        assert total == reader.frame("SELECT SUM(gpu_seconds) AS s FROM gpu_time")["s"].item()
        (span,) = reader.query("computed", cluster="bench").select("since", "until").rows()
    assert total == 40 * int((span[1] - span[0]).total_seconds())
    first = span[0].timestamp()
    for cut in (0.5, 17.25, 40.125):
        low, high = first + cut, first + cut + 33.0625
        window = ["--since", iso(low), "--until", iso(high)]
        shares = scenario.rows("lost", *window)
        assert sum(row["gpu_seconds"] for row in shares) == pytest.approx(40 * 33.0625, abs=1e-9)


def iso(moment: float) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(moment, UTC).isoformat()


def test_ingesting_again_changes_nothing(scenario: Scenario) -> None:
    tables = ("attempts", "attempt_nodes", "node_states", "rejects")
    with open_reader(scenario.warehouse) as reader:
        before = {name: reader.table(name) for name in tables}
    scenario.trackside("ingest", "slurm")
    with open_reader(scenario.warehouse) as reader:
        for name, rows in before.items():
            again = reader.table(name)
            columns = rows.columns
            assert again.sort(columns).equals(rows.sort(columns)), name


def test_slurmdbd_down_is_reported_and_loads_nothing_partial(scenario: Scenario, tmp_path: Path) -> None:
    (tmp_path / "trackside.toml").write_text("[slurm]\nretry_s = 0.2\n")  # asks as often, and sooner
    scenario.lab.stop_slurmdbd()
    try:
        done = subprocess.run(
            [sys.executable, "-m", "app.cli.main", "ingest", "slurm", "--warehouse", str(tmp_path / "w")],
            env={**scenario.lab.env, "TRACKSIDE_CONFIG": str(tmp_path / "trackside.toml")},
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        scenario.lab.start_slurmdbd()
    assert done.returncode == 21
    assert "slurmdbd" in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) < 30
    trackside_on(scenario.lab, tmp_path / "w", "ingest", "slurm")
    with open_reader(tmp_path / "w") as reader:
        assert reader.table("attempts").height > 0


def test_the_dumps_of_the_help_make_the_same_picture(scenario: Scenario, tmp_path: Path) -> None:
    """Word for word as people will copy them, but for the date."""
    commands = DUMP_COMMANDS.replace("2026-10-01", "2020-01-01")
    subprocess.run(["bash", "-euc", commands], env=dict(scenario.lab.env), cwd=tmp_path, check=True)
    files = sorted(str(path) for path in tmp_path.glob("*.txt"))

    output = trackside_on(scenario.lab, tmp_path / "warehouse", "ingest", "slurm", *files)

    assert len(files) == DUMP_COMMANDS.count(" > ")
    with open_reader(tmp_path / "warehouse") as dumped, open_reader(scenario.warehouse) as live:
        assert dumped.table("rejects").is_empty(), output
        assert set(dumped.table("loads")["source"]) == set(live.table("loads")["source"]) - {"slurm.runaway"}
        for table in ("attempts", "attempt_nodes", "nodes", "qos", "node_topology"):
            assert dumped.table(table).height >= live.table(table).height > 0, table
