"""The questions of `trackside show` about where GPU-time went."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import polars as pl

from app.results.capacity import nodes_by_accounting
from app.results.goodput import goodput_rows, lost_imputed_rows, lost_rows, mpg_rows
from app.results.interruptions import second_order_rows
from app.results.job_goodput import JobAccounts, bucket_rows, job_accounts, job_goodput_rows, job_goodput_run_rows
from app.show.answer import Answer, Details, Question
from app.show.questions.interruptions import second_order_said
from app.show.selection import split_by

if TYPE_CHECKING:
    from app.window import Window
    from queries.warehouse import Reader

LEDGER_DIMENSIONS = ("cluster", "day", "node", "user", "account", "partition", "run")

_OF_LEDGER: Final = ("goodput_allocated", "goodput_capacity", "occupancy", "availability")
_OF_PRODUCT: Final = ("scheduling_goodput", "runtime_goodput", "program_goodput", "mpg")

_NO_TIME = "No GPU-time in this window: is it within what `trackside status` covers?"
_BOUNDS = (
    "at least / at most: all unseen time counted unproductive / productive; provisional time is in the value and not "
    "in the least, and time of GPUs that were active beside an idle GPU of their job (stalled, lockstep) only in the "
    "most. Accounting alone does not see what allocated GPUs did: add telemetry or a run log to narrow the "
    "bounds."
)
_NO_LOG = "No run log with steps of a known job in this window (trackside recorder --help)."


def goodput(source: Reader, window: Window, question: Question) -> Answer:
    """Goodput in each published meaning, side by side."""
    dimension = split_by(question.by, (*LEDGER_DIMENSIONS, "bucket"), "cluster")
    if dimension == "bucket":
        return _buckets(source, window)
    rows = [goodput_rows(source, window, dimension)]
    names: tuple[str, ...] = _OF_LEDGER
    queries: tuple[str, ...] = ("ledger_sums", "inventoried", "nodes_by_accounting")
    details: tuple[Details, ...] = ()
    if dimension in {"cluster", "run"}:
        accounts = job_accounts(source, window)
        details = _job_details(source, window, accounts)
        queries += ("steps", "run_sessions", "run_events", "runs")
        names = (*names, "goodput_job")
        if dimension == "run":
            rows.append(job_goodput_run_rows(source, window, accounts=accounts))
        else:
            rows += [job_goodput_rows(source, window, accounts=accounts), mpg_rows(source, window)]
            names = (*names, *_OF_PRODUCT)
    return Answer(
        "Goodput",
        pl.concat(rows),
        {
            "subject": (dimension, "text"),
            "metric": ("metric", "text"),
            "value": ("value", "ratio"),
            "bound_low": ("at least", "ratio"),
            "bound_high": ("at most", "ratio"),
            "numerator": ("numerator", "amount"),
            "denominator": ("denominator", "amount"),
            "note": ("note", "text"),
        },
        metrics=names,
        queries=queries,
        notes=(_BOUNDS, *(_UNITS if dimension in {"cluster", "run"} else ()), *_capacity(source, window)),
        parameters={"dimension": dimension},
        when_empty=_NO_TIME,
        details=details,
    )


_UNITS = (
    "numerator / denominator: GPU-seconds; of goodput_job seconds of the runs' wall time (--by bucket shows where the "
    "rest of it went), of program_goodput FLOP.",
)


def _capacity(source: Reader, window: Window) -> tuple[str, ...]:
    said = nodes_by_accounting(source, window)
    return (said,) if said else ()


def _job_details(source: Reader, window: Window, accounts: JobAccounts) -> tuple[Details, ...]:
    if accounts.runs.is_empty():
        return ()
    title = "goodput_job: where the logged runs' wall time went"
    return (Details(title, bucket_rows(source, window, accounts=accounts), _BUCKETS),)


_BUCKETS = {
    "bucket": ("bucket", "text"),
    "seconds": ("time", "seconds"),
    "share": ("share", "ratio"),
    "runs": ("runs", "count"),
}


def _buckets(source: Reader, window: Window) -> Answer:
    """Where logged runs' wall time went by the buckets of Google's library."""
    return Answer(
        "Wall time of the logged runs by the buckets of ml-goodput-measurement",
        bucket_rows(source, window),
        _BUCKETS,
        metrics=("goodput_job",),
        queries=("steps", "run_sessions", "run_events", "runs"),
        notes=("data_loading_async overlaps training: the library counts it as productive, too.",),
        parts={"metric": "bucket", "value": "share", "numerator_s": "seconds", "n": "runs"},
        when_empty=_NO_LOG,
    )


def lost(source: Reader, window: Window, question: Question) -> Answer:
    """Where all GPU-time went."""
    dimension = split_by(question.by, (*LEDGER_DIMENSIONS, "cause", "category"), "cause")
    by_what = dimension in {"cause", "category"}
    subject = "cluster" if by_what else dimension
    rows = lost_rows(source, window, subject)
    guess = lost_imputed_rows(source, window).row(0, named=True)
    notes = (
        *_straggling(rows),
        _imputed(guess),
        *second_order_said(second_order_rows(source, window)),
        *_capacity(source, window),
    )
    shown = {} if by_what else {"subject": (subject, "text")}
    if dimension == "category":
        rows = _by_category(rows)
    why = {} if dimension == "category" else {"cause": ("cause", "text"), "evidence": ("evidence", "text")}
    return Answer(
        "Where the GPU-time went",
        rows,
        shown
        | {"state": ("state", "text"), "category": ("category", "text")}
        | why
        | {
            "gpu_hours": ("GPU-h", "number"),
            "share": ("of all", "ratio"),
            "share_allocated": ("of allocated", "ratio"),
        },
        metrics=("lost_imputed", "second_order_share"),
        queries=("ledger_sums", "interruptions", "nodes_by_accounting"),
        notes=notes,
        parameters={"dimension": subject},
        parts={
            "metric": "state",
            "subject": "category",
            "of": "subject",
            "cause": "cause",
            "evidence": "evidence",
            "numerator_gpu_s": "gpu_seconds",
            "value": "share",
            "share_allocated": "share_allocated",
        },
        when_empty=_NO_TIME,
    )


def _by_category(rows: pl.DataFrame) -> pl.DataFrame:
    """Causes and evidence of a category put together, the largest first."""
    groups = ["cluster", "subject", "state", "category"]
    sums = ["gpu_seconds", "gpu_hours", "share", "straggling_gpu_seconds"]
    held = (
        pl.when(pl.col("state").first() == "allocated").then(pl.col("share_allocated").sum()).alias("share_allocated")
    )
    return (
        rows.group_by(groups)
        .agg(pl.col(sums).sum(), held)
        .select(*groups, *sums[:3], "share_allocated", sums[3])
        .sort("gpu_seconds", "category", descending=[True, False])
    )


def _imputed(guess: dict[str, Any]) -> str:
    """What infrastructure interruptions cost by assumption, and of how many the GPUs are unknown."""
    least, known = ("at least ", guess["bound_low"]) if guess["value"] is None else ("", guess["value"])
    unknown = guess["note"].partition("; ")[2]
    return (
        f"Assumed, beside the ledger: {guess['n']} infrastructure interruptions cost {least}{known / 3600:,.2f} GPU-h "
        f"if half an hourly checkpoint interval was lost each time{f'; {unknown}' if unknown else ''}."
    )


def _straggling(rows: pl.DataFrame) -> tuple[str, ...]:
    """How much of the time straggled: an overlay, which is in the categories already."""
    slow = float(rows["straggling_gpu_seconds"].sum() or 0)
    if not slow:
        return ()
    productive = float(rows.filter(pl.col("category") == "productive")["gpu_seconds"].sum())
    share = f", {slow / productive:.1%} of the productive time" if productive else ""
    return (f"of which straggling (overlay, added to nothing): {slow / 3600:,.2f} GPU-h{share}.",)
