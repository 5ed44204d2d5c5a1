"""OpenMetrics of one cluster as exporters tell of it: both generations of DCGM, node_exporter, Slurm's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

END_S: Final = 1_793_491_200
"""2026-11-01T00:00:00Z: the last scrape."""

SCRAPE_S: Final = 30
MINUTES: Final = 40


@dataclass(frozen=True)
class Exported:
    """A series: `value` is that of a gauge; of a counter, `per_s` is what it grows by."""

    name: str
    labels: dict[str, str]
    value: float = 0.0
    per_s: float | None = None

    def lines(self) -> Iterator[str]:
        """Its samples."""
        labels = ",".join(f'{name}="{value}"' for name, value in self.labels.items())
        for moment in range(END_S - MINUTES * 60, END_S + 1, SCRAPE_S):
            grown = 0.0 if self.per_s is None else self.per_s * (moment - END_S + MINUTES * 60)
            yield f"{self.name}{{{labels}}} {self.value + grown:.10g} {moment}"


def text(series: list[Exported]) -> str:
    """OpenMetrics text, sorted by family."""
    lines: list[str] = []
    for name in sorted({each.name for each in series}):
        of_name = [each for each in series if each.name == name]
        counter = of_name[0].per_s is not None and name.endswith("_total")
        family = name.removesuffix("_total") if counter else name
        lines += [f"# TYPE {family} {'counter' if counter else 'unknown'}"]
        lines += [line for each in of_name for line in each.lines()]
    return "\n".join([*lines, "# EOF", ""])


def cluster() -> list[Exported]:
    """Four nodes of two GPUs: two by each generation of dcgm-exporter, one of them scraped twice."""
    return [*_gpus(), *_nodes(), *_slurm()]


def jobs() -> list[Exported]:
    """What Trackside exports of the jobs there: one on two nodes, and two that share a third."""
    held = (("1", "ann", "n0", 2), ("1", "ann", "n1", 2), ("2", "bob", "n2", 1), ("3", "bob", "n2", 1))
    return [
        Exported(
            "trackside_job_gpus",
            {"cluster": "", "node": node, "job_id": job, "run": f"run-{job}", "user": user, "account": "lab"}
            | {"partition": "train", "instance": "trackside:8050"},
            gpus,
        )
        for job, user, node, gpus in held
    ]


def _gpus() -> Iterator[Exported]:
    for node in range(4):
        for gpu in range(2):
            place = {"gpu": str(gpu), "device": f"nvidia{gpu}", "UUID": f"GPU-{node}{gpu}", "job": "dcgm"}
            if node < 2:
                labels = {**place, "Hostname": f"n{node}.cluster.local", "instance": f"10.0.0.{node}:9400"}
            else:
                pod = {"pod": f"dcgm-exporter-{node}", "namespace": "gpu"}
                labels = {**place, **pod, "hostname": f"dcgm-exporter-{node}", "node": f"n{node}"}
                labels["instance"] = f"10.1.0.{node}:9400"
            busy = 0.1 * node + 0.3 * gpu
            yield Exported("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", labels, busy)
            yield Exported("DCGM_FI_DEV_GPU_UTIL", labels, 100 * busy)
            yield Exported("DCGM_FI_DEV_POWER_USAGE", labels, 400 + 10 * node)
            yield Exported("DCGM_FI_DEV_FB_USED", labels, 1000 + node)
            yield Exported("DCGM_FI_DEV_GPU_TEMP", labels, 2147483632 if node == 3 else 60 + gpu)
            for way, rate in {"TX": 2e9, "RX": 3e9}.items():
                yield Exported(f"DCGM_FI_PROF_NVLINK_{way}_BYTES", labels, rate)
            yield Exported("DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL", labels, per_s=0.01)
            if node != 3:
                yield Exported("DCGM_FI_DEV_SM_CLOCK", labels, 1900 - 100 * node)
            if node == 0:
                yield Exported("DCGM_FI_DEV_SM_CLOCK", {**labels, "job": "second", "instance": "twin:9400"}, 1900)
    yield Exported("DCGM_FI_DEV_XID_ERRORS", {"gpu": "1", "Hostname": "n1", "instance": "10.0.0.1:9400"}, 79)
    yield Exported("DCGM_FI_DEV_XID_ERRORS", {"gpu": "0", "hostname": "n2", "instance": "10.1.0.2:9400"}, 31)


def _nodes() -> Iterator[Exported]:
    for node in range(4):
        scraped = {"instance": f"10.2.0.{node}:9100", "job": "node"}
        yield Exported("node_uname_info", {**scraped, "nodename": f"n{node}.cluster.local"}, 1)
        for cpu in range(2):
            labels = {**scraped, "cpu": str(cpu), "mode": "idle"}
            yield Exported("node_cpu_seconds_total", labels, per_s=0.25 * (cpu + 1))
        port = {**scraped, "device": f"mlx5_{node}", "port": "1"}
        yield Exported("node_infiniband_port_data_received_bytes_total", port, per_s=1e9 * (node + 1))
        for what, per_s in {"symbol_error": 0.01, "port_errors_received": 0.02, "port_transmit_wait": 5.0}.items():
            yield Exported(f"node_infiniband_{what}_total", port, per_s=per_s)
        yield Exported("node_infiniband_port_data_transmitted_bytes_total", port, per_s=1e9)
        yield Exported("node_infiniband_link_downed_total", port, per_s=0.0)
        yield Exported("node_infiniband_state_id", port, 4)
        yield Exported("node_infiniband_rate_bytes_per_second", port, 5e10)
        roce = {**scraped, "device": "eth0"}
        for what, per_s in {
            "receive_bytes": 5e7,
            "transmit_bytes": 4e7,
            "receive_drop": 0.1,
            "receive_errs": 0.0,
        }.items():
            yield Exported(f"node_network_{what}_total", roce, per_s=per_s)
        nfs = {**scraped, "export": "fs:/home", "protocol": "tcp", "mountaddr": "1.2.3.4"}
        for operation, rate in {"READ": 50.0, "WRITE": 20.0, "GETATTR": 10.0}.items():
            name = "node_mountstats_nfs_operations_requests_total"
            yield Exported(name, {**nfs, "operation": operation}, per_s=rate * (node + 1))
            took = "node_mountstats_nfs_operations_response_time_seconds_total"
            yield Exported(took, {**nfs, "operation": operation}, per_s=0.002 * rate * (node + 1))
        for way in ("read", "write"):
            yield Exported(f"node_mountstats_nfs_total_{way}_bytes_total", nfs, per_s=1e6)
    yield Exported("node_load1", {"instance": "10.9.9.9:9100", "job": "node"}, 3.5)


def _slurm() -> Iterator[Exported]:
    for state, count in {"alloc": 3, "idle": 1, "drain": 0}.items():
        yield Exported(f"slurm_nodes_{state}", {"instance": "10.3.0.1:8080", "job": "slurm"}, count)
    for state, count in {"running": 5, "pending": 7}.items():
        yield Exported(f"slurm_queue_{state}", {"instance": "10.3.0.1:8080", "job": "slurm"}, count)
    for partition, count in {"train": 4, "debug": 2}.items():
        labels = {"partition": partition, "instance": "10.3.0.1:8080", "job": "slurm"}
        yield Exported("slurm_partition_gpu_alloc", labels, count)


@dataclass(frozen=True)
class Family:
    """How one of Slurm's exporters calls what all of them tell."""

    nodes: dict[str, str]
    jobs: dict[str, str]
    partition: dict[str, str]
    controller: dict[str, float]


SLURM: Final = {
    "sunk": Family(
        {"slurm_nodes_alloc": "a", "slurm_nodes_idle": "i", "slurm_nodes_mix": "m", "slurm_nodes_drain": "d"},
        {"slurm_queue_running": "r", "slurm_queue_pending": "p"},
        {"slurm_partition_gpu_total": "t", "slurm_partition_gpu_alloc": "g", "slurm_partition_jobs_pending": "p"},
        {
            "slurm_scheduler_cycle_last_seconds": 0.4,
            "slurm_scheduler_backfill_cycle_last_seconds": 2.5,
            "slurm_scheduler_queue": 31,
            "slurm_scheduler_dbd_queue": 2,
            "slurm_scheduler_threads": 3,
        },
    ),
    "slinky": Family(
        {
            "slurm_nodes_allocated_total": "a",
            "slurm_nodes_idle_total": "i",
            "slurm_nodes_mixed_total": "m",
            "slurm_nodes_drain_total": "d",
        },
        {"slurm_jobs_running_total": "r", "slurm_jobs_pending_total": "p"},
        {"slurm_partition_nodes_total": "t", "slurm_partition_jobs_pending_total": "p"},
        {
            "slurm_scheduler_cycle_last_seconds": 400_000,
            "slurm_scheduler_cycle_mean_seconds": 350_000,
            "slurm_bfscheduler_cycle_seconds": 2_500_000,
            "slurm_bfscheduler_cycle_mean_seconds": 2_100_000,
            "slurm_scheduler_queue_total": 31,
            "slurm_bfscheduler_queue_total": 24,
            "slurm_bfscheduler_depth_mean_total": 12,
            "slurm_scheduler_dbdagentqueue_total": 2,
            "slurm_scheduler_agent_queue_total": 1,
            "slurm_scheduler_thread_total": 3,
        },
    ),
    "native": Family(
        {
            "slurm_nodes": "n",
            "slurm_nodes_alloc": "a",
            "slurm_nodes_idle": "i",
            "slurm_nodes_mixed": "m",
            "slurm_nodes_drain": "d",
            "slurm_nodes_draining": "d",
        },
        {"slurm_jobs_running": "r", "slurm_jobs_pending": "p"},
        {"slurm_partition_gpus": "t", "slurm_partition_jobs_gpus_alloc": "g", "slurm_partition_jobs_pending": "p"},
        {
            "slurm_schedule_cycle_last": 400_000,
            "slurm_sched_mean_cycle": 350_000,
            "slurm_bf_cycle_last": 2_500_000,
            "slurm_bf_mean_cycle": 2_100_000,
            "slurm_schedule_queue_len": 31,
            "slurm_bf_queue_len": 24,
            "slurm_bf_depth_mean": 12,
            "slurm_slurmdbd_queue_size": 2,
            "slurm_agent_queue_size": 1,
            "slurm_server_thread_cnt": 3,
        },
    ),
}
"""Three families of names for one cluster, each as a cluster of its own."""

TOLD: Final = {"n": 24, "a": 14, "i": 6, "m": 3, "d": 1, "r": 9, "p": 31, "t": 192, "g": 132}
"""What they tell of that cluster."""


def clusters() -> Iterator[Exported]:
    """That cluster as each family of Slurm's exporters tells of it."""
    for cluster, family in SLURM.items():
        labels = {"cluster": cluster, "instance": "10.4.0.1:6817", "job": "slurm"}
        for name, what in {**family.nodes, **family.jobs}.items():
            yield Exported(name, labels, TOLD[what])
        for name, what in family.partition.items():
            yield Exported(name, {**labels, "partition": "train"}, TOLD[what])
        for name, value in family.controller.items():
            yield Exported(name, labels, value)
    for what, per_s in {"REQUEST_PING": 2.0, "REQUEST_SUBMIT_BATCH_JOB": 0.2}.items():
        labels = {"cluster": "sunk", "instance": "10.4.0.1:6817", "message_type": what}
        yield Exported("slurm_controller_rpc_calls_total", labels, per_s=per_s)
        yield Exported("slurm_controller_rpc_duration_seconds_total", labels, per_s=per_s * 0.02)


def kubernetes() -> Iterator[Exported]:
    """What kube-state-metrics and Kueue tell of two namespaces and two queues; one's labels are not honoured."""
    scraped = {"job": "kube-state-metrics", "instance": "10.5.0.1:8080"}
    for node in range(4):
        of_node = {**scraped, "node": f"n{node}"}
        for what in ("allocatable", "capacity"):
            gpus = {**of_node, "resource": "nvidia_com_gpu", "unit": "integer"}
            yield Exported(f"kube_node_status_{what}", gpus, 8)
        for status in ("true", "false", "unknown"):
            ready = {**of_node, "condition": "Ready", "status": status}
            yield Exported("kube_node_status_condition", ready, float(status == ("false" if node == 3 else "true")))
        yield Exported("kube_node_spec_unschedulable", of_node, float(node == 3))
    for pod in range(4):
        namespace = {"namespace": "team-a"} if pod < 2 else {"exported_namespace": "team-b", "namespace": "monitoring"}
        name = {"pod": f"p{pod}"} if pod < 2 else {"exported_pod": f"p{pod}", "pod": "kube-state-metrics-0"}
        whose = {**scraped, **namespace, **name}
        for phase in ("Pending", "Running"):
            holds = (phase == "Pending") == (pod % 2 == 1)
            yield Exported("kube_pod_status_phase", {**whose, "phase": phase}, float(holds))
        requested = {**whose, "container": "main", "resource": "nvidia_com_gpu", "unit": "integer"}
        yield Exported("kube_pod_container_resource_requests", requested, 8)
        yield Exported("kube_pod_container_status_restarts_total", {**whose, "container": "main"}, per_s=0.001)
    for kind, count in {"hard": 32, "used": 16}.items():
        quota = {**scraped, "namespace": "team-a", "resourcequota": "gpus", "type": kind}
        yield Exported("kube_resourcequota", {**quota, "resource": "requests.nvidia.com/gpu"}, count)
    for queue in ("team-a-cq", "team-b-cq"):
        of_queue = {"job": "kueue", "instance": "10.5.0.2:8443", "cluster_queue": queue}
        for status, count in {"active": 3, "inadmissible": 1}.items():
            yield Exported("kueue_pending_workloads", {**of_queue, "status": status}, count)
        yield Exported("kueue_admitted_active_workloads", of_queue, 5)
        yield Exported("kueue_admitted_workloads_total", of_queue, per_s=0.02)
        yield Exported("kueue_evicted_workloads_total", {**of_queue, "reason": "Preempted"}, per_s=0.005)
        gpu = {**of_queue, "flavor": "h100", "resource": "nvidia.com/gpu"}
        yield Exported("kueue_cluster_queue_resource_usage", gpu, 24)
        yield Exported("kueue_cluster_queue_nominal_quota", gpu, 32)
        yield Exported("kueue_admission_wait_time_seconds_sum", of_queue, per_s=1.2)
        yield Exported("kueue_admission_wait_time_seconds_count", of_queue, per_s=0.02)
