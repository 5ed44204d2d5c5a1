"""Each rule finds the mistake that it is for; nothing that is read as JSON makes the checks stumble."""

from __future__ import annotations

import copy
import json
import re
from typing import TYPE_CHECKING, Any

import promql_parser
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dashboards import board_json, lint
from dashboards.boards import fleet
from dashboards.promql_names import names

if TYPE_CHECKING:
    from collections.abc import Callable

    from dashboards.grafana import Json


def _without_links(board: Json) -> Json:
    """The board without its links to others, which are not checked with it."""
    return json.loads(re.sub(r"/d/trackside-\w+", "", json.dumps(board)))  # type: ignore[no-any-return]  # a board


GOOD = _without_links(fleet.fleet())


def _at(board: Json, title: str) -> Json:
    result: Json = next(each for each in board_json.panels(board) if each["title"] == title)
    return result


def _goodput(board: Json) -> Json:
    return _at(board, "Goodput (of allocated)")


def _variable(board: Json, name: str) -> Json:
    result: Json = next(each for each in board["templating"]["list"] if each["name"] == name)
    return result


def _expr(text: str) -> Callable[[Json], object]:
    return lambda board: _goodput(board)["targets"][0].update(expr=text)


def _default(**values: object) -> Callable[[Json], object]:
    return lambda board: _goodput(board)["fieldConfig"]["defaults"].update(values)


def _of_panel(**values: object) -> Callable[[Json], object]:
    return lambda board: _goodput(board).update(values)


def _of_target(**values: object) -> Callable[[Json], object]:
    return lambda board: _goodput(board)["targets"][0].update(values)


def _of_board(**values: object) -> Callable[[Json], object]:
    return lambda board: board.update(values)


def _of_variable(name: str, **values: object) -> Callable[[Json], object]:
    return lambda board: _variable(board, name).update(values)


def _of_place(**values: int) -> Callable[[Json], object]:
    return lambda board: _goodput(board)["gridPos"].update(values)


def _without(name: str) -> Callable[[Json], object]:
    return lambda board: board["templating"]["list"].remove(_variable(board, name))


def _steps(*values: float | None) -> Json:
    return {"mode": "absolute", "steps": [{"color": "red", "value": value} for value in values]}


def _unit(name: str) -> Json:
    return {"matcher": {"id": "byName", "options": "x"}, "properties": [{"id": "unit", "value": name}]}


def _again(targets: list[Json]) -> None:
    targets.append(targets[0])


IN_CLUSTER = 'trackside_goodput_ratio{cluster=~"$cluster"'
BROKEN: list[tuple[str, str, Callable[[Json], object]]] = [
    ("shape", "this is no dashboard", _of_board(panels="none")),
    ("shape", "this is no dashboard", _of_board(templating=None)),
    ("shape", "without gridPos", lambda board: _goodput(board).pop("gridPos")),
    ("strict_schema", "'sharedCrosshair' was unexpected", _of_board(sharedCrosshair=True)),
    ("strict_schema", "'wide' was unexpected", lambda board: _goodput(board)["options"].update(wide=1)),
    ("strict_schema", "'colorMode' is a required property", lambda board: _goodput(board)["options"].pop("colorMode")),
    ("strict_schema", "no schema for the panel type 'news'", _of_panel(type="news")),
    ("strict_schema", "was unexpected", lambda board: _goodput(board)["fieldConfig"]["defaults"]["custom"].update(a=1)),
    ("identity", "is not trackside-<board>", _of_board(uid="fleet")),
    ("identity", "belong to a server", _of_board(id=7)),
    ("identity", "editable", _of_board(editable=True)),
    ("identity", "schemaVersion is 12", _of_board(schemaVersion=12)),
    ("identity", "tag trackside is missing", _of_board(tags=["gpu"])),
    ("identity", "3 panels", lambda board: board.update(panels=board["panels"][:4])),
    ("unique_ids", "is missing or taken", _of_panel(id=3)),
    ("grid", "outside the 24 columns", _of_place(x=21)),
    ("grid", "outside the 24 columns", _of_place(h=0)),
    ("grid", "overlaps", _of_place(w=9)),
    ("living_panels", "'singlestat' is gone", _of_panel(type="singlestat")),
    ("complete_display", "has no title", _of_panel(title="")),
    ("complete_display", "has no description", _of_panel(description="")),
    ("complete_display", "has no unit", _default(unit=None)),
    ("complete_display", "has no decimals", _default(decimals=None)),
    ("complete_display", "has no min", _default(min=None)),
    ("complete_display", "has no max", _default(max=None)),
    ("complete_display", "has no noValue", _default(noValue=None)),
    ("valid_ids", "no unit 'mhz'", _default(unit="mhz")),
    ("valid_ids", "no unit 'gpus'", lambda board: _goodput(board)["fieldConfig"].update(overrides=[_unit("gpus")])),
    ("valid_ids", "no transformation 'organise'", _of_panel(transformations=[{"id": "organise", "options": {}}])),
    ("thresholds", "do not begin at null", _default(thresholds=_steps(1.0))),
    ("thresholds", "and rise", _default(thresholds=_steps(None, 2.0, 1.0))),
    ("data_source", "needs one variable of type datasource", _of_variable("datasource", label="datasource")),
    ("data_source", "needs one variable of type datasource", _without("datasource")),
    ("data_source", "not the variable's", _of_panel(datasource={"type": "prometheus", "uid": "abc"})),
    ("data_source", "not the variable's", _of_target(datasource="${datasource}")),
    ("data_source", "not the variable's", _of_variable("cluster", datasource=None)),
    ("targets", "no query", _of_panel(targets=[])),
    ("targets", "are called ['A', 'A']", lambda board: _again(_goodput(board)["targets"])),
    ("targets", "is not either instant or over a range", _of_target(instant=True)),
    ("targets", "a table of every moment", _of_target(format="table", instant=False, range=True)),
    ("variables", "$cluster is not defined", _without("cluster")),
    ("variables", "$explorer_url is not defined", _without("explorer_url")),
    ("variables", "$node is not defined", _expr(IN_CLUSTER + ', window="$node"}')),
    ("variables", "$spare is used nowhere", lambda board: board["templating"]["list"].append({"name": "spare"})),
    ("variables", "match it with =~", _expr('trackside_goodput_ratio{cluster="$cluster"}')),
    ("variables", "does not refresh", _of_variable("cluster", refresh=1)),
    ("variables", "without an allValue", _of_variable("cluster", allValue="")),
    ("exported_metrics", "trackside_good is not exported", _expr("trackside_good")),
    ("exported_metrics", "DCGM_FI_DEV_GPU_UTIL is not exported", _expr('avg(DCGM_FI_DEV_GPU_UTIL{gpu="0"})')),
    ("exported_metrics", "has no label 'node'", _expr(IN_CLUSTER + ', node="n1"}')),
    ("exported_metrics", "has the label 'partition'", _expr("sum by (partition) (trackside_goodput_ratio)")),
    ("exported_metrics", "has the label 'user'", _of_target(legendFormat="{{user}}")),
    ("exported_metrics", "is not label_values(metric, label)", _of_variable("cluster", query="clusters()")),
    ("exported_metrics", "has the label 'node'", _of_variable("cluster", query="label_values(trackside_gpus, node)")),
    ("exported_values", "never has of='allocatd'; it has: allocated, capacity", _expr(IN_CLUSTER + ', of="allocatd"}')),
    ("exported_values", "never has state='down'", _expr('trackside_gpus{state="idle"} - trackside_gpus{state="down"}')),
    ("rates", "of a gauge has no meaning", _expr("rate(trackside_gpu_seconds[$__rate_interval])")),
    ("rates", "use $__rate_interval", _expr("increase(scrape_samples_scraped[5m])")),
    ("no_hosts", "names a host", _of_panel(description="see http://grafana.corp/d/x")),
    ("no_hosts", "names a host", _of_panel(links=[{"url": "//10.0.0.7/run"}])),
    ("promql_grammar", "does not parse", _expr("sum by (cluster) (trackside_gpus")),
    ("links", "no board has the uid 'trackside-node'", _of_panel(links=[{"url": "/d/trackside-node?var-a=1"}])),
]


@pytest.mark.slow
@pytest.mark.parametrize(("rule", "output", "spoil"), BROKEN)
def test_each_rule_finds_its_mistake(rule: str, output: str, spoil: Callable[[Json], object]) -> None:
    board = copy.deepcopy(GOOD)
    spoil(board)
    result = [each for each in lint.lint([board], parse=promql_parser.parse) if each.rule == rule]
    assert any(output in str(each) for each in result), [str(each) for each in result]


def test_every_rule_has_a_test_that_it_finds_something() -> None:
    of_sql = {"bound_sql"}  # tests/dashboards/sql
    assert {rule for rule, _, _ in BROKEN} | of_sql == {*lint.RULES, "shape", "promql_grammar", "links"}


def test_two_boards_with_one_uid_are_a_mistake() -> None:
    assert [each.rule for each in lint.lint([GOOD, GOOD])] == ["unique_uids"]


def test_a_link_between_existing_boards_is_no_fault() -> None:
    one, other = copy.deepcopy(GOOD), copy.deepcopy(GOOD)
    other["uid"] = "trackside-other"
    _goodput(one)["links"] = [{"url": "/d/trackside-other"}]
    assert not [each for each in lint.lint([one, other]) if each.rule == "links"]


def test_grafanas_own_variables_are_no_variables_of_the_board() -> None:
    board = copy.deepcopy(GOOD)
    _expr("sum(increase(scrape_samples_scraped[$__rate_interval])) / $__range_s")(board)
    _of_target(legendFormat="all")(board)
    assert lint.lint([board], parse=promql_parser.parse) == []


def test_labels_that_functions_make_are_known() -> None:
    board = copy.deepcopy(GOOD)
    joined = "label_join(sum by (state) (trackside_gpus), 'what', ': ', 'state')"
    _expr(f'topk(3, label_replace(({joined}), "short", \'$1\', "what", "(.*): none"))')(board)
    _of_target(legendFormat="{{what}} {{short}}")(board)
    assert lint.lint([board], parse=promql_parser.parse) == []
    _of_target(legendFormat="{{state}} {{(.*)}} {{none}}")(board)
    (finding,) = lint.lint([board])
    assert "none of its metrics has the label 'none'" in str(finding)


@pytest.mark.parametrize(
    ("expr", "matched", "grouped"),
    [
        ("trackside_gpus", {"trackside_gpus": set()}, set()),
        ('a{x="{b}", y!~"c"} / on (job) group_left (v) b', {"a": {"x", "y"}, "b": set()}, {"job", "v"}),
        ("sum(a) by (x) > bool 1e3", {"a": set()}, {"x"}),
        ("sum by (x) (rate(a[5m] offset 1h))", {"a": set()}, {"x"}),
        ("topk without (x) (3, a) or b unless inf", {"a": set(), "b": set()}, {"x"}),
        ("last_over_time(a[1d:5m]) and on () b", {"a": set(), "b": set()}, set()),
        ('{x="1"}', {"": {"x"}}, set()),
    ],
)
def test_words_of_a_query_are_classified(expr: str, matched: dict[str, set[str]], grouped: set[str]) -> None:
    result = names(expr)
    assert {name: set(labels) for name, labels in result.matched} == matched
    assert result.grouped == grouped


@pytest.mark.parametrize(("step_s", "scrape_s", "rate"), [(15, 15, "60s"), (300, 60, "360s"), (60, 60, "240s")])
def test_the_rate_interval_is_grafanas(step_s: int, scrape_s: int, rate: str) -> None:
    text = board_json.interpolated("rate(a[$__rate_interval])", step_s=step_s, scrape_s=scrape_s)
    assert text == f"rate(a[{rate}])"


def test_variables_are_filled_in_however_they_are_written() -> None:
    text = board_json.interpolated("$cluster ${cluster:regex} [[cluster]] $other", {"cluster": "a|b"})
    assert text == "a|b a|b a|b 1"


JSON = st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=5), lambda inner: (
    st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
), max_leaves=5)  # fmt: skip


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(data=st.data(), value=JSON)
def test_any_board_json_gives_findings_and_never_a_crash(data: st.DataObject, value: object) -> None:
    board = copy.deepcopy(GOOD)
    at: Any = board
    for _ in range(data.draw(st.integers(0, 6))):
        keys = list(at.keys()) if isinstance(at, dict) else list(range(len(at)))
        inner = [key for key in keys if isinstance(at[key], dict | list) and at[key]]
        if not inner:
            break
        at = at[data.draw(st.sampled_from(inner))]
    at[data.draw(st.sampled_from(list(at.keys()) if isinstance(at, dict) else list(range(len(at)))))] = value
    for each in lint.lint([board], parse=promql_parser.parse):
        assert each.message
