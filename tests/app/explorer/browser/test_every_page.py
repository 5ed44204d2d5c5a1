"""Each page in a real browser: a filter is in its address, on a chip, and comes back; its tables can be saved."""

from __future__ import annotations

import csv
import re
from typing import TYPE_CHECKING

import pytest

from app.explorer.components import EXPORTED
from app.explorer.page import pages
from tests.app.explorer.browser.test_axe import address, open_whole

if TYPE_CHECKING:
    from pathlib import Path

    from tests.app.explorer.conftest import Site
    from tests.lab.browser import Browser

pytestmark = [pytest.mark.xdist_group("browser"), pytest.mark.slow]

FILTERED = sorted(path for path, page in pages().items() if "user" in page.narrowed_by and path != "/jobs")
"""Pages that can be narrowed to a user; the page of a user has no other."""

SAVED = (
    "/", "/today", "/gpu-time", "/placement", "/jobs", "/checkpoints", "/reliability", "/nodes", "/people", "/node",
    "/run", "/runs", "/quality",
)  # fmt: skip
"""Pages of which the tiny cluster has a table: it has no telemetry, no logs, no claims, one scheduler."""

BUTTON = "[aria-label='Save the table as CSV']"

FIRST_TABLE = f"""
return [...document.querySelectorAll('.panel')].find(
  (each) => each.querySelector('.ag-row') && each.querySelector("{BUTTON}"))
"""


def search(chromium: Browser) -> str:
    """What the address says behind the path."""
    return str(chromium.run("return location.search"))


@pytest.mark.parametrize("path", FILTERED)
def test_a_filter_can_be_linked_taken_off_and_brought_back(path: str, site: Site, chromium: Browser) -> None:
    of_page = address(path)
    joint = "&" if "?" in of_page else "?"
    open_whole(chromium, f"{site.url}{of_page}{joint}user=user1")
    assert "User: user1" in chromium.text(".chips")
    assert not chromium.all(".error-text")
    chromium.click(".chip")
    chromium.until(lambda _: "user" not in search(chromium), "the filter stays in the address")
    chromium.until(lambda _: not chromium.all(".chips"), "the chip stays")
    chromium.run("history.back()")
    chromium.until(lambda _: "user=user1" in search(chromium), "the back button forgot the filter")
    chromium.wait(".chips")
    assert chromium.console() == []


@pytest.mark.parametrize("path", SAVED)
def test_a_table_is_saved_as_it_stands(path: str, site: Site, chromium: Browser, tmp_path: Path) -> None:
    allowed = {"behavior": "allow", "downloadPath": str(tmp_path)}
    chromium.driver.execute_cdp_cmd("Browser.setDownloadBehavior", allowed)
    open_whole(chromium, site.url + address(path))
    panel = chromium.until(lambda _: chromium.run(FIRST_TABLE), f"{path} has no table that can be saved")
    shown = [each.text for each in panel.find_elements("css selector", ".ag-header-cell-text")]
    rows = len(panel.find_elements("css selector", ".ag-center-cols-container .ag-row"))
    panel.find_element("css selector", BUTTON).click()
    (file,) = chromium.until(lambda _: list(tmp_path.glob("trackside-*.csv")), "nothing was saved")
    header, *lines = csv.reader(file.read_text("utf-8-sig").splitlines())
    units = "|".join(map(re.escape, set(EXPORTED.values())))
    assert [re.sub(rf" \(({units})\)$", "", each) for each in header] == shown
    assert len(lines) >= rows > 0
