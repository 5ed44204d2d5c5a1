"""Boards of live series: every query has rows on what exporters tell, after the recording rules, by promtool."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import promql_parser
import pytest

from dashboards import lint
from dashboards.boards.job import job
from dashboards.boards.jobs import jobs
from dashboards.boards.node import node
from dashboards.rules.recording import rules_text
from tests.dashboards.rules import exporters, promtool
from tests.dashboards.server import need_prometheus

if TYPE_CHECKING:
    from pathlib import Path

    from dashboards.grafana import Json

BOARDS: Final = {"jobs": jobs({}), "job": job({}), "node": node({})}
CHOSEN: Final = {"cluster": ".*", "partition": ".*", "user": ".*", "job_id": "1", "node": "n[01]"}


@pytest.mark.parametrize("name", BOARDS)
def test_live_board_has_no_mistakes(name: str) -> None:
    assert lint.lint([BOARDS[name]], parse=promql_parser.parse) == []


def _queries(board: Json) -> list[str]:
    return [target["expr"] for panel in lint.panels(board) for target in panel["targets"]]


@pytest.mark.parametrize("name", BOARDS)
def test_every_query_of_a_live_board_returns_rows(name: str, tmp_path: Path) -> None:
    need_prometheus()
    series = dict(each.notation for each in (*exporters.cluster(), *exporters.jobs()))
    expected = [
        {
            "expr": f"clamp_max(count({lint.interpolated(expr, CHOSEN)}), 1)",
            "eval_time": "30m",
            "exp_samples": [{"labels": "{}", "value": 1}],
        }
        for expr in _queries(BOARDS[name])
    ]
    tests = [{"interval": "1m", "input_series": promtool.inputs(series), "promql_expr_test": expected}]
    promtool.run(tmp_path, {"recording.yaml": rules_text()}, tests)
