"""From a page of the explorer to the board of Grafana with its question: same cluster, time, run, node and user."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode, urlsplit

from dash import html

from app.explorer import components

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dash.development.base_component import Component

    from app.explorer.filters import View

BOARDS: Final[Mapping[str, str]] = {
    "/": "fleet",
    "/anomalies": "stragglers",
    "/filesystems": "fabric",
    "/gpu-time": "goodput",
    "/jobs": "jobs",
    "/node": "node",
    "/nodes": "reliability",
    "/people": "efficiency",
    "/placement": "topology",
    "/quality": "pipeline",
    "/reliability": "reliability",
    "/run": "job",
    "/runs": "jobs",
    "/today": "fleet",
    "/verdicts": "sla",
}
"""The board of a page, by its path. A page that is missing has none."""

VARIABLES: Final[Mapping[str, Mapping[str, str]]] = {
    "/run": {"id": "run"},
    "/node": {"node": "node"},
    "/jobs": {"user": "user", "partition": "partition"},
    "/runs": {"user": "user", "partition": "partition"},
}
"""What else goes along from a page: variables of the board by parameter of the address."""


def address(grafana: str, path: str, shown: View, page_url: str = "") -> str | None:
    """The address of the board of a page, or None where it has none.

    Args:
        grafana: address of Grafana, without a slash at its end.
        path: of the page.
        shown: its view.
        page_url: the page's address in the browser, so that the board's links lead back to where the visitor was.
    """
    if path not in BOARDS:
        return None
    window, origin = shown.window, urlsplit(page_url)
    params = {"var-cluster": window.cluster}
    params |= {f"var-{name}": shown.get(given) for given, name in VARIABLES.get(path, {}).items() if shown.get(given)}
    if origin.scheme in {"http", "https"} and origin.netloc:
        params["var-explorer_url"] = f"{origin.scheme}://{origin.netloc}"
    params |= {name: str(round(1000 * at.timestamp())) for name, at in (("from", window.since), ("to", window.until))}
    return f"{grafana}/d/trackside-{BOARDS[path]}?{urlencode(params)}"


def link(grafana: str | None, path: str, shown: View, page_url: str = "") -> Component | None:
    """A link to the board of a page; None where there is no Grafana or no board."""
    target = address(grafana, path, shown, page_url) if grafana else None
    if target is None:
        return None
    made = html.A(
        ["Grafana: ", BOARDS[path]],
        href=target,
        target="_blank",
        rel="noopener",
        className="to-grafana",
        title="The same cluster and time in Grafana, live and as computed at the time",
    )
    shown_link: Component = components.readable(made)
    return shown_link
