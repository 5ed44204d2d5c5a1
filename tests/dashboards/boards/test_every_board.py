"""Every board of the folder: clean by every check, the same after Grafana's own models, alive on a real Prometheus."""

from __future__ import annotations

import json
import re
import warnings
from datetime import datetime
from itertools import product
from typing import TYPE_CHECKING, Any, Final

import promql_parser
import pytest
import yaml
from grafana_foundation_sdk.cog.encoder import JSONEncoder

from dashboards import board_json, lint
from dashboards.annotations import OF_PROMETHEUS
from dashboards.boards.fleet import TARGETS
from dashboards.build import boards
from dashboards.exported_metrics import BY_NAME, WINDOWS
from dashboards.parts import exported
from dashboards.rules.alerts import alerts_text
from dashboards.rules.recording import rules_text
from tests.dashboards import filled, seed
from tests.dashboards.rules import exporters
from tests.dashboards.server import Prometheus, need_prometheus

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dashboards.grafana import Json

BOARDS: Final = {name: make(TARGETS) for name, make in boards().items()}

NODES: Final = ("n[01]", "n[23]")
"""Nodes by generation of dcgm-exporter: with `Hostname`, and with `hostname`."""

NOT_TOLD: Final = {
    "sunk": {"Scheduling cycles", "Backfill cycles", "Queues of the schedulers", "Messages that wait", "Partitions"}
    | {"Last scheduling cycle"},
    "slinky": {"Partitions", "RPCs, by type", "Mean time of an RPC, by type"},
    "native": {"Partitions", "RPCs, by type", "Mean time of an RPC, by type"},
}
"""Panels of the board of Slurm with a query that a family of exporters has no series for; the panel says so."""


def test_all_boards_together_have_no_mistakes() -> None:
    assert lint.lint(list(BOARDS.values()), parse=promql_parser.parse) == []


@pytest.mark.parametrize("name", BOARDS)
def test_grafanas_own_models_lose_nothing_of_a_board(name: str) -> None:
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):  # it would rather we wrote v2
        from grafana_foundation_sdk.models.dashboard import Dashboard

    board = BOARDS[name]
    again = json.loads(JSONEncoder(sort_keys=True, indent=2).encode(Dashboard.from_json(board)))
    lost = sorted(set(_leaves(board)) - set(_leaves(again)))
    assert [each for each in lost if not _of_prometheus(each)] == []


def _of_prometheus(leaf: str) -> bool:
    """Whether a leaf is one that only the Prometheus data source knows of an annotation."""
    return bool(re.match(rf"\.annotations\.list\[\d+\]\.({'|'.join(OF_PROMETHEUS)})\b", leaf))


def _leaves(value: object, path: str = "") -> Iterator[str]:
    if isinstance(value, dict):
        yield path
        for key, inner in value.items():
            yield from _leaves(inner, f"{path}.{key}")
    elif isinstance(value, list):
        yield path
        for number, inner in enumerate(value):
            yield from _leaves(inner, f"{path}[{number}]")
    else:
        yield f"{path} = {float(value) if isinstance(value, int) else value!r}"


@pytest.mark.parametrize("name", BOARDS)
def test_titles_of_a_board_differ(name: str) -> None:
    titles = [panel["title"] for panel in board_json.panels(BOARDS[name]) if panel["gridPos"]["w"] > 2]
    assert len(titles) == len(set(titles))


@pytest.mark.parametrize("name", BOARDS)
def test_a_stat_shows_one_number_in_one_colour(name: str) -> None:
    for panel in board_json.panels(BOARDS[name]):
        if panel["type"] != "stat" or panel["gridPos"]["w"] <= 2:
            continue
        assert len(panel["targets"]) == 1, panel["title"]
        defaults = panel["fieldConfig"]["defaults"]
        assert defaults["color"]["mode"] == "fixed" or defaults["thresholds"]["steps"], panel["title"]


@pytest.mark.parametrize("name", BOARDS)
def test_every_board_marks_events_and_leads_on(name: str) -> None:
    board = BOARDS[name]
    assert [each["name"] for each in board["annotations"]["list"]] == [
        "Incidents",
        "Interruptions",
        "Drains",
        "Verdicts",
    ]
    explorer = next(each for each in board["links"] if each["title"] == "Explorer")
    assert "${__from:date:iso}" in explorer["url"]


OF_A_CLUSTER: Final = {"account", "block", "device", "gpu", "job_id", "namespace", "node", "partition", "run", "user"}
"""Labels whose values two clusters may have both."""


@pytest.mark.parametrize("name", BOARDS)
def test_equal_names_on_two_clusters_are_never_joined(name: str) -> None:
    for panel in board_json.panels(BOARDS[name]):
        for target in panel["targets"]:
            for by in re.findall(r"\b(?:by|on) ?\(([^()]*)\)", target["expr"]):
                labels = {each.strip() for each in by.split(",")}
                assert not labels & OF_A_CLUSTER or "cluster" in labels, (panel["title"], by)
            shown = set(re.findall(r"{{(\w+)}}", target.get("legendFormat", "")))
            assert not shown & OF_A_CLUSTER or "cluster" in shown, (panel["title"], shown)


def test_equal_names_on_two_clusters_are_never_joined_by_a_rule() -> None:
    for rule in yaml.safe_load(rules_text())["groups"] + yaml.safe_load(alerts_text(TARGETS))["groups"]:
        for each in rule["rules"]:
            for by in re.findall(r"\b(?:by|on) ?\(([^()]*)\)", each["expr"]):
                labels = {label.strip() for label in by.split(",")}
                assert not labels & OF_A_CLUSTER or "cluster" in labels, each


@pytest.mark.parametrize("name", BOARDS)
def test_lines_of_a_panel_are_the_same_at_each_moment(name: str) -> None:
    """`topk` over a range picks others at each moment, and a panel of five then has dozens of broken lines."""
    for panel in board_json.panels(BOARDS[name]):
        for target in panel["targets"]:
            for chosen in re.findall(r"(?:topk|bottomk)\(\d+, (\w+)", target["expr"]) if target.get("range") else ():
                assert chosen in {"max_over_time", "min_over_time"}, panel["title"]
                assert "[$__range:$__interval] @ end()" in target["expr"], panel["title"]


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """A server with what Trackside and exporters export, and the recording rules' series."""
    need_prometheus()
    with filled.filled(tmp_path_factory.mktemp("filled")) as server:
        yield server


def _empty(server: Prometheus, board: Json, values: dict[str, str]) -> set[str]:
    """Panels and annotations with a query that returns nothing."""
    all_values = {each["name"]: each["allValue"] for each in board["templating"]["list"] if each.get("allValue")}
    queries = [(panel["title"], target) for panel in board_json.panels(board) for target in panel["targets"]]
    queries += [(each["name"], each) for each in board["annotations"]["list"] if each["name"] != "Verdicts"]
    return {title for title, target in queries if not _rows(server, target, all_values | values)}


def _rows(server: Prometheus, target: dict[str, Any], values: dict[str, str]) -> list[dict[str, Any]]:
    expr = board_json.interpolated(target["expr"], values)
    return server.ranged(expr, hours=0.25, step_s=60) if target.get("range") else server.instant(expr)


@pytest.mark.xdist_group("prometheus")
@pytest.mark.parametrize("name", [name for name in BOARDS if name != "slurm"])
def test_every_query_of_a_board_returns_rows(prometheus: Prometheus, name: str) -> None:
    board = BOARDS[name]
    own = {each["name"] for each in board["templating"]["list"]}
    choices = product(WINDOWS if "window" in own else ("7d",), NODES if "node" in own else (".*",))
    for window, nodes in choices:
        assert _empty(prometheus, board, {"window": window, "node": nodes}) == set(), (window, nodes)


@pytest.mark.xdist_group("prometheus")
@pytest.mark.parametrize("name", BOARDS)
def test_rows_of_a_table_have_no_name_that_keeps_them_apart(prometheus: Prometheus, name: str) -> None:
    """Tables of several queries are joined where all columns are equal, the name of a bare series among them."""
    every = {each["name"]: each["allValue"] for each in BOARDS[name]["templating"]["list"] if each.get("allValue")}
    for panel in board_json.panels(BOARDS[name]):
        if panel["type"] == "table" and len(panel["targets"]) > 1:
            rows = [row for target in panel["targets"] for row in _rows(prometheus, target, every | {"window": "7d"})]
            assert not [row["metric"] for row in rows if "__name__" in row["metric"]], panel["title"]


@pytest.mark.xdist_group("prometheus")
@pytest.mark.parametrize("family", exporters.SLURM)
def test_slurms_board_has_rows_with_each_family(prometheus: Prometheus, family: str) -> None:
    """Events are Trackside's own, of other clusters."""
    events = {"Incidents", "Interruptions", "Drains"}
    assert _empty(prometheus, BOARDS["slurm"], {"cluster": family}) - events == NOT_TOLD[family]
    for panel in board_json.panels(BOARDS["slurm"]):
        if panel["title"] in NOT_TOLD[family]:
            text = f"{panel['description']} {panel['fieldConfig']['defaults']['noValue']}"
            assert "not" in text or "no " in text, "says that it may be empty"


@pytest.mark.xdist_group("prometheus")
def test_slurm_families_give_one_number(prometheus: Prometheus) -> None:
    told = {
        family: {
            (state, what): value
            for what in ("nodes", "jobs")
            for row in prometheus.instant(f'trackside:slurm:{what}{{cluster="{family}",state!=""}}')
            for state, value in [(row["metric"]["state"], float(row["value"][1]))]
            if state in {"allocated", "idle", "mixed", "drained", "running", "pending"}
        }
        for family in exporters.SLURM
    }
    assert told["sunk"] == told["slinky"] == told["native"]
    assert len(told["native"]) == 6
    cycle = {
        row["metric"]["cluster"]: float(row["value"][1])
        for row in prometheus.instant("trackside:slurm:backfill_cycle_last_s")
    }
    assert cycle == pytest.approx(dict.fromkeys(exporters.SLURM, 2.5))


@pytest.mark.xdist_group("prometheus")
@pytest.mark.parametrize("name", BOARDS)
def test_every_variable_of_a_board_offers_values(prometheus: Prometheus, name: str) -> None:
    board = BOARDS[name]
    values = {each["name"]: each["allValue"] for each in board["templating"]["list"] if each.get("allValue")}
    for each in board["templating"]["list"]:
        if each["type"] == "query":
            match = re.fullmatch(r"label_values\((.+),\s*(\w+)\)", each["query"])
            assert match
            assert prometheus.label_values(board_json.interpolated(match[1], values), match[2]), each["name"]


@pytest.mark.xdist_group("prometheus")
def test_each_claim_is_counted_with_one_verdict(prometheus: Prometheus) -> None:
    panels = {panel["title"]: panel["targets"][0] for panel in board_json.panels(BOARDS["sla"])}
    counted = {
        word: [float(row["values"][-1][1]) for row in _rows(prometheus, panels[f"Claims {word}"], EACH)]
        for word in ("supported", "undetermined", "refuted")
    }
    assert counted == {"supported": [1.0], "undetermined": [1.0], "refuted": [4.0]}


@pytest.mark.xdist_group("prometheus")
@pytest.mark.parametrize(
    ("moment", "share"),
    [("2026-11-01T00:00:00", 1.0), ("2026-10-16T12:00:00", 0.5), ("2026-10-01T00:01:00", 1 / (31 * 24 * 60))],
)
def test_data_that_end_with_a_month_cover_it(prometheus: Prometheus, moment: str, share: float) -> None:
    (panel,) = (each for each in board_json.panels(BOARDS["sla"]) if each["title"] == "Month that is over")
    end_s = datetime.fromisoformat(f"{moment}+00:00").timestamp()
    expr = panel["targets"][0]["expr"].replace(exported("data_end_timestamp_seconds"), f"vector({end_s})")
    ((_, value),) = (row["value"] for row in prometheus.instant(expr))
    assert float(value) == pytest.approx(share)


EACH: Final = {"cluster": "alpha", "claim": ".*"}


@pytest.mark.xdist_group("prometheus")
def test_events_are_marked_when_they_happened(prometheus: Prometheus) -> None:
    (incidents,) = (each for each in BOARDS["fleet"]["annotations"]["list"] if each["name"] == "Incidents")
    rows = _rows(prometheus, incidents, {"cluster": "alpha"})
    assert [float(row["value"][1]) for row in rows] == [1000.0 * (seed.END_S - 1500)]


def test_a_verdict_that_changed_is_marked_and_no_other() -> None:
    (verdicts,) = (each for each in BOARDS["fleet"]["annotations"]["list"] if each["name"] == "Verdicts")
    assert "changes(" in verdicts["expr"]
    assert "== 1" in verdicts["expr"], "Grafana marks values of 1 alone"
    assert BY_NAME["trackside_verdict"].values["window"] == WINDOWS
