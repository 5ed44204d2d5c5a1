"""A correction made with the mouse and the keyboard: from the run to the form, its effect, and the corrected page."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from app.corrections.records import read_corrections
from queries.warehouse import open_reader
from tests.app.explorer.conftest import Site, served

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.lab.browser import Browser

pytestmark = pytest.mark.xdist_group("browser")


@pytest.fixture
def trusted(warehouse: Path, tmp_path: Path) -> Iterator[Site]:
    """The explorer on a copy of the tiny cluster, for somebody who may correct."""
    root = shutil.copytree(warehouse, tmp_path / "w", symlinks=True)
    with served(root, trusted=True) as made:
        yield made


def interruption(root: Path) -> dict[str, Any]:
    """The first one that hardware is blamed for."""
    with open_reader(root) as reader:
        rows = reader.table("interruptions").sort("ended_at", "job_id").to_dicts()
    return next(row for row in rows if row["class"] == "infrastructure")


def corrections(root: Path) -> list[tuple[str, str]]:
    with open_reader(root) as reader:
        return [(each.author, each.reason) for each in read_corrections(reader)]


def field(name: str) -> str:
    """The selector of an input of the form about causes."""
    return f"[id='{json.dumps({'kind': 'cause', 'name': name, 'type': 'fix'}, separators=(',', ':'))}']"


def fill_in(chromium: Browser, name: str, text: str) -> None:
    chromium.click(field(name))
    chromium.driver.switch_to.active_element.send_keys(text)


def test_a_correction_is_made_from_the_run_it_is_about(trusted: Site, chromium: Browser) -> None:
    row = interruption(trusted.root)
    chromium.open(f"{trusted.url}/run?id={row['run_id']}", until=".blame")
    chromium.click(".blame .link", text="Correct its cause", holding=f"fix-attempt={row['attempt_no']}")
    filled_in = chromium.wait(field("run"))
    assert filled_in.get_attribute("value") == row["run_id"]
    assert chromium.wait(field("attempt")).get_attribute("value") == str(row["attempt_no"])

    chromium.click(field("kind"))
    chromium.click("[role=option]", text="user")
    fill_in(chromium, "cause", "wrong_flag")
    fill_in(chromium, "author", "A. Person")
    fill_in(chromium, "reason", "ticket 1234")
    chromium.click("button", text="Show its effect")
    chromium.wait_text("What it would change")
    effects = [each.text for each in chromium.all(".fix-effects li")]
    assert any(each.startswith("infrastructure interruptions: ") for each in effects)
    assert corrections(trusted.root) == []  # it is only shown

    chromium.click("button", text="Make this correction")
    chromium.wait_text("Done")
    assert corrections(trusted.root) == [("A. Person", "ticket 1234")]
    with open_reader(trusted.root) as reader:
        causes = reader.table("interruptions")["cause"].to_list()
    assert causes.count("wrong_flag") == 1
    chromium.open(f"{trusted.url}/run?id={row['run_id']}", until=".blame")
    assert "user: wrong flag" in chromium.text(".blame")
    assert chromium.console() == []


def test_a_form_without_a_reason_is_refused_in_words(trusted: Site, chromium: Browser) -> None:
    row = interruption(trusted.root)
    address = f"fix=cause&fix-run={row['run_id']}&fix-attempt={row['attempt_no']}"
    chromium.open(f"{trusted.url}/verdicts?{address}", until=field("cause"))
    fill_in(chromium, "cause", "wrong_flag")
    fill_in(chromium, "author", "A. Person")
    chromium.click("button", text="Show its effect")
    chromium.wait("[role=alert]")
    assert "Reason" in chromium.text("[role=alert]")
    assert not [each for each in chromium.all("button") if each.text == "Make this correction"]
