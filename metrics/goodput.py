"""Goodput and what surrounds it, from sums over the ledger.

"Goodput" has at least four published meanings, so the bare word is never a metric here: the denominator is part of
the name. Each ratio carries bounds: what it would be if all time that we could not see was unproductive, or productive.
"""

from __future__ import annotations

import polars as pl

KNOWN_ENOUGH = 0.9
"""A value is given only if at least this share of the allocated time was seen; below it the bounds have to do."""


def goodput(sums: pl.DataFrame, inventoried: pl.Series) -> pl.DataFrame:
    """Goodput over allocated and over capacity, occupancy and availability, per cluster and subject.

    - `goodput_allocated` = productive / allocated GPU-seconds
    - `goodput_capacity`  = productive / all GPU-seconds there were (cluster and node subjects)
    - `occupancy`         = allocated / all GPU-seconds there were
    - `availability`      = 1 - (unavailable + held by attempts on dead nodes) / all GPU-seconds there were; bounded by
      time with no known node state

    Args:
        sums: `frames.LEDGER_SUMS` within the window.
        inventoried: clusters of which an inventory was read; of others, capacity cannot be told.

    Returns:
        `cluster`, `subject` and the number columns of `frames.RESULT`; `value` is numerator / denominator. It is null
        where more than a tenth of what decides it was not seen (allocated time that is unattributed or assumed; for
        availability, time without a known node state), and where the denominator is zero.

    Source: metric-definitions 5.2 (goodput_alloc, goodput_cluster); Kokolis et al. for the cluster form.
    """
    totals = sums.group_by("cluster", "subject").agg(
        _sum((pl.col("category") == "productive") & (pl.col("evidence") != "assumed"), "productive"),
        _sum((pl.col("state") == "allocated") & UNSEEN, "unseen"),
        _sum(pl.col("category") == "unknown", "unknown"),
        _sum(pl.col("state") == "allocated", "allocated"),
        _sum(
            (pl.col("state") == "unavailable") | (pl.col("cause") == "node_down").fill_null(value=False), "unavailable"
        ),
        _sum(pl.lit(value=True), "capacity"),
        *(
            _sum((pl.col("state") == "allocated") & (pl.col("evidence") == kind), f"allocated_{kind}")
            for kind in _KINDS
        ),
        *(_sum(pl.col("evidence") == kind, f"capacity_{kind}") for kind in _KINDS),
    )
    there = pl.col("cluster").is_in(inventoried.implode())
    parts = [
        _productive(totals, "allocated").with_columns(metric=pl.lit("goodput_allocated")),
        _cannot_tell(_productive(totals, "capacity"), there).with_columns(metric=pl.lit("goodput_capacity")),
        _cannot_tell(_of_capacity(totals, pl.col("allocated"), pl.lit(0.0)), there).with_columns(
            metric=pl.lit("occupancy")
        ),
        _cannot_tell(
            _of_capacity(totals, pl.col("capacity") - pl.col("unavailable"), pl.col("unknown")), there
        ).with_columns(metric=pl.lit("availability")),
    ]
    return pl.concat(parts, how="diagonal").with_columns(unit=pl.lit("ratio")).sort("cluster", "subject", "metric")


_KINDS = ("log", "telemetry", "accounting", "assumed")
UNSEEN = (pl.col("category") == "unattributed") | (pl.col("evidence") == "assumed")
"""Allocated time of which nobody saw what it was spent on."""


def _sum(which: pl.Expr, name: str) -> pl.Expr:
    return pl.col("gpu_seconds").filter(which).sum().cast(pl.Float64).alias(name)


def _over(top: pl.Expr, bottom: pl.Expr) -> pl.Expr:
    return pl.when(bottom > 0).then(top / bottom)


def _evidence(of: str) -> list[pl.Expr]:
    return [_over(pl.col(f"{of}_{kind}"), pl.col(of)).alias(f"evidence_{kind}") for kind in _KINDS]


def _productive(totals: pl.DataFrame, of: str) -> pl.DataFrame:
    """Productive over `of`, bounded by what was not seen."""
    bottom, unseen = pl.col(of), pl.col("unseen")
    hidden = pl.when(pl.col("allocated") > 0).then(unseen / pl.col("allocated")).otherwise(0.0)
    said = pl.format("cannot tell: {} % of the allocated GPU-time is unattributed", (hidden * 100).round(1))
    return totals.select(
        "cluster",
        "subject",
        pl.when(1 - hidden >= KNOWN_ENOUGH).then(_over(pl.col("productive"), bottom)).alias("value"),
        pl.col("productive").alias("numerator"),
        bottom.alias("denominator"),
        _over(pl.col("productive"), bottom).alias("bound_low"),
        _over(pl.col("productive") + unseen, bottom).alias("bound_high"),
        *_evidence(of),
        pl.when(1 - hidden < KNOWN_ENOUGH).then(said).alias("note"),
    )


def _of_capacity(totals: pl.DataFrame, top: pl.Expr, unknown: pl.Expr) -> pl.DataFrame:
    """A share of capacity; `unknown` GPU-seconds may belong to it or not."""
    share, hidden = _over(top, pl.col("capacity")), _over(unknown, pl.col("capacity"))
    said = pl.format("cannot tell: no node state is known for {} % of the GPU-time", (hidden * 100).round(1))
    return totals.select(
        "cluster",
        "subject",
        pl.when(1 - hidden >= KNOWN_ENOUGH).then(share).alias("value"),
        top.alias("numerator"),
        pl.col("capacity").alias("denominator"),
        share.alias("bound_low"),
        (share + hidden).alias("bound_high"),
        *_evidence("capacity"),
        pl.when(1 - hidden < KNOWN_ENOUGH).then(said).alias("note"),
    )


def _cannot_tell(found: pl.DataFrame, there: pl.Expr) -> pl.DataFrame:
    """Without an inventory the capacity is a guess, and so is everything over it."""
    numbers = [pl.when(there).then(pl.col(name)).alias(name) for name in ("value", "bound_low", "bound_high")]
    why = "cannot tell: no node inventory was read (trackside ingest slurm, or a file of `scontrol show node`)"
    return found.with_columns(*numbers, note=pl.when(there).then(pl.col("note")).otherwise(pl.lit(why)))


def lost(sums: pl.DataFrame) -> pl.DataFrame:
    """GPU-seconds by state, category, cause and evidence, largest first, each with its share of all.

    Args:
        sums: `frames.LEDGER_SUMS` within the window.

    Returns:
        `cluster`, `subject`, `state`, `category`, `cause`, `evidence`, `gpu_seconds`, `gpu_hours`, `share`. All
        categories are there, productive time too, so that the shares of a cluster's subjects add up to 1.
    """
    groups = ["cluster", "subject", "state", "category", "cause", "evidence"]
    whole = pl.col("gpu_seconds").sum().over("cluster").cast(pl.Float64)
    return (
        sums.group_by(groups)
        .agg(pl.col("gpu_seconds").sum())
        .filter(pl.col("gpu_seconds") > 0)
        .with_columns(
            gpu_hours=pl.col("gpu_seconds").cast(pl.Float64) / 3600,
            share=pl.col("gpu_seconds").cast(pl.Float64) / whole,
        )
        .sort("cluster", "gpu_seconds", *groups[1:], descending=[False, True, *[False] * 5], nulls_last=True)
    )
