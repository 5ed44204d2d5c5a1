"""The question of `trackside show` about what users and accounts used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from app.results.people.cost import cost_rows
from app.results.people.use import use_rows
from app.show.answer import MOST_EXPLAINED, Answer, Question
from app.show.names import renamed_notes, uid_notes
from app.show.registry import question
from app.show.sentences import bounded, gpu_hours, percent
from ingest.counted import counted

if TYPE_CHECKING:
    from app.window import Window
    from queries.warehouse import Reader


@question(
    "people",
    "who used the GPUs, how well, and at what cost",
    help="who used the GPUs: GPU-hours, what of them trained, was idle or was lost, how attempts ended, failures\n"
    "of hardware met, and cost where prices are configured\n"
    "--by user, account",
    by=("user", "account"),
    position=41,
    of_some_runs=("user",),
)
def people(source: Reader, window: Window, question: Question) -> Answer:
    """Use, waste, reliability and cost, by user or account."""
    configured = question.configured.cost
    by = question.dimension
    rows = use_rows(source, window, by).with_columns(pl.lit("interruptions_of_users").alias("metric"))
    if configured.prices:
        costs = cost_rows(source, window, configured, by).select("subject", "cost", "lost_cost")
        rows = rows.join(costs, on="subject", how="left", maintain_order="left")
    priced = {"cost": (configured.currency or "cost", "number")} if configured.prices else {}
    return Answer(
        f"Use of GPUs, by {by}",
        rows,
        {
            "subject": (by, "text"),
            **({"n_users": ("users", "count")} if by == "account" else {"n_accounts": ("accounts", "count")}),
            "gpu_s": ("GPU-h", "gpu_h"),
            "share": ("of all", "ratio"),
            **priced,
            "productive_share": ("productive, at least", "ratio"),
            "productive_share_high": ("productive, at most", "ratio"),
            "idle_s": ("standing still, GPU-h", "gpu_h"),
            "lost_s": ("lost GPU-h", "gpu_h"),
            "n_runs": ("runs", "count"),
            "n_attempts": ("attempts", "count"),
            "n_completed": ("completed", "count"),
            "n_cancelled": ("cancelled", "count"),
            "n_failed": ("failed", "count"),
            "n_own": ("of the job itself", "count"),
            "n_infrastructure": ("interrupted by infrastructure", "count"),
            "rate": ("interruptions per GPU-day", "number"),
            "rate_low": ("95 % from", "number"),
            "rate_high": ("to", "number"),
        },
        headline=_headline(rows, by),
        ranked=("gpu_s", "share", *priced, "productive_share", "productive_share_high", "idle_s", "lost_s", "n_failed"),
        explained=("rate_low", "rate_high"),
        metrics=("interruptions_of_users", "waste", *(("cost",) if configured.prices else ())),
        queries=(
            "attempt_spending",
            "interruptions",
            "access_changes",
            "uids_of_users",
            *(("gpu_time_to_price",) if configured.prices else ()),
        ),
        notes=(
            "Interruptions by infrastructure follow the GPU-time held, not the user. "
            "“Of the job itself” counts attempts that failed and were not cancelled.",
            *((*renamed_notes(source, window), *uid_notes(source, window)) if by == "user" else ()),
            *(() if configured.prices else ("Cost: no price is configured (trackside show cost).",)),
        ),
        parameters=window.parameters,
        worth_explaining=pl.int_range(pl.len()) < MOST_EXPLAINED,
        parts=_PARTS,
        when_empty="No attempt is known to have held GPUs in this window: is it within what `trackside status` covers?",
    )


_PARTS: Final = {
    "metric": "metric",
    "subject": "subject",
    "value": "rate",
    "numerator": "n_infrastructure",
    "denominator_gpu_days": "gpu_days",
    "ci_low": "rate_low",
    "ci_high": "rate_high",
    "productive_gpu_s": "productive_s",
    "productive_high_gpu_s": "productive_high_s",
    "idle_gpu_s": "idle_s",
    "idle_high_gpu_s": "idle_high_s",
    "lost_gpu_s": "lost_s",
    "allocated_gpu_s": "gpu_s",
}


def _headline(rows: pl.DataFrame, by: str) -> str:
    if rows.is_empty():
        return ""
    first = rows.row(0, named=True)
    productive = bounded(None, first["productive_share"], first["productive_share_high"])
    return (
        f"{counted(rows.height, by)} held {gpu_hours(float(rows['gpu_s'].sum()))}; {first['subject']} held the "
        f"most, {percent(first['share'])} of it, and {productive} of that was productive."
    )
