"""What the GPUs of each attempt did: samples of the warehouse, day by day, as rows of `attempt_activity`."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta
from typing import TYPE_CHECKING

import polars as pl

from metrics import frames
from metrics.attribution import RESOLUTION, added_up, day_activities, in_units
from metrics.sample_grid import Reading, inactive

if TYPE_CHECKING:
    from collections.abc import Iterator

    from app.config import Rules
    from app.results import Window
    from metrics.holders import Holders
    from queries.warehouse import Reader, Writer

VERIFICATION = "verification"
"""Kind of `rules.other_work` whose jobs check nodes."""


def attempt_activity(reader: Reader | Writer, window: Window, rules: Rules, held: Holders) -> pl.DataFrame | None:
    """Rows of `attempt_activity`, from the samples that begin in the window; None where there are none.

    A GPU is idle where it is not active by the rules that the ledger goes by.
    """
    idle = inactive(rules.active_tensor, rules.active_gr_engine, rules.active_gpu_util)
    reading = Reading(RESOLUTION, idle)
    parts = [day.attempts for day in day_activities(_days(reader, window), held, reading)]
    if not parts:
        return None
    sums = in_units(added_up(parts, ["attempt"]), reading).rename({"power_w_s": "power_s", "power_w_sum": "energy_j"})
    told = {"idle_s": "judged_s", "energy_j": "power_s"}
    told |= {f"{name}_sum": f"{name}_s" for name in RESOLUTION if name != "power_w"}
    return (
        sums.join(held.attempts, on="attempt")
        .with_columns(pl.when(pl.col(seconds) > 0).then(name).alias(name) for name, seconds in told.items())
        .select(
            *frames.ATTEMPT_KEY,
            VERIFICATION,
            pl.col("n_samples").cast(pl.Int64),
            *(name for name in sums.columns if name not in {"attempt", "n_samples"}),
        )
    )


def _days(reader: Reader | Writer, window: Window) -> Iterator[pl.DataFrame]:
    """Samples of each day within the window, the last one first."""
    for day in reader.query("gpu_sample_days", cluster=window.cluster)["day"]:
        begin = datetime.combine(day, time(), UTC)
        low, high = max(begin, window.since), min(begin + timedelta(days=1), window.until)
        if low < high:
            yield reader.query("gpu_samples_between", cluster=window.cluster, since=low, until=high)
