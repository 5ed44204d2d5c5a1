"""Invented jobs of one cluster as the recorded series, for pictures of the live boards: history as OpenMetrics text."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from tests.dashboards.seed import END_S, STEP_S

if TYPE_CHECKING:
    from collections.abc import Iterator

JOBS: Final = (
    ("4411", "llama-70b-pretrain", "alice", "train", 16, 0.93),
    ("4412", "moe-8x22b", "bob", "train", 8, 0.88),
    ("4413", "vision-encoder", "carol", "train", 4, 0.71),
    ("4414", "notebook", "dave", "debug", 1, 0.04),
    ("4415", "sweep-lr-17", "carol", "debug", 2, 0.55),
)
"""Job, run, user, partition, nodes of eight GPUs, activity."""


def history(hours: float) -> str:
    """OpenMetrics text of that many hours before the end."""
    by_name: dict[str, list[str]] = {}
    for name, labels, value, swing in _series():
        text = ",".join(f'{key}="{each}"' for key, each in labels.items())
        for moment in range(END_S - int(hours * 3600), END_S + 1, STEP_S):
            wave = 1 + swing * math.sin(moment / 5400 + len(text))
            by_name.setdefault(name, []).append(f"{name}{{{text}}} {value * wave:.6g} {moment}")
    lines = [line for name, samples in by_name.items() for line in (f"# TYPE {name} gauge", *samples)]
    return "\n".join([*lines, "# EOF", ""])


def _series() -> Iterator[tuple[str, dict[str, str], float, float]]:
    node = 0
    for job, run, user, partition, nodes, busy in JOBS:
        for _ in range(nodes):
            node += 1
            place = {"cluster": "alpha", "node": f"n{node:03}", "job_id": job, "run": run}
            labels = {**place, "user": user, "account": "lab", "partition": partition}
            values = {
                "gpus": (8.0, 0.0),
                "share": (1.0, 0.0),
                "observed_gpus": (8.0, 0.0),
                "busy_gpus": (8 * busy, 0.05),
                "tensor_gpus": (8 * busy * 0.45, 0.08),
                "idle_gpus": (8.0 if busy < 0.1 else 0.0, 0.0),
                "gpu_power_w": (8 * (120 + 500 * busy), 0.04),
                "filesystem_operations_per_s": (400 / nodes * (1 + 9 * (partition == "debug")), 0.3),
            }
            for name, (value, swing) in values.items():
                yield f"trackside:job:{name}", labels, value, swing
            yield "trackside_job_gpus", labels, 8.0, 0.0
            yield from _of_node({"cluster": "alpha", "node": f"n{node:03}"}, busy, slow=node == 5)


def _of_node(node: dict[str, str], busy: float, *, slow: bool) -> Iterator[tuple[str, dict[str, str], float, float]]:
    """Series of a node's GPUs, port and mount; the clock of a slow one's first GPU is a third lower."""
    sums = {"gpus": 8.0, "busy_gpus": 8 * busy, "held_gpus": 8.0, "idle_held_gpus": 8.0 if busy < 0.1 else 0.0}
    yield from ((f"trackside:node:{name}", node, value, 0.0) for name, value in sums.items())
    for gpu in range(8):
        late = slow and gpu == 0
        values = {
            "gr_engine_active": (busy, 0.03),
            "tensor_active": (0.45 * busy, 0.05),
            "sm_clock_hz": (1.3e9 if late else 1.93e9, 0.01),
            "power_w": (420 if late else 120 + 500 * busy, 0.04),
            "temperature_c": (84 if late else 55 + 10 * busy, 0.03),
            "memory_used_bytes": (72e9 * min(1.0, busy + 0.1), 0.02),
        }
        for name, (value, swing) in values.items():
            yield f"trackside:gpu:{name}", {**node, "gpu": str(gpu)}, value, swing
    if slow:
        yield "trackside:gpu:last_xid", {**node, "gpu": "0"}, 63, 0.0
    port = {**node, "device": "mlx5_0/1"}
    for way in ("received", "transmitted"):
        yield f"trackside:node:ib_{way}_bytes_per_s", port, 2e10 * busy, 0.2
    for what, rate in {"receive_errors": 0.0, "symbol_errors": 0.02, "transmit_wait": 40.0, "link_downed": 0.0}.items():
        yield f"trackside:node:ib_{what}_per_s", port, rate, 0.5
    mount = {**node, "device": "fs:/home"}
    for kind, rate in {"": 32, "read_": 20, "write_": 4, "metadata_": 8}.items():
        yield f"trackside:node:fs_{kind}operations_per_s", mount, rate, 0.3
    for way, rate in {"read": 3e8, "written": 8e7}.items():
        yield f"trackside:node:fs_{way}_bytes_per_s", mount, rate, 0.6
    yield "trackside:node:fs_response_s_per_s", mount, 0.4, 0.4
