"""`trackside show goodput`: goodput in each published meaning."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

import polars as pl

from app.results.goodput import goodput_rows, mpg_rows
from app.results.nodes.capacity import nodes_by_accounting
from app.results.runs.job_goodput import JobAccounts, bucket_rows, job_accounts, job_goodput_rows, job_goodput_run_rows
from app.results.stored import stored_rows
from app.show.answer import Answer, Brief, Details, Question
from app.show.registry import question
from app.show.sentences import bounded, lasted, percent, row_of
from app.terminal.columns import neat
from ingest.counted import counted
from metrics.units import HOUR_S

if TYPE_CHECKING:
    from app.window import Window
    from queries.warehouse import Reader

_OF_LEDGER: Final = ("goodput_allocated", "goodput_capacity", "occupancy", "availability")
_OF_PRODUCT: Final = ("scheduling_goodput", "runtime_goodput", "program_goodput", "mpg")

NO_TIME = "No GPU-time in this window: is it within what `trackside status` covers?"
_BOUNDS = (
    "at least / at most: all unobserved time counted unproductive / productive; provisional time is in the value and "
    "not in the least, and time of GPUs that were active beside an idle GPU of their job (stalled, lockstep) only in "
    "the most. Accounting alone does not record what allocated GPUs did: telemetry or a run log narrows the bounds."
)
_NO_LOG = "No run log with steps of a known job in this window (trackside recorder --help)."


@question(
    "goodput",
    "goodput in each published meaning, side by side",
    help="productive share: of wall time (job, as Google's library), of allocated GPU-time and of all GPU-time;\n"
    "scheduling x runtime x program\n"
    "--by day, node, user, account, partition, run; bucket: where logged runs' wall time went",
    by=("cluster", "day", "node", "user", "account", "partition", "run", "bucket"),
    position=1,
)
def goodput(source: Reader, window: Window, question: Question) -> Answer:
    """Goodput in each published meaning, side by side."""
    dimension = question.dimension
    if dimension == "bucket":
        return _buckets(source, window)
    stored = stored_rows(source, window, _STORED) if dimension == "cluster" and not question.details else None
    rows, names, queries, details = (
        _computed(source, window, dimension) if stored is None else (stored, _STORED, ("stored_cluster_metrics",), ())
    )
    capacity = capacity_notes(source, window)
    rows = rows.with_columns(_UNIT_OF_PARTS)
    return Answer(
        "Goodput",
        rows,
        {
            "subject": (dimension, "text"),
            "metric": ("metric", "text"),
            "value": ("value", "ratio"),
            "bound_low": ("at least", "ratio"),
            "bound_high": ("at most", "ratio"),
            **(_PARTS if dimension in _SEVERAL_UNITS else _PARTS_IN_GPU_H),
            "note": ("note", "text"),
        },
        headline=_headline(rows, dimension),
        ranked=("metric", "value", "bound_low", "bound_high", "note"),
        in_words=_IN_HOURS if dimension in _SEVERAL_UNITS else (),
        brief=_side_by_side(rows, dimension, (_BOUNDS, *capacity)),
        metrics=names,
        queries=queries,
        notes=(_BOUNDS, *((_WALL_TIME,) if dimension in _SEVERAL_UNITS else ()), *capacity),
        parameters={"dimension": dimension},
        when_empty=NO_TIME,
        details=details,
    )


def _headline(rows: pl.DataFrame, dimension: str) -> str:
    """The productive shares of allocated and of all GPU-time, of the cluster or of what held most of it."""
    if dimension != "cluster":
        return _range_of_days(rows) if dimension == "day" else _largest(rows, dimension)
    held, whole = (row_of(rows, "metric", name) for name in ("goodput_allocated", "goodput_capacity"))
    if held is None:
        return ""
    text = f"Productive: {bounded(held['value'], held['bound_low'], held['bound_high'])} of the allocated GPU-time"
    if whole is None:
        return f"{text}."
    if whole["value"] is None and whole["bound_low"] is None:
        return f"{text}; of all GPU-time: cannot tell."
    return f"{text}; {bounded(whole['value'], whole['bound_low'], whole['bound_high'])} of all GPU-time."


def _range_of_days(rows: pl.DataFrame) -> str:
    """The least and the most productive day; where no day's share is known, its bounds over all of them."""
    held = rows.filter((pl.col("metric") == "goodput_allocated") & (pl.col("denominator") > 0))
    if held.is_empty():
        return "No GPU was allocated on any of these days."
    days = held.filter(pl.col("value").is_not_null()).sort("value", "subject").to_dicts()
    if not days:
        bounds = bounded(None, held["bound_low"].min(), held["bound_high"].max())  # type: ignore[arg-type]  # polars types min() broadly
        return f"Productive of the allocated GPU-time: {bounds} on each of {counted(held.height, 'day')}."
    least, most = (f"{day['subject']} with {percent(day['value'])}" for day in (days[0], days[-1]))
    if len(days) == 1:
        return f"Productive of the allocated GPU-time: {least}."
    return f"Productive of the allocated GPU-time on {counted(len(days), 'day')}: least on {least}, most on {most}."


def _largest(rows: pl.DataFrame, dimension: str) -> str:
    """How much of its GPU-time was productive of what held most."""
    held = rows.filter(pl.col("metric") == "goodput_allocated").sort("denominator", descending=True, nulls_last=True)
    if held.is_empty() or not held["denominator"].item(0):
        return ""
    first = held.row(0, named=True)
    share = first["denominator"] / held["denominator"].sum()
    value = bounded(first["value"], first["bound_low"], first["bound_high"])
    return f"{counted(held.height, dimension)}; {first['subject']} held most, {percent(share)}: productive {value}."


def _side_by_side(rows: pl.DataFrame, dimension: str, notes: tuple[str, ...]) -> Brief | None:
    """A row for each subject, with a column for each metric; the cluster's rows in the order in which they are read."""
    if rows.is_empty():
        return None
    if dimension == "cluster":
        return _in_reading_order(rows, notes)
    named = {"subject": (dimension, "text")}
    key = ["cluster", "subject"]
    brief = rows.select(key).unique(maintain_order=True)
    for metric, headings in _SIDE_BY_SIDE.items():
        of_metric = rows.filter(pl.col("metric") == metric)
        names = {column: f"{metric}.{column}" for column in headings}
        chosen = of_metric.select(*key, *(pl.col(column).alias(name) for column, name in names.items()))
        brief = brief.join(chosen, on=key, how="left", maintain_order="left")
        named |= {name: headings[column] for column, name in names.items()}
    if dimension != "day":
        brief = brief.sort("goodput_allocated.denominator", descending=True, nulls_last=True, maintain_order=True)
    return Brief(brief, named, "also: numerators, notes, a row for each metric (--wide)", notes)


_SIDE_BY_SIDE: Final = {
    "goodput_allocated": {
        "denominator": ("allocated GPU-h", "gpu_h"),
        "value": ("productive of it", "ratio"),
        "bound_low": ("at least", "ratio"),
        "bound_high": ("at most", "ratio"),
    },
    "goodput_job": {"value": ("of wall time (logs)", "ratio")},
    "goodput_capacity": {"value": ("productive of all", "ratio")},
    "occupancy": {"value": ("allocated of all", "ratio")},
    "availability": {"value": ("available", "ratio")},
}
"""Metrics of a subject next to each other: columns with their headings and units."""


def _in_reading_order(rows: pl.DataFrame, notes: tuple[str, ...]) -> Brief:
    order = pl.DataFrame({"metric": list(_READING_ORDER)}).with_row_index("_order")
    amounts = [
        f"{_amount(row['numerator'], unit)} of {_amount(row['denominator'], unit)}" if row["denominator"] else None
        for row, unit in ((row, _PARTS_UNITS.get(row["metric"], "gpu_h")) for row in rows.iter_rows(named=True))
    ]
    ordered = (
        rows.with_columns(pl.Series("of", amounts, pl.String))
        .join(order, on="metric", how="left", maintain_order="left")
        .sort("_order", nulls_last=True, maintain_order=True)
    )
    return Brief(
        ordered,
        {
            "metric": ("metric", "text"),
            "value": ("value", "ratio"),
            "bound_low": ("at least", "ratio"),
            "bound_high": ("at most", "ratio"),
            "of": ("numerator of denominator", "text"),
            "note": ("note", "text"),
        },
        notes=notes,
    )


def _amount(value: float | None, unit: str) -> str:
    return "-" if value is None else neat([value], unit)[0] + (" GPU-h" if unit == "gpu_h" else "")


_READING_ORDER: Final = ("goodput_allocated", "goodput_capacity", "goodput_job", "occupancy", "availability")
_PARTS_UNITS: Final = {"goodput_job": "seconds", "program_goodput": "flop"}
"""Units of the numerators and denominators that are no GPU-seconds."""


_STORED: Final = (*sorted(_OF_LEDGER), "goodput_job", *_OF_PRODUCT)
"""Metrics of a cluster in the order of their rows."""

_Parts: TypeAlias = tuple[pl.DataFrame, tuple[str, ...], tuple[str, ...], tuple[Details, ...]]


def _computed(source: Reader, window: Window, dimension: str) -> _Parts:
    """Rows, metrics, named queries and details, computed from the ledger and the run logs."""
    rows = [goodput_rows(source, window, dimension)]
    queries = ("ledger_sums", "inventoried", "nodes_by_accounting")
    if dimension not in _SEVERAL_UNITS:
        return rows[0], _OF_LEDGER, queries, ()
    accounts = job_accounts(source, window)
    names: tuple[str, ...] = (*_OF_LEDGER, "goodput_job")
    if dimension == "run":
        rows.append(job_goodput_run_rows(source, window, accounts=accounts))
    else:
        rows += [job_goodput_rows(source, window, accounts=accounts), mpg_rows(source, window)]
        names = (*names, *_OF_PRODUCT)
    of_logs = ("steps", "run_sessions", "run_events", "runs")
    return pl.concat(rows), names, (*queries, *of_logs), _job_details(source, window, accounts)


_SEVERAL_UNITS: Final = ("cluster", "run")
"""Dimensions by which there are metrics of logs, too, whose parts are no GPU-seconds."""

_PARTS: Final = {
    "numerator": ("numerator", "amount"),
    "denominator": ("denominator", "amount"),
    "parts_unit": ("unit", "text"),
}
_PARTS_IN_GPU_H: Final = {"numerator": ("numerator GPU-h", "gpu_h"), "denominator": ("denominator GPU-h", "gpu_h")}

_UNIT_OF_PARTS: Final = (
    pl.when(pl.col("denominator").is_not_null())
    .then(pl.col("metric").replace_strict({"goodput_job": "s", "program_goodput": "FLOP"}, default="GPU-s"))
    .alias("parts_unit")
)
"""The unit of a row's numerator and denominator."""

_HOURS: Final = {"GPU-s": "GPU-h", "s": "h"}

_IN_HOURS: Final = (
    *(
        pl.when(pl.col("parts_unit").is_in(list(_HOURS)))
        .then(pl.col(name) / HOUR_S)
        .otherwise(pl.col(name))
        .alias(name)
        for name in ("numerator", "denominator")
    ),
    pl.col("parts_unit").replace(_HOURS),
)
"""Numerators and denominators as people read them."""

_WALL_TIME: Final = "goodput_job is of the wall time of runs: --by bucket shows where the rest of it went."


def capacity_notes(source: Reader, window: Window) -> tuple[str, ...]:
    """A note where capacity is known from accounting alone."""
    note = nodes_by_accounting(source, window)
    return (note,) if note else ()


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
    rows = bucket_rows(source, window)
    return Answer(
        "Wall time of the logged runs by the buckets of ml-goodput-measurement",
        rows,
        _BUCKETS,
        headline=_largest_buckets(rows),
        metrics=("goodput_job",),
        queries=("steps", "run_sessions", "run_events", "runs"),
        notes=("data_loading_async overlaps training: the library counts it as productive, too.",),
        parts={"metric": "bucket", "value": "share", "numerator_s": "seconds", "n": "runs"},
        when_empty=_NO_LOG,
    )


_MOST_BUCKETS: Final = 3
"""Buckets that the first sentence names next to productive time."""


def _largest_buckets(rows: pl.DataFrame) -> str:
    """The productive share of the wall time, and the largest other buckets."""
    productive = row_of(rows, "bucket", "productive")
    if productive is None or not productive["share"]:
        return "No productive wall time is known of the logged runs." if rows.height else ""
    rest = rows.filter((pl.col("bucket") != "productive") & (pl.col("seconds") > 0)).sort("seconds", descending=True)
    named = ", ".join(
        f"{row['bucket'].removeprefix('unproductive_').removesuffix('_time').replace('_', ' ')} {percent(row['share'])}"
        for row in rest.head(_MOST_BUCKETS).iter_rows(named=True)
    )
    whole = lasted(productive["seconds"] / productive["share"])
    return f"{percent(productive['share'])} of {whole} of wall time was productive; the largest other parts: {named}."
