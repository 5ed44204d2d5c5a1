"""The list of runs of a large cluster: what is not shown is not made."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import polars as pl
from plotly.utils import PlotlyJSONEncoder  # type: ignore[import-untyped]  # it ships no types

from app.explorer import components
from app.explorer.filters import ClusterState, Situation, View
from app.explorer.pages import runs
from app.window import Window

if TYPE_CHECKING:
    import pytest

NOW = datetime(2026, 11, 1, tzinfo=UTC)
COUNT = components.ROWS_SHOWN + 300


def view(**params: str) -> View:
    window = Window("c", NOW - timedelta(days=1), NOW)
    known = ClusterState("c", window.since, window.until, NOW, 0, ((window.since, window.until),))
    return View(window, known, Situation(("c",), (known,)), params, window)


def rows() -> pl.DataFrame:
    number = pl.int_range(COUNT, eager=True)
    text = {name: pl.Series(["x"] * COUNT) for name in ("name", "user", "account", "partition", "state")}
    counts = dict.fromkeys(("n_gpus", "n_attempts", "allocated", "ettr_low", "ettr_high"), number)
    times = {name: pl.Series([NOW] * COUNT) for name in ("started_at", "ended_at")}
    return pl.DataFrame({"run_id": number.cast(pl.String), **text, **counts, **times})


def test_links_are_made_of_the_rows_shown_only(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    link = View.link

    def counted(self: View, path: str, **params: str) -> str:
        made.append(path)
        return link(self, path, **params)

    monkeypatch.setattr(View, "link", counted)
    page = json.dumps(runs.layout(rows(), view()), cls=PlotlyJSONEncoder)
    assert made.count("/run") == components.ROWS_SHOWN
    assert f"The first {components.ROWS_SHOWN:,} of {COUNT:,} rows." in page
    assert f"{COUNT:,} runs" in page


def test_a_filter_finds_a_run_beyond_the_rows_shown() -> None:
    last = str(COUNT - 1)
    page = json.dumps(runs.layout(rows(), view(q=last)), cls=PlotlyJSONEncoder)
    assert f"id={last}" in page
    assert f"1 of {COUNT:,} runs" in page
