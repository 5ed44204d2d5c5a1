"""Survival as people see it: steps with intervals and numbers at risk, dotted where few are left, silent on too few."""

from __future__ import annotations

import polars as pl
import pytest

from app.explorer.charts.survival_figure import drawn_sizes, left_out, survival

DAY = 86_400.0


def curve(size: str, at_risk: list[int], *, of: str = "infrastructure") -> pl.DataFrame:
    """One interruption a day of so many attempts, worked out by hand: S = prod(1 - 1/Y)."""
    value, values = 1.0, []
    for n in at_risk:
        value *= 1 - 1 / n
        values.append(value)
    return pl.DataFrame(
        {
            "curve": "survival",
            "class": of,
            "size": size,
            "age_s": [DAY * (day + 1) for day in range(len(at_risk))],
            "at_risk": at_risk,
            "n_failures": 1,
            "value": values,
            "ci_low": [each - 0.1 for each in values],
            "ci_high": [each + 0.1 for each in values],
        }
    )


ROWS = pl.concat([curve("1-8", [20, 10, 4, 3, 2]), curve("9-16", [9, 8]), curve("1-8", [20] * 9, of="unplanned")])


def test_a_size_with_few_interruptions_has_no_curve() -> None:
    assert drawn_sizes(ROWS) == ["1-8"]
    assert "Not drawn, fewer than 5 interruptions: 9-16 (2)." in left_out(ROWS)
    assert survival(curve("9-16", [9, 8]), "hazard") is None


def test_the_curve_begins_whole_and_dots_where_few_are_left() -> None:
    made = survival(ROWS, "hazard")
    assert made is not None
    solid, dotted = (each for each in made.data if each.name)
    assert list(solid.x) == [0, 1, 2]
    assert [round(each, 4) for each in solid.y] == [1, 0.95, 0.855]
    assert dotted.line.dash == "dot"
    assert list(dotted.y) == pytest.approx([0.855, 0.64125, 0.4275, 0.21375])
    assert dotted.customdata[1] == ", 95 % 54.1% to 74.1%, 4 at risk"


def test_the_interval_and_the_numbers_at_risk_are_drawn() -> None:
    made = survival(ROWS, "hazard")
    assert made is not None
    low, high = (each for each in made.data if each.hoverinfo == "skip")
    assert [round(up - down, 4) for up, down in zip(high.y, low.y, strict=True)] == [0.2] * 5
    (at_risk,) = (each for each in made.data if each.yaxis == "y2")
    assert list(at_risk.y) == [20, 10, 4, 3, 2]


def test_four_sizes_at_most_are_drawn() -> None:
    sizes = {"s5": 5, "s6": 6, "s7": 7, "over 128": 8, "pooled": 25}
    rows = pl.concat([curve(size, [50] * n) for size, n in sizes.items()])
    assert drawn_sizes(rows) == ["s5", "s6", "s7", "over 128"]
    assert left_out(rows).endswith("Not drawn, since 4 curves are: all sizes (25).")
