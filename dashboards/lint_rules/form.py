"""Rules on the form of a board: Grafana's schema, identity, grid, display, units, data source, links to hosts."""

from __future__ import annotations

import json
import re
from functools import cache
from importlib import resources, util
from itertools import combinations, pairwise
from typing import TYPE_CHECKING, Any

from dashboards.annotations import OF_PROMETHEUS
from dashboards.board_json import (
    annotations_of,
    as_object,
    fields_of,
    is_query,
    name_of_annotation,
    panels,
    panels_and_rows,
    properties_of,
    source_of,
    texts_in,
    title_of,
)
from dashboards.grafana import DEAD, GRID, SCHEMA_VERSION, Json

if TYPE_CHECKING:
    from collections.abc import Iterator

    Problems = Iterator[tuple[str, str]]

PANELS = range(12, 26)
"""How many panels a board may have: fewer are no answer, more are no question."""


HOST_VARIABLES = frozenset(("explorer_url",))
"""Variables whose default may name a host: a person changes it on the board."""


OF_GRAFANA = {"type": "grafana", "uid": "-- Grafana --"}
"""The data source of Grafana's own annotations, which its editor adds to each board."""


@cache
def known(name: str) -> Any:
    """A file of `dashboards/schema`: dashboard, panels or ids."""
    return json.loads((resources.files("dashboards") / "schema" / f"{name}.json").read_text("utf-8"))


def strict_schema(board: Json) -> Problems:
    """Grafana's own schema: no unknown key, no value of another type; of panels their plugin's too."""
    if util.find_spec("jsonschema") is None:
        return
    yield from (("board", problem) for problem in _against(known("dashboard"), _without_prometheus_keys(board)))
    for each in panels(board):
        schemas = known("panels").get(each.get("type"))
        if schemas is None:
            yield (
                title_of(each),
                f"no schema for the panel type {each.get('type')!r}; see dashboards/schema/regenerate.sh",
            )
            continue
        yield from ((title_of(each), problem) for problem in _against(schemas["options"], each.get("options", {})))
        custom = dict(schemas["custom"])
        custom.pop("required", None)  # what is left out has a default of the plugin
        yield from ((title_of(each), problem) for problem in _against(custom, fields_of(each).get("custom", {})))


def _without_prometheus_keys(board: Json) -> Json:
    """The board without the annotation keys of the data source alone, as `annotations.OF_PROMETHEUS` explains."""
    listed = [{key: each[key] for key in each.keys() - OF_PROMETHEUS} for each in annotations_of(board)]
    return {**board, "annotations": {**as_object(board.get("annotations")), "list": listed}}


def _against(schema: Json, value: object) -> Iterator[str]:
    from jsonschema import Draft7Validator  # noqa: PLC0415 - only where it is installed

    for error in Draft7Validator(schema).iter_errors(value):
        yield f"{error.json_path}: {error.message[:200]}"


def identity(board: Json) -> Problems:
    """A uid that links can rely on, no id or version of some server, not editable, the schema version we write."""
    uid = str(board.get("uid", ""))
    if not re.fullmatch(r"trackside-[a-z0-9-]{1,30}", uid):
        yield "board", f"uid {uid!r} is not trackside-<board>, at most 40 characters"
    if board.get("id") is not None or board.get("version"):
        yield "board", "id and version belong to a server"
    if board.get("editable") is not False:
        yield "board", "editable: change the board's Python, not its copy"
    if board.get("schemaVersion") != SCHEMA_VERSION:
        yield "board", f"schemaVersion is {board.get('schemaVersion')!r}, not {SCHEMA_VERSION}"
    if not board.get("title") or not board.get("description") or "trackside" not in board.get("tags", ()):
        yield "board", "title, description or the tag trackside is missing"
    if len(panels(board)) not in PANELS:
        yield (
            "board",
            f"{len(panels(board))} panels; {PANELS.start} to {PANELS.stop - 1} answer one question",
        )


def uid_of_any(board: Json) -> Problems:
    """A uid that Grafana takes."""
    if not re.fullmatch(r"[\w-]{1,40}", str(board.get("uid", ""))):
        yield "board", f"uid {board.get('uid')!r} is not 1 to 40 letters, digits, - or _"


def unique_ids(board: Json) -> Problems:
    """Every panel has an id of its own."""
    seen: set[object] = set()
    for each in panels_and_rows(board):
        if not isinstance(each.get("id"), int) or each["id"] in seen:
            yield title_of(each), f"id {each.get('id')!r} is missing or taken"
        seen.add(each.get("id"))


def grid(board: Json) -> Problems:
    """Panels lie within the 24 columns and on nothing else."""
    placed = [(each, [as_object(each["gridPos"]).get(key, -1) for key in "xywh"]) for each in panels_and_rows(board)]
    for each, (x, y, width, height) in placed:
        if not (x >= 0 and y >= 0 and 0 < width <= GRID - x and height > 0):
            yield title_of(each), f"lies outside the {GRID} columns: x={x} y={y} w={width} h={height}"
    for (one, a), (other, b) in combinations(placed, 2):
        if a[0] < b[0] + b[2] and b[0] < a[0] + a[2] and a[1] < b[1] + b[3] and b[1] < a[1] + a[3]:
            yield title_of(other), f"overlaps {title_of(one)!r}"


def living_panels(board: Json) -> Problems:
    """No panel type that Grafana has dropped."""
    for each in panels(board):
        if each.get("type") in DEAD:
            yield title_of(each), f"the panel type {each['type']!r} is gone"


def complete_display(board: Json) -> Problems:
    """Every panel declares its description, unit, precision, minimum and its text for no value."""
    for each in panels(board):
        for key in ("title", "description"):
            if not each.get(key):
                yield title_of(each), f"has no {key}"
        fields = fields_of(each)
        required = ["unit", "decimals", "min", "noValue", *(["max"] if fields.get("unit") == "percentunit" else [])]
        soft = {"min": "axisSoftMin", "max": "axisSoftMax"}
        for key in required:
            if fields.get(key) is None and as_object(fields.get("custom")).get(soft.get(key, "")) is None:
                yield title_of(each), f"has no {key}"


def valid_ids(board: Json) -> Problems:
    """Units and transformations that Grafana has: it ignores others without a message."""
    for each in panels(board):
        units = [
            fields_of(each).get("unit"),
            *(value for id_, value in properties_of(each) if id_ == "unit"),
        ]
        for unit in units:
            if unit is not None and unit not in known("ids")["units"]:
                yield title_of(each), f"Grafana has no unit {unit!r}"
        for step in each.get("transformations", ()):
            if step.get("id") not in known("ids")["transformations"]:
                yield title_of(each), f"Grafana has no transformation {step.get('id')!r}"


def thresholds(board: Json) -> Problems:
    """Thresholds begin below everything and rise; numbers coloured by them have some, or are plain."""
    for each in panels(board):
        for steps in _thresholds(each):
            values = [step.get("value") for step in steps]
            if values[:1] != [None] or any(b is None or (a is not None and b <= a) for a, b in pairwise(values)):
                yield title_of(each), f"thresholds {values} do not begin at null and rise"


def _thresholds(panel: Json) -> Iterator[list[Json]]:
    everywhere = [
        fields_of(panel).get("thresholds"),
        *(v for id_, v in properties_of(panel) if id_ == "thresholds"),
    ]
    yield from (as_object(each).get("steps", []) for each in everywhere if each is not None)


def data_source(board: Json) -> Problems:
    """Panels, queries and variables take the data source from the variable, labelled as Grafana labels it."""
    sources = [each for each in board["templating"]["list"] if each.get("type") == "datasource"]
    named = as_object(source_of(board))["uid"].strip("${}")
    if [(each.get("name"), each.get("label")) for each in sources] != [(named, "Data source")]:
        yield "variables", f'needs one variable of type datasource, named "{named}", labelled "Data source"'
    queries = [("variable " + str(each.get("name")), each) for each in board["templating"]["list"] if is_query(each)]
    queries += [(name_of_annotation(each), each) for each in annotations_of(board)]
    queries += [(title_of(panel), each) for panel in panels(board) for each in (panel, *panel.get("targets", ()))]
    for where, each in queries:
        if each.get("datasource") not in (source_of(board), OF_GRAFANA):
            yield where, f"its data source is {each.get('datasource')!r}, not the variable's"


_HOST = re.compile(r"https?://[^\s$]|\blocalhost\b|\b\d{1,3}(?:\.\d{1,3}){3}\b")


def no_hosts(board: Json) -> Problems:
    """No host is written into a board, but as the default that a person changes."""
    rest = [each for each in board["templating"]["list"] if each.get("name") not in HOST_VARIABLES]
    for text in texts_in({**board, "templating": rest}):
        if _HOST.search(text):
            yield "board", f"names a host: {text[:100]!r}"
