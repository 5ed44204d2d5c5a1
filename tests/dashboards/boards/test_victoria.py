"""Every board on VictoriaMetrics: the same series as a Prometheus has give the same rows."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

import pytest

from dashboards import board_json
from dashboards.boards.fleet import TARGETS
from dashboards.build import boards
from tests.dashboards import filled, seed
from tests.dashboards.server import Prometheus, need_prometheus
from tests.lab.victoria import VictoriaLab, need_victoria

if TYPE_CHECKING:
    from collections.abc import Iterator

BOARDS: Final = {name: make(TARGETS) for name, make in boards().items()}

CHOSEN: Final = {"window": "7d"}
"""Values of variables that have no value for all."""

Rows = dict[str, float]
"""Values by labels, as JSON."""


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Prometheus, Prometheus]]:
    """A Prometheus with all that boards show, and a VictoriaMetrics with the same samples."""
    need_prometheus()
    need_victoria()
    with filled.filled(tmp_path_factory.mktemp("filled")) as prometheus:
        samples = prometheus.instant('{__name__=~".+"}[70m]')
        with VictoriaLab(history="\n".join(_lines(samples)) + "\n") as victoria:
            yield prometheus, Prometheus(victoria.url)


def _lines(series: list[dict[str, Any]]) -> Iterator[str]:
    for each in series:
        labels = {name: value for name, value in each["metric"].items() if name != "__name__"}
        text = ",".join(f"{name}={json.dumps(value)}" for name, value in labels.items())
        for moment, value in each["values"]:
            yield f"{each['metric']['__name__']}{{{text}}} {value} {moment:.0f}"


def _rows(server: Prometheus, target: dict[str, Any], values: dict[str, str]) -> Rows:
    expr = board_json.interpolated(target["expr"], values)
    at = seed.END_S - 120  # before the end of each series, where both look back alike
    told = server.instant(expr, at=at)
    return {json.dumps(row["metric"], sort_keys=True): float(row["value"][1]) for row in told}


@pytest.mark.xdist_group("prometheus")
@pytest.mark.parametrize("name", BOARDS)
def test_victoria_metrics_gives_the_rows_of_prometheus(both: tuple[Prometheus, Prometheus], name: str) -> None:
    board = BOARDS[name]
    values = {each["name"]: each["allValue"] for each in board["templating"]["list"] if each.get("allValue")} | CHOSEN
    for panel in board_json.panels(board):
        for target in panel["targets"]:
            expected, told = (_rows(server, target, values) for server in both)
            assert sorted(told.values()) == pytest.approx(sorted(expected.values())), target["expr"]
            if not re.search(r"\b(topk|bottomk)\(", target["expr"]):  # of equal values each server takes others
                assert told == pytest.approx(expected), (panel["title"], target["expr"])
