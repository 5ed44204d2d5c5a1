"""Kueue: waiting in its queues, evictions, who made room for whom, and when the GPUs were really free."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from ingest.kubernetes.parse import parse_objects
from queries.warehouse import open_reader
from tests.ingest.kubernetes.test_store import load
from tests.support.kubernetes.objects import NOW, Object, as_list, at, moment, owner, pod, queued, uid, workload
from tests.support.orders import three_orders

if TYPE_CHECKING:
    from pathlib import Path

LOW, HIGH = owner("Job", "low"), owner("Job", "high")
INDEX = "batch.kubernetes.io/job-completion-index"
URGENT = uid("Workload/high-1")


def pods(*, ended: float | None, created: float = 1, last: float | None = None, slots: bool = True) -> list[Object]:
    """Two pods of the job that is evicted; the second ends last."""
    ends = (ended, ended if last is None else last)
    labels = [{INDEX: str(number)} if slots else {} for number in range(2)]
    return [
        pod(
            f"low-{number}-{created}", above=LOW, node=f"host-{number}", created=created, ended=ends[number],
            labels=labels[number], exit_code=0 if ends[number] is None else 143,
        )
        for number in range(2)
    ]  # fmt: skip


def waits(*, evicted: float | None = None, again: float | None = None, reason: str = "Preempted") -> Object:
    """The Workload of the job that is evicted, as it is after its last event."""
    conditions = [("QuotaReserved", True, 0.5, "QuotaReserved"), ("Admitted", True, 0.5, "Admitted")]
    if evicted is not None:
        conditions = [("QuotaReserved", False, evicted, "Pending"), ("Admitted", False, evicted, "NoReservation")]
        conditions += [("Evicted", True, evicted, reason), ("Preempted", True, evicted, "InClusterQueue")]
    if again is not None:
        conditions = [(name, True, again, name) for name in ("QuotaReserved", "Admitted")]
        conditions += [(name, False, again, "QuotaReserved") for name in ("Evicted", "Preempted")]
    preemptor = URGENT if reason == "Preempted" and again is None else None
    return queued("low-1", *conditions, above=LOW, pods=2, preemptor=preemptor)


URGENT_WAITS = queued("high-1", ("QuotaReserved", False, 29, "Pending"), above=HIGH, created=29, gpus=4)
LOOKS = (
    as_list(workload("Job", "low"), waits(), *pods(ended=None)),
    as_list(
        workload("Job", "low"), workload("Job", "high", created=29), waits(evicted=30), URGENT_WAITS,
        *pods(ended=31, last=33),
    ),
    as_list(
        workload("Job", "low"), workload("Job", "high", created=29), waits(again=90), URGENT_WAITS,
        *pods(ended=None, created=91),
    ),
)  # fmt: skip


def table(root: Path, sql: str) -> list[tuple[Any, ...]]:
    with open_reader(root) as reader:
        return reader.frame(sql).rows()


ATTEMPTS = (
    "SELECT name, state, reason, submitted_at, started_at, ended_at, n_gpus FROM attempts ORDER BY submitted_at, name"
)


@pytest.mark.slow
@pytest.mark.parametrize("slots", [True, False], ids=["indexed", "without indices"])
def test_eviction_ends_an_attempt_and_begins_the_next_wait(tmp_path: Path, slots: bool) -> None:
    look = as_list(
        workload("Job", "low"), *pods(ended=31, last=33, slots=slots), *pods(ended=None, created=91, slots=slots)
    )
    load(tmp_path / "w", as_list(waits(evicted=30)), as_list(waits(again=90)), look)
    assert table(tmp_path / "w", ATTEMPTS) == [
        ("low", "PREEMPTED", "Preempted", moment(0), moment(1.5), moment(33), Decimal(16)),
        ("low", "RUNNING", None, moment(30), moment(91.5), None, Decimal(16)),
    ]


def remembers(requeued: float) -> Object:
    """The Workload of the job when it is admitted again, with the messages that Kueue keeps."""
    later = waits(again=90)
    since = {"type": "Requeued", "status": "True", "reason": "Preempted", "lastTransitionTime": at(requeued)}
    later["status"]["conditions"].append(since)
    for each in later["status"]["conditions"]:
        if each["type"] in {"Evicted", "Preempted"}:
            each["message"] = f"Previously: Preempted to accommodate a workload (UID: {URGENT}, JobUID: x) due to"
    return later


@pytest.mark.parametrize(
    ("exit_code", "requeued", "state", "submitted"),
    [
        (143, 34, "PREEMPTED", 31),
        (137, 10, "PREEMPTED", 31),  # requeued since an earlier preemption
        (143, 60, "FAILED", 91),  # other pods, which are not in the list, were stopped
        (1, 34, "FAILED", 91),
    ],
)
def test_late_list_has_the_preemption(
    tmp_path: Path, exit_code: int, requeued: float, state: str, submitted: float
) -> None:
    stopped = pods(ended=31, last=33)
    for each in stopped:
        each["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] = exit_code
    load(tmp_path / "w", as_list(workload("Job", "low"), remembers(requeued), *stopped, *pods(ended=None, created=91)))
    reason = "Preempted" if state == "PREEMPTED" else "Error"
    assert table(tmp_path / "w", ATTEMPTS) == [
        ("low", state, reason, moment(0), moment(1.5), moment(33), Decimal(16)),
        ("low", "RUNNING", None, moment(submitted), moment(91.5), None, Decimal(16)),
    ]
    assert table(tmp_path / "w", "SELECT evicted_at FROM evictions") == []


def test_group_whose_pods_are_replaced_before_there_is_quota(tmp_path: Path) -> None:
    group = {"kueue.x-k8s.io/pod-group-name": "low"}
    stopped = pod("a", created=1, ended=31, exit_code=137, labels=group)
    replaced = pod("b", created=60, scheduled=91, labels=group)
    later = remembers(34)
    later["metadata"]["ownerReferences"] = [owner("Pod", "x") | {"uid": stopped["metadata"]["uid"]}]
    load(tmp_path / "w", as_list(later, stopped, replaced))
    assert table(tmp_path / "w", ATTEMPTS) == [
        ("low", "PREEMPTED", "Preempted", moment(1), moment(1.5), moment(31), Decimal(8)),
        ("low", "RUNNING", None, moment(31), moment(91), None, Decimal(8)),
    ]


def test_pod_that_kueue_stopped_was_preempted() -> None:
    since = {"type": "TerminationTarget", "status": "True", "reason": "WorkloadEvicted"}
    message = "Preempted to accommodate a workload (UID: x, JobUID: UNKNOWN) due to prioritization"
    states = []
    for ordered, text in ((30, message), (32, message), (30, "Exceeded the PodsReady timeout")):
        stopped = pod("alone", ended=31, exit_code=1)
        stopped["status"]["conditions"].append({**since, "lastTransitionTime": at(ordered), "message": text})
        parsed = parse_objects(as_list(stopped), origin="x", cluster="c", now=NOW)
        states.append(parsed.frames["pods"]["state"].item())
    assert states == ["PREEMPTED", "FAILED", "FAILED"]


@pytest.mark.slow
def test_eviction_names_for_whom_and_when_pods_were_gone(tmp_path: Path) -> None:
    for order in three_orders(LOOKS):
        root = tmp_path / str(LOOKS.index(order[0]) * 10 + LOOKS.index(order[1]))
        load(root, *order, order[1])
        rows = table(
            root,
            "SELECT name, preemptor, reason, preemption, evicted_at, gone_at, gone_s, held_gpu_s, admitted_at"
            " FROM evictions",
        )
        held = 8 * 60 + 8 * 180
        assert rows == [
            (
                "team-a/low", "team-a/high", "Preempted", "InClusterQueue", moment(30), moment(33), 180.0, held,
                moment(90),
            ),
        ]  # fmt: skip


def test_job_waits_in_a_queue_before_it_has_pods(tmp_path: Path) -> None:
    load(tmp_path / "w", LOOKS[1])
    rows = table(tmp_path / "w", "SELECT name, state, submitted_at, req_gpus, n_gpus FROM attempts ORDER BY ALL")
    assert rows == [
        ("high", "PENDING", moment(29), Decimal(4), Decimal(0)),
        ("low", "PENDING", moment(30), Decimal(16), Decimal(0)),
        ("low", "PREEMPTED", moment(0), Decimal(16), Decimal(16)),
    ]


def test_evicted_job_waits_however_often_it_had_restarted(tmp_path: Path) -> None:
    failed, restarted = pods(ended=10, last=10), pods(created=11, ended=31)
    load(tmp_path / "w", as_list(workload("Job", "low"), waits(evicted=30), *failed, *restarted))
    rows = table(tmp_path / "w", "SELECT state, submitted_at FROM attempts ORDER BY submitted_at")
    assert rows == [("FAILED", moment(0)), ("PREEMPTED", moment(11)), ("PENDING", moment(30))]


@pytest.mark.slow
def test_work_queue_of_kueue_without_a_label_is_a_gang(tmp_path: Path) -> None:
    job = workload("Job", "low", completions=6, parallelism=2)
    (report,) = load(tmp_path / "w", as_list(job, waits(), *pods(ended=None)))
    assert report.error is None
    assert table(tmp_path / "w", "SELECT name, n_gpus FROM attempts") == [("low", Decimal(16))]


@pytest.mark.slow
def test_job_that_left_its_queue_was_cancelled(tmp_path: Path) -> None:
    load(tmp_path / "w", LOOKS[1], as_list(waits(again=90), *pods(ended=None, created=91)))
    rows = table(tmp_path / "w", "SELECT state, ended_at, end_guessed FROM attempts WHERE name = 'high'")
    assert rows == [("CANCELLED", moment(33), True)]


@pytest.mark.parametrize(
    ("reason", "state"),
    [
        ("Preempted", "PREEMPTED"),
        ("NodeFailures", "NODE_FAIL"),
        ("MaximumExecutionTimeExceeded", "TIMEOUT"),
        ("ClusterQueueStopped", "CANCELLED"),
        ("Deactivated", "CANCELLED"),
    ],
)
def test_reason_of_an_eviction_decides_how_it_ended(tmp_path: Path, reason: str, state: str) -> None:
    load(tmp_path / "w", as_list(workload("Job", "low"), waits(evicted=30, reason=reason), *pods(ended=31)))
    rows = table(tmp_path / "w", "SELECT state, reason FROM attempts WHERE started_at IS NOT NULL")
    assert rows == [(state, reason)]


def test_failure_before_the_eviction_explains_the_end(tmp_path: Path) -> None:
    load(tmp_path / "w", as_list(workload("Job", "low"), waits(evicted=30), *pods(ended=29, last=31)))
    assert table(tmp_path / "w", "SELECT state FROM attempts WHERE started_at IS NOT NULL") == [("FAILED",)]


def test_pods_that_are_not_gone_leave_the_time_unknown(tmp_path: Path) -> None:
    load(tmp_path / "w", as_list(workload("Job", "low"), waits(evicted=30), *pods(ended=None)))
    rows = table(tmp_path / "w", "SELECT gone_at, gone_s, held_gpu_s, admitted_at, preemptor_uid FROM evictions")
    assert rows == [(None, None, None, None, URGENT)]


def test_workloads_of_other_groups_are_skipped() -> None:
    other = {**waits(), "apiVersion": "scheduling.k8s.io/v1alpha1"}
    parsed = parse_objects(as_list(other, waits()), origin="x", cluster="c", now=NOW)
    assert (parsed.rows_skipped, parsed.rows_loaded) == (1, 1)
    row = parsed.frames["kueue_workloads"].row(0, named=True)
    assert (row["queue"], row["n_pods"], row["n_gpus"], row["priority"]) == ("research", 2, Decimal(16), 100)
