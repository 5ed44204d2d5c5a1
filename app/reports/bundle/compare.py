"""The objectives of two reports, number by number."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from app.reports.sla.document import Document

NUMBERS: Final = ("value", "low", "high", "n", "numerator", "denominator", "excluded_s", "excluded_gpu_seconds")
WORDS: Final = ("verdict", "no_upper_limit", "adjudications")
SAME: Final = 1e-9
"""Relative difference of two floats that are the same number: sums in another order."""

RESAMPLED: Final = 0.1
"""Of the width of an interval by resampling: how far its ends may move where rows come in another order."""


@dataclass(frozen=True)
class Difference:
    """A number or word of an objective that two reports give otherwise."""

    objective: str
    what: str
    reported: object
    found: object

    def __str__(self) -> str:
        return f"{self.objective}: {self.what} was reported as {self.reported}, and is {self.found}"


def differences(reported: Document, found: Document, *, other_order: bool = False) -> list[Difference]:
    """Where the objectives of two reports differ.

    Args:
        reported: one report.
        found: the other.
        other_order: rows came in another order, so that intervals by resampling differ by chance.
    """
    ours = {each["id"]: each for each in found["objectives"]}
    theirs = {each["id"]: each for each in reported["objectives"]}
    made = [Difference(name, "objective", "there", "missing") for name in theirs if name not in ours]
    made += [Difference(name, "objective", "missing", "there") for name in ours if name not in theirs]
    for name, one in theirs.items():
        if name in ours:
            made += _of_objective(one, ours[name], other_order=other_order)
    return made


def _of_objective(one: dict[str, Any], other: dict[str, Any], *, other_order: bool) -> list[Difference]:
    words = [(name, one[name], other[name]) for name in WORDS]
    words += [(f"outcome ({name})", one["outcome"][name], other["outcome"][name]) for name in one["outcome"]]
    made = [Difference(one["id"], name, was, now) for name, was, now in words if was != now]
    loose = other_order and "bootstrap" in (one["method"] or "")
    for name in NUMBERS:
        room = _width(one) * RESAMPLED if loose and name in {"low", "high"} else 0.0
        if not same(one[name], other[name], room):
            made.append(Difference(one["id"], name, one[name], other[name]))
    return made


def _width(one: dict[str, Any]) -> float:
    return 0.0 if one["low"] is None or one["high"] is None else float(one["high"] - one["low"])


def same(one: float | None, other: float | None, room: float = 0.0) -> bool:
    """Whether two numbers are the same, but for the order of sums.

    >>> same(0.1 + 0.2, 0.3), same(None, 0.0), same(1.0, 1.1)
    (True, False, False)
    """
    if one is None or other is None:
        return one is other
    return math.isclose(one, other, rel_tol=SAME, abs_tol=max(room, 1e-9))
