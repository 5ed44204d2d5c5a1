"""The question of `trackside show` about outages of nodes: stages, and the time until capacity is back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from app.results.nodes.lifecycle import Lifecycle, lifecycle
from app.show.answer import Answer, Question
from app.show.registry import question
from app.show.sentences import gpu_hours, lasted
from ingest.counted import counted
from metrics.lifecycle.summary import ALL, repeat_offenders, stage_summary, time_to_capacity_back

if TYPE_CHECKING:
    from app.window import Window
    from queries.warehouse import Reader

METRICS: Final = ("time_to_capacity_back", "outage_stages")
QUERIES: Final = (
    "node_states", "attempt_nodes", "unavailable_gpu_time", "slurmd_timeout", "nodes_with_gpus", "adjudications",
    "computed",
)  # fmt: skip
NOTHING: Final = (
    "No node was out of service in this window, as far as node states are known: trackside status names their source."
)
_TIMES: Final = {
    "median_s": ("median", "seconds"),
    "median_low_s": ("95 % from", "seconds"),
    "median_high_s": ("to", "seconds"),
    "p90_s": ("p90", "seconds"),
}
_HEADINGS: Final = {"cause": "cause", "by": "who acted", "outcome": "outcome"}


@question(
    "lifecycle",
    "outages of nodes: how long until capacity is back",
    help="outages of nodes, and how long until capacity is back, by cause\n"
    "--by stage (detection to return), actor, outcome, node (repeat offenders), event",
    by=("cause", "stage", "actor", "outcome", "node", "event"),
    position=31,
)
def show_lifecycle(source: Reader, window: Window, question: Question) -> Answer:
    """Outages: the time from failure to capacity back, stages, who acted, repeat offenders, or each outage."""
    known = lifecycle(source, window)
    if question.dimension == "stage":
        return _by_stage(known, window)
    if question.dimension == "node":
        return _by_node(known)
    if question.dimension == "event":
        return _each(known)
    return _summed(known, window, {"actor": "by"}.get(question.dimension, question.dimension))


def _summed(known: Lifecycle, window: Window, by: str) -> Answer:
    rows = time_to_capacity_back(known.outages, by, since=window.since, until=window.until)
    return Answer(
        "Time from failure to capacity back",
        rows,
        {
            "subject": (_HEADINGS[by], "text"),
            "outages": ("outages", "count"),
            "n": ("began in window", "count"),
            "n_open": ("still out", "count"),
            **_TIMES,
            "relapses": ("relapses", "count"),
            "lost_gpu_s": ("lost GPU-h", "gpu_h"),
            "held_gpu_s": ("held GPU-h", "gpu_h"),
        },
        METRICS,
        QUERIES,
        headline=_headline(rows),
        ranked=("n", "n_open", "median_s", "p90_s", "lost_gpu_s", "relapses"),
        in_words=(pl.col("subject").replace(ALL, "all unplanned"),),
        notes=(_HOW, *_censored(rows)),
        parameters={"corrected": []},
        when_empty=NOTHING,
        parts={"subject": "subject", "value": "median_s", "n": "n", "n_open": "n_open", "ci_low": "median_low_s",
               "ci_high": "median_high_s"},
    )  # fmt: skip


_HOW: Final = (
    "lost: down, drained or in maintenance in the ledger; held: by attempts while the node drained or was dead. "
    "Times are of outages that began in the window; those that still last count as censored (Kaplan-Meier)."
)


def _headline(rows: pl.DataFrame) -> str:
    whole = rows.filter(pl.col("subject") == ALL)
    if whole.is_empty():
        return "No node was out of service unplanned." if rows.height else ""
    row = whole.row(0, named=True)
    cost = gpu_hours(row["lost_gpu_s"])
    if row["median_s"] is None:
        return f"{counted(row['outages'], 'unplanned outage')} lost {cost}; too few are over for a median time."
    p90 = "" if row["p90_s"] is None else f", 9 in 10 within {lasted(row['p90_s'])}"
    return (
        f"A node that fails is back within {lasted(row['median_s'])} (median of {row['n']:,}{p90}); "
        f"{counted(row['outages'], 'unplanned outage')} lost {cost}."
    )


def _censored(rows: pl.DataFrame) -> tuple[str, ...]:
    still = int(rows.filter(pl.col("subject") == ALL)["n_open"].sum())
    return (f"{counted(still, 'unplanned outage')} of them still last{'s' if still == 1 else ''}.",) if still else ()


def _by_stage(known: Lifecycle, window: Window) -> Answer:
    rows = stage_summary(known.stages, since=window.since, until=window.until)
    longest = rows.sort("lost_gpu_s", descending=True).head(1).to_dicts()
    return Answer(
        "Stages of outages",
        rows,
        {
            "stage": ("stage", "text"),
            "outages": ("outages", "count"),
            "n": ("began in window", "count"),
            "n_open": ("still on", "count"),
            **_TIMES,
            "lost_gpu_s": ("lost GPU-h", "gpu_h"),
            "down_gpu_s": ("down", "gpu_h"),
            "drained_gpu_s": ("drained", "gpu_h"),
            "maintenance_gpu_s": ("maintenance", "gpu_h"),
            "held_gpu_s": ("held GPU-h", "gpu_h"),
        },
        METRICS,
        QUERIES,
        headline="".join(
            f"Most is lost while {_WHILE[row['stage']]}: {gpu_hours(row['lost_gpu_s'])}." for row in longest
        ),
        ranked=("n", "n_open", "median_s", "p90_s", "lost_gpu_s", "held_gpu_s"),
        notes=(
            "Lost GPU-hours add up to what `trackside show lost` has as down, drained and maintenance. Stages after "
            "the first are known where reasons name them (ingest/node_reasons.toml).",
        ),
        parameters={"corrected": []},
        when_empty=NOTHING,
        parts={"subject": "stage", "value": "lost_gpu_s", "n": "n", "n_open": "n_open", "median_s": "median_s"},
    )


_WHILE: Final = {
    "undetected": "a dead node is not noticed yet",
    "draining": "nodes drain",
    "down": "nodes are down, with no sign of a repair",
    "drained": "nodes are drained, with no sign of a repair",
    "triage": "nodes are in triage",
    "reboot": "nodes are rebooted",
    "replacement": "nodes are replaced",
    "verification": "nodes are verified",
    "maintenance": "nodes are in maintenance",
}


def _by_node(known: Lifecycle) -> Answer:
    rows = repeat_offenders(known.outages)
    again = rows.filter(pl.col("outages") > 1)
    relapsed = int(rows["relapses"].sum())
    return Answer(
        "Nodes that were out of service unplanned, those that relapsed most first",
        rows,
        {
            "node": ("node", "text"),
            "outages": ("outages", "count"),
            "relapses": ("relapses", "count"),
            "out_s": ("time out", "seconds"),
            "longest_s": ("longest", "seconds"),
            "lost_gpu_s": ("lost GPU-h", "gpu_h"),
            "cause": ("mostly", "text"),
            "outcome": ("last outcome", "text"),
            "reason": ("last reason", "text"),
        },
        ("time_to_capacity_back",),
        QUERIES,
        headline=f"{again.height:,} of {counted(rows.height, 'node')} that failed failed again, in "
        f"{counted(relapsed, 'case')} within a day of the return." if rows.height else "",
        ranked=("outages", "relapses", "out_s", "lost_gpu_s", "cause"),
        notes=("Whether chance explains it: trackside show lemons.",),
        parameters={"corrected": []},
        when_empty=NOTHING,
        parts={"subject": "node", "value": "out_s", "n": "outages", "relapses": "relapses"},
    )  # fmt: skip


def _each(known: Lifecycle) -> Answer:
    path = (
        known.stages.sort("node", "started_at")
        .group_by("outage", maintain_order=True)
        .agg(pl.col("stage").str.join(" > ").alias("stages"))
    )
    rows = (
        known.outages.join(path, on="outage", how="left")
        .drop("outage")
        .sort("failed_at", "node", descending=[True, False])
    )
    longest = rows.filter(~pl.col("planned")).sort("out_s", descending=True, maintain_order=True).head(1).to_dicts()
    return Answer(
        "Outages of nodes, the newest first",
        rows,
        {
            "node": ("node", "text"),
            "failed_at": ("failed", "time"),
            "back_at": ("back", "time"),
            "out_s": ("time out", "seconds"),
            "stages": ("stages", "text"),
            "cause": ("cause", "text"),
            "by": ("by", "text"),
            "outcome": ("outcome", "text"),
            "relapse": ("relapse", "text"),
            "lost_gpu_s": ("lost GPU-h", "gpu_h"),
            "held_gpu_s": ("held GPU-h", "gpu_h"),
            "reason": ("reason", "text"),
        },
        ("time_to_capacity_back",),
        QUERIES,
        headline="".join(f"The longest unplanned outage: {row['node']}, {lasted(row['out_s'])}." for row in longest),
        ranked=("failed_at", "out_s", "stages", "cause", "outcome", "lost_gpu_s"),
        parameters={"corrected": []},
        when_empty=NOTHING,
        in_words=(pl.when("relapse").then(pl.lit("yes")).otherwise(pl.lit("no")).alias("relapse"),),
        parts={"subject": "node", "value": "out_s", "outcome": "outcome"},
    )
