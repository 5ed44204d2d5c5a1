"""Samples of slurmd of simulated jobs: CPU time and memory of the batch script and of the processes of training."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from app.demo.simulate.trace import ACTIVE

if TYPE_CHECKING:
    from app.demo.simulate.scheduler import Attempt

MEMORY_PER_GPU_G: Final = 250
"""Memory that a job requests with each GPU, GiB."""

_CORES: Final = {"train": (2.0, 9.0), "eval": (1.2, 4.0), "interactive": (0.1, 0.8)}
"""Cores that the processes of a GPU keep busy (data loaders, the Python process), least and most, of 24."""

_MEMORY: Final = {"train": (0.06, 0.35), "eval": (0.05, 0.15), "interactive": (0.02, 0.3)}
"""Share of the requested memory that a process has at its peak, least and most."""

_KILLED_AT: Final = 0.97
"""The last sample of a process that the kernel ends for its memory."""


class SimulatedStep(NamedTuple):
    """A step of an attempt.

    Attributes:
        name: the part of its JobID after the dot.
        nodes: numbers of its nodes.
        tasks: how many.
        cpu_s: CPU seconds of all; None where no record came: its node died, or it still runs.
        rss_bytes: the most memory of one task in any sample; None as above.
        total_bytes: the peaks of the tasks added up.
    """

    name: str
    nodes: list[int]
    tasks: int
    cpu_s: float | None
    rss_bytes: int | None
    total_bytes: int | None


def steps(attempt: Attempt, seed: int) -> list[SimulatedStep]:
    """The steps of an attempt that started: the batch script on its first node, and a process for each GPU."""
    job = attempt.job
    chance = np.random.default_rng([seed, 9, attempt.db_index])
    cores, share = chance.uniform(*_CORES[job.kind]), chance.uniform(*_MEMORY[job.kind])
    if attempt.ended is None or attempt.dead_node is not None:
        return [
            SimulatedStep("batch", attempt.nodes[:1], 1, None, None, None),
            SimulatedStep("0", attempt.nodes, job.gpus, None, None, None),
        ]
    peak = int((_KILLED_AT if attempt.state == "OUT_OF_MEMORY" else share) * MEMORY_PER_GPU_G * 2**30)
    busy_s = sum(item.end - item.begin for item in attempt.items if item.kind in ACTIVE) / 1000
    script = int(chance.uniform(20, 60)) * 2**20
    return [
        SimulatedStep("batch", attempt.nodes[:1], 1, 2.0, script, script),
        SimulatedStep(
            "0",
            attempt.nodes,
            job.gpus,
            busy_s * cores * job.gpus,
            peak,
            int(peak * job.gpus * 0.96) if job.gpus > 1 else peak,
        ),
    ]


def clock(seconds: float) -> str:
    """A length of time as sacct prints it.

    >>> clock(61), clock(90_061)
    ('00:01:01', '1-01:01:01')
    """
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    return (f"{days}-" if days else "") + f"{hour:02d}:{minute:02d}:{second:02d}"
