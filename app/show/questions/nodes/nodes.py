"""The question of `trackside show` about nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from app.results import advice
from app.results.failures.interruptions import node_failures
from app.results.failures.lemons import judged, node_score_rows
from app.results.failures.node_reasons import last_reasons
from app.results.goodput import goodput_rows
from app.results.source import CachedSource
from app.results.windows import ledger_sums
from app.show.answer import Answer, Question
from app.show.questions.nodes.lemons import QUERIES
from app.show.registry import question
from app.show.sentences import gpu_hours
from ingest.counted import counted
from metrics.exact import exact_sum
from metrics.goodput.goodput import UNCLEAR

if TYPE_CHECKING:
    from app.window import Window
    from queries.warehouse import Reader


@question(
    "nodes",
    "nodes, ordered by what their failures cost",
    help="nodes, ordered by what their failures cost, and what to do",
    by=("node",),
    position=9,
)
def nodes(source: Reader, window: Window, _: Question) -> Answer:
    """Nodes: GPUs, where their time went, the interruptions they are to blame for, and why they were last out."""
    blamed = node_failures(source, window)
    scores = node_score_rows(source, judged(window))
    rows = _rows(source, window, blamed, scores)
    return Answer(
        "Nodes, those that cost most first",
        rows,
        {
            "node": ("node", "text"),
            "gpu_model": ("model", "text"),
            "n_gpus": ("GPUs", "count"),
            "interruptions": ("interruptions", "count"),
            "cause": ("mostly", "text"),
            "cost_gpu_s": ("cost GPU-h", "gpu_h"),
            "unpriced": ("cost unknown", "count"),
            "verdict": ("verdict", "text"),
            "availability": ("availability", "ratio"),
            "gpu_hours": ("GPU-h in all", "number"),
            "allocated_gpu_hours": ("allocated GPU-h", "number"),
            "idle_gpu_hours": ("idle GPU-h", "number"),
            "unavailable_gpu_hours": ("unavailable GPU-h", "number"),
            **({"unknown_gpu_hours": ("use unknown GPU-h", "number")} if rows["unknown_gpu_hours"].sum() else {}),
            "stalled_gpu_hours": ("stalled GPU-h", "number"),
            "last_reason": ("last out of service", "text"),
            "driven_by": ("by", "text"),
        },
        headline=_headline(rows),
        ranked=(
            "interruptions",
            "cost_gpu_s",
            "availability",
            "verdict",
            "cause",
            "last_reason",
            "gpu_hours",
            "unavailable_gpu_hours",
        ),
        metrics=("availability", "lemon_q"),
        queries=("ledger_sums", "interruption_costs", "nodes", *QUERIES),
        notes=_to_do(blamed, scores),
        parameters={"dimension": "node"},
        parts={
            "subject": "node",
            "value": "availability",
            "unavailable_gpu_h": "unavailable_gpu_hours",
            "denominator_gpu_h": "gpu_hours",
            "n": "interruptions",
            "verdict": "verdict",
            "lemon_q": "q_value",
        },
        when_empty="No node with GPUs in this window.",
    )


def _rows(source: Reader, window: Window, blamed: pl.DataFrame, scores: pl.DataFrame) -> pl.DataFrame:
    """A row for each node with GPU-time, those whose failures cost most first."""
    once = CachedSource(source)
    sums = ledger_sums(once, window, "node")
    parts = sums.group_by("cluster", pl.col("subject").alias("node")).agg(
        _hours(pl.lit(value=True)).alias("gpu_hours"),
        *(_hours((pl.col("state") == state) & ~UNCLEAR).alias(f"{state}_gpu_hours") for state in _STATES),
        _hours(UNCLEAR).alias("unknown_gpu_hours"),
        _hours(pl.col("category") == "stalled").alias("stalled_gpu_hours"),
    )
    available = (
        goodput_rows(once, window, "node")
        .filter(pl.col("metric") == "availability")
        .select("cluster", pl.col("subject").alias("node"), pl.col("value").alias("availability"))
    )
    newest = (
        source.query("nodes", cluster=window.cluster)
        .sort("valid_from")
        .group_by("cluster", "node")
        .agg((pl.col("milli_gpus").last() / 1000).alias("n_gpus"), pl.col("gpu_model").last())
    )
    return (
        parts.join(newest, on=["cluster", "node"], how="left")
        .join(blamed, on=["cluster", "node"], how="left")
        .join(available, on=["cluster", "node"], how="left")
        .join(last_reasons(source, window), on=["cluster", "node"], how="left")
        .join(scores.select("cluster", "node", "verdict", "q_value"), on=["cluster", "node"], how="left")
        .with_columns(
            cost_gpu_s=pl.when(pl.col("interruptions").is_null()).then(0.0).otherwise("cost_gpu_s"),
            interruptions=pl.col("interruptions").fill_null(0),
            unpriced=pl.col("unpriced").fill_null(0),
        )
        .sort(
            pl.col("cost_gpu_s").fill_null(0.0),
            "interruptions",
            "unavailable_gpu_hours",
            "node",
            descending=[True, True, True, False],
        )
    )


def _headline(rows: pl.DataFrame) -> str:
    """How many nodes failed, and which of them cost most."""
    failed = rows.filter(pl.col("interruptions") > 0)
    if failed.is_empty():
        return f"No interruption is attributed to one of {counted(rows.height, 'node')}." if rows.height else ""
    worst = failed.row(0, named=True)
    cost = "" if worst["cost_gpu_s"] is None else f", {gpu_hours(worst['cost_gpu_s'])}"
    apart = f" ({worst['unpriced']:,} of unknown cost)" if worst["unpriced"] else ""
    return (
        f"{failed.height:,} of {counted(rows.height, 'node')} interrupted jobs; {worst['node']} cost most"
        f"{cost} in {counted(worst['interruptions'], 'interruption')}{apart}."
    )


def _to_do(blamed: pl.DataFrame, scores: pl.DataFrame) -> tuple[str, ...]:
    """What to do about lemons; where there are none, about the node that cost most, if it failed often."""
    flagged = scores.filter(pl.col("verdict") != "none")
    lemons = advice.drain_lemons(flagged)
    if lemons is not None:
        names = ", ".join(f"{row['node']} ({row['verdict']})" for row in flagged.to_dicts())
        note = f"More failures than by chance, in the last 28 days of the window: {names}; trackside show lemons."
        return note, lemons[0], *(f"  {command}" for command in lemons[1])
    drain = advice.drain(blamed)
    return () if drain is None else (drain[0], f"  {drain[1]}")


def _hours(where: pl.Expr) -> pl.Expr:
    """GPU-hours of these rows, the same to the last bit in any order of them."""
    return exact_sum(pl.col("gpu_seconds").filter(where)) / 3600


_STATES: Final = ("allocated", "idle", "unavailable")
