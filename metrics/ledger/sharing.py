"""Times in which a node is one holder's alone, and in which the holder has the whole node.

The rule of `metrics.telemetry.ownership` (whose samples are) and of the ledger's evidence (what telemetry shows of an
attempt): all samples of a node are one attempt's only while no other attempt holds GPUs of it, and while the attempt
holds at least as many as the inventory and the samples show.
"""

from __future__ import annotations

from typing import Final

import polars as pl

from metrics.intervals import merge_equal, overlaps, split_days, sweep
from metrics.units import DAY_US

_LANE: Final = 1 << 42
"""More milliseconds than any time since 1970: the distance of lanes in a sort key."""


def room(capacity: pl.Expr, sampled: pl.Expr) -> pl.Expr:
    """GPUs of a node in thousandths: those of its inventory, or those that have samples on a day, where these are more.

    Args:
        capacity: of the inventory, thousandths of GPUs; null where it is unknown.
        sampled: how many GPUs have samples.
    """
    return pl.max_horizontal(capacity.fill_null(0), sampled * 1000)


def is_met(begin: pl.Expr, end: pl.Expr) -> pl.Expr:
    """Whether another row shares time with a row.

    Args:
        begin: when a row begins, lanes apart from each other; rows are sorted by it.
        end: when it ends, likewise.
    """
    return ((begin < end.cum_max().shift(1)) | (end > begin.shift(-1))).fill_null(value=False)


def with_whole(held: pl.DataFrame, samples: pl.DataFrame) -> pl.DataFrame:
    """Whether each row of `held` is a whole node of one attempt alone; rows are cut where that changes.

    Args:
        held: one row for each attempt, node and time without a change of the inventory: `cluster`, `node`, `started`,
            `ended` (microseconds since 1970), `milli_gpus`, `capacity`, `begun` and `over` (when the attempt came to
            the node and left), and any others.
        samples: `cluster`, `node`, `gpu`, `started`, `ended` of what has samples.

    Returns:
        `held` with `whole`. A part that is cut begins and ends as if the attempt came and left at the cut, since
        samples across that moment may be the other's.
    """
    nodes = held.select("cluster", "node").unique().sort("cluster", "node").with_row_index("lane")
    ordered = held.join(nodes, on=["cluster", "node"]).sort("lane", "started", "ended", maintain_order=True)
    begin, end = (pl.col("lane").cast(pl.Int64) * _LANE + pl.col(name) // 1000 for name in ("started", "ended"))
    ordered = ordered.with_columns(met=is_met(begin, end), whole=pl.col("milli_gpus") >= pl.col("capacity"))
    cut = _alone(ordered.filter(pl.col("whole") & pl.col("met")), ordered)
    rest = ordered.filter(~(pl.col("whole") & pl.col("met")))
    return _within_room(pl.concat([rest, cut.select(rest.columns)]), samples.join(nodes, on=["cluster", "node"])).drop(
        "lane", "met"
    )


def _alone(some: pl.DataFrame, held: pl.DataFrame) -> pl.DataFrame:
    """Rows that meet others, cut where others come and go; `whole` stays only where no other attempt is present."""
    if some.is_empty():
        return some
    holders = held.join(some.select("lane").unique(), on="lane", how="semi")
    together = sweep([holders.select("lane", "started", "ended", pl.lit(1, dtype=pl.Int64).alias("n"))])
    several = merge_equal(together.with_columns(several=pl.col("n") > 1).drop("n"))
    parts = overlaps(some, several).with_columns(whole=~pl.col("several"))
    return parts.with_columns(begun="started", over="ended")


def _within_room(held: pl.DataFrame, samples: pl.DataFrame) -> pl.DataFrame:
    """Without `whole` on days on which more GPUs of the node have samples than the attempt holds."""
    gpus = samples.group_by("lane").agg(pl.col("gpu").n_unique().cast(pl.Int64).alias("sampled"))
    fits = pl.col("milli_gpus") >= room(pl.col("capacity"), pl.col("sampled").fill_null(0))
    with_gpus = held.join(gpus, on="lane", how="left", maintain_order="left")
    crowded = with_gpus.filter(pl.col("whole") & ~fits).drop("sampled")
    if crowded.is_empty():
        return held
    day = pl.col("started") // DAY_US
    by_day = (
        split_days(samples.join(crowded.select("lane").unique(), on="lane", how="semi"))
        .group_by("lane", day.alias("day"))
        .agg(pl.col("gpu").n_unique().cast(pl.Int64).alias("sampled"))
    )
    parts = split_days(crowded).with_columns(day=day).join(by_day, on=["lane", "day"], how="left")
    kept = with_gpus.filter(~(pl.col("whole") & ~fits)).drop("sampled")
    return pl.concat([kept, parts.with_columns(whole=fits).select(kept.columns)])
