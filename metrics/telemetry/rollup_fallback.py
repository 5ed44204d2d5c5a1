"""Roll-ups in the place of samples, for hours that samples do not cover.

Samples are kept for some time, their hourly roll-ups for longer; air-gapped bundles may hold roll-ups only. A roll-up
records how much of its hour it covers, and not which part. So one that covers (nearly) all of it counts as one sample
of it, where samples cover less; others count for nothing. The ledger's evidence is read by the same function.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

WHOLE_S: Final = 3540.0
"""An hour with so many seconds is covered: one sample of a minute may be missing."""

LONGEST_S: Final = 3600.0
"""The longest time that a sample is valid for; so long before a window one that reaches into it may begin."""


def with_hours(samples: pl.DataFrame, hours: pl.DataFrame, *, by: tuple[str, ...]) -> pl.DataFrame:
    """Samples of some days, with roll-ups of the hours that they cover less of.

    Args:
        samples: the columns of `by`, `ts`, `interval_s` and values; sorted by lane and time, as they are stored.
        hours: the same columns, maybe more; `ts` is the beginning of an hour and `interval_s` what is known of it.
        by: columns that name a lane, such as a GPU.

    Returns:
        Rows in the order of lanes and time, with the columns of both.
    """
    known = hours.filter(pl.col("interval_s") >= WHOLE_S)
    hour = pl.col("ts").dt.truncate("1h")
    if not samples.is_empty() and not known.is_empty():
        known = known.join(_whole_hours(samples, by), on=[*by, "ts"], how="anti")
    if known.is_empty():
        return samples
    kept = samples.join(known.select(*by, pl.col("ts").alias("hour")), left_on=[*by, hour], right_on=[*by, "hour"],
                        how="anti")  # fmt: skip
    return pl.concat([kept, known], how="diagonal_relaxed").sort(*by, "ts")


def _whole_hours(samples: pl.DataFrame, by: tuple[str, ...]) -> pl.DataFrame:
    """The lanes and hours that samples cover."""
    hour = samples["ts"].dt.truncate("1h")
    # Runs of equal names and hours: much faster than grouping, and sorted samples have one run for each.
    keys = [*(samples[name] for name in by), hour]
    runs = [np.cumsum(key.rle().struct.field("len").to_numpy(), dtype=np.int64) for key in keys]
    heads = np.union1d(np.concatenate(runs), np.zeros(1, dtype=np.int64))[:-1]
    milliseconds = np.rint(samples["interval_s"].cast(pl.Float64).fill_null(0).to_numpy() * 1000).astype(np.int64)
    known = np.add.reduceat(milliseconds, heads)
    hours = samples.select(by)[heads].with_columns(hour[heads].alias("ts"), known_ms=pl.Series(known))
    return (
        hours.group_by(*by, "ts")
        .agg(pl.col("known_ms").sum())
        .filter(pl.col("known_ms") >= WHOLE_S * 1000)
        .drop("known_ms")
    )
