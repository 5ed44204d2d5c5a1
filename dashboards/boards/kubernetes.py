"""The Kubernetes board: which namespaces hold and wait for GPUs, and how do Kueue's queues move?"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from dashboards import grafana
from dashboards.grafana import fixed, override, ranged, rows, steps
from dashboards.numbers import COURSE, most
from dashboards.parts import BAD, GOOD, PLAIN, board, chosen

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dashboards.grafana import Json

UID: Final = "trackside-kubernetes"

NO_STATE: Final = "no kube-state-metrics"
NO_KUEUE: Final = "no Kueue, or its resource metrics are off"
_COUNT: Final[dict[str, Any]] = {"unit": "locale", "decimals": 0, "min": 0, "no_value": NO_STATE}
_QUEUED: Final[dict[str, Any]] = {**_COUNT, "no_value": NO_KUEUE}
_STACK: Final[dict[str, Any]] = {"fillOpacity": 60, "lineWidth": 1, "stacking": {"group": "A", "mode": "normal"}}


def kube(name: str, more: str = "") -> str:
    """A series of the chosen clusters; of the chosen namespaces where it has them."""
    return f'trackside:kube:{name}{{cluster=~"$cluster"{more}}}'


IN_NAMESPACE: Final = ', namespace=~"$namespace"'


def kueue(name: str) -> str:
    """A series of the chosen queues."""
    return f'trackside:kueue:{name}{{cluster=~"$cluster", cluster_queue=~"$cluster_queue"}}'


def kubernetes(_: Mapping[str, tuple[float, ...]]) -> Json:
    """The board as JSON. No claim is on a number of it."""
    return board(
        "Trackside: Kubernetes and Kueue",
        UID,
        "Which namespaces hold and wait for GPUs, and how do Kueue's queues move?",
        tags=("gpu", "kubernetes", "kueue"),
        variables=[
            chosen("cluster", "Cluster", "trackside:kube:gpus_allocatable"),
            chosen("namespace", "Namespace", 'trackside:kube:pods{cluster=~"$cluster"}'),
            chosen("cluster_queue", "Queue", 'trackside:kueue:pending_workloads{cluster=~"$cluster"}'),
        ],
        panels=[
            grafana.row("Now"),
            *_now(),
            grafana.row("Namespaces"),
            *_namespaces(),
            grafana.row("Kueue"),
            *_kueue(),
        ],
    )


def _now() -> list[Any]:
    stat = partial(grafana.stat, size=(4, 4), options=COURSE)
    allocatable = kube("gpus_allocatable")
    return [
        stat(
            "GPUs allocatable",
            "GPUs that nodes offer to pods. Fewer than the capacity: a device plugin is down, or a GPU is unhealthy.",
            [ranged(allocatable, "{{cluster}}")],
            color=fixed(PLAIN),
            **_COUNT,
        ),
        stat(
            "GPUs missing",
            "GPUs that nodes have and do not offer: capacity - allocatable.",
            [ranged(f"{kube('gpus_capacity')} - {allocatable}", "{{cluster}}")],
            thresholds=steps(GOOD, (1, BAD)),
            **_COUNT,
        ),
        stat(
            "GPUs requested",
            "GPUs that pods which run or wait request, of all namespaces.",
            [ranged(f"sum by (cluster) ({kube('gpus_requested')})", "{{cluster}}")],
            color=fixed(PLAIN),
            **_COUNT,
        ),
        stat(
            "GPUs pending",
            "GPUs that pods request which do not run yet. None: nothing waits. Why they wait: kubectl describe pod, "
            "and trackside show queue.",
            [ranged(f"sum by (cluster) ({kube('gpus_pending')})", "{{cluster}}")],
            color=fixed(PLAIN),
            **{**_COUNT, "no_value": "none"},
        ),
        stat(
            "Nodes not ready",
            "Nodes whose kubelet is not ready, or has stopped reporting: their pods are evicted after five minutes.",
            [ranged(kube("nodes_not_ready"), "{{cluster}}")],
            thresholds=steps(GOOD, (1, BAD)),
            **_COUNT,
        ),
        stat(
            "Nodes cordoned",
            "Nodes that take no new pods because they were cordoned. For how long: trackside show lifecycle.",
            [ranged(kube("nodes_cordoned"), "{{cluster}}")],
            color=fixed(PLAIN),
            **_COUNT,
        ),
    ]


def _namespaces() -> list[Any]:
    requested, pending = (kube(f"gpus_{what}", IN_NAMESPACE) for what in ("requested", "pending"))
    hard, used = (kube("gpu_quota", f'{IN_NAMESPACE}, type="{kind}"') for kind in ("hard", "used"))
    columns = {
        "GPUs requested": f"max by (cluster, namespace) ({requested})",
        "GPUs pending": f"max by (cluster, namespace) ({pending})",
        "GPU quota": f"sum by (cluster, namespace) ({hard})",
        "of it used": f"sum by (cluster, namespace) ({used})",
        "pods": f"sum by (cluster, namespace) ({kube('pods', IN_NAMESPACE)})",
        "restarts per hour": f"3600 * {kube('restarts_per_s', IN_NAMESPACE)}",
    }
    return [
        grafana.time_series(
            "GPUs requested, by namespace",
            "GPUs that pods which run or wait request; the twelve namespaces with most.",
            [ranged(most(12, requested), "{{cluster}} {{namespace}}")],
            size=(8, 8),
            custom=_STACK,
            **_COUNT,
        ),
        grafana.time_series(
            "GPUs pending, by namespace",
            "GPUs that pods request which do not run yet; the twelve namespaces with most.",
            [ranged(most(12, pending), "{{cluster}} {{namespace}}")],
            size=(8, 8),
            **{**_COUNT, "no_value": "none"},
        ),
        grafana.time_series(
            "Pods by phase",
            "Pods of the chosen namespaces. Many that failed or are unknown: check the nodes first.",
            [ranged(f"sum by (phase) ({kube('pods', IN_NAMESPACE)})", "{{phase}}")],
            size=(8, 8),
            **_COUNT,
        ),
        grafana.table(
            "Namespaces and their quota",
            "One line a namespace. An empty cell: no quota on GPUs (a ResourceQuota), or nothing is requested.",
            [rows(expr) for expr in columns.values()],
            size=(24, 8),
            transformations=grafana.lines_of(columns, "cluster", "namespace"),
            options={"sortBy": [{"displayName": "GPUs requested", "desc": True}]},
            overrides=[override("restarts per hour", unit="short", decimals=1)],
            **_COUNT,
        ),
    ]


def _kueue() -> list[Any]:
    shown = "{{cluster}} {{cluster_queue}}"
    columns = {
        "pending": f"sum by (cluster, cluster_queue) ({kueue('pending_workloads')})",
        "admitted": f"max by (cluster, cluster_queue) ({kueue('admitted_workloads')})",
        "GPUs used": f"max by (cluster, cluster_queue) ({kueue('gpus_used')})",
        "GPU quota": f"max by (cluster, cluster_queue) ({kueue('gpus_quota')})",
        "of the quota": f"{kueue('gpus_used')} / ({kueue('gpus_quota')} > 0)",
        "mean wait": f"max by (cluster, cluster_queue) ({kueue('admission_wait_s')})",
    }
    return [
        grafana.time_series(
            "Workloads that wait, by queue and status",
            "Active: they will be tried; inadmissible: they failed, and are not tried again until something changes. "
            "Inadmissible for long: no flavour fits, or the quota is too small.",
            [ranged(kueue("pending_workloads"), f"{shown} {{{{status}}}}")],
            size=(8, 8),
            **_QUEUED,
        ),
        grafana.time_series(
            "Workloads admitted, by queue",
            "Workloads that hold quota and have not ended.",
            [ranged(kueue("admitted_workloads"), shown)],
            size=(8, 8),
            **_QUEUED,
        ),
        grafana.time_series(
            "Evictions per hour, by reason",
            "Workloads that Kueue took the quota away from. Each costs what was trained since its last checkpoint: "
            "trackside show evictions. Preempted: who made room for whom is there, too.",
            [
                ranged(
                    f"3600 * sum by (cluster_queue, reason) ({kueue('evictions_per_s')})",
                    "{{cluster_queue}} {{reason}}",
                )
            ],
            size=(8, 8),
            unit="short",
            decimals=1,
            min=0,
            no_value="none, or no Kueue",
        ),
        grafana.time_series(
            "Mean wait for admission, by queue",
            "From the creation of a workload to its admission: of those admitted within the last minutes. A gap: "
            "none was.",
            [ranged(kueue("admission_wait_s"), shown)],
            size=(8, 9),
            unit="s",
            decimals=1,
            min=0,
            no_value="none admitted lately",
        ),
        grafana.table(
            "Queues and their quota",
            "One line a ClusterQueue. Of the quota: above 100 % it borrows from its cohort. GPUs are there only if "
            "Kueue's configuration has metrics.enableClusterQueueResources.",
            [rows(expr) for expr in columns.values()],
            size=(16, 9),
            transformations=grafana.lines_of(columns, "cluster", cluster_queue="queue"),
            options={"sortBy": [{"displayName": "pending", "desc": True}]},
            overrides=[
                override("of the quota", unit="percentunit", decimals=1),
                override("mean wait", unit="s", decimals=1),
            ],
            **_QUEUED,
        ),
    ]


BOARD = kubernetes
