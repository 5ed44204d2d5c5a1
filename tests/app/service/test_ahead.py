"""The first pages are answered before anyone asks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from app.claims.watched import WatchedClaims
from app.explorer.application import Explorer
from app.explorer.page import pages
from app.results.serving.cache import AnswerCache
from app.service.ahead import PATHS, Ahead
from tests.support.warehouses import from_accounting

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def answers(tmp_path: Path) -> AnswerCache:
    return AnswerCache(from_accounting(tmp_path, jobs=5))


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
