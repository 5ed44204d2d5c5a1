"""Pods with random names that replace failed ones, in kinds that record no places."""

from __future__ import annotations

from typing import Any

import pytest

from tests.ingest.kubernetes.test_attempts import derived, shown
from tests.support.kubernetes.objects import Object, moment, owner, pod, workload


@pytest.mark.parametrize("kind", ["Job", "RayCluster", "group"])
def test_pod_made_after_a_failed_one_restarts_its_gang(kind: str) -> None:
    """What completes or is removed is not replaced: a later pod takes the place of the first failed one."""
    labels = {"kueue.x-k8s.io/pod-group-name": "g"} if kind == "group" else {}
    above = owner(kind, "g") if kind != "group" else None
    made = {"above": above, "labels": labels, "gpus": 8}

    def member(name: str, host: int, **values: float) -> Object:
        return pod(f"g-{name}", node=f"host-{host}", **made, **values)  # type: ignore[arg-type]  # as `pod` takes them

    lives = member("x7", 0, ended=90)
    fails, follows = member("k2", 1, ended=20, exit_code=1), member("b4", 2, created=21, ended=50, exit_code=1)
    ends = member("q9", 1, created=51, ended=90)
    grows = member("z1", 3, created=52, ended=90)
    objects = [workload(kind, "g")] if kind != "group" else []
    attempts, _ = derived(*objects, lives, fails, follows, ends, grows)
    assert shown(attempts) == [
        ("FAILED", moment(0.5), moment(20)),
        ("FAILED", moment(20), moment(50)),
        ("COMPLETED", moment(50), moment(90)),
    ]
    assert [row["n_gpus"] for row in attempts] == [16, 16, 24]


def worker(cluster: str, name: str, host: int, **values: float) -> Object:
    return pod(f"{cluster}-{name}", above=owner("RayCluster", cluster), node=f"host-{host}", gpus=8, **values)  # type: ignore[arg-type]  # as `pod` takes them


def test_restart_stays_where_a_ray_job_is_tried_again() -> None:
    """Pods of another cluster have places of their own, and take none of this one."""
    tried = [workload("RayJob", "j"), workload("RayCluster", "c1", above=owner("RayJob", "j"))]
    tried += [
        worker("c1", "a", 0, ended=90),
        worker("c1", "b", 1, ended=20, exit_code=1),
        worker("c1", "c", 2, ended=90),
    ]
    tried += [worker("c1", "d", 3, created=21, ended=90, exit_code=1)]
    before, _ = derived(*tried)
    assert shown(before) == [("FAILED", moment(0.5), moment(20)), ("FAILED", moment(20), moment(90))]
    again = [workload("RayCluster", "c2", above=owner("RayJob", "j"))]
    again += [worker("c2", name, host, created=95, ended=120) for host, name in enumerate("abc")]
    after, _ = derived(*tried, *again)
    assert shown(after) == [*shown(before), ("COMPLETED", moment(95.5), moment(120))]


def test_pod_made_long_after_a_failed_one_takes_no_place() -> None:
    """A cluster that grows eleven minutes after a failure does not replace the failed worker."""
    workers = [worker("g", "a", 0, ended=90), worker("g", "b", 1, ended=20, exit_code=1)]
    attempts, _ = derived(workload("RayCluster", "g"), *workers, worker("g", "c", 2, created=31.5, ended=90))
    assert [(start, end) for _, start, end in shown(attempts)] == [(moment(0.5), moment(90))]


QUEUES: list[dict[str, Any]] = [
    {"completions": 6, "parallelism": 2},
    {"parallelism": 2},
    {"completions": 3, "completionMode": "Indexed"},
]


@pytest.mark.parametrize(
    ("spec", "queue", "expected"),
    [
        *[
            (spec, None, [("COMPLETED", 0.5, 90, 1), ("FAILED", 0.5, 20, 1), ("COMPLETED", 21.5, 60, 1)])
            for spec in QUEUES
        ],
        ({"completions": 2, "parallelism": 0}, None, [("FAILED", 0.5, 20, 2), ("COMPLETED", 20, 90, 2)]),
        ({"completions": 2, "parallelism": 2}, None, [("FAILED", 0.5, 20, 2), ("COMPLETED", 20, 90, 2)]),
        (QUEUES[0], "lq", [("FAILED", 0.5, 20, 2), ("COMPLETED", 20, 90, 2)]),
    ],
)
def test_pods_of_a_work_queue_fail_alone(
    spec: dict[str, Any], queue: str | None, expected: list[tuple[str, float, float, int]]
) -> None:
    """A pod of one GPU that fails after 19.5 minutes ends no attempt of the other one."""
    job = workload("Job", "q", **spec)
    job["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": queue, "user": "ann"} if queue else {"user": "ann"}
    pods = [
        pod("q-a", above=owner("Job", "q"), gpus=1, ended=90),
        pod("q-b", above=owner("Job", "q"), gpus=1, ended=20, exit_code=1),
        pod("q-c", above=owner("Job", "q"), gpus=1, created=21, ended=60),
    ]
    attempts, placements = derived(job, *pods)
    rows = [(row["state"], row["started_at"], row["ended_at"], int(row["n_gpus"])) for row in attempts]
    assert sorted(rows, key=lambda row: (row[1], row[0])) == [
        (state, moment(begin), moment(end), gpus) for state, begin, end, gpus in expected
    ]
    assert {row["user"] for row in attempts} == {"ann"}
    assert sum((row["ended_at"] - row["started_at"]).seconds * row["n_gpus"] for row in placements) == 147.5 * 60
