"""Sections of a page in a browser: what is loading says so, can be stopped, and keeps nothing else waiting."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from app.explorer.pages import overview
from tests.app.explorer.conftest import open_whole

if TYPE_CHECKING:
    from collections.abc import Callable

    import polars as pl

    from app.window import Window
    from queries.warehouse import Reader
    from tests.app.explorer.conftest import Site
    from tests.lab.browser import Browser

pytestmark = pytest.mark.xdist_group("browser")

SLOW = "SELECT SUM(a.range * b.range) AS n FROM range(3000000) AS a, range(3000000) AS b"


def test_a_slow_section_is_stopped_and_requested_again(
    site: Site, chromium: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick = overview.interruption_counts

    def slow(reader: Reader, window: Window) -> pl.DataFrame:
        reader.frame(SLOW)
        return quick(reader, window)

    monkeypatch.setattr(overview, "interruption_counts", slow)
    chromium.open(f"{site.url}/?until=2026-10-09", until="#costs .ag-row")
    assert "Interruptions per day\nLoading tiny, 2026-10-01 to 2026-10-09" in chromium.text("#by-day")
    chromium.wait("#by-day .elapsed")
    chromium.click("#by-day button")
    chromium.until(lambda _: "This question was stopped." in chromium.text("#by-day"), "it was never stopped")
    monkeypatch.setattr(overview, "interruption_counts", quick)
    chromium.click("#by-day button")
    chromium.wait("#by-day .main-svg")
    assert chromium.console() == []


def held(gate: threading.Event) -> Callable[[Reader, Window], pl.DataFrame]:
    quick = overview.interruption_counts

    def wait(reader: Reader, window: Window) -> pl.DataFrame:
        assert gate.wait(60)
        return quick(reader, window)

    return wait


def test_no_old_number_stays_under_a_new_period(site: Site, chromium: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    chromium.open(site.url, until="#by-day .main-svg")
    gate = threading.Event()
    monkeypatch.setattr(overview, "interruption_counts", held(gate))
    chromium.click(".pick-period input")
    chromium.click("[role=option]", text="Last 7 days")
    chromium.until(lambda _: "Loading tiny, 2026-10-08 to 2026-10-15" in chromium.text("#by-day"), "no word on loading")
    assert not chromium.all("#by-day .main-svg")
    gate.set()
    chromium.wait("#by-day .main-svg")
    assert chromium.console() == []


def test_a_table_is_whole_on_paper(site: Site, chromium: Browser) -> None:
    chromium.open(f"{site.url}/runs", until=".ag-row")
    assert len(chromium.all(".ag-row")) < 100
    printed = "window.dispatchEvent(new Event('beforeprint')); return document.querySelectorAll('.paper td').length"
    shown = "return document.querySelectorAll('.ag-header-cell-text').length"
    assert chromium.run(printed) == 200 * chromium.run(shown)  # at once: a printer does not wait
    first = "return document.querySelector('.paper tbody tr').innerText"
    assert chromium.text(".ag-row[row-index='0'] .ag-cell") in chromium.run(first)
    chromium.run("window.dispatchEvent(new Event('afterprint'))")
    assert not chromium.all(".paper")
    assert chromium.console() == []


def test_tables_of_many_columns_are_closer_on_paper(site: Site, chromium: Browser) -> None:
    open_whole(chromium, f"{site.url}/gpu-time")
    chromium.run("window.dispatchEvent(new Event('beforeprint'))")
    columns = "[each.querySelectorAll('th').length, each.classList.contains('many')]"
    tables = chromium.run(f"return [...document.querySelectorAll('.paper')].map((each) => {columns})")
    assert {many for _, many in tables} == {False, True}
    assert all(many == (n > 11) for n, many in tables)
    chromium.run("window.dispatchEvent(new Event('afterprint'))")


def test_a_dark_page_is_printed_light(site: Site, chromium: Browser) -> None:
    ink = "return getComputedStyle(document.querySelector('h1')).color"
    chromium.open(f"{site.url}/runs", until=".ag-row")
    light = chromium.run(ink)
    chromium.run("localStorage.setItem('mantine-color-scheme-value', 'dark')")
    chromium.open(f"{site.url}/runs?sort=hours", until=".ag-row")
    dark = chromium.run(ink)
    assert dark != light
    chromium.run("window.dispatchEvent(new Event('beforeprint')); window.dispatchEvent(new Event('beforeprint'))")
    assert chromium.run(ink) == light, "light ink on white paper cannot be read"
    chromium.run("window.dispatchEvent(new Event('afterprint'))")
    assert chromium.run(ink) == dark
    assert chromium.console() == []


def test_a_chart_is_not_wider_than_the_paper(site: Site, chromium: Browser) -> None:
    width = "return document.querySelector('.main-svg').getBoundingClientRect().width"
    zoom = "return document.querySelector('.svg-container').style.zoom"
    chromium.resize(1900, 1000)
    chromium.open(f"{site.url}/run?id=1", until=".js-plotly-plot .main-svg")
    chromium.until(lambda _: chromium.run(width) > 1200, "the chart is as narrow as in the window before")
    chromium.run("window.dispatchEvent(new Event('beforeprint'))")
    assert chromium.run(width) == pytest.approx(1000, abs=2)
    chromium.run("window.dispatchEvent(new Event('afterprint'))")
    assert chromium.run(zoom) == ""
    assert chromium.console() == []


def test_attempts_of_a_run_are_drawn_before_one_scrolls_to_them(site: Site, chromium: Browser) -> None:
    chromium.open(f"{site.url}/run?id=1", until=".run-head")
    chromium.until(
        lambda _: chromium.run("return document.querySelectorAll('#content .ag-row').length") > 0, "no row was drawn"
    )
    assert chromium.run("return window.scrollY") == 0
