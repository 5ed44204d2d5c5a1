"""Events of one series the slow and obvious way: reading by reading, in plain Python."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ingest.prometheus.health.rules import Rule

Event = tuple[float, float | None, bool]
"""Second, value, and whether it was only found there."""

FORGET_S, QUIET_AGAIN_S, GONE_S = 1800, 1800, 300


def events(rule: Rule, points: list[tuple[float, float]]) -> list[Event]:
    """Events by a rule. Readings are whole seconds, in order, and none is blank."""
    found = {"increase": _increases, "level": _levels, "fall": _falls, "share": _shares}[rule.event](rule, points)
    return sorted(found)


def _before(points: list[tuple[float, float]], index: int) -> float | None:
    known = index > 0 and points[index][0] - points[index - 1][0] <= FORGET_S
    return points[index - 1][1] if known else None


def _cell(rule: Rule, second: float) -> int:
    return -(-int(second) // rule.within_s) - 1


def _news(rule: Rule, cells: dict[int, Event]) -> list[Event]:
    """Events of cells that are bad, without those that go on from the cell before within the same `again`."""
    again = {cell: cell * rule.within_s // rule.again_s for cell in cells}
    return [event for cell, event in cells.items() if again.get(cell - 1) != again[cell]]


def _increases(rule: Rule, points: list[tuple[float, float]]) -> list[Event]:
    sums: dict[int, float] = {}
    crossed: dict[int, Event] = {}
    found: list[Event] = []
    for index, (second, value) in enumerate(points):
        before = _before(points, index)
        if before is None:
            if rule.found and value > 0:
                found.append((second, value, True))
            continue
        grown = value - before if value >= before else 0 if rule.restarts == "ignored" else value
        if rule.restarts == "ignored" and second - points[index - 1][0] > GONE_S:
            grown = 0
        cell = _cell(rule, second)
        sums[cell] = sums.get(cell, 0) + grown
        if cell not in crossed and sums[cell] >= rule.at_least:
            crossed[cell] = (second, sums[cell], False)
    return found + _news(rule, crossed)


def _levels(rule: Rule, points: list[tuple[float, float]]) -> list[Event]:
    def bad(value: float) -> bool:
        if rule.bits is not None:
            return bool(int(value) & rule.bits)
        if rule.other_than is not None:
            return value != rule.other_than
        return value > rule.above if rule.above is not None else value < (rule.below or 0)

    found: list[Event] = []
    last_bad = last_edge = None
    for index, (second, value) in enumerate(points):
        before = _before(points, index)
        if bad(value) and before is None and rule.found:
            found.append((second, None, True))
        if bad(value) and before is not None and not bad(before):
            near = last_bad is not None and second - last_bad <= rule.quiet_s
            same = last_edge is not None and second // QUIET_AGAIN_S == last_edge // QUIET_AGAIN_S
            if not (near and same):
                found.append((second, None, False))
            last_edge = second
        last_bad = second if bad(value) else last_bad
    return found


def _falls(_rule: Rule, points: list[tuple[float, float]]) -> list[Event]:
    return [
        (second, value, False)
        for index, (second, value) in enumerate(points)
        if (before := _before(points, index)) is not None and value < before
    ]


def _shares(rule: Rule, points: list[tuple[float, float]]) -> list[Event]:
    ends = {_cell(rule, second): (second, value) for second, value in points}
    bad: dict[int, Event] = {}
    for cell, (second, value) in ends.items():
        if cell - 1 in ends:
            begun, before = ends[cell - 1]
            grown = value - before if value >= before else value
            share = min(grown * rule.unit_s / (second - begun), 1.0)
            until = (cell + 1) * rule.within_s
            if share >= rule.share and until <= points[-1][0]:
                bad[cell] = (until, share, False)
    return _news(rule, bad)
