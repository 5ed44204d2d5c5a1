"""What Grafana asks of published tables for a SQL board: statements with the values of its variables and its range."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from dashboards import board_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    import duckdb

    from dashboards.grafana import Json

RANGE: Final = {"__from": "2026-09-01T00:00:00.000Z", "__to": "2026-11-01T00:00:00.000Z"}
"""The range of the board: all of the demo."""


def filled(statement: str, values: dict[str, list[str]]) -> str:
    """A statement as Grafana sends it: texts quoted and escaped, times as they are."""

    def text(match: re.Match[str]) -> str:
        name = match[1]
        return (
            RANGE[name]
            if name in RANGE
            else ", ".join(f"'{each.replace(chr(39), chr(39) * 2)}'" for each in values[name])
        )

    return re.sub(r"\$\{(\w+):[\w:]+\}", text, statement)


def chosen(board: Json, server: duckdb.DuckDBPyConnection, **given: list[str]) -> dict[str, list[str]]:
    """Values of a board's variables, in their order: what is given, else all that their queries return."""
    values: dict[str, list[str]] = {}
    for each in board["templating"]["list"]:
        if each["type"] == "query":
            told = [row[0] for row in server.execute(filled(each["query"], values)).fetchall()]
            assert told, each["name"]
            assert all(told), "Grafana offers no empty value"
            values[each["name"]] = given.get(each["name"]) or told
    return values | {"window": ["all"]}


def asked(board: Json) -> Iterator[tuple[Json, str]]:
    """Panels and their statements."""
    for panel in board_json.panels(board):
        for target in panel["targets"]:
            yield panel, target["rawSql"]
