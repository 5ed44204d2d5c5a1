"""Where the GPU-time went, and what share of it became progress."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from app.results.mfu import fleet_row, flop_convention, step_mfu_rows
from app.results.registry import result
from app.results.windows import as_results, ledger_sums
from metrics.exact import exact_sum
from metrics.goodput.goodput import Program, goodput, lost, ml_productivity
from metrics.theory import lost_goodput_gpu_s_expr

if TYPE_CHECKING:
    from app.window import RowSource, Window


@result("goodput_allocated", "goodput_capacity", "occupancy", "availability", in_standard_windows=True)
def goodput_rows(source: RowSource, window: Window, dimension: str = "cluster") -> pl.DataFrame:
    """Goodput, occupancy and availability as result rows."""
    inventoried = source.query("inventoried")["cluster"]
    rows = goodput(ledger_sums(source, window, dimension), inventoried)
    if dimension not in {"cluster", "node", "day"}:  # unheld time has no owner
        rows = rows.filter((pl.col("metric") == "goodput_allocated") & (pl.col("subject") != "(no attempt)"))
    return as_results(rows, window, dimension)


@result("scheduling_goodput", "runtime_goodput", "program_goodput", "mpg", in_standard_windows=True)
def mpg_rows(source: RowSource, window: Window, *, goodputs: pl.DataFrame | None = None) -> pl.DataFrame:
    """ML Productivity Goodput of the cluster and its three factors as result rows; none where no GPU-time is known.

    Args:
        source: where rows are read from.
        window: cluster and time.
        goodputs: as `goodput_rows` returns them for the cluster, where they are at hand.
    """
    rows = goodput_rows(source, window) if goodputs is None else goodputs
    if rows.is_empty():
        return rows
    return as_results(ml_productivity(rows, _program(source, window)), window, "cluster")


def _program(source: RowSource, window: Window) -> Program:
    """How near the hardware's limit the kept steps came, under the configured FLOP convention."""
    used = flop_convention(source, window.cluster)
    steps = step_mfu_rows(source, window, used).filter(pl.col("mfu").is_not_null())
    if steps.is_empty():
        return Program(value=None)
    row = fleet_row(steps, window, used, "hfu" if used == "executed" else "mfu").row(0, named=True)
    return Program(
        value=row["value"],
        numerator=row["numerator"],
        denominator=row["denominator"],
        n=row["n"],
        # As the ledger has productive time: waiting for data, which is in `wall_s`, is none of it.
        known_gpu_s=steps.select(exact_sum(pl.col("n_gpus") * pl.col("own_s"))).item(),
        ci_low=row["ci_low"],
        ci_high=row["ci_high"],
        note=row["note"],
    )


def lost_rows(source: RowSource, window: Window, dimension: str = "cluster") -> pl.DataFrame:
    """Where all GPU-time went, largest first."""
    return lost(ledger_sums(source, window, dimension))


@result("lost_imputed", in_standard_windows=True)
def lost_imputed_rows(source: RowSource, window: Window) -> pl.DataFrame:
    """GPU-seconds that infrastructure interruptions cost by Meta's assumption, as one result row."""
    events = source.query("interruptions", cluster=window.cluster, since=window.since, until=window.until)
    broken = events.filter(pl.col("class") == "infrastructure")
    failed, unknown = broken.filter(pl.col("milli_gpus") > 0), broken["milli_gpus"].null_count()
    amount = failed.select(exact_sum(lost_goodput_gpu_s_expr(pl.col("runtime_s"), pl.col("milli_gpus") / 1000))).item()
    row = pl.DataFrame(
        {
            "cluster": [window.cluster],
            "subject": [window.cluster],
            "metric": ["lost_imputed"],
            "unit": ["gpu_s"],
            "value": [None if unknown else float(amount)],
            "bound_low": [float(amount) if unknown else None],
            "n": [failed.height],
            "evidence_assumed": [1.0],
            "note": [
                "assumed: half an hourly checkpoint interval lost per interruption"
                + (f"; of {unknown:,} more the GPUs are unknown" if unknown else "")
            ],
        }
    )
    return as_results(row, window, "cluster")
