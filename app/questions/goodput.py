"""The questions of `trackside show` about where GPU-time went."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app import results
from app.asked import split_by
from app.showing import Answer, Question

if TYPE_CHECKING:
    from app.results import Window
    from queries.warehouse import Reader

LEDGER_DIMENSIONS = ("cluster", "day", "node", "user", "account", "partition", "run")


def goodput(source: Reader, window: Window, question: Question) -> Answer:
    """Goodput, occupancy and availability."""
    dimension = split_by(question.by, LEDGER_DIMENSIONS, "cluster")
    return Answer(
        "Goodput",
        results.goodput_rows(source, window, dimension),
        {
            "subject": (dimension, "text"),
            "metric": ("metric", "text"),
            "value": ("value", "ratio"),
            "bound_low": ("at least", "ratio"),
            "bound_high": ("at most", "ratio"),
            "numerator": ("numerator GPU-h", "gpu_h"),
            "denominator": ("denominator GPU-h", "gpu_h"),
            "note": ("note", "text"),
        },
        metrics=("goodput_allocated", "goodput_capacity", "occupancy", "availability"),
        queries=("ledger_sums", "inventoried"),
        notes=("at least / at most: all unseen time counted unproductive / productive. Accounting alone does not see "
               "what allocated GPUs did: add telemetry or a run log to narrow the bounds.",),
        parameters={"dimension": dimension},
        when_empty="No GPU-time in this window: is it within what `trackside status` says is covered?",
    )  # fmt: skip


def lost(source: Reader, window: Window, question: Question) -> Answer:
    """Where all GPU-time went."""
    dimension = split_by(question.by, (*LEDGER_DIMENSIONS, "cause"), "cause")
    subject = "cluster" if dimension == "cause" else dimension
    rows = results.lost_rows(source, window, subject)
    guess = results.lost_imputed_rows(source, window).row(0, named=True)
    shown = {} if subject == "cluster" else {"subject": (subject, "text")}
    return Answer(
        "Where the GPU-time went",
        rows,
        shown
        | {
            "state": ("state", "text"),
            "category": ("category", "text"),
            "cause": ("cause", "text"),
            "evidence": ("evidence", "text"),
            "gpu_hours": ("GPU-h", "number"),
            "share": ("share", "ratio"),
        },
        metrics=("lost_imputed",),
        queries=("ledger_sums", "interruptions"),
        notes=(
            f"Assumed, beside the ledger: {guess['n']} infrastructure interruptions cost "
            f"{guess['value'] / 3600:,.2f} GPU-h if half an hourly checkpoint interval was lost each time.",
        ),
        parameters={"dimension": subject},
        parts={
            "metric": "state",
            "subject": "category",
            "cause": "cause",
            "evidence": "evidence",
            "numerator_gpu_s": "gpu_seconds",
            "value": "share",
        },
        when_empty="No GPU-time in this window: is it within what `trackside status` says is covered?",
    )
