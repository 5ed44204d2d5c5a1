"""Pods with random names that replace failed ones, in kinds that record no places."""

from __future__ import annotations

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
