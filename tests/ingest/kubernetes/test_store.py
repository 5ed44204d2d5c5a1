"""Objects in the warehouse: any order, any number of times, and every second of a pod exactly once."""

from __future__ import annotations

import gzip
import re
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.files.input import LONGEST_LINE
from ingest.kubernetes.attempts import attempts_of
from ingest.kubernetes.in_place import ENDS
from ingest.kubernetes.parse import parse_objects
from ingest.kubernetes.store import ingest_files
from ingest.kubernetes.workloads import with_roots
from queries.warehouse import open_reader, open_writer
from tests.ingest.kubernetes.test_attempts import NO_ALIASES
from tests.support.command import trackside
from tests.support.kubernetes.objects import BEGIN, NOW, as_list, completed, moment, owner, pod, workload
from tests.support.orders import three_orders

if TYPE_CHECKING:
    from pathlib import Path

TABLES = ("pods", "workloads", "object_lists", "stored.attempts", "placements", "nodes")


def load(root: Path, *texts: bytes, cluster: str | None = "c") -> list[Any]:
    files = []
    for number, text in enumerate(texts):
        file = root.parent / f"{root.name}-{number}.json"
        file.write_bytes(text)
        files.append(str(file))
    with open_writer(root, verb="test", now=NOW) as writer:
        return ingest_files(writer, files, cluster=cluster, now=NOW, progress=lambda *_: None)


def content(root: Path) -> dict[str, list[tuple[Any, ...]]]:
    with open_reader(root) as reader:
        return {name: reader.frame(f"SELECT * FROM {name} ORDER BY ALL").rows() for name in TABLES}


@pytest.mark.parametrize("begin", [b'{"kind":"List","items":[{"a":"', b"{", b"kind: List\nitems: "])
def test_text_without_an_end_is_refused(tmp_path: Path, begin: bytes) -> None:
    """Gigabytes of one character fit into megabytes of gzip, and were held at once."""
    (report,) = load(tmp_path / "w", gzip.compress(begin + b" " * (2 * LONGEST_LINE), 1))
    assert re.search(r"w-0\.json: a (text|line) in it is longer than 1,048,576 bytes", str(report.error))


JOB = owner("Job", "j")
EARLY = as_list(workload("Job", "j"), pod("j-0", above=JOB, created=0), pod("other", created=5))
LATER = as_list(
    workload("Job", "j"), pod("j-0", above=JOB, created=0, ended=20, exit_code=1), pod("j-1", above=JOB, created=21)
)
LAST = as_list(workload("Job", "j", status=completed(60)), pod("new", created=70))


@pytest.mark.slow
def test_objects_may_come_in_any_order_and_twice(tmp_path: Path) -> None:
    stored = []
    for number, order in enumerate(three_orders([EARLY, LATER, LAST])):
        load(tmp_path / f"w{number}", *order, order[0])
        stored.append(content(tmp_path / f"w{number}"))
    assert all(each == stored[0] for each in stored)
    attempts = {row[2]: row for row in stored[0]["stored.attempts"]}
    assert len(stored[0]["stored.attempts"]) == 4
    assert len(attempts) == 3


@pytest.mark.slow
def test_same_file_again_is_known(tmp_path: Path) -> None:
    reports = load(tmp_path / "w", EARLY, EARLY)
    assert [report.parsed.rows_new for report in reports] == [None, 0]


@pytest.mark.slow
def test_pod_that_a_later_list_lacks_has_ended(tmp_path: Path) -> None:
    load(tmp_path / "w", EARLY, LATER, LAST)
    with open_reader(tmp_path / "w") as reader:
        rows = reader.frame(
            "SELECT name, state, ended_at, end_guessed FROM attempts ORDER BY submitted_at, name"
        ).rows()
    assert rows == [
        ("j", "FAILED", moment(20), None),
        ("other", "CANCELLED", moment(6), True),
        ("j", "COMPLETED", moment(60), None),
        ("new", "RUNNING", None, None),
    ]


@pytest.mark.slow
def test_pods_end_with_their_job_when_only_it_is_listed(tmp_path: Path) -> None:
    load(tmp_path / "w", as_list(pod("j-0", above=JOB)), as_list(workload("Job", "j", status=completed(60))))
    with open_reader(tmp_path / "w") as reader:
        assert reader.frame("SELECT state, ended_at FROM attempts").rows() == [("COMPLETED", moment(60))]


def test_objects_without_a_cluster_need_one(tmp_path: Path) -> None:
    (report,) = load(tmp_path / "w", EARLY, cluster=None)
    assert "--cluster" in str(report.error)


def test_object_of_the_future_is_refused_and_dates_no_other(tmp_path: Path) -> None:
    ahead = pod("a", created=1)
    ahead["metadata"]["creationTimestamp"] = "2033-01-01T00:00:00Z"
    (report,) = load(tmp_path / "w", as_list(ahead, pod("b")))
    assert report.parsed.rows_rejected == 1
    with open_reader(tmp_path / "w") as reader:
        assert reader.frame("SELECT name FROM attempts").rows() == [("b",)]
        assert reader.frame("SELECT raw FROM rejects").height == 1


@pytest.mark.slow
def test_command_line_from_objects_to_the_run(tmp_path: Path) -> None:
    lost = pod(
        "llama-worker-0",
        above=owner("PyTorchJob", "llama"),
        created=0,
        ended=30,
        exit_code=137,
        disrupted="DeletionByTaintManager",
    )
    again = pod("llama-worker-0", above=owner("PyTorchJob", "llama"), created=31, ended=120, node="host-2")
    job = workload("PyTorchJob", "llama", status=completed(120, kind="Succeeded"))
    (tmp_path / "o.json").write_bytes(as_list(job, lost, again))
    where = ("--warehouse", str(tmp_path / "w"))
    assert trackside("ingest", "kubernetes", str(tmp_path / "o.json"), "--cluster", "k", *where).returncode == 0
    assert trackside("compute", *where).returncode == 0
    page = trackside("run", "llama", *where).stdout
    assert "node fail (infrastructure) on host-1" in page
    rows = trackside(
        "sql",
        "SELECT node, sum(gpu_seconds) FROM gpu_time WHERE state = 'allocated' GROUP BY 1 ORDER BY 1",
        "--format",
        "csv",
        *where,
    ).stdout
    assert rows.splitlines()[1:] == [f"host-1,{8 * 29.5 * 60:.9f}", f"host-2,{8 * 88.5 * 60:.9f}"]


@st.composite
def gangs(draw: st.DrawFn) -> list[tuple[int, int, int | None, int]]:
    """Pods of one job: slot, creation, end and exit status; a slot's pods follow each other."""
    pods = []
    for slot in range(draw(st.integers(1, 3))):
        at_minute = draw(st.integers(0, 5))
        for _ in range(draw(st.integers(1, 3))):
            length = draw(st.integers(1, 40))
            last = draw(st.integers(0, 5)) == 0
            pods.append((slot, at_minute, None if last else at_minute + length, draw(st.sampled_from([0, 1]))))
            if last:
                break
            at_minute += length + draw(st.integers(0, 3))
    return pods


def _ends(pods: pl.DataFrame, restarts: list[tuple[int, int]]) -> pl.DataFrame:
    """Rows of `container_ends`, also of times when a pod was not there."""
    uids = pods["uid"].to_list()
    rows = [
        {
            "cluster": "c",
            "uid": uids[number % len(uids)],
            "container": "main",
            "ended_at": moment(minute),
            "exit_code": 1,
        }
        for number, minute in dict.fromkeys(restarts)
    ]
    return pl.DataFrame(rows, schema=ENDS)


@pytest.mark.slow
@settings(deadline=None, max_examples=60)
@given(gangs(), st.lists(st.tuples(st.integers(0, 5), st.integers(0, 60)), max_size=4))
def test_every_second_of_a_pod_is_in_one_attempt(
    pods: list[tuple[int, int, int | None, int]], restarts: list[tuple[int, int]]
) -> None:
    """Also where containers restarted in place: of a pod (by its number) at a minute."""
    job = owner("PyTorchJob", "p")
    made = [
        pod(
            f"p-{slot}",
            above=job,
            node=f"host-{slot}",
            created=begin,
            scheduled=begin,
            ended=end,
            exit_code=code,
            identity=f"{slot}/{number}",
        )
        for number, (slot, begin, end, code) in enumerate(pods)
    ]
    frames = parse_objects(as_list(workload("PyTorchJob", "p"), *made), origin="x", cluster="c", now=NOW).frames
    attempts, placements = attempts_of(
        with_roots(frames["pods"], frames["workloads"]),
        frames["workloads"],
        frames["object_lists"],
        NO_ALIASES,
        ends=_ends(frames["pods"], restarts),
    )
    far = BEGIN + timedelta(days=30)
    seconds = sum(
        ((moment(end) if end is not None else far) - moment(begin)).total_seconds() for _, begin, end, _ in pods
    )
    held = sum(
        ((end or far) - begin).total_seconds() for begin, end in placements.select("started_at", "ended_at").iter_rows()
    )
    assert held == seconds
    assert attempts.select("job_id", "submitted_at").is_unique().all()
    assert placements.join(attempts, on=["cluster", "scheduler", "job_id", "submitted_at"], how="anti").is_empty()
    for row in attempts.iter_rows(named=True):
        assert row["ended_at"] is None or row["ended_at"] >= row["submitted_at"]
