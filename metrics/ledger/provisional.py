"""Productive time by telemetry that may have been lost: work since the last, unobserved checkpoint.

Activity shows that GPUs worked, not that the work was kept. An attempt that did not complete, or still runs, loses
what it did since its last checkpoint. Without a log that time is unknown; as Meta did, it is taken to be at most
an hour of work ago (Kokolis et al., HPCA 2025, expected ETTR). The last hour of such an attempt's productive time is
`provisional`: it counts on the high side of bounds only.
"""

from __future__ import annotations

import polars as pl

from metrics import frames
from metrics.intervals import sweep

PROVISIONAL = "provisional"
"""Cause of productive time that may yet turn out to be lost."""

SURE = 1000
"""Weight of a piece all of whose time was productive; thousandths."""


def with_provisional(pieces: pl.DataFrame, held: pl.DataFrame, attempts: pl.DataFrame, *, last_us: int) -> pl.DataFrame:
    """Mark the last productive time of attempts that did not complete.

    Args:
        pieces: `lane` (a holder), `started`, `ended` (microseconds), `category`, `cause`, `milli_gpus` and `weight`:
            of productive pieces the thousandths of their time that were productive. Where a share of an hour is all
            that is known, it is spread evenly over the hour.
        held: `frames.ATTEMPT_KEY`, `holder`: an attempt on a node.
        attempts: `frames.ATTEMPTS`. An attempt that is not among them is not known to have completed.
        last_us: how much of it, in microseconds of the attempt's own productive time: while any of its nodes shows
            some, and where they differ, their mean.

    Returns:
        The pieces without `weight`, cut where the last time begins.
    """
    key = list(frames.ATTEMPT_KEY)
    done = attempts.filter(pl.col("state") == "COMPLETED").select(key)
    open_ = pl.col("category") == "productive"
    active_holders = held.join(pieces.filter(open_).select("lane"), left_on="holder", right_on="lane", how="semi")
    unsure = active_holders.select("holder", *key).join(done, on=key, how="anti")
    numbers = unsure.select(key).unique().with_row_index("attempt")
    broken = unsure.join(numbers, on=key).select(pl.col("holder").alias("lane"), "attempt")
    theirs = pieces.filter(open_).join(broken, on="lane")
    begins = _begin_of_the_last(theirs, last_us)
    cut = theirs.join(begins, on="attempt")
    before = cut.filter(pl.col("started") < pl.col("since")).with_columns(ended=pl.min_horizontal("ended", "since"))
    after = cut.filter(pl.col("ended") > pl.col("since")).with_columns(
        started=pl.max_horizontal("started", "since"), cause=pl.lit(PROVISIONAL)
    )
    rest = pl.concat([pieces.filter(~open_), pieces.filter(open_).join(broken, on="lane", how="anti")])
    columns = [name for name in pieces.columns if name != "weight"]
    return pl.concat([part.select(columns) for part in (rest, before, after)])


def _begin_of_the_last(productive: pl.DataFrame, last_us: int) -> pl.DataFrame:
    """From when on an attempt's productive time adds up to no more than the last: `attempt`, `since`."""
    nodes = productive.select(
        pl.col("attempt").alias("lane"), "started", "ended", pl.col("weight").clip(1), pl.lit(1).alias("nodes")
    )
    rate = pl.col("weight") / (pl.col("nodes") * SURE)
    spent = (pl.col("ended") - pl.col("started")) * rate
    return (
        sweep([nodes])
        .with_columns(later=spent.cum_sum(reverse=True).over("lane") - spent)
        .filter(pl.col("later") <= last_us)
        .with_columns(since=pl.col("ended") - ((last_us - pl.col("later")) / rate).ceil().cast(pl.Int64))
        .group_by(pl.col("lane").alias("attempt"))
        .agg(pl.max_horizontal(pl.col("started").min(), pl.col("since").sort_by("started").first()).alias("since"))
    )
