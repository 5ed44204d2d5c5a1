"""The frame around every page: header, navigation, filters, freshness, the drawer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode, urlsplit, urlunsplit

import dash_mantine_components as dmc
from dash import dcc, html

from app.explorer import components, open_pages, row_filters, zones
from app.explorer import filters as view
from app.explorer.page import pages
from app.explorer.pages import manual
from app.explorer.whoami import whoami
from app.results import headline_text
from ingest.counted import counted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dash.development.base_component import Component

    from app.explorer.filters import View
    from app.explorer.page import ExplorerPage

NAVBAR = {"width": 216, "breakpoint": "sm", "collapsed": {"mobile": True}}

POLL_MS = 15_000
"""How often a page checks for newer data."""

THEME = {
    "primaryColor": "blue",
    "fontFamily": "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', 'Liberation Sans', Arial, sans-serif",
    "fontFamilyMonospace": "ui-monospace, SFMono-Regular, Menlo, Consolas, 'Liberation Mono', monospace",
    "defaultRadius": "md",
    "cursorType": "pointer",
    "respectReducedMotion": True,
}


def layout(favicon: str) -> Component:
    """What stays while pages change."""
    header = dmc.AppShellHeader(
        html.Div(
            [
                dmc.Burger(
                    id="burger",
                    opened=False,
                    hiddenFrom="sm",
                    size="sm",
                    **components.aria({"aria-label": "Navigation"}),
                ),
                dcc.Link(
                    [html.Img(src=favicon, alt="", width=26, height=26), html.Span("Trackside")],
                    href="/",
                    className="brand",
                ),
                html.Span("every GPU-second, accounted for once", className="motto"),
                html.Div(
                    [
                        dmc.Button(
                            "New data",
                            id="refresh",
                            size="compact-sm",
                            variant="light",
                            className="refresh",
                            style=_HIDDEN,
                        ),
                        dmc.ColorSchemeToggle(
                            lightIcon=components.icon("sun"),
                            darkIcon=components.icon("moon"),
                            variant="default",
                            size="lg",
                            **components.aria({"aria-label": "Switch between light and dark"}),
                        ),
                    ],
                    className="header-right",
                ),
            ],
            className="header",
        )
    )
    made: Component = dmc.MantineProvider(
        [
            dcc.Location(id="url", refresh="callback-nav"),
            dcc.Store(id="version"),
            dcc.Store(id="page-title"),
            dcc.Interval(id="poll", interval=POLL_MS),
            html.A("Skip to content", href="#main", className="skip"),
            dmc.AppShell(
                [
                    header,
                    dmc.AppShellNavbar(html.Div(id="nav", className="nav"), **components.aria({"aria-label": "Pages"})),
                    dmc.AppShellMain(
                        [
                            html.Div(id="filters"),
                            html.Div(id="content", className="content", **components.aria({"aria-live": "polite"})),
                        ],
                        id="main",
                        tabIndex=-1,
                    ),
                ],
                id="shell",
                header={"height": 56},
                navbar=NAVBAR,
                padding="md",
            ),
            dmc.Drawer(
                id="drawer",
                opened=False,
                position="right",
                size="min(38rem, 100vw)",
                title="",
                overlayProps={"backgroundOpacity": 0.35},
                closeButtonProps={"aria-label": "Close"},
            ),
        ],
        theme=THEME,
        defaultColorScheme="auto",
    )
    return made


_HIDDEN = {"display": "none"}


def navigation(path: str, shown: View | None) -> Component:
    """Links to pages, with the same cluster and period, and beneath them how fresh the data are."""
    pages_by_path = pages()
    home = pages_by_path[path].parent or path if path in pages_by_path else path
    links: list[Component] = []
    group = ""
    for target, each in pages_by_path.items():
        if each.icon is None or not open_pages.is_open(target):
            continue
        if each.group != group:
            group = each.group
            links.append(html.H2(group, className="nav-group"))
        links.append(_nav_link(target, each, shown, active=target == home))
    return html.Div(
        [
            html.Div(
                [
                    html.Nav(links, **components.aria({"aria-label": "Pages"})),
                    html.P(manual.about(path), className="about small"),
                ]
            ),
            html.Div([_freshness(shown) if shown is not None else None, whoami()]),
        ]
    )


def _nav_link(target: str, page: ExplorerPage, shown: View | None, *, active: bool) -> Component:
    kept = {} if shown is None else {name: shown.params[name] for name in page.narrowed_by if name in shown.params}
    return dcc.Link(
        [components.icon(page.icon or ""), html.Span(page.name)],
        href=shown.link(target, **kept) if shown is not None else target,
        className="nav-link active" if active else "nav-link",
        title=f"{page.name} (this page)" if active else page.name,
    )


def _picker(name: str, values: list[str], shown: View) -> Component:
    made: Component = dmc.Select(
        id={"type": "filter", "name": name},
        data=sorted({*values, *filter(None, [shown.get(name)])}),
        value=shown.get(name) or None,
        placeholder=f"any {row_filters.label(name).lower()}",
        clearable=True,
        searchable=True,
        size="sm",
        className="pick-one",
        **components.aria({"aria-label": row_filters.label(name)}),
    )
    return made


def _zone_picker(shown: View) -> Component:
    made: Component = dmc.Select(
        id={"type": "filter", "name": f"zone={zones.UTC_NAME}"},
        data=list(zones.names()),
        value=shown.zone_name,
        allowDeselect=False,
        searchable=True,
        limit=MOST_ZONES,
        size="sm",
        className="pick-zone",
        nothingFoundMessage="No such time zone",
        leftSection=components.icon("clock"),
        **components.aria({"aria-label": "Time zone"}),
    )
    return made


MOST_ZONES = 100
"""Zones that the list shows at once; typing finds the others."""


def _in_zone(shown: View) -> Component | None:
    """Which times are in the chosen zone, and which are not."""
    if shown.in_utc:
        return None
    return html.Span(
        f"Dates of the period and times in tables are in {shown.zone_name}. "
        "Sums by day, charts and saved tables are in UTC.",
        className="zone-note",
    )


def _chips(shown: View, page: ExplorerPage) -> Component | None:
    """Filters of the address beyond cluster and period, each of which can be taken off."""
    chips = []
    for name in page.narrowed_by:
        value = shown.get(name)
        if value:
            others = {key: each for key, each in shown.params.items() if key != name}
            words = f"{row_filters.label(name)}: {row_filters.value_label(name, value)}"
            inside: list[Component | str] = [
                words,
                components.icon("cross"),
                html.Span("take off this filter", className="visually-hidden"),
            ]
            chips.append(dcc.Link(inside, href=view.address(page.path, others), className="chip"))
    return html.Div([html.Span("Filters", className="small"), *chips], className="chips") if chips else None


def without_effect(shown: View, values_of: Mapping[str, list[str]]) -> list[str]:
    """Filters of the address with a value that no run has."""
    chosen = [name for name in row_filters.OF_RUNS if name in values_of and shown.get(name)]
    return [
        f"No run of this period has the {row_filters.LABELS.get(name, name)} {shown.get(name)!r}."
        for name in chosen
        if shown.get(name) not in values_of[name]
    ]


def _freshness(shown: View) -> Component:
    state = shown.state
    behind = (
        html.P(f"{counted(state.newer_loads, 'load')} since: run trackside compute", className="stale")
        if state.newer_loads
        else None
    )
    return html.Div(
        [
            html.H2("As of"),
            components.facts(
                [
                    ("Data until", shown.moment(state.until)),
                    ("Computed", shown.moment(state.computed_at)),
                    ("Data version", str(shown.situation.data_version)),
                ]
            ),
            html.P(f"Times: {shown.zone_name}.", className="small"),
            behind,
        ],
        className="as-of",
    )


def _copy_link(shown: View, page_url: str) -> Component | None:
    """Copies the page's address with the data version that it shows."""
    if not page_url:
        return None
    parts = urlsplit(page_url)
    params = view.parameters(parts.query) | {VERSION: str(shown.situation.data_version)}
    made: Component = dmc.CopyButton(
        value=urlunsplit(parts._replace(query=urlencode(params))),
        children="Copy link",
        copiedChildren="Copied",
        size="compact-xs",
        variant="default",
        color="gray",
        copiedColor="teal",
    )
    return made


VERSION: Final = "data_version"
"""The parameter of a copied address with the version of its data."""


def _of_other_data(shown: View) -> Component | None:
    """That the numbers may differ from those that whoever copied the link saw."""
    linked, version = shown.get(VERSION), str(shown.situation.data_version)
    if not linked or linked == version:
        return None
    return html.Span(
        f"This link was copied from data version {linked[:20]}; these are the numbers of version {version}.",
        className="stale",
    )


def filters(
    shown: View,
    page: ExplorerPage,
    values_of: Mapping[str, list[str]],
    to_grafana: Component | None = None,
    *,
    page_url: str = "",
) -> Component:
    """Cluster and period, and what they come to in words; filters of the address.

    Args:
        shown: the current view.
        page: the current page.
        values_of: what can be chosen beside cluster and period: filter -> values.
        to_grafana: link to the board of the page.
        page_url: the whole address, as the browser has it.
    """
    offered = view.periods(shown.state, shown.zone)
    chosen = view.period_of(shown)
    choices = [{"value": key, "label": label} for key, (label, _) in offered.items()]
    choices.append({"value": view.CUSTOM, "label": "Custom dates"})
    since, until = shown.window.since, shown.window.until
    clusters = [each.cluster for each in shown.situation.computed]
    length = headline_text.days((until - since).total_seconds())
    partial = (
        html.Span(f"The data cover {headline_text.share(shown.whole)} of the requested period.", className="stale")
        if shown.whole < 1
        else None
    )
    return html.Div(
        [
            html.Div(
                [
                    dmc.Select(
                        id={"type": "filter", "name": "cluster"}, data=clusters, value=shown.window.cluster, size="sm",
                        allowDeselect=False, searchable=len(clusters) > 8, className="pick-cluster",
                        leftSection=components.icon("cluster"), **components.aria({"aria-label": "Cluster"}),
                    ),
                    dmc.Select(
                        id={"type": "filter", "name": "period"}, data=choices, value=chosen, size="sm",
                        allowDeselect=False, className="pick-period", maxDropdownHeight=320,
                        leftSection=components.icon("calendar"), **components.aria({"aria-label": "Period"}),
                    ),
                    dmc.DatePickerInput(
                        id={"type": "filter", "name": "dates"},
                        type="range",
                        value=view.days(shown.window, shown.zone),
                        minDate=zones.local(shown.state.since, shown.zone).strftime("%Y-%m-%d"),
                        maxDate=zones.local(shown.state.until, shown.zone).strftime("%Y-%m-%d"),
                        valueFormat="D MMM YYYY",
                        size="sm",
                        allowSingleDateInRange=True,
                        className="pick-dates",
                        **components.aria({"aria-label": f"From and to, days in {shown.zone_name}"}),
                    ),
                    _zone_picker(shown),
                    *[_picker(name, values, shown) for name, values in values_of.items()],
                ],
                className="pickers",
            ),
            html.Div(
                [
                    html.Span(f"{shown.moment(since)} to {shown.moment(until)} {shown.zone_name}, {length}"),
                    _in_zone(shown),
                    partial,
                    _of_other_data(shown),
                    to_grafana,
                    _copy_link(shown, page_url),
                ],
                className="period-text",
            ),
            _chips(shown, page),
            *[html.P(each, className="stale") for each in without_effect(shown, values_of)],
        ],
        className="filter-bar",
    )  # fmt: skip
