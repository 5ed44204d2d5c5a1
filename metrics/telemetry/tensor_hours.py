"""Whole hours of attempts, with what their GPUs' tensor pipes did in them: roll-ups of hours by who held the GPUs.

An hour counts where one attempt alone held all GPUs of a node for all of it (`metrics.telemetry.ownership`). The sums
are of whole numbers, so they are the same in any order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from metrics.telemetry.ownership import HOUR_MS, attempt_hours

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from metrics.telemetry.occupancy import Holders

_TENSOR_DIGITS: Final = 12
_CLOCK_DIGITS: Final = 2
_EXACT: Final = 1 << 53
"""Below this every whole number is a float."""

_MOST: Final = 1e8
"""No activity is as large; with its digits it would not fit 64 bits."""


def tensor_hours(hours: pl.DataFrame, held: Holders, *, left_out: pl.Series) -> pl.DataFrame:
    """Tensor activity in the hours of one day, by attempt.

    Args:
        hours: `node`, `gpu`, `ts` (beginning of the hour), `tensor_active` (0 to 1) and `sm_clock_hz`, null where
            unknown; hours of which nearly all is known.
        held: GPUs that attempts held.
        left_out: numbers of attempts to leave out, such as those that check nodes.

    Returns:
        `attempt`, `hour` (since 1970), `held_gpus` (on all nodes of the attempt), `seen_gpus` (with an activity),
        `tensor_active` (their mean) and `sm_clock_hz` (weighted by activity; null where unknown).
    """
    known = hours.filter(_plausible("tensor_active")).sort("node", "gpu", "ts")
    tensor = (pl.col("tensor_active") * 10**_TENSOR_DIGITS).round().cast(pl.Int128)
    clock = (pl.when(_plausible("sm_clock_hz")).then("sm_clock_hz") * 10**_CLOCK_DIGITS).round().cast(pl.Int128)
    sums = (
        attempt_hours(known, held)
        .filter(~pl.col("attempt").is_in(left_out.implode()))
        .with_columns(hour=pl.col("ts").dt.epoch("ms") // HOUR_MS, tensor=tensor, clock=clock)
        .group_by("attempt", "hour")
        .agg(
            pl.len().cast(pl.Float64).alias("seen_gpus"),
            pl.col("tensor").sum(),
            pl.col("tensor").filter(pl.col("clock").is_not_null()).sum().alias("timed"),
            (pl.col("tensor") * pl.col("clock")).sum().alias("ticked"),
        )
    )
    both = sums.join(_held_gpus(sums, held), on=["attempt", "hour"]).sort("attempt", "hour")
    observed_gpus = both["seen_gpus"].to_numpy()
    timed, ticked = _number(both["timed"], _TENSOR_DIGITS), _number(both["ticked"], _TENSOR_DIGITS + _CLOCK_DIGITS)
    clocks = np.divide(ticked, timed, out=np.full_like(timed, np.nan), where=timed > 0)
    return both.select("attempt", "hour", "held_gpus", "seen_gpus").with_columns(
        pl.Series("tensor_active", _number(both["tensor"], _TENSOR_DIGITS) / observed_gpus),
        pl.Series("sm_clock_hz", clocks).fill_nan(None),
    )


def _plausible(name: str) -> pl.Expr:
    return pl.col(name).is_finite() & (pl.col(name).abs() < (_MOST if name == "tensor_active" else 1e13))


def _number(total: pl.Series, digits: int) -> NDArray[np.float64]:
    """Whole numbers of so many decimal digits as floats: their whole part and the rest apart, where they are large.

    Not in polars: it divides by a number by multiplying with its reciprocal, which rounds twice.
    """
    unit = 10**digits
    return np.array([value // unit + value % unit / unit if value >= _EXACT else value / unit for value in total])


def _held_gpus(hours: pl.DataFrame, held: Holders) -> pl.DataFrame:
    """GPUs that attempts held for all of an hour, on all their nodes: `attempt`, `hour`, `held_gpus`."""
    begin, end = pl.col("hour") * HOUR_MS, (pl.col("hour") + 1) * HOUR_MS
    hours_of_attempts = hours.select("attempt", "hour")
    sure = held.held.filter(pl.col("unsure") == 0).join(hours_of_attempts, on="attempt", how="semi")
    return (
        hours_of_attempts.join(sure, on="attempt")
        .filter(pl.col("started") <= begin, pl.col("ended") >= end)
        .group_by("attempt", "hour")
        .agg((pl.col("milli_gpus").sum() / 1000).alias("held_gpus"))
    )
