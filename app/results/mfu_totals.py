"""MFU of all logged runs together under each convention, and what of MFU is stored of all of the computed time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import polars as pl

from app.results.mfu import (
    INTERVAL,
    RUN_ROWS,
    allocated_to_runs,
    fleet_row,
    in_order,
    kept_steps,
    measured_steps,
    mfu_wall_run_rows,
    over_lower_peaks,
    place_among,
    rows_of_runs,
)
from metrics import frames
from metrics.mfu.flops import MEASURES
from metrics.mfu.wall import run_mfu

if TYPE_CHECKING:
    from app.window import RowSource, Window
    from metrics.mfu.flops import Convention, Measure

TOTALS: Final[frames.Schema] = {
    **frames.RESULT,
    "convention": frames.TEXT,
    "mean": frames.NUMBER,
    "median": frames.NUMBER,
    "mfu_wall": frames.NUMBER,
}
"""`mfu_wall`: over all time that the runs were allocated GPUs; mean and median are over steps."""

_NONE: Final = pl.DataFrame(schema=dict.fromkeys(("metric", "convention"), pl.String()))


@dataclass(frozen=True)
class StoredMfu:
    """What is stored of MFU over all of the computed time.

    Attributes:
        runs: rows of the table `mfu`.
        totals: rows of the table `mfu_totals`.
    """

    runs: pl.DataFrame
    totals: pl.DataFrame


def mfu_to_store(source: RowSource, window: Window) -> StoredMfu:
    """MFU and HFU of runs and of all runs, from one reckoning of the steps under each convention."""
    kept = kept_steps(source, window)
    held = allocated_to_runs(source, window, kept)
    runs, totals = [], []
    for steps, measure, convention in measured_steps(kept, MEASURES):
        runs.append(rows_of_runs(steps, window, convention, measure))
        totals.append(_total(steps, held, window, convention, measure))
    runs += [rows_of_runs(steps, window, name, measure) for steps, measure, name in over_lower_peaks(kept, MEASURES)]
    stored = [name for name in TOTALS if name not in _SAME]
    rows = pl.concat(totals).filter(pl.col("n") > 0) if totals else frames.empty(TOTALS)
    return StoredMfu(in_order(runs), rows.select(stored))


def total_rows(
    source: RowSource, window: Window, steps: pl.DataFrame, conventions: tuple[Convention, ...]
) -> pl.DataFrame:
    """Steps together: a row of `TOTALS` for each measure and convention that their logs allow."""
    held = allocated_to_runs(source, window, steps)
    rows = [
        _total(measured, held, window, convention, measure)
        for measured, measure, convention in measured_steps(steps, MEASURES, conventions)
    ]
    return pl.concat(rows).filter(pl.col("n") > 0) if rows else _NONE


def _total(
    steps: pl.DataFrame, held: pl.DataFrame, window: Window, convention: Convention, measure: Measure
) -> pl.DataFrame:
    wall = run_mfu(steps, held)
    peak = float(wall["peak_flop"].sum())
    share = float(wall["flop"].sum()) / peak if peak else None
    return fleet_row(steps, window, convention, measure).with_columns(
        pl.lit(convention).alias("convention"),
        pl.lit(steps["mfu"].mean(), dtype=pl.Float64).alias("mean"),
        pl.lit(steps["mfu"].median(), dtype=pl.Float64).alias("median"),
        pl.lit(share, dtype=pl.Float64).alias("mfu_wall"),
    )


# What is stored ------------------------------------------------------------------------------------------------------

_SAME: Final = (
    "dimension", "subject", "unit", "bound_low", "bound_high", "ci_method", "evidence_log", "evidence_telemetry",
    "evidence_accounting", "evidence_assumed",
)  # fmt: skip
"""Columns that are the same in each row of `TOTALS`, and not stored."""


def stored_totals(source: RowSource, window: Window, conventions: tuple[Convention, ...]) -> pl.DataFrame | None:
    """`total_rows` of all kept steps as they are stored; None where none are stored of this window."""
    stored = source.query("stored_mfu_totals", **window.parameters)
    if stored.is_empty():
        return None
    rows = stored.filter(pl.col("convention").is_in(conventions))
    if rows.is_empty():
        return _NONE
    rows = rows.sort(place_among("metric", MEASURES), place_among("convention", conventions))
    same = {"dimension": "cluster", "unit": "ratio", "ci_method": INTERVAL}
    rows = rows.with_columns(pl.col("cluster").alias("subject"), evidence_log=pl.lit(1.0))
    return frames.conform(rows.with_columns(pl.lit(text).alias(name) for name, text in same.items()), TOTALS)


def stored_runs(source: RowSource, window: Window) -> tuple[pl.DataFrame, pl.DataFrame] | None:
    """`mfu_run_rows` of all measures, and `mfu_wall_run_rows`, as they are stored; None where they are not."""
    runs = source.query("stored_run_mfu", **window.parameters)
    if runs.is_empty():
        return None
    return in_order([frames.conform(runs, RUN_ROWS)]), source.query("stored_run_mfu_wall", **window.parameters)


def wall_to_store(source: RowSource, window: Window, convention: Convention) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Rows of `mfu_wall_run_rows`, and the same as rows of the table `run_mfu_wall`."""
    rows = mfu_wall_run_rows(source, window, convention)
    return rows, rows.select(
        "cluster", "run_id", frames.instant(window.since).alias("window_from"),
        frames.instant(window.until).alias("window_until"), pl.lit(convention).alias("convention"), "value", "flop",
        "peak_flop", "step_share", "allocated_gpu_s", "logged_gpu_s",
    )  # fmt: skip
