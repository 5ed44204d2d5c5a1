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

    @property
    def notation(self) -> tuple[str, str]:
        """The series, and its samples of every minute as `promtool test rules` writes them."""
        labels = ",".join(f'{name}="{value}"' for name, value in self.labels.items())
        grows = "" if self.per_s is None else f"+{60 * self.per_s:.10g}"
        return f"{self.name}{{{labels}}}", f"{self.value:.10g}{grows}x{MINUTES}"

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
            if node == 0:
                yield Exported("DCGM_FI_DEV_SM_CLOCK", labels, 1900)
                yield Exported("DCGM_FI_DEV_SM_CLOCK", {**labels, "job": "second", "instance": "twin:9400"}, 1900)
    yield Exported("DCGM_FI_DEV_XID_ERRORS", {"gpu": "1", "Hostname": "n1", "instance": "10.0.0.1:9400"}, 79)


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
