"""Parts that boards share: their frame, variables, and links between them and into the explorer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from grafanalib.core import (
    Dashboard,
    DashboardLink,
    Template,
    Templating,
    Time,
)

from dashboards import grafana
from dashboards.annotations import marks
from dashboards.exported_metrics import BY_NAME

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dashboards.grafana import Json

EXPLORER_URL: Final = "http://127.0.0.1:8050"
"""Address of the explorer by default; the board's text box changes it."""

_CELL: Final = "${{__data.fields.{}:percentencode}}"
_CLUSTER: Final = f"var-cluster={_CELL.format('cluster')}"
_KEPT: Final = "var-datasource=${datasource}&var-explorer_url=${explorer_url:percentencode}&${__url_time_range}"
"""Parameters of a link to another board: data source, explorer and time range."""

RUN_URL: Final = f"${{explorer_url:raw}}/run?cluster={_CELL.format('cluster')}&id={_CELL.format('run')}"
"""Address of the explorer's page about the run of a table's row."""

EXPLORER_RANGE: Final = "since=${__from:date:iso}&until=${__to:date:iso}&clusters=${cluster:percentencode}"
"""Parameters of a link to the explorer: the time range and the clusters of the board."""

EXPLORER_PAGES: Final = {
    "trackside-efficiency": "people",
    "trackside-fabric": "filesystems",
    "trackside-goodput": "gpu-time",
    "trackside-jobs": "runs",
    "trackside-job": "runs",
    "trackside-node": "nodes",
    "trackside-pipeline": "quality",
    "trackside-reliability": "reliability",
    "trackside-sla": "verdicts",
    "trackside-sql-gpu-time": "gpu-time",
    "trackside-sql-runs": "runs",
    "trackside-stragglers": "anomalies",
    "trackside-topology": "placement",
}
"""The explorer's page with the question of a board; that of any other is its first."""

RUN_LINKS: Final = (
    grafana.data_link("Its time, attempts and causes: the explorer", RUN_URL),
    grafana.data_link(
        "Its GPUs, network and filesystems: the job's board",
        f"/d/trackside-job?{_CLUSTER}&var-run={_CELL.format('run')}&{_KEPT}",
    ),
)
"""Links of a cell with a run, in a table with its cluster."""

NODE_LINKS: Final = (
    grafana.data_link(
        "Its GPUs, network and filesystems: the node's board",
        f"/d/trackside-node?{_CLUSTER}&var-node={_CELL.format('node')}&{_KEPT}",
    ),
    grafana.data_link(
        "Its GPU-time, outages and failures: the explorer",
        f"${{explorer_url:raw}}/node?cluster={_CELL.format('cluster')}&node={_CELL.format('node')}",
    ),
)
"""Links of a cell with a node, in a table with its cluster."""

CLUSTER_LINKS: Final = (
    grafana.data_link("Its nodes, queue and controller: Slurm's board", f"/d/trackside-slurm?{_CLUSTER}&{_KEPT}"),
)
"""Links of a cell with a cluster."""

WINDOWS_OFFERED: Final = ("7d", "28d", "month", "all")
"""Windows in the order in which they are offered; the first is chosen."""

TAG: Final = "trackside"

GOOD, MIDDLING, BAD, PLAIN = "green", "yellow", "red", "text"
"""Colours by meaning, and that of a number that has none."""

CANNOT_TELL: Final = "cannot tell"
HISTORY: Final = "History is as computed at the time; the explorer shows it as known today."
LIVE: Final = "Live: from the exporters' series, at the end of the time range."
UNSEEN: Final = "no telemetry"


def board(
    title: str,
    uid: str,
    description: str,
    *,
    tags: Sequence[str],
    variables: Sequence[Any],
    panels: Sequence[Any],
    since: str = "now-6h",
    source: Any = None,
) -> Json:
    """A board as JSON: data source and explorer are variables of each, other boards are one click away.

    Args:
        title: of the board.
        uid: of the board.
        description: the question that it answers.
        tags: besides Trackside's own.
        variables: between data source and explorer.
        panels: rows and panels, in reading order.
        since: beginning of the time range at first.
        source: the variable of a data source that is no Prometheus; such a board has no marks of events.
    """
    marked = {"annotations": marks() if source is None else {"list": []}}
    return (
        grafana.to_modern(
            Dashboard(
                title=title,
                uid=uid,
                description=description,
                tags=sorted({TAG, *tags}),
                editable=False,
                graphTooltip=1,
                refresh="1m",
                time=Time(since, "now"),
                timezone="utc",
                links=[other_boards(), explorer_link(EXPLORER_PAGES.get(uid, ""))],
                templating=Templating(list=[source or data_source(), *variables, explorer_url()]),
                panels=grafana.flow(panels),
            )
        )
        | marked
    )


def data_source() -> Any:
    """The variable of the data source."""
    return Template(name="datasource", label="Data source", type="datasource", query="prometheus", refresh=1)


def explorer_url() -> Any:
    """The text box with the address of the explorer."""
    return Template(name="explorer_url", label="Explorer", type="textbox", query=EXPLORER_URL, default=EXPLORER_URL)


def chosen(name: str, label: str, metric: str, *, of: str = "") -> Any:
    """A variable with the values of a label, several at once, all at first.

    Args:
        name: of the variable, and of the label.
        label: what people read.
        metric: whose label it is, with matchers of the variables before it.
        of: the label, where it is not called like the variable.
    """
    return Template(
        name=name,
        label=label,
        query=f"label_values({metric}, {of or name})",
        refresh=2,
        multi=True,
        includeAll=True,
        allValue=".*",
        default=["$__all"],
    )


def window() -> Any:
    """The variable of the window that the exported numbers are of."""
    return Template(
        name="window",
        label="Window of the numbers",
        type="custom",
        query=",".join(WINDOWS_OFFERED),
        default=WINDOWS_OFFERED[0],
    )


def exported(name: str, *, but: str = "", **equal: str) -> str:
    """A family's series of the chosen clusters and window, each once.

    A Trackside that moved to another host, or two that are scraped, would count twice in a sum: hence `max by` all the
    labels that the family declares and that are not fixed here. `but` is one more matcher.
    """
    labels = BY_NAME[f"trackside_{name}"].labels
    chosen = {"window": "$window", **equal} if "window" in labels else equal
    where = ['cluster=~"$cluster"', *(f'{label}="{value}"' for label, value in chosen.items())]
    where += [but] if but else []
    by = ", ".join(label for label in labels if label not in chosen)
    return f"max by ({by}) (trackside_{name}{{{', '.join(where)}}})"


def largest_causes(lost: str, most: int) -> Any:
    """The categories and causes with most GPU-hours, largest first.

    Args:
        lost: expression of GPU-seconds by category and cause; a category that has no causes has cause `none`.
        most: how many.
    """
    named = f'label_join(sum by (category, cause) ({lost}) / 3600, "what", ": ", "category", "cause")'
    named = in_words(f'label_replace({named}, "what", "$1", "what", "(.*): none")', "what")
    return grafana.instant(f"sort_desc(topk({most}, {named}))", "{{what}}")


def in_words(expr: str, label: str) -> str:
    """The series of an expression, with a label's values as people read them: `node fail`.

    >>> in_words("up", "job").count("label_replace")
    3
    """
    for _ in range(_MOST_UNDERSCORES):
        expr = f'label_replace({expr}, "{label}", "$1 $2", "{label}", "(.*)_(.*)")'
    return expr


_MOST_UNDERSCORES: Final = 3
"""Of a category and a cause together: PromQL replaces one at a time."""


def explorer_link(page: str) -> Any:
    """The link to a page of the explorer."""
    return DashboardLink(
        type="link",
        title="Explorer",
        tooltip="The same clusters and time range as known today, with definitions, SQL and evidence",
        uri=f"${{explorer_url:raw}}/{page}?{EXPLORER_RANGE}",
        targetBlank=True,
        keepTime=False,
    )


def other_boards() -> Any:
    """The list of Trackside's boards; the range and the cluster go along."""
    return DashboardLink(
        type="dashboards", title="Boards", tags=[TAG], asDropdown=True, includeVars=True, keepTime=True
    )
