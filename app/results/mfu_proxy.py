"""MFU by logs against tensor activity, and what tensor activity suggests where there is no log."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Final

import polars as pl

from app.results.mfu import flop_convention, with_facts
from app.results.runs.run_logs import computed_logs
from app.results.telemetry.gpu_activity import DAY, VERIFICATION, day_begin
from app.results.telemetry.occupancy import known
from app.results.windows import as_results
from ingest.counted import counted
from metrics import frames
from metrics.mfu.mfu import step_mfu
from metrics.mfu.peaks import peak
from metrics.mfu.proxy import HOURS, compared, estimated, executed_share, fits, logged_hours
from metrics.telemetry.tensor_hours import tensor_hours
from metrics.units import HOUR_S

if TYPE_CHECKING:
    from app.window import RowSource, Window
    from metrics.mfu.flops import Convention


@dataclass(frozen=True)
class Proxy:
    """MFU by tensor activity in a window.

    Attributes:
        fitted: rows of the table `mfu_proxies`.
        estimates: of runs without logs, as `metrics.mfu.proxy.estimated` returns them.
    """

    fitted: pl.DataFrame
    estimates: pl.DataFrame


def mfu_proxy(source: RowSource, window: Window, convention: Convention | None = None) -> Proxy:
    """Fit the MFU of logs to tensor activity, and estimate runs without logs by the fit."""
    used = convention or flop_convention(source, window.cluster)
    logs = computed_logs(source, window.cluster)
    logged = logged_hours(_counted(with_facts(logs, window), used))
    hours = frames.empty(HOURS)
    if not logged.is_empty():  # without logs nothing can be fitted
        hours = _attempt_hours(source, window)
    seen = executed_share(hours)
    fitted = fits(compared(seen, logged))
    with_logs = logs[0].sessions.select(frames.ATTEMPT_KEY).unique()
    return Proxy(_rows(fitted, window, used), estimated(seen, with_logs, fitted))


def _attempt_hours(source: RowSource, window: Window) -> pl.DataFrame:
    """Whole hours of attempts with what their tensor pipes did: `HOURS`. Node checks are no training."""
    begins = map(day_begin, source.query("gpu_sample_days", cluster=window.cluster)["day"])
    spans = ((max(begin, window.since), min(begin + DAY, window.until)) for begin in begins)
    read = (
        source.query("gpu_tensor_hours", cluster=window.cluster, since=low, until=high)
        for low, high in spans
        if low < high
    )
    days = (hours for hours in read if not hours.is_empty())
    first = next(days, None)
    if first is None:
        return frames.empty(HOURS)
    facts, key = known(source, window.cluster), list(frames.ATTEMPT_KEY)
    held = facts.held.within(window.since, window.until)
    suspended = facts.on_nodes.filter(pl.col("suspended_s") > 0).select(key)
    left_out = held.attempts.filter(VERIFICATION)["attempt"].append(
        held.attempts.join(suspended, on=key, how="semi")["attempt"]
    )
    parts = [tensor_hours(hours, held, left_out=left_out) for hours in chain([first], days)]
    models = source.query("attempt_gpu_models", cluster=window.cluster)
    runs = source.query("run_attempts", cluster=window.cluster).select(*key, "run_id")
    named = pl.concat(parts).join(held.attempts.select("attempt", *key), on="attempt")
    about = named.join(models, on=key, how="left").join(runs, on=key, how="left")
    return frames.conform(about, HOURS).sort("job_id", "submitted_at", "hour")


def _counted(steps: pl.DataFrame, convention: Convention) -> pl.DataFrame:
    """Executions of steps with their FLOP, and those FLOP that no kernel can have skipped (`flop_least`)."""
    counted = step_mfu(steps, convention=convention)
    least = step_mfu(steps, convention="causal_half")["flop"]
    return counted.with_columns(flop_least=pl.min_horizontal("flop", least))


def _rows(fitted: pl.DataFrame, window: Window, convention: str) -> pl.DataFrame:
    return frames.conform(
        fitted.with_columns(
            convention=pl.lit(convention),
            window_from=frames.instant(window.since),
            window_until=frames.instant(window.until),
        ),
        _PROXIES,
    )


def mfu_estimated_rows(found: Proxy, window: Window) -> pl.DataFrame:
    """MFU that tensor activity suggests for all runs without logs together, as one result row; none if it cannot."""
    if found.estimates.is_empty():
        return frames.empty(frames.RESULT)
    rows = _with_peak(found.estimates)
    top, bottom = float(rows["numerator"].sum()), float(rows["denominator"].sum())
    left = _between(rows["residual"])
    row = pl.DataFrame(
        {
            "cluster": [window.cluster],
            "subject": [window.cluster],
            "metric": ["mfu_estimated"],
            "unit": ["ratio"],
            "value": [top / bottom],
            "numerator": [top],
            "denominator": [bottom],
            "n": [rows["run_id"].n_unique()],
            "evidence_telemetry": [1.0],
            "note": [
                f"an estimate of {counted(rows['run_id'].n_unique(), 'run')} without logs, by tensor activity; {left}"
            ],
        }
    )
    return as_results(row, window, "cluster")


def _between(residuals: pl.Series) -> str:
    ordered = residuals.sort().to_list()
    low, high = f"{ordered[0]:.3f}", f"{ordered[-1]:.3f}"
    return f"the fit leaves {low if low == high else f'{low} to {high}'} (RMS by hour)"


def _with_peak(estimates: pl.DataFrame) -> pl.DataFrame:
    """With the parts of each estimate: FLOP, over what the GPUs could have done in the hours seen."""
    pairs = estimates.select("gpu_model", "dtype").rows()
    peaks = [found.flops if (found := peak(model, dtype)) else None for model, dtype in pairs]
    whole = pl.Series("denominator", peaks, dtype=pl.Float64) * estimates["gpu_hours"] * HOUR_S
    return estimates.with_columns(whole).with_columns(numerator=pl.col("value") * pl.col("denominator"))


def estimate_run_rows(found: Proxy, window: Window) -> pl.DataFrame:
    """Estimates by run with all their parts, the most GPU-hours first."""
    rows = _with_peak(found.estimates) if found.estimates.height else found.estimates.with_columns(
        denominator=pl.lit(None, dtype=pl.Float64), numerator=pl.lit(None, dtype=pl.Float64)
    )  # fmt: skip
    return rows.with_columns(
        metric=pl.lit("mfu_estimated"),
        evidence_telemetry=pl.lit(1.0),
        window_from=frames.instant(window.since),
        window_until=frames.instant(window.until),
    ).sort("gpu_hours", "run_id", descending=[True, False])


_PROXIES: Final[frames.Schema] = {
    "cluster": frames.TEXT,
    "run_id": frames.TEXT,
    "gpu_model": frames.TEXT,
    "dtype": frames.TEXT,
    "convention": frames.TEXT,
    "window_from": frames.TIME,
    "window_until": frames.TIME,
    "n": frames.COUNT,
    "gpu_hours": frames.NUMBER,
    "mfu_log": frames.NUMBER,
    "hfu_est": frames.NUMBER,
    "slope": frames.NUMBER,
    "residual": frames.NUMBER,
    "disagrees": frames.FLAG,
    "note": frames.TEXT,
}
