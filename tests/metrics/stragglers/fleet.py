"""Simulated sums of computation: ranks that differ a little, intervals that scatter, and slow ones that are planted."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from metrics import frames


@dataclass(frozen=True)
class Fleet:
    """Runs on nodes of their own.

    `slow` are numbers of nodes of which one rank computes `factor` times as long, in the share `duty` of every 20
    intervals.
    """

    seed: int = 1
    nodes: int = 64
    nodes_per_run: int = 16
    gpus: int = 8
    intervals: int = 60
    slow: tuple[int, ...] = ()
    factor: float = 1.1
    duty: float = 1.0
    rank_sigma: float = 0.008
    interval_sigma: float = 0.02

    def rows(self) -> pl.DataFrame:
        """`frames.RANK_STEPS`."""
        chance = np.random.default_rng(self.seed)
        return pl.concat([self._run(run, chance) for run in range(self.nodes // self.nodes_per_run)])

    def _run(self, run: int, chance: np.random.Generator) -> pl.DataFrame:
        ranks = self.nodes_per_run * self.gpus
        node = run * self.nodes_per_run + np.arange(ranks) // self.gpus
        logs = chance.normal(0, self.rank_sigma, ranks) + chance.normal(0, self.interval_sigma, (self.intervals, ranks))
        on = np.arange(self.intervals) % 20 < 20 * self.duty
        first = np.isin(node, self.slow) & (np.arange(ranks) % self.gpus == 3)
        logs += np.log(self.factor) * on[:, None] * first
        interval, rank = np.meshgrid(np.arange(self.intervals), np.arange(ranks), indexing="ij")
        columns = {
            "session": f"session-{run}",
            "run_id": f"run-{run}",
            "rank": rank.ravel(),
            "node": [f"node-{number}" for number in node[rank.ravel()]],
            "first_step": interval.ravel() * 100,
            "steps": 100,
            "compute_s": 100 * np.exp(logs).ravel(),
        }
        return frames.conform(pl.DataFrame(columns).with_columns(cluster=pl.lit("c")), frames.RANK_STEPS)
