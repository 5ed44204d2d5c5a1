"""The question of `trackside show` about model FLOP utilisation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from app import results
from app.asked import asked_runs, split_by
from app.showing import Answer, Question
from metrics.mfu import CONVENTIONS

if TYPE_CHECKING:
    from app.results import Window
    from queries.warehouse import Reader


def mfu(source: Reader, window: Window, question: Question) -> Answer:
    """Model FLOP utilisation, of all logged runs or by run, by convention."""
    if question.run is not None or split_by(question.by, ("cluster", "run"), "cluster") == "run":
        rows, said = asked_runs(results.mfu_run_rows(source, window), source, window, question.run)
        return Answer(
            "MFU by run and FLOP convention",
            rows,
            {"run_id": ("run", "text"), **_MFU_COLUMNS, "median": ("median step", "ratio"), "note": ("note", "text")},
            metrics=("mfu",),
            queries=("steps", "run_sessions", "run_events"),
            notes=said,
            parts={"subject": "run_id", **_MFU_PARTS},
            when_empty=_NO_STEPS,
        )
    found = [
        results.mfu_rows(source, window, convention).with_columns(convention=pl.lit(convention))
        for convention in CONVENTIONS
    ]
    rows = pl.concat(found).filter(pl.col("n") > 0)
    return Answer(
        "MFU over the kept steps of all logged runs, by FLOP convention",
        rows,
        {**_MFU_COLUMNS, "note": ("note", "text")},
        metrics=("mfu",),
        queries=("steps", "run_sessions", "run_events"),
        parts={"subject": "convention", **_MFU_PARTS},
        when_empty=_NO_STEPS,
        notes=(
            "The peak is dense, for the data type of the log. A vendor's figure means little without its convention.",
        ),
    )


_NO_STEPS = (
    "No run of a known job logged steps in this window (logs that match no job: see trackside status).\n"
    "The recorder does it in three lines: trackside recorder --help"
)


_MFU_COLUMNS = {
    "convention": ("convention", "text"),
    "value": ("MFU", "ratio"),
    "ci_low": ("95 % from", "ratio"),
    "ci_high": ("to", "ratio"),
    "n": ("steps", "count"),
    "numerator": ("FLOP", "number"),
    "denominator": ("peak FLOP", "number"),
}


_MFU_PARTS = {
    "convention": "convention",
    "value": "value",
    "numerator": "numerator",
    "denominator": "denominator",
    "n": "n",
    "ci_low": "ci_low",
    "ci_high": "ci_high",
}
