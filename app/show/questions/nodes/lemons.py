"""The question of `trackside show` about lemon nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from app.results import advice
from app.results.failures.lemons import judged, node_score_rows
from app.show.answer import Answer, Question
from app.show.registry import question
from ingest.counted import counted
from metrics.failures import lemons as rules

if TYPE_CHECKING:
    from app.window import Window
    from queries.warehouse import Reader

MOST_SHOWN: Final = 15
"""Nodes without a flag that a table shows below the flagged ones; machines get all."""

QUERIES: Final = (
    "node_exposure", "interruptions", "nodes_of_unblamed", "node_critical_kinds", "node_states", "adjudications",
    "exclusions",
)  # fmt: skip


@question(
    "lemons",
    "nodes that fail more often than by chance",
    help="nodes that fail more often than by chance (the last 28 days), and what could have been detected",
    by=("node",),
    position=10,
)
def lemons(source: Reader, window: Window, _: Question) -> Answer:
    """Nodes that fail more often than chance would have it, and what could have been seen."""
    scored = judged(window)
    rows = node_score_rows(source, scored)
    ran = rows.filter(pl.col("exposure_gpu_days") > 0)
    flagged = rows.filter(pl.col("verdict") != "none")
    return Answer(
        "Nodes by failures against those expected by chance",
        rows if ran.height else rows.clear(),
        {
            "node": ("node", "text"),
            "verdict": ("verdict", "text"),
            "failures": ("failures", "count"),
            "expected": ("expected by chance", "number"),
            "p_value": ("p", "number"),
            "q_value": ("q", "number"),
            "rate_eb": ("per GPU-day (EB)", "number"),
            "families": ("signals that agree", "text"),
            "multi_node_failures": ("in large jobs", "count"),
            "hardware_kinds": ("kinds of events", "count"),
            "out_count": ("left service", "count"),
            "excluded_by": ("jobs excluding it", "count"),
            "exposure_gpu_days": ("GPU-days", "number"),
            "detectable_factor": ("smallest detectable, times the others", "number"),
            "note": ("note", "text"),
        },
        headline=" ".join(_outcome(flagged)),
        ranked=("verdict", "failures", "expected", "families", "out_count", "hardware_kinds", "exposure_gpu_days"),
        explained=("p_value", "q_value", "rate_eb"),
        metrics=("lemon_q", "node_failure_rate_eb"),
        queries=QUERIES,
        notes=(*_judged(scored, window), *_detectable(ran), *_missing(rows), *_orders(flagged)),
        parameters={"since": scored.since, "until": scored.until},
        in_words=(pl.col("families").list.eval(pl.element().replace(_FAMILIES)),),
        worth_showing=(pl.col("verdict") != "none") | ((pl.col("rank") <= MOST_SHOWN) & (pl.col("failures") > 0)),
        parts={
            "subject": "node",
            "value": "q_value",
            "p_value": "p_value",
            "numerator": "failures",
            "denominator_gpu_days": "exposure_gpu_days",
            "expected": "expected",
            "n": "failures",
            "n_nodes": "n_nodes",
            "flag_at": "flag_at",
            "charged": "charged",
            "rate_eb": "rate_eb",
            "rate_per_gpu_day": "rate_per_gpu_day",
            "single_rate_per_gpu_day": "single_rate_per_gpu_day",
            "families": "families",
            "detectable_factor": "detectable_factor",
            "detectable_per_gpu_day": "detectable_per_gpu_day",
        },
        when_empty=_nothing(ran),
    )


_FAMILIES: Final = {rules.JOBS: "jobs fail", rules.HARDWARE: "hardware events", rules.OUT_OF_SERVICE: "out of service"}
"""Families of signals, for people."""


def _outcome(flagged: pl.DataFrame) -> tuple[str, ...]:
    if flagged.is_empty():
        return ("No node failed more often than expected by chance.",)
    lemons, suspects = (flagged.filter((pl.col("verdict") == "lemon") == lemon) for lemon in (True, False))
    sentences = [f"{counted(lemons.height, 'lemon')}: {_worst(lemons)}."] if lemons.height else []
    if suspects.height:
        why = "they fail more often than by chance, and no second family of signals agrees"
        sentences.append(f"{counted(suspects.height, 'suspect')} ({why}): {_worst(suspects)}.")
    return tuple(sentences)


def _worst(flagged: pl.DataFrame) -> str:
    """The nodes that failed most often, with the number expected by chance."""
    shown = flagged.head(_MOST_NAMED).to_dicts()
    named = (
        f"{row['node']} failed {counted(row['failures'], 'time')} (expected by chance: {row['expected']:.2g})"
        for row in shown
    )
    more = flagged.height - len(shown)
    return ", ".join((*named, *((f"and {more:,} more",) if more else ())))


_MOST_NAMED: Final = 3
"""Nodes that the first sentence names."""


def _judged(judged: Window, window: Window) -> tuple[str, ...]:
    if judged == window:
        return ()
    since, until = (f"{each:%Y-%m-%d %H:%M}" for each in (judged.since, judged.until))
    return (f"Judged by the last {rules.WINDOW_DAYS} days of the window: {since} to {until} (UTC).",)


def _detectable(ran: pl.DataFrame) -> tuple[str, ...]:
    """The failures that would have put a node on the list: a short list is no proof of health."""
    if ran.is_empty():
        return ()
    median = ran.select(pl.col("flag_at", "detectable_factor", "expected", "detectable_per_gpu_day").median()).row(
        0, named=True
    )
    total, days = int(ran["failures"].sum()), ran["exposure_gpu_days"].sum()
    if median["flag_at"] is None:
        return ("Attempts ran on one node only: there is nothing to compare it with.",)
    named = f"{counted(total, 'failure')} that name{'s' if total == 1 else ''} a node"
    rate = f"{named} in {days:,.0f} GPU-days on {counted(ran.height, 'node')}"
    flagged = counted(round(median["flag_at"]), "failure")
    if median["detectable_factor"] is None:
        return (f"{rate}: a node would have been flagged from {flagged} on.",)
    return (
        f"{rate}, {median['expected']:.3g} expected on a node by chance. Detectable: a node that fails "
        f"{median['detectable_factor']:,.0f} times as often as the others ({median['detectable_per_gpu_day']:.3g} per "
        f"GPU-day) is flagged in 8 of 10 cases, at {flagged} (median node); lesser lemons "
        "mostly go undetected.",
    )


def _missing(rows: pl.DataFrame) -> tuple[str, ...]:
    """Without another family of signals nothing can be more than suspect."""
    if rows.is_empty() or rows.select(pl.col("hardware_kinds", "out_count").sum().cast(pl.Int64)).row(0) != (0, 0):
        return ()
    return (
        "No hardware event and no unplanned state of a node is known in this time, so a node cannot be more than "
        "suspect. To add them: trackside ingest slurm (node events), trackside ingest prometheus (XID, ECC, links).",
    )


def _orders(flagged: pl.DataFrame) -> tuple[str, ...]:
    drain = advice.drain_lemons(flagged)
    return () if drain is None else (drain[0], *(f"  {command}" for command in drain[1]))


def _nothing(ran: pl.DataFrame) -> str:
    if ran.is_empty():
        return (
            "No attempt is known to have held GPUs of a node in this window: "
            "is it within what `trackside status` covers?"
        )
    return "No failure names a node in this window, so no lemon can be identified."
