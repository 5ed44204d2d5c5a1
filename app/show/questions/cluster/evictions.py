"""`trackside show evictions`: whom Kueue evicted for whom, and when the GPUs were really free."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from app.show.answer import Answer, Question
from app.show.registry import question
from app.show.sentences import gpu_hours, lasted
from ingest.counted import counted
from metrics.restarts.evictions import eviction_summary

if TYPE_CHECKING:
    import polars as pl

    from app.window import Window
    from queries.warehouse import Reader

_COLUMN: Final = {"queue": "queue", "preemptor": "preemptor", "reason": "reason", "job": "name"}
_HEADING: Final = {"queue": "queue", "preemptor": "made room for", "reason": "reason", "job": "job"}
_NONE: Final = (
    "No eviction was observed in this window. Kueue's Workloads record them: kubectl get workloads -A -o json, watched"
    " or read often, since each admission overwrites the eviction before it."
)
_ABOUT: Final = (
    "An eviction is an order: the GPUs are free when the last pod has ended. What was held in between is part of the"
    " evicted job's time, and others waited for it.",
)


@question(
    "evictions",
    "which workloads Kueue evicted, for which others, and when the GPUs were free",
    help="evictions by Kueue: which workload for which other, why, and when its pods were gone\n"
    "--by queue, preemptor, reason, job",
    by=("eviction", "queue", "preemptor", "reason", "job"),
    position=21,
)
def evictions(source: Reader, window: Window, question: Question) -> Answer:
    """Evictions in their order, or how many and how slow by queue, preemptor, reason or job."""
    rows = source.query("evictions", **window.parameters)
    dimension = question.dimension
    shown = rows if dimension == "eviction" else eviction_summary(rows, _COLUMN[dimension])
    return Answer(
        "Evictions by Kueue" if dimension == "eviction" else f"Evictions by {_HEADING[dimension]}",
        shown,
        _EACH if dimension == "eviction" else _summed(dimension),
        headline=_headline(rows),
        ranked=_RANKED if dimension == "eviction" else ("n", "gone_median_s", "held_gpu_s"),
        queries=("evictions",),
        notes=_ABOUT if rows.height else (),
        when_empty=_NONE,
        parts={"subject": "name", "value": "gone_s"}
        if dimension == "eviction"
        else {"subject": _COLUMN[dimension], "value": "gone_median_s", "n": "n_gone"},
    )


_RANKED: Final = ("evicted_at", "preemptor", "reason", "gone_s", "held_gpu_s")
_EACH: Final = {
    "name": ("job", "text"),
    "evicted_at": ("evicted", "time"),
    "reason": ("reason", "text"),
    "preemptor": ("made room for", "text"),
    "gone_s": ("gone after", "seconds"),
    "held_gpu_s": ("held GPU-h", "gpu_h"),
    "n_gpus": ("GPUs", "number"),
    "admitted_at": ("admitted again", "time"),
    "queue": ("queue", "text"),
    "cluster_queue": ("ClusterQueue", "text"),
    "preemption": ("preempted by", "text"),
}


def _summed(dimension: str) -> dict[str, tuple[str, str]]:
    return {
        _COLUMN[dimension]: (_HEADING[dimension], "text"),
        "n": ("evictions", "count"),
        "preempted": ("to make room", "count"),
        "n_gone": ("gone", "count"),
        "gone_median_s": ("gone after (median)", "seconds"),
        "gone_p90_s": ("90 %", "seconds"),
        "gone_max_s": ("longest", "seconds"),
        "held_gpu_s": ("held GPU-h", "gpu_h"),
        "n_held": ("with GPU-h", "count"),
    }


def _headline(rows: pl.DataFrame) -> str:
    if rows.is_empty():
        return ""
    row = eviction_summary(rows, "cluster").row(0, named=True)
    begin = f"{counted(row['n'], 'eviction')} by Kueue, {row['preempted']:,} to make room for others"
    if row["gone_median_s"] is None:
        return f"{begin}; when the pods were gone was not observed."
    held = "" if row["held_gpu_s"] is None else f" The evicted held {gpu_hours(row['held_gpu_s'])} after the order."
    slow = f"half were gone within {lasted(row['gone_median_s'])}, the slowest after {lasted(row['gone_max_s'])}"
    some = "" if row["n_gone"] == row["n"] else f" (of {row['n_gone']:,} known)"
    return f"{begin}; {slow}{some}.{held}"
