"""What a person can do about the costliest causes."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import polars as pl
from dash import Dash
from flask import g
from plotly.utils import PlotlyJSONEncoder

from app.access.people import LOCAL, Person, Role
from app.explorer import filters
from app.explorer.filters import ClusterState, Situation
from app.explorer.to_do import costliest
from metrics.categories import COSTLY

END = datetime(2026, 11, 1, tzinfo=UTC)
STATE = ClusterState("c", datetime(2026, 9, 1, tzinfo=UTC), END, END, 0, ())
VIEW = filters.resolve(Situation(("c",), (STATE,), 1), {"since": "2026-10-01"})
SPENT = pl.DataFrame(
    {"category": ["checkpoint", "lost", "stalled", "down"], "cause": [None, "node_fail", "node_fail", None]},
    schema_overrides={"cause": pl.String},
).with_columns(subject=pl.coalesce("cause", "category"), gpu_hours=pl.lit(1.0), share=pl.lit(0.1))


def panel_seen_by(person: Person) -> str:
    with Dash("request").server.test_request_context("/"):
        g.person = person
        return json.dumps(costliest.panel(SPENT, VIEW), cls=PlotlyJSONEncoder)


def test_each_costly_category_has_advice() -> None:
    assert [name for name in COSTLY if costliest.to_do(name, None) is None] == []


def test_what_people_ended_has_no_advice_about_nodes() -> None:
    assert costliest.to_do("lost", "cancelled") is None
    assert costliest.to_do("lost", "ecc") == costliest.to_do("down", None)
    assert costliest.to_do("stalled", "data_stall") != costliest.to_do("stalled", "ecc")


def test_the_first_causes_say_what_to_do_once() -> None:
    shown = panel_seen_by(LOCAL)
    assert "/checkpoints?since=2026-10-01" in shown
    assert shown.count('"Nodes"') == 1
    assert '"node fail, node fail"' not in shown


def test_viewers_are_sent_to_no_closed_page() -> None:
    shown = panel_seen_by(Person("eve", Role.VIEWER))
    assert "/checkpoints" not in shown
    assert "What to do" not in shown
