"""What a first list does not have any more: Jobs of earlier restarts, and pods that ended before it."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from ingest.kubernetes.attempts import attempts_of
from ingest.kubernetes.parse import parse_objects
from ingest.kubernetes.workloads import with_roots
from queries.warehouse import open_reader
from tests.ingest.kubernetes.test_attempts import NO_ALIASES
from tests.ingest.kubernetes.test_bridge import HEAD, job
from tests.ingest.kubernetes.test_nodes import node
from tests.support.command import trackside
from tests.support.kubernetes.objects import NOW, Object, as_list, at, moment, owner, pod, workload

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("no_results")


def of_set(restart: int, index: int, **values: Any) -> Object:
    """A pod of a JobSet's restart: the Jobs have one name, and another uid each time."""
    labels = {
        "jobset.sigs.k8s.io/jobset-name": "llm",
        "jobset.sigs.k8s.io/replicatedjob-name": "node",
        "batch.kubernetes.io/job-completion-index": str(index),
        "jobset.sigs.k8s.io/restart-attempt": str(restart),
    }
    above = {**owner("Job", "llm-node-0"), "uid": f"job-{restart}"}
    return pod(f"llm-node-0-{index}-{restart}", above=above, node=f"host-{index}", labels=labels, **values)


PODS = [of_set(0, index, created=0, ended=30, exit_code=1) for index in (0, 1)]
PODS += [of_set(1, index, created=40, ended=90) for index in (0, 1)]
ABOVE = [workload("TrainJob", "llm"), workload("JobSet", "llm", above=owner("TrainJob", "llm"))]
LATER_JOB = workload("Job", "llm-node-0", created=40, above=owner("JobSet", "llm"))
LATER_JOB["metadata"]["uid"] = "job-1"


def jobs_and_ends(*objects: Object) -> list[tuple[Any, ...]]:
    frames = parse_objects(as_list(*objects), origin="x", cluster="c", now=NOW).frames
    pods = with_roots(frames["pods"], frames["workloads"])
    rows, _ = attempts_of(pods, frames["workloads"], frames["object_lists"], NO_ALIASES)
    return rows.select("job_id", "ended_at").sort("ended_at").rows()


@pytest.mark.parametrize("above", [[*ABOVE, LATER_JOB], ABOVE, [LATER_JOB], []], ids=["all", "no job", "job", "pods"])
def test_restart_whose_job_is_gone_is_of_its_jobset(above: list[Object]) -> None:
    found = jobs_and_ends(*above, *PODS)
    assert len({name for name, _ in found}) == 1
    assert [end for _, end in found] == [moment(30), moment(90)]


def test_two_jobsets_of_one_name_stay_two_jobs() -> None:
    first, second = (workload("JobSet", "llm", created=created) for created in (0, 35))
    second["metadata"]["uid"] = "another"
    assert len({name for name, _ in jobs_and_ends(first, second, *PODS)}) == 2


def covered(*objects: Object) -> tuple[Any, Any]:
    parsed = parse_objects(as_list(*objects), origin="x", cluster="c", now=NOW)
    return parsed.covers_from, parsed.covers_until


def test_old_nodes_and_servers_do_not_date_the_work_back() -> None:
    year = 365 * 24 * 60
    ancient = node("a", seen=100, since=-year)
    ancient["metadata"]["creationTimestamp"] = at(-year)
    server = pod("server", node="a", created=-year, gpus=1)
    daemon = pod("daemon", node="a", created=-60, gpus=0)
    assert covered(ancient, server, daemon) == (moment(100), moment(100))
    assert covered(ancient, server, daemon, pod("work", created=40, ended=60)) == (moment(40), moment(100))
    assert covered(ancient, pod("a", created=-29 * 24 * 60)) == (moment(-29 * 24 * 60), moment(100))


@pytest.mark.slow
def test_time_between_two_lists_is_observed(tmp_path: Path) -> None:
    for number, seen in enumerate((0, 50, 100)):
        (tmp_path / f"{number}.json").write_bytes(as_list(node("a", seen=seen, since=-5000)))
    where = ("--warehouse", str(tmp_path / "w"))
    for number in (2, 0, 1):
        done = trackside("ingest", "kubernetes", str(tmp_path / f"{number}.json"), "--cluster", "k", *where)
        assert done.returncode == 0, done.stderr
    assert trackside("compute", *where).returncode == 0
    with open_reader(tmp_path / "w") as reader:
        rows = reader.frame("SELECT min(started_at), max(ended_at), sum(gpu_seconds)::DOUBLE FROM gpu_time").rows()
    assert rows == [(moment(0), moment(100), timedelta(minutes=100).total_seconds() * 8)]


def test_list_of_nodes_before_that_of_pods_covers_no_time(tmp_path: Path) -> None:
    (tmp_path / "nodes").write_bytes(as_list(node("a", seen=0, since=-5000)))
    (tmp_path / "pods").write_bytes(as_list(pod("work", node="a", created=40, ended=60)))
    assert trackside("ingest", "kubernetes", str(tmp_path / "nodes"), str(tmp_path / "pods"), "--cluster", "k",
                     "--warehouse", str(tmp_path / "w")).returncode == 0  # fmt: skip
    with open_reader(tmp_path / "w") as reader:
        rows = reader.query("coverage", cluster="k", source="accounting")
    assert rows.select("started_at", "ended_at").rows() == [(moment(40), moment(60))]


@pytest.mark.slow
def test_gpus_of_pods_show_nothing_of_slurms_accounting(tmp_path: Path) -> None:
    untracked = job(1, "host-2", 55).replace("cpu=8,gres/gpu=8", "cpu=8")
    (tmp_path / "jobs").write_text(HEAD + untracked)
    shared = pod("shared", node="host-1", ended=50, resource="nvidia.com/gpu.shared")
    (tmp_path / "objects").write_bytes(as_list(node("host-1", seen=60), pod("work", ended=50), shared))
    where = ("--cluster", "c", "--warehouse", str(tmp_path / "w"))
    assert trackside("ingest", "slurm", str(tmp_path / "jobs"), "--timezone", "UTC", *where).returncode == 0
    assert trackside("ingest", "kubernetes", str(tmp_path / "objects"), *where).returncode == 0
    with open_reader(tmp_path / "w") as reader:
        rows = reader.frame("SELECT scheduler, name, n_gpus::DOUBLE n FROM attempts ORDER BY ALL")
    assert rows.filter(pl.col("scheduler") == "slurm")["n"].to_list() == [None]
    assert dict(rows.filter(pl.col("scheduler") == "kubernetes").select("name", "n").iter_rows()) == {
        "shared": None, "work": 8.0,
    }  # fmt: skip
