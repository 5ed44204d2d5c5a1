"""What a person should do: a list of things, each with why, the page with more, and the command."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dash import html

from app.explorer import components

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dash.development.base_component import Component

    from app.explorer.filters import View


@dataclass(frozen=True)
class Task:
    """Something that a person should do now: what, why, the command, and the page with more, by its name."""

    what: str
    why: str
    command: str = ""
    href: str = ""
    page: str = ""


def listed(tasks: Sequence[Task], view: View) -> Component:
    """The list; its commands read the same warehouse as the page."""
    items = [
        html.Li(
            [
                html.Div(
                    [html.B(each.what), components.link(each.page, each.href) if each.href else None],
                    className="blame-head",
                ),
                html.P(each.why, className="small"),
                components.code(view.completed(each.command)) if each.command else None,
            ]
        )
        for each in tasks
    ]
    return html.Ol(items, className="blame tasks")
