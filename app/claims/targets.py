"""Targets of claims as thresholds of the boards."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.results.headlines import Headline, headline_is_of
from dashboards.exported_metrics import MTTF_GPUS
from metrics.catalog import BY_NAME

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dashboards.boards.fleet import Targets
    from metrics.claims.verdict import Claim
    from metrics.metric import Metric


def targets_of(claims: Iterable[Claim], flop_convention: str) -> Targets:
    """The thresholds of a board: the targets of claims by metric, rising.

    A claim counts if the board shows exactly its number, and if its direction is the good one of the metric.

    Args:
        claims: of the claims file.
        flop_convention: of the exported MFU.
    """
    targets: dict[str, set[float]] = {}
    for claim in claims:
        metric = BY_NAME[claim.metric]
        good = claim.direction == ("at_most" if metric.better == "lower" else "at_least")
        if metric.judged and good and headline_is_of(claim, _shown(metric, flop_convention)):
            targets.setdefault(claim.metric, set()).add(claim.target)
    return {metric: tuple(sorted(values)) for metric, values in targets.items()}


def _shown(metric: Metric, flop_convention: str) -> Headline:
    """The headline number that the panel of a metric shows."""
    return Headline(
        metric.name,
        metric.title,
        metric.unit,
        gpus=float(MTTF_GPUS) if metric.name == "mttf" else None,
        flop_convention=flop_convention if metric.name == "mfu" else None,
    )
