"""The SQL board of GPU-time: where it went, whose it was, the evidence of the headline numbers, as known today."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from dashboards import grafana, palette
from dashboards.grafana import fixed, override, sql
from dashboards.numbers import at_least
from dashboards.parts import BAD, CANNOT_TELL, GOOD, MIDDLING, board
from dashboards.sql_parts import (
    CLUSTERS,
    NOTHING,
    TODAY,
    bounded,
    chosen,
    clusters,
    counted,
    in_variable,
    source,
    table,
)
from dashboards.sql_parts import within as in_range

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dashboards.grafana import Json

UID: Final = "trackside-sql-gpu-time"

_HELD: Final = "\"state\" = 'allocated'"
_WHERE: Final = f"WHERE {CLUSTERS} AND {in_range('day')}"
_CHOSEN: Final = f"{_WHERE} AND {_HELD} AND {in_variable('partition')}"
_HOURS: Final = "SUM(gpu_seconds) / 3600"
_STACKED: Final[dict[str, Any]] = {
    "drawStyle": "bars",
    "fillOpacity": 80,
    "lineWidth": 0,
    "stacking": {"group": "A", "mode": "normal"},
}
_ANY: Final = {"min": None, "max": None}


def gpu_time(targets: Mapping[str, tuple[float, ...]]) -> Json:
    """The board as JSON.

    Args:
        targets: what the thresholds of the headline numbers are.
    """
    return board(
        "Trackside SQL: GPU time as known today",
        UID,
        "Where did GPU-time go, whose was it, and what are the headline numbers made of, as known today?",
        tags=("duckdb", "goodput", "sla"),
        source=source(),
        variables=[
            clusters(),
            chosen(
                "window",
                "Window of the numbers",
                f'SELECT DISTINCT "window" FROM windows WHERE {CLUSTERS} ORDER BY "window"',
                one="all",
            ),
            chosen(
                "partition",
                "Partition",
                f'SELECT DISTINCT "partition" FROM gpu_time WHERE {CLUSTERS} AND {_HELD} ORDER BY "partition"',
            ),
        ],
        panels=[
            grafana.row("Numbers of the chosen window"),
            *_numbers(targets),
            grafana.row("GPU-time in the time range of the board"),
            *_days(),
            *_owners(),
            grafana.row("Behind the numbers of the chosen window"),
            _failure_rates(),
            _verdicts(),
        ],
        since="now-30d",
    )


def _numbers(targets: Mapping[str, tuple[float, ...]]) -> list[Any]:
    described = {
        "goodput_allocated": ("Goodput (of allocated)", "Share of allocated GPU-time that became kept training steps."),
        "ettr": ("ETTR", "Of the time that runs were queued or scheduled, the share in which they trained."),
        "availability": ("Availability", "Share of the capacity that was neither down, drained nor in maintenance."),
        "mfu": ("MFU", "Model FLOP utilisation over kept steps, of the dense peak. It needs run logs."),
    }
    numbers = [bounded(title, text, name, at_least(targets, name)) for name, (title, text) in described.items()]
    return [panel for number in numbers for panel in number]


def _days() -> list[Any]:
    colours = [override(swatch.name, color=fixed(swatch.colour)) for swatch in palette.SWATCHES]
    return [
        grafana.time_series(
            "GPU-hours by day and category",
            f"The account of each day, which adds up to its capacity. {TODAY}",
            [
                sql(
                    f'SELECT "day" AS time, category, {_HOURS} AS "Value"\nFROM gpu_time\n{_WHERE}\n'
                    "GROUP BY 1, 2\nORDER BY 1, 2",
                    series=True,
                )
            ],
            size=(16, 9),
            unit="short",
            decimals=1,
            min=0,
            no_value=NOTHING,
            custom=_STACKED,
            overrides=colours,
        ),
        table(
            "GPU-hours without kept steps, by cause",
            "Allocated GPU-hours that made no kept training steps, by category and, where it has any, cause: the "
            "ledger's rows. Look into the largest with trackside show lost.",
            f"SELECT cluster, category, NULLIF(cause, 'none') AS cause, {_HOURS} AS \"GPU-hours\"\n"
            f"FROM gpu_time\n{_CHOSEN}\n"
            "  AND category NOT IN ('productive', 'other_work')\nGROUP BY 1, 2, 3\nORDER BY 4 DESC\nLIMIT 50",
            size=(8, 9),
            overrides=[override("GPU-hours", decimals=1)],
        ),
        counted(
            "GPU-hours held",
            f"GPU-hours that jobs held in the chosen partitions. {TODAY}",
            f'SELECT cluster, {_HOURS} AS "GPU-hours"\nFROM gpu_time\n{_CHOSEN}\nGROUP BY 1\nORDER BY 1',
            width=6,
        ),
        counted(
            "GPU-hours lost",
            "Of these, what was computed and not kept: from the last checkpoint to the interruption.",
            f"SELECT cluster, SUM(CASE WHEN category = 'lost' THEN gpu_seconds ELSE 0 END) / 3600 AS \"GPU-hours\"\n"
            f"FROM gpu_time\n{_CHOSEN}\nGROUP BY 1\nORDER BY 1",
            width=6,
        ),
        counted(
            "Goodput of the range",
            "Productive of held GPU-time, as Goodput (of allocated) is defined, over whole days and the chosen "
            "partitions. Its upper end is beside it; both bounds are those of the chosen window, above.",
            _share("category = 'productive'"),
            width=6,
            unit="percentunit",
            decimals=1,
            max=1,
        ),
        counted(
            "Goodput of the range, at most",
            "The same share with all that is unattributed counted as productive.",
            _share("category IN ('productive', 'unattributed')"),
            width=6,
            unit="percentunit",
            decimals=1,
            max=1,
        ),
    ]


def _share(condition: str) -> str:
    """Share of the held GPU-time."""
    made = f"SUM(CASE WHEN {condition} THEN gpu_seconds ELSE 0 END)"
    return (
        f'SELECT cluster, {made} / NULLIF(SUM(gpu_seconds), 0) AS "share"\nFROM gpu_time\n{_CHOSEN}\n'
        "GROUP BY 1\nORDER BY 1"
    )


def _owners() -> list[Any]:
    def by(owner: str) -> str:
        productive = "SUM(CASE WHEN category = 'productive' THEN gpu_seconds ELSE 0 END)"
        return (
            f'SELECT cluster, "{owner}", {_HOURS} AS "GPU-hours", {productive} / NULLIF(SUM(gpu_seconds), 0) AS '
            f'"productive"\nFROM gpu_time\n{_CHOSEN}\nGROUP BY 1, 2\nORDER BY 3 DESC\nLIMIT 50'
        )

    share = override("productive", unit="percentunit", decimals=1, max=1)
    return [
        table(
            f"GPU-hours by {owner}",
            f"GPU-hours held and the share that became kept steps, of the 50 largest: by {owner}.",
            by(owner),
            size=(8, 9),
            overrides=[share],
        )
        for owner in ("user", "account", "partition")
    ]


def _failure_rates() -> Any:
    days = {"unit": "d", "decimals": 2}
    return table(
        "Time to failure by size of the job",
        "Mean time to failure by infrastructure, of a job of that many GPUs, with its 95 % interval and the failures "
        "that it rests on. Without failures there is only a lower end.",
        """\
SELECT f.cluster, w."window", f.size AS "GPUs", f.n_failures AS "failures", f.exposure_gpu_days AS "GPU-days",
    f.mttf_s / 86400 AS "MTTF", f.mttf_low_s / 86400 AS "at least", f.mttf_high_s / 86400 AS "at most"
FROM failure_rates AS f
JOIN windows AS w ON f.cluster = w.cluster AND f.window_from = w.window_from AND f.window_until = w.window_until
WHERE f.cluster IN (${cluster:sqlstring}) AND w."window" IN (${window:sqlstring})
  AND f.class = 'infrastructure' AND f.counted = 'attempts'
  AND f.size NOT IN ('pooled', 'over 128') AND f.exposure_gpu_days > 0
ORDER BY f.cluster, w."window", f.gpus_low""",
        size=(12, 10),
        no_value=CANNOT_TELL,
        overrides=[override(name, **days) for name in ("MTTF", "at least", "at most")],
    )


def _verdicts() -> Any:
    words = grafana.value_map({"supported": ("supported", GOOD), "refuted": ("refuted", BAD)})
    words["options"]["undetermined"] = {"index": 2, "text": "undetermined", "color": MIDDLING}
    coloured = {"mappings": [words], "custom_cellOptions": {"type": "color-text"}}
    return table(
        "Claims",
        "What is promised and what was measured, over all the data: supported, refuted or undetermined, with the end "
        "of the interval that decides. trackside verify CLAIM shows the parts.",
        """\
SELECT cluster, claim, verdict, target, value, low AS "at least", high AS "at most", unit, needed
FROM verdicts
WHERE cluster IN (${cluster:sqlstring})
ORDER BY cluster, claim""",
        size=(12, 10),
        no_value="no claim is judged",
        overrides=[
            override("verdict", **coloured),
            *(override(name, decimals=3, **_ANY) for name in ("target", "value", "at least", "at most")),
        ],
    )


BOARD = gpu_time
