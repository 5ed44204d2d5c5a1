"""Checks of boards: what a server would refuse, show wrongly or show nothing for, found without a server.

Each rule is a function from a board (its JSON) to what is wrong with it. Those of Grafana's dashboard-linter that
apply are here too, written anew. Two checks need packages that only Trackside's own tests have, `jsonschema` and
promql-parser: `lint` runs without them, and `left_out` lists what it then did not check.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache, partial
from importlib import resources, util
from itertools import chain, combinations, pairwise
from typing import TYPE_CHECKING, Any

from dashboards.annotations import OF_PROMETHEUS
from dashboards.exported_metrics import BY_NAME
from dashboards.grafana import DEAD, DUCKDB, GRID, SCHEMA_VERSION, SOURCES, Json
from dashboards.promql_names import names
from dashboards.rules.derived import DERIVED
from dashboards.rules.kubernetes import KUBERNETES
from dashboards.rules.recording import recorded
from queries import published

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    Problems = Iterator[tuple[str, str]]
    Rule = Callable[[Json], Problems]

SERVER_LABELS = frozenset(("job", "instance"))
"""Labels that the server adds to every series."""

RECORDED = {each.name: each.labels for each in (*recorded(), *DERIVED, *KUBERNETES)}
"""Labels of the series that the recording rules make."""

SERVER_METRICS = frozenset(("up", "scrape_duration_seconds", "scrape_samples_scraped"))
"""Series that the server makes for every scrape."""

OF_GRAFANA = {"type": "grafana", "uid": "-- Grafana --"}
"""The data source of Grafana's own annotations, which its editor adds to each board."""

PANELS = range(12, 26)
"""How many panels a board may have: fewer are no answer, more are no question."""

HOST_VARIABLES = frozenset(("explorer_url",))
"""Variables whose default may name a host: a person changes it on the board."""


@dataclass(frozen=True)
class Finding:
    """What is wrong.

    Attributes:
        board: its uid.
        where: panel title, or part of the board.
        rule: name of the rule.
        message: what is wrong, and what is required.
    """

    board: str
    where: str
    rule: str
    message: str

    def __str__(self) -> str:
        """One line."""
        return f"{self.board}: {self.where}: {self.message} ({self.rule})"


def lint(
    boards: Sequence[Json], *, parse: Callable[[str], object] | None = None, beside: Sequence[str] | None = None
) -> list[Finding]:
    """All that is wrong with boards that are loaded together.

    Args:
        boards: as read from JSON.
        parse: parses PromQL and raises ValueError where it cannot; None leaves the grammar unchecked.
        beside: of boards that a person made or edited, the uids of the boards that there are besides; such a board may
            have its own uid, be editable, show what it likes how it likes, and ask for series of the site's own. None:
            the boards are Trackside's, and follow its rules.
    """
    findings = []
    for board in boards:
        name = str(board.get("uid") or board.get("title") or "(a board without uid)")
        rules: dict[str, Rule] = dict(RULES if beside is None else RULES_OF_ANY)
        if parse is not None:
            rules["promql_grammar"] = partial(_grammar, parse=parse)
        malformed = list(_shape(board))
        problems_of_rules = (
            {"shape": malformed} if malformed else {rule: _problems(check, board) for rule, check in rules.items()}
        )
        findings += [
            Finding(name, where, rule, problem)
            for rule, problems in problems_of_rules.items()
            for where, problem in problems
        ]
    return [*findings, *_together(boards, beside or ())]


def _problems(rule: Rule, board: Json) -> list[tuple[str, str]]:
    """What a rule finds. A rule that fails on JSON that is no board's gives a finding in place of a traceback."""
    try:
        return list(rule(board))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        return [("board", f"cannot be checked, it is malformed: {type(error).__name__}: {error}")]


def left_out() -> list[str]:
    """What is not checked here, and what would check it."""
    missing = ["the grammar of queries (Trackside's own tests parse them)"]
    if util.find_spec("jsonschema") is None:
        missing.append("Grafana's JSON schema (pip install jsonschema)")
    return missing


def _shape(board: Json) -> Problems:
    """Whether it is a board at all: the other rules rely on it."""
    listed = [("panels", board.get("panels")), ("templating.list", _dict(board.get("templating")).get("list"))]
    for name, value in listed:
        if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
            yield name, "not a list of objects: this is no dashboard"
            return
    for each in _all(board):
        targets = each.get("targets", [])
        if not isinstance(each.get("gridPos"), dict) or not isinstance(targets, list):
            yield _title(each), "a panel without gridPos, or with targets that are no list"
        elif not all(isinstance(target, dict) for target in targets):
            yield _title(each), "a target that is no object"


def _dict(value: object) -> Json:
    return value if isinstance(value, dict) else {}


def _all(board: Json) -> list[Json]:
    """Panels and rows, those inside collapsed rows too."""
    return [each for outer in board["panels"] for each in (outer, *(_dict(p) for p in outer.get("panels", ())))]


def panels(board: Json) -> list[Json]:
    """Panels that show something."""
    return [each for each in _all(board) if each.get("type") != "row"]


def _title(panel: Json) -> str:
    return str(panel.get("title") or f"panel {panel.get('id')}")


def _fields(panel: Json) -> Json:
    return _dict(_dict(panel.get("fieldConfig")).get("defaults"))


def _overrides(panel: Json) -> list[Json]:
    overrides = _dict(panel.get("fieldConfig")).get("overrides", [])
    return [_dict(each) for each in overrides] if isinstance(overrides, list) else []


def _properties(panel: Json) -> Iterator[tuple[str, Any]]:
    """Settings of single fields: id and value."""
    for each in _overrides(panel):
        for setting in each.get("properties", ()):
            yield str(setting.get("id")), setting.get("value")


def _texts(value: object) -> Iterator[str]:
    """Every text within."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from chain.from_iterable(_texts(each) for each in value.values())
    elif isinstance(value, list):
        yield from chain.from_iterable(_texts(each) for each in value)


@cache
def known(name: str) -> Any:  # noqa: ANN401 - JSON
    """A file of `dashboards/schema`: dashboard, panels or ids."""
    return json.loads((resources.files("dashboards") / "schema" / f"{name}.json").read_text("utf-8"))


def strict_schema(board: Json) -> Problems:
    """Grafana's own schema: no key that it does not know, no value of another type; of panels their plugin's too."""
    if util.find_spec("jsonschema") is None:
        return
    yield from (("board", problem) for problem in _against(known("dashboard"), _without_prometheus_keys(board)))
    for each in panels(board):
        schemas = known("panels").get(each.get("type"))
        if schemas is None:
            yield (
                _title(each),
                f"no schema for the panel type {each.get('type')!r}; see dashboards/schema/regenerate.sh",
            )
            continue
        yield from ((_title(each), problem) for problem in _against(schemas["options"], each.get("options", {})))
        custom = dict(schemas["custom"])
        custom.pop("required", None)  # what is left out has a default of the plugin
        yield from ((_title(each), problem) for problem in _against(custom, _fields(each).get("custom", {})))


def _without_prometheus_keys(board: Json) -> Json:
    """The board without what of its annotations only the data source knows, as `annotations.OF_PROMETHEUS` explains."""
    listed = [{key: each[key] for key in each.keys() - OF_PROMETHEUS} for each in _annotations(board)]
    return {**board, "annotations": {**_dict(board.get("annotations")), "list": listed}}


def _named(annotation: Json) -> str:
    return f"annotation {annotation.get('name')}"


def _annotations(board: Json) -> list[Json]:
    return [_dict(each) for each in _dict(board.get("annotations")).get("list", ())]


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
        yield "board", f"{len(panels(board))} panels; {PANELS.start} to {PANELS.stop - 1} answer one question"


def unique_ids(board: Json) -> Problems:
    """Every panel has an id of its own."""
    seen: set[object] = set()
    for each in _all(board):
        if not isinstance(each.get("id"), int) or each["id"] in seen:
            yield _title(each), f"id {each.get('id')!r} is missing or taken"
        seen.add(each.get("id"))


def grid(board: Json) -> Problems:
    """Panels lie within the 24 columns and on nothing else."""
    placed = [(each, [_dict(each["gridPos"]).get(key, -1) for key in "xywh"]) for each in _all(board)]
    for each, (x, y, width, height) in placed:
        if not (x >= 0 and y >= 0 and 0 < width <= GRID - x and height > 0):
            yield _title(each), f"lies outside the {GRID} columns: x={x} y={y} w={width} h={height}"
    for (one, a), (other, b) in combinations(placed, 2):
        if a[0] < b[0] + b[2] and b[0] < a[0] + a[2] and a[1] < b[1] + b[3] and b[1] < a[1] + a[3]:
            yield _title(other), f"overlaps {_title(one)!r}"


def living_panels(board: Json) -> Problems:
    """No panel type that Grafana has dropped."""
    for each in panels(board):
        if each.get("type") in DEAD:
            yield _title(each), f"the panel type {each['type']!r} is gone"


def complete_display(board: Json) -> Problems:
    """Every panel declares its description, unit, precision, minimum and its text for no value."""
    for each in panels(board):
        for key in ("title", "description"):
            if not each.get(key):
                yield _title(each), f"has no {key}"
        fields = _fields(each)
        required = ["unit", "decimals", "min", "noValue", *(["max"] if fields.get("unit") == "percentunit" else [])]
        soft = {"min": "axisSoftMin", "max": "axisSoftMax"}
        for key in required:
            if fields.get(key) is None and _dict(fields.get("custom")).get(soft.get(key, "")) is None:
                yield _title(each), f"has no {key}"


def valid_ids(board: Json) -> Problems:
    """Units and transformations that Grafana knows: it ignores others without a word."""
    for each in panels(board):
        units = [_fields(each).get("unit"), *(value for id_, value in _properties(each) if id_ == "unit")]
        for unit in units:
            if unit is not None and unit not in known("ids")["units"]:
                yield _title(each), f"Grafana has no unit {unit!r}"
        for step in each.get("transformations", ()):
            if step.get("id") not in known("ids")["transformations"]:
                yield _title(each), f"Grafana has no transformation {step.get('id')!r}"


def thresholds(board: Json) -> Problems:
    """Thresholds begin below everything and rise; numbers coloured by them have some, or are plain."""
    for each in panels(board):
        for steps in _thresholds(each):
            values = [step.get("value") for step in steps]
            if values[:1] != [None] or any(b is None or (a is not None and b <= a) for a, b in pairwise(values)):
                yield _title(each), f"thresholds {values} do not begin at null and rise"


def _thresholds(panel: Json) -> Iterator[list[Json]]:
    everywhere = [_fields(panel).get("thresholds"), *(v for id_, v in _properties(panel) if id_ == "thresholds")]
    yield from (_dict(each).get("steps", []) for each in everywhere if each is not None)


def data_source(board: Json) -> Problems:
    """Panels, queries and variables take the data source from the variable, labelled as Grafana labels it."""
    sources = [each for each in board["templating"]["list"] if each.get("type") == "datasource"]
    named = _dict(_source(board))["uid"].strip("${}")
    if [(each.get("name"), each.get("label")) for each in sources] != [(named, "Data source")]:
        yield "variables", f'want one variable of type datasource, named "{named}", labelled "Data source"'
    queries = [("variable " + str(each.get("name")), each) for each in board["templating"]["list"] if _is_query(each)]
    queries += [(_named(each), each) for each in _annotations(board)]
    queries += [(_title(panel), each) for panel in panels(board) for each in (panel, *panel.get("targets", ()))]
    for where, each in queries:
        if each.get("datasource") not in (_source(board), OF_GRAFANA):
            yield where, f"its data source is {each.get('datasource')!r}, not the variable's"


def _source(board: Json) -> Json:
    """The data source that the board's variable is for: Prometheus, if it is for none that we know."""
    types = [each.get("query") for each in board["templating"]["list"] if each.get("type") == "datasource"]
    return SOURCES.get(str(types[0]) if types else "", SOURCES["prometheus"])


def _asks_sql(board: Json) -> bool:
    return _source(board) == DUCKDB


def _is_query(variable: Json) -> bool:
    return variable.get("type") == "query"


def targets(board: Json) -> Problems:
    """Every panel has a query; each query has a letter of its own and is either instant or over a range."""
    for each in panels(board):
        letters = [target.get("refId") for target in each.get("targets", ())]
        if not letters:
            yield _title(each), "no query"
        if len(set(letters)) != len(letters) or not all(letters):
            yield _title(each), f"its queries are called {letters}"
        for target in () if _asks_sql(board) else each.get("targets", ()):
            if bool(target.get("instant")) == bool(target.get("range")):
                yield _title(each), f"query {target.get('refId')} is not either instant or over a range"
            if target.get("format") == "table" and not target.get("instant"):
                yield _title(each), f"query {target.get('refId')} makes a table of every moment: ask for an instant"


_VARIABLE = re.compile(r"\$([A-Za-z_]\w*)|\$\{(\w+)(?:[.:][^}]*)?\}|\[\[(\w+)(?::\w+)?\]\]")


def variables(board: Json) -> Problems:
    """Each variable is used, each that is used is there, and those that may hold several values are matched by =~."""
    own = {str(each.get("name")): each for each in board["templating"]["list"]}
    used = {name for text in _texts({**board, "templating": own}) for name in _names(text)}
    for name in sorted(own.keys() - used):
        yield "variables", f"${name} is used nowhere"
    for name in sorted(used - own.keys()):
        if not name.startswith("__"):
            yield "variables", f"${name} is not defined"
    several = {name for name, each in own.items() if each.get("multi") or each.get("includeAll")}
    for where, expr in _queries(board):
        for name in several & set(re.findall(r'!?="\$\{?(\w+)', expr)):
            yield where, f"${name} may hold several values: match it with =~"
    for name, each in own.items():
        if _is_query(each) and each.get("refresh") != 2:
            yield "variables", f"${name} does not refresh when the time range changes"
        if each.get("includeAll") and not each.get("allValue") and not _asks_sql(board):
            yield "variables", f"${name} offers All without an allValue"


def _names(text: str) -> Iterator[str]:
    return (one or two or three for one, two, three in _VARIABLE.findall(text))


def _queries(board: Json) -> Iterator[tuple[str, str]]:
    for panel in [] if _asks_sql(board) else panels(board):
        yield from ((_title(panel), str(target.get("expr", ""))) for target in panel.get("targets", ()))
    yield from (
        (f"annotation {each.get('name')}", str(each.get("expr", ""))) for each in _annotations(board) if "expr" in each
    )


def exported_metrics(board: Json, *, others: bool = False) -> Problems:
    """Queries, legends and variables name only exported or recorded metrics, and only labels that these have.

    Args:
        board: the board.
        others: whether it may ask for series that are not Trackside's, of which nothing is known here.
    """
    if _asks_sql(board):
        return
    for each in board["templating"]["list"]:
        if _is_query(each) and not (others and not _ours(str(each.get("query", "")))):
            yield from _variable_metrics(each)
    for each in _annotations(board):
        for problem in _unknown(
            str(each.get("expr", "")), _shown(f"{each.get('titleFormat')} {each.get('textFormat')}")
        ):
            yield f"annotation {each.get('name')}", problem
    for panel in panels(board):
        for target in panel.get("targets", ()):
            expr = str(target.get("expr", ""))
            if others and not _ours(expr):
                continue
            for problem in _unknown(expr, _shown(str(target.get("legendFormat", "")))):
                yield _title(panel), problem


def _ours(expr: str) -> bool:
    """Whether every metric of an expression is named like one of Trackside's."""
    return all(
        metric.startswith("trackside") or metric in SERVER_METRICS for metric, _ in names(interpolated(expr)).matched
    )


def _shown(text: str) -> list[str]:
    """Labels that a legend or a title reads."""
    return re.findall(r"\{\{\s*(\w+)\s*\}\}", text)


def _variable_metrics(variable: Json) -> Problems:
    where = f"variable {variable.get('name')}"
    match = re.fullmatch(r"label_values\((.+),\s*(\w+)\)", str(variable.get("query", "")))
    if match is None:
        yield where, "its query is not label_values(metric, label)"
        return
    for problem in _unknown(match[1], [match[2]]):
        yield where, problem


def exported_values(board: Json) -> Problems:
    """Queries must not match a label value that is never exported: they would return nothing without an error."""
    for where, expr in _queries(board):
        for metric, inside in re.findall(r"([A-Za-z_:][\w:]*)\{([^}]*)\}", expr):
            values = BY_NAME[metric].values if metric in BY_NAME else {}
            for label, value in re.findall(r'(\w+)\s*=\s*"([^"$]*)"', inside):
                if value not in values.get(label, (value,)):
                    yield where, f"{metric} never has {label}={value!r}; it has: {', '.join(values[label])}"


def _unknown(expr: str, shown: Iterable[str]) -> Iterator[str]:
    """What an expression names that is not exported; `shown` are labels that are read from its result."""
    read = names(interpolated(expr))
    allowed = set(SERVER_LABELS) | read.made
    for metric, labels in read.matched:
        family = BY_NAME.get(metric)
        own = family.labels if family else RECORDED.get(metric)
        if own is None and metric not in SERVER_METRICS:
            yield f"{metric} is not exported"
        has = SERVER_LABELS | set(own or ())
        yield from (f"{metric} has no label {label!r}" for label in sorted(labels - has) if own)
        allowed |= has
    yield from (f"none of its metrics has the label {each!r}" for each in sorted({*read.grouped, *shown} - allowed))


def rates(board: Json) -> Problems:
    """No rate of a gauge, which all exported metrics are; other rates are over $__rate_interval."""
    for where, expr in _queries(board):
        for function, inside in re.findall(r"\b(rate|irate|increase)\s*\(([^()]*)", expr):
            if any(metric in BY_NAME for metric, _ in names(inside).matched):
                yield where, f"{function}() of a gauge says nothing: gauges fall when accounting is corrected"
            if "[$__rate_interval]" not in inside:
                yield where, f"{function}() over a fixed window: use $__rate_interval"


def _statements(board: Json) -> Iterator[tuple[str, str]]:
    """The SQL of a board's panels and variables."""
    for panel in panels(board):
        yield from ((_title(panel), str(target.get("rawSql", ""))) for target in panel.get("targets", ()))
    variables = [each for each in board["templating"]["list"] if _is_query(each)]
    yield from ((f"variable {each.get('name')}", str(each.get("query", ""))) for each in variables)


_BOUND = re.compile(r"(?<!')\$\{(?!__)\w+:sqlstring\}(?!')|'\$\{__(?:from|to):date:iso\}'")
_READ = re.compile(r'\b(?:FROM|JOIN)\s+([\w"(.]+)', re.IGNORECASE)
_WITH = re.compile(r"\b(\w+)\s+AS\s*\(", re.IGNORECASE)


def bound_sql(board: Json) -> Problems:
    """SQL reads published tables alone, and takes variables in as Grafana quotes them: no text of a person's is SQL."""
    if not _asks_sql(board):
        return
    for name, each in ((each.get("name"), each) for each in board["templating"]["list"]):
        if _is_query(each) and each.get("allValue"):
            yield "variables", f"${name} has an allValue, which Grafana puts into SQL as it is: leave it out"
    for where, statement in _statements(board):
        if not re.match(r"\s*(SELECT|WITH)\b", statement, re.IGNORECASE):
            yield where, f"is no SELECT: {statement[:60]!r}"
        for text in re.findall(r"'?(?:\$\w+|\$\{[^}]*\}|\[\[[^\]]*\]\])'?", _BOUND.sub("", statement)):
            yield where, f"{text} is put into SQL as it is: write ${{NAME:sqlstring}}, or '${{__from:date:iso}}'"
        tables = {*published.tables(), *_WITH.findall(statement)}
        for name in sorted({*_READ.findall(statement)} - tables):
            yield where, f"reads {name}, which is not published; published are {', '.join(sorted(published.tables()))}"


_BOARD_LINK = re.compile(r"/d/([^/?#$]+)")
_HOST = re.compile(r"https?://[^\s$]|\blocalhost\b|\b\d{1,3}(?:\.\d{1,3}){3}\b")


def no_hosts(board: Json) -> Problems:
    """No host is written into a board, but as the default that a person changes."""
    rest = [each for each in board["templating"]["list"] if each.get("name") not in HOST_VARIABLES]
    for text in _texts({**board, "templating": rest}):
        if _HOST.search(text):
            yield "board", f"names a host: {text[:100]!r}"


RULES: Mapping[str, Rule] = {
    rule.__name__: rule
    for rule in (
        strict_schema,
        identity,
        unique_ids,
        grid,
        living_panels,
        complete_display,
        valid_ids,
        thresholds,
        data_source,
        targets,
        variables,
        exported_metrics,
        exported_values,
        rates,
        bound_sql,
        no_hosts,
    )
}
"""All rules for one board, by name."""


def uid_of_any(board: Json) -> Problems:
    """A uid that Grafana takes."""
    if not re.fullmatch(r"[\w-]{1,40}", str(board.get("uid", ""))):
        yield "board", f"uid {board.get('uid')!r} is not 1 to 40 letters, digits, - or _"


RULES_OF_ANY: Mapping[str, Rule] = {
    **{name: rule for name, rule in RULES.items() if name not in {"identity", "complete_display", "no_hosts"}},
    "exported_metrics": partial(exported_metrics, others=True),
    "uid_of_any": uid_of_any,
}
"""Rules for a board that a person made or edited: what Grafana would refuse, or show wrongly or as nothing."""


def _grammar(board: Json, parse: Callable[[str], object]) -> Problems:
    for where, expr in _queries(board):
        try:
            parse(interpolated(expr))
        except ValueError as error:
            yield where, f"does not parse: {error}: {expr}"


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


def _together(boards: Sequence[Json], beside: Sequence[str]) -> list[Finding]:
    """What is wrong with boards next to each other: a uid twice, a link to a board that is not there."""
    uids = [str(board.get("uid")) for board in boards]
    findings = [Finding(uid, "board", "unique_uids", "another board has this uid") for uid in _twice(uids)]
    for board, uid in zip(boards, uids, strict=True):
        linked = {name for text in _texts(board) for name in _BOARD_LINK.findall(text)}
        findings += [
            Finding(uid, "links", "links", f"no board has the uid {name!r} that it links to")
            for name in sorted(linked - {*uids, *beside})
        ]
    return findings


def _twice(values: list[str]) -> list[str]:
    return sorted({value for value in values if values.count(value) > 1})
