"""Rules on the content of a board: its queries, its variables, the metrics, labels and tables that they name."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from dashboards.board_json import (
    annotations_of,
    interpolated,
    is_query,
    panels,
    queries_of,
    queries_sql,
    statements_of,
    texts_in,
    title_of,
    variables_in,
)
from dashboards.exported_metrics import BY_NAME
from dashboards.promql_names import names
from dashboards.rules.derived import DERIVED
from dashboards.rules.kubernetes import KUBERNETES
from dashboards.rules.recording import recorded
from queries import published

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from dashboards.grafana import Json

    Problems = Iterator[tuple[str, str]]

SERVER_LABELS = frozenset(("job", "instance"))
"""Labels that the server adds to every series."""


RECORDED = {each.name: each.labels for each in (*recorded(), *DERIVED, *KUBERNETES)}
"""Labels of the series that the recording rules make."""


SERVER_METRICS = frozenset(("up", "scrape_duration_seconds", "scrape_samples_scraped"))
"""Series that the server makes for every scrape."""


def targets(board: Json) -> Problems:
    """Every panel has a query; each query has a letter of its own and is either instant or over a range."""
    for each in panels(board):
        letters = [target.get("refId") for target in each.get("targets", ())]
        if not letters:
            yield title_of(each), "no query"
        if len(set(letters)) != len(letters) or not all(letters):
            yield title_of(each), f"its queries are called {letters}"
        for target in () if queries_sql(board) else each.get("targets", ()):
            if bool(target.get("instant")) == bool(target.get("range")):
                yield title_of(each), f"query {target.get('refId')} is not either instant or over a range"
            if target.get("format") == "table" and not target.get("instant"):
                yield (
                    title_of(each),
                    f"query {target.get('refId')} makes a table of every moment: make it an instant query",
                )


def variables(board: Json) -> Problems:
    """Each variable is used, each that is used is there, and those that may hold several values are matched by =~."""
    own = {str(each.get("name")): each for each in board["templating"]["list"]}
    used = {name for text in texts_in({**board, "templating": own}) for name in variables_in(text)}
    for name in sorted(own.keys() - used):
        yield "variables", f"${name} is used nowhere"
    for name in sorted(used - own.keys()):
        if not name.startswith("__"):
            yield "variables", f"${name} is not defined"
    several = {name for name, each in own.items() if each.get("multi") or each.get("includeAll")}
    for where, expr in queries_of(board):
        for name in several & set(re.findall(r'!?="\$\{?(\w+)', expr)):
            yield where, f"${name} may hold several values: match it with =~"
    for name, each in own.items():
        if is_query(each) and each.get("refresh") != 2:
            yield "variables", f"${name} does not refresh when the time range changes"
        if each.get("includeAll") and not each.get("allValue") and not queries_sql(board):
            yield "variables", f"${name} offers All without an allValue"


def exported_metrics(board: Json, *, others: bool = False) -> Problems:
    """Queries, legends and variables name only exported or recorded metrics, and only labels that these have.

    Args:
        board: the board.
        others: whether it may query series that are not Trackside's; these are not checked.
    """
    if queries_sql(board):
        return
    for each in board["templating"]["list"]:
        if is_query(each) and not (others and not only_ours(str(each.get("query", "")))):
            yield from _variable_metrics(each)
    for each in annotations_of(board):
        for problem in _unknown(
            str(each.get("expr", "")), _shown(f"{each.get('titleFormat')} {each.get('textFormat')}")
        ):
            yield f"annotation {each.get('name')}", problem
    for panel in panels(board):
        for target in panel.get("targets", ()):
            expr = str(target.get("expr", ""))
            if others and not only_ours(expr):
                continue
            for problem in _unknown(expr, _shown(str(target.get("legendFormat", "")))):
                yield title_of(panel), problem


def only_ours(expr: str) -> bool:
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
    for where, expr in queries_of(board):
        for metric, inside in re.findall(r"([A-Za-z_:][\w:]*)\{([^}]*)\}", expr):
            values = BY_NAME[metric].values if metric in BY_NAME else {}
            for label, value in re.findall(r'(\w+)\s*=\s*"([^"$]*)"', inside):
                if value not in values.get(label, (value,)):
                    yield where, f"{metric} never has {label}={value!r}; it has: {', '.join(values[label])}"


def _unknown(expr: str, shown: Iterable[str]) -> Iterator[str]:
    """Names in an expression that are not exported; `shown` are labels that are read from its result."""
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
    for where, expr in queries_of(board):
        for function, inside in re.findall(r"\b(rate|irate|increase)\s*\(([^()]*)", expr):
            if any(metric in BY_NAME for metric, _ in names(inside).matched):
                yield where, f"{function}() of a gauge has no meaning: gauges fall when accounting is corrected"
            if "[$__rate_interval]" not in inside:
                yield where, f"{function}() over a fixed window: use $__rate_interval"


_BOUND = re.compile(r"(?<!')\$\{(?!__)\w+:sqlstring\}(?!')|'\$\{__(?:from|to):date:iso\}'")


_READ = re.compile(r'\b(?:FROM|JOIN)\s+([\w"(.]+)', re.IGNORECASE)


_WITH = re.compile(r"\b(\w+)\s+AS\s*\(", re.IGNORECASE)


def bound_sql(board: Json) -> Problems:
    """SQL reads published tables alone, and takes variables in as Grafana quotes them: no text of a person's is SQL."""
    if not queries_sql(board):
        return
    for name, each in ((each.get("name"), each) for each in board["templating"]["list"]):
        if is_query(each) and each.get("allValue"):
            yield "variables", f"${name} has an allValue, which Grafana puts into SQL as it is: leave it out"
    for where, statement in statements_of(board):
        if not re.match(r"\s*(SELECT|WITH)\b", statement, re.IGNORECASE):
            yield where, f"is no SELECT: {statement[:60]!r}"
        for text in re.findall(r"'?(?:\$\w+|\$\{[^}]*\}|\[\[[^\]]*\]\])'?", _BOUND.sub("", statement)):
            yield where, f"{text} is put into SQL as it is: write ${{NAME:sqlstring}}, or '${{__from:date:iso}}'"
        tables = {*published.tables(), *_WITH.findall(statement)}
        for name in sorted({*_READ.findall(statement)} - tables):
            yield where, f"reads {name}, which is not published; published are {', '.join(sorted(published.tables()))}"


def grammar(board: Json, parse: Callable[[str], object]) -> Problems:
    """Every query is PromQL by `parse`, which raises ValueError where it is not."""
    for where, expr in queries_of(board):
        try:
            parse(interpolated(expr))
        except ValueError as error:
            yield where, f"does not parse: {error}: {expr}"
