"""Links that are copied: they carry the data version that was seen, and say where it is another one by now."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from app.claims.watched import WatchedClaims
from app.explorer.application import Explorer, page
from app.results.serving.cache import AnswerCache
from tests.app.explorer.test_pages import components, words

if TYPE_CHECKING:
    from pathlib import Path

URL = "http://127.0.0.1:8050/gpu-time?since=7d&zone=Europe%2FBerlin"


@pytest.fixture(scope="module")
def explorer(warehouse: Path) -> Explorer:
    return Explorer(AnswerCache(warehouse), WatchedClaims(None))


def version(explorer: Explorer) -> int:
    return explorer.view("").situation.data_version


def bar(explorer: Explorer, search: str) -> object:
    """The filter bar of an address."""
    return page(explorer, "/gpu-time", search, at_once=False, page_url=URL)[1]


def test_a_copied_link_carries_the_data_version(explorer: Explorer) -> None:
    (copied,) = [each.value for each in components(bar(explorer, "?since=7d")) if type(each).__name__ == "CopyButton"]
    assert copied == f"{URL}&data_version={version(explorer)}"


def test_a_link_to_other_data_says_so(explorer: Explorer) -> None:
    now = version(explorer)
    assert "This link was copied" not in words(bar(explorer, f"?data_version={now}"))
    told = f"This link was copied from data version {now - 1}; these are the numbers of version {now}."
    assert told in words(bar(explorer, f"?data_version={now - 1}"))
    assert "data version <b>; these" in words(bar(explorer, "?data_version=<b>"))
