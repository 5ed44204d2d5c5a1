"""Model FLOP utilisation of steps, runs and all of them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import polars as pl

from app.logs import computed_logs
from app.results.base import as_results, named, seed
from metrics import frames
from metrics.mfu import CONVENTIONS, FACTS, fleet, step_mfu, summary

if TYPE_CHECKING:
    from app.results.base import Source, Window
    from metrics.mfu import Convention


def step_mfu_rows(source: Source, window: Window, convention: Convention | None = None) -> pl.DataFrame:
    """MFU of every kept step that began in the window, under a convention (by default the configured one).

    Returns:
        As `metrics.mfu.step_mfu`, with `run_id` as the runs are joined; a step's time is `wall_s` of the step log:
        data loading is in it, checkpoints, evaluation and hangs are not.
    """
    steps = _kept_steps(source, window)
    return step_mfu(steps, convention=convention or flop_convention(source, window.cluster))


def _kept_steps(source: Source, window: Window) -> pl.DataFrame:
    """Kept steps that began in the window, with the facts of their sessions."""
    logs, executed = computed_logs(source, window.cluster)
    low, high = pl.lit(window.since, dtype=frames.TIME), pl.lit(window.until, dtype=frames.TIME)
    kept = executed.filter(pl.col("kept") & (pl.col("ts") >= low) & (pl.col("ts") < high))
    return kept.join(logs.sessions.select("session", *FACTS), on="session").with_columns(run_id="run")


def flop_convention(source: Source, cluster: str) -> Convention:
    """The convention that the headline MFU of a cluster was computed with."""
    found: Convention = json.loads(source.query("computed", cluster=cluster)["constants"].item())["flop_convention"]
    return found


def mfu_rows(source: Source, window: Window, convention: Convention | None = None) -> pl.DataFrame:
    """MFU of the cluster over kept steps, as one result row; none if nothing was logged in the window.

    `value` is the model FLOP of all steps over the peak FLOP of their GPUs in that time; the interval is a bootstrap
    of blocks of consecutive steps.
    """
    used = convention or flop_convention(source, window.cluster)
    steps = step_mfu_rows(source, window, used)
    if steps.is_empty():
        return frames.empty(frames.RESULT)
    found = fleet(steps, seed=seed("mfu", used, *named(window)))
    hours = steps.filter(pl.col("mfu").is_not_null()).select((pl.col("n_gpus") * pl.col("wall_s")).sum()).item() / 3600
    said = f"{used} over the dense peak; {found.runs} runs, {hours:,.0f} GPU-h of logged steps"
    row = pl.DataFrame(
        {
            "cluster": [window.cluster],
            "subject": [window.cluster],
            "metric": ["mfu"],
            "unit": ["ratio"],
            "value": [found.value],
            "numerator": [found.flop],
            "denominator": [found.peak_flop],
            "n": [found.n],
            "ci_low": [found.low],
            "ci_high": [found.high],
            "ci_method": ["BCa bootstrap over blocks of steps, 95 %"],
            "evidence_log": [1.0],
            "note": ["; ".join([said, *([found.note] if found.note else [])])],
        }
    )
    return as_results(row, window, "cluster")


def steps_without_mfu(source: Source, window: Window, convention: Convention | None = None) -> float:
    """Share of the kept steps' GPU-time of which the log does not tell an MFU."""
    steps = step_mfu_rows(source, window, convention)
    time = pl.col("wall_s") * pl.col("n_gpus").fill_null(1)
    whole, unknown = steps.select(time.sum(), time.filter(pl.col("mfu").is_null()).sum().alias("unknown")).row(0)
    return float(unknown / whole) if whole else 0.0


def mfu_run_rows(source: Source, window: Window, run_id: str | None = None) -> pl.DataFrame:
    """MFU of each run (or one) under every convention that its log allows: rows of the table `mfu`."""
    found = []
    kept = _kept_steps(source, window)
    steps = kept if run_id is None else kept.filter(pl.col("run_id") == run_id)
    for convention in CONVENTIONS:
        mine = step_mfu(steps, convention=convention)
        if mine["flop"].null_count() == mine.height:  # this log cannot tell it
            continue
        kinds = mine.group_by("cluster", "run_id").agg(
            pl.col("dtype").drop_nulls().first(),
            (pl.col("peak_flop") / pl.col("n_gpus") / pl.col("wall_s")).drop_nulls().first().alias("peak_flops"),
        )
        by_run = summary(mine, seed=seed("mfu", convention, *named(window))).join(kinds, on=["cluster", "run_id"])
        found.append(by_run.filter(pl.col("n") > 0).with_columns(convention=pl.lit(convention)))
    if not found:
        return pl.DataFrame(schema=_MFU)
    return frames.conform(
        pl.concat(found).with_columns(
            window_from=pl.lit(window.since, dtype=frames.TIME),
            window_until=pl.lit(window.until, dtype=frames.TIME),
            numerator="flop",
            denominator="peak_flop",
            value="mfu",
            median="mfu_median",
        ),
        _MFU,
    ).sort("cluster", "run_id", "convention")


_MFU: frames.Schema = {
    "cluster": frames.TEXT,
    "run_id": frames.TEXT,
    "window_from": frames.TIME,
    "window_until": frames.TIME,
    "convention": frames.TEXT,
    "dtype": frames.TEXT,
    "peak_flops": frames.NUMBER,
    "numerator": frames.NUMBER,
    "denominator": frames.NUMBER,
    "value": frames.NUMBER,
    "median": frames.NUMBER,
    "n": frames.COUNT,
    "ci_low": frames.NUMBER,
    "ci_high": frames.NUMBER,
    "note": frames.TEXT,
}
