"""Requeues on a real Slurm: every way in which a job comes back, and runs of several jobs, as Trackside joins them.

The truth comes from outside Slurm's accounting: what job scripts, prologs and a poller of squeue saw.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from queries.warehouse import open_reader
from tests.lab.scenario.played import played
from tests.support.command import trackside_on

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.lab import SlurmLab
    from tests.lab.truth import ObservedAttempt

pytestmark = [pytest.mark.lab, pytest.mark.xdist_group("lab")]

FIRST_LONG = 'if [ "${SLURM_RESTART_COUNT:-0}" = 0 ]; then sleep 300; else sleep 3; fi'
FIRST_42 = 'sleep 2; if [ "${SLURM_RESTART_COUNT:-0}" = 0 ]; then exit 42; fi; sleep 2'
ONE = ("-N1", "-n1", "--gres=gpu:1")


@dataclass(frozen=True)
class Scenario:
    """What was done, and the warehouse that Trackside made of it."""

    lab: SlurmLab
    warehouse: Path
    jobs: dict[str, int]
    killed_node: str

    def shown(self, *arguments: str) -> list[dict[str, Any]]:
        """Rows of a `show` in JSON."""
        result: list[dict[str, Any]] = json.loads(
            trackside_on(self.lab, self.warehouse, "show", *arguments, "--format", "json")
        )
        return result

    def attempts(self, name: str) -> list[dict[str, Any]]:
        """The attempts of a job that got nodes, with the run of each, oldest first."""
        with open_reader(self.warehouse) as reader:
            result = reader.table("run_of_attempt")
        mine = (pl.col("job_id") == str(self.jobs[name])) & pl.col("started_at").is_not_null()
        return result.filter(mine).sort("submitted_at").to_dicts()

    def seen(self, name: str) -> list[ObservedAttempt]:
        """What was seen from outside of a job."""
        return self.lab.truth.attempts(self.jobs[name])


@pytest.fixture(scope="module")
def scenario(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scenario]:
    with played(lambda lab: _play(lab, tmp_path_factory)) as scenario:
        yield scenario


def _play(lab: SlurmLab, tmp_path_factory: pytest.TempPathFactory) -> Scenario:
    on_n3 = ("-p", "main", "-w", "n3", *ONE)
    jobs = {
        "node failure": lab.sbatch(
            FIRST_LONG, "-p", "main", "-w", "n1,n2", "-N2", "--ntasks-per-node=1", "--gres=gpu:8", "--requeue"
        ),
        "by hand": lab.sbatch(FIRST_LONG, *on_n3),
        "exit 42": lab.sbatch(FIRST_42, *on_n3),
        "exit 43": lab.sbatch("sleep 2; exit 43", *on_n3),
        "preempted": lab.sbatch(FIRST_LONG, "-p", "scav", "-w", "n4", "-N1", "-n1", "--gres=gpu:8", user="bob"),
        "resized": lab.sbatch("sleep 14", "-p", "scav", "-w", "n5,n6", "-N2", "--ntasks-per-node=1", "--gres=gpu:1"),
        "comment 1": lab.sbatch("sleep 3", *on_n3, "--comment=for the paper; run=llama-7b, again"),
        "environment 1": lab.sbatch("sleep 3", *on_n3, "--export=ALL,TRACKSIDE_RUN_ID=moe-3"),
    }
    for name, options in (
        ("comment", "--comment=run=llama-7b"),
        ("environment", "--export=TRACKSIDE_RUN_ID=moe-3,ALL"),
    ):
        after = f"--dependency=afterany:{jobs[f'{name} 1']}"
        jobs[f"{name} 2"] = lab.sbatch("sleep 3", *on_n3, options, after, "-J", "another-name")
    for name in ("node failure", "by hand", "preempted", "resized"):
        lab.wait_for(jobs[name], "RUNNING")
    time.sleep(2)
    lab.scontrol("update", f"jobid={jobs['resized']}", "NumNodes=1")
    lab.scontrol("requeue", str(jobs["by hand"]))
    jobs["preempting"] = lab.sbatch("sleep 3", "-p", "main", "-w", "n4", "-N1", "-n1", "--gres=gpu:8", user="carol")
    lab.kill_node("n1")
    lab.wait_until(lambda: "down" in lab.node_state("n1").lower(), 60, "n1 to be called down")
    lab.start_slurmd("n1")
    for name, number in jobs.items():
        if name != "exit 43":
            lab.wait_for(number, "COMPLETED", timeout=120)
    time.sleep(2)
    lab.truth.look()
    warehouse = tmp_path_factory.mktemp("requeues") / "warehouse"
    trackside_on(lab, warehouse, "ingest", "slurm")
    trackside_on(lab, warehouse, "compute")
    return Scenario(lab, warehouse, jobs, "n1")


CHAINS = {
    # what was done to the job: how its attempts ended, and how each was joined to the one before
    "node failure": (["NODE_FAIL", "COMPLETED"], "requeue_chain"),
    "by hand": (["REQUEUED", "COMPLETED"], "requeue_chain"),
    "exit 42": (["REQUEUED", "COMPLETED"], "requeue_chain"),
    "exit 43": (["REQUEUED"], None),
    "preempted": (["PREEMPTED", "COMPLETED"], "requeue_chain"),
    "resized": (["RESIZING", "COMPLETED"], "resize"),
    "preempting": (["COMPLETED"], None),
}


@pytest.mark.parametrize("name", CHAINS)
def test_requeued_job_is_one_run_with_the_observed_attempts(scenario: Scenario, name: str) -> None:
    states, word = CHAINS[name]
    result, seen = scenario.attempts(name), scenario.seen(name)
    assert [attempt["state"] for attempt in result] == states
    assert len(seen) == len(result)
    assert {attempt["run_id"] for attempt in result} == {result[0]["run_id"]}
    assert [attempt["attempt_no"] for attempt in result] == list(range(1, len(result) + 1))
    assert [attempt["joined_by"] for attempt in result] == ["single", *[word] * (len(result) - 1)]
    for attempt, truth in zip(result, seen, strict=True):
        assert attempt["started_at"].timestamp() == pytest.approx(truth.start, abs=1.5 + truth.uncertainty_s)
        assert truth.end is not None
        assert attempt["ended_at"].timestamp() == pytest.approx(truth.end, abs=1.5 + truth.uncertainty_s)
        assert (attempt["n_gpus"], attempt["n_nodes"]) == (truth.gpus, len(truth.nodes))


@pytest.mark.parametrize(("kind", "run"), [("comment", "llama-7b"), ("environment", "moe-3")])
def test_two_jobs_that_name_one_run_are_one_run(scenario: Scenario, kind: str, run: str) -> None:
    first, second = scenario.attempts(f"{kind} 1"), scenario.attempts(f"{kind} 2")
    assert [attempt["run_id"] for attempt in (*first, *second)] == [run, run]
    assert [attempt["attempt_no"] for attempt in (*first, *second)] == [1, 2]
    assert [attempt["joined_by"] for attempt in (*first, *second)] == [kind, kind]
    before, after = scenario.seen(f"{kind} 1"), scenario.seen(f"{kind} 2")
    assert before[0].start < after[0].start
    (row,) = scenario.shown("runs", "--run", run)
    assert (row["n_attempts"], row["joined_by"], row["state"]) == (2, kind, "COMPLETED")


def test_each_end_has_the_cause_that_the_test_gave_it(scenario: Scenario) -> None:
    result = {row["job_id"]: (row["class"], row["cause"], row["node"]) for row in scenario.shown("interruptions")}
    expected = {
        "node failure": ("infrastructure", "node_fail", scenario.killed_node),
        "by hand": ("planned", "requeued", None),
        "exit 42": ("user", "requeue_exit", None),
        "exit 43": ("user", "requeue_exit", None),
        "preempted": ("preemption", "preempted", None),
    }
    assert {name: result.pop(str(scenario.jobs[name])) for name in expected} == expected
    assert not result  # neither a resize nor what completed is an interruption


@pytest.fixture(scope="module")
def runaway(scenario: Scenario, tmp_path_factory: pytest.TempPathFactory) -> Scenario:
    """slurmdbd is away when a job ends, and slurmctld loses the news: accounting shows it running for ever."""
    lab = scenario.lab
    conf = lab.base / "etc/slurm.conf"
    conf.write_text(conf.read_text().replace("MinJobAge=3600", "MinJobAge=2"))
    lab.scontrol("reconfigure")
    whole_n2 = ("-p", "main", "-w", "n2", "-N1", "-n1", "--gres=gpu:8")
    lost = lab.sbatch("sleep 5", *whole_n2)
    lab.wait_for(lost, "RUNNING")
    lab.wait_until(lambda: "RUNNING" in lab.sacct("-nXP", "-j", str(lost), "-o", "state"), 30, "its start to be told")
    lab.stop_slurmdbd()
    lab.wait_until(lambda: lost not in lab.squeue_states(), 150, "slurmctld to forget the job")
    in_the_way = lab.base / "state/ctld/dbd.messages"  # a folder, so that the news for slurmdbd cannot be kept
    in_the_way.unlink(missing_ok=True)
    in_the_way.mkdir()
    lab.restart_slurmctld()
    in_the_way.rmdir()
    lab.start_slurmdbd()
    later = lab.sbatch("sleep 2", *whole_n2)
    lab.wait_until(lambda: "COMPLETED" in lab.sacct("-nXP", "-j", str(later), "-o", "state"), 60, "the next job")
    lab.truth.look()
    jobs = {"lost": lost, "later": later}
    warehouse = tmp_path_factory.mktemp("runaway") / "warehouse"
    trackside_on(lab, warehouse, "ingest", "slurm")
    trackside_on(lab, warehouse, "compute")
    return Scenario(lab, warehouse, jobs, "n2")


def test_runaway_job_held_its_gpus_until_others_got_them(runaway: Scenario) -> None:
    (lost,), (later,) = runaway.attempts("lost"), runaway.attempts("later")
    assert (lost["state"], lost["ended_at"]) == ("RUNNING", None)  # as accounting has it
    (run,) = runaway.shown("runs", "--run", str(runaway.jobs["lost"]))
    assert (run["state"], run["ended_at"]) == ("RUNAWAY", later["started_at"].isoformat().replace("+00:00", "Z"))
    with open_reader(runaway.warehouse) as reader:
        mine = reader.table("gpu_time").filter(pl.col("job_id") == str(runaway.jobs["lost"]))
        (row,) = reader.table("runaway_attempts").to_dicts()
        inventory = reader.frame("SELECT SUM(gpu_seconds) AS s FROM capacity")["s"].item()
        ledger = reader.frame("SELECT SUM(gpu_seconds) AS s FROM gpu_time")["s"].item()
    assert row["because"] == "its GPUs were given to others"
    assert set(mine["category"]) == {"unattributed"}
    assert set(mine["evidence"]) == {"assumed"}
    assert float(mine["gpu_seconds"].sum()) == 8 * (later["started_at"] - lost["started_at"]).total_seconds()
    assert inventory == ledger
    # What really happened lies within: it ended before, and Trackside does not claim to know when.
    (truth,) = runaway.seen("lost")
    assert truth.end is not None
    assert truth.end <= later["started_at"].timestamp() + 1.5 + truth.uncertainty_s
    assert str(runaway.jobs["lost"]) not in {row["job_id"] for row in runaway.shown("interruptions")}
