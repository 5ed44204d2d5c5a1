"""What a viewer sees: own runs and sums of the cluster, on each page, by each address, in each section and drawer."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl
import pytest
from dash import Dash
from flask import g
from plotly.utils import PlotlyJSONEncoder

from app.access.people import Person, Role
from app.claims.watched import WatchedClaims
from app.config.access import Access
from app.config.settings import Config
from app.errors import UsageError
from app.explorer import create_app, gate, loading, open_pages
from app.explorer.application import Explorer, page
from app.explorer.drawers import explaining
from app.explorer.page import pages
from app.results.serving.cache import AnswerCache
from app.show.registry import question_of
from queries.warehouse import open_reader

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from flask.testing import FlaskClient


class Known(NamedTuple):
    """A warehouse with the runs of several people."""

    root: Path
    runs: pl.DataFrame

    def of(self, user: str) -> list[str]:
        return self.runs.filter(pl.col("user") == user)["run_id"].to_list()

    @property
    def users(self) -> list[str]:
        return sorted(self.runs["user"].unique())


@pytest.fixture(scope="module")
def known(warehouse: Path) -> Known:
    with open_reader(warehouse) as reader:
        runs = reader.table("runs").select("run_id", "user", "account", "name")
    made = Known(warehouse, runs)
    assert len(made.users) > 1
    return made


@pytest.fixture(scope="module")
def explorer(known: Known) -> Explorer:
    return Explorer(AnswerCache(known.root), WatchedClaims(None), sql=True)


@contextlib.contextmanager
def seen_by(person: Person) -> Iterator[None]:
    with Dash("request").server.test_request_context("/"):
        g.person = person
        yield


def viewer(known: Known) -> Person:
    return Person(known.users[0], Role.VIEWER)


def text_of(component: object) -> str:
    return json.dumps(component, cls=PlotlyJSONEncoder)


def named(known: Known, text: str, person: Person) -> list[str]:
    """Other people and their runs that a text names."""
    others = [user for user in known.users if user != person.name]
    foreign = known.runs.filter(pl.col("user") != person.name)["run_id"].to_list()
    return [each for each in (*others, *(f'"{run}"' for run in foreign)) if each in text]


def searches(path: str) -> list[str]:
    """A page as it opens, and split by each person, run, account and event where it can be."""
    of_people = ("user", "run", "account", "event")
    questions = pages()[path].questions.items()
    splits = [
        f"?by-{name}={by}" for name, each in questions for by in question_of(each.question).splits if by in of_people
    ]
    return ["", "?user={own}", "?by=user", *splits]


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted(open_pages.PAGES))
def test_no_page_names_other_people_or_their_runs(path: str, explorer: Explorer, known: Known) -> None:
    person = viewer(known)
    for search in searches(path):
        with seen_by(person):
            shown = text_of(page(explorer, path, search.format(own=person.name)))
        assert named(known, shown, person) == [], search


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted(set(pages()) - open_pages.PAGES))
def test_other_pages_refuse_viewers_and_so_do_their_sections(path: str, explorer: Explorer, known: Known) -> None:
    person = viewer(known)
    with seen_by(person):
        assert "This is not yours" in text_of(page(explorer, path, "?user=" + person.name))
        for search in searches(path):
            for name in pages()[path].questions:
                questions = {"path": path, "search": search.format(own=person.name), "ticket": "t"}
                assert named(known, text_of(loading.show(explorer, questions, name)), person) == [], (name, search)


@pytest.mark.slow
def test_operators_see_everyone_on_the_same_pages(explorer: Explorer, known: Known) -> None:
    operator = Person(known.users[0], Role.OPERATOR)
    with seen_by(operator):
        shown = text_of(page(explorer, "/runs", "")) + text_of(page(explorer, "/people", "?by-people=user"))
    assert set(named(known, shown, operator)) >= set(known.users[1:])


@pytest.mark.parametrize("path", ["/run?id={run}", "/compare?a={run}&b={run}", "/compare?a={own}&b={run}"])
def test_run_of_another_is_as_one_that_is_not_there(path: str, explorer: Explorer, known: Known) -> None:
    person = viewer(known)
    foreign = known.of(known.users[1])[0]
    own = known.of(person.name)[0]
    where, _, search = path.partition("?")
    with seen_by(person):
        texts = [
            text_of(page(explorer, where, "?" + search.format(run=run, own=own))).replace(run, "RUN")
            for run in (foreign, "999999999")
        ]
    assert texts[0] == texts[1]


@pytest.mark.slow
def test_own_run_is_shown_in_full(explorer: Explorer, known: Known) -> None:
    person = viewer(known)
    own = known.of(person.name)[0]
    with seen_by(person):
        mine = text_of(page(explorer, "/run", f"?id={own}"))
    with seen_by(Person("root", Role.OPERATOR)):
        theirs = text_of(page(explorer, "/run", f"?id={own}"))
    assert "This cannot be shown" not in mine
    assert f'"{own}"' in mine
    assert abs(len(mine) - len(theirs)) < 0.2 * len(theirs)


@pytest.mark.slow
def test_account_of_a_group_opens_the_runs_of_the_account(explorer: Explorer, known: Known) -> None:
    foreign = known.runs.filter(pl.col("user") == known.users[1]).row(0, named=True)
    if not foreign["account"]:
        pytest.fail("the tiny cluster has no accounts")
    for accounts, is_open in (((), False), ((foreign["account"],), True)):
        with seen_by(Person("outsider", Role.VIEWER, accounts)):
            shown = text_of(page(explorer, "/run", f"?id={foreign['run_id']}"))
            listed = explorer_runs(explorer, f"?account={foreign['account']}")
        assert ("This cannot be shown" not in shown) == is_open
        assert (foreign["run_id"] in listed) == is_open


def explorer_runs(explorer: Explorer, search: str) -> str:
    return text_of(page(explorer, "/runs", search)[2])


@pytest.mark.parametrize("search", ["?user={other}", "?account=nowhere", "?q={other}", "?user={other}&account=x"])
def test_list_of_runs_is_narrowed_to_own_ones(search: str, explorer: Explorer, known: Known) -> None:
    person = viewer(known)
    other = known.users[1]
    with seen_by(person):
        shown = explorer_runs(explorer, search.format(other=other))
    assert not any(f'"{run}"' in shown for run in known.of(other))


@pytest.mark.slow
def test_sections_and_drawers_pass_the_same_gate(explorer: Explorer, known: Known) -> None:
    person = viewer(known)
    foreign = known.of(known.users[1])[0]
    with seen_by(person):
        for path, each in pages().items():
            view = explorer.view("")
            names = [section.name for section in each.sections(view)] if each.sections is not None else []
            for search in ("?user=" + known.users[1], f"?id={foreign}&run={foreign}"):
                for name in names:
                    questions = {"path": path, "search": search, "ticket": "t"}
                    shown = text_of(loading.show(explorer, questions, name))
                    assert named(known, shown, person) in ([], [known.users[1]], [f'"{foreign}"']), (path, name, search)
                    assert not any(f'"{run}"' in shown for run in known.of(known.users[1]) if run != foreign)
            for name in each.questions:
                clicked = {"rowId": "0", "colId": "c_subject"}
                drawn = text_of(explaining.opened(explorer, path, "", {"type": "grid", "name": f"ask-{name}"}, clicked))
                assert named(known, drawn, person) == [], (path, name)


def test_question_without_a_rule_is_refused(explorer: Explorer, known: Known) -> None:
    def everything(source: Any) -> pl.DataFrame:
        rows: pl.DataFrame = source.table("attempts")
        return rows

    with seen_by(viewer(known)), pytest.raises(gate.NotYoursError):
        explorer.answers.ask(everything)
    with seen_by(Person("root", Role.OPERATOR)):
        assert explorer.answers.ask(everything).height > 0
    with seen_by(Person("", Role.NOBODY)), pytest.raises(UsageError):
        explorer.answers.ask(everything)


def test_viewers_have_no_sql(explorer: Explorer, known: Known) -> None:
    with seen_by(viewer(known)):
        assert not explorer.allows_sql
    with seen_by(Person("root", Role.OPERATOR)):
        assert explorer.allows_sql


def test_rows_that_may_be_about_anybody_are_refused() -> None:
    person = Person("ada", Role.VIEWER, ("vision",))
    rows = pl.DataFrame({"cause": ["x"], "job_id": ["7"]})
    with pytest.raises(gate.NotYoursError):
        gate.rows_of(rows, "cause", person, frozenset())
    assert gate.rows_of(rows.drop("job_id"), "cause", person, frozenset()).height == 1
    with pytest.raises(gate.NotYoursError):
        gate.rows_of(rows.drop("job_id"), "event", person, frozenset())
    accounts = pl.DataFrame({"subject": ["vision", "nlp", None]})
    assert gate.rows_of(accounts, "account", person, frozenset())["subject"].to_list() == ["vision"]


def client_of(known: Known, tmp_path: Path) -> FlaskClient:
    access = Access(login="header", proxies=("127.0.0.1",), audit_file=tmp_path / "audit")
    client: FlaskClient = create_app(known.root, Config(access=access)).server.test_client()
    return client


def test_another_run_by_address_is_refused_over_http(known: Known, tmp_path: Path) -> None:
    client, person = client_of(known, tmp_path), viewer(known)
    foreign, own = known.of(known.users[1])[0], known.of(person.name)[0]
    headers = {"X-Forwarded-User": person.name, "Sec-Fetch-Site": "same-origin"}

    def post(run: str, **more: str) -> tuple[int, str]:
        questions = {
            "output": "..nav.children...filters.children...content.children...page-title.data...version.data"
            "...refresh.style..",
            "outputs": [{"id": name, "property": what} for name, what in
                        (("nav", "children"), ("filters", "children"), ("content", "children"), ("page-title", "data"),
                         ("version", "data"), ("refresh", "style"))],
            "inputs": [{"id": "url", "property": "pathname", "value": "/run"},
                       {"id": "url", "property": "search", "value": f"?id={run}"},
                       {"id": "refresh", "property": "n_clicks", "value": None}],
            "state": [{"id": "url", "property": "href", "value": "http://localhost/run"}],
            "changedPropIds": ["url.pathname"],
        }  # fmt: skip
        answer = client.post("/_dash-update-component", json=questions, headers=headers | more)
        return answer.status_code, answer.text

    assert "No run of this" not in post(own)[1]
    assert f'"{own}"' in post(own)[1]
    status, text = post(foreign)
    assert status == 200
    assert "has no run and no job" in text
    assert known.users[1] not in text
    assert post(own, **{"X-Forwarded-User": ""})[0] == 401
    assert post(own, **{"Sec-Fetch-Site": "cross-site"})[0] == 403
    log = (tmp_path / "audit").read_text("utf-8").splitlines()
    assert any(f"?id={foreign}" in line and person.name in line for line in log)
