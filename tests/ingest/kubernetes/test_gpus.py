"""GPUs that a pod holds, by its containers."""

from __future__ import annotations

from decimal import Decimal

import pytest

from ingest.kubernetes.gpus import gpus_of_pod
from ingest.kubernetes.objects import Container, ContainerResources, PodSpec


def container(gpus: int, policy: str | None = None) -> Container:
    return Container(name="c", restartPolicy=policy, resources=ContainerResources(limits={"nvidia.com/gpu": str(gpus)}))


@pytest.mark.parametrize(
    ("before", "beside", "gpus"),
    [
        ([], [2, 1], 3),
        ([container(4), container(3)], [2], 4),
        ([container(1, "Always")], [2], 3),
        ([container(1, "Always"), container(3)], [1], 4),
        ([container(3), container(1, "Always")], [1], 3),
    ],
)
def test_init_containers_run_beside_earlier_sidecars(before: list[Container], beside: list[int], gpus: int) -> None:
    spec = PodSpec(initContainers=before, containers=[container(each) for each in beside])
    assert gpus_of_pod(spec) == Decimal(gpus)
