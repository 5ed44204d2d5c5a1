"""Parts that SQL boards share: variables, conditions on them, links. Their tables are those of `queries.published`.

A variable goes into SQL as `${name:sqlstring}` alone, which Grafana quotes and escapes, and Grafana's own times as a
text of digits: no text in the address of a board becomes SQL.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from grafanalib.core import Template

from dashboards import grafana, parts
from dashboards.grafana import fixed, override, sql
from dashboards.numbers import BY_BOUNDS, BY_INTERVAL, SMALL
from dashboards.parts import CANNOT_TELL, PLAIN

if TYPE_CHECKING:
    from dashboards.grafana import Json

CLUSTERS: Final = "cluster IN (${cluster:sqlstring})"
"""Condition on the clusters that are chosen."""

SINCE: Final = "CAST('${__from:date:iso}' AS TIMESTAMPTZ)"
UNTIL: Final = "CAST('${__to:date:iso}' AS TIMESTAMPTZ)"
"""The time range of the board."""

TODAY: Final = "As known today: a corrected record changes it, the past included."

NOTHING: Final = "none in this range"

OF_A_MEAN: Final = ("mfu",)
"""Metrics that have a 95 % interval in place of bounds."""

EVERY_ROW: Final[dict[str, Any]] = {"reduceOptions": {"calcs": [], "fields": "", "values": True}}
"""Options of a stat that shows each row of a table, with its text as the name."""

RUN_LINKS: Final = (
    parts.RUN_LINKS[0],
    grafana.data_link(
        "Its GPUs, network and filesystems, from Prometheus: the job's board",
        "/d/trackside-job?var-cluster=${__data.fields.cluster:percentencode}"
        "&var-run=${__data.fields.run:percentencode}"
        "&var-explorer_url=${explorer_url:percentencode}&${__url_time_range}",
    ),
)
"""Links of a cell with a run, in a table with its cluster."""


def source() -> Any:
    """The variable of the data source."""
    kind = grafana.DUCKDB["type"]
    return Template(name="duckdb_datasource", label="Data source", type="datasource", query=kind, refresh=1)


def chosen(name: str, label: str, query: str, *, one: str = "") -> Any:
    """A variable with the values of a query: several at once and all at first, or one.

    It has no text for all of them: Grafana then lists each, quoted.

    Args:
        name: of the variable.
        label: what people read.
        query: SQL for its values.
        one: the value that is chosen at first, of a variable that has one at a time.
    """
    how = {"default": one} if one else {"multi": True, "includeAll": True, "default": ["$__all"]}
    return Template(name=name, label=label, query=query, refresh=2, **how)


def clusters() -> Any:
    """The variable of the clusters."""
    return chosen("cluster", "Cluster", "SELECT DISTINCT cluster FROM windows ORDER BY cluster")


def within(column: str) -> str:
    """Condition that a time is in the range of the board."""
    return f"{column} >= {SINCE} AND {column} < {UNTIL}"


def in_variable(column: str) -> str:
    """Condition that a column is among the values of the variable of that name."""
    return f'"{column}" IN (${{{column}:sqlstring}})'


stat = partial(grafana.stat, options=EVERY_ROW, min=0)
"""A number of each chosen cluster."""


def counted(title: str, description: str, query: str, *, width: int, **look: Any) -> Any:
    """A stat with one number a cluster, which is no ratio."""
    look = {"unit": "locale", "decimals": 0, "no_value": NOTHING, "color": fixed(PLAIN), **look}
    return stat(title, description, [sql(query)], size=(width, 4), **look)


def bounded(title: str, description: str, metric: str, thresholds: list[Json]) -> list[Any]:
    """A ratio of the chosen window, and its ends in small print beside it: bounds, or the interval of a mean."""
    ends = BY_INTERVAL if metric in OF_A_MEAN else BY_BOUNDS
    look: dict[str, Any] = {"unit": "percentunit", "decimals": 1, "max": 1}
    low, high = ("m.bound_low", "m.bound_high") if ends == BY_BOUNDS else ("m.ci_low", "m.ci_high")
    colour: dict[str, Any] = {"thresholds": thresholds} if thresholds else {"color": fixed(PLAIN)}
    return [
        stat(
            title,
            f"{description} {TODAY} Its ends are beside it.",
            [sql(of_window(metric, "m.value"))],
            size=(4, 4),
            no_value=CANNOT_TELL,
            **look,
            **colour,
        ),
        stat(
            f"{ends[0]}, {ends[1]}",
            f"The ends of {title}. Far apart means that evidence is missing.",
            [sql(of_window(metric, f'{low} AS "{ends[0]}", {high} AS "{ends[1]}"'))],
            size=(2, 4),
            no_value="no limit",
            color=fixed(PLAIN),
            **{**look, "options": {**EVERY_ROW, **SMALL}},
        ),
    ]


def of_window(metric: str, columns: str) -> str:
    """Numbers of a metric of whole clusters in the chosen window."""
    return f"""\
SELECT m.cluster, {columns}
FROM metrics AS m
JOIN windows AS w ON m.cluster = w.cluster AND m.window_from = w.window_from AND m.window_until = w.window_until
WHERE m.{CLUSTERS} AND w."window" IN (${{window:sqlstring}})
  AND m.metric = '{metric}' AND m.dimension = 'cluster'
ORDER BY m.cluster"""


def table(title: str, description: str, query: str, *, runs: bool = False, **look: Any) -> Any:
    """A table with the columns of a query; runs in it lead to their pages."""
    overrides = [*([override("run", links=list(RUN_LINKS))] if runs else []), *look.pop("overrides", [])]
    look = {"unit": "locale", "decimals": 0, "min": 0, "no_value": NOTHING, **look}
    return grafana.table(title, description, [sql(query)], overrides=overrides, **look)
