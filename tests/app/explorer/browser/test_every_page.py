"""Each page in a real browser, opened once, since that is dear: its tables can be saved, nothing in it keeps anybody
out, it is no wider than a phone, and its console is empty."""

from __future__ import annotations

import csv
import re
from typing import TYPE_CHECKING

import pytest

from app.explorer.components import EXPORTED
from app.explorer.page import pages
from tests.app.explorer.browser.test_axe import MODES, WITHOUT_CONTRAST, serious_findings
from tests.app.explorer.conftest import open_whole

if TYPE_CHECKING:
    from pathlib import Path

    from tests.app.explorer.conftest import Site
    from tests.lab.browser import Browser

pytestmark = [pytest.mark.xdist_group("browser"), pytest.mark.slow]

SAVED = (
    "/", "/today", "/gpu-time", "/placement", "/jobs", "/checkpoints", "/reliability", "/nodes", "/people", "/node",
    "/run", "/runs", "/quality",
)  # fmt: skip
"""Pages of which the tiny cluster has a table: it has no telemetry, no logs, no claims, one scheduler."""

PAINTED = ("/", "/compare", "/docs", "/gpu-time", "/reliability", "/run", "/runs", "/sql", "/today", "/verdicts")
"""Pages with colours of their own; the others have the same tables and sentences."""

BUTTON = "[aria-label='Save the table as CSV']"

FIRST_TABLE = f"""
return [...document.querySelectorAll('.panel')].find(
  (each) => each.querySelector('.ag-row') && each.querySelector("{BUTTON}"))
"""


def address(path: str) -> str:
    """A page with something on it."""
    return {"/run": "/run?id=1", "/node": "/node?node=n1", "/jobs": "/jobs?user=user0",
            "/compare": "/compare?a=1&b=2"}.get(path, path)  # fmt: skip


@pytest.mark.parametrize("path", sorted(pages()))
def test_page_is_saved_and_for_everybody(path: str, site: Site, chromium: Browser, tmp_path: Path) -> None:
    open_whole(chromium, site.url + address(path))
    if path in SAVED:
        _save_a_table(chromium, tmp_path)
    assert serious_findings(chromium, MODES if path in PAINTED else WITHOUT_CONTRAST) == {}
    assert chromium.run("return document.documentElement.scrollWidth") == MODES["phone"][0]
    assert chromium.console() == []


def _save_a_table(chromium: Browser, folder: Path) -> None:
    allowed = {"behavior": "allow", "downloadPath": str(folder)}
    chromium.driver.execute_cdp_cmd("Browser.setDownloadBehavior", allowed)
    panel = chromium.until(lambda _: chromium.run(FIRST_TABLE), "the page has no table that can be saved")
    headings = panel.find_elements("css selector", ".ag-header-cell-text")
    shown = [each.text.replace("\u2011", "-") for each in headings]  # on the page it keeps a unit on one line
    rows = len(panel.find_elements("css selector", ".ag-center-cols-container .ag-row"))
    panel.find_element("css selector", BUTTON).click()
    (file,) = chromium.until(lambda _: list(folder.glob("trackside-*.csv")), "nothing was saved")
    header, *lines = csv.reader(file.read_text("utf-8-sig").splitlines())
    units = "|".join(map(re.escape, set(EXPORTED.values())))
    assert [re.sub(rf" \(({units})\)$", "", each) for each in header] == shown
    assert len(lines) >= rows > 0
