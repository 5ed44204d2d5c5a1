"""What counters grew in the cells of a grid, exactly and slowly: the twin of `node.counters`, of one series."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

from ingest.prometheus.client.raw import GONE_S

if TYPE_CHECKING:
    from collections.abc import Iterable

Reading = tuple[int, float]
"""Milliseconds, and what was read."""

WIDTH = 60_000
GONE = GONE_S * 1000


class Cell(NamedTuple):
    """What is known of a series in a cell; times in milliseconds."""

    increase: Fraction
    covered: int
    begin: int
    end: int


def slow(readings: Iterable[Reading], width: int = WIDTH) -> dict[int, Cell]:
    """By cell, what readings in order of time tell."""
    result: dict[int, Cell] = {}
    before: Reading | None = None
    for at, value in readings:
        if not math.isfinite(value) or value < 0 or (before is not None and at <= before[0]):
            continue
        if before is not None and at - before[0] <= GONE:
            rise = Fraction(value) - (Fraction(before[1]) if value >= before[1] else 0)
            for cell in range(before[0] // width, (at - 1) // width + 1):
                begin, end = max(before[0], cell * width), min(at, (cell + 1) * width)
                old = result.get(cell, Cell(Fraction(0), 0, begin, end))
                part = rise * (end - begin) / (at - before[0])
                result[cell] = Cell(old.increase + part, old.covered + end - begin, old.begin, end)
        before = (at, value)
    return result
