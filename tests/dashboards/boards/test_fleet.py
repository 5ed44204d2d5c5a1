"""The fleet board: clean by every check, the same after Grafana's own models, and alive on a real Prometheus."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import promql_parser
import pytest

from app.claims.file import read_claims
from app.claims.targets import targets_of
from app.config.settings import Rules
from dashboards import board_json
from dashboards.boards import fleet
from dashboards.build import boards, generated
from dashboards.exported_metrics import BY_NAME, FAMILIES, HISTORY, WINDOWS
from dashboards.lint_rules import content
from dashboards.palette import BY_CATEGORY
from dashboards.parts import WINDOWS_OFFERED
from dashboards.promql_names import names
from metrics.categories import CATEGORIES, COSTLY
from tests.dashboards import seed
from tests.dashboards.server import Prometheus, need_prometheus, serving

if TYPE_CHECKING:
    from collections.abc import Iterator

BOARD = fleet.fleet()
PANELS = list(board_json.panels(BOARD))
QUERIES = [(panel["title"], target) for panel in PANELS for target in panel["targets"]]
ROOT = Path(__file__).parents[3]


def test_the_file_that_ships_is_what_the_python_builds() -> None:
    for path, text in generated().items():
        assert (ROOT / path).read_text(encoding="utf-8") == text, f"{path} is not current; run: make fix"


def test_its_thresholds_are_the_targets_of_the_claims_that_ship() -> None:
    assert targets_of(read_claims(None), Rules().flop_convention) == fleet.TARGETS


def test_thresholds_follow_the_targets_and_need_a_claim() -> None:
    other = {panel["title"]: panel for panel in board_json.panels(fleet.fleet({"ettr": (0.9, 0.95)}))}
    assert _steps(other["ETTR"]) == [(None, "red"), (0.9, "yellow"), (0.95, "green")]
    assert "thresholds" not in other["MFU"]["fieldConfig"]["defaults"]


def test_less_is_better_for_the_time_to_restart() -> None:
    (restart,) = (panel for panel in PANELS if panel["title"] == "Time to job restart, median")
    assert _steps(restart) == [(None, "green"), (90.0, "red")]


def _steps(panel: dict[str, Any]) -> list[tuple[float | None, str]]:
    return [(step["value"], step["color"]) for step in panel["fieldConfig"]["defaults"]["thresholds"]["steps"]]


def test_every_category_of_the_ledger_has_the_explorers_colour() -> None:
    overrides = [each for panel in PANELS for each in panel["fieldConfig"]["overrides"]]
    colours = {
        each["matcher"]["options"]: change["value"]["fixedColor"]
        for each in overrides
        for change in each["properties"]
        if change["id"] == "color" and each["matcher"]["options"] in CATEGORIES
    }
    assert colours == {name: BY_CATEGORY[name].colour for name in CATEGORIES}


def test_it_offers_exactly_the_exported_windows() -> None:
    assert sorted(WINDOWS_OFFERED) == sorted(WINDOWS)


def test_help_texts_state_history_and_names_and_labels_are_valid() -> None:
    for family in FAMILIES:
        assert family.help.endswith(HISTORY)
        assert family.name.startswith("trackside_")
        assert not family.name.endswith("_total"), "gauges are no counters"
        assert len(set(family.labels)) == len(family.labels)


def test_all_that_is_exported_is_shown_on_some_board() -> None:
    shown = {
        metric
        for make in boards().values()
        for expr in _exprs(make(fleet.TARGETS))
        for metric, _ in names(expr).matched
    }
    for_rules = {"trackside_job_gpus"}
    assert {family.name for family in FAMILIES} - shown == for_rules


def _exprs(board: dict[str, Any]) -> Iterator[str]:
    for panel in board_json.panels(board):
        yield from (target["expr"] for target in panel["targets"])
    yield from (each["expr"] for each in board["annotations"]["list"])


def test_the_seed_has_only_values_that_are_exported() -> None:
    series = re.findall(r"^(trackside_\w+)\{(.*)\} ", seed.history(0), re.MULTILINE)
    assert series
    for family, labels in series:
        reported = dict(re.findall(r'(\w+)="([^"]*)"', labels))
        for label, known in BY_NAME[family].values.items():
            assert reported[label] in known, (family, labels)


def test_trainable_time_is_shown_category_by_category() -> None:
    (panel,) = (panel for panel in PANELS if panel["title"].startswith("GPU-hours that could have trained"))
    reported = re.findall(r"\w+", panel["description"])
    assert set(reported) & set(CATEGORIES) == set(CATEGORIES) - {"productive"}
    assert f"of the categories {', '.join(COSTLY)}. Unobserved time" in panel["description"]


def test_seed_has_each_exported_family_with_its_exact_labels() -> None:
    seeded = {line.split("{")[0] for line in seed.history(0).splitlines() if not line.startswith("#")}
    assert {family.name for family in FAMILIES} == seeded - content.SERVER_METRICS


@pytest.mark.parametrize(("title", "target"), QUERIES)
def test_what_the_words_of_a_query_name_is_what_a_parser_finds(title: str, target: dict[str, Any]) -> None:
    parsed = promql_parser.parse(board_json.interpolated(target["expr"]))
    assert sorted(names(target["expr"]).matched) == sorted(_selectors(parsed))


def _selectors(node: Any) -> Iterator[tuple[str, frozenset[str]]]:
    """Metrics and matched labels of a syntax tree."""
    if isinstance(node, promql_parser.MatrixSelector):
        node = node.vector_selector
    if isinstance(node, promql_parser.VectorSelector):
        yield str(node.name), frozenset(matcher.name for matcher in node.matchers.matchers)
        return
    for name in ("lhs", "rhs", "expr", "param"):
        inner = getattr(node, name, None)
        if inner is not None:
            yield from _selectors(inner)
    for inner in getattr(node, "args", ()) or ():
        yield from _selectors(inner)


@pytest.fixture(scope="module")
def prometheus() -> Iterator[Prometheus]:
    """A server with two hours of two clusters."""
    need_prometheus()
    with tempfile.TemporaryDirectory() as folder, serving(seed.history(2), Path(folder)) as server:
        yield server


@pytest.mark.xdist_group("prometheus")
def test_cluster_without_run_logs_shows_bounds_and_no_value(prometheus: Prometheus) -> None:
    values = {"cluster": "beta", "window": "7d"}
    at = next(number for number, panel in enumerate(PANELS) if panel["title"] == "Goodput (of allocated)")
    number, ends = PANELS[at : at + 2]
    assert [_rows(prometheus, target, values) for target in number["targets"]] == [[]]
    assert [len(_rows(prometheus, target, values)) for target in ends["targets"]] == [1, 1]


@pytest.mark.xdist_group("prometheus")
def test_the_cluster_variable_offers_the_clusters(prometheus: Prometheus) -> None:
    assert prometheus.label_values("trackside_data_end_timestamp_seconds", "cluster") == ["alpha", "beta"]


@pytest.mark.xdist_group("prometheus")
def test_where_gpu_time_went_sums_to_the_chosen_capacity(prometheus: Prometheus) -> None:
    (panel,) = (panel for panel in PANELS if panel["title"] == "Where GPU-time went")
    values = {"cluster": "|".join(seed.CLUSTERS), "window": "7d"}
    rows = [row for target in panel["targets"] for row in _rows(prometheus, target, values)]
    assert {row["metric"]["category"] for row in rows} == set(CATEGORIES)
    assert len(rows) == len(CATEGORIES), "a category in two queries would count twice"
    hours = sum(float(row["values"][-1][1]) for row in rows)
    assert hours == pytest.approx(sum(seed.CLUSTERS.values()) * 7 * 24)


@pytest.mark.xdist_group("prometheus")
def test_causes_come_with_the_largest_first(prometheus: Prometheus) -> None:
    (panel,) = (panel for panel in PANELS if panel["title"].startswith("GPU-hours that could"))
    rows = _rows(prometheus, panel["targets"][0], {"cluster": "|".join(seed.CLUSTERS), "window": "7d"})
    hours = [float(row["value"][1]) for row in rows]
    assert len(hours) > 3
    assert hours == sorted(hours, reverse=True)


@pytest.mark.xdist_group("prometheus")
def test_two_tracksides_with_the_same_cluster_count_once(prometheus: Prometheus) -> None:
    twice = 'label_replace(trackside_gpus, "instance", "other", "", "") or trackside_gpus'
    assert len(prometheus.instant(twice)) == 2 * len(prometheus.instant("trackside_gpus"))
    (panel,) = (panel for panel in PANELS if panel["title"] == "GPUs by state")
    expr = board_json.interpolated(panel["targets"][0]["expr"], {"cluster": "alpha"})
    selector = 'trackside_gpus{cluster=~"alpha"}'
    assert selector in expr
    doubled = expr.replace(selector, f"({twice.replace('trackside_gpus', selector)})")
    assert prometheus.instant(doubled) == prometheus.instant(expr)


def _rows(server: Prometheus, target: dict[str, Any], values: dict[str, str]) -> list[dict[str, Any]]:
    expr = board_json.interpolated(target["expr"], values)
    return server.instant(expr) if target["instant"] else server.ranged(expr, hours=1, step_s=seed.STEP_S)
