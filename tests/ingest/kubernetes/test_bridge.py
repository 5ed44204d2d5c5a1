"""Pods that a job of Slurm stands for, and the known faults between the two: each GPU-second once, no false failure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from queries.warehouse import open_reader
from tests.support.command import trackside
from tests.support.kubernetes.objects import Object, as_list, at, pod

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("no_results")

HEAD = "JobIDRaw|JobID|Cluster|Submit|Start|End|State|NNodes|AllocTRES|NodeList|ElapsedRaw|User\n"
LABEL = "scheduler.slinky.slurm.net/slurm-jobid"
GPUS = "cpu=8,gres/gpu=8"


def job(number: int, host: str, end: int | None, state: str = "COMPLETED") -> str:
    """A row of sacct: from minute 1 on."""
    ended = f"2026-10-01T00:{end:02}:00" if end is not None else "Unknown"
    elapsed = ((end or 59) - 1) * 60
    times = f"2026-10-01T00:00:00|2026-10-01T00:01:00|{ended}"
    return f"{number}|{number}|c|{times}|{state}|1|{GPUS}|{host}|{elapsed}|ann\n"


def bridged(number: int, host: str, **values: Any) -> Object:
    return pod(f"p{number}", node=host, scheduled=1, labels={LABEL: str(number)}, **values)


def computed(folder: Path, jobs: str, *pods: Object, objects_first: bool = False) -> Path:
    (folder / "sacct.txt").write_text(HEAD + jobs + job(9, "host-8", 55))  # accounting covers all of the time
    (folder / "o.json").write_bytes(as_list(*pods))
    where = ("--warehouse", str(folder / "w"))
    loads = [
        ("slurm", str(folder / "sacct.txt"), "--cluster", "c", "--timezone", "UTC"),
        ("kubernetes", str(folder / "o.json"), "--cluster", "c"),
    ]
    for load in reversed(loads) if objects_first else loads:
        assert trackside("ingest", *load, *where).returncode == 0
    assert trackside("compute", *where).returncode == 0
    return folder / "w"


def held(root: Path) -> list[tuple[str, str, int]]:
    """Minutes of eight GPUs by node and scheduler."""
    sql = (
        "SELECT node, scheduler, CAST(sum(gpu_seconds) / 480 AS INT) FROM gpu_time"
        " WHERE state = 'allocated' AND node <> 'host-8' GROUP BY ALL ORDER BY ALL"
    )
    with open_reader(root) as reader:
        return reader.frame(sql).rows()


def failures(root: Path) -> list[str]:
    with open_reader(root) as reader:
        sql = "SELECT job_id FROM run_interruptions WHERE class = 'infrastructure' ORDER BY 1"
        return reader.frame(sql)["job_id"].to_list()


WITNESS = pod("witness", node="host-9", scheduled=1, ended=50)


@pytest.mark.slow
def test_pod_that_is_terminating_for_ever_is_slurms(tmp_path: Path) -> None:
    stuck = bridged(1, "host-1")
    stuck["metadata"]["deletionTimestamp"] = at(10)
    root = computed(tmp_path, job(1, "host-1", 50), stuck, WITNESS)
    assert held(root) == [("host-1", "slurm", 49), ("host-9", "kubernetes", 49)]


@pytest.mark.slow
@pytest.mark.parametrize("objects_first", [False, True])
def test_pod_that_outlives_its_placeholder_holds_the_rest(tmp_path: Path, objects_first: bool) -> None:
    root = computed(
        tmp_path, job(1, "host-1", 20), bridged(1, "host-1", ended=50), WITNESS, objects_first=objects_first
    )
    assert held(root) == [("host-1", "kubernetes", 30), ("host-1", "slurm", 19), ("host-9", "kubernetes", 49)]
    with open_reader(root) as reader:
        rows = reader.frame("SELECT job_id, pod, lived_until - ended_at = INTERVAL 30 MINUTE FROM outlived_jobs").rows()
    assert rows == [("1", "team-a/p1", True)]


@pytest.mark.slow
def test_pod_that_ends_soon_after_its_job_is_slurms(tmp_path: Path) -> None:
    root = computed(tmp_path, job(1, "host-1", 46), bridged(1, "host-1", ended=50), WITNESS)
    assert held(root) == [("host-1", "slurm", 45), ("host-9", "kubernetes", 49)]


@pytest.mark.slow
def test_pod_that_was_not_seen_after_its_job_is_slurms(tmp_path: Path) -> None:
    root = computed(tmp_path, job(1, "host-1", 50), bridged(1, "host-1"))
    assert held(root) == [("host-1", "slurm", 49)]


@pytest.mark.slow
def test_jobs_lost_in_a_reconfigure_are_no_failures(tmp_path: Path) -> None:
    jobs = "".join(job(number, f"host-{number}", 20, "NODE_FAIL") for number in (1, 2, 3))
    alive = [bridged(1, "host-1"), bridged(2, "host-2", ended=45)]
    died = bridged(3, "host-3", ended=20, exit_code=137)
    root = computed(tmp_path, jobs, *alive, died, WITNESS)
    assert failures(root) == ["3"]
    assert held(root) == [
        ("host-1", "kubernetes", 35), ("host-1", "slurm", 19), ("host-2", "kubernetes", 25), ("host-2", "slurm", 19),
        ("host-3", "slurm", 19), ("host-9", "kubernetes", 49),
    ]  # fmt: skip
