"""The chart of a run's steps: where somebody zooms in, the points of that part come."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from dash import no_update

from app.explorer import zooming
from app.explorer.charts import figures
from tests.app.explorer.test_correcting import OPERATOR, seen_by
from tests.app.explorer.test_run import explorer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from app.explorer.application import Explorer

__all__ = ["explorer"]

SEARCH = "?id=llama"


@pytest.fixture(autouse=True)
def request_context() -> Iterator[None]:
    """Callbacks say to the audit log what was seen, within a request."""
    with seen_by(OPERATOR):
        yield


def points(made: Any) -> int:
    return sum(len(each.x) for each in made.data if each.name != "loss")


def moments(made: Any) -> list[str]:
    return [str(datetime.fromtimestamp(at / 1000, UTC)) for each in made.data for at in each.x]


def part(low: str, high: str) -> dict[str, str]:
    return {"xaxis.range[0]": low, "xaxis.range[1]": high}


@pytest.mark.slow
def test_a_part_has_more_points_than_it_had_in_the_whole(explorer: Explorer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "POINTS", 40)
    whole = zooming.steps_of(explorer, SEARCH, {"xaxis.autorange": True})
    assert points(whole) < 100
    times = sorted(moments(whole))
    low, high = "2026-09-21 15:20:00", "2026-09-21 15:25:30.1234"
    among_all = sum(low <= at[:26] <= high for at in times)
    zoomed = zooming.steps_of(explorer, SEARCH, part(low, high))
    assert points(zoomed) > among_all
    assert all(low[:16] <= at[:16] <= high[:16] for at in moments(zoomed))
    assert zoomed.layout.uirevision == whole.layout.uirevision  # else the zoom would be undone


@pytest.mark.parametrize(
    "shown",
    [
        {"autosize": True},
        {"yaxis.range[0]": 1, "yaxis.range[1]": 2},
        part("yesterday", "today"),
        part("2001-01-01", "2001-01-02"),
    ],
)
def test_what_is_no_part_of_the_run_changes_nothing(explorer: Explorer, shown: dict[str, Any]) -> None:
    assert zooming.steps_of(explorer, SEARCH, shown) is no_update


def test_a_run_that_is_not_there_changes_nothing(explorer: Explorer) -> None:
    assert zooming.steps_of(explorer, "?id=nobody", {"xaxis.autorange": True}) is no_update
