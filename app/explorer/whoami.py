"""Who is logged in, and the way out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dash import html

from app.access import people

if TYPE_CHECKING:
    from dash.development.base_component import Component


def whoami() -> Component | None:
    """Name, role and a button that ends the session; None where there is no login."""
    person = people.current()
    if not person.name:
        return None
    known = html.P(f"Logged in as {person.name} ({person.role.name.lower()}).", className="small")
    if not people.can_log_out():
        return html.Div(known, className="whoami")
    button = html.Button("Log out", type="submit", className="button")
    return html.Div([known, html.Form(button, action="/logout", method="post")], className="whoami")
