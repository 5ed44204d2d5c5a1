"""The page Data quality: what is loaded, what is missing, what was refused, and which checks have findings."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
from dash import html

from app.explorer import components
from app.explorer.answer_table import width_of
from app.explorer.page import ExplorerPage, Section
from app.explorer.questions import heading
from ingest import registry
from ingest.source import IngestSource

if TYPE_CHECKING:
    from dash.development.base_component import Component

    from app.explorer.filters import View
    from app.explorer.page import PageData
    from queries.warehouse import Reader

QUERIES = {
    "sources": ("Sources, and the time that they cover", "status_sources", "Nothing is loaded."),
    "warnings": ("Sources that fell silent or changed", "source_warnings", "No source fell silent or changed."),
    "gaps": ("Time that no load covers", "load_gaps", "No gap between loads."),
    "rejects": ("Rejected rows by reason", "status_rejects", "No row was rejected."),
}
"""Sections that are the rows of one named query: title, query, and what it means that there are none."""


def rows_of(source: Reader, query: str) -> pl.DataFrame:
    """The rows of a named query without parameters."""
    return source.query(query)


def failed_checks(source: Reader) -> pl.DataFrame:
    """Data checks with findings: `severity`, `description`, `n`, `name`."""
    found = [
        (each.check.severity, each.check.description, each.count, each.check.name) for each in source.failed_checks()
    ]
    return pl.DataFrame(found, schema=["severity", "description", "n", "name"], orient="row")


def _section(name: str) -> Section:
    title, query, empty = QUERIES[name]

    def gather(data: PageData, _: View) -> pl.DataFrame:
        return data.answers.ask(rows_of, query)

    return Section(name, title, gather, lambda rows, view: _table(rows, view, name, title, empty), height=140)


def _table(rows: pl.DataFrame, view: View, name: str, title: str, empty: str) -> Component:
    """The rows of the cluster; those of no cluster belong to all."""
    if "cluster" in rows.columns:
        rows = rows.filter(pl.col("cluster").is_null() | (pl.col("cluster") == view.window.cluster)).drop("cluster")
    rows = rows.select(column for column, dtype in rows.schema.items() if not isinstance(dtype, pl.List | pl.Struct))
    columns = [_column(rows[column], view) for column in rows.columns]
    table = components.grid(
        rows, columns, name=name, height=min(TALLEST, 70 + 34 * rows.height), empty=empty, zone=view.zone
    )
    return components.panel(title, table, _skipped(rows), right=components.export_button(name) if rows.height else None)


def _skipped(rows: pl.DataFrame) -> Component | None:
    """What sources skip by design, of those that did; nothing where the rows are not about that."""
    if "rows_skipped" not in rows.columns:
        return None
    known = {each.name: each.skips for each in registry.SOURCES}
    did = rows.filter(pl.col("rows_skipped") > 0)
    lines = [
        html.Li(f"{source}, {count:,}: {known.get(source, IngestSource.skips)}")
        for source, count in did.select("source", "rows_skipped").iter_rows()
    ]
    why = html.P("Skipped by design, and in no number (rejected rows are below):", className="small")
    return html.Div([why, html.Ul(lines, className="small")], className="notes") if lines else None


def _column(values: pl.Series, view: View) -> dict[str, object]:
    name = values.name
    words = name.removeprefix("rows_").replace("_", " ")
    heading = words[:1].upper() + words[1:]
    if isinstance(values.dtype, pl.Datetime):
        return components.column(name, view.titled(heading), "time", minWidth=140, width=140)
    if values.dtype.is_numeric():
        width = width_of(heading, [f"{each:,}" for each in values.drop_nulls().top_k(1)], whole=True)
        return components.column(name, heading, "count", minWidth=width, width=width)
    texts = [str(each) for each in values.drop_nulls().to_list()]
    wraps = max(map(len, texts), default=0) > LONG
    width = width_of(heading, texts, whole=True)
    return components.column(name, heading, flex=1, minWidth=width, wrapText=wraps, autoHeight=wraps)


TALLEST = 720
"""Pixels of a table; longer ones scroll."""

LONG = 27
"""Characters of a text beyond which it is wrapped."""


def _checks(rows: pl.DataFrame, _: View) -> Component:
    columns = [
        components.column("severity", "Severity", width=100, minWidth=90),
        components.column("description", "Finding", flex=4, minWidth=240, wrapText=True, autoHeight=True),
        components.column("n", "Rows", "count", width=90, minWidth=80),
        components.column("name", "Check", flex=2, minWidth=140),
    ]
    table = components.grid(rows, columns, name="checks", height=420, empty="Every check holds.")
    return components.panel("Data checks with findings", table, note="trackside status prints the same.")


PAGE = ExplorerPage(
    "/quality",
    "Data quality",
    "quality",
    lambda _, __: None,
    lambda _, __: heading(
        "Data quality", "What is loaded, what is missing, what was rejected, and what does not add up."
    ),
    position=61,
    group="Data",
    sections=lambda _: (
        _section("sources"),
        Section("checks", "Data checks", lambda data, _: data.answers.ask(failed_checks), _checks, height=140),
        *(_section(name) for name in ("warnings", "gaps", "rejects")),
    ),
)
