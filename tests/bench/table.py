"""A line of the table that `make bench` prints and writes."""

from __future__ import annotations

from typing import Any


def row(  # noqa: PLR0917 - a line of the table
    name: str, value: float, baseline: float, baseline_is: str, goal: float | None, unit: str = "s"
) -> dict[str, Any]:
    """What was measured against a baseline of the same run; the goal is for the ratio."""
    ratio = value / baseline
    return {"name": name, "value": value, "unit": unit, "baseline": baseline, "baseline_is": baseline_is,
            "ratio": ratio, "goal": goal, "holds": None if goal is None else ratio <= goal}  # fmt: skip
