"""Tensor activity in `trackside show mfu`: how it fits the logs, and what it suggests without them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

import polars as pl

from app.results.mfu_proxy import estimate_run_rows, mfu_proxy
from app.show.answer import Answer
from app.show.selection import requested_runs
from app.show.sentences import percent
from ingest.counted import counted

if TYPE_CHECKING:
    from collections.abc import Iterable

    from app.show.answer import Question
    from app.window import Window
    from metrics.mfu.flops import Convention
    from queries.warehouse import Reader

MOST_NAMED: Final = 5
"""Runs that a note names."""

_QUERIES: Final = ("gpu_tensor_hours", "attempt_gpu_models", "steps", "run_sessions")

_NO_HOURS = (
    "No whole hour of an attempt with both a run log and the tensor activity of nearly all of its GPUs here.\n"
    "Needed: run logs (trackside recorder --help), DCGM_FI_PROF_PIPE_TENSOR_ACTIVE or its equivalent of another\n"
    "exporter (trackside ingest prometheus), and attempts that hold whole nodes."
)


def proxies(source: Reader, window: Window, question: Question) -> Answer:
    """How far tensor activity can replace logs: for each GPU model and data type, and for each run."""
    fitted = mfu_proxy(source, window, cast("Convention | None", question.convention)).fitted
    of_all = fitted.filter(pl.col("run_id") == "")
    rows, notes = requested_runs(fitted.filter(pl.col("run_id") != ""), source, window, question.run)
    return Answer(
        "MFU by logs against tensor activity, by whole hours of attempts",
        pl.concat([of_all, rows]),
        {
            "run_id": ("run", "text"),
            "gpu_model": ("GPU", "text"),
            "dtype": ("type", "text"),
            "convention": ("convention", "text"),
            "n": ("hours", "count"),
            "gpu_hours": ("GPU-h", "number"),
            "mfu_log": ("MFU by logs", "ratio"),
            "hfu_est": ("HFU by tensor activity", "ratio"),
            "slope": ("a", "number"),
            "residual": ("residual", "ratio"),
            "note": ("note", "text"),
        },
        headline=_closest(pl.concat([of_all, rows])),
        metrics=("mfu_proxy",),
        queries=_QUERIES,
        notes=(
            *notes,
            "HFU by tensor activity: mean tensor activity x SM clock / the clock of the peak. MFU = a x HFU, least "
            "squares through zero, weighted by GPU-hours; the residual is the root mean square of what it leaves. The "
            "row without a run is of all runs with that GPU and data type.",
        ),
        parts={
            "subject": "run_id",
            "value": "slope",
            "mfu_by_logs": "mfu_log",
            "hfu_by_tensor_activity": "hfu_est",
            "n": "n",
            "gpu_hours": "gpu_hours",
            "residual": "residual",
        },
        when_empty=_NO_HOURS,
    )


def _closest(rows: pl.DataFrame) -> str:
    """How MFU by logs compares with tensor activity where most GPU-hours have both."""
    if rows.is_empty():
        return ""
    first = rows.sort("gpu_hours", descending=True, nulls_last=True, maintain_order=True).row(0, named=True)
    what = f"{first['gpu_model']} ({first['dtype']})"
    if first["slope"] is None:
        return f"{what}: no fit of MFU by logs to tensor activity."
    return (
        f"{what}: MFU by logs is {first['slope']:.2f} times HFU by tensor activity over {counted(first['n'], 'hour')}, "
        f"with a residual of {percent(first['residual'])}."
    )


def _largest(rows: pl.DataFrame) -> str:
    """How many runs have an estimate, and that of the largest."""
    if rows.is_empty():
        return ""
    first = rows.sort("gpu_hours", descending=True, nulls_last=True, maintain_order=True).row(0, named=True)
    return (
        f"{counted(rows.height, 'run')} without a log; the one with most hours, {first['run_id']}: estimated MFU "
        f"{percent(first['value'])}."
    )


def estimates(source: Reader, window: Window, question: Question) -> Answer:
    """What tensor activity suggests for runs without logs."""
    fitted = mfu_proxy(source, window, cast("Convention | None", question.convention))
    rows, notes = requested_runs(estimate_run_rows(fitted, window), source, window, question.run)
    return Answer(
        "Estimated MFU of runs without logs, by tensor activity",
        rows,
        {
            "run_id": ("run", "text"),
            "gpu_model": ("GPU", "text"),
            "dtype": ("assumed type", "text"),
            "value": ("estimated MFU", "ratio"),
            "residual": ("residual of the fit", "ratio"),
            "hfu_est": ("HFU by tensor activity", "ratio"),
            "slope": ("a", "number"),
            "n": ("hours", "count"),
            "gpu_hours": ("GPU-h", "number"),
        },
        headline=_largest(rows),
        metrics=("mfu_estimated",),
        queries=_QUERIES,
        notes=(
            *notes,
            "Estimates: they hold as far as these runs resemble the logged ones (show mfu --by proxy). No number of "
            "logged runs includes them.",
        ),
        parts={
            "metric": "metric",
            "subject": "run_id",
            "value": "value",
            "numerator": "numerator",
            "denominator": "denominator",
            "n": "n",
            "residual": "residual",
            "evidence_telemetry": "evidence_telemetry",
        },
        when_empty="No run without a log whose tensor activity can be read by a fit (trackside show mfu --by proxy).",
    )


def disagreements(source: Reader, window: Window, runs: Iterable[str] | None = None) -> tuple[str, ...]:
    """That logs and tensor activity do not fit together, of all the computed time."""
    stored = source.query("mfu_proxies", cluster=window.cluster).filter(pl.col("disagrees") & (pl.col("run_id") != ""))
    mine = stored if runs is None else stored.filter(pl.col("run_id").is_in(list(runs)))
    notes = [
        f"{row['run_id']}: MFU {percent(row['mfu_log'])} by its logs, HFU {percent(row['hfu_est'])} by tensor activity "
        f"over the same {row['n']:,} hours: {row['note']}."
        for row in mine.head(MOST_NAMED).iter_rows(named=True)
    ]
    if mine.height > MOST_NAMED:
        notes.append(f"{mine.height - MOST_NAMED:,} more runs disagree with tensor activity: show mfu --by proxy.")
    return tuple(notes)
