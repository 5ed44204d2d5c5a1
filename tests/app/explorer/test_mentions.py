"""Commands that notes mention: no backtick is shown, and what a page has is a link to it."""

from __future__ import annotations

from typing import Any

import pytest
from dash import dcc, html

from app.access.people import Person, Role
from app.explorer.filters import address
from app.explorer.mentions import mentions
from tests.app.explorer.test_gate import seen_by


def link(path: str, **params: str) -> str:
    return address(path, {"cluster": "c"} | params)


def mention(text: str) -> Any:
    before, made, after = mentions(f"See `{text}` there.", "--warehouse /w", link)
    assert (before, after) == ("See ", " there.")
    return made


@pytest.mark.parametrize(
    ("command", "name", "href"),
    [
        ("trackside show mttf --by law", "Reliability", "/reliability?cluster=c&by-mttf=law#mttf"),
        ("trackside show runs", "Runs", "/runs?cluster=c"),
        ("trackside status", "Data quality", "/quality?cluster=c"),
    ],
)
def test_a_mentioned_command_leads_to_its_page(command: str, name: str, href: str) -> None:
    made = mention(command)
    assert type(made) is dcc.Link
    assert (made.children, getattr(made, "href", "")) == (name, href)


def test_a_mention_without_a_page_is_code_that_works() -> None:
    made = mention("trackside compute")
    assert isinstance(made, html.Code)
    assert made.children == "trackside compute --warehouse /w"
    assert mention("scontrol show topology").children == "scontrol show topology"


def test_a_mention_of_a_closed_page_is_its_name() -> None:
    with seen_by(Person("ada", Role.VIEWER, ("research",))):
        assert isinstance(mention("trackside status"), html.Span)


def test_a_lone_backtick_stays() -> None:
    assert mentions("a name with ` in it", "", link) == ["a name with ` in it"]
