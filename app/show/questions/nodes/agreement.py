"""The question of `trackside show` about the agreement of Slurm and Kubernetes on the state of nodes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import polars as pl

from app.show.answer import Answer, Question
from app.show.registry import question
from app.show.sentences import gpu_hours, lasted
from ingest.counted import counted
from metrics.agreement.summary import agreement_summary, sync_lags

if TYPE_CHECKING:
    from app.window import Window
    from queries.warehouse import Reader

METRICS: Final = ("disagreement", "sync_lag")
QUERIES: Final = ("sync_intervals_in", "coverage")
NOTHING: Final = "No disagreement of Slurm's node events and Kubernetes' nodes and pods in this window."
SOURCES: Final = {
    "slurm.events": "No node events of Slurm, so nothing can be compared. Load them: trackside ingest slurm FILE.",
    "kubernetes.objects": (
        "No nodes of Kubernetes, so nothing can be compared. Load them: trackside ingest kubernetes FILE."
    ),
}
"""The sources that are compared, and the text where one is missing."""
_HEADINGS: Final = {"kind": "kind", "wrong": "wrong side", "node": "node"}


@question(
    "agreement",
    "where Slurm and Kubernetes disagree about nodes",
    help="where Slurm and Kubernetes disagree about nodes, and which side was wrong\n"
    "--by side, lag (cordon to drain, repair to return), node, event",
    by=("kind", "side", "lag", "node", "event"),
    position=32,
)
def agreement(source: Reader, window: Window, question: Question) -> Answer:
    """Disagreements of the two control planes by kind, side or node, each of them, or the lags of the one."""
    rows = source.query("sync_intervals_in", **window.parameters)
    answer = _answer(rows, question.dimension)
    return replace(answer, when_empty=_nothing(source, window), notes=()) if rows.is_empty() else answer


def _nothing(source: Reader, window: Window) -> str:
    """Why there is no row: nothing to compare with, or agreement."""
    lacking = (
        text
        for name, text in SOURCES.items()
        if source.query("coverage", cluster=window.cluster, source=name).is_empty()
    )
    return next(lacking, NOTHING)


def _answer(rows: pl.DataFrame, dimension: str) -> Answer:
    if dimension == "lag":
        return _lags(rows)
    if dimension == "event":
        return _each(rows)
    by = {"side": "wrong"}.get(dimension, dimension)
    summed = agreement_summary(rows, by)
    return Answer(
        "Disagreements of Slurm and Kubernetes",
        summed,
        {
            "subject": (_HEADINGS[by], "text"),
            "n": ("times", "count"),
            "n_open": ("still open", "count"),
            "n_slurm_wrong": ("Slurm wrong", "count"),
            "n_kubernetes_wrong": ("Kubernetes wrong", "count"),
            "median_s": ("median", "seconds"),
            "p90_s": ("p90", "seconds"),
            "total_s": ("total time", "seconds"),
            "gpu_s": ("GPU-h", "gpu_h"),
            "held_gpu_s": ("held GPU-h", "gpu_h"),
        },
        METRICS,
        QUERIES,
        headline=_of_worst_node(summed) if by == "node" else _headline(rows, summed),
        ranked=("n", "n_open", "median_s", "p90_s", "gpu_s", "held_gpu_s"),
        notes=(
            "GPU-hours are of nodes while the two disagreed, held ones those of Slurm's jobs then: they overlap with "
            "hours of the ledger and are in no sum. A side is wrong where evidence shows it: it followed later, or "
            "what ran there contradicts it.",
        ),
        parts={"subject": "subject", "value": "gpu_s", "n": "n", "n_open": "n_open", "median_s": "median_s"},
    )


def _headline(rows: pl.DataFrame, summed: pl.DataFrame) -> str:
    if rows.is_empty():
        return ""
    wrong = rows.filter(pl.col("wrong") != "unknown")["wrong"].value_counts(sort=True)
    sides = {"slurm": "Slurm", "kubernetes": "Kubernetes"}
    wrong_sides = ", ".join(f"{sides[name]} was wrong in {n:,}" for name, n in sorted(wrong.rows(), reverse=True))
    unknown = rows.height - int(wrong["count"].sum())
    parts = [each for each in (wrong_sides, f"in {unknown:,} it is unknown" if unknown else "") if each]
    spent = gpu_hours(float(summed["gpu_s"].sum()))
    return f"Slurm and Kubernetes disagreed {rows.height:,} times, {spent}: {'; '.join(parts)}."


def _of_worst_node(summed: pl.DataFrame) -> str:
    """The node with most GPU-time in disagreement, which `agreement_summary` has first."""
    if summed.is_empty():
        return ""
    first = summed.row(0, named=True)
    times = "once" if first["n"] == 1 else f"{first['n']:,} times"
    return (
        f"{counted(summed.height, 'node')}; most GPU-time on {first['subject']}: {gpu_hours(float(first['gpu_s']))}, "
        f"{times}{', still open' if first['n_open'] else ''}."
    )


def _lags(rows: pl.DataFrame) -> Answer:
    lags = sync_lags(rows)
    known = lags.filter(pl.col("median_s").is_not_null())
    first = known.row(0, named=True) if known.height else None
    return Answer(
        "Lags of Slurm behind Kubernetes",
        lags,
        {
            "lag": ("from ... to", "text"),
            "n": ("times", "count"),
            "n_open": ("still open", "count"),
            "median_s": ("median", "seconds"),
            "median_low_s": ("95 % from", "seconds"),
            "median_high_s": ("to", "seconds"),
            "p90_s": ("p90", "seconds"),
            "longest_s": ("longest", "seconds"),
        },
        ("sync_lag",),
        QUERIES,
        headline=""
        if first is None
        else f"From {first['lag']}: {lasted(first['median_s'])} (median of {first['n']:,}).",
        ranked=("n", "n_open", "median_s", "p90_s", "longest_s"),
        notes=("Where Kubernetes changed first. Draining is not drained: drained is when the last job had left.",),
        parts={"subject": "lag", "value": "median_s", "n": "n", "ci_low": "median_low_s", "ci_high": "median_high_s"},
    )


def _each(rows: pl.DataFrame) -> Answer:
    length = (pl.col("ended_at") - pl.col("started_at")).dt.total_microseconds() / 1e6
    timed = rows.with_columns(length_s=length).sort("started_at", "node", descending=[True, False])
    longest = timed.sort("length_s", descending=True, maintain_order=True).head(1).to_dicts()
    return Answer(
        "Disagreements of Slurm and Kubernetes, the newest first",
        timed,
        {
            "node": ("node", "text"),
            "kubernetes_node": ("host", "text"),
            "started_at": ("since", "time"),
            "ended_at": ("until", "time"),
            "ended_by": ("ended by", "text"),
            "length_s": ("lasted", "seconds"),
            "kind": ("kind", "text"),
            "slurm_state": ("Slurm", "text"),
            "kubernetes_state": ("Kubernetes", "text"),
            "wrong": ("wrong", "text"),
            "evidence": ("evidence", "text"),
            "settled_at": ("drained", "time"),
            "held_gpu_seconds": ("held GPU-h", "gpu_h"),
            "slurm_reason": ("Slurm's reason", "text"),
            "kubernetes_reason": ("Kubernetes' reason", "text"),
        },
        ("disagreement",),
        QUERIES,
        headline="".join(
            f"The longest: {row['node']}, {lasted(row['length_s'])} ({row['kind']}), "
            f"of {counted(timed.height, 'disagreement')}."
            for row in longest
        ),
        ranked=("started_at", "length_s", "kind", "slurm_state", "kubernetes_state", "wrong"),
        parts={"subject": "node", "value": "length_s", "kind": "kind", "wrong": "wrong", "evidence": "evidence"},
    )
