"""The layer over grafanalib: what it mends, what it refuses, where it puts panels."""

from __future__ import annotations

import json
from typing import Any

import pytest
from grafanalib import core
from jsonschema import Draft7Validator

from dashboards import board_json, grafana
from dashboards.boards import fleet
from dashboards.lint_rules import form


def _board(*panels: Any, **more: Any) -> grafana.Json:
    return grafana.to_modern(core.Dashboard(title="t", uid="trackside-t", panels=grafana.flow(panels), **more))


def _panel(plugin: str = "stat", **more: Any) -> grafana.ModernPanel:
    return grafana.panel(plugin, "a title", "a description", [grafana.instant("up")], size=(6, 4), **more)


def _dashboard_errors(board: object) -> list[str]:
    return [error.message for error in Draft7Validator(form.known("dashboard")).iter_errors(board)]


@pytest.mark.parametrize("plugin", sorted(grafana.OPTIONS))
def test_plugin_defaults_are_complete_by_grafanas_schema(plugin: str) -> None:
    schemas = form.known("panels")[plugin]
    assert list(Draft7Validator(schemas["options"]).iter_errors(grafana.OPTIONS[plugin])) == []
    assert list(Draft7Validator(schemas["custom"]).iter_errors(grafana.CUSTOM[plugin])) == []
    assert _dashboard_errors(_board(_panel(plugin))) == []


def test_schema_refuses_raw_grafanalib_and_accepts_our_output() -> None:
    board = core.Dashboard(title="t", panels=[_panel()])
    raw = json.loads(json.dumps(board, default=lambda each: each.to_json_data()))
    assert len(_dashboard_errors(raw)) >= 5
    assert _dashboard_errors(grafana.to_modern(board)) == []


@pytest.mark.parametrize(
    "panel",
    [core.Graph(title="old"), core.SingleStat(title="old"), core.Statusmap(title="old"), core.Worldmap(title="old")],
)
def test_a_panel_type_that_grafana_has_dropped_is_refused(panel: Any) -> None:
    panel.gridPos = core.GridPos(h=4, w=4, x=0, y=0)
    with pytest.raises(grafana.NotModernError, match="no longer has the panel type"):
        _board(panel)


def test_a_panel_type_without_complete_defaults_is_refused() -> None:
    with pytest.raises(grafana.NotModernError, match="no complete defaults for the panel type 'news'"):
        _board(_panel("news"))


def test_lowest_threshold_is_null_also_if_grafanalib_wrote_text() -> None:
    steps = [core.Threshold("green", 0, 0.0), core.Threshold("red", 1, 80.0)]
    ours = grafana.steps("green", (80.0, "red"))
    for given in (steps, ours):
        (panel,) = _board(_panel(thresholds=given))["panels"]
        assert panel["fieldConfig"]["defaults"]["thresholds"]["steps"] == ours


def test_a_panel_has_thresholds_only_if_it_was_given_some() -> None:
    (panel,) = _board(_panel())["panels"]
    assert "thresholds" not in panel["fieldConfig"]["defaults"]


def test_resolution_is_grafanas_own_and_data_source_a_variable() -> None:
    (panel,) = _board(_panel())["panels"]
    assert "maxDataPoints" not in panel
    assert "intervalFactor" not in panel["targets"][0]
    assert panel["datasource"] == panel["targets"][0]["datasource"] == {"type": "prometheus", "uid": "${datasource}"}


def test_query_is_instant_or_ranged_and_has_its_letter() -> None:
    requested = [grafana.instant("a"), grafana.ranged("b"), grafana.rows("c")]
    (panel,) = _board(grafana.table("t", "d", requested, size=(24, 5)))["panels"]
    reported = [(each["refId"], each["instant"], each["range"], each["format"]) for each in panel["targets"]]
    assert reported == [
        ("A", True, False, "time_series"),
        ("B", False, True, "time_series"),
        ("C", True, False, "table"),
    ]


def test_panels_flow_left_to_right_and_closed_rows_keep_theirs() -> None:
    """A collapsed row keeps its own panels below it."""
    small, wide, inner = _panel(), grafana.time_series("w", "d", [], size=(20, 8)), _panel()
    board = _board(grafana.row("one"), small, wide, grafana.row("two", [inner], collapsed=True))
    flat = [each for outer in board["panels"] for each in (outer, *outer.get("panels", ()))]
    places = [tuple(each["gridPos"][key] for key in "xywh") for each in flat]
    assert places == [(0, 0, 24, 1), (0, 1, 6, 4), (0, 5, 20, 8), (0, 13, 24, 1), (0, 14, 6, 4)]
    assert [each["id"] for each in flat] == [1, 2, 3, 4, 5]


def test_options_are_added_to_the_defaults() -> None:
    (panel,) = _board(_panel(options={"graphMode": "area"}))["panels"]
    assert panel["options"] == grafana.OPTIONS["stat"] | {"graphMode": "area"}


def test_defaults_exist_for_exactly_the_panel_types_in_use() -> None:
    used = {each["type"] for each in board_json.panels(fleet.fleet())}
    assert set(grafana.OPTIONS) == set(grafana.CUSTOM) == used


def test_an_override_without_a_value_takes_the_default_away() -> None:
    assert grafana.override("GPUs", max=None, custom_width=3)["properties"] == [
        {"id": "max"},
        {"id": "custom.width", "value": 3},
    ]


def test_a_board_built_twice_is_the_same_text() -> None:
    assert grafana.as_text(_board(_panel())) == grafana.as_text(_board(_panel()))
    assert grafana.as_text(_board(_panel())).endswith("}\n")
