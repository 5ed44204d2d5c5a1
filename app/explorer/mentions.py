"""Commands that a text mentions between backticks: a link to the page with the same, else code that works anywhere."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from dash import html

from app.explorer import commands, components, open_pages
from app.explorer.page import pages
from app.show.registry import question_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from dash.development.base_component import Component

_SHOWN: Final = re.compile(r"trackside show (?P<question>[a-z_]+)(?: --by (?P<by>[a-z_]+))?")

_OTHERS: Final = {"trackside show runs": "/runs", "trackside status": "/quality"}
"""Commands whose page has the same, though it is no page of questions."""


def mentions(text: str, options: str, link: Callable[..., str]) -> list[Component | str]:
    """The text in parts: text between backticks as a link where a page shows it, else as code.

    A text with a single backtick, as a name may have one, stays as it is.

    Args:
        text: for people.
        options: what commands need to read the same warehouse, as in `commands.completed`.
        link: from a path and parameters to an address, as `View.link`.
    """
    parts = text.split("`")
    if len(parts) % 2 == 0:
        return [text]
    return [_mention(part, options, link) if at % 2 else part for at, part in enumerate(parts) if part]


def _mention(command: str, options: str, link: Callable[..., str]) -> Component:
    page = _OTHERS.get(command)
    if page is not None:
        return _link(page, link)
    shown = _SHOWN.fullmatch(command)
    if shown is None:
        return html.Code(commands.completed(command, options))
    question, by = shown["question"], shown["by"]
    for path, each in pages().items():
        for anchor, spec in each.questions.items():
            own = spec.by or question_of(spec.question).default
            if spec.question == question and not spec.run and (by in {None, own} or spec.chosen):
                split = {spec.parameter: by} if by not in {None, own} else {}
                return _link(path, link, anchor, **split)
    return html.Code(commands.completed(command, options))


def _link(path: str, link: Callable[..., str], anchor: str = "", **params: str) -> Component:
    """A link by the name of the page; its name alone where the current viewer may not open it."""
    name = pages()[path].name
    if not open_pages.is_open(path):
        return html.Span(name)
    return components.link(name, link(path, **params) + (f"#{anchor}" if anchor else ""))
