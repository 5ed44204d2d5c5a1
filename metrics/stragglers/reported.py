"""Ranks that a framework's own straggler detection listed as the slowest, and how often.

Such reports list a few ranks of each interval, so they are no measurement of all of them and do not separate a slow
node from the shape of the job. They show whether it is the same rank again and again, and how far it is from the
fastest.
"""

from __future__ import annotations

from typing import Final

import polars as pl

from metrics import frames

SLOW_SIDE: Final = {
    "gpu_relative_score": "lowest",
    "gpu_individual_score": "lowest",
    "flops_per_s": "lowest",
    "round_trip_s": "highest",
    "batch_loading_s": "highest",
}
"""Measures of speed, the most informative first, and at which end of them the slow ranks are."""

RANK_REPORTS: Final[frames.Schema] = {
    **dict.fromkeys(("run_id", "session", "program"), frames.TEXT),
    "reported_at": frames.TIME,
    "step": frames.COUNT,
    **dict.fromkeys(("measure", "place"), frames.TEXT),
    "rank": frames.COUNT,
    "node": frames.TEXT,
    "value": frames.NUMBER,
}
"""A rank in a report; `place`: lowest, highest, flagged, or listed (one of all ranks)."""

REPORTED: Final[frames.Schema] = {
    **dict.fromkeys(("run_id", "session", "program", "measure"), frames.TEXT),
    "rank": frames.COUNT,
    "node": frames.TEXT,
    "times_slowest": frames.COUNT,
    "times_flagged": frames.COUNT,
    "reports": frames.COUNT,
    "share": frames.NUMBER,
    "worst": frames.NUMBER,
    "times_fastest": frames.NUMBER,
    "since": frames.TIME,
    "until": frames.TIME,
}
"""A rank that was the slowest of a report, or flagged: in how many of the `reports` with that measure (`share`: either
of them), its worst value, how many times the fastest rank's the slow one took (median over its reports), and when."""

_REPORT: Final = ("run_id", "session", "program", "measure", "reported_at")
_OF: Final = ("run_id", "session", "program", "measure")


def reported_ranks(rows: pl.DataFrame) -> pl.DataFrame:
    """Ranks by how often reports list them as the slowest.

    Args:
        rows: `RANK_REPORTS`, in any order.

    Returns:
        `REPORTED`, the most frequent first.
    """
    of_speed = frames.conform(rows, RANK_REPORTS).filter(pl.col("measure").is_in(list(SLOW_SIDE)))
    high = pl.col("measure").replace_strict(SLOW_SIDE, return_dtype=pl.String) == "highest"
    value = pl.col("value")
    ends = of_speed.with_columns(
        slowest=pl.when(high).then(value.max().over(_REPORT)).otherwise(value.min().over(_REPORT)),
        fastest=pl.when(high).then(value.min().over(_REPORT)).otherwise(value.max().over(_REPORT)),
        high=high,
    )
    compared = pl.col("place") != "flagged"
    # A full list, or both ends: the slowest is that of the report. With one value there is nothing to compare.
    is_slowest = (compared & (value == pl.col("slowest")) & (pl.col("slowest") != pl.col("fastest"))).fill_null(
        value=False
    )
    times = pl.when("high").then(pl.col("slowest") / pl.col("fastest")).otherwise(pl.col("fastest") / pl.col("slowest"))
    reports = ends.group_by(_OF).agg(reports=pl.col("reported_at").n_unique())
    marked = ends.with_columns(is_slowest=is_slowest, flagged=~compared, times=times).filter(
        pl.col("is_slowest") | pl.col("flagged")
    )
    ranks = marked.group_by(*_OF, "rank").agg(
        node=pl.col("node").drop_nulls().last(),
        times_slowest=pl.col("reported_at").filter("is_slowest").n_unique(),
        times_flagged=pl.col("reported_at").filter("flagged").n_unique(),
        listed=pl.col("reported_at").n_unique(),
        worst=pl.when(pl.col("high").first()).then(value.max()).otherwise(value.min()),
        times_fastest=pl.col("times").filter("is_slowest").median(),
        since=pl.col("reported_at").min(),
        until=pl.col("reported_at").max(),
    )
    measure_rank = pl.col("measure").replace_strict(
        {name: at for at, name in enumerate(SLOW_SIDE)}, return_dtype=pl.Int64
    )
    shares = ranks.join(reports, on=_OF).with_columns(share=pl.col("listed") / pl.col("reports"))
    ordered = shares.sort(-pl.col("share"), measure_rank, -pl.col("listed").cast(pl.Int64), *_OF, "rank")
    return frames.conform(ordered, REPORTED)
