"""The manual in the explorer: every page, links between pages, and addresses that name no page."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from dash import dcc

from app import manual
from app.explorer.application import Explorer, page
from app.explorer.pages.manual import ABOUT
from app.results.serving.cache import AnswerCache
from tests.app.explorer.test_pages import components, explorer, words

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["explorer"]  # the fixture


def links(result: object) -> set[str]:
    return {each.href for each in components(result) if getattr(each, "href", None)}


@pytest.mark.parametrize("topic", manual.pages())
def test_docs_address_shows_the_page(explorer: Explorer, topic: str) -> None:
    _, filters, contents, title = page(explorer, f"/docs/{topic}", "")
    shown = manual.pages()[topic]
    assert title == f"{shown.title} · Trackside"
    assert filters is None
    ids = {getattr(each, "id", None) for each in components(contents)}
    assert {each.slug for each in shown.sections} <= ids


def test_docs_list_links_to_every_page(explorer: Explorer) -> None:
    _, _, contents, _ = page(explorer, "/docs", "?cluster=tiny")
    result = links(contents)
    for topic in manual.pages():
        assert any(each.partition("?")[0] == f"/docs/{topic}" for each in result), topic


@pytest.mark.parametrize("path", ["/docs/clams", "/docs/../queries/sql_files.py", "/docs//etc/passwd", "/docs/README"])
def test_docs_unknown_page_is_refused(explorer: Explorer, path: str) -> None:
    _, _, contents, title = page(explorer, path, "")
    assert title == "Not found · Trackside"
    assert "This page of the manual does not exist" in words(contents)
    assert "/docs" in {each.partition("?")[0] for each in links(contents)}


def test_docs_need_no_data(tmp_path: Path, explorer: Explorer) -> None:
    empty = Explorer(AnswerCache(tmp_path / "nothing"), explorer.claims)
    _, _, contents, title = page(empty, "/docs/claims", "")
    assert title == "Claims · Trackside"
    assert "exclusions" in words(contents)


@pytest.mark.parametrize("path", ["/", "/runs", "/definitions"])
def test_navigation_links_to_the_manual_of_the_page(explorer: Explorer, path: str) -> None:
    navigation, _, _, _ = page(explorer, path, "")
    assert f"/docs/{ABOUT[path]}" in links(navigation)


def test_links_between_pages_keep_the_cluster(explorer: Explorer) -> None:
    _, _, contents, _ = page(explorer, "/docs/claims", "?cluster=tiny")
    texts = " ".join(each.children for each in components(contents) if isinstance(each, dcc.Markdown))
    assert "(/docs/how-to/reports?cluster=tiny)" in texts
    assert ".md)" not in texts


def test_drawer_links_to_the_metric_and_to_claims(explorer: Explorer) -> None:
    _, contents = explorer.about("goodput_allocated", explorer.view(""))
    result = links(contents)
    assert "/docs/reference/metrics#goodput_allocated" in result
    assert "/docs/how-to/claims#a-verdict" in result
    for address in result:
        topic, _, section = address.removeprefix("/docs/").partition("#")
        if address.startswith("/docs/"):
            assert manual.pages()[topic].part(section) is not None
