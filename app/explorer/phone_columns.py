"""Which columns of a table a phone shows first: its screen has room for three or four of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

FIRST: Final[Mapping[str, tuple[str, ...]]] = {
    "agreement": ("subject", "n", "gpu_s", "median_s"),
    "checkpoints": ("run_id", "interval_s", "optimal_s", "gain_gpu_s"),
    "evictions": ("name", "reason", "evicted_at"),
    "goodput": ("subject", "metric", "value", "bound_low", "bound_high"),
    "health": ("node", "kinds", "started_at", "action"),
    "interruptions": ("cause", "cost_gpu_s", "node", "n", "run_id", "ended_at"),
    "lifecycle": ("node", "subject", "failed_at", "cause", "out_s", "lost_gpu_s"),
    "lost": ("subject", "cost", "mostly", "category", "gpu_hours", "cause"),
    "mfu": ("run_id", "value", "mfu_wall", "convention", "measure"),
    "mttf": (
        "reference", "size", "rate_ratio", "mttf_d", "mttf_low_d", "mttf_high_d", "survival_24h", "ci_low", "ci_high",
        "counted",
    ),
    "nodes": ("node", "cost_gpu_s", "verdict", "cause", "interruptions"),
    "onboarding": ("user", "state", "added_at"),
    "restarts": ("stage", "median_s", "p90_s", "cause"),
    "runs": ("run_id", "state", "allocated", "ettr_low"),
    "scaling": ("recipe", "n_gpus", "tokens_per_gpu_s", "mfu"),
    "stalls": ("run_id", "lost_gpu_s", "began_at", "seconds"),
    "stragglers": ("run_id", "cause", "lost_gpu_s", "nodes", "node", "slow", "ratio"),
}  # fmt: skip
"""Columns by question, those that answer it first; a question without any keeps its order."""


def place_columns(definitions: Sequence[dict[str, Any]], first: Sequence[str], constant: Sequence[bool]) -> None:
    """Give each column its place on a phone, as `context.narrow`; `grid.js` puts them in that order.

    Columns that have the same text in every row come last: what they say needs no room beside what differs.

    Args:
        definitions: of AG Grid, in the order of a wide screen.
        first: fields that come first.
        constant: of each column whether its rows all have the same text.
    """
    rank = {field: number for number, field in enumerate(first)}

    def key(place: int) -> tuple[bool, int, int]:
        return constant[place], rank.get(definitions[place]["field"], len(rank)), place

    for number, place in enumerate(sorted(range(len(definitions)), key=key)):
        definitions[place]["context"] = {**definitions[place].get("context", {}), "narrow": number}
