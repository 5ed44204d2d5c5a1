"""Stalls of a window: steps that were late by many times the usual, with what explains them."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

import polars as pl

from metrics import frames
from metrics.stragglers.collectives import HANGS, find_hangs
from metrics.stragglers.stalls import RANK_LINES, stalls

if TYPE_CHECKING:
    from app.window import RowSource, Window
    from metrics.runs.steps import StepRules

LONGEST_LINE: Final = timedelta(days=1)
"""A line of rank times that began earlier before a stall is not looked for."""

MOST: Final = 200
"""Stalls whose ranks are read; of more, those that lasted longest."""

_FEW: Final = 3
"""With fewer stalls, no query selects the runs with rank times first."""


def stall_rows(source: RowSource, window: Window, rules: StepRules, run: str | None = None) -> pl.DataFrame:
    """`metrics.stragglers.stalls.STALLS` of steps that began in the window: of all runs, or of the run or job named."""
    return stalls_of(source, window, step_gaps(source, window, rules, run))


def step_gaps(source: RowSource, window: Window, rules: StepRules, run: str | None = None) -> pl.DataFrame:
    """Steps that were late, as `metrics.stragglers.stalls.STEP_GAPS`."""
    return source.query(
        "step_gaps",
        cluster=window.cluster,
        since=window.since,
        before=window.until,
        run=run,
        times=rules.hang_steps,
        least_s=rules.hang_min_s,
    )


def stalls_of(source: RowSource, window: Window, gaps: pl.DataFrame) -> pl.DataFrame:
    """What late steps waited for."""
    events = frames.conform(source.query("run_events", cluster=window.cluster), frames.RUN_EVENTS)
    dumps = hang_rows(source, window) if gaps.height else None
    return stalls(gaps, events, _lines(source, window.cluster, gaps), dumps)


def hang_rows(source: RowSource, window: Window, run: str | None = None) -> pl.DataFrame:
    """`metrics.stragglers.collectives.HANGS` of the dumps of a window: of all runs, or of the run or job named."""
    dumps = source.query("collective_dumps", cluster=window.cluster, since=window.since, until=window.until, run=run)
    if dumps.is_empty():
        return frames.empty(HANGS)
    nodes = source.query("rank_places", cluster=window.cluster, runs=dumps["run_id"].unique().sort().to_list())
    return find_hangs(dumps.join(nodes, on=["run_id", "rank"], how="left"))


def _lines(source: RowSource, cluster: str, gaps: pl.DataFrame) -> pl.DataFrame:
    """Times of ranks whose lines span a stall; each line once."""
    longest = gaps.sort(pl.col("resumed_at") - pl.col("began_at"), descending=True, maintain_order=True).head(MOST)
    during = [
        source.query(
            "rank_lines_during",
            cluster=cluster,
            run=gap["run_id"],
            since=gap["began_at"] - LONGEST_LINE,
            until=gap["resumed_at"],
            began=gap["began_at"],
        )
        for gap in _with_lines(source, cluster, longest).iter_rows(named=True)
    ]
    lines = [frames.conform(each, RANK_LINES) for each in during]
    return pl.concat([frames.empty(RANK_LINES), *lines]).unique(maintain_order=True)


def _with_lines(source: RowSource, cluster: str, gaps: pl.DataFrame) -> pl.DataFrame:
    """The late steps of runs whose ranks recorded anything: most record nothing, and each costs a query."""
    if gaps.height < _FEW:
        return gaps
    runs = source.query(
        "runs_with_rank_lines",
        cluster=cluster,
        since=min(gaps["began_at"]) - LONGEST_LINE,
        until=gaps["resumed_at"].max(),
        runs=gaps["run_id"].unique().sort().to_list(),
    )
    return gaps.join(runs, on="run_id", how="semi", maintain_order="left")
