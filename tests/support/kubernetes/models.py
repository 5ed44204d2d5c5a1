"""Kubernetes objects held against published models: Kubeflow's package has those of the core, JobSet and TrainJob."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kubeflow_trainer_api import models

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.kubernetes.objects import Object

MODELS: Final = {
    "Pod": models.IoK8sApiCoreV1Pod,
    "Node": models.IoK8sApiCoreV1Node,
    "Job": models.IoK8sApiBatchV1Job,
    "CronJob": models.IoK8sApiBatchV1CronJob,
    "Service": models.IoK8sApiCoreV1Service,
    "ServiceAccount": models.IoK8sApiCoreV1ServiceAccount,
    "HorizontalPodAutoscaler": models.IoK8sApiAutoscalingV2HorizontalPodAutoscaler,
    "JobSet": models.JobsetV1alpha2JobSet,
    "TrainJob": models.TrainerV1alpha1TrainJob,
}
"""Kinds that a package on PyPI has models of. Objects of Argo, Kueue, Volcano, KubeVirt and of Kubeflow's older jobs
are written from the API's reference; the lab's API server holds those of its CRDs against their schemas."""


def faults(one: Object) -> list[str]:
    """What is wrong with an object: fields that its model does not have, and values that it refuses."""
    model = MODELS[one["kind"]]
    try:
        kept = model.from_dict(one)
    except ValueError as error:
        return [str(error)]
    return list(_lost(one, kept.to_dict() if kept else {}, one["kind"]))


def _lost(given: Any, kept: Any, place: str) -> Iterator[str]:
    """Fields that the model passed over."""
    if isinstance(given, dict):
        for name, value in given.items():
            if value in ({}, [], None, ""):
                continue
            if not isinstance(kept, dict) or name not in kept:
                yield f"{place}.{name} is no field"
            else:
                yield from _lost(value, kept[name], f"{place}.{name}")
    elif isinstance(given, list):
        for number, value in enumerate(given):
            yield from _lost(value, kept[number], f"{place}[{number}]")
