"""A simulated fleet with slow GPUs: hourly seconds of computation, by mechanisms that the detector does not assume.

GPUs differ from birth (uniform) and drift (autoregressive); hours scatter with heavy tails; data loading stalls a rank
(Pareto) or all ranks of a run at once. One node in so many is slow: for good from some day on, on and off (a Markov
chain of hours), or when its air is warm (all its GPUs, in the afternoon). Some runs have a heavy last pipeline stage,
batches of uneven length, or ranks with more work for the whole run. Nodes change between runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from metrics import frames

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]

KINDS: Final = ("permanent", "intermittent", "thermal")
SHAPES: Final = {
    "regular": 0.7,
    "heavy stage": 0.1,
    "uneven batches": 0.1,
    "uneven ranks": 0.05,
    "no stage known": 0.05,
}
"""Of runs."""
GPUS: Final = 8
POOL: Final = 128
"""Nodes that runs are cut from, one after the other."""
STEPS: Final = 360
"""Of an hour."""


@dataclass(frozen=True)
class Run:
    """A run on some nodes for some hours, and the shape of its work."""

    number: int
    nodes: npt.NDArray[np.int64]
    first: int
    hours: int
    shape: str


@dataclass(frozen=True)
class StragglerFleet:
    """`slow` nodes of each kind compute `factor` times as long while they are slow."""

    seed: int
    nodes: int = 2048
    days: int = 28
    slow: int = 20
    factor: float = 1.1

    @property
    def hours(self) -> int:
        """Of the whole time."""
        return 24 * self.days

    @cached_property
    def kinds(self) -> dict[int, str]:
        """Of each slow node."""
        chosen = self._chance(1).permutation(self.nodes)[: self.slow * len(KINDS)]
        return {int(node): KINDS[at % len(KINDS)] for at, node in enumerate(chosen)}

    @cached_property
    def slowness(self) -> dict[int, Floats]:
        """Of each slow node, by hour: by how much its slow GPUs take longer."""
        return {node: (self.factor - 1) * self._on(kind, self._chance(2, node)) for node, kind in self.kinds.items()}

    def runs(self) -> Iterator[Run]:
        """All runs, pool by pool."""
        number = 0
        for pool in range(0, self.nodes, POOL):
            chance, first = self._chance(3, pool), 0
            while first < self.hours:
                hours = min(int(chance.integers(12, 97)), self.hours - first)
                order, at = pool + chance.permutation(min(POOL, self.nodes - pool)), 0
                while at < len(order):
                    size = int(chance.choice([4, 8, 16, 32, 64, 128]))
                    shape = str(chance.choice(list(SHAPES), p=list(SHAPES.values())))
                    yield Run(number, np.sort(order[at : at + size]), first, hours, shape)
                    at, number = at + size, number + 1
                first += hours

    def rows(self, run: Run) -> pl.DataFrame:
        """`frames.RANK_STEPS` of a run, an hour a row."""
        chance, ranks = self._chance(4, run.number), len(run.nodes) * GPUS
        node = np.repeat(run.nodes, GPUS)
        log = self._scatter(run, chance) + np.log1p(self._slow(run))
        stage = np.arange(ranks) // (ranks // 8 or 1) if run.shape in {"heavy stage", "no stage known"} else None
        log += _work(run, stage, chance)
        hour, rank = np.meshgrid(np.arange(run.hours), np.arange(ranks), indexing="ij")
        known = None if stage is None or run.shape == "no stage known" else pl.Series(stage[rank.ravel()])
        columns = {
            "session": f"session-{run.number}",
            "run_id": f"run-{run.number}",
            "rank": rank.ravel(),
            "node": pl.Series(node[rank.ravel()]).cast(pl.String),
            "stage": known,
            "first_step": hour.ravel() * STEPS,
            "steps": STEPS,
            "compute_s": 3000 * np.exp(log).ravel(),
        }
        return frames.conform(pl.DataFrame(columns).with_columns(cluster=pl.lit("c")), frames.RANK_STEPS)

    def _chance(self, *which: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, *which])

    def _on(self, kind: str, chance: np.random.Generator) -> Floats:
        """How far a node is slow, from 0 to 1, by hour."""
        hour = np.arange(self.hours)
        if kind == "permanent":
            return (hour >= chance.integers(0, self.hours // 2)).astype(float)
        if kind == "thermal":
            warmth = np.sin(2 * np.pi * (hour - 9) / 24) + chance.normal(0, 0.2, self.hours)
            return np.clip(2 * warmth, 0, 1)
        lengths = chance.geometric(np.tile([1 / 18, 1 / 6], self.hours))
        return np.repeat(np.tile([0.0, 1.0], self.hours), lengths)[: self.hours]

    def _slow(self, run: Run) -> Floats:
        slow = np.zeros((run.hours, len(run.nodes), GPUS))
        for at, node in enumerate(run.nodes):
            if (added := self.slowness.get(int(node))) is not None:
                gpus = range(GPUS) if self.kinds[int(node)] == "thermal" else [int(node) % GPUS]
                for gpu in gpus:
                    slow[:, at, gpu] = added[run.first : run.first + run.hours]
        return slow.reshape(run.hours, -1)

    def _scatter(self, run: Run, chance: np.random.Generator) -> Floats:
        """What healthy ranks differ by, as logarithms."""
        shape = (run.hours, len(run.nodes) * GPUS)
        log = 0.003 * chance.standard_t(3, shape) + self._lottery[run.nodes].ravel() + _drift(shape, chance)
        loading = chance.random(shape) < 0.002
        log += np.log1p(loading * np.minimum(0.02 * (1 + chance.pareto(2.5, shape)), 1))
        everywhere = chance.random((run.hours, 1)) < 0.02
        return np.asarray(log + everywhere * chance.uniform(0, 0.2, (run.hours, 1)))

    @cached_property
    def _lottery(self) -> Floats:
        return self._chance(5).uniform(-0.01, 0.01, (self.nodes, GPUS))


def _drift(shape: tuple[int, int], chance: np.random.Generator) -> Floats:
    """Autoregressive: 0.9 of the hour before, 0.4 % wide."""
    drift = chance.normal(0, 0.004, shape)
    for hour in range(1, shape[0]):
        drift[hour] = 0.9 * drift[hour - 1] + np.sqrt(1 - 0.81) * drift[hour]
    return drift


def _work(run: Run, stage: npt.NDArray[np.int64] | None, chance: np.random.Generator) -> Floats:
    """What the job's shape adds to each rank's work, as logarithms; shape (hours or 1, ranks)."""
    ranks = len(run.nodes) * GPUS
    if stage is not None:
        return np.asarray(np.log1p(chance.uniform(0.1, 0.4) * (stage == stage.max())))[None, :]
    if run.shape == "uneven batches":
        return chance.normal(0, chance.uniform(0.05, 0.15), (run.hours, ranks))
    if run.shape == "uneven ranks":
        return chance.normal(0, chance.uniform(0.02, 0.08), (1, ranks))
    return np.zeros((1, ranks))
