"""The source of Kubernetes objects."""

from __future__ import annotations

from typing import Final

from ingest.source import IngestSource, SourceFolder

OBJECTS: Final = "kubernetes.objects"

SCHEDULERS: Final = ("kubernetes", "kubeflow", "argo", "vm")
"""Values of `attempts.scheduler` of what Kubernetes runs."""

SOURCES: Final = (
    IngestSource(
        name=OBJECTS,
        title="Kubernetes objects",
        feeds=(
            "pods",
            "workloads",
            "nodes",
            "node_states",
            "attempts",
            "placements",
            "kueue_workloads",
            "evictions",
            "resource_claims",
            "resource_slices",
            "health_events",
        ),
        counted=("pods", "workloads", "attempts", "kueue_workloads", "resource_claims", "resource_slices"),
        schedulers=SCHEDULERS,
        files="kubectl get ... -o json or -o yaml, and with --watch --output-watch-events",
        command="",
        purpose="Training jobs that Kubernetes runs: nodes, GPUs, restarts and outcomes; one owner tree is one run.",
        when_empty="does the list hold pods? Only these show which GPUs were held.",
        names_cluster=False,
        skips="objects without GPUs",
    ),
)

FOLDER: Final = SourceFolder(
    "kubernetes",
    "Kubernetes work: pods, Jobs, JobSets, Kubeflow's and Argo's kinds",
    SOURCES,
    position=5,
    called="Kubernetes",
    loader="ingest.kubernetes.store",
    files="objects as JSON or YAML; .gz is accepted; - is standard input",
    epilog="""\
  kubectl get nodes,pods,jobs,jobsets,trainjobs,pytorchjobs -A -o json > objects.json

Pods that end are removed after a while: load lists often, or the output of a watch:

  kubectl get pods -A --watch --output-watch-events -o json

Live, without files: --kubeconfig FILE, or --in-cluster in a pod; --rbac prints the required role.""",
    manual="sources/kubernetes",
)
