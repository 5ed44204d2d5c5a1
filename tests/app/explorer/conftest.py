"""A tiny warehouse that the explorer is asked about, and the explorer on a port of this host."""

from __future__ import annotations

import contextlib
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import pytest
from selenium.common.exceptions import WebDriverException
from werkzeug.serving import make_server

from app.config.settings import Config
from app.explorer import create_app
from tests.lab.browser import browser, need_browser
from tests.support.command import trackside
from tests.support.slurm.dumps import HEADER, rows_of, tiny, with_rows

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.lab.browser import Browser

NASTY = "<img src=x onerror=alert(1)><b>x</b>"
"""A job name that would do something if a page read it as markup."""


def fill(warehouse: Path, folder: Path) -> None:
    """Load and compute the tiny cluster, with a job of a nasty name."""
    folder.mkdir(exist_ok=True)
    dump = tiny()
    rows = [row.split("|", HEADER.count("|")) for row in rows_of(dump.accounting)]
    named = ["|".join([*row[:-1], NASTY if row[0] == rows[0][0] else row[-1]]) for row in rows]
    dump = replace(dump, accounting=with_rows(named))
    loaded = trackside("ingest", "slurm", *dump.write(folder), "--warehouse", str(warehouse))
    assert loaded.returncode == 0, loaded.stderr
    computed = trackside("compute", "--warehouse", str(warehouse))
    assert computed.returncode == 0, computed.stderr


@pytest.fixture(scope="session")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny cluster, computed."""
    folder = tmp_path_factory.mktemp("explorer")
    fill(folder / "warehouse", folder / "files")
    return folder / "warehouse"


class Site(NamedTuple):
    """An explorer that answers."""

    url: str
    root: Path


@contextlib.contextmanager
def served(root: Path, *, trusted: bool = False) -> Iterator[Site]:
    """Serve the explorer of a warehouse on a free port of this host, to people who may correct if `trusted`."""
    server = make_server("127.0.0.1", 0, create_app(root, Config(), trusted=trusted).server, threaded=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield Site(f"http://127.0.0.1:{server.server_port}", root)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(scope="module")
def site(warehouse: Path) -> Iterator[Site]:
    """The explorer on the tiny cluster; of a module's own, since it keeps the sections that it has sent."""
    with served(warehouse) as result:
        yield result


@pytest.fixture(scope="package")
def running_chromium() -> Iterator[Browser]:
    """One browser for all tests of the explorer; skipped where there is none."""
    need_browser()
    with browser() as made:
        yield made


@pytest.fixture
def chromium(running_chromium: Browser) -> Iterator[Browser]:
    """The browser as if it had just been started: nothing remembered, nothing logged, a light desktop."""
    running_chromium.resize(1280, 900)
    running_chromium.prefer(dark=False)
    running_chromium.console()
    running_chromium.requested()
    yield running_chromium
    if str(running_chromium.run("return location.protocol")).startswith("http"):
        running_chromium.run("localStorage.clear()")
        leave(running_chromium)


def leave(chromium: Browser) -> None:
    """Go where nothing runs, on the same site: another one has another process, which compiles all scripts again."""
    origin = str(chromium.run("return location.origin"))
    try:
        chromium.open(f"{origin}/assets/scheme.js")
    except WebDriverException:  # the server of this test has ended
        chromium.open("about:blank")


def open_whole(chromium: Browser, url: str) -> None:
    """Open a page and wait until all its sections are there."""
    chromium.open(url, until="#content h1, #content h2")
    wait_for_sections(chromium)


def wait_for_sections(chromium: Browser) -> None:
    """Wait until all sections of the page are there."""
    chromium.until(lambda _: not chromium.all(".loading"), "a section never came")
