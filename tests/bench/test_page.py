"""The manual's page about performance is what the results say."""

from __future__ import annotations

from typing import Any

from tests.bench.page import page
from tests.bench.table import row

ABOUT = {"section": "engine", "machine": "2 cores", "versions": {"polars": "1"}, "load": 3.4}


def result(name: str, value: float, goal: float | None, unit: str = "s") -> dict[str, Any]:
    return {**ABOUT, **row(name, value, 2.0, "23 days", goal, unit=unit)}


def test_page_has_a_line_for_each_result() -> None:
    text = page([result("status: 91 days, CPU", 3.0, 2.0), result("start", 5.0, None)])
    assert "## Engine\n\n2 cores; polars 1; load 3.\n" in text
    assert "| status: 91 days, CPU | 3 s | 23 days | 1.50 | 2 | holds |" in text
    assert "| start | 5 s | 23 days | 2.50 |  |  |" in text
    assert "Missed" not in text


def test_page_says_why_a_goal_is_missed() -> None:
    text = page(
        [
            result("compute after a new day: 91 days, CPU", 6.0, 2.0),
            result("compute after a new day: 91 days, memory", 6000.0, 2.0, unit="MiB"),
            result("another: 91 days, CPU", 8.0, 2.0),
        ]
    )
    assert "| 6,000 MiB |" in text
    assert "- compute after a new day: The ledger is made of the changed days only" in text
    assert "- compute after a new day, memory: Frames of all attempts" in text
    assert "- another: The reason is not known yet." in text


def test_sections_follow_one_another() -> None:
    text = page([result("a", 1.0, 1.0), {**result("b", 1.0, 1.0), "section": "year"}])
    assert text.index("## Engine") < text.index("| a |") < text.index("## Year") < text.index("| b |")
