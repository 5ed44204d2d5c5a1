"""The page My jobs: what a user's runs cost, why they restarted, how often they should save, what they waste."""

from __future__ import annotations

from typing import TYPE_CHECKING

import dash_mantine_components as dmc
from dash import html

from app.explorer import components
from app.explorer.page import ExplorerPage
from app.explorer.questions import FILTERS, QuestionSpec, heading, section
from app.explorer.row_filters import choices
from queries.near_names import MISTYPED, near_names

if TYPE_CHECKING:
    from dash.development.base_component import Component

    from app.explorer.filters import View
    from app.explorer.page import PageData

QUESTIONS = (
    QuestionSpec("people", by="user", title="Use, and how well", name="use", chosen=False),
    QuestionSpec(
        "runs", by="run", title="Runs: what each held, and the productive share of its queued and scheduled time"
    ),
    QuestionSpec("interruptions", by="event", title="Why attempts ended, and what it cost", chosen=False),
    QuestionSpec("checkpoints", title="How often to save"),
    QuestionSpec("waste", by="run", title="Allocated time that shows no work", chosen=False),
    QuestionSpec("stalls", title="Times without a step"),
)


def _gather(data: PageData, view: View) -> list[str]:
    return data.answers.ask(choices, view.window)["user"]


def _top(names: list[str], view: View) -> Component:
    user = view.get("user")
    chooser = dmc.Select(
        id={"type": "filter", "name": "user"},
        label="User",
        data=sorted({*names, *([user] if user else [])}),
        value=user or None,
        clearable=True,
        searchable=True,
        placeholder="your user name",
        size="sm",
    )
    lead = "What each run cost, why it restarted, how often it should save, and what it wastes."
    return html.Div(
        [heading("My jobs", lead), html.Div(chooser, className="pick-user"), *_without_user(user, names, view)]
    )


MOST_NAMED = 30
"""Users up to whom each has a link; among more one searches."""


def _without_user(user: str, names: list[str], view: View) -> list[Component]:
    """The text where no user is chosen, or one without jobs."""
    if not user:
        return [_user_choice(names, view)]
    if user in names:
        return []
    alike = near_names(user, names, most=MOST_ALIKE, similarity=MISTYPED)
    links = [components.link(name, view.link("/jobs", user=name)) for name in alike]
    why = f"{view.window.cluster} has no jobs of a user {user!r} in this period."
    suggestions = [html.P("Did you mean:"), html.Div(links, className="names")] if links else []
    return [components.panel("No jobs of this user", html.P(why), *suggestions)]


MOST_ALIKE = 3
"""Users that are suggested at most."""


def _user_choice(names: list[str], view: View) -> Component:
    """How to come to one's jobs, where no user is chosen."""
    if not names:
        return html.P("No user had jobs in this period. Choose a longer one.", className="nothing")
    links = [components.link(name, view.link("/jobs", user=name)) for name in sorted(names)[:MOST_NAMED]]
    more = "" if len(names) <= MOST_NAMED else f" The first {MOST_NAMED} of {len(names):,} are here; search for others."
    why = f"Whose jobs? Choose a user.{more}"
    return components.panel("Users with jobs in this period", html.P(why), html.Div(links, className="names"))


PAGE = ExplorerPage(
    "/jobs",
    "My jobs",
    "user",
    _gather,
    _top,
    position=22,
    group="Runs",
    sections=lambda view: [section(each) for each in QUESTIONS] if view.get("user") else [],
    alone=lambda names, view: view.get("user") not in names,
    narrowed_by=FILTERS,
    questions={each.anchor: each for each in QUESTIONS},
)
