"""The first pages, and those opened lately, are answered before anyone asks."""

from __future__ import annotations

import threading
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pytest
from dash import html

from app.access import people
from app.access.people import Person, Role
from app.claims.watched import WatchedClaims
from app.config.settings import Config
from app.explorer import create_app
from app.explorer.application import Explorer
from app.explorer.page import Section, pages
from app.explorer.sections import sections_of
from app.results.serving.cache import AnswerCache
from app.service.ahead import PATHS, Ahead
from metrics import lazy_scipy
from queries.reader import Reader
from tests.app.explorer.test_kept_sections import sent
from tests.support.warehouses import from_accounting

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from dash import Dash

    from app.explorer.filters import View


@pytest.fixture
def answers(tmp_path: Path) -> AnswerCache:
    return AnswerCache(from_accounting(tmp_path, jobs=5))


@pytest.mark.slow
def test_first_pages_are_answered_before_anyone_opens_them(answers: AnswerCache) -> None:
    claims = WatchedClaims(None)
    Ahead(answers, claims).look()
    known = len(answers)
    assert known
    explorer = Explorer(answers, claims)
    view = explorer.view("")
    for path in PATHS:
        for section in (pages()[path].sections or (lambda _: ()))(view):
            section.gather(explorer, view)
    assert len(answers) == known


@pytest.mark.slow
def test_nothing_is_read_again_without_newer_data(answers: AnswerCache, monkeypatch: pytest.MonkeyPatch) -> None:
    ahead = Ahead(answers, WatchedClaims(None))
    ahead.look()

    def asked(*_: object) -> object:
        pytest.fail("nothing newer was published")

    monkeypatch.setattr(answers, "ask", asked)
    ahead.look()


def test_without_a_warehouse_nothing_is_read(tmp_path: Path) -> None:
    answers = AnswerCache(tmp_path / "none")
    ahead = Ahead(answers, WatchedClaims(None))
    ahead.start()
    ahead.stop()
    assert len(answers) == 0


@pytest.mark.slow
def test_scipy_is_imported_after_the_first_pages(answers: AnswerCache, monkeypatch: pytest.MonkeyPatch) -> None:
    known_then: list[int] = []
    done = threading.Event()

    def load() -> None:
        known_then.append(len(answers))
        done.set()

    monkeypatch.setattr("app.service.ahead.TICK_S", 0.01)
    monkeypatch.setattr(lazy_scipy, "load", load)
    ahead = Ahead(answers, WatchedClaims(None))
    ahead.start()
    assert done.wait(60)
    ahead.stop()
    assert len(known_then) == 1
    assert known_then[0] > 0


def test_section_that_fails_hides_no_other(answers: AnswerCache, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def gather(name: str, *_: object) -> None:
        asked.append(name)
        if len(asked) == 1:
            raise OSError("a copy that was swept meanwhile")

    made = [Section(name, name, partial(gather, name), lambda *_: html.Div()) for name in "ab"]
    page = replace(pages()["/"], sections=lambda _: made)
    monkeypatch.setattr("app.service.ahead.pages", lambda: dict.fromkeys(PATHS, page))
    Ahead(answers, WatchedClaims(None)).look()
    assert asked == ["a", "b"] * len(PATHS)


def test_one_that_was_never_started_can_be_stopped(answers: AnswerCache) -> None:
    Ahead(answers, WatchedClaims(None)).stop()


# Pages that were opened --------------------------------------------------------------------------------------------


def opened(application: Dash, path: str, names: Iterable[str], search: str = "") -> None:
    """Request sections as a browser does."""
    client = application.server.test_client()
    for name in names:
        sent(client, name, path, name, search)


def kept_sections(path: str, view: View) -> list[str]:
    """Names of a page's sections that follow from the data alone."""
    return [each.name for each in sections_of(pages()[path], view) if each.kept]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "parameter", "column"),
    [*((path, "", "") for path in ("/", "/today", "/reliability", "/people")), ("/jobs", "user", "user"),
     ("/run", "id", "run_id")],
)  # fmt: skip
def test_a_page_that_was_opened_is_answered_for_newer_data(
    answers: AnswerCache, path: str, parameter: str, column: str
) -> None:
    claims, newer = WatchedClaims(None), AnswerCache(answers.root)
    value = min(answers.ask(Reader.table, "runs")[column].drop_nulls()) if column else ""
    search = f"?{parameter}={value}" if column else ""
    names = kept_sections(path, Explorer(answers, claims).view(search))
    opened(create_app(answers.root, Config(), claims, answers), path, names, search)
    assert answers.visits.latest() == [(path, search)]
    newer.visits.add(path, search)
    Ahead(newer, claims).look()
    known = len(newer)
    opened(create_app(answers.root, Config(), claims, newer), path, names, search)
    assert len(newer) == known


def test_what_a_viewer_opened_is_not_answered_again(answers: AnswerCache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(people, "current", lambda: Person("ada", Role.VIEWER))
    opened(create_app(answers.root, Config(), WatchedClaims(None), answers), "/people", ["people"])
    assert answers.visits.latest() == []


def test_an_address_that_is_gone_stops_no_other(answers: AnswerCache, monkeypatch: pytest.MonkeyPatch) -> None:
    answers.visits.add("/people", "")
    answers.visits.add("/people", "?cluster=gone")
    asked: list[str] = []
    made = [Section("a", "a", lambda *_: asked.append("a"), lambda *_: html.Div(), kept=kept) for kept in (True, False)]
    monkeypatch.setattr("app.service.ahead.PATHS", ())
    monkeypatch.setattr("app.service.ahead.sections_of", lambda *_: made)
    Ahead(answers, WatchedClaims(None)).look()
    assert asked == ["a"]
