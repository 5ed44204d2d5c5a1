"""The reliability board: clean by every check, and alive on a real Prometheus."""

from __future__ import annotations

import promql_parser
import pytest

from dashboards import lint
from dashboards.boards.fleet import TARGETS
from dashboards.boards.reliability import reliability
from dashboards.exported_metrics import WINDOWS
from tests.dashboards import seed
from tests.dashboards.server import need_prometheus, serving

BOARD = reliability(TARGETS)
OF_RULES = {"GPUs with an XID"}
"""Panels of recorded series, which the seed does not have."""


def test_reliability_board_has_no_mistakes() -> None:
    assert lint.lint([BOARD], parse=promql_parser.parse) == []


def test_thresholds_of_reliability_are_the_strictest_claims() -> None:
    panels = {panel["title"]: panel["fieldConfig"]["defaults"] for panel in lint.panels(BOARD)}
    steps = [(step["value"], step["color"]) for step in panels["MTTF of 1,024 GPUs"]["thresholds"]["steps"]]
    assert steps == [(None, "red"), (3.66 * 86400, "green")]
    steps = [(step["value"], step["color"]) for step in panels["Time to job restart, median"]["thresholds"]["steps"]]
    assert steps == [(None, "green"), (90.0, "red")]


@pytest.mark.xdist_group("prometheus")
def test_every_query_of_reliability_returns_rows(tmp_path_factory: pytest.TempPathFactory) -> None:
    need_prometheus()
    with serving(seed.history(1), tmp_path_factory.mktemp("reliability")) as server:
        for window in WINDOWS:
            values = {"cluster": "|".join(seed.CLUSTERS), "window": window}
            empty = {
                panel["title"]
                for panel in lint.panels(BOARD)
                for target in panel["targets"]
                if not server.instant(lint.interpolated(target["expr"], values))
            }
            assert empty == OF_RULES
