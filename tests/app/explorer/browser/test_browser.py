"""The explorer in a real browser."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

import pytest
from selenium.webdriver.common.action_chains import ActionChains

from app.explorer import filters
from app.results import headline_text
from app.results.headlines import headlines
from app.results.serving.cache import AnswerCache
from app.window import Window
from queries.warehouse import open_reader
from tests.app.explorer.conftest import NASTY, fill, served

if TYPE_CHECKING:
    from pathlib import Path

    from app.results.headlines import Headline
    from tests.app.explorer.conftest import Site
    from tests.lab.browser import Browser

pytestmark = pytest.mark.xdist_group("browser")


def expected(site: Site, search: str = "") -> tuple[Headline, ...]:
    """The headline numbers of an address, from the function itself."""
    answers = AnswerCache(site.root)
    shown = filters.resolve(answers.ask(filters.situation), filters.parameters(search))
    return answers.ask(headlines, Window(shown.window.cluster, shown.window.since, shown.window.until))


def search_of(chromium: Browser) -> dict[str, list[str]]:
    """The parameters in the address bar."""
    return parse_qs(urlsplit(str(chromium.run("return location.href"))).query)


def test_overview_shows_headlines_with_no_request_to_other_hosts(site: Site, chromium: Browser) -> None:
    chromium.requested()
    chromium.open(site.url, until=".main-svg")
    output = chromium.text(".cards")
    for each in expected(site):
        assert each.title in output
        assert headline_text.headline_value(each) in output
    chromium.wait(".ag-row")
    assert chromium.hosts() == {"127.0.0.1"}
    assert chromium.console() == []
    assert chromium.run("return document.title") == "Overview · tiny · Trackside"


def test_choosing_a_period_changes_address_and_numbers(site: Site, chromium: Browser) -> None:
    chromium.open(site.url, until=".card")
    before = chromium.text(".cards")
    chromium.click(".pick-period input")
    chromium.click("[role=option]", text="Last 7 days")
    chromium.until(lambda _: search_of(chromium) == {"since": ["7d"]}, "the address never changed")
    chromium.until(lambda _: chromium.text(".cards") != before, "the numbers never changed")
    for each in expected(site, "?since=7d"):
        assert headline_text.headline_value(each) in chromium.text(".cards")
    chromium.driver.back()
    chromium.until(lambda _: chromium.text(".cards") == before, "going back never brought the numbers back")
    assert chromium.console() == []


def test_a_copied_address_opens_the_same_view(site: Site, chromium: Browser) -> None:
    chromium.open(f"{site.url}/?since=2026-10-03&until=2026-10-06&by=node", until=".ag-row")
    assert "2026-10-03 00:00 to 2026-10-06 00:00 UTC, 3 days" in chromium.text("#filters")
    assert chromium.wait(".pick-period input").get_attribute("value") == "Custom dates"
    assert "n1" in chromium.text("#costs")


def test_a_click_on_a_day_of_the_chart_opens_that_day(site: Site, chromium: Browser) -> None:
    chromium.open(site.url, until=".leads .main-svg")
    area = chromium.wait(".leads .nsewdrag")
    chromium.run("arguments[0].scrollIntoView({block: 'center'})", area)
    ActionChains(chromium.driver).move_to_element_with_offset(area, 0, 30).pause(0.5).click().perform()
    chromium.until(lambda _: "/gpu-time" in str(chromium.run("return location.pathname")), "the click led nowhere")
    (since,), (until,) = (search_of(chromium)[name] for name in ("since", "until"))
    assert datetime.fromisoformat(until) - datetime.fromisoformat(since) == timedelta(days=1)
    assert chromium.console() == []


def test_splitting_the_costs_goes_into_the_address(site: Site, chromium: Browser) -> None:
    chromium.open(site.url, until="#costs .ag-row")
    chromium.click("#costs label", text="User")
    chromium.until(lambda _: "user1" in chromium.text("#costs"), "the table never changed")
    assert search_of(chromium) == {"by": ["user"]}


def test_a_card_opens_its_definition_with_the_keyboard(site: Site, chromium: Browser) -> None:
    chromium.open(site.url, until=".card")
    chromium.run("document.querySelectorAll('button.card')[1].focus()")
    chromium.driver.switch_to.active_element.send_keys("\n")
    chromium.wait(".drawer")
    output = chromium.text(".mantine-Drawer-content")
    assert "productive GPU-seconds / (queued + scheduled) GPU-seconds" in output
    assert "trackside show ettr --cluster tiny" in output
    assert "run_gap_hours = 24.0" in output
    chromium.driver.switch_to.active_element.send_keys("\ue00c")  # Escape
    chromium.until(lambda _: not chromium.all(".drawer"), "the drawer never closed")
    assert chromium.console() == []


def test_a_run_can_be_searched_and_its_name_stays_text(site: Site, chromium: Browser) -> None:
    chromium.open(f"{site.url}/runs?q=onerror", until=".ag-row")
    chromium.click(".ag-row .link")
    chromium.wait(".run-head")
    assert chromium.text("h1") == NASTY
    assert chromium.run("return document.querySelectorAll('#content img, h1 b').length") == 0
    assert "/run" in str(chromium.run("return location.pathname"))
    chromium.wait(".main-svg")
    assert "trackside recorder" in chromium.text("#content")
    assert chromium.console() == []


def test_typing_into_the_search_narrows_the_runs(site: Site, chromium: Browser) -> None:
    chromium.open(f"{site.url}/runs", until=".ag-row")
    chromium.wait(".filters input").send_keys("onerror")
    chromium.wait_text("1 of ")
    assert search_of(chromium) == {"q": ["onerror"]}


def test_dark_follows_the_system_and_the_choice_is_remembered(site: Site, chromium: Browser) -> None:
    def background() -> str:
        return str(chromium.run("return getComputedStyle(document.querySelector('.panel')).backgroundColor"))

    chromium.prefer(dark=True)
    chromium.open(site.url, until=".panel")
    assert background() == "rgb(26, 32, 39)"
    chromium.click("[aria-label='Switch between light and dark']")
    chromium.until(lambda _: background() == "rgb(255, 255, 255)", "it never became light")
    chromium.open(f"{site.url}/runs", until=".panel")
    assert background() == "rgb(255, 255, 255)"


def test_manual_section_is_scrolled_to(site: Site, chromium: Browser) -> None:
    chromium.open(f"{site.url}/docs/reference/metrics#mfu_wall", until=".manual table")
    chromium.until(
        lambda _: 0 <= chromium.run("return document.getElementById('mfu_wall').getBoundingClientRect().top") < 300,
        "the section never came into view",
    )
    assert chromium.console() == []
    assert "<!--" not in chromium.text(".manual")


def test_manual_with_wide_tables_fits_a_phone(site: Site, chromium: Browser) -> None:
    chromium.resize(390, 844)
    chromium.open(f"{site.url}/docs/reference/metrics", until=".manual p")
    assert chromium.run("return document.documentElement.scrollWidth") == 390


COVERED = """return [...document.querySelectorAll('.code-block')].filter(block => {
  const text = document.createRange(), copy = block.querySelector('.copy').getBoundingClientRect()
  text.selectNodeContents(block.querySelector('code'))
  return [...text.getClientRects()].some(line => line.right > copy.left && line.top < copy.bottom)
}).map(block => block.innerText)"""
"""Texts with a line that is beneath its own Copy."""


def test_copy_covers_no_command_of_a_run_on_a_phone(site: Site, chromium: Browser) -> None:
    with open_reader(site.root) as reader:
        run_id = reader.table("runs")["run_id"].sort()[-1]
    chromium.resize(390, 844)
    chromium.open(f"{site.url}/run?id={run_id}", until="#duration .code")
    assert chromium.text(".run-head .copy") == "Copy"
    assert chromium.run(COVERED) == []


def test_a_phone_has_the_navigation_behind_a_button(site: Site, chromium: Browser) -> None:
    chromium.resize(390, 844)
    chromium.open(site.url, until=".panel")
    chromium.click("[aria-label=Navigation]")
    chromium.wait(".nav-link")
    chromium.until(
        lambda _: [each for each in chromium.all(".nav-link") if each.text == "Definitions" and each.rect["x"] >= 0],
        "the navigation never came",
    )[0].click()
    chromium.wait(".definitions")


def test_a_phone_shows_state_and_hours_of_runs_first(site: Site, chromium: Browser) -> None:
    def shown() -> list[str]:
        place = "(each) => each.getBoundingClientRect().left"
        heads = f"[...document.querySelectorAll('.ag-header-cell')].map((each) => [({place})(each), each.innerText])"
        return [text.strip() for _, text in sorted(chromium.run(f"return {heads}"))[:3]]

    chromium.resize(390, 844)
    chromium.open(f"{site.url}/runs", until=".ag-row")
    phones = ["Run", "State", "GPU\N{NON-BREAKING HYPHEN}h"]
    chromium.until(lambda _: shown() == phones, "the columns were never in a phone's order")
    chromium.resize(1280, 900)
    chromium.until(lambda _: shown() == ["Run", "Name", "User"], "the columns never came back")
    assert chromium.console() == []


def test_an_anchor_of_a_definition_is_scrolled_to(site: Site, chromium: Browser) -> None:
    chromium.open(f"{site.url}/definitions#mttf", until="#mttf")
    chromium.until(
        lambda _: 0 <= float(chromium.run("return document.getElementById('mttf').getBoundingClientRect().top")) < 300,
        "it was never scrolled to",
    )


def test_an_address_that_makes_no_sense_is_answered_in_words(site: Site, chromium: Browser) -> None:
    chromium.open(f"{site.url}/?cluster=nowhere", until=".message")
    assert "there is no cluster 'nowhere'" in chromium.text("#content")
    chromium.click(".button")
    chromium.wait(".card")
    chromium.open(f"{site.url}/no/such/page", until=".message")
    assert "This page does not exist" in chromium.text("#content")


def test_empty_warehouse_shows_next_steps_and_refreshes(
    tmp_path: Path, chromium: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.explorer.shell.POLL_MS", 500)
    with served(tmp_path / "warehouse") as empty:
        chromium.open(empty.url, until=".message")
        assert "trackside ingest slurm" in chromium.text("#content")
        fill(empty.root, tmp_path / "files")
        chromium.wait(".card")
        assert chromium.console() == []


def test_the_skip_link_comes_first_and_works(site: Site, chromium: Browser) -> None:
    chromium.open(site.url, until=".card")
    chromium.driver.switch_to.active_element.send_keys("\t")
    assert chromium.driver.switch_to.active_element.text == "Skip to content"
