"""The goodput board: what share of the GPU-time became training progress, and where did the rest go?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from dashboards import grafana, palette
from dashboards.boards.fleet import stack
from dashboards.exported_metrics import MAX_RUNS, NOT_COSTLY, RUN_DAYS
from dashboards.grafana import fixed, instant, override, ranged, rows
from dashboards.numbers import at_least, bounded
from dashboards.parts import CANNOT_TELL, HISTORY, RUN_LINKS, board, chosen, exported, largest_causes, window
from metrics.categories import COSTLY

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dashboards.grafana import Json

UID: Final = "trackside-goodput"

_RATIO: Final[dict[str, Any]] = {"unit": "percentunit", "decimals": 1, "min": 0, "max": 1, "no_value": CANNOT_TELL}
_HOURS: Final[dict[str, Any]] = {"unit": "short", "decimals": 1, "min": 0, "no_value": "nothing computed yet"}
_LINE: Final[dict[str, Any]] = {
    **{name: value for name, value in _RATIO.items() if name not in {"min", "max"}},
    "size": (12, 8),
    "custom": {"axisSoftMin": 0.9, "axisSoftMax": 1.0},
}
_LOST: Final = palette.swatch("lost").colour


def goodput(targets: Mapping[str, tuple[float, ...]]) -> Json:
    """The board as JSON.

    Args:
        targets: what claims name; the strictest decides what is green.
    """
    return board(
        "Trackside: goodput and ETTR",
        UID,
        "What share of the GPU-time became training progress, and where did the rest go?",
        tags=("goodput", "gpu", "slurm"),
        variables=[chosen("cluster", "Cluster", "trackside_data_end_timestamp_seconds"), window()],
        panels=[
            grafana.row("Outcome"),
            *_outcome(targets),
            *_over_time(),
            grafana.row("Where the time went"),
            *_time(),
            grafana.row("Which runs"),
            *_runs(),
        ],
        since="now-28d",
    )


def _outcome(targets: Mapping[str, tuple[float, ...]]) -> list[Any]:
    unseen = "At least and at most: all unobserved time counted unproductive and productive."
    return [
        *bounded(
            "Goodput of allocated",
            f"Kept training steps, of the GPU-time that jobs held: productive / allocated. {unseen} Below the claim: "
            "the categories below show where it went.",
            "goodput_ratio",
            equal={"of": "allocated"},
            thresholds=at_least(targets, "goodput_allocated"),
            **_RATIO,
        ),
        *bounded(
            "Goodput of capacity",
            f"Kept training steps, of all GPU-time there was: productive / capacity. {unseen} Far below that of "
            "allocated: GPUs are idle or out of service.",
            "goodput_ratio",
            equal={"of": "capacity"},
            **_RATIO,
        ),
        *bounded(
            "ETTR",
            f"Of the time that runs were queued or scheduled, the share in which they trained. {unseen} Far below "
            "goodput: runs wait, or restart slowly.",
            "ettr_ratio",
            thresholds=at_least(targets, "ettr"),
            **_RATIO,
        ),
        *bounded(
            "Availability",
            "Share of all GPU-time in which GPUs were in service. At least and at most: time without a known node "
            "state counted out of service and in it. Low: trackside show lifecycle.",
            "availability_ratio",
            **_RATIO,
        ),
    ]


def _over_time() -> list[Any]:
    def lines(name: str, **equal: str) -> list[Any]:
        ends = {"point": "", "lower": " at least", "upper": " at most"}
        return [
            ranged(exported(name, bound=bound, **equal), f"{{{{cluster}}}}{called}") for bound, called in ends.items()
        ]

    return [
        grafana.time_series(
            "Goodput of allocated over time",
            f"The goodput of the chosen window and its bounds, as of each moment. {HISTORY}",
            lines("goodput_ratio", of="allocated"),
            **_LINE,
        ),
        grafana.time_series(
            "ETTR over time",
            f"The ETTR of the chosen window and its bounds, as of each moment. {HISTORY}",
            lines("ettr_ratio"),
            **_LINE,
        ),
    ]


def _time() -> list[Any]:
    time = exported("gpu_seconds")
    lost = exported("gpu_lost_seconds")
    colours = [override(swatch.name, color=fixed(swatch.colour)) for swatch in palette.SWATCHES]
    return [
        grafana.time_series(
            "All GPU-time by category",
            f"GPU-hours of the chosen window by category of the ledger; together they are the capacity. {HISTORY}",
            [ranged(f"sum by (category) ({each}) / 3600", "{{category}}") for each in stack()],
            size=(12, 9),
            custom={"fillOpacity": 80, "lineWidth": 0, "stacking": {"group": "A", "mode": "percent"}},
            overrides=colours,
            **_HOURS,
        ),
        grafana.bar_gauge(
            "GPU-hours by category, now",
            "The same at the end of the time range, the largest first. Unattributed: GPUs were allocated and no "
            "source recorded their use; telemetry or run logs would.",
            [instant(f"sort_desc(sum by (category) ({time})) / 3600", "{{category}}")],
            size=(12, 9),
            color=fixed(palette.swatch("other_work").colour),
            **_HOURS,
        ),
        grafana.bar_gauge(
            "Lost GPU-hours by cause",
            f"GPU-time that could have trained and did not, of the categories {', '.join(COSTLY)}, the largest cause "
            f"first. {NOT_COSTLY} What to do about each: trackside show lost.",
            [largest_causes(lost, 12)],
            size=(12, 9),
            color=fixed(_LOST),
            **_HOURS,
        ),
        grafana.time_series(
            "Lost GPU-hours over time, by category",
            f"GPU-time of the chosen window that could have trained and did not, as of each moment. {HISTORY}",
            [ranged(f"sum by (category) ({lost}) / 3600", "{{category}}")],
            size=(12, 9),
            overrides=colours,
            **_HOURS,
        ),
        grafana.bar_gauge(
            "How allocated time is known",
            "Share of allocated GPU-time by the best evidence there is. With accounting alone goodput is only bounded.",
            [instant(exported("evidence_ratio"), "{{cluster}}: {{evidence}}")],
            size=(24, 5),
            color=fixed(palette.EVIDENCE_COLOURS["telemetry"]),
            **_RATIO,
        ),
    ]


def _runs() -> list[Any]:
    lost = exported("run_gpu_lost_seconds")
    columns = {
        "GPUs": exported("run_gpus"),
        "attempts": exported("run_attempts"),
        "ETTR": exported("run_ettr_ratio", bound="point"),
        "ETTR at least": exported("run_ettr_ratio", bound="lower"),
        "ETTR at most": exported("run_ettr_ratio", bound="upper"),
        "lost GPU-hours": f"sum by (cluster, run) ({lost}) / 3600",
    }
    return [
        grafana.table(
            "Runs and what they lost",
            f"Runs that run or ended in the last {RUN_DAYS} days of data, at most {MAX_RUNS}, the costliest first. "
            "Click one for its time and causes, or for its nodes.",
            [rows(expr) for expr in columns.values()],
            size=(14, 11),
            transformations=grafana.lines_of(columns, "cluster", "run"),
            options={"sortBy": [{"displayName": "lost GPU-hours", "desc": True}]},
            overrides=[
                override("run", links=list(RUN_LINKS)),
                *(override(name, unit="locale", decimals=0, max=None) for name in ("GPUs", "attempts")),
                override("lost GPU-hours", unit="short", max=None),
            ],
            **_RATIO,
        ),
        grafana.bar_gauge(
            "Lost GPU-hours of runs",
            "GPU-time of a run that could have trained and did not, by category, over its whole life: the costliest.",
            [
                instant(
                    f"sort_desc(topk(15, sum by (cluster, run, category) ({lost}))) / 3600",
                    "{{cluster}} {{run}}: {{category}}",
                )
            ],
            size=(10, 11),
            color=fixed(_LOST),
            **{**_HOURS, "no_value": "nothing lost"},
        ),
    ]


BOARD = goodput
