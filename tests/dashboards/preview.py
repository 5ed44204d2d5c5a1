"""A picture of a board without Grafana: its grid and panels from the JSON, with what a real Prometheus answers.

    python -m tests.dashboards.preview WAREHOUSE FOLDER [BOARD ...]

It follows the board (places, units, thresholds, mappings, overrides, transformations), not Grafana's code: good for
seeing what a board says, and labelled as what it is.
"""

from __future__ import annotations

import html
import math
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dashboards import board_json
from dashboards.annotations import marks
from dashboards.boards import fleet
from dashboards.build import boards
from tests.dashboards import demo_history, filled

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Json = dict[str, Any]

NOT_OF_THE_DEMO = {"slurm": "slinky", "kubernetes": "lab"}
"""Boards of exporters that the demo does not have, with the cluster of the tests' exporters that is shown."""

FLAG = "preview, not Grafana"
WIDTH, CELL = 1500, 34
COLORS = {"green": "#299c46", "yellow": "#b98900", "red": "#d44a3a", "text": "#24292e"}
PALETTE = ("#7eb26d", "#eab839", "#6ed0e0", "#ef843c", "#e24d42", "#1f78c1")
STYLE = f"""
body {{ margin: 0; background: #f4f5f5; font: 13px 'DejaVu Sans', sans-serif; color: #24292e; width: {WIDTH}px }}
header {{ padding: 10px 16px; background: #fff; border-bottom: 1px solid #ddd }} header b {{ font-size: 16px }}
header span {{ margin-left: 14px; padding: 3px 8px; background: #eef1f4; border-radius: 3px }}
.flag {{ background: #fff3cd !important; float: right }}
main {{ position: relative }}
section {{ position: absolute; background: #fff; border: 1px solid #e0e3e6; border-radius: 3px; overflow: hidden;
          box-sizing: border-box; padding: 6px 8px }}
section h3 {{ margin: 0 0 4px; font-size: 13px; font-weight: 600 }}
.row {{ position: absolute; font-weight: 600; padding: 6px 10px; font-size: 14px }}
.stats {{ display: flex; justify-content: space-around; align-items: end; height: 78px }}
.stats div {{ text-align: center; color: #6b7280 }} .stats b {{ display: block; font-size: 27px; font-weight: 500 }}
table {{ border-collapse: collapse; width: 100% }} td, th {{ padding: 4px 6px; text-align: left;
        border-bottom: 1px solid #eee; white-space: nowrap }} th {{ color: #4b5563 }}
.bar {{ display: flex; align-items: center; margin: 4px 0 }} .bar span {{ width: 210px; overflow: hidden;
       white-space: nowrap }} .bar i {{ height: 15px; display: block }} .bar b {{ margin-left: 6px; font-weight: 500 }}
.legend {{ font-size: 11px; line-height: 15px }} .legend i {{ display: inline-block; width: 12px; height: 4px;
          margin: 0 4px 2px 8px }}
svg text {{ font-size: 10px; fill: #6b7280 }}
"""


@dataclass(frozen=True)
class Drawing:
    """What a board is drawn from.

    Attributes:
        server: with the numbers.
        said: where the numbers come from.
        hours: of the time axis, up to the end of the history.
        step_s: seconds between two points.
        drawn: how each type of panel is drawn; by default from what Prometheus answers.
    """

    server: Any
    said: str
    hours: float = 0.0
    step_s: int = 1
    drawn: Mapping[str, Callable[[Json, Drawing, dict[str, str]], str]] = field(default_factory=lambda: DRAWN)


def page(board: Json, drawing: Drawing, clusters: list[str], window: str) -> str:
    """The board as HTML; a row that repeats is drawn for each cluster, a collapsed one stays closed."""
    chosen, out, down = "|".join(clusters), [], 0
    blocks: list[list[Json]] = []
    for each in board["panels"]:
        if each["type"] == "row":
            blocks.append([])
        blocks[-1].append(each)
    for block in blocks:
        top = block[0]["gridPos"]["y"]
        height = max(each["gridPos"]["y"] + each["gridPos"]["h"] for each in block) - top
        for cluster in clusters if block[0].get("repeat") else [chosen]:
            values = {**_all_values(board), "cluster": cluster, "window": window}
            out += [_panel(each, drawing, values, down - top) for each in block]
            down += height
    reported = "".join(f"<span>{name}: {value}</span>" for name, value in (("Cluster", "All"), ("Window", window)))
    flag = '<span class="flag">' + html.escape(f"{FLAG}; {drawing.said}") + "</span>"
    head = f"<header><b>{html.escape(board['title'])}</b>{reported}{flag}</header>"
    return (
        f"<!doctype html><meta charset=utf-8><style>{STYLE}</style>{head}"
        f"<main style='height:{down * CELL + 20}px'>{''.join(out)}</main>"
    )


def _all_values(board: Json) -> dict[str, str]:
    """What the board's queries get where All is chosen."""
    return {each["name"]: each["allValue"] for each in board["templating"]["list"] if each.get("allValue")}


def _panel(panel: Json, drawing: Drawing, values: dict[str, str], shift: int) -> str:
    place = panel["gridPos"]
    unit = WIDTH / 24
    style = (
        f"left:{place['x'] * unit + 4:.0f}px;top:{(place['y'] + shift) * CELL + 4}px;"
        f"width:{place['w'] * unit - 6:.0f}px;height:{place['h'] * CELL - 6}px"
    )
    title = html.escape(board_json.interpolated(panel["title"], values))
    if panel["type"] == "row":
        mark = "&gt;" if panel["collapsed"] else "v"
        count = f" ({len(panel['panels'])} panels)" if panel["collapsed"] else ""
        return f'<div class="row" style="{style}">{mark} {title}{count}</div>'
    body = drawing.drawn[panel["type"]](panel, drawing, values)
    return f'<section style="{style}"><h3>{title}</h3>{body}</section>'


def setting_of(panel: Json, name: str) -> Json:
    """Settings of a field: the defaults, and what overrides them."""
    result = dict(panel["fieldConfig"]["defaults"])
    for each in panel["fieldConfig"]["overrides"]:
        if each["matcher"]["options"] == name:
            result |= {one["id"]: one.get("value") for one in each["properties"]}
    return result


def shown_in(value: float, settings: Json) -> str:
    """A value in its unit, as Grafana would write it."""
    for mapping in settings.get("mappings", ()):
        if (key := f"{value:g}") in mapping["options"]:
            return str(mapping["options"][key]["text"])
    digits, unit = settings.get("decimals", 1), settings.get("unit")
    if unit == "dateTimeAsIso":
        return f"{datetime.fromtimestamp(value / 1000, UTC):%Y-%m-%d %H:%M:%S}"
    if unit == "percentunit":
        return f"{100 * value:.{digits}f}%"
    steps = {
        "s": ((604800, " weeks"), (86400, " days"), (3600, " hours"), (60, " mins"), (1, " s")),
        "locale": ((1, ""),),
        "hertz": ((1e9, " GHz"), (1e6, " MHz")),
        "bytes": ((2**40, " TiB"), (2**30, " GiB"), (2**20, " MiB")),
        "Bps": ((1e12, " TB/s"), (1e9, " GB/s"), (1e6, " MB/s")),
        "watt": ((1e6, " MW"), (1e3, " kW"), (1, " W")),
        "short": ((1e9, " Bil"), (1e6, " Mil"), (1e3, " K"), (1, "")),
    }
    for size, name in steps.get(str(unit), ((1, ""),)):
        if abs(value) >= size:
            return f"{value / size:,.{digits}f}{name}"
    return f"{value:.{digits}f}" + (" s" if unit == "s" else "")


def value_color(value: float, settings: Json) -> str:
    for mapping in settings.get("mappings", ()):
        if (key := f"{value:g}") in mapping["options"]:
            return COLORS[mapping["options"][key]["color"]]
    if settings["color"]["mode"] == "fixed":
        return COLORS.get(settings["color"]["fixedColor"], str(settings["color"]["fixedColor"]))
    steps = settings.get("thresholds", {}).get("steps", [{"color": "text", "value": None}])
    return COLORS[[step["color"] for step in steps if step["value"] is None or value >= step["value"]][-1]]


def _named(target: Json, labels: Json) -> str:
    name = str(target["legendFormat"])
    for label, value in labels.items():
        name = name.replace("{{" + label + "}}", value)
    return name


def _instants(panel: Json, drawing: Drawing, values: dict[str, str]) -> list[tuple[str, float]]:
    return [
        (_named(target, row["metric"]), float(row["value"][1]))
        for target in panel["targets"]
        for row in drawing.server.instant(board_json.interpolated(target["expr"], values))
    ]


def _stat(panel: Json, drawing: Drawing, values: dict[str, str]) -> str:
    text = panel["options"].get("text", {})
    size = f"font-size:{text['valueSize']}px" if text else ""
    series = _series(panel, drawing, values) if panel["targets"][0]["range"] else {}
    told = {name: points[-1] for name, points in series.items() if points[-1] is not None} or dict(
        [] if series else _instants(panel, drawing, values)
    )
    parts = []
    for name, value in told.items():
        settings = setting_of(panel, name)
        color = value_color(value, settings)
        shown = f'<b style="color:{color};{size}">{shown_in(value, settings)}</b>'
        line = _spark(series[name], color) if name in series else ""
        called = html.escape(name) if len(told) > 1 or text else ""
        parts.append(f"<div>{shown}{called}{line}</div>")
    nothing = f"<div><b style='{size or 'font-size:19px'}'>{panel['fieldConfig']['defaults']['noValue']}</b></div>"
    stacked = "display:block;padding-top:14px;" if text else ""
    return f'<div class="stats" style="{stacked}">{"".join(parts) or nothing}</div>'


def _spark(points: list[float | None], color: str) -> str:
    """The course behind a number."""
    known = [each for each in points if each is not None]
    low, span = min(known), (max(known) - min(known)) or 1.0
    across = 150 / max(1, len(points) - 1)
    where = " ".join(
        f"{at * across:.0f},{26 - 22 * (each - low) / span:.0f}" for at, each in enumerate(points) if each is not None
    )
    return f"<br><svg width=150 height=28><polyline points='{where}' fill=none stroke='{color}' /></svg>"


Points = dict[str, list[float | None]]
"""By name of a series: its values on the time axis, None where there is none."""


def _series(panel: Json, drawing: Drawing, values: dict[str, str]) -> Points:
    """What a panel's queries over the time range return."""
    end, count = drawing.server.end_s, round(drawing.hours * 3600 / drawing.step_s)
    found: Points = {}
    for target in panel["targets"]:
        expr = board_json.interpolated(target["expr"], values, step_s=drawing.step_s)
        for row in drawing.server.ranged(expr, hours=drawing.hours, step_s=drawing.step_s):
            at = {round((end - float(moment)) / drawing.step_s): float(value) for moment, value in row["values"]}
            found[_named(target, row["metric"])] = [at.get(count - place) for place in range(count + 1)]
    return found


def _bars(panel: Json, drawing: Drawing, values: dict[str, str]) -> str:
    result = _instants(panel, drawing, values)
    defaults = panel["fieldConfig"]["defaults"]
    most = defaults.get("max") or max((value for _, value in result), default=1)
    width = panel["gridPos"]["w"] * WIDTH / 24 - 330
    return "".join(
        f'<div class="bar"><span>{html.escape(name)}</span><i style="width:{width * value / most:.0f}px;'
        f'background:{value_color(value, defaults)}"></i><b>{shown_in(value, defaults)}</b></div>'
        for name, value in result
    )


def _table(panel: Json, drawing: Drawing, values: dict[str, str]) -> str:
    """Rows joined on the labels they share, then named, ordered and thinned out by `organize`."""
    joined: list[Json] = []
    for target in panel["targets"]:
        value = "Value" if len(panel["targets"]) == 1 else f"Value #{target['refId']}"
        for row in drawing.server.instant(board_json.interpolated(target["expr"], values)):
            labels = row["metric"]
            same = [each for each in joined if all(each.get(key) == labels[key] for key in labels if key in each)]
            if not same or value in same[0]:
                same = [dict(labels)]
                joined += same
            same[0] |= {**labels, value: float(row["value"][1])}
    if not joined:
        return f"<p>{html.escape(panel['fieldConfig']['defaults']['noValue'])}</p>"
    options = next(each["options"] for each in panel["transformations"] if each["id"] == "organize")
    order = options["indexByName"]
    columns = [name for name in sorted(order, key=order.__getitem__) if not options["excludeByName"].get(name)]
    shown = {name: options["renameByName"].get(name, name) for name in columns}
    for each in panel["options"]["sortBy"]:
        (by,) = (name for name, reported in shown.items() if reported == each["displayName"])
        joined = sorted(joined, key=partial(_cell, name=by), reverse=each["desc"])
    head = "".join(f"<th>{html.escape(name)}</th>" for name in shown.values())
    lines = "".join(
        f"<tr>{''.join(table_cell(panel, row.get(n), reported) for n, reported in shown.items())}</tr>"
        for row in joined
    )
    return f"<table><tr>{head}</tr>{lines}</table>"


def _cell(row: Json, *, name: str) -> tuple[float, str]:
    """What rows are sorted by: a number, else a text; what is unknown comes first."""
    value = row.get(name, "")
    return (value, "") if isinstance(value, float) else (float("-inf"), value)


def table_cell(panel: Json, value: object, name: str) -> str:
    settings = setting_of(panel, name)
    if not isinstance(value, float):
        text = html.escape(str(value if value is not None else ""))
        return f"<td>{f'<u>{text}</u>' if settings.get('links') else text}</td>"
    kind = settings.get("custom.cellOptions", {}).get("type")
    if kind == "gauge":
        look = f"display:inline-block;height:11px;width:{120 * value:.0f}px;background:{value_color(value, settings)}"
        return f"<td><i style='{look}'></i> {shown_in(value, settings)}</td>"
    color = f" style='color:{value_color(value, settings)};font-weight:600'" if kind else ""
    return f"<td{color}>{shown_in(value, settings)}</td>"


@dataclass(frozen=True)
class _Plot:
    """A drawing area: its size, and the values at its lower and upper edge."""

    width: float
    height: float
    low: float
    high: float

    def points(self, values: list[float | None]) -> list[str]:
        """Where values lie, left to right; what is unknown has no place."""
        across = (self.width - 50) / max(1, len(values) - 1)
        return [f"{50 + at * across:.1f},{self.y(value):.1f}" for at, value in enumerate(values) if value is not None]

    def y(self, value: float) -> float:
        """How far from the top a value is."""
        share = (min(max(value, self.low), self.high) - self.low) / (self.high - self.low)
        return self.height * (1 - share) + 6

    def line(self, values: list[float | None], color: str, stroke: int) -> str:
        """A line through values."""
        return f"<polyline points='{' '.join(self.points(values))}' fill=none stroke='{color}' stroke-width={stroke} />"

    def area(self, low: list[float | None], high: list[float | None], color: str, opacity: float) -> str:
        """What lies between two lines."""
        reported = " ".join([*self.points(high), *reversed(self.points(low))])
        return f"<polygon points='{reported}' fill='{color}' fill-opacity={opacity} />"

    def ticks(self, settings: Json) -> str:
        """Five horizontal lines with their values."""
        values = [self.low + (self.high - self.low) * quarter / 4 for quarter in range(5)]
        return "".join(
            f"<line x1=48 x2={self.width:.0f} y1={self.y(value):.0f} y2={self.y(value):.0f} stroke=#eee />"
            f"<text x=0 y={self.y(value) + 4:.0f}>{shown_in(value, settings)}</text>"
            for value in values
        )


def _lines(panel: Json, drawing: Drawing, values: dict[str, str]) -> str:
    return curves(panel, _series(panel, drawing, values), partial(_marks, drawing, values))


def curves(panel: Json, series: Points, marked: Callable[[_Plot], str] = lambda _: "") -> str:
    """Lines or areas of series over their axis, with what is marked on it."""
    if not series:
        return f"<p>{panel['fieldConfig']['defaults']['noValue']}</p>"
    width, height = panel["gridPos"]["w"] * WIDTH / 24 - 24, panel["gridPos"]["h"] * CELL - 96
    stacking = panel["fieldConfig"]["defaults"]["custom"]["stacking"]["mode"]
    draw = _overlaid if stacking == "none" else _stacked
    drawn, plot = draw(panel, series, width, height)
    axis = {"unit": "percentunit", "decimals": 0} if stacking == "percent" else panel["fieldConfig"]["defaults"]
    legend = "".join(
        f"<i style='background:{_line_color(panel, name, number)}'></i>{html.escape(name)}"
        for number, name in enumerate(series)
    )
    picture = f"<svg width={width:.0f} height={height + 14}>{plot.ticks(axis)}{drawn}{marked(plot)}</svg>"
    return f"{picture}<div class=legend>{legend}</div>"


def _marks(drawing: Drawing, values: dict[str, str], plot: _Plot) -> str:
    """The annotations that are on at first, when they happened."""
    begin, lines = drawing.server.end_s - drawing.hours * 3600, []
    for each in marks()["list"]:
        if not each["enable"] or not each.get("useValueForTime"):
            continue
        for row in drawing.server.instant(board_json.interpolated(each["expr"], values)):
            share = (float(row["value"][1]) / 1000 - begin) / (drawing.hours * 3600)
            if 0 <= share <= 1:
                x = 50 + share * (plot.width - 50)
                lines.append(
                    f"<line x1={x:.0f} x2={x:.0f} y1=6 y2={plot.height + 6:.0f} stroke='{each['iconColor']}' "
                    "stroke-dasharray=3 stroke-opacity=0.6 />"
                )
    return "".join(lines)


def _stacked(panel: Json, series: Points, width: float, height: float) -> tuple[str, _Plot]:
    filled = {name: [each or 0.0 for each in points] for name, points in series.items()}
    totals = [sum(column) for column in zip(*filled.values(), strict=True)]
    percent = panel["fieldConfig"]["defaults"]["custom"]["stacking"]["mode"] == "percent"
    share = [each or 1.0 for each in totals] if percent else [1.0] * len(totals)
    most = max(total / part for total, part in zip(totals, share, strict=True))
    plot = _Plot(width, height, 0.0, most or 1.0)
    below: list[float | None] = [0.0] * len(totals)
    drawn = ""
    for number, (name, points) in enumerate(filled.items()):
        top: list[float | None] = [(b or 0.0) + p / s for b, p, s in zip(below, points, share, strict=True)]
        drawn += plot.area(below, top, _line_color(panel, name, number), 0.85)
        below = top
    return drawn, plot


def _overlaid(panel: Json, series: Points, width: float, height: float) -> tuple[str, _Plot]:
    custom = panel["fieldConfig"]["defaults"]["custom"]
    every = [value for points in series.values() for value in points if value is not None]
    low = min([custom.get("axisSoftMin", 0.0), *every])
    plot = _Plot(width, height, low, max([custom.get("axisSoftMax", 0.0), *every, low + 1e-9]))
    drawn = ""
    for number, (name, points) in enumerate(series.items()):
        settings, color = setting_of(panel, name), _line_color(panel, name, number)
        lower = series.get(str(settings.get("custom.fillBelowTo")))
        drawn += plot.area(lower, points, color, 0.2) if lower else ""
        drawn += plot.line(points, color, settings.get("custom.lineWidth", 1))
    return drawn, plot


def _line_color(panel: Json, name: str, number: int) -> str:
    color = setting_of(panel, name)["color"]
    return str(color["fixedColor"]) if color["mode"] == "fixed" else PALETTE[number % len(PALETTE)]


DRAWN: dict[str, Callable[[Json, Drawing, dict[str, str]], str]] = {
    "stat": _stat,
    "bargauge": _bars,
    "table": _table,
    "timeseries": _lines,
}


def picture(board: Json, drawing: Drawing, clusters: list[str], target: Path) -> None:
    """Draw a board into a picture."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        drawn = page(board, drawing, clusters, "7d")
        source = folder / "board.html"
        source.write_text(drawn, encoding="utf-8")
        height = math.ceil(int(drawn.split("<main style='height:")[1].split("px")[0])) + 50
        command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars",
                   f"--user-data-dir={folder}/profile", f"--window-size={WIDTH},{height}",
                   f"--screenshot={target}", source.as_uri()]  # fmt: skip
        subprocess.run(command, check=True, capture_output=True, timeout=120)


def main(arguments: list[str]) -> None:
    """Draw the boards of all names, or of those named, into a folder: from a computed warehouse of the demo."""
    warehouse, folder, *names = arguments
    Path(folder).mkdir(parents=True, exist_ok=True)
    made = {name: make(fleet.TARGETS) for name, make in boards().items() if not names or name in names}
    with tempfile.TemporaryDirectory() as place:
        if made.keys() - NOT_OF_THE_DEMO:
            with demo_history.serving(Path(warehouse), Path(place)) as (server, cluster):
                drawing = Drawing(server, "numbers of the demo, a simulated cluster", 48.0, 3600)
                for name in sorted(made.keys() - NOT_OF_THE_DEMO):
                    picture(made[name], drawing, [cluster], Path(folder) / f"{name}.png")
        if made.keys() & NOT_OF_THE_DEMO:
            (Path(place) / "exporters").mkdir()
            with filled.filled(Path(place) / "exporters") as server:
                drawing = Drawing(server, "the demo has none of this: exporters of the tests", 0.3, 60)
                for name in sorted(made.keys() & NOT_OF_THE_DEMO):
                    picture(made[name], drawing, [NOT_OF_THE_DEMO[name]], Path(folder) / f"{name}.png")


if __name__ == "__main__":
    main(sys.argv[1:])
