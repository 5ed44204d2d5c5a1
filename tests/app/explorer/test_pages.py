from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from dash.development.base_component import Component

from app import formatting
from app.claims.watched import WatchedClaims
from app.config.settings import Config
from app.errors import UsageError
from app.explorer import create_app
from app.explorer import filters as view
from app.explorer.application import Explorer, page, with_filter
from app.explorer.pages import overview
from app.results import advice, headline_text
from app.results.failures.interruptions import interruption_costs, node_failures
from app.results.headlines import headlines
from app.results.serving.cache import AnswerCache
from app.window import Window
from dashboards import palette
from queries.warehouse import open_reader
from tests.app.compute.test_evidence import log
from tests.app.explorer.conftest import NASTY, fill
from tests.support.command import trackside

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def components(found: object) -> Iterator[Any]:
    """Everything in a layout, depth first."""
    if isinstance(found, list | tuple):
        for each in found:
            yield from components(each)
    elif found is not None:
        yield found
        if isinstance(found, Component):
            yield from components(getattr(found, "children", None))


def words(found: object) -> str:
    """The text of a layout."""
    return " ".join(str(each) for each in components(found) if isinstance(each, str | int | float))


def table(found: object, name: str) -> list[dict[str, Any]]:
    """The rows of a table in a layout."""
    return next(
        each.rowData for each in components(found) if getattr(each, "id", None) == {"type": "grid", "name": name}
    )


@pytest.fixture(scope="module")
def explorer(warehouse: Path) -> Explorer:
    return Explorer(AnswerCache(warehouse), WatchedClaims(None))


@pytest.fixture(scope="module")
def window(warehouse: Path) -> Window:
    with open_reader(warehouse) as reader:
        known = view.situation(reader).computed[0]
    return Window(known.cluster, known.since, known.until)


@pytest.mark.slow
def test_overview_shows_the_numbers_of_headlines(explorer: Explorer, warehouse: Path, window: Window) -> None:
    _, _, contents, title = page(explorer, "/", "")
    with open_reader(warehouse) as reader:
        found = headlines(reader, window)
    assert len(found) >= 7
    cards = {
        each.id["metric"]: words(each) for each in components(contents) if getattr(each, "className", "") == "card"
    }
    for each in found:
        assert each.title in cards[each.metric]
        assert headline_text.headline_value(each) in cards[each.metric]
    assert title == "Overview · tiny · Trackside"


def test_where_the_time_went_adds_up_to_the_whole(explorer: Explorer) -> None:
    _, _, contents, _ = page(explorer, "/", "")
    assert sum(row["share"] for row in table(contents, "account")) == pytest.approx(1.0)


@pytest.mark.slow
def test_the_command_of_the_drawer_prints_the_number_of_the_card(explorer: Explorer, warehouse: Path) -> None:
    shown = explorer.view("?since=7d")
    title, contents = explorer.about("occupancy", shown)
    command = next(each for each in components(contents) if str(each).startswith("trackside show"))
    arguments = str(command).removeprefix("trackside ").removesuffix(" --explain").split()
    printed = trackside(*arguments, "--format", "json", "--warehouse", str(warehouse))
    row = next(row for row in json.loads(printed.stdout) if row["metric"] == "occupancy")
    assert formatting.measured(row["value"], "ratio") in words(contents)
    assert title == "Occupancy"


def test_drawer_holds_definition_sql_constants_and_claims(explorer: Explorer) -> None:
    _, contents = explorer.about("mttf", explorer.view(""))
    output = words(contents)
    assert "exposure of all attempts" in output
    assert "FROM attempts" in output
    assert "run_gap_hours = 24.0" in output
    assert "MTTF of 3.66 days" in output


@pytest.mark.parametrize(
    ("search", "output"),
    [
        ("?cluster=nowhere", "there is no cluster 'nowhere'; there are: tiny"),
        ("?since=2026-10-09&until=2026-10-02", "is not before until"),
        ("?since=soon", "since: 'soon' is not a time"),
        ("?until=%00%ff", "until:"),
        ("?since=1999-01-01&until=1999-02-01", "tiny has no data between"),
        ("?since=99999999999w", "longer than there has been time"),
        ("?by=colour", "costs cannot be split by 'colour'"),
    ],
)
def test_invalid_address_is_reported(explorer: Explorer, search: str, output: str) -> None:
    _, _, contents, _ = page(explorer, "/", search)
    assert output in words(contents)
    assert "message-error" in getattr(contents, "className", "")


def test_unknown_page_is_reported(explorer: Explorer) -> None:
    _, _, contents, title = page(explorer, "/no/such", "")
    assert "This page does not exist" in words(contents)
    assert title.startswith("Not found")


def test_unknown_run_is_reported(explorer: Explorer) -> None:
    assert "tiny has no run and no job '4711'" in words(page(explorer, "/run", "?id=4711")[2])
    assert "the run is missing" in words(page(explorer, "/run", "")[2])


@pytest.mark.slow
def test_a_run_opens_by_the_id_of_any_of_its_jobs(explorer: Explorer) -> None:
    run = max(table(page(explorer, "/runs", "")[2], "runs"), key=lambda row: row["n_attempts"])
    for attempt in table(page(explorer, "/run", f"?id={run['run_id']}")[2], "attempts"):
        contents = page(explorer, "/run", f"?id={attempt['job_id']}")[2]
        assert run["run_id"] in words(contents)


def test_run_outside_the_period_differs_from_an_unknown_run(explorer: Explorer) -> None:
    rows = table(page(explorer, "/runs", "")[2], "runs")
    ended = min((row for row in rows if row["ended_at"]), key=lambda row: row["ended_at"])
    output = words(page(explorer, "/run", f"?id={ended['run_id']}&since=1d")[2])
    assert "has no time in this period" in output


def test_a_job_id_of_several_runs_lists_them_with_links(explorer: Explorer, monkeypatch: pytest.MonkeyPatch) -> None:
    def both(_source: object, _cluster: str, _text: str) -> list[str]:
        return ["7-20261009T000000Z", "7-20261002T000000Z"]

    monkeypatch.setattr("app.explorer.pages.run.resolve_run", both)
    contents = page(explorer, "/run", "?id=7&since=7d")[2]
    assert "2 runs have a job 7" in words(contents)
    links = [each.href for each in components(contents) if hasattr(each, "href")]
    assert links == [f"/run?cluster=tiny&since=7d&id=7-{day}T000000Z" for day in (20261009, 20261002)]


def test_a_run_is_listed_by_job_and_searched_by_whole_id(explorer: Explorer) -> None:
    rows = table(page(explorer, "/runs", "")[2], "runs")
    named = [row for row in rows if row["run_id"].endswith("Z")]
    assert named
    assert {row["run_id__text"] for row in named} == {f"job {row['run_id'].rpartition('-')[0]}" for row in named}
    assert all(row["run_id"] in row["href"] for row in named)


def test_a_claim_judged_in_long_runs_shows_what_it_was_judged_by(explorer: Explorer) -> None:
    shown = explorer.view("")
    found = explorer.answers.ask(overview.gather, shown.window, explorer.claims.now(), shown.requested)
    judged = overview.verdict_on(found.judged, "ettr")
    assert judged is not None
    card = next(
        each
        for each in components(page(explorer, "/", "")[2])
        if getattr(each, "id", None) == {"type": "headline", "metric": "ettr"}
    )
    assert f"judged: {headline_text.judged_value(judged)} in runs of 24 h or more" in words(card)
    marks = [getattr(each, "className", "") for each in components(card)]
    assert "span-target" not in marks
    assert "in runs of 24 h or more" in words(explorer.about("ettr", explorer.view(""))[1])


def test_mttf_is_labelled_as_of_pooled_exposure(explorer: Explorer) -> None:
    for contents in (page(explorer, "/", "")[2], explorer.about("mttf", explorer.view(""))[1]):
        assert "GPU-days / 1,024 GPUs /" in words(contents)


def test_nodes_are_ranked_by_what_their_failures_cost(explorer: Explorer, warehouse: Path, window: Window) -> None:
    contents = page(explorer, "/", "?by=node")[2]
    with open_reader(warehouse) as reader:
        events = interruption_costs(reader, window)
        to_do = advice.drain(node_failures(reader, window))
    blamed = events.filter((pl.col("class") == "infrastructure") & pl.col("node").is_not_null())
    rows = {row["node"]: row for row in table(contents, "costs")}
    assert set(rows) == set(blamed["node"])
    for node, row in rows.items():
        of_node = blamed.filter(pl.col("node") == node)
        reported = of_node["cost_gpu_s"].drop_nulls()
        assert row["interruptions"] == of_node.height
        assert row["unpriced"] == of_node.height - reported.len()
        assert row["gpu_hours"] == (pytest.approx(reported.sum() / 3600) if reported.len() else None)
        assert row["gpu_hours__text"] == headline_text.hours(row["gpu_hours"])
    assert to_do is not None
    assert to_do[0] in words(contents)
    assert to_do[1] in words(contents)


@pytest.mark.slow
def test_node_with_one_or_two_failures_gets_no_drain_advice(explorer: Explorer) -> None:
    contents = page(explorer, "/", "?by=node&since=1d")[2]
    assert all(row["interruptions"] < advice.REPEATED for row in table(contents, "costs"))
    assert "scontrol" not in words(contents)


@pytest.mark.parametrize(("by", "states"), [("cause", ("allocated", "idle", "unavailable")), ("user", ("allocated",))])
def test_definition_of_costs_on_the_page_is_as_counted(explorer: Explorer, by: str, states: tuple[str, ...]) -> None:
    output = words(page(explorer, "/", f"?by={by}")[2])
    found = [swatch.label.lower() for swatch in palette.SWATCHES if swatch.cost and swatch.state in states]
    assert f"could have trained and did not: {'; '.join(found)}." in output


def test_listed_interruption_shows_its_cost_or_none_if_unseen(
    explorer: Explorer, warehouse: Path, window: Window
) -> None:
    rows = table(page(explorer, "/", "?class=all")[2], "costliest")
    with open_reader(warehouse) as reader:
        events = interruption_costs(reader, window)
    assert len(rows) == overview.LISTED < events.height
    assert any(row["cost_gpu_h"] is not None for row in rows)
    expected = set(events.select("run_id", pl.col("cost_gpu_s") / 3600).rows())
    assert {(row["run_id"], row["cost_gpu_h"]) for row in rows} <= expected


def test_interruptions_by_infrastructure_come_first_by_cost(explorer: Explorer) -> None:
    every = table(page(explorer, "/", "?class=all")[2], "costliest")
    infrastructure = [row for row in every if row["why"] == "node fail" or row["why"].startswith("infrastructure")]
    assert 0 < len(infrastructure) < len(every)
    assert every[: len(infrastructure)] == infrastructure
    costs = [row["cost_gpu_h"] for row in infrastructure if row["cost_gpu_h"] is not None]
    assert costs == sorted(costs, reverse=True)
    assert [row["cost_gpu_h"] for row in infrastructure[: len(costs)]] == costs
    alone = table(page(explorer, "/", "")[2], "costliest")
    assert "node fail" in {row["why"] for row in alone}  # the class is that of all
    assert [row["run_id"] for row in alone] == [row["run_id"] for row in infrastructure]


def test_the_order_of_interruptions_is_said_once(explorer: Explorer) -> None:
    alone, every = (words(page(explorer, "/", search)[2]) for search in ("", "?class=all"))
    assert "by infrastructure in this period, the costliest first, then the newest." in alone
    assert "in this period, infrastructure first, then by cost, then the newest." in every
    none = words(page(explorer, "/", "?node=n77")[2])
    assert "Infrastructure interrupted nothing." in none
    assert "then the newest" not in none


def test_no_definition_refers_to_what_readers_do_not_have(explorer: Explorer) -> None:
    output = words(page(explorer, "/definitions", "")[2])
    assert "our definitions" not in output
    assert "Trackside's own definition (manual, The ledger)" in output


@pytest.mark.slow
def test_every_run_of_the_list_can_be_opened(explorer: Explorer) -> None:
    rows = table(page(explorer, "/runs", "")[2], "runs")
    assert rows
    for row in sorted(rows, key=lambda row: -row["n_attempts"])[:5]:
        path, _, search = row["href"].partition("?")
        contents = page(explorer, path, f"?{search}")[2]
        assert row["run_id"] in words(contents)
        assert len(table(contents, "attempts")) == row["n_attempts"]


def test_a_run_page_explains_its_ettr(explorer: Explorer) -> None:
    run = max(table(page(explorer, "/runs", "")[2], "runs"), key=lambda row: row["n_attempts"])
    output = words(page(explorer, "/run", f"?id={run['run_id']}")[2])
    assert f"at least {run['ettr_low__text']}, at most {run['ettr_high__text']}" in output
    assert "first queue" in output
    assert "trackside recorder" in output  # nobody logged, so the page says how


def test_runs_are_narrowed_by_the_address(explorer: Explorer) -> None:
    everything = [row for skip in (0, 200) for row in table(page(explorer, "/runs", f"?skip={skip}")[2], "runs")]
    one = table(page(explorer, "/runs", "?user=user1&state=FAILED")[2], "runs")
    expected = {row["run_id"] for row in everything if row["user"] == "user1" and row["state"] == "FAILED"}
    assert expected
    assert {row["run_id"] for row in one} == expected


@pytest.mark.slow
def test_costs_can_be_split_by_everything_offered(explorer: Explorer) -> None:
    for by in ("cause", "node", "user", "account", "partition", "run"):
        contents = page(explorer, "/", f"?by={by}")[2]
        rows = table(contents, "costs")
        assert rows, by
        hours = [row["gpu_hours"] or 0.0 for row in rows]
        assert hours == sorted(hours, reverse=True)


def test_interruptions_can_be_narrowed_to_a_node(explorer: Explorer) -> None:
    everything = table(page(explorer, "/", "")[2], "costliest")
    node = next(row["node"] for row in everything if row["node"])
    one = table(page(explorer, "/", f"?node={node}")[2], "costliest")
    assert {row["node"] for row in one} == {node}


def test_a_job_name_stays_text(explorer: Explorer) -> None:
    rows = table(page(explorer, "/runs", "?q=onerror")[2], "runs")
    assert [row["name"] for row in rows] == [NASTY]
    contents = page(explorer, "/run", f"?id={rows[0]['run_id']}")[2]
    assert NASTY in words(contents)  # as a text of a component, which React escapes
    figures = [each.figure.to_json() for each in components(contents) if type(each).__name__ == "Graph"]
    assert figures
    assert not any("onerror" in each for each in figures)


def test_definitions_explain_every_metric_and_category(explorer: Explorer) -> None:
    from metrics.catalog import METRICS
    from metrics.categories import CATEGORIES

    contents = page(explorer, "/definitions", "")[2]
    anchors = {getattr(each, "id", None) for each in components(contents) if isinstance(getattr(each, "id", None), str)}
    assert {metric.name for metric in METRICS} <= anchors
    assert set(CATEGORIES) <= anchors


@pytest.mark.slow
def test_empty_warehouse_shows_next_steps_until_data_comes(tmp_path: Path) -> None:
    root = tmp_path / "warehouse"
    explorer = Explorer(AnswerCache(root), WatchedClaims(None))
    for path in ("/", "/runs", "/run"):
        assert "trackside ingest slurm" in words(page(explorer, path, "")[2])
    assert "goodput_allocated" in words(page(explorer, "/definitions", "")[2])
    fill(root, tmp_path / "files")
    assert "Where the GPU-time went" in words(page(explorer, "/", "")[2])


def test_periods_are_restored_from_the_address(explorer: Explorer) -> None:
    shown = explorer.view("")
    for key, (_, params) in view.periods(shown.state).items():
        assert view.period_of(explorer.view(view.address("", params))) == key
    assert view.period_of(explorer.view("?since=3d")) == view.CUSTOM


@pytest.mark.slow
def test_logs_alone_say_what_they_lack_and_what_they_give(tmp_path: Path) -> None:
    (tmp_path / "run.jsonl").write_text(log())
    loaded = trackside("ingest", "runlog", str(tmp_path / "run.jsonl"), "--warehouse", str(tmp_path / "w"))
    assert loaded.returncode == 0, loaded.stderr
    explorer = Explorer(AnswerCache(tmp_path / "w"), WatchedClaims(None))
    assert "Runs by their logs" in words(page(explorer, "/", "")[2])
    output = words(page(explorer, "/nodes", "")[2])
    assert "No accounting is loaded" in output
    assert "trackside ingest slurm" in output
    assert "the runs of logs" in output


def test_filter_of_what_is_shown_anyway_changes_nothing(explorer: Explorer) -> None:
    for search in ("", "?since=7d", "?since=2026-10-03&until=2026-10-05&by=node"):
        shown = explorer.view(search)
        params = view.parameters(search)
        reported = {
            "cluster": shown.window.cluster,
            "period": view.period_of(shown),
            "dates": view.days(shown.window),
            "by": shown.get("by", "cause"),
        }
        for name, value in reported.items():
            assert with_filter(shown, params, name, value) == params, name


def test_filters_go_into_the_address(explorer: Explorer) -> None:
    shown = explorer.view("?since=7d&by=node")
    params = {"since": "7d", "by": "node"}
    assert with_filter(shown, params, "period", "all") == {"by": "node"}
    assert with_filter(shown, params, "by", "cause") == {"since": "7d"}
    assert with_filter(shown, params, "user", "user1") == params | {"user": "user1"}
    assert with_filter(shown, params, "by-people=account", "account") == params
    assert with_filter(shown, params, "by-people=account", "user") == params | {"by-people": "user"}
    assert with_filter(shown, params | {"by-people": "user"}, "by-people=account", "account") == params
    paged = {"skip": "100"}
    assert with_filter(shown, paged, "sort", "gpus") == paged
    assert with_filter(shown, paged, "user", None) == paged
    assert with_filter(shown, paged, "user", "user1") == {"user": "user1"}
    assert with_filter(shown, params, "dates", ["2026-10-03", "2026-10-04"]) == {
        "by": "node",
        "since": "2026-10-03",
        "until": "2026-10-05",
    }
    assert with_filter(shown, params, "dates", ["2026-10-03", None]) == params
    assert with_filter(shown, params, "cluster", "other") == {"cluster": "other"}


def test_loaded_but_not_computed_cluster_differs_from_an_unknown(explorer: Explorer) -> None:
    found = explorer.answers.ask(view.situation)
    both = view.Situation((*found.clusters, "new"), found.computed)
    with pytest.raises(UsageError, match="trackside compute"):
        view.resolve(both, {"cluster": "new"})


@pytest.mark.slow
def test_half_a_period_without_data_is_reported(explorer: Explorer) -> None:
    _, filters, _, _ = page(explorer, "/", "?since=2026-10-08&until=2026-10-22")
    assert "The data cover 50.0 % of the requested period." in words(filters)


def test_headers_keep_strangers_out(warehouse: Path) -> None:
    client = create_app(warehouse, Config()).server.test_client()
    answer = client.get("/")
    policy = answer.headers["Content-Security-Policy"]
    assert "default-src 'self'" in policy
    script = next(part for part in policy.split("; ") if part.startswith("script-src"))
    assert "unsafe" not in script
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["X-Frame-Options"] == "DENY"
    assert answer.headers["Referrer-Policy"] == "same-origin"
    assert "http://" not in answer.text
    assert "https://" not in answer.text
    for path in ("/_favicon.ico", "/assets/favicon.svg"):
        with client.get(path) as icon:
            assert icon.status_code == 200
            assert icon.headers["Content-Type"].startswith("image/")


def test_posts_of_other_sites_run_nothing(warehouse: Path) -> None:
    client = create_app(warehouse, Config()).server.test_client()
    body = '{"output": "content.children", "inputs": [], "changedPropIds": []}'
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):  # what a form can send
        refused = client.post("/_dash-update-component", data=body, content_type=kind)
        assert refused.status_code >= 400, kind
    assert "Access-Control-Allow-Origin" not in client.get("/", headers={"Origin": "http://elsewhere"}).headers


def test_two_explorers_in_one_process_do_not_mix(warehouse: Path, tmp_path: Path) -> None:
    first, second = create_app(warehouse, Config()), create_app(tmp_path / "none", Config())
    assert first.server is not second.server
    assert set(first.callback_map) == set(second.callback_map)


def test_the_first_page_loads_each_script_once(warehouse: Path) -> None:
    answer = create_app(warehouse, Config()).server.test_client().get("/")
    scripts = re.findall(r'<script src="([^"?]*)', answer.get_data(as_text=True))
    assert sorted(scripts) == sorted(set(scripts))
    assert [each for each in scripts if "dash_table" in each] == []
