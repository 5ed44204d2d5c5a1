"""Pictures of the SQL boards without Grafana, drawn like those of `tests.dashboards.preview`, from published tables.

python -m tests.dashboards.sql.preview WAREHOUSE FOLDER [BOARD ...]
"""

from __future__ import annotations

import html
import sys
import tempfile
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb

from dashboards.boards.fleet import TARGETS
from dashboards.build import sql_boards
from queries import published
from queries.warehouse import open_reader
from tests.dashboards.preview import Drawing, curves, picture, setting_of, shown_in, table_cell, value_color
from tests.dashboards.sql.asked import chosen, filled

if TYPE_CHECKING:
    from dashboards.grafana import Json
    from tests.dashboards.preview import Points

Row = dict[str, Any]


@dataclass(frozen=True)
class Asked:
    """Published tables, and the values of a board's variables."""

    server: duckdb.DuckDBPyConnection
    values: dict[str, list[str]] = field(default_factory=dict)

    def rows(self, panel: Json) -> list[Row]:
        """What a panel's statement returns; whole numbers as the plugin hands them over, which has only one kind."""
        (target,) = panel["targets"]
        result = self.server.execute(filled(target["rawSql"], self.values))
        columns = [name for name, *_ in result.description]
        return [dict(zip(columns, map(_of_grafana, row), strict=True)) for row in result.fetchall()]


def _of_grafana(value: object) -> object:
    """A value as Grafana has it: times are milliseconds since 1970."""
    if isinstance(value, datetime):
        return value.timestamp() * 1000
    return float(value) if isinstance(value, int) else value


def _stat(panel: Json, drawing: Drawing, _: dict[str, str]) -> str:
    """Each number of each row, with the row's text beside it."""
    parts = []
    for row in drawing.server.rows(panel):
        text = " ".join(value for value in row.values() if isinstance(value, str))
        numbers = {name: value for name, value in row.items() if isinstance(value, float)}
        for name, value in numbers.items():
            settings = setting_of(panel, name)
            named = html.escape(f"{text} {name}" if len(numbers) > 1 else text)
            beside = panel["options"].get("text", {})
            size = f"font-size:{beside['valueSize']}px" if beside else ""
            shown = shown_in(value, settings)
            parts.append(f"<div><b style='color:{value_color(value, settings)};{size}'>{shown}</b>{named}</div>")
    nothing = f"<div><b style='font-size:19px'>{panel['fieldConfig']['defaults']['noValue']}</b></div>"
    return f"<div class='stats'>{''.join(parts) or nothing}</div>"


def _table(panel: Json, drawing: Drawing, _: dict[str, str]) -> str:
    rows = drawing.server.rows(panel)
    if not rows:
        return f"<p>{html.escape(panel['fieldConfig']['defaults']['noValue'])}</p>"
    names = [name for name in rows[0] if not setting_of(panel, name).get("custom.hidden")]
    head = "".join(f"<th>{html.escape(setting_of(panel, name).get('displayName') or name)}</th>" for name in names)
    lines = "".join(f"<tr>{''.join(table_cell(panel, row[name], name) for name in names)}</tr>" for row in rows)
    return f"<table><tr>{head}</tr>{lines}</table>"


def _lines(panel: Json, drawing: Drawing, _: dict[str, str]) -> str:
    """A line for each text; where it has no point at a time that another has, none is drawn."""
    rows = drawing.server.rows(panel)
    moments = sorted({row["time"] for row in rows})
    series: Points = {}
    for row in rows:
        name = next(value for key, value in row.items() if key not in {"time", "Value"})
        series.setdefault(name, [None] * len(moments))[moments.index(row["time"])] = row["Value"]
    return curves(panel, series)


DRAWN = {"stat": _stat, "table": _table, "timeseries": _lines}


def main(arguments: list[str]) -> None:
    """Draw the SQL boards, or those named, into a folder: from a computed warehouse of the demo."""
    warehouse, folder, *names = arguments
    Path(folder).mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place, duckdb.connect() as server:
        with open_reader(Path(warehouse)) as reader:
            published.publish(reader, Path(place))
        server.execute((Path(place) / published.VIEWS).read_text())
        for name, make in sql_boards().items():
            if not names or name in names:
                board = make(TARGETS)
                asked = Asked(server, chosen(board, server))
                drawing = Drawing(asked, said="published tables of the demo, a simulated cluster", drawn=DRAWN)
                picture(board, drawing, asked.values["cluster"], Path(folder) / f"sql-{name}.png")


if __name__ == "__main__":
    main(sys.argv[1:])
