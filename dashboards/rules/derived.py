"""Recording rules on top of the normalised series: what a node does, and what of it is a job's.

Telemetry has no job. `trackside_job_gpus` has the GPUs that each job holds on each node: a job's part of a node's
series is its share of the GPUs that jobs hold there. The parts add up to the node, whoever shares it.
"""

from __future__ import annotations

from typing import Final

from dashboards.exported_metrics import BY_NAME
from dashboards.rules.recorded import Recorded

JOB_GPUS: Final = BY_NAME["trackside_job_gpus"]
NODE: Final = ("cluster", "node")

IDLE: Final = (
    "(trackside:gpu:tensor_active < 0.02) "
    "or ((trackside:gpu:gr_engine_active < 0.1) unless trackside:gpu:tensor_active) "
    "or ((trackside:gpu:gpu_util <= 0.1) unless trackside:gpu:tensor_active unless trackside:gpu:gr_engine_active)"
)
"""GPUs that are not active: by the rules `active_tensor`, `active_gr_engine` and `active_gpu_util` as they are."""

BUSY: Final = "trackside:gpu:gr_engine_active or trackside:gpu:gpu_util"
"""Activity of each GPU: the engine's where it is exported, else whether a kernel ran."""


def _of_node(name: str, expr: str) -> Recorded:
    return Recorded(f"trackside:node:{name}", NODE, expr)


def _of_job(name: str, of_node: str) -> Recorded:
    """A job's part of a node's series."""
    expr = f"trackside:job:share * on (cluster, node) group_left () trackside:node:{of_node}"
    return Recorded(f"trackside:job:{name}", JOB_GPUS.labels, expr)


def _for_each_job(of_node: str) -> str:
    """A node's value, once for each job there."""
    return f"0 * trackside:job:gpus + on (cluster, node) group_left () {of_node}"


def _of_held_gpus(series: str) -> str:
    """A node's series, or its held GPUs where these are fewer; under no name, which would make it two over time."""
    held = "trackside:node:held_gpus"
    return f"1 * (({series} <= {held}) or ({held} < {series}))"


DERIVED: Final = (
    # Each once, however often it is scraped.
    Recorded("trackside:job:gpus", JOB_GPUS.labels, f"max by ({', '.join(JOB_GPUS.labels)}) ({JOB_GPUS.name})"),
    _of_node("held_gpus", "sum by (cluster, node) (trackside:job:gpus)"),
    Recorded(
        "trackside:job:share",
        JOB_GPUS.labels,
        "trackside:job:gpus / on (cluster, node) group_left () trackside:node:held_gpus",
    ),
    _of_node("gpus", f"count by (cluster, node) ({BUSY})"),
    _of_node("busy_gpus", f"sum by (cluster, node) ({BUSY})"),
    _of_node("idle_gpus", f"count by (cluster, node) ({IDLE}) or 0 * trackside:node:gpus"),
    # GPUs that no job holds are idle, too: of the idle ones, at least those that are more than these are held.
    _of_node(
        "idle_held_gpus",
        "clamp_min(trackside:node:idle_gpus - clamp_min(trackside:node:gpus - trackside:node:held_gpus, 0), 0)",
    ),
    # Held GPUs that telemetry covers: all of them, or as many as it has.
    _of_node(
        "observed_held_gpus",
        _of_held_gpus("trackside:node:gpus"),
    ),
    # Jobs are known later than telemetry: what GPUs do beyond those that are known to be held is of no known job.
    _of_node("busy_held_gpus", _of_held_gpus("trackside:node:busy_gpus")),
    _of_node("tensor_gpus", "sum by (cluster, node) (trackside:gpu:tensor_active)"),
    _of_node("tensor_held_gpus", _of_held_gpus("trackside:node:tensor_gpus")),
    _of_node("gpu_power_w", "sum by (cluster, node) (trackside:gpu:power_w)"),
    _of_node(
        "filesystem_operations_per_s",
        "sum by (cluster, node) (trackside:node:fs_operations_per_s) "
        "or sum by (cluster, node) (trackside:node:nfs_operations_per_s)",
    ),
    _of_node(
        "filesystem_bytes_per_s",
        "sum by (cluster, node) (trackside:node:fs_read_bytes_per_s) "
        "+ sum by (cluster, node) (trackside:node:fs_written_bytes_per_s)",
    ),
    _of_node("lowest_sm_clock_hz", "min by (cluster, node) (trackside:gpu:sm_clock_hz)"),
    _of_node("highest_temperature_c", "max by (cluster, node) (trackside:gpu:temperature_c)"),
    # What is the slowest of a node's GPUs is not shared out: a job waits for it whole.
    Recorded("trackside:job:lowest_sm_clock_hz", JOB_GPUS.labels, _for_each_job("trackside:node:lowest_sm_clock_hz")),
    _of_job("busy_gpus", "busy_held_gpus"),
    _of_job("idle_gpus", "idle_held_gpus"),
    _of_job("observed_gpus", "observed_held_gpus"),
    _of_job("tensor_gpus", "tensor_held_gpus"),
    _of_job("gpu_power_w", "gpu_power_w"),
    _of_job("filesystem_operations_per_s", "filesystem_operations_per_s"),
    _of_job("filesystem_bytes_per_s", "filesystem_bytes_per_s"),
)
"""In an order in which each uses only those before it."""
