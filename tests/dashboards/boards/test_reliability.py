"""The reliability board: its thresholds are those of the claims, by the same rule as on other boards."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dashboards import board_json
from dashboards.boards.fleet import TARGETS, fleet
from dashboards.boards.reliability import reliability
from dashboards.parts import largest_causes
from tests.dashboards.rules import promtool

if TYPE_CHECKING:
    from pathlib import Path

BOARD = reliability(TARGETS)


def test_thresholds_of_reliability_are_the_strictest_claims() -> None:
    panels = {panel["title"]: panel["fieldConfig"]["defaults"] for panel in board_json.panels(BOARD)}
    steps = [(step["value"], step["color"]) for step in panels["MTTF of 1,024 GPUs"]["thresholds"]["steps"]]
    assert steps == [(None, "red"), (0.33 * 86400, "yellow"), (3.66 * 86400, "green")]
    steps = [(step["value"], step["color"]) for step in panels["Time to job restart, median"]["thresholds"]["steps"]]
    assert steps == [(None, "green"), (90.0, "red")]


def test_mttf_has_one_rule_of_colours_on_all_boards() -> None:
    def thresholds(board: dict[str, object]) -> object:
        (panel,) = (each for each in board_json.panels(board) if each["title"] == "MTTF of 1,024 GPUs")
        return panel["fieldConfig"]["defaults"]["thresholds"]

    for targets in (TARGETS, {"mttf": (1.0,)}, {"mttf": (1.0, 2.0, 3.0)}):
        assert thresholds(fleet(targets)) == thresholds(reliability(targets))


def test_causes_are_words_on_boards(tmp_path: Path) -> None:
    lost = {("lost", "out_of_memory"): 3, ("stalled", "node_down"): 2, ("pending_demand", "none"): 1}
    series = {f'x{{category="{category}",cause="{cause}"}}': str(3600 * n) for (category, cause), n in lost.items()}
    named = dict(zip(("lost: out of memory", "stalled: node down", "pending demand"), lost.items(), strict=True))
    expected = [
        {"labels": f'{{category="{category}", cause="{cause}", what="{what}"}}', "value": n}
        for what, ((category, cause), n) in named.items()
    ]
    asked = {"expr": largest_causes("x", 10).expr, "eval_time": "0m", "exp_samples": expected}
    test = {"interval": "1m", "input_series": promtool.inputs(series), "promql_expr_test": [asked]}
    promtool.run(tmp_path, {}, [test])
