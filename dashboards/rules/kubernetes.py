"""Recording rules of kube-state-metrics and Kueue: GPUs of nodes and namespaces, pods, work in queues.

Their series have one name each, so no mapping is needed; but where a Prometheus does not honour labels, what a pod is
called is in `exported_namespace` and `exported_pod`, and `namespace` is the exporter's own.
"""

from __future__ import annotations

from typing import Final

from dashboards.rules.recorded import Recorded

WINDOW: Final = "5m"
"""Over which rates of counters are taken."""

GPU: Final = 'resource=~"(nvidia|amd|gpu[.]intel)[._]com[._/](gpu|i915|xe)"'
"""GPUs among resources: as kube-state-metrics (nvidia_com_gpu) and Kueue (nvidia.com/gpu) write them."""

NAMESPACE: Final = ("cluster", "namespace")
QUEUE: Final = ("cluster", "cluster_queue")


def _own(expr: str) -> str:
    """With the pod's own namespace and name, however the labels of its exporter were handled."""
    for label in ("namespace", "pod", "node"):
        expr = f'label_replace({expr}, "{label}", "$1", "exported_{label}", "(.+)")'
    return expr


def _by(how: str, labels: tuple[str, ...], expr: str) -> str:
    return f"{how} by ({', '.join(labels)}) ({expr})"


def _pods(name: str, *more: str) -> str:
    """A series of pods, each pod once however often it is scraped."""
    return _by("max", (*NAMESPACE, "pod", *more), _own(name))


def _queue(name: str, column: str, *more: str) -> Recorded:
    labels = (*QUEUE, *more)
    return Recorded(f"trackside:kueue:{name}", labels, _by("sum", labels, column))


_REQUESTED: Final = _by(
    "sum", (*NAMESPACE, "pod"), _pods(f"kube_pod_container_resource_requests{{{GPU}}}", "container")
)
_ALIVE: Final = _pods('kube_pod_status_phase{phase=~"Pending|Running"} == 1')
_WAITING: Final = _pods('kube_pod_status_phase{phase="Pending"} == 1')
_WAIT: Final = "kueue_admission_wait_time_seconds"
_NODE: Final = ("cluster", "node")


def _of_nodes(name: str, of_each: str) -> Recorded:
    """A sum over the nodes of a cluster."""
    return Recorded(f"trackside:kube:{name}", ("cluster",), _by("sum", ("cluster",), _by("max", _NODE, _own(of_each))))


KUBERNETES: Final = (
    _of_nodes("gpus_allocatable", f"kube_node_status_allocatable{{{GPU}}}"),
    _of_nodes("gpus_capacity", f"kube_node_status_capacity{{{GPU}}}"),
    _of_nodes("nodes_not_ready", 'kube_node_status_condition{condition="Ready", status=~"false|unknown"}'),
    _of_nodes("nodes_cordoned", "kube_node_spec_unschedulable"),
    Recorded(
        "trackside:kube:gpus_requested",
        NAMESPACE,
        _by("sum", NAMESPACE, f"{_REQUESTED} and on (cluster, namespace, pod) {_ALIVE}"),
    ),
    Recorded(
        "trackside:kube:gpus_pending",
        NAMESPACE,
        _by("sum", NAMESPACE, f"{_REQUESTED} and on (cluster, namespace, pod) {_WAITING}"),
    ),
    Recorded(
        "trackside:kube:pods",
        (*NAMESPACE, "phase"),
        _by("sum", (*NAMESPACE, "phase"), _pods("kube_pod_status_phase", "phase")),
    ),
    Recorded(
        "trackside:kube:restarts_per_s",
        NAMESPACE,
        _by("sum", NAMESPACE, _pods(f"rate(kube_pod_container_status_restarts_total[{WINDOW}])", "container")),
    ),
    Recorded(
        "trackside:kube:gpu_quota",
        (*NAMESPACE, "type"),
        _by("sum", (*NAMESPACE, "type"), _own('kube_resourcequota{resource=~"(requests[.])?(nvidia|amd)[.]com/gpu"}')),
    ),
    _queue("pending_workloads", "kueue_pending_workloads", "status"),
    _queue("admitted_workloads", "kueue_admitted_active_workloads"),
    _queue("admissions_per_s", f"rate(kueue_admitted_workloads_total[{WINDOW}])"),
    _queue("evictions_per_s", f"rate(kueue_evicted_workloads_total[{WINDOW}])", "reason"),
    _queue("gpus_used", f"kueue_cluster_queue_resource_usage{{{GPU}}}"),
    _queue("gpus_quota", f"kueue_cluster_queue_nominal_quota{{{GPU}}}"),
    Recorded(
        "trackside:kueue:admission_wait_s",
        QUEUE,
        f"{_by('sum', QUEUE, f'rate({_WAIT}_sum[{WINDOW}])')} / {_by('sum', QUEUE, f'rate({_WAIT}_count[{WINDOW}])')}",
    ),
)
"""None of them uses another."""
