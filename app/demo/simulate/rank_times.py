"""Compute and wait times of every rank of some runs: rank times v1, a run for each verdict on stragglers.

A run that has one GPU slow (that of a GPU which clocks lower, where one is in a run of that size), one whose transfers
take longer from its middle on, one with batches of uneven length, one whose hosts do, and one on GPUs of two kinds,
which the times of ranks cannot distinguish from uneven work.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from app.demo.simulate.plan import CLUSTER, GPUS_PER_NODE
from app.json_text import as_json

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import numpy.typing as npt

    from app.demo.simulate.plan import Dimmed
    from app.demo.simulate.scheduler import Attempt
    from app.demo.simulate.world import World

    Floats = npt.NDArray[np.float64]

VERDICTS: Final = ("node", "network", "job_shape", "launch", "unknown")
LINES: Final = 24
"""Of each rank."""
STEPS: Final = 100
"""Of a line."""
NODES: Final = range(4, 17)
"""Of a run with rank times."""
LEAST_MS: Final = 4 * 3_600_000
SLOW: Final = 1.3


class Planted(NamedTuple):
    """A run with rank times: its attempt, its verdict, and the slow rank with what it takes longer, if one is slow."""

    attempt: Attempt
    cause: str
    slow: int | None = None
    factor: float = 1.0


def planted(world: World) -> list[Planted]:
    """A run for each verdict, as far as there are runs of that size."""
    chosen: dict[int, Attempt] = {}
    for attempt in world.attempts:
        if _fits(attempt):
            chosen.setdefault(attempt.job.id, attempt)
    free = list(chosen.values())
    runs = []
    for cause in VERDICTS[: len(free)]:
        if cause == "node":
            runs.append(_with_slow_rank(world, free))
            free.remove(runs[-1].attempt)
        else:
            runs.append(Planted(free.pop(0), cause))
    return runs


def _fits(attempt: Attempt) -> bool:
    whole = all(len(gpus) == GPUS_PER_NODE for _, gpus in attempt.places)
    trains = attempt.job.model is not None and len(attempt.places) in NODES and whole
    return trains and bool(attempt.items) and attempt.items[-1].end - attempt.items[0].begin >= LEAST_MS


def _with_slow_rank(world: World, attempts: list[Attempt]) -> Planted:
    for attempt in attempts:
        for dimmed in world.history.plan.dimmed:
            if dimmed.node in attempt.nodes and _throughout(dimmed, attempt):
                rank = attempt.nodes.index(dimmed.node) * GPUS_PER_NODE + dimmed.gpu
                return Planted(attempt, "node", rank, 1 / dimmed.clock)
    return Planted(attempts[0], "node", GPUS_PER_NODE + 3, SLOW)


def _throughout(dimmed: Dimmed, attempt: Attempt) -> bool:
    return dimmed.begin * 1000 <= attempt.items[0].begin and attempt.items[-1].end <= dimmed.end * 1000


def names(world: World) -> list[str]:
    """Names of all files."""
    return [_name(each) for each in planted(world)]


def _name(run: Planted) -> str:
    return f"{run.attempt.job.name}-{run.attempt.job.id}.jsonl"


def write_rank_times(world: World, folder: Path) -> None:
    """Write a file for each run."""
    for run in planted(world):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / _name(run)).write_text("".join(_lines(run, world)), encoding="utf-8")


def planted_rows(world: World) -> list[dict[str, Any]]:
    """The truth: which run has which verdict, and which node is slow."""
    settings = world.settings
    return [
        {"job": f"{run.attempt.job.id}.{run.attempt.number}", "cause": run.cause,
         "node": None if run.slow is None else settings.name(run.attempt.nodes[run.slow // GPUS_PER_NODE])}
        for run in planted(world)
    ]  # fmt: skip


def _lines(run: Planted, world: World) -> Iterator[str]:
    job, items = run.attempt.job, run.attempt.items
    computed, transfers, host = _times(run)
    wall = computed.max(axis=1) + transfers + host
    begin = items[0].begin / 1000 + (items[-1].end - items[0].begin) / 20_000
    length = (items[-1].end / 1000 - begin) / LINES
    for line in range(LINES):
        unit = length / wall[line]
        for rank in range(job.gpus):
            waited = computed[line].max() - computed[line, rank] + transfers[line]
            values = {
                "type": "rank_steps", "v": 1, "t": round(begin + line * length, 3),
                "end": round(begin + (line + 1) * length, 3), "run_id": job.name, "cluster": CLUSTER,
                "scheduler": "slurm", "job_id": str(job.id), "restart_count": run.attempt.number,
                "node": world.settings.name(run.attempt.nodes[rank // GPUS_PER_NODE]), "rank": rank,
                "local_rank": rank % GPUS_PER_NODE, "step": 1 + line * STEPS, "steps": STEPS,
                "compute_s": round(float(unit * computed[line, rank]), 3), "wait_s": round(float(unit * waited), 3),
            }  # fmt: skip
            yield as_json(values, compact=True) + "\n"


def _times(run: Planted) -> tuple[Floats, Floats, Floats]:
    """Compute time of each rank in each line (lines x ranks), and times of transfers and host; a step is about 1."""
    ranks = run.attempt.job.gpus
    chance = np.random.default_rng([run.attempt.job.id, 6])
    computed = np.exp(chance.normal(0, 0.01, (LINES, ranks)) + chance.normal(0, 0.004, ranks))
    late = np.arange(LINES) >= LINES // 2
    transfers = np.where(late & (run.cause == "network"), 0.5, 0.12)
    host = np.where(late & (run.cause == "launch"), 0.4, 0.03)
    if run.slow is not None:
        computed[:, run.slow] *= run.factor
    if run.cause == "job_shape":
        computed *= np.exp(chance.normal(0, 0.12, computed.shape))
    if run.cause == "unknown":
        computed[:, : ranks // 2] *= 1.25
    return computed, transfers, host
