"""The reliability board: how often does the machine interrupt jobs, what does each time cost, and which nodes fail?"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from dashboards import grafana, palette
from dashboards.boards.fleet import mttf, restart
from dashboards.exported_metrics import EVENT_DAYS, MAX_EVENTS, MTTF_GPUS
from dashboards.grafana import fixed, override, ranged, rows
from dashboards.numbers import course, stat
from dashboards.parts import (
    CANNOT_TELL,
    HISTORY,
    NODE_LINKS,
    PLAIN,
    RUN_LINKS,
    UNSEEN,
    board,
    chosen,
    exported,
    largest_causes,
    window,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dashboards.grafana import Json

UID: Final = "trackside-reliability"

_INFRASTRUCTURE: Final = {"class": "infrastructure"}
_SECONDS: Final[dict[str, Any]] = {"unit": "s", "decimals": 1, "min": 0, "no_value": CANNOT_TELL}
_COUNT: Final[dict[str, Any]] = {"unit": "locale", "decimals": 0, "min": 0, "no_value": "none observed"}


def reliability(targets: Mapping[str, tuple[float, ...]]) -> Json:
    """The board as JSON.

    Args:
        targets: what claims name; the strictest MTTF and restart time decide what is green.
    """
    return board(
        "Trackside: reliability",
        UID,
        "How often does the machine interrupt jobs, how long until they train again, and which nodes fail?",
        tags=("failures", "gpu", "slurm"),
        variables=[chosen("cluster", "Cluster", "trackside_data_end_timestamp_seconds"), window()],
        panels=[
            grafana.row("How often"),
            *_how_often(targets),
            grafana.row("How long until it trains again"),
            *_restarts(targets),
            grafana.row("Where"),
            *_where(),
            grafana.row("When"),
            _events(),
        ],
        since="now-28d",
    )


def _how_often(targets: Mapping[str, tuple[float, ...]]) -> list[Any]:
    mttf_of = partial(exported, "mttf_seconds", gpus=MTTF_GPUS)
    return [
        *mttf(targets, height=5),
        grafana.table(
            "What the MTTF is from",
            "Failures by infrastructure, and the GPU-hours of all attempts that they are counted over.",
            [
                rows(exported("failures_observed", **_INFRASTRUCTURE)),
                rows(f"{exported('failure_exposure_gpu_seconds')} / 3600"),
            ],
            size=(10, 5),
            transformations=grafana.lines_of(("failures", "GPU-hours"), "cluster"),
            **_COUNT,
        ),
        stat(
            "Failures by infrastructure",
            "Attempts that infrastructure interrupted: what MTTF counts.",
            course("failures_observed", **_INFRASTRUCTURE),
            size=(8, 5),
            color=fixed(PLAIN),
            **_COUNT,
        ),
        grafana.time_series(
            "MTTF over time",
            f"The MTTF of the chosen window, as of each moment, between the ends of its interval. {HISTORY}",
            [ranged(mttf_of(bound=bound), f"{{{{cluster}}}} {name}") for bound, name in _ENDS.items()],
            size=(12, 8),
            **_SECONDS,
        ),
        grafana.time_series(
            "Interrupted attempts, by class",
            f"Attempts that ended without completing, over the chosen clusters. {HISTORY}",
            [ranged(f"sum by (class) ({exported('failures_observed')})", "{{class}}")],
            size=(12, 8),
            **_COUNT,
        ),
    ]


_ENDS: Final = {"point": "MTTF", "lower": "95 % from", "upper": "95 % to"}


def _restarts(targets: Mapping[str, tuple[float, ...]]) -> list[Any]:
    restart_of = partial(exported, "restart_seconds")
    return [
        *restart(targets, height=7),
        stat(
            "Restarts",
            "How many restarts that is from. What still waits is not in it.",
            course("restarts_observed"),
            size=(6, 7),
            color=fixed(PLAIN),
            **_COUNT,
        ),
        grafana.time_series(
            "Time to job restart over time",
            f"Median, and the time within which 90 % were restarted. {HISTORY}",
            [
                ranged(restart_of(statistic="median"), "{{cluster}} median"),
                ranged(restart_of(statistic="p90"), "{{cluster}} 90 % within"),
            ],
            size=(12, 7),
            **_SECONDS,
        ),
    ]


def _where() -> list[Any]:
    started = "max by (cluster, run) ({})".format(exported("run_attempts"))
    return [
        grafana.table(
            "Nodes that fail more often than by chance",
            "Over the last 28 days of data: lemons have two kinds of signals that agree, suspects one. How "
            "many are expected by chance, and the signals: trackside show lemons.",
            [rows(exported("flagged_node"))],
            size=(8, 9),
            unit="locale",
            decimals=0,
            min=0,
            no_value="none: no node fails more often than by chance",
            transformations=[
                grafana.organize({"cluster": "cluster", "node": "node", "verdict": "verdict", "Value": "failures"})
            ],
            overrides=[override("node", links=list(NODE_LINKS))],
        ),
        grafana.table(
            "Runs that were started most often",
            "Of the runs that run or ended lately: each start costs what was trained since the last checkpoint. "
            "Click a run for each attempt and how it ended.",
            [rows(f"topk(20, {started})")],
            size=(8, 9),
            unit="locale",
            decimals=0,
            min=0,
            no_value="no runs",
            transformations=[grafana.organize({"cluster": "cluster", "run": "run", "Value": "attempts"})],
            overrides=[override("run", links=list(RUN_LINKS))],
        ),
        grafana.bar_gauge(
            "GPU-hours that could have trained and did not, by cause",
            "GPU-time that could have trained and did not, the largest cause first.",
            [largest_causes(exported("gpu_lost_seconds"), 10)],
            size=(8, 9),
            unit="short",
            decimals=1,
            min=0,
            no_value="nothing observed",
            color=fixed(palette.swatch("lost").colour),
        ),
        grafana.time_series(
            "GPUs out of service",
            f"GPUs that are down, drained or in maintenance. {HISTORY}",
            [ranged(exported("gpus", state="unavailable"), "{{cluster}}")],
            size=(12, 7),
            **{**_COUNT, "no_value": "none"},
        ),
        grafana.time_series(
            "GPUs with an XID",
            "GPUs whose driver has reported an error since it was loaded. Which: the board of nodes. Needs the "
            "recording rules.",
            [ranged('count by (cluster) (trackside:gpu:last_xid{cluster=~"$cluster"})', "{{cluster}}")],
            size=(12, 7),
            **{**_COUNT, "no_value": UNSEEN},
        ),
    ]


def _events() -> Any:
    labels = {name: name for name in ("cluster", "kind", "node", "what")}
    events = exported("event_timestamp_seconds")
    return grafana.table(
        f"Events of the last {EVENT_DAYS} days of data",
        f"Incidents of hardware, nodes that went out of service, attempts that infrastructure interrupted; at most "
        f"{MAX_EVENTS} of each. Boards mark them on their time axes. More: trackside show health, lifecycle, "
        "interruptions.",
        [rows(f"1000 * {events}")],
        size=(24, 10),
        unit="dateTimeAsIso",
        decimals=0,
        min=0,
        no_value="none observed",
        options={"sortBy": [{"displayName": "at", "desc": True}]},
        transformations=[grafana.organize({"Value": "at", **labels}, leave_out=("Time", "started_at"))],
        overrides=[override("node", links=list(NODE_LINKS))],
    )


BOARD = reliability
