"""The question of `trackside show` about what ended attempts, and what that cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import polars as pl

from app.errors import UsageError
from app.results.failures.interruptions import (
    SECOND_ORDER,
    interruptions_by,
    priced_interruptions,
    second_order_rows,
)
from app.results.stored import stored_or
from app.show.answer import Answer, Details, Order, Question
from app.show.delays import delays
from app.show.registry import question
from app.show.selection import requested_runs
from app.show.sentences import gpu_hours, percent, row_of
from ingest.counted import counted
from metrics import frames
from metrics.failures.second_order import FIRST, SECOND, UNKNOWN
from metrics.theory import META_IMPUTED_LOSS_S

if TYPE_CHECKING:
    from collections.abc import Mapping

    from app.window import Window
    from queries.warehouse import Reader

_COST = "cost: GPU-time that the attempt lost or was idle, and the startup of the next one."
_NONE = "No attempt ended without completing in this window."


@question(
    "interruptions",
    "every attempt that ended without completing, why, and what it cost",
    help="every attempt that ended without completing, why, and what it cost; --run R: of one run\n"
    "--by cause, class, node, order (preempted for a run that came back from a failure), delay (jobs that waited for\n"
    "nodes out of service, or after such a preemption)",
    by=("event", "cause", "class", "node", "order", "delay"),
    takes=("run",),
    position=7,
    of_some_runs=("event",),
)
def interruptions(source: Reader, window: Window, question: Question) -> Answer:
    """Attempts that ended without completing: each with what it cost, or summed up."""
    by = question.dimension
    if by == "event":
        return _interruption_rows(source, window, question.run)
    if question.run is not None:
        raise UsageError("--run is for single interruptions: leave out --by")
    if by == "delay":
        return delays(source, window)
    return _summed(source, window, by)


def _interruption_rows(source: Reader, window: Window, run: str | None) -> Answer:
    rows, notes = requested_runs(priced_interruptions(source, window), source, window, run)
    return Answer(
        "Interruptions",
        rows.drop("milli_gpus"),
        {
            "ended_at": ("ended", "time"),
            "run_id": ("run", "text"),
            "attempt_no": ("attempt", "count"),
            "state": ("state", "text"),
            "class": ("class", "text"),
            "cause": ("cause", "text"),
            "domains": ("may come from", "text"),
            "node": ("node", "text"),
            "n_gpus": ("GPUs", "count"),
            "runtime_s": ("ran", "seconds"),
            "cost_gpu_s": ("cost GPU-h", "gpu_h"),
            "detail": ("evidence", "text"),
            "events": ("reported around the end", "text"),
        },
        ("interruption_cost",),
        ("interruptions", "interruption_costs"),
        headline=_headline(rows),
        order=COSTLIEST,
        in_words=(pl.col("domains").str.replace_all(",", ", ", literal=True),),
        ranked=("run_id", "class", "cause", "n_gpus", "cost_gpu_s", "node", "state", "runtime_s"),
        notes=(*notes, _COST, _FROM, *_unpriced(rows["cost_gpu_s"].null_count())),
        parameters={} if run is None else {"run": run},
        when_empty=_NONE,
        parts={"metric": "cause", "subject": "run_id", "attempt": "attempt_no", "value": "cost_gpu_s",
               "evidence": "evidence", "domains": "domains", "events": "events"},
    )  # fmt: skip


_OWN_CANCEL: Final = (pl.col("class") == "user") & (pl.col("cause") == "cancelled")
_BY_INFRASTRUCTURE: Final = pl.col("class") == "infrastructure"
_ASSUMED_GPU_S: Final = pl.min_horizontal("runtime_s", pl.lit(META_IMPUTED_LOSS_S)) * pl.col("n_gpus").cast(pl.Float64)
COSTLIEST: Final = Order(
    (
        _OWN_CANCEL,
        -pl.coalesce("cost_gpu_s", pl.when(_BY_INFRASTRUCTURE).then(_ASSUMED_GPU_S)),
        ~_BY_INFRASTRUCTURE,
    ),
    "those that cost most first (half an hour is assumed where that of infrastructure is unknown), users' cancels last",
)
"""Failures of infrastructure with unknown cost are sorted by the assumed cost, not below all others."""


def _headline(rows: pl.DataFrame) -> str:
    """How many there were, how many of them by infrastructure, and what these cost as far as known."""
    if rows.is_empty():
        return ""
    own = rows.filter(pl.col("class") == "infrastructure")
    cost, unknown = float(own["cost_gpu_s"].sum() or 0), own["cost_gpu_s"].null_count()
    text = f"{counted(rows.height, 'attempt')} ended without completing, {own.height:,} by infrastructure"
    if own.is_empty():
        return f"{text}."
    apart = f" ({unknown:,} of unknown cost)" if unknown else ""
    return f"{text}, which cost {gpu_hours(cost)}{apart}." if unknown < own.height else f"{text}; the cost is unknown."


_FROM = (
    "may come from: failure domains (the user's program, system software, hardware) that no evidence rules out; the "
    "cause is the likeliest by severity, then by nearness to the end."
)


def _summed(source: Reader, window: Window, by: str) -> Answer:
    rows = interruptions_by(source, window, by)
    ordered = by == "order"
    shown = {"class": ("class", "text"), "cause": ("cause", "text")} if by == "cause" else {by: (by, "text")}
    orders = stored_or(second_order_rows, source, window, SECOND_ORDER) if ordered else frames.empty(frames.RESULT)
    metrics = ("interruption_cost", "lost_imputed")
    of_orders = ("lost_first_order", "lost_second_order", "lost_imputed_first_order", "lost_imputed_second_order",
                 "second_order_share")  # fmt: skip
    return Answer(
        f"What interruptions cost, by {'order of loss' if ordered else by}",
        rows,
        {
            **shown,
            "n": ("interruptions", "count"),
            "n_unpriced": ("cost not known", "count"),
            "n_gpus": ("GPUs", "number"),
            "cost_gpu_s": ("cost GPU-h", "gpu_h"),
            "share": ("share", "ratio"),
            "imputed_gpu_s": ("assumed GPU-h", "gpu_h"),
        },
        (*metrics, *of_orders) if ordered else metrics,
        ("interruptions", "interruption_costs"),
        headline=_by_orders(rows) if ordered else _costliest(rows, by),
        ranked=("cause", "n", "cost_gpu_s", "share", "n_unpriced"),
        notes=(
            _COST,
            "assumed: min(runtime, 30 min) x GPUs, as Meta imputes what is lost.",
            *((_OF_ORDERS, *second_order_notes(orders)) if ordered else ()),
        ),
        parameters={"dimension": by},
        when_empty=_NONE,
        parts={"metric": "class", "subject": by, "value": "cost_gpu_s", "n": "n", "n_unpriced": "n_unpriced",
               "share": "share", "lost_imputed": "imputed_gpu_s"},
        details=(Details("What failures cost, by order of loss", orders, _PARTS),) if ordered else (),
    )  # fmt: skip


def _costliest(rows: pl.DataFrame, by: str) -> str:
    """What cost most, as far as costs are known."""
    known = rows.filter((pl.col("cost_gpu_s") > 0) & pl.col(by).is_not_null()).sort(
        "cost_gpu_s", descending=True, nulls_last=True
    )
    if rows.is_empty():
        return ""
    if known.is_empty():
        return f"{counted(int(rows['n'].sum()), 'interruption')}; no {by} is known to have cost GPU-time."
    first = known.row(0, named=True)
    named = first[by].replace("_", " ") if by == "cause" else first[by]
    return f"The costliest {by}: {named}, {_cost(first)}."


def _cost(row: Mapping[str, Any]) -> str:
    """What interruptions cost, and of how many of them that is unknown."""
    apart = f" ({row['n_unpriced']:,} of unknown cost)" if row["n_unpriced"] else ""
    return f"{gpu_hours(row['cost_gpu_s'] or 0)} in {counted(row['n'], 'interruption')}{apart}"


def _by_orders(rows: pl.DataFrame) -> str:
    """What failures cost themselves, and what the preemptions cost that made room for runs that came back."""
    texts = [
        f"{words} cost {_cost(row)}"
        for order, words in _ORDER_WORDS.items()
        if (row := row_of(rows, "order", order)) is not None
    ]
    return f"{'; '.join(texts)}." if texts else _costliest(rows, "order")


_ORDER_WORDS: Final = {
    FIRST: "Failures of infrastructure",
    SECOND: "preemptions for runs that came back from one",
}
_OF_ORDERS = (
    f"{FIRST}: ended by infrastructure; {SECOND}: preempted for a run that came back from such an end; {UNKNOWN}: "
    "preempted for an unknown attempt; none: no failure is known to be behind it."
)
_PARTS = {
    "metric": ("metric", "text"),
    "unit": ("unit", "text"),
    "value": ("value", "number"),
    "numerator": ("numerator", "number"),
    "denominator": ("denominator", "number"),
    "n": ("n", "count"),
    "bound_low": ("at least", "number"),
    "bound_high": ("at most", "number"),
    "note": ("note", "text"),
}


def second_order_notes(rows: pl.DataFrame) -> tuple[str, ...]:
    """The share of what failures cost that is second order, in words; nothing where nothing failed.

    Args:
        rows: as `app.results.failures.interruptions.second_order_rows` returns them.
    """
    share = rows.row(by_predicate=pl.col("metric") == "second_order_share", named=True)
    if share["value"] is None:
        return ()
    low, high = share["bound_low"], share["bound_high"]
    within = "" if low == high else f" (at most {percent(high, digits=2)}: for some, the preemptor is unknown)"
    return (
        "Second order (attempts preempted to make room for runs that came back), assumed: "
        f"{percent(share['value'], digits=2)} of what failures cost{within}.",
    )


def _unpriced(count: int) -> tuple[str, ...]:
    """An interruption without a cost is not one that cost nothing."""
    if not count:
        return ()
    return (f"The cost of {count:,} is unknown: no run log shows how much of their work was kept.",)
