"""The fleet board: are our GPUs making training progress, and what costs us most?

From the outcome to the cause to the run: numbers with their bounds, their trend, where the GPU-time went and what took
it, the claims, the runs. The arithmetic is Trackside's; queries here only choose, add up GPU-time and change units.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dashboards import grafana, palette
from dashboards.exported_metrics import BOUNDS, MAX_RUNS, MTTF_GPUS, NOT_COSTLY, RUN_DAYS
from dashboards.grafana import Json, fixed, instant, override, ranged, rows, steps
from dashboards.numbers import BY_INTERVAL, at_least, at_most, bounded, course, stat
from dashboards.parts import (
    BAD,
    CANNOT_TELL,
    CLUSTER_LINKS,
    GOOD,
    HISTORY,
    MIDDLING,
    PLAIN,
    RUN_LINKS,
    board,
    chosen,
    exported,
    largest_causes,
    window,
)
from metrics.categories import COSTLY
from metrics.units import DAY_S, HOUR_S

if TYPE_CHECKING:
    from collections.abc import Mapping

UID = "trackside-fleet"
Targets = dict[str, tuple[float, ...]]
"""By metric of `metrics.catalog`: the values that claims name, rising; the strictest decides what is green."""

TARGETS: Targets = {
    "goodput_allocated": (0.96,),
    "mfu": (0.50,),
    "mttf": (0.33, 3.66),
    "time_to_job_restart": (90.0,),
}
"""Thresholds on results: the claims that ship (`app/claims/vendor_headlines.toml`; a test compares), but for the one on
the ETTR of long runs, which the board does not show."""

FRESH_S = (6.0 * HOUR_S, DAY_S)
"""Age of the data from which it is called late, and stale."""

_WORK, _LOST = palette.swatch("productive").colour, palette.swatch("lost").colour
_TRAINED, _MEASURED = palette.EVIDENCE_COLOURS["log"], palette.EVIDENCE_COLOURS["telemetry"]
_CLASS = palette.CLASS_COLOURS["preemption"]


def fleet(targets: Mapping[str, tuple[float, ...]] = TARGETS) -> Json:
    """The board as JSON.

    Args:
        targets: what the thresholds of the headline numbers are; a metric that is missing has none.
    """
    panels = [
        grafana.row("Is it OK? $cluster", repeat="cluster"),
        *_headlines(targets),
        *_trends(),
        grafana.row("What costs most"),
        *_costs(),
        grafana.row("Runs"),
        _runs(),
    ]
    return board(
        "Trackside: fleet",
        UID,
        "Are our GPUs making training progress, and what costs us most?",
        tags=("gpu", "goodput", "slurm"),
        variables=_variables(),
        panels=panels,
        since="now-7d",
    )


def _variables() -> list[Any]:
    """Clusters, and the window of the numbers."""
    return [
        chosen("cluster", "Cluster", "trackside_data_end_timestamp_seconds"),
        window(),
    ]


def _bounds(name: str, *, made: Any = instant, **equal: str) -> list[Any]:
    """Queries for a number and its two ends, in the order in which they are read."""
    return [
        made(exported(name, bound=bound, **equal), legend) for bound, legend in zip(BOUNDS, _BY_BOUNDS, strict=True)
    ]


_BY_BOUNDS = ("measured", "at least", "at most")


def _headlines(targets: Mapping[str, tuple[float, ...]]) -> list[Any]:
    ratio: dict[str, Any] = {"unit": "percentunit", "decimals": 1, "min": 0, "max": 1}
    seconds: dict[str, Any] = {"unit": "s", "decimals": 1, "min": 0}
    return [
        *bounded(
            "Goodput (of allocated)",
            "Share of allocated GPU-time that became kept training steps. At least and at most: all unobserved time "
            "counted unproductive and productive; far apart means that telemetry or run logs are missing. "
            "No value means that it is unknown; a window longer than the data has no values.",
            "goodput_ratio",
            equal={"of": "allocated"},
            thresholds=at_least(targets, "goodput_allocated"),
            **ratio,
        ),
        *bounded(
            "ETTR",
            "Of the time that runs were queued or scheduled, the share in which they trained. At least and at most: "
            "all unobserved time counted unproductive and productive.",
            "ettr_ratio",
            thresholds=at_least(targets, "ettr"),
            **ratio,
        ),
        *bounded(
            "MFU",
            "Model FLOP utilisation over kept steps, of the dense peak of the data type, with its 95 % interval. "
            "It needs run logs.",
            "mfu_ratio",
            ends=BY_INTERVAL,
            thresholds=at_least(targets, "mfu"),
            **ratio,
        ),
        *mttf(targets),
        stat(
            "Failures by infrastructure",
            "Attempts that infrastructure interrupted in the window: what MTTF counts.",
            course("failures_observed", **{"class": "infrastructure"}),
            size=(6, 4),
            color=fixed(PLAIN),
            unit="locale",
            decimals=0,
            min=0,
            no_value=CANNOT_TELL,
        ),
        *restart(targets),
        stat(
            "GPUs out of service",
            "GPUs that are down, drained or in maintenance at the end of the data. Which: the board of Slurm.",
            course("gpus", state="unavailable"),
            size=(6, 4),
            color=fixed(PLAIN),
            unit="locale",
            decimals=0,
            min=0,
            no_value="none",
        ),
        grafana.stat(
            "Age of the data",
            "From the last moment that the numbers cover until now. Old data: is Trackside's service running, and "
            "does it reach its sources? See the board of the pipeline.",
            [instant(f"time() - {exported('data_end_timestamp_seconds')}", "age")],
            size=(6, 4),
            thresholds=steps(GOOD, (FRESH_S[0], MIDDLING), (FRESH_S[1], BAD)),
            no_value="no data",
            options={"textMode": "value"},
            **seconds,
        ),
    ]


def mttf(targets: Mapping[str, tuple[float, ...]], height: int = 4) -> list[Any]:
    """MTTF and its interval, coloured the same on every board."""
    return bounded(
        f"MTTF of {int(MTTF_GPUS):,} GPUs",
        f"Mean time until infrastructure interrupts a job of {int(MTTF_GPUS):,} GPUs: pooled over all job sizes, "
        "scaled by 1/N, with its exact 95 % interval. Few failures make it wide; without one there is only a lower "
        "end.",
        "mttf_seconds",
        ends=BY_INTERVAL,
        height=height,
        equal={"gpus": MTTF_GPUS},
        thresholds=at_least(targets, "mttf", DAY_S),
        unit="s",
        decimals=1,
        min=0,
    )


def restart(targets: Mapping[str, tuple[float, ...]], height: int = 4) -> list[Any]:
    """The median time to restart, coloured the same on every board, and how long nine of ten take."""
    seconds: dict[str, Any] = {"unit": "s", "decimals": 1, "min": 0, "no_value": CANNOT_TELL}
    return [
        stat(
            "Time to job restart, median",
            "From the end of an attempt that infrastructure interrupted to the start of the run's next one. What still "
            "waits is not in it.",
            course("restart_seconds", statistic="median"),
            size=(4, height),
            thresholds=at_most(targets, "time_to_job_restart"),
            **({} if targets.get("time_to_job_restart") else {"color": fixed(PLAIN)}),
            **seconds,
        ),
        grafana.stat(
            "90 % within",
            "The time within which 90 % of the restarts were done.",
            [instant(exported("restart_seconds", statistic="p90"), "{{cluster}}")],
            size=(2, height),
            options={"text": {"titleSize": 11, "valueSize": 15}},
            color=fixed(PLAIN),
            **seconds,
        ),
    ]


def _trends() -> list[Any]:
    # Soft ends: a good cluster's band would be a hair's breadth between 0 and 1, and a wide one still fits.
    ratio = {
        "unit": "percentunit",
        "decimals": 1,
        "no_value": CANNOT_TELL,
        "custom": {"axisSoftMin": 0.9, "axisSoftMax": 1.0},
    }
    return [
        grafana.time_series(
            "Goodput (of allocated) over time",
            f"The goodput of the chosen window, as of each moment; the band is its bounds. {HISTORY}",
            _bounds("goodput_ratio", made=ranged, of="allocated"),
            size=(8, 8),
            overrides=_band(_WORK),
            **ratio,
        ),
        grafana.time_series(
            "ETTR over time",
            f"The ETTR of the chosen window, as of each moment; the band is its bounds. {HISTORY}",
            _bounds("ettr_ratio", made=ranged),
            size=(8, 8),
            overrides=_band(_TRAINED),
            **ratio,
        ),
        grafana.time_series(
            "Where GPU-time went",
            "All GPU-time of the chosen window by category of the ledger; together they are the capacity. The axis is "
            f"the share, the values are GPU-hours. {HISTORY}",
            [ranged(f"sum by (category) ({each}) / 3600", "{{category}}") for each in stack()],
            size=(8, 8),
            unit="short",
            decimals=1,
            min=0,
            no_value="nothing computed yet",
            custom={"fillOpacity": 80, "lineWidth": 0, "stacking": {"group": "A", "mode": "percent"}},
            overrides=[override(name, color=fixed(color)) for name, color in _category_colours()],
        ),
    ]


def _category_colours() -> list[tuple[str, str]]:
    return [(swatch.name, swatch.colour) for swatch in palette.SWATCHES]


def stack() -> list[str]:
    """GPU-time from the bottom of the stack up: what was productive, what else was allocated, idle, unavailable."""
    productive = 'category{}"productive"'.format
    return [
        exported("gpu_seconds", but=productive("=")),
        exported("gpu_seconds", but=productive("!="), state="allocated"),
        exported("gpu_seconds", state="idle"),
        exported("gpu_seconds", state="unavailable"),
    ]


def _band(color: str) -> list[Json]:
    """Drawing of a number between its ends: a line in a band. Grafana has no error bars."""
    point, lower, upper = _BY_BOUNDS
    return [
        override(point, color=fixed(color), custom_lineWidth=2),
        override(lower, color=fixed(color), custom_lineWidth=0),
        override(upper, color=fixed(color), custom_lineWidth=0, custom_fillBelowTo=lower, custom_fillOpacity=20),
    ]


_VERDICTS = grafana.value_map(
    {"1": ("supported", GOOD), "0": ("undetermined", MIDDLING), "-1": ("refuted", BAD)},
)
_COLORED = {"type": "color-text"}


def _costs() -> list[Any]:
    hours: dict[str, Any] = {"unit": "short", "decimals": 1, "min": 0}
    return [
        grafana.bar_gauge(
            "GPU-hours that could have trained and did not, by cause",
            f"GPU-time over the chosen clusters, the largest cause first, of the categories {', '.join(COSTLY)}. "
            f"{NOT_COSTLY} All categories by node, user and run: trackside show lost --by node.",
            [largest_causes(exported("gpu_lost_seconds"), 12)],
            size=(12, 9),
            no_value="nothing observed",
            color=fixed(_LOST),
            **hours,
        ),
        _verdicts(),
        grafana.bar_gauge(
            "How allocated GPU-time is known",
            "Share of allocated GPU-time by the best evidence for it: log, telemetry, accounting, assumed. "
            "Accounting alone does not record what allocated GPUs did.",
            [instant(exported("evidence_ratio"), "{{cluster}}: {{evidence}}")],
            size=(8, 7),
            unit="percentunit",
            decimals=1,
            min=0,
            max=1,
            no_value="nothing allocated",
            color=fixed(_MEASURED),
        ),
        grafana.bar_gauge(
            "Interrupted attempts, by class",
            "Attempts that ended without completing, over the chosen clusters. Infrastructure is what MTTF "
            "counts: evidence against the machine from 10 minutes before to 5 minutes after the end.",
            [instant(f"sort_desc(sum by (class) ({exported('failures_observed')}))", "{{class}}")],
            size=(8, 7),
            unit="short",
            decimals=0,
            min=0,
            no_value="none observed",
            color=fixed(_CLASS),
        ),
        grafana.time_series(
            "GPUs by state",
            f"GPUs at the end of the data, over the chosen clusters. {HISTORY}",
            [ranged(f"sum by (state) ({exported('gpus')})", "{{state}}")],
            size=(8, 7),
            unit="locale",
            decimals=0,
            min=0,
            no_value="no inventory",
            custom={"fillOpacity": 70, "lineWidth": 0, "stacking": {"group": "A", "mode": "normal"}},
            overrides=[override(state, color=fixed(color)) for state, color in palette.STATE_COLOURS.items()],
        ),
        _clusters(),
    ]


def _verdicts() -> Any:
    return grafana.table(
        "Claims",
        "Each claim of the claims file, in the chosen window. Delivered claims are judged by bounds, "
        "capabilities by their 95 % interval; undetermined means that evidence is missing. The evidence: "
        "trackside verify.",
        [rows(exported("verdict"))],
        size=(12, 9),
        unit="none",
        decimals=0,
        min=-1,
        max=1,
        no_value="no verdict",
        transformations=[
            grafana.organize({"cluster": "cluster", "claim": "claim", "kind": "judged as", "Value": "verdict"})
        ],
        overrides=[override("verdict", mappings=[_VERDICTS], custom_cellOptions=_COLORED)],
    )


def _clusters() -> Any:
    columns = {
        "GPUs": f"sum by (cluster) ({exported('gpus')})",
        "occupancy": exported("occupancy_ratio"),
        "availability": exported("availability_ratio", bound="point"),
        "capacity by accounting": exported("capacity_by_accounting_ratio"),
        "goodput of capacity": exported("goodput_ratio", of="capacity", bound="point"),
        "goodput": exported("goodput_ratio", of="allocated", bound="point"),
        "goodput at least": exported("goodput_ratio", of="allocated", bound="lower"),
        "goodput at most": exported("goodput_ratio", of="allocated", bound="upper"),
        "ETTR": exported("ettr_ratio", bound="point"),
        "MFU": exported("mfu_ratio", bound="point"),
        "MTTF": exported("mttf_seconds", gpus=MTTF_GPUS, bound="point"),
        "restart": exported("restart_seconds", statistic="median"),
    }
    return grafana.table(
        "Clusters compared",
        "One line per chosen cluster, in the chosen window: the numbers above, and their denominators. MTTF is "
        f"of {int(MTTF_GPUS):,} GPUs, restart is the median. Capacity by accounting is that of nodes in no inventory, "
        "whose GPUs are a guess from their jobs. An empty cell is unknown.",
        [rows(expr) for expr in columns.values()],
        size=(24, 5),
        unit="percentunit",
        decimals=1,
        min=0,
        max=1,
        no_value=CANNOT_TELL,
        transformations=grafana.lines_of(columns, "cluster"),
        overrides=[
            override("cluster", links=list(CLUSTER_LINKS)),
            override("GPUs", unit="locale", decimals=0, max=None),
            override("MTTF", unit="s", max=None),
            override("restart", unit="s", max=None),
        ],
    )


def _runs() -> Any:
    columns = {
        "(is there)": exported("run_info"),
        "GPUs": exported("run_gpus"),
        "ETTR": exported("run_ettr_ratio", bound="point"),
        "ETTR at least": exported("run_ettr_ratio", bound="lower"),
        "ETTR at most": exported("run_ettr_ratio", bound="upper"),
    }
    labels = ("cluster", "run", "state", "user", "partition")
    return grafana.table(
        f"Runs that are running or ended in the last {RUN_DAYS} days of data",
        f"At most {MAX_RUNS} runs with their ETTR over their whole life and its bounds. Click a run for its timeline "
        "in the explorer: where its time went, why it restarted.",
        [rows(expr) for expr in columns.values()],
        size=(24, 10),
        unit="percentunit",
        decimals=1,
        min=0,
        max=1,
        no_value=CANNOT_TELL,
        options={"sortBy": [{"displayName": "GPUs", "desc": True}]},
        transformations=grafana.lines_of(columns, *labels, leave_out=("Time", "Value #A")),
        overrides=[
            override("GPUs", unit="locale", decimals=0, max=None),
            override("run", links=list(RUN_LINKS)),
            override("ETTR", custom_cellOptions={"type": "gauge", "mode": "basic"}, color=fixed(_TRAINED)),
        ],
    )


BOARD = fleet
"""The entry that `dashboards.build` collects: it makes the board from the thresholds of the headline numbers."""
