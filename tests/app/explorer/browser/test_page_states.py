"""Pages in a real browser where something is the matter: no warehouse yet, a damaged one, a question that lasts.

One page of each form: the same message stands on the others, which tests/app/explorer/test_question_pages.py reads
without a browser.
"""

from __future__ import annotations

import shutil
import threading
from typing import TYPE_CHECKING, Any

import pytest

from app.explorer import sections
from queries.directory import copies
from tests.app.explorer.browser.test_axe import findings
from tests.app.explorer.browser.test_every_page import address
from tests.app.explorer.conftest import served

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from dash.development.base_component import Component

    from app.explorer.filters import View
    from app.explorer.page import PageData, Section
    from tests.app.explorer.conftest import Site
    from tests.lab.browser import Browser

pytestmark = [pytest.mark.xdist_group("browser"), pytest.mark.slow]

FORMS = ("/", "/run", "/gpu-time")
"""The overview with its cards, a page about one thing, and a page of sections with the questions of `show`."""


def clean(chromium: Browser) -> None:
    """Nothing on the console, nothing that keeps anybody out, nothing beyond the edge of a phone."""
    assert chromium.console() == []
    assert findings(chromium) == []
    chromium.resize(390, 844)
    assert chromium.run("return document.documentElement.scrollWidth") == 390
    chromium.resize(1280, 900)


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with served(tmp_path_factory.mktemp("empty") / "warehouse") as site:
        yield site


@pytest.fixture(scope="module")
def damaged(warehouse: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    root = tmp_path_factory.mktemp("damaged") / "warehouse"
    shutil.copytree(warehouse, root)
    for copy in copies(root):
        copy.chmod(0o600)
        copy.write_bytes(copy.read_bytes()[:5000])
    with served(root) as site:
        yield site


@pytest.mark.parametrize("path", FORMS)
def test_page_without_a_warehouse_says_how_to_begin(path: str, empty: Site, chromium: Browser) -> None:
    chromium.open(empty.url + address(path), until=".message, .panel")
    assert "trackside ingest slurm" in chromium.text("#content")
    clean(chromium)


@pytest.mark.parametrize("path", FORMS)
def test_page_of_a_damaged_warehouse_says_so(path: str, damaged: Site, chromium: Browser) -> None:
    chromium.open(damaged.url + address(path), until=".message")
    assert "cannot be read as a warehouse" in chromium.text("#content")
    assert "trackside doctor" in chromium.text("#content")
    clean(chromium)


@pytest.mark.parametrize("path", FORMS)
def test_page_says_what_it_waits_for(
    path: str, warehouse: Path, chromium: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, shown = threading.Event(), sections.shown

    def slow(section: Section, data: PageData, view: View) -> tuple[Component, bool]:
        assert gate.wait(120)
        return shown(section, data, view)

    monkeypatch.setattr(sections, "shown", slow)
    with served(warehouse) as site:
        chromium.open(site.url + address(path), until=".loading")
        waiting: Any = chromium.all(".loading")
        assert all("Loading tiny, 2026-10-01 to" in each.text for each in waiting)
        assert len(chromium.all(".loading button")) == len(waiting)
        clean(chromium)
        gate.set()
        chromium.until(lambda _: not chromium.all(".loading"), "a section never came")
        assert chromium.console() == []
