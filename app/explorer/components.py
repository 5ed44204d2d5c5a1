"""Building blocks of pages: panels, badges, bars, tables, messages. No data is read here."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import dash_ag_grid as dag
import dash_mantine_components as dmc
from dash import dcc, html
from dash.development.base_component import Component

from app.explorer import phone_columns, wording, zones
from app.formatting import minute
from app.results import headline_text
from app.visible import visible
from dashboards import palette

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import tzinfo

    import plotly.graph_objects as go
    import polars as pl

    from app.results.headlines import Headline

    Child = Component | str | None

ROWS_SHOWN = 5_000
"""Most rows of a table; a reader finds others with filters."""


def aria(attributes: dict[str, str]) -> dict[str, Any]:
    """Attributes whose names are no Python names, to pass on with `**`."""
    return dict(attributes)


def icon(name: str) -> Component:
    """A small picture in the colour of the text around it; text next to it always carries the meaning."""
    return html.Span(className=f"ts-icon ts-icon-{name}", **aria({"aria-hidden": "true"}))


def panel(title: str, *children: Child, note: Child = None, right: Child = None, name: str = "") -> Component:
    """A titled card."""
    heading = html.Div(
        [
            html.Div([html.H2(title, className="panel-title"), html.P(note, className="small") if note else None]),
            html.Div(right, className="panel-right") if right else None,
        ],
        className="panel-head",
    )
    extra: dict[str, Any] = {"id": name} if name else {}
    return html.Section([heading, *children], className="panel", **aria({"aria-label": title}), **extra)


def link(text: str, href: str, *, class_name: str = "link") -> Component:
    """A link within the explorer, without loading the page anew."""
    return dcc.Link(text, href=href, className=class_name)


def code(text: str, *, language: str = "bash") -> Component:
    """A command or query to copy."""
    return html.Div(
        [
            html.Pre(html.Code(text, className=f"language-{language}"), className="code", tabIndex=0),
            dmc.CopyButton(
                value=text, children="Copy", copiedChildren="Copied", size="compact-xs", variant="default",
                color="gray", copiedColor="teal", className="copy",
            ),
        ],
        className="code-block",
    )  # fmt: skip


def verdict_badge(verdict: str, target: str = "", *, word_shown: str = "") -> Component:
    """A verdict as icon, word and colour; `word_shown` is a more specific word, such as "refuted as read"."""
    picture, colour, word = palette.VERDICTS[verdict]
    word = word_shown or word
    made: Component = dmc.Badge(
        [icon(picture), f" {word}"],
        color=colour,
        variant="light",
        size="sm",
        radius="sm",
        className=f"verdict verdict-{verdict}",
        **aria({"aria-label": f"claim {target}: {word}" if target else word}),
    )
    return made


_CALM = {"COMPLETED": "teal", "RUNNING": "blue", "PENDING": "gray", "CANCELLED": "gray", "PREEMPTED": "yellow",
         "LOG ONLY": "gray"}  # fmt: skip


def state_badge(state: str) -> Component:
    """A scheduler state as a word, with a colour."""
    made: Component = dmc.Badge(state, color=_CALM.get(state, "red"), variant="light", size="sm", radius="sm")
    return made


def span_bar(
    low: float | None, high: float | None, *, value: float | None, target: float | None, top: float, what: str
) -> Component:
    """A range on a scale from 0 to `top`: what is between the ends, where the value is, where the target is.

    Args:
        low: lower end; None draws no range.
        high: upper end; None reaches to the end of the scale.
        value: marked if there is one.
        target: marked if there is one.
        top: end of the scale.
        what: the same as text, for screen readers.
    """

    def at(number: float) -> str:
        return f"{min(max(number / top, 0.0), 1.0) * 100:.2f}%"

    marks: list[Component] = []
    if low is not None:
        end = top if high is None else high
        width = max(min(end, top) - low, 0.0) / top * 100
        open_end = " open" if high is None or high > top else ""
        marks.append(html.Span(className=f"span-range{open_end}", style={"left": at(low), "width": f"{width:.2f}%"}))
    if value is not None:
        marks.append(html.Span(className="span-value", style={"left": at(value)}))
    if target is not None:
        marks.append(html.Span(className="span-target", style={"left": at(target)}))
    return html.Span(marks, className="span-bar", role="img", **aria({"aria-label": what}))


def evidence_strip(evidence: Sequence[tuple[str, float]]) -> Component:
    """Shares by kind of evidence, as a strip with words beneath."""
    if not evidence:
        return html.Span(className="evidence")
    words = [f"{kind} {headline_text.share(part)}" for kind, part in evidence]
    dotted = [f"{word} ·" for word in words[:-1]] + words[-1:]
    text = [each for word in dotted for each in (" ", html.Span(word, className="unbroken"))]
    segments = [
        html.Span(style={"flexGrow": part, "background": palette.EVIDENCE_COLOURS[kind]}) for kind, part in evidence
    ]
    strip = html.Span(segments, className="evidence-strip", **aria({"aria-hidden": "true"}))
    return html.Span([strip, html.Span(text, className="small")], className="evidence")


def dot(swatch: palette.Swatch) -> Component:
    """The colour of a category."""
    hatch = " hatched" if swatch.hatched else ""
    return html.Span(className=f"dot{hatch}", style={"backgroundColor": swatch.colour}, **aria({"aria-hidden": "true"}))


def stacked_bar(
    parts: Sequence[tuple[str, float]], whole: float, *, href: Callable[[str], str] | None = None
) -> Component:
    """GPU-hours by category as one bar that is `whole` long, with names where they fit and a legend beneath.

    Args:
        parts: category and its GPU-hours, in any order.
        whole: GPU-hours of the whole bar.
        href: from a category to the page about it; None: its definition.
    """
    held = dict(parts)
    shown = [(palette.swatch(name), held[name]) for name in (*palette.ORDER, *sorted(set(held) - set(palette.ORDER)))
             if held.get(name)]  # fmt: skip
    states = [(state, sum(hours for swatch, hours in shown if swatch.state == state)) for state in palette.STATES]
    braces = [
        html.Span(
            html.Span(f"{palette.STATES[state]} {headline_text.share(hours / whole)}" if hours / whole > 0.09 else ""),
            className="brace",
            style={"flexGrow": hours},
        )
        for state, hours in states
        if hours
    ]
    segments = [
        html.Span(
            html.Span(headline_text.share(hours / whole)) if hours / whole > 0.045 else "",
            className=f"segment{' hatched' if swatch.hatched else ''}",
            style={"flexGrow": hours, "backgroundColor": swatch.colour, "color": swatch.ink},
            title=f"{swatch.label}: {headline_text.hours(hours)} GPU-h, {headline_text.share(hours / whole)}",
        )
        for swatch, hours in shown
    ]
    legend = [
        dcc.Link(
            [dot(swatch), html.Span(swatch.label), html.B(headline_text.share(hours / whole))],
            href=f"/definitions#{swatch.name}" if href is None else href(swatch.name),
            className="legend-item",
            title=f"{headline_text.hours(hours)} GPU-h. {swatch.meaning}",
        )
        for swatch, hours in shown
    ]
    description = ", ".join(f"{swatch.label} {headline_text.share(hours / whole)}" for swatch, hours in shown)
    return html.Div(
        [
            html.Div(braces, className="braces", **aria({"aria-hidden": "true"})),
            html.Div(segments, className="stacked-bar", role="img", **aria({"aria-label": description})),
            html.Div(legend, className="legend"),
        ]
    )


FILLED, FILLED_WARNING = "#0072b2", "#b35c00"
"""Of buttons with white words, which have too little contrast on the library's own colours."""


def chooser(name: str, labels: Mapping[str, str], value: str | None, described: str) -> Component:
    """Buttons of which one is chosen: a filter of the address.

    Args:
        name: of the filter, `name=default` where it has a default.
        labels: its values, with their texts.
        value: the one chosen.
        described: what is chosen, for screen readers.
    """
    made: Component = dmc.SegmentedControl(
        id={"type": "filter", "name": name},
        data=[{"value": each, "label": label} for each, label in labels.items()],
        value=value,
        size="xs",
        **aria({"aria-label": described}),
    )
    return made


def figure(made: go.Figure, name: str, description: str, *, leads: bool = False) -> Component:
    """A chart with a description for screen readers.

    Args:
        made: the chart.
        name: of the chart, one of the page.
        description: for screen readers.
        leads: whether a click on a bar goes to the address that it has as `customdata`.
    """
    config: Any = {
        "displaylogo": False,
        "responsive": True,
        "modeBarButtons": [["toImage", "resetScale2d"]],
        "toImageButtonOptions": {"format": "svg", "filename": f"trackside-{name}"},
    }
    graph = dcc.Graph(
        id={"type": "leads", "name": name} if leads else name,
        figure=made,
        config=config,
        className="chart leads" if leads else "chart",
        style={"height": f"{made.layout.height}px"},
    )
    return html.Div(graph, role="figure", **aria({"aria-label": description}))


def column(name: str, heading: str, unit: str = "text", **more: Any) -> dict[str, Any]:
    """A column of `grid`.

    Args:
        name: column of the rows.
        heading: the title of the column.
        unit: text, words (names of `wording`), time, run (a run's id, shown short), or a unit of
            `app.console.display`; these are right-aligned.
        more: further options of AG Grid, such as `width`, `href` (a column with addresses) or `bar` (a share).
    """
    made: dict[str, Any] = {"field": name, "headerName": heading, "unit": unit, **more}
    return made


def grid(
    rows: pl.DataFrame,
    columns: Sequence[dict[str, Any]],
    *,
    name: str,
    height: int | None = None,
    empty: str = "Nothing in this period.",
    zone: tzinfo = UTC,
    first: Sequence[str] = (),
) -> Component:
    """A sortable table with an export button.

    Times are shown in `zone`; sorted and exported, they are UTC. A phone shows the columns named by `first` first.

    Each cell carries its number (for sorting and export) and its text (as every other page writes it). Texts are never
    read as markup.
    """
    if rows.is_empty():
        return html.P(empty, className="nothing")
    shown = zones.local_times(rows.head(ROWS_SHOWN), zone)
    definitions = [_definition(each) for each in columns]
    phone_columns.place_columns(definitions, first, [False] * len(definitions))
    table = table_of(definitions, _cells(shown, columns), name=name, height=height)
    cut = f"The first {shown.height:,} of {rows.height:,} rows. Narrow the filters to see others."
    more = html.P(cut, className="small") if rows.height > shown.height else None
    return html.Div([table, more], className="grid-box")


def table_of(
    definitions: list[dict[str, Any]], cells: list[dict[str, Any]], *, name: str, height: int | None
) -> Component:
    """AG Grid as every page has it; `_row` of the cells, where they have it, names a row for its clicks."""
    low = len(cells) <= LOW or height is None
    definitions = [_flexible(each) | {"headerName": unbroken(each["headerName"])} for each in definitions]
    named: dict[str, Any] = {"getRowId": "params.data._row"} if cells and "_row" in cells[0] else {}
    made: Component = dag.AgGrid(
        id={"type": "grid", "name": name},
        rowData=cells,
        columnDefs=definitions,
        defaultColDef={"sortable": True, "resizable": True, "suppressMovable": True, "minWidth": NARROWEST,
                       "wrapHeaderText": True, "autoHeaderHeight": True, "suppressHeaderMenuButton": True,
                       "cellDataType": False},  # else yes and no become boxes that look as if they could be ticked
        dashGridOptions={
            "theme": {"function": "trackside(themeQuartz)"},
            "domLayout": "autoHeight" if low else "normal",
            "suppressCellFocus": False,
            "enableCellTextSelection": True,
            "ensureDomOrder": True,
            "animateRows": False,
            "rowBuffer": ROWS_BEYOND,
            "suppressColumnVirtualisation": True,
            "suppressFieldDotNotation": True,
        },
        eventListeners={"columnEverythingChanged": ["arranged(params)"]},
        csvExportParams={
            "fileName": f"trackside-{name}.csv",
            "processCellCallback": {"function": "plain(params)"},
            "processHeaderCallback": {"function": "withUnit(params)"},
        },
        className="grid",
        style={"height": None if low else f"{height}px", "width": "100%"},
        **named,
    )  # fmt: skip
    return made


ROWS_BEYOND: Final = 2
"""Rows that a table draws above and below those in sight: each has a dozen elements, and scrolling draws more."""

NARROWEST: Final = 70
"""Least width of a column in pixels, unless it sets its own."""


def _flexible(definition: dict[str, Any]) -> dict[str, Any]:
    """A column that takes its share of a table's width, by the width that it requests.

    The table lays columns out by their shares while it draws, however narrow or hidden it still is. Columns that were
    fitted afterwards were drawn twice, and on a slow machine fitted to a table that had no width yet.
    """
    if definition.get("flex"):
        return definition
    width = definition.get("width") or definition.get("minWidth") or NARROWEST
    others = {key: value for key, value in definition.items() if key != "width"}
    return others | {"flex": width / 100}


def unbroken(heading: str) -> str:
    r"""A heading that is not broken within a unit (`withUnit` in grid.js writes files with plain hyphens).

    >>> unbroken("Lost GPU-h") == "Lost GPU\u2011h", unbroken("in-house")
    (True, 'in-house')
    """
    return heading.replace("GPU-", "GPU\N{NON-BREAKING HYPHEN}")


LOW = 12
"""Up to so many rows a table is as high as its rows."""


def export_button(name: str) -> Component:
    """Saves the table of that name as CSV."""
    made: Component = dmc.Button(
        [icon("download"), " CSV"],
        id={"type": "export", "name": name},
        size="compact-xs",
        variant="default",
        **aria({"aria-label": "Save the table as CSV"}),
    )
    return made


def _definition(column: Mapping[str, Any]) -> dict[str, Any]:
    made = {key: value for key, value in column.items() if key not in {"unit", "href", "bar", "swatch"}}
    context = {key: column[key] for key in ("href", "bar", "swatch") if key in column}
    if context:
        made |= {"cellRenderer": "Cell", "cellRendererParams": context}
    else:
        made["valueFormatter"] = {"function": "formatted(params)"}
    if column["unit"] not in {"text", "words", "time", "run"}:
        made |= {"type": "rightAligned"}
    made["context"] = unit_of_file(column["headerName"], column["unit"])
    if column["unit"] in {"text", "run"}:
        made.setdefault("tooltipValueGetter", {"function": "whole(params)"})
    return made


def _cells(rows: pl.DataFrame, columns: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    units = {column["field"]: column["unit"] for column in columns}
    extra = {column[key] for column in columns for key in ("href", "swatch") if key in column} - set(units)
    made = []
    for row in rows.iter_rows(named=True):
        cells: dict[str, Any] = {name: row[name] for name in extra}
        for name, unit in units.items():
            cells[name] = plain(row[name], unit)
            if unit != "text":
                cells[f"{name}__text"] = visible(_text(row[name], unit))
            if unit in {"text", "run"} and isinstance(row[name], str) and visible(row[name]) != row[name]:
                cells[f"{name}__whole"] = visible(row[name])
                cells.setdefault(f"{name}__text", visible(row[name]))
        made.append(cells)
    return made


EXPORTED: Final[Mapping[str, str]] = {
    "seconds": "s",
    "latency": "s",
    "bytes": "bytes",
    "bytes_per_s": "bytes/s",
    "flop": "FLOP",
    "gpu_h": "GPU-h",
    "hours": "GPU-h",
}
"""Units that cells of a page have in their texts, as a saved file has them in its headings: there are numbers alone."""


def unit_of_file(heading: str, unit: str) -> dict[str, str]:
    """The `context` of a column with its unit in a file, for `grid.js`; nothing where the heading has it.

    >>> unit_of_file("Every", "seconds"), unit_of_file("cost GPU-h", "gpu_h"), unit_of_file("Runs", "count")
    ({'unit': 's'}, {}, {})
    """
    named = EXPORTED.get(unit, "")
    return {"unit": named} if named and named not in heading.split() else {}


def plain(value: Any, unit: str) -> Any:
    """A cell as it is sorted and exported: in the unit of its heading, or that which `unit_of_file` adds to it."""
    if value is not None and unit == "gpu_h":
        return float(value) / 3600
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if hasattr(value, "isoformat"):
        in_utc = value.astimezone(UTC) if isinstance(value, datetime) and value.tzinfo else value
        return in_utc.strftime("%Y-%m-%dT%H:%M:%SZ")
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return float(value)


def _text(value: Any, unit: str) -> str:
    from app.formatting import display  # noqa: PLC0415 - only here

    made = _TEXTS.get(unit)
    return display(value, unit) if made is None else made(value)


_TEXTS: Final[Mapping[str, Callable[[Any], str]]] = {
    "time": minute,
    "run": headline_text.run_label,
    "words": lambda name: wording.in_words(name) if name else "",
    "hours": headline_text.hours,
    "gpu_h": lambda value: headline_text.amount(value, "gpu_h"),
    "share": headline_text.share,
}
"""Texts of the units that only pages have."""


def readable(node: Any) -> Any:
    """The same components, in the texts of which nothing hides; addresses and ids stay as they are."""
    if isinstance(node, str):
        return visible(node)
    if isinstance(node, list | tuple):
        return [readable(each) for each in node]
    for name in ("children", "title", "label", "aria-label"):
        if isinstance(node, Component) and getattr(node, name, None) is not None:
            setattr(node, name, readable(getattr(node, name)))
    if isinstance(getattr(node, "data", None), list):  # the choices of a filter
        for choice in node.data:
            if isinstance(choice, dict) and isinstance(choice.get("label"), str):
                choice["label"] = visible(choice["label"])
    return node


def message(title: str, *children: Child, kind: str = "info") -> Component:
    """A page with a message in place of data."""
    return html.Div(
        [html.H1(title), *children], className=f"message message-{kind}", role="alert" if kind == "error" else "status"
    )


def facts(pairs: Sequence[tuple[str, Child]]) -> Component:
    """Names and values next to each other."""
    return html.Dl(
        [
            html.Div([html.Dt(name), html.Dd(value)], className="fact")
            for name, value in pairs
            if value not in (None, "")
        ],
        className="facts",
    )


def headline_range(headline: Headline, target: float | None) -> Component | None:
    """The range bar of a headline: its bounds, or its interval; None where it has neither."""
    low, high = (
        (headline.bound_low, headline.bound_high)
        if headline.bound_low is not None
        else (headline.ci_low, headline.ci_high)
    )
    if low is None and headline.value is None:
        return None
    top = 1.0
    if headline.unit != "ratio":
        ends = [each for each in (low, high, headline.value, target) if each is not None]
        top = max(ends) * 1.15 or 1.0
    description = " ".join(
        filter(None, (headline_text.bounds_text(headline), headline_text.interval_text(headline)))
    ) or headline_text.headline_value(headline)
    return span_bar(low, high, value=headline.value, target=target, top=top, what=description)
