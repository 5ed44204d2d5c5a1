"""A board's JSON, read: its panels, fields, variables, annotations and queries.

A board may come from anybody: what is not of the kind expected counts as empty.
"""

from __future__ import annotations

import re
from itertools import chain
from typing import TYPE_CHECKING, Any

from dashboards.grafana import DUCKDB, SOURCES, Json

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_VARIABLE = re.compile(r"\$([A-Za-z_]\w*)|\$\{(\w+)(?:[.:][^}]*)?\}|\[\[(\w+)(?::\w+)?\]\]")


def as_object(value: object) -> Json:
    """The value, if it is an object; else an empty one."""
    return value if isinstance(value, dict) else {}


def panels_and_rows(board: Json) -> list[Json]:
    """Panels and rows, each followed by the panels inside it: those of a collapsed row."""
    found: list[Json] = []
    for outer in board["panels"]:
        found.append(outer)
        found += map(as_object, outer.get("panels", ()))
    return found


def panels(board: Json) -> list[Json]:
    """Panels that show something."""
    return [each for each in panels_and_rows(board) if each.get("type") != "row"]


def title_of(panel: Json) -> str:
    """A panel's title, or its id."""
    return str(panel.get("title") or f"panel {panel.get('id')}")


def fields_of(panel: Json) -> Json:
    """Settings of all fields of a panel."""
    return as_object(as_object(panel.get("fieldConfig")).get("defaults"))


def _overrides(panel: Json) -> list[Json]:
    overrides = as_object(panel.get("fieldConfig")).get("overrides", [])
    return [as_object(each) for each in overrides] if isinstance(overrides, list) else []


def properties_of(panel: Json) -> Iterator[tuple[str, Any]]:
    """Settings of single fields: id and value."""
    for each in _overrides(panel):
        for setting in each.get("properties", ()):
            yield str(setting.get("id")), setting.get("value")


def texts_in(value: object) -> Iterator[str]:
    """Every text within."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from chain.from_iterable(texts_in(each) for each in value.values())
    elif isinstance(value, list):
        yield from chain.from_iterable(texts_in(each) for each in value)


def annotations_of(board: Json) -> list[Json]:
    """A board's annotations."""
    return [as_object(each) for each in as_object(board.get("annotations")).get("list", ())]


def name_of_annotation(annotation: Json) -> str:
    """How a finding names it."""
    return f"annotation {annotation.get('name')}"


def source_of(board: Json) -> Json:
    """The data source of the board's variable; Prometheus, if the variable is for an unknown one."""
    types = [each.get("query") for each in board["templating"]["list"] if each.get("type") == "datasource"]
    return SOURCES.get(str(types[0]) if types else "", SOURCES["prometheus"])


def queries_sql(board: Json) -> bool:
    """Whether the board queries DuckDB."""
    return source_of(board) == DUCKDB


def is_query(variable: Json) -> bool:
    """Whether its values come from a query."""
    return variable.get("type") == "query"


def queries_of(board: Json) -> Iterator[tuple[str, str]]:
    """Pairs of place and PromQL of a board's panels and annotations."""
    for panel in [] if queries_sql(board) else panels(board):
        yield from ((title_of(panel), str(target.get("expr", ""))) for target in panel.get("targets", ()))
    yield from (
        (name_of_annotation(each), str(each.get("expr", ""))) for each in annotations_of(board) if "expr" in each
    )


def statements_of(board: Json) -> Iterator[tuple[str, str]]:
    """The SQL of a board's panels and variables."""
    for panel in panels(board):
        yield from ((title_of(panel), str(target.get("rawSql", ""))) for target in panel.get("targets", ()))
    variables = [each for each in board["templating"]["list"] if is_query(each)]
    yield from ((f"variable {each.get('name')}", str(each.get("query", ""))) for each in variables)


def variables_in(text: str) -> Iterator[str]:
    """Names of the variables that a text uses."""
    return (one or two or three for one, two, three in _VARIABLE.findall(text))


def interpolated(text: str, values: Mapping[str, str] | None = None, *, step_s: int = 60, scrape_s: int = 60) -> str:
    """A text as Grafana would send it, with its own variables and those in `values`.

    Args:
        text: with variables.
        values: of the board's variables, ready for a regular expression; a variable that is missing becomes `1`, which
            does in a label and as a number.
        step_s: seconds between two points of the graph.
        scrape_s: seconds between two scrapes.
    """
    rate_s = max(step_s + scrape_s, 4 * scrape_s)
    own = {"__interval": f"{step_s}s", "__rate_interval": f"{rate_s}s", "__range": "7d", "__range_s": "604800"}

    def value(match: re.Match[str]) -> str:
        name = match[1] or match[2] or match[3]
        return own[name] if name in own else (values or {}).get(name, "1")

    return _VARIABLE.sub(value, text)
