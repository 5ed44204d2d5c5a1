"""A 1F1B pipeline whose receives block: each begins when the computation before it, of either pass, ended."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import polars as pl

from metrics import frames

if TYPE_CHECKING:
    from collections.abc import Callable

Seconds = dict[str, float]

COMPUTE_S: Seconds = {"forward": 1.0, "backward": 2.0}
TRANSFER_S = 0.05


def order(stage: int, stages: int, micro_batches: int) -> list[tuple[str, int]]:
    """Passes of a stage: forward ones first, then one of each, then the backward ones that are left.

    >>> order(0, 2, 2)
    [('forward', 0), ('forward', 1), ('backward', 0), ('backward', 1)]
    """
    ahead = min(stages - 1 - stage, micro_batches)
    passes = [("forward", number) for number in range(ahead)]
    for number in range(ahead, micro_batches):
        passes += [("forward", number), ("backward", number - ahead)]
    return passes + [("backward", number) for number in range(micro_batches - ahead, micro_batches)]


def trace_rows(
    ranks: int, stages: int, micro_batches: int, steps: int, transfer_s: Callable[[int, int], float]
) -> pl.DataFrame:
    """`frames.OPERATIONS`; `transfer_s(rank, stage)` are seconds of what the stage of the rank receives."""
    rows = []
    for step in range(steps):
        for rank in range(ranks):
            seconds = [transfer_s(rank, stage) for stage in range(stages)]
            for stage, kind, number, started, ended in _of_rank(stages, micro_batches, seconds):
                place = stage if kind.endswith("-compute") else -1
                rows.append((rank, stage, step, kind, number, min(place, 0), place, started, ended - started))
    names = ["dp_rank", "stage", "step", "kind", "number", "chunk", "place", "started_s", "duration_s"]
    return frames.conform(pl.DataFrame(rows, schema=names, orient="row"), frames.OPERATIONS)


def _of_rank(stages: int, micro_batches: int, transfer_s: list[float]) -> list[tuple[int, str, int, float, float]]:
    """Operations of a rank as (stage, kind, number, start, end)."""
    left = {stage: order(stage, stages, micro_batches) for stage in range(stages)}
    free: dict[int, float] = defaultdict(float)
    done: dict[tuple[str, int, int], float] = {}
    rows = []
    while any(left.values()):
        for stage, passes in left.items():
            while passes:
                way, number = passes[0]
                sender = stage + (-1 if way == "forward" else 1)
                if 0 <= sender < stages:
                    if (way, sender, number) not in done:
                        break
                    launched, asked = done[way, sender, number], free[stage]
                    free[stage] = max(launched, asked) + transfer_s[stage]
                    rows += [(sender, f"{way}-send", number, launched, free[stage])]
                    rows += [(stage, f"{way}-recv", number, asked, free[stage])]
                ended = free[stage] + COMPUTE_S[way]
                rows += [(stage, f"{way}-compute", number, free[stage], ended)]
                free[stage] = done[way, stage, number] = ended
                del passes[0]
    return rows
