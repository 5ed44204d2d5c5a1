"""Rank times of a window: what slow ranks and sessions that straggle are made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from metrics import frames

if TYPE_CHECKING:
    from collections.abc import Iterator

    from app.window import Source, Window

MOST_ROWS: Final = 4_000_000
"""Of a part, unless one session has more."""


def rank_times(source: Source, window: Window, run: str | None = None) -> Iterator[pl.DataFrame]:
    """Rank times of steps that began in the window, as `frames.RANK_STEPS`: of all runs, or of the run or job named.

    They come in parts, each session in one part, so that no more than a part is in memory.
    """
    of_window = {"cluster": window.cluster, "since": window.since, "until": window.until}
    sessions = source.query("rank_sessions", **of_window, run=run)
    if sessions["n_rows"].sum() <= MOST_ROWS:
        yield frames.conform(source.query("rank_steps", **of_window, run=run), frames.RANK_STEPS)
        return
    part = pl.col("n_rows").cum_sum() // MOST_ROWS
    for of_part in sessions.with_columns(part.alias("part")).partition_by("part", maintain_order=True):
        rows = source.query(
            "rank_steps_of_sessions",
            cluster=window.cluster,
            since=max(window.since, of_part["since"].min()),  # type: ignore[type-var]  # a time
            until=window.until,
            runs=of_part["run_id"].unique().sort().to_list(),
            sessions=of_part["name"].to_list(),
        )
        yield frames.conform(rows, frames.RANK_STEPS)
