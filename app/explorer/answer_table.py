"""The table of an answer: the columns and texts that `trackside show` has, with links, wide enough to be read."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from app.explorer import components, open_pages, phone_columns, wording, zones
from app.formatting import display
from app.results import headline_text
from app.terminal.columns import neat
from app.visible import visible
from dashboards import palette
from metrics.catalog import BY_NAME

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dash.development.base_component import Component

    from app.explorer.filters import View

PAGES: Final = {"run_id": ("/run", "id"), "run": ("/run", "id"), "node": ("/node", "node"), "user": ("/jobs", "user"),
                "account": ("/people", "account"), "partition": ("/people", "partition"),
                "last_node": ("/node", "node"), "nodes": ("/node", "node")}  # fmt: skip
"""Columns, or what a subject is, whose cells are links: to which page, under which parameter."""

CAUSES: Final = {"cause": ("/gpu-time", "cause"), "category": ("/gpu-time", "category")}
"""The same for questions whose causes are those of lost GPU-time: elsewhere a cause is one of outages, say."""

CATEGORIES: Final = ("category", "mostly")
"""Columns whose texts are those of the Overview: words and colours of `dashboards.palette`."""

METRIC: Final = "metric"
"""The column with names of metrics: people read their titles."""

CARRIED: Final = {"/node": ("category", "cause")}
"""Filters that go along to a page, so that it shows the path there."""

BESIDE: Final = {"/gpu-time": ("category",)}
"""Columns of the same row that go along to a page."""

Leads = Mapping[str, tuple[str, str]]
"""As `PAGES`."""

LETTER, PADDING, NARROWEST, WIDEST = 7.4, 28, 64, 230
"""Pixels of a letter, of a cell's edges, and of the narrowest and the widest column; longer texts are wrapped."""

DOT: Final = 20
"""Pixels of the dot before the name of a category."""

CAPITAL: Final = 0.25
"""By how much wider a capital letter is: states are written in them."""

WRAPPED: Final = 500
"""Rows up to which long texts are wrapped; in a longer table they are cut, and whole under the pointer."""

SENTENCE: Final = 90
"""Characters from which on a text takes a wider column, so that its row does not become high."""

LINES: Final = 2
"""Lines that such a text is to take, if the widest column allows."""

SHORT: Final = 20
"""Characters up to which a text is shown whole, however rare it is."""

MEASURED: Final = 300
"""Rows that a column's width is taken from."""


def answer_table(
    rows: pl.DataFrame,
    columns: Mapping[str, tuple[str, str]],
    view: View,
    *,
    name: str,
    dimension: str,
    leads: Leads = PAGES,
    first: Sequence[str] = (),
) -> Component:
    """A table with the rows of an answer.

    Args:
        rows: those to show.
        columns: column -> heading and display unit.
        view: the current view, for links.
        name: of the table, one of the page.
        dimension: what a column `subject` holds.
        leads: columns whose cells are links.
        first: columns that a phone shows first.
    """
    rows = zones.local_times(rows, view.zone)
    columns = {column: each for column, each in columns.items() if column in rows.columns}
    texts = {column: _texts(rows[column], column, dimension, unit) for column, (_, unit) in columns.items()}
    cells: list[dict[str, Any]] = [{"_row": str(number)} for number in range(rows.height)]
    definitions = []
    for column, (heading, unit) in columns.items():
        key = f"c_{column}"
        links = addresses(rows, column, dimension, view, leads)
        for number, value in enumerate(rows[column].to_list()):
            cell = cells[number]
            cell[key] = components.plain(value, unit)
            cell[f"{key}__text"] = texts[column][number]
            if links is not None and links[number]:
                cell[f"{key}__href"] = links[number]
            if column in CATEGORIES and value:
                cell[f"{key}__colour"] = palette.swatch(value).colour
        shown = _shown(key, linked=links is not None, swatch=column in CATEGORIES)
        definitions.append(_definition(key, heading, unit, texts[column], shown))
    _widen_beyond_the_edge(definitions, list(texts.values()))
    constant = [rows.height > 1 and len(set(each)) == 1 for each in texts.values()]
    phone_columns.place_columns(definitions, [f"c_{column}" for column in first], constant)
    return components.table_of(definitions, cells, name=name, height=520)


def linked(column: str, dimension: str, leads: Leads = PAGES) -> bool:
    """Whether the cells of a column are links for the current viewer: a click on them goes elsewhere."""
    target = leads.get(_held(column, dimension))
    return target is not None and open_pages.is_open(target[0])


def _held(column: str, dimension: str) -> str:
    """What a column holds: `subject` is what the answer is split by."""
    return dimension if column == "subject" else column


def text_of(value: Any, column: str, dimension: str, unit: str) -> str:
    """One cell as a text: in the words of the table where it holds a name of ours, else by its unit."""
    words = _words(pl.Series([value]), _held(column, dimension)) if isinstance(value, str) else None
    return visible(display(value, unit)) if words is None else words[0]


def _texts(values: pl.Series, column: str, dimension: str, unit: str) -> list[str]:
    words = _words(values, _held(column, dimension))
    return [visible(text) for text in neat(values.to_list(), unit)] if words is None else words


def _words(values: pl.Series, held: str) -> list[str] | None:
    """The words for names of ours in a column that holds such; None for any other column."""
    if held in {"run", "run_id"}:
        return [visible(headline_text.run_label(value)) if value else "-" for value in values.to_list()]
    if held == METRIC:
        return [BY_NAME[value].title if value in BY_NAME else visible(value or "-") for value in values.to_list()]
    if held in CATEGORIES:
        return [palette.swatch(value).label if value else "-" for value in values.to_list()]
    if held in wording.NAMED and values.dtype == pl.String:
        return [visible(text) for text in wording.all_in_words(values.to_list())]
    return None


def addresses(
    rows: pl.DataFrame, column: str, dimension: str, view: View, leads: Leads = PAGES
) -> list[str | None] | None:
    """Where each row's cell of a column leads; None where its cells are no links."""
    if rows.schema[column] != pl.String or not linked(column, dimension, leads):
        return None
    path, parameter = leads[_held(column, dimension)]
    carried = {name: view.get(name) for name in CARRIED.get(path, ())}
    beside = [name for name in BESIDE.get(path, ()) if name in rows.columns]
    found = rows.select(pl.col(column).alias("_of"), *beside).to_dicts()
    return [
        view.link(path, **(carried | {name: row[name] or "" for name in beside} | {parameter: row["_of"]}))
        if isinstance(row["_of"], str) and not _NOT_ONE.search(row["_of"])
        else None
        for row in found
    ]


_NOT_ONE: Final = re.compile(r"^\(|^$|, ")
"""Texts that name no subject, such as "(no attempt)", or several."""


def _shown(key: str, *, linked: bool, swatch: bool) -> dict[str, str]:
    """Parameters of `Cell` for a column with links or colours; none where a plain text does."""
    return ({"href": f"{key}__href"} if linked else {}) | ({"swatch": f"{key}__colour"} if swatch else {})


def _definition(key: str, heading: str, unit: str, texts: list[str], shown: dict[str, str]) -> dict[str, Any]:
    width = width_of(heading, texts, whole=unit != "text") + (DOT if "swatch" in shown else 0)
    made: dict[str, Any] = {
        "field": key,
        "headerName": titled(heading),
        "minWidth": width,
        "headerTooltip": heading,
        "context": components.unit_of_file(heading, unit),
    }
    right = unit not in {"text", "time"}
    if shown:
        made |= {"cellRenderer": "Cell", "cellRendererParams": shown}
    else:
        made |= {
            "valueFormatter": {"function": "formatted(params)"},
            "cellClass": "asks ag-right-aligned-cell" if right else "asks",
        }
    if unit == "text" and len(texts) <= WRAPPED and any(LETTER * len(text) > WIDEST - PADDING for text in texts):
        made |= {"wrapText": True, "autoHeight": True}
    if unit == "text":
        made["tooltipValueGetter"] = {"function": "whole(params)"}
    if right:
        made["headerClass"] = "ag-right-aligned-header"
    return {name: value for name, value in made.items() if value is not None}


def _widen_beyond_the_edge(definitions: list[dict[str, Any]], texts: list[list[str]]) -> None:
    """Give columns that one must scroll to the room for their sentences: out of sight they would make rows high."""
    begin = 0
    for made, values in zip(definitions, texts, strict=True):
        if made.get("wrapText") and begin >= IN_SIGHT:
            made["minWidth"] = int(min(LETTER * max(map(len, values)) + PADDING, LONGEST))
        begin += made["minWidth"]


IN_SIGHT, LONGEST = 1050, 5 * WIDEST
"""Pixels of a table that a wide screen shows, and of the widest column beyond them."""


def titled(heading: str) -> str:
    """A heading with a capital, unless it begins with a symbol or a unit.

    >>> titled("cost GPU-h"), titled("n"), titled("kWh"), titled("kg CO2e"), titled("p90")
    ('Cost GPU-h', 'n', 'kWh', 'kg CO2e', 'p90')
    """
    word = heading.split(" ", 1)[0]
    as_it_is = word in _UNITS or not (heading[1:2].islower() or " " in heading)
    return heading if as_it_is else heading[:1].upper() + heading[1:]


_UNITS: Final = ("kg", "kWh")


def width_of(heading: str, texts: list[str], *, whole: bool = False) -> int:
    """Pixels that show the longest word of a heading and nearly every text, or every one."""
    longest = sorted(len(text) + CAPITAL * sum(map(str.isupper, text)) for text in texts[:MEASURED])
    of_texts = longest[math.ceil((1.0 if whole else 0.98) * (len(longest) - 1))] if longest else 0
    of_texts = max(of_texts, *(each for each in longest if each <= SHORT), 0)
    word = max(len(word) for word in heading.split()) + 1
    half = -(-len(heading) // 2) if len(heading) > 16 else 0
    most = WIDEST if of_texts < SENTENCE else min(max(2 * WIDEST, LETTER * of_texts / LINES), 3 * WIDEST)
    return int(min(max(LETTER * max(of_texts, word, half) + PADDING, NARROWEST), most))
