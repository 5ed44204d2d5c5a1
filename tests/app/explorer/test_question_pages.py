"""Every page: with data, without, with a damaged warehouse; drawers, filters, links. In a browser: `test_axe`."""

from __future__ import annotations

import shutil
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import polars as pl
import pytest

from app import formatting
from app.claims.watched import WatchedClaims
from app.explorer import answer_table, questions, shell
from app.explorer.application import Explorer, page
from app.explorer.drawers import answer_drawer
from app.explorer.page import pages
from app.explorer.pages.compare import _lost
from app.explorer.pages.verdicts import _number_link
from app.explorer.questions import QuestionSpec, _linked
from app.results.runs.joins import JOINED_BY
from app.results.serving.cache import AnswerCache
from app.show.answer import Answer
from app.show.questions.runs.checkpoints import NONE_SAVED, SAVED
from dashboards import palette
from metrics.categories import COSTLY
from queries.directory import copies
from queries.warehouse import Reader
from tests.app.explorer.test_pages import components, table, words
from tests.app.explorer.test_today import END, VIEW

if TYPE_CHECKING:
    from pathlib import Path

    from app.explorer.one_run.data import RunPage
    from tests.app.explorer.conftest import Site
    from tests.lab.browser import Browser

PARAMETERS = {"/node": "?node=n1", "/jobs": "?user=user1", "/run": "?id=1"}
"""What a page needs in its address."""

FILTERED = sorted(path for path, each in pages().items() if "user" in each.narrowed_by and path != "/jobs")
"""Pages that can be narrowed to a user; the page of a user has no other."""

OF_SECTIONS = sorted(path for path, each in pages().items() if each.sections is not None)


@pytest.fixture(scope="module")
def explorer(warehouse: Path) -> Explorer:
    return Explorer(AnswerCache(warehouse), WatchedClaims(None), sql=True)


@pytest.mark.slow
@pytest.mark.parametrize("path", OF_SECTIONS)
def test_each_page_shows_all_its_sections(explorer: Explorer, path: str) -> None:
    contents = page(explorer, path, PARAMETERS.get(path, ""))[2]
    output = words(contents)
    assert "fault of Trackside" not in output
    assert "Loading" not in output
    assert [each for each in components(contents) if getattr(each, "className", "").startswith("section span-")] or (
        path == "/compare"
    )


@pytest.mark.parametrize("path", OF_SECTIONS)
def test_each_page_of_an_empty_warehouse_says_how_to_begin(tmp_path: Path, path: str) -> None:
    empty = Explorer(AnswerCache(tmp_path / "none"), WatchedClaims(None))
    assert "trackside ingest slurm" in words(page(empty, path, PARAMETERS.get(path, ""))[2])


@pytest.fixture(scope="module")
def broken(warehouse: Path, tmp_path_factory: pytest.TempPathFactory) -> Explorer:
    root = tmp_path_factory.mktemp("broken") / "warehouse"
    shutil.copytree(warehouse, root)
    for copy in copies(root):
        copy.chmod(0o600)
        copy.write_bytes(copy.read_bytes()[:5000])
    return Explorer(AnswerCache(root), WatchedClaims(None))


@pytest.mark.parametrize("path", OF_SECTIONS)
def test_each_page_of_a_damaged_warehouse_says_so(broken: Explorer, path: str) -> None:
    output = words(page(broken, path, PARAMETERS.get(path, ""))[2])
    assert "cannot be read as a warehouse" in output
    assert "trackside doctor" in output


def test_a_filter_narrows_what_it_can_and_says_where_not(explorer: Explorer) -> None:
    every = table(page(explorer, "/people", "?by-people=user")[2], "ask-people")
    contents = page(explorer, "/people", "?by-people=user&user=user1")[2]
    assert {row["c_subject"] for row in every} > {"user1"}
    assert {row["c_subject"] for row in table(contents, "ask-people")} == {"user1"}
    assert "Not narrowed by: User" in words(contents)


@pytest.mark.parametrize("path", FILTERED)
def test_a_filter_has_a_chip_that_takes_it_off(explorer: Explorer, path: str) -> None:
    own = PARAMETERS.get(path, "")
    shown = page(explorer, path, f"{own}{'&' if own else '?'}user=user1", at_once=False)[1]
    (chip,) = [each for each in components(shown) if _is_chip(each)]
    assert "User: user1" in words(chip)
    assert chip.href == f"{path}{own}"


def _is_chip(found: object) -> bool:
    return getattr(found, "className", "") == "chip"


def test_runs_of_a_user_are_known_by_their_ids(explorer: Explorer) -> None:
    mine = {row["run_id"] for row in table(page(explorer, "/runs", "?user=user1")[2], "runs")}
    rows = table(page(explorer, "/jobs", "?user=user1")[2], "ask-interruptions")
    assert rows
    assert {row["c_run_id"] for row in rows} <= mine


def test_waste_of_a_user_is_that_of_the_users_runs(explorer: Explorer) -> None:
    mine = {row["run_id"] for row in table(page(explorer, "/runs", "?user=user1")[2], "runs")}
    every = table(page(explorer, "/checkpoints", "")[2], "ask-idle-runs")
    rows = table(page(explorer, "/jobs", "?user=user1")[2], "ask-waste")
    assert {row["c_subject"] for row in rows} == {row["c_subject"] for row in every} & mine
    assert len(rows) < len(every)


@pytest.mark.slow
def test_waste_of_attempts_is_made_once(warehouse: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    query = Reader.query

    def noted(self: Reader, name: str, **params: object) -> pl.DataFrame:
        made.append(name)
        return query(self, name, **params)

    monkeypatch.setattr(Reader, "query", noted)
    own = Explorer(AnswerCache(warehouse), WatchedClaims(None))
    for path in ("/people", "/checkpoints", "/gpu-time"):
        page(own, path, "")
    assert made.count("attempt_spending") == 1


def test_names_in_the_sentence_that_answers_are_links() -> None:
    rows = pl.DataFrame({"node": ["n1", "n1-a", "train"], "n": [1, 2, 3]})
    answer = Answer("Nodes", rows, {}, headline="Of 3 train nodes n1-a cost most, then n1; n11 and n1.x are others.")
    parts = _linked(answer, "node", QuestionSpec("nodes"), VIEW)
    links = {each.children: each.href for each in components(parts) if hasattr(each, "href")}
    assert links == {"n1-a": "/node?since=2026-10-01&node=n1-a", "n1": "/node?since=2026-10-01&node=n1"}
    assert [each for each in parts if isinstance(each, str)][-1] == "; n11 and n1.x are others."
    assert "".join(each if isinstance(each, str) else str(each.children) for each in parts) == answer.headline


def test_only_rows_that_a_sentence_names_get_links(monkeypatch: pytest.MonkeyPatch) -> None:
    spec: list[int] = []
    real = answer_table.addresses

    def counted(rows: pl.DataFrame, *args: object) -> list[str | None] | None:
        spec.append(rows.height)
        return real(rows, *args)  # type: ignore[arg-type]  # passed on

    monkeypatch.setattr(questions, "addresses", counted)
    rows = pl.DataFrame({"node": [None, "", *(f"n{number}" for number in range(1000))]})
    answer = Answer("Nodes", rows, {}, headline="n7 cost most.")
    parts = _linked(answer, "node", QuestionSpec("nodes"), VIEW)
    assert spec == [1]
    assert [each for each in parts if isinstance(each, str)] == ["", " cost most."]


def test_a_split_that_a_question_has_not_is_refused_alone(explorer: Explorer) -> None:
    output = words(page(explorer, "/reliability", "?by-mttf=colour")[2])
    assert "by-mttf: it cannot be split by 'colour'; there are: size" in output
    assert "node fail" in output


def test_two_runs_are_compared(explorer: Explorer) -> None:
    first, second = (row["run_id"] for row in table(page(explorer, "/runs", "")[2], "runs")[:2])
    output = words(page(explorer, "/compare", f"?a={first}&b={second}")[2])
    assert first in output
    assert second in output
    assert "at least" in output
    assert "Cost GPU-hours" in output
    assert "is no run and no job" in words(page(explorer, "/compare", f"?a={first}&b=nothing")[2])


def test_lost_hours_of_a_run_are_none_only_where_times_are_known() -> None:
    hour = timedelta(hours=1)
    held = {"category": ["productive", "lost"], "started_at": [END, END], "ended_at": [END + hour, END], "gpus": [8, 8]}
    some = pl.DataFrame(held)
    assert _lost(cast("RunPage", SimpleNamespace(timeline=some))) == "0"
    assert _lost(cast("RunPage", SimpleNamespace(timeline=some.clear()))) == formatting.NOTHING
    lost = some.with_columns(ended_at=pl.lit(END + hour))
    assert _lost(cast("RunPage", SimpleNamespace(timeline=lost))) == "8.00, mostly lost"


@pytest.mark.parametrize(("metric", "href"), [("time_to_train", "/scaling"), ("time_to_job_restart", "/reliability")])
def test_a_time_leads_to_the_page_that_has_it(metric: str, href: str) -> None:
    made = _number_link(metric, VIEW)
    assert getattr(made, "href", "").startswith(href)


def test_links_lead_from_a_cost_to_the_nodes_that_lost_it(explorer: Explorer) -> None:
    cost = next(row for row in table(page(explorer, "/", "")[2], "costs") if row.get("href", "").endswith("node_down"))
    path, _, search = cost["href"].partition("?")
    lost = table(page(explorer, path, f"?{search}&by-lost=node")[2], "ask-lost")
    assert sum(row["c_gpu_hours"] for row in lost) == pytest.approx(cost["gpu_hours"])
    path, _, search = lost[0]["c_subject__href"].partition("?")
    assert lost[0]["c_subject"] in words(page(explorer, path, f"?{search}")[2])


@pytest.mark.slow
def test_the_costliest_subject_is_the_first_row(explorer: Explorer) -> None:
    contents = page(explorer, "/gpu-time", "")[2]
    rows = table(contents, "ask-where")
    assert f"node {rows[0]['c_subject']} cost most" in " ".join(words(contents).split())
    assert len({row["c_subject"] for row in rows}) == len(rows) > 1
    assert {row["c_mostly__text"] for row in rows} <= {"-", *(palette.swatch(name).label for name in COSTLY)}
    of_one = table(page(explorer, "/gpu-time", f"?node={rows[0]['c_subject']}")[2], "ask-where")
    assert sum(row["c_gpu_hours"] for row in of_one) == pytest.approx(rows[0]["c_gpu_hours"])
    assert len(of_one) > 1


ROWS = pl.DataFrame({"node": ["n1", "n2"], "odd": [True, False], "what": ["too hot", None]})
OF_NODES = Answer("Nodes", ROWS, {"node": ("node", "text"), "what": ("what", "text")}, worth_showing=pl.col("odd"),
                  when_empty="Load telemetry first.", notes=("Odd is what is rare.",),
                  instead=pl.format("Nothing on {} is odd.", "node"))  # fmt: skip


@pytest.mark.parametrize(
    ("rows", "node", "expected"),
    [
        (ROWS, "n1", "too hot"),
        (ROWS, "n2", "Nothing on n2 is odd."),
        (ROWS, "n3", "No row is about n3 in this period."),
        (ROWS.clear(), "n1", "Load telemetry first."),
    ],
)
def test_a_page_of_a_node_never_has_a_row_of_dashes(rows: pl.DataFrame, node: str, expected: str) -> None:
    spec, view = QuestionSpec("anomalies", by="node", about="node"), replace(VIEW, params={"node": node})
    answer, filters = replace(OF_NODES, rows=rows), (("node", node),)
    source = cast("Reader", None)  # nothing is read: rows name their node
    shown = questions.shown_of(source, VIEW.window, answer, by="node", splits=("node",), filters=filters)
    contents = questions.panel(spec, shown, view)
    told = [row["c_what"] for row in table(contents, "ask-anomalies")] if shown.total else words(contents)
    assert expected in told
    assert "filters" not in words(contents)
    assert f"These notes are about all rows, not only those about {node}:" in words(contents)


@pytest.mark.parametrize(("filtered_by", "of_all"), [((), True), (("user",), False)])
def test_notes_of_ones_own_answer_are_not_about_all(filtered_by: tuple[str, ...], *, of_all: bool) -> None:
    shown = questions.Shown(OF_NODES, "run", (), total=3, narrowed=True, beside=(), filtered_by=filtered_by)
    output = words(questions.panel(QuestionSpec("anomalies", by="node"), shown, replace(VIEW, params={"user": "ann"})))
    assert ("These notes are about all rows" in output) == of_all


@pytest.mark.parametrize(("user", "ids", "said"), [("ann", ["a"], ""), ("bob", [], "None of these runs logged")])
def test_runs_without_checkpoints_are_a_sentence(user: str, ids: list[str], said: str) -> None:
    runs = {"run_id": ["a", "b", "c"], "user": ["ann", "ann", "bob"], "n_checkpoints": [3, 0, 0]}
    answer = Answer("Saves", pl.DataFrame(runs), {}, worth_showing=SAVED, instead=pl.lit(NONE_SAVED))
    source = cast("Reader", None)  # nothing is read: rows name their user
    shown = questions.shown_of(source, VIEW.window, answer, by="run", splits=("run",), filters=(("user", user),))
    assert shown.answer.rows["run_id"].to_list() == ids
    assert shown.instead.startswith(said)
    assert bool(shown.instead) == bool(said)


def test_parts_of_a_number_are_called_as_the_table_calls_them(explorer: Explorer) -> None:
    spec = pages()["/nodes"].questions["nodes"]
    output = words(answer_drawer.drawer(spec, explorer, explorer.view(""), 0, "interruptions")[1])
    assert "availability" in output
    assert not any(each in output for each in (" Value ", "Events, runs or steps", "denominator gpu h"))


def test_a_drawer_calls_a_category_as_the_page_does(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = pl.DataFrame({"category": ["pending_demand"], "state": ["idle"], "share": [0.5]})
    shown = {"category": ("category", "text"), "share": ("of all", "ratio")}
    metrics = ("lost_imputed", "second_order_share")
    answer = Answer("Lost", rows, shown, metrics, headline="pending demand 50 %.", parts={"subject": "category"})
    made = questions.Shown(answer, "cause", (), total=1, narrowed=False, beside=())
    monkeypatch.setattr(answer_drawer, "answer_of", lambda *_: made)
    data = cast("Any", SimpleNamespace(answers=SimpleNamespace(ask=lambda *_: {})))
    spec = pages()["/gpu-time"].questions["lost"]
    drawn = words(answer_drawer.drawer(spec, data, VIEW, 0, "share")[1])
    assert drawn.count("Idle, work waiting") == 2
    assert "Idle GPUs while eligible work waited" in drawn
    assert not any(each in drawn for each in ("pending_demand", "Assumed cost", "Second order"))
    assert "“Idle, work waiting” 50 %." in words(questions.panel(spec, made, VIEW))


@pytest.mark.slow
def test_a_filter_that_leaves_no_row_is_named(explorer: Explorer) -> None:
    for path, search in (("/nodes", "?node=n77"), ("/people", "?user=nobody")):
        output = words(page(explorer, path, search)[2])
        assert questions.NO_ROW in output
        assert "No run in this window." not in output


@pytest.mark.parametrize(
    ("path", "search", "said"),
    [
        ("/node", "?node=n11", "has no node 'n11'. Did you mean: n1"),
        ("/node", "?node=nonexistent", "has no node 'nonexistent'. The page Nodes"),
        ("/run", "?id=nonexistent", "has no run and no job 'nonexistent'. The page Runs"),
        ("/jobs", "?user=usr1", "has no jobs of a user 'usr1' in this period. Did you mean: user1"),
    ],
)
def test_an_unknown_name_is_answered_with_close_ones(explorer: Explorer, path: str, search: str, said: str) -> None:
    contents = page(explorer, path, search, at_once=False)[2]
    assert said in words(contents)
    assert not [each for each in components(contents) if getattr(each, "className", None) == "panel loading"]


def columns(contents: object) -> list[dict[str, str]]:
    return [each for grid in components(contents) for each in getattr(grid, "columnDefs", None) or []]


@pytest.mark.slow
@pytest.mark.parametrize(("path", "own"), [("/node", "c_node"), ("/run", "c_run_id")])
def test_a_page_of_one_thing_has_no_column_of_its_name(explorer: Explorer, path: str, own: str) -> None:
    fields = [each["field"] for each in columns(page(explorer, path, PARAMETERS[path])[2])]
    assert len(fields) > 10
    assert own not in fields


def test_how_attempts_were_joined_is_in_words(explorer: Explorer) -> None:
    texts = {row["c_joined_by__text"] for row in table(page(explorer, "/jobs", PARAMETERS["/jobs"])[2], "ask-runs")}
    assert texts
    assert texts <= set(JOINED_BY.values())


def test_sql_is_refused_where_strangers_come(warehouse: Path) -> None:
    stranger = Explorer(AnswerCache(warehouse), WatchedClaims(None))
    assert "this page is off" in words(page(stranger, "/sql", "")[2])


# In a browser ----------------------------------------------------------------------------------------------------


def settled(chromium: Browser) -> None:
    chromium.until(lambda _: not chromium.all(".panel.loading"), "a section never came")


@pytest.mark.xdist_group("browser")
def test_a_number_opens_its_parts_and_a_node_its_page(site: Site, chromium: Browser) -> None:
    chromium.open(f"{site.url}/nodes?since=2026-10-03", until="#nodes .ag-row .asks")
    settled(chromium)
    chromium.click("#nodes .ag-row [col-id=c_interruptions]")
    chromium.wait(".drawer .facts")
    output = chromium.text(".mantine-Drawer-content")
    assert "trackside show nodes --by node --cluster tiny --since 2026-10-03 --explain" in output
    assert "The whole row" in output
    chromium.driver.switch_to.active_element.send_keys("\ue00c")  # Escape
    chromium.until(lambda _: not chromium.all(".drawer"), "the drawer never closed")
    link = chromium.wait("#nodes .ag-row .link")
    name, address = link.text, str(link.get_attribute("href"))
    assert address == f"{site.url}/node?since=2026-10-03&node={name}"
    chromium.run("arguments[0].click()", link)  # the closing drawer may still lie above it
    chromium.until(lambda _: chromium.run("return location.href") == address, "the link leads nowhere")
    chromium.wait(".run-head h1")
    assert chromium.text("h1") == name
    assert not chromium.all(".chips"), "without its node the page could show nothing"
    settled(chromium)
    assert chromium.console() == []


@pytest.mark.xdist_group("browser")
def test_a_cause_leads_to_who_lost_time_to_it(site: Site, chromium: Browser) -> None:
    chromium.open(site.url, until="#costs .ag-row .link")
    chromium.click("#costs .ag-row .link")
    chromium.until(lambda _: chromium.run("return location.pathname") == "/gpu-time", "the link leads nowhere")
    chromium.wait(".chip")
    settled(chromium)
    assert "by-" not in str(chromium.run("return location.search")), "a page changed its own address"
    chips = len(chromium.all(".chip"))
    chromium.click(".chip")
    chromium.until(lambda _: len(chromium.all(".chip")) == chips - 1, "the filter was never taken off")
    chromium.driver.back()
    chromium.until(lambda _: len(chromium.all(".chip")) == chips, "going back never brought it back")
    settled(chromium)
    chromium.driver.back()
    chromium.until(lambda _: chromium.run("return location.pathname") == "/", "going back never left the page")


@pytest.mark.xdist_group("browser")
def test_three_clicks_lead_from_a_cost_to_the_node_and_its_job(site: Site, chromium: Browser) -> None:
    chromium.open(site.url, until="#costs .ag-row .link")
    settled(chromium)
    cause = chromium.click("#costs .ag-row .link", holding="cause=node")
    chromium.until(lambda _: "cause=" in str(chromium.run("return location.search")), "no cause in the address")
    chromium.wait("#where .ag-row .link")
    settled(chromium)
    node = chromium.click("#where .ag-row .link", holding="/node?")
    chromium.wait(".run-head h1")
    settled(chromium)
    assert chromium.text("h1") == node
    assert cause in chromium.text(".crumbs")
    assert node in chromium.text("#came")  # the cause is the same in all its rows, so it is no column
    chromium.click("#content .ag-row .link", holding="/run?")
    chromium.until(lambda _: chromium.run("return location.pathname") == "/run", "no run of the node")
    assert chromium.console() == []


@pytest.mark.xdist_group("browser")
def test_a_table_split_otherwise_is_in_the_address_and_back(site: Site, chromium: Browser) -> None:
    chromium.open(f"{site.url}/people", until="#people .ag-row")
    settled(chromium)
    assert chromium.run("return location.search") == ""
    chromium.click(".chooser label", text="user")
    chromium.until(lambda _: "by-people=user" in str(chromium.run("return location.search")), "it is in no address")
    settled(chromium)
    chromium.click(".chooser label", text="account")
    chromium.until(lambda _: "by-people" not in str(chromium.run("return location.search")), "the default is named")


@pytest.mark.parametrize(
    ("path", "search", "said"),
    [
        ("/runs", {"scheduler": "k", "user": "ann"}, []),
        ("/gpu-time", {"user": "nobody"}, ["No run of this period has the user 'nobody'."]),
        ("/gpu-time", {"user": "ann", "gpu_model": "h100"}, []),
    ],
)
def test_filters_without_effect_are_named(path: str, search: dict[str, str], said: list[str]) -> None:
    offered = {"user": ["ann", "bob"]} if pages()[path].pickers else {}
    assert shell.without_effect(replace(VIEW, params=search), offered) == said


def test_a_claim_leads_to_what_is_behind_it(explorer: Explorer) -> None:
    contents = page(explorer, "/verdicts", "")[2]
    output = words(contents)
    assert "trackside verify --explain --cluster " in output
    assert "trackside report sla --period " in output
    hrefs = {getattr(each, "href", "") for each in components(contents)}
    assert {"/gpu-time", "/reliability", "/runs"} <= hrefs
    assert "Goodput (of allocated)" in output
