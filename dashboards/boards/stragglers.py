"""The stragglers board: which GPU, node or port is slower than its peers, and what do others wait for it?"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from dashboards import grafana, palette
from dashboards.exported_metrics import STRAGGLER_DAYS
from dashboards.grafana import fixed, instant, override, ranged, rows, steps
from dashboards.numbers import COURSE, least, most
from dashboards.parts import (
    BAD,
    GOOD,
    MIDDLING,
    NODE_LINKS,
    PLAIN,
    RUN_LINKS,
    UNSEEN,
    board,
    chosen,
    exported,
    in_words,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dashboards.grafana import Json

UID: Final = "trackside-stragglers"

SLOW: Final = 0.95
"""Share of the middle clock of its job below which a node is counted as slow."""

HOT_K: Final = 15.0
"""Kelvin above the middle GPU of the cluster from which a GPU is counted as hot."""

_RATIO: Final[dict[str, Any]] = {"unit": "percentunit", "decimals": 1, "min": 0, "max": 1, "no_value": UNSEEN}
_COUNT: Final[dict[str, Any]] = {"unit": "locale", "decimals": 0, "min": 0, "no_value": UNSEEN}
WHERE: Final = 'cluster=~"$cluster", run=~"$run"'
_BY: Final = "cluster, job_id, run, node"


_STALLED: Final = exported("gpu_lost_seconds", category="stalled", window="7d")


def clock(against: str = "") -> str:
    """The lowest clock of a node's GPUs over that of the middle node of its job."""
    own = f"max by ({_BY}) (trackside:job:lowest_sm_clock_hz{{{WHERE}}})"
    middle = f"quantile by (cluster, job_id) (0.5, {own})"
    return f"{own} / on (cluster, job_id) group_left () {middle}{against}"


def _gpu(name: str) -> str:
    return f'trackside:gpu:{name}{{cluster=~"$cluster"}}'


def stragglers(_: Mapping[str, tuple[float, ...]]) -> Json:
    """The board as JSON. No claim is on a number of it."""
    return board(
        "Trackside: stragglers and anomalies",
        UID,
        "Which GPU, node or port is slower than its peers, and how long do others wait for it?",
        tags=("anomalies", "gpu", "stragglers"),
        variables=[
            chosen("cluster", "Cluster", "trackside:job:gpus"),
            chosen("run", "Run", 'trackside:job:gpus{cluster=~"$cluster"}'),
        ],
        panels=[
            grafana.row("Now"),
            *_now(),
            grafana.row("Against the peers of the same job"),
            *_peers(),
            grafana.row("Against the cluster"),
            *_cluster(),
            grafana.row("What was found in rank times and failures"),
            *_found(),
        ],
    )


def _now() -> list[Any]:
    stat = partial(grafana.stat, size=(6, 4), options=COURSE)
    hot = f"{_gpu('temperature_c')} - on (cluster) group_left () {_middle('temperature_c')}"
    return [
        stat(
            "Slow nodes",
            f"Nodes whose lowest GPU clock is below {SLOW:.0%} of that of the middle node of their job: all ranks "
            "wait for them. Which: below. Tested against chance: trackside show anomalies.",
            [
                ranged(
                    f"count by (cluster) ({clock(f' < {SLOW}')}) or 0 * max by (cluster) ({_own_clock()})",
                    "{{cluster}}",
                )
            ],
            thresholds=steps(GOOD, (1, MIDDLING), (4, BAD)),
            **_COUNT,
        ),
        stat(
            "Lowest clock over the middle",
            "The slowest node's lowest GPU clock, over that of the middle node of its job.",
            [ranged(f"min by (cluster) ({clock()})", "{{cluster}}")],
            color=fixed(PLAIN),
            **_RATIO,
        ),
        stat(
            "Hot GPUs",
            f"GPUs that are more than {HOT_K:.0f} K above the middle GPU of the cluster: cooling, or a GPU that works "
            "harder than others.",
            [ranged(f"sum by (cluster) (({hot}) > bool {HOT_K:.0f})", "{{cluster}}")],
            thresholds=steps(GOOD, (1, MIDDLING), (8, BAD)),
            **_COUNT,
        ),
        stat(
            "GPUs with an XID",
            "GPUs whose driver has reported an error since it was loaded. Which and what to do: the table below, "
            "trackside show health.",
            [ranged(f"count by (cluster) ({_gpu('last_xid')})", "{{cluster}}")],
            thresholds=steps(GOOD, (1, MIDDLING), (8, BAD)),
            **{**_COUNT, "no_value": "none"},
        ),
    ]


def _own_clock() -> str:
    return f"trackside:job:lowest_sm_clock_hz{{{WHERE}}}"


def _middle(name: str) -> str:
    return f"quantile by (cluster) (0.5, {_gpu(name)})"


def _peers() -> list[Any]:
    columns = {
        "of the middle": clock(),
        "lowest clock": f"max by ({_BY}) ({_own_clock()})",
        "highest temperature": (
            f"max by ({_BY}) (0 * {_own_clock()} + on (cluster, node) group_left () "
            "trackside:node:highest_temperature_c)"
        ),
    }
    return [
        grafana.time_series(
            "Lowest clock over the middle, by node",
            "The lowest GPU clock of a node over that of the middle node of its job, of the ten slowest nodes. A "
            "line that steps down and stays is a node to drain: power brake, thermal slowdown, a clock that was "
            "set by hand.",
            [ranged(least(10, clock()), "{{cluster}} {{run}} {{node}}")],
            size=(12, 9),
            **{**_RATIO, "custom": {"axisSoftMin": 0.8, "axisSoftMax": 1.0}},
        ),
        grafana.table(
            "Nodes against the middle node of their job",
            "One line a node, the slowest first. Click a node for its GPUs, a run for its losses.",
            [rows(expr) for expr in columns.values()],
            size=(12, 9),
            transformations=grafana.lines_of(columns, "cluster", "node", "run", "job_id"),
            options={"sortBy": [{"displayName": "of the middle", "desc": False}]},
            overrides=[
                override("node", links=list(NODE_LINKS)),
                override("run", links=list(RUN_LINKS)),
                override("lowest clock", unit="hertz", decimals=2, max=None),
                override("highest temperature", unit="celsius", decimals=0, max=None),
            ],
            **_RATIO,
        ),
    ]


def _cluster() -> list[Any]:
    line: dict[str, Any] = {"size": (8, 8), "min": 0, "no_value": UNSEEN}
    return [
        grafana.time_series(
            "Hottest GPUs",
            "Temperature of the five hottest GPUs, and of the middle one.",
            [
                ranged(most(5, _gpu("temperature_c")), "{{cluster}} {{node}} GPU {{gpu}}"),
                ranged(_middle("temperature_c"), "{{cluster}} middle"),
            ],
            unit="celsius",
            decimals=0,
            **line,
        ),
        grafana.time_series(
            "GPUs that use most power",
            "Power of the five GPUs with most, and of the middle one. One far below the middle of its job is "
            "throttled or waits: the board of the job.",
            [
                ranged(most(5, _gpu("power_w")), "{{cluster}} {{node}} GPU {{gpu}}"),
                ranged(_middle("power_w"), "{{cluster}} middle"),
            ],
            unit="watt",
            decimals=0,
            **line,
        ),
        grafana.time_series(
            "Slowest filesystems, by node",
            "Mean time in which network filesystems answer a node: the five slowest. One node alone: its mount or its "
            "network; all of them: the servers.",
            [
                ranged(
                    most(
                        5,
                        'sum by (cluster, node) (trackside:node:fs_response_s_per_s{cluster=~"$cluster"}) '
                        '/ sum by (cluster, node) (trackside:node:fs_operations_per_s{cluster=~"$cluster"})',
                    ),
                    "{{cluster}} {{node}}",
                )
            ],
            unit="s",
            decimals=3,
            **line,
        ),
    ]


def _found() -> list[Any]:
    waited = exported("straggler_gpu_seconds")
    return [
        grafana.table(
            "What ranks waited for the slowest",
            f"GPU-hours on the last day of data ({STRAGGLER_DAYS}), by run and cause: a node, or the shape of the "
            "job. It is within productive time. Empty without rank times (trackside_log.rank_times): trackside show "
            "stragglers.",
            [rows(f"{waited} / 3600")],
            size=(12, 8),
            unit="short",
            decimals=1,
            min=0,
            no_value="no rank times, or no rank waited",
            transformations=[
                grafana.organize(
                    {"cluster": "cluster", "run": "run", "cause": "cause", "nodes": "nodes", "Value": "GPU-hours"}
                )
            ],
            options={"sortBy": [{"displayName": "GPU-hours", "desc": True}]},
            overrides=[override("run", links=list(RUN_LINKS))],
        ),
        grafana.table(
            "Nodes that fail more often than by chance",
            "Over the last 28 days of data: trackside show lemons has the signals.",
            [rows(exported("flagged_node"))],
            size=(6, 8),
            transformations=[
                grafana.organize({"cluster": "cluster", "node": "node", "verdict": "verdict", "Value": "failures"})
            ],
            overrides=[override("node", links=list(NODE_LINKS))],
            **{**_COUNT, "no_value": "none"},
        ),
        grafana.table(
            "Last XIDs",
            "The last error of each GPU whose driver has reported one since it was loaded: trackside show health "
            "has the advice.",
            [rows(f"max by (cluster, node, gpu) ({_gpu('last_xid')})")],
            size=(6, 8),
            transformations=[grafana.organize({"cluster": "cluster", "node": "node", "gpu": "gpu", "Value": "XID"})],
            overrides=[override("node", links=list(NODE_LINKS))],
            **{**_COUNT, "no_value": "none"},
        ),
        grafana.bar_gauge(
            "Stalled GPU-hours by cause, 7 days",
            "GPU-time of hangs, data stalls, suspension and dead nodes in the last 7 days of data, the largest first: "
            "trackside show lost.",
            [instant(f"sort_desc({in_words(f'sum by (cause) ({_STALLED})', 'cause')}) / 3600", "{{cause}}")],
            size=(24, 6),
            unit="short",
            decimals=1,
            min=0,
            no_value="nothing observed",
            color=fixed(palette.swatch("stalled").colour),
        ),
    ]


BOARD = stragglers
