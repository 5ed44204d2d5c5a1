"""Drawings of the PDF: positions as shares of a width or a height, from the scales of `charts.py`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from app.reports.sla import charts

if TYPE_CHECKING:
    from app.reports.sla.document import Document


def range_of(o: Document, alternative: str) -> dict[str, Any]:
    """The range of an objective, its value and its target, as shares of the width.

    Args:
        o: the objective.
        alternative: the same in words, for whoever does not see it.
    """
    high = math.inf if o["no_upper_limit"] else o["high"]
    ends = [each for each in (o["target"], o["value"], o["low"], high) if each is not None and math.isfinite(each)]
    scale = charts.scale_of(o["unit"], ends)

    def at(value: float) -> float:
        return scale.at(value) / 100

    target = at(o["target"])
    known = o["low"] is not None and high is not None
    right = 1.0 if high == math.inf else at(high) if high is not None else 0.0
    return {
        "promised": [target, 1 - target] if o["direction"] == "at_least" else [0.0, target],
        "bar": [at(o["low"]), right - at(o["low"])] if known else None,
        "value": None if o["value"] is None else at(o["value"]),
        "target": target,
        "ticks": [{"at": at(tick), "label": charts.label_of(o["unit"])(tick)} for tick in scale.ticks],
        "verdict": o["verdict"],
        "alt": alternative,
    }


def burn_down_of(budget: Document | None, days: list[str]) -> dict[str, Any] | None:
    """What is left of an error budget at the end of each day, as shares of the height; None: not known by day.

    Args:
        budget: of an objective; None: it has none.
        days: all days of the period.
    """
    if budget is None or not budget["by_day"]:
        return None
    left = {row["day"]: charts.remaining(row, budget["allowed"]) for row in budget["by_day"]}
    scale = charts.budget_scale(left)
    columns = [[None if end is None else scale.at(end) / 100 for end in left.get(day, _UNKNOWN)] for day in days]
    value = left[max(left)][0]
    rest = "an unknown part" if value is None else f"{100 * value:,.0f} %"
    return {
        "zero": scale.at(0.0) / 100,
        "ticks": [{"at": scale.at(tick) / 100, "label": charts.label_of("ratio")(tick)} for tick in scale.ticks],
        "columns": columns,
        "first": days[0],
        "last": days[-1],
        "alt": f"Error budget left at the end of each day: {rest} of it at the end of the last one",
    }


_UNKNOWN = (None, None, None)
