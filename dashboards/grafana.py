"""A thin modern layer over grafanalib: panels of today's Grafana, and a rewrite of what grafanalib writes.

Authoring is by grafanalib 0.7.1, because that library was requested by name. It has been frozen since January 2024 and
writes schema version 12 with about 200 mistakes against today's schema (its data source as a string, `maxDataPoints` of
100 on every panel, gauges and heat maps of a dead generation), so its own output is never shipped: `to_modern` turns
it into schema version 39, the one that Grafana 10.4 to 13 all read without losing anything. The oracle is Grafana's
own schema (`dashboards/schema`) and, in tests, grafana-foundation-sdk. The exit: boards leave here as plain dicts, so
another library would touch this module and the boards' constructors, and nothing that reads boards.

No monkey-patching and no fork: what grafanalib lacks is `ModernPanel`, one subclass of its `Panel`.
"""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

import attr
from grafanalib.core import (
    Dashboard,
    GridPos,
    Panel,
    RowPanel,
    SqlTarget,
    Target,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

Json = dict[str, Any]

SCHEMA_VERSION = 39
"""Grafana 10.4. A lower number is migrated upwards by every newer Grafana; a higher one is not migrated down."""

GRID = 24
"""Columns of Grafana's grid."""

DATASOURCE: Json = {"type": "prometheus", "uid": "${datasource}"}
"""The data source of every panel and query: the board's variable, never a server's own id."""

DUCKDB: Json = {"type": "motherduck-duckdb-datasource", "uid": "${duckdb_datasource}"}
"""The same of boards that query published tables by SQL. Its variable has another name, so that a link between
boards of both kinds never takes one for the other."""

SOURCES: Mapping[str, Json] = {each["type"]: each for each in (DATASOURCE, DUCKDB)}
"""Data sources by the type that a board's variable names."""

FORMATS: Mapping[str, int] = {"time_series": 0, "table": 1}
"""Formats of the rows of a SQL query, as the plugin's backend numbers them."""

DEAD = frozenset(
    ("ae3e-plotly-panel", "flant-statusmap-panel", "grafana-piechart-panel", "grafana-worldmap-panel", "graph",
     "larona-epict-panel", "marcuscalidus-svg-panel", "natel-discrete-panel", "singlestat")
)  # fmt: skip
"""Panel types that are gone with Angular (Grafana 12) or need an abandoned plugin; several are grafanalib classes."""

_LAST: Json = {"calcs": ["lastNotNull"], "fields": "", "values": False}
_LEGEND: Json = {"calcs": [], "displayMode": "list", "placement": "bottom", "showLegend": True}
_NO_LEGEND: Json = _LEGEND | {"showLegend": False}
_TOOLTIP: Json = {"hideZeros": False, "mode": "multi", "sort": "desc"}
_NOT_HIDDEN: Json = {"legend": False, "tooltip": False, "viz": False}
_LINEAR: Json = {"type": "linear"}

OPTIONS: Mapping[str, Json] = {
    "bargauge": {
        "displayMode": "basic",
        "legend": _NO_LEGEND,
        "maxVizHeight": 300,
        "minVizHeight": 16,
        "minVizWidth": 8,
        "namePlacement": "auto",
        "orientation": "horizontal",
        "reduceOptions": _LAST,
        "showUnfilled": True,
        "sizing": "auto",
        "valueMode": "text",
    },
    "stat": {
        "colorMode": "value",
        "graphMode": "none",
        "justifyMode": "auto",
        "orientation": "auto",
        "percentChangeColorMode": "standard",
        "reduceOptions": _LAST,
        "showPercentChange": False,
        "textMode": "value_and_name",
        "wideLayout": True,
    },
    "table": {"cellHeight": "sm", "frameIndex": 0, "showHeader": True, "sortBy": []},
    "timeseries": {"legend": _LEGEND, "tooltip": _TOOLTIP},
}  # fmt: skip
"""Complete default options by panel plugin, so that no Grafana fills them in its own way."""

CUSTOM: Mapping[str, Json] = {
    "bargauge": {},
    "stat": {},
    "table": {"align": "auto", "cellOptions": {"type": "auto"}, "filterable": False, "inspect": False},
    "timeseries": {
        "axisBorderShow": False,
        "axisCenteredZero": False,
        "axisColorMode": "text",
        "axisLabel": "",
        "axisPlacement": "auto",
        "barAlignment": 0,
        "drawStyle": "line",
        "fillOpacity": 0,
        "gradientMode": "none",
        "hideFrom": _NOT_HIDDEN,
        "insertNulls": False,
        "lineInterpolation": "linear",
        "lineWidth": 1,
        "pointSize": 5,
        "scaleDistribution": _LINEAR,
        "showPoints": "auto",
        "spanNulls": False,
        "stacking": {"group": "A", "mode": "none"},
        "thresholdsStyle": {"mode": "off"},
    },
}
"""Complete default settings of a field by panel plugin."""


class NotModernError(ValueError):
    """A board holds what today's Grafana would not show."""


@attr.s(auto_attribs=True, kw_only=True)
class ModernPanel(Panel):  # type: ignore[misc]  # its base has no types
    """Any core panel plugin, with the keys it has today.

    Attributes:
        plugin: its id, one of `OPTIONS`.
        options: what differs from the plugin's defaults.
        custom: the same for its fields.
        unit: Grafana's unit id of the values.
        decimals: digits after the point.
        min: lower end of the scale.
        max: upper end; None lets the data decide.
        no_value: what is shown where there is nothing.
        mappings: from `value_map`.
        overrides: from `override`.
        data_links: from `data_link`, on every value.
        color: mode, and the colour itself for the mode `fixed`.
    """

    plugin: str = "timeseries"
    options: Json = attr.Factory(dict)
    custom: Json = attr.Factory(dict)
    unit: str | None = None
    decimals: int | None = None
    min: float | None = None
    max: float | None = None
    no_value: str | None = None
    mappings: list[Json] = attr.Factory(list)
    overrides: list[Json] = attr.Factory(list)
    data_links: list[Json] = attr.Factory(list)
    color: Json = attr.Factory(lambda: {"mode": "palette-classic"})

    def to_json_data(self) -> Json:
        """The panel as grafanalib would write it; `to_modern` does the rest."""
        defaults = {
            "custom": self.custom,
            "unit": self.unit,
            "decimals": self.decimals,
            "min": self.min,
            "max": self.max,
            "noValue": self.no_value,
            "mappings": self.mappings,
            "links": self.data_links,
            "color": self.color,
        }
        field_config = {"defaults": defaults, "overrides": self.overrides}
        made: Json = self.panel_json({"type": self.plugin, "options": self.options, "fieldConfig": field_config})
        return made


def panel(
    plugin: str,
    title: str,
    description: str,
    targets: Sequence[Target],
    *,
    size: tuple[int, int],
    **more: Any,
) -> ModernPanel:
    """A panel of a plugin, `size` columns wide and rows high; `flow` gives it its place."""
    width, height = size
    position = GridPos(h=height, w=width, x=0, y=0)
    options: Json = {"title": title, "description": description, "targets": list(targets), "gridPos": position}
    return ModernPanel(plugin=plugin, **options, **more)


_BY_THRESHOLDS: Json = {"mode": "thresholds"}

stat = partial(panel, "stat", color=_BY_THRESHOLDS)
"""Numbers side by side, each with its name, coloured by the thresholds."""

table = partial(panel, "table", color=_BY_THRESHOLDS)
"""Rows and columns; its targets are `rows`."""

time_series = partial(panel, "timeseries")
"""Lines over time."""

bar_gauge = partial(panel, "bargauge")
"""One horizontal bar per series."""


def instant(expr: str, legend: str = "__auto") -> Target:
    """A query for the values at the end of the time range."""
    return Target(expr=expr, legendFormat=legend, instant=True)


def ranged(expr: str, legend: str = "__auto") -> Target:
    """A query over the time range."""
    return Target(expr=expr, legendFormat=legend)


def rows(expr: str) -> Target:
    """A query for the rows of a table: the values at the end of the time range, labels as columns."""
    return Target(expr=expr, format="table", instant=True)


def sql(query: str, *, series: bool = False) -> SqlTarget:
    """A SQL query for a table or, with columns `time`, one of text and `Value`, for a line each by that text."""
    return SqlTarget(rawSql=query, format="time_series" if series else "table")


def steps(base: str, *more: tuple[float, str]) -> list[Json]:
    """Thresholds: the colour below all, then from which value on which colour."""
    return [{"color": base, "value": None}, *({"color": color, "value": value} for value, color in more)]


def fixed(color: str) -> Json:
    """One colour whatever the value."""
    return {"mode": "fixed", "fixedColor": color}


def override(name: str, **properties: object) -> Json:
    """Settings of the field with that name; `custom_width=3` is the property `custom.width`."""
    named = {key.replace("custom_", "custom.", 1): value for key, value in properties.items()}
    return {
        "matcher": {"id": "byName", "options": name},
        # A property without a value takes the default away, as `max` of a field that is no ratio.
        "properties": [{"id": id_} | ({} if value is None else {"value": value}) for id_, value in named.items()],
    }


def override_like(pattern: str, **properties: object) -> Json:
    """Settings of the fields whose names match a regular expression."""
    return override(pattern, **properties) | {"matcher": {"id": "byRegexp", "options": f"/{pattern}/"}}


def data_link(title: str, url: str) -> Json:
    """A link on a value; `${__data.fields.NAME:percentencode}` is another cell of its row."""
    return {"title": title, "url": url, "targetBlank": True}


def value_map(meanings: Mapping[str, tuple[str, str]]) -> Json:
    """Meanings of single values: text and colour by value."""
    options = {
        value: {"index": index, "text": text, "color": color}
        for index, (value, (text, color)) in enumerate(meanings.items())
    }
    return {"type": "value", "options": options}


def merge() -> Json:
    """Transformation: several tables become one, rows joined where all common columns are equal."""
    return {"id": "merge", "options": {}}


def organize(order: Mapping[str, str], *, leave_out: Iterable[str] = ("Time",)) -> Json:
    """Transformation: columns in this order under these names; `leave_out` are dropped."""
    return {
        "id": "organize",
        "options": {
            "excludeByName": dict.fromkeys(leave_out, True),
            "indexByName": {name: index for index, name in enumerate(order)},
            "renameByName": {name: shown for name, shown in order.items() if name != shown},
        },
    }


def value_columns(names: Iterable[str]) -> dict[str, str]:
    """The value columns of several table queries as `merge` leaves them, and what each is called.

    >>> value_columns(["GPUs", "nodes"])
    {'Value #A': 'GPUs', 'Value #B': 'nodes'}
    """
    return {f"Value #{ref}": name for ref, name in zip(_REFS, names, strict=False)}


def lines_of(columns: Iterable[str], *labels: str, leave_out: Iterable[str] = ("Time",), **renamed: str) -> list[Json]:
    """Transformations of a table of several queries: one line for each combination of labels.

    Args:
        columns: what the values are called, in the order of the queries.
        labels: the columns before them, under their own names.
        leave_out: columns that are dropped.
        renamed: further columns before the values, under other names.
    """
    order = {**{name: name for name in labels}, **renamed, **value_columns(columns)}
    return [merge(), organize(order, leave_out=leave_out)]


def row(title: str, panels: Sequence[ModernPanel] = (), *, collapsed: bool = False, repeat: str | None = None) -> Any:
    """A row of the board; a collapsed one holds its panels, and sends no query until it is opened."""
    made = RowPanel(title=title, collapsed=collapsed, panels=list(panels), gridPos=GridPos(h=1, w=GRID, x=0, y=0))
    made.repeat.variable = repeat
    return made


def flow(panels: Sequence[Any]) -> list[Any]:
    """Give each panel its place, left to right and then below the highest of its line.

    The panels of a collapsed row are placed below it, where they show once it is opened.
    """
    layout = _PanelLayout()
    for each in panels:
        layout.put(each)
        for inner in getattr(each, "panels", ()):
            layout.put(inner)
    return list(panels)


class _PanelLayout:
    """Position of the next panel."""

    def __init__(self) -> None:
        self.x = self.y = self.height = 0

    def put(self, each: Any) -> None:
        """Place a panel."""
        if self.x + each.gridPos.w > GRID:
            self.x, self.y, self.height = 0, self.y + self.height, 0
        each.gridPos = GridPos(h=each.gridPos.h, w=each.gridPos.w, x=self.x, y=self.y)
        self.x += each.gridPos.w
        self.height = max(self.height, each.gridPos.h)


def to_modern(dashboard: Dashboard) -> Json:
    """The board as JSON of schema version 39.

    Args:
        dashboard: of grafanalib; its panels are `ModernPanel` and rows.

    Returns:
        What goes into the file: keys of that version only, each panel with a number of its own.

    Raises:
        NotModernError: a panel's plugin is dead, or has no complete defaults here.
    """
    raw = json.loads(json.dumps(dashboard, default=lambda each: each.to_json_data()))
    source = _source(raw["templating"]["list"])
    board = {key: raw[key] for key in _BOARD_KEYS if raw[key] is not None}
    return board | {
        "schemaVersion": SCHEMA_VERSION,
        "templating": {"list": [_variable(each, source) for each in raw["templating"]["list"]]},
        "timepicker": {},
        "panels": _numbered([_panel(each, source) for each in raw["panels"]]),
    }


_BOARD_KEYS = (
    "annotations", "description", "editable", "graphTooltip", "links", "refresh", "tags", "time", "timezone",
    "title", "uid",
)  # fmt: skip
_PANEL_KEYS = ("description", "gridPos", "interval", "repeat", "repeatDirection", "maxPerRow", "timeFrom", "timeShift",
               "title", "transformations", "type")  # fmt: skip
_ROW_KEYS = ("collapsed", "gridPos", "repeat", "title", "type")
_VARIABLE_KEYS = ("allValue", "current", "hide", "includeAll", "label", "multi", "name", "options", "query", "regex",
                  "refresh", "sort", "type")  # fmt: skip
_QUERIED_TYPES = frozenset(("query",))


def _source(variables: list[Json]) -> Json:
    """The data source that the board's variable is for."""
    types = [each["query"] for each in variables if each["type"] == "datasource"]
    return SOURCES[types[0]] if types else DATASOURCE


def _panel(raw: Json, source: Json) -> Json:
    kind = raw["type"]
    if kind == "row":
        inside = [_panel(each, source) for each in raw["panels"]]
        return {key: raw[key] for key in _ROW_KEYS if raw[key] is not None} | {"panels": inside}
    if kind in DEAD:
        raise NotModernError(f"panel {raw['title']!r}: Grafana no longer has the panel type {kind!r}")
    if kind not in OPTIONS:
        types_with_defaults = ", ".join(sorted(OPTIONS))
        raise NotModernError(
            f"panel {raw['title']!r}: no complete defaults for the panel type {kind!r}; has: {types_with_defaults}"
        )
    fields = {key: raw[key] for key in _PANEL_KEYS if raw.get(key) not in (None, [])}
    return fields | {
        "datasource": source,
        "fieldConfig": {
            "defaults": _defaults(raw["fieldConfig"]["defaults"], kind),
            "overrides": raw["fieldConfig"].get("overrides", []),
        },
        "options": OPTIONS[kind] | raw.get("options", {}),
        "targets": [_target(each, ref, source) for ref, each in zip(_REFS, raw["targets"], strict=False)],
    }


_REFS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def _defaults(raw: Json, kind: str) -> Json:
    """Settings of all fields: without nulls, but for the threshold below all others."""
    fields = {key: value for key, value in raw.items() if value not in (None, []) and key != "thresholds"}
    fields["custom"] = CUSTOM[kind] | raw.get("custom", {})
    steps = raw["thresholds"]["steps"]
    if steps:
        fields["thresholds"] = {"mode": raw["thresholds"]["mode"], "steps": [_threshold(each) for each in steps]}
    return fields


def _threshold(raw: Json) -> Json:
    """A threshold; grafanalib writes the text "null" for the one below all others."""
    value = raw["value"]
    return {"color": raw["color"], "value": None if value in ("null", None) else value}


def _target(raw: Json, ref: str, source: Json) -> Json:
    if "rawSql" in raw:
        query = {"rawSql": raw["rawSql"], "rawQuery": True, "format": FORMATS[raw["format"]]}
        return {"datasource": source, "editorMode": "code", "refId": raw["refId"] or ref} | query
    at_once = bool(raw["instant"])
    fields: Json = {
        "datasource": source,
        "editorMode": "code",
        "expr": raw["expr"],
        "format": raw["format"],
        "instant": at_once,
        "range": not at_once,
        "refId": raw["refId"] or ref,
    }
    return fields if raw["format"] == "table" else fields | {"legendFormat": raw["legendFormat"]}


def _variable(raw: Json, source: Json) -> Json:
    fields = {key: raw[key] for key in _VARIABLE_KEYS if raw[key] not in (None, [])}
    if raw["type"] in _QUERIED_TYPES:
        fields["datasource"] = source
    chosen = raw["current"].get("value")
    fields.pop("current")
    if chosen is not None:
        text = ["All"] if chosen == ["$__all"] else chosen
        fields["current"] = {"selected": True, "text": text, "value": chosen}
    return fields


def _numbered(panels: list[Json]) -> list[Json]:
    """The panels, each with an id: its place in reading order."""
    flat = [each for outer in panels for each in (outer, *outer.get("panels", ()))]
    for number, each in enumerate(flat, start=1):
        each["id"] = number
    return panels


def as_text(board: Json) -> str:
    """The file's content: keys sorted, so that a board built again is the same file."""
    return json.dumps(board, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
