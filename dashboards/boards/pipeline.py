"""The pipeline board: does Trackside itself read, compute and answer?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from dashboards import grafana
from dashboards.boards.fleet import FRESH_S
from dashboards.grafana import fixed, instant, override, ranged, rows, steps
from dashboards.numbers import course, stat
from dashboards.parts import BAD, GOOD, MIDDLING, PLAIN, board, chosen, exported
from dashboards.rules.alerts import STALE_S

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dashboards.grafana import Json

UID: Final = "trackside-pipeline"

SCRAPE_S: Final = (5.0, 10.0)
"""Seconds of a scrape from which it is slow, and from which Prometheus gives up by default."""

SERIES: Final = (20_000.0, 50_000.0)
"""Series of Trackside's own from which they are many; the caps of all families add up to less than the second."""

_COUNT: Final[dict[str, Any]] = {"unit": "locale", "decimals": 0, "min": 0}
_SECONDS: Final[dict[str, Any]] = {"unit": "s", "decimals": 1, "min": 0}
_UP: Final = grafana.value_map({"1": ("answers", GOOD), "0": ("does not answer", BAD)})
OF_TRACKSIDE: Final = "and on (job, instance) last_over_time(trackside_build_info[1d])"
"""Condition on series that the server records about scrapes of Trackside, within a day."""


def pipeline(_: Mapping[str, tuple[float, ...]]) -> Json:
    """The board as JSON. No claim is on a number of it."""
    return board(
        "Trackside: pipeline",
        UID,
        "Does Trackside itself read, compute and answer?",
        tags=("health", "ingest"),
        variables=[
            chosen("cluster", "Cluster", "trackside_data_end_timestamp_seconds"),
            chosen("source", "Source", 'trackside_input_lag_seconds{cluster=~"$cluster"}'),
        ],
        panels=[
            grafana.row("Is it OK?"),
            *_now(),
            grafana.row("Sources"),
            *_sources(),
            grafana.row("Computing and answering"),
            *_service(),
        ],
    )


_OF_SOURCE: Final = 'source=~"$source"'


def _now() -> list[Any]:
    lag = exported("input_lag_seconds", but=_OF_SOURCE)
    return [
        grafana.stat(
            "Age of the data",
            "From the last moment that the numbers cover until now. Old: a source is silent (below), or nothing "
            "computes (trackside serve; trackside doctor).",
            [instant(f"time() - {exported('data_end_timestamp_seconds')}", "{{cluster}}")],
            size=(4, 4),
            thresholds=steps(GOOD, (FRESH_S[0], MIDDLING), (FRESH_S[1], BAD)),
            no_value="no data",
            options={"textMode": "auto"},
            **_SECONDS,
        ),
        grafana.stat(
            "Since the last computation",
            "Time since the numbers were computed. The service computes on a schedule (serve.every_minutes).",
            [instant(f"time() - {exported('computed_timestamp_seconds')}", "{{cluster}}")],
            size=(4, 4),
            thresholds=steps(GOOD, (FRESH_S[0], MIDDLING), (FRESH_S[1], BAD)),
            no_value="never",
            options={"textMode": "auto"},
            **_SECONDS,
        ),
        stat(
            "Silent sources",
            f"Sources whose newest record is older than {STALE_S / 3600:g} hours. Their data are unknown "
            "from then on. Which: below; why: trackside doctor.",
            [ranged(f"sum by (cluster) ({lag} > bool {STALE_S:g})", "{{cluster}}")],
            size=(4, 4),
            thresholds=steps(GOOD, (1, BAD)),
            no_value="no sources",
            **_COUNT,
        ),
        stat(
            "Loads that wait",
            "Loads since the last computation: their rows are in no number yet.",
            course("loads_waiting"),
            size=(4, 4),
            color=fixed(PLAIN),
            no_value="nothing computed",
            **_COUNT,
        ),
        stat(
            "Parts that cannot be exported",
            "Parts of the numbers that are missing because computing them failed; /healthz has the reasons.",
            course("export_failures"),
            size=(4, 4),
            thresholds=steps(GOOD, (1, BAD)),
            no_value="nothing computed",
            **_COUNT,
        ),
        stat(
            "Refused rows",
            "Input rows that could not be read and are kept with their reasons: trackside status. A source that "
            "starts to refuse has changed its format.",
            [ranged(f"sum by (cluster) ({exported('rows_rejected', but=_OF_SOURCE)})", "{{cluster}}")],
            size=(4, 4),
            color=fixed(PLAIN),
            no_value="none",
            **_COUNT,
        ),
    ]


def _sources() -> list[Any]:
    lag = exported("input_lag_seconds", but=_OF_SOURCE)
    rejected = exported("rows_rejected", but=_OF_SOURCE)
    loaded = {
        result: exported("last_load_rows", but=_OF_SOURCE, result=result)
        for result in ("read", "new", "skipped", "rejected")
    }
    columns = {
        "newest record": lag,
        "last load": f"time() - {exported('last_load_timestamp_seconds', but=_OF_SOURCE)}",
        **{f"rows {result}": expr for result, expr in loaded.items()},
        "refused in all": rejected,
    }
    return [
        grafana.table(
            "Sources and their last load",
            "One line a source: the age of its newest record and of its last load, and the rows of that load. "
            "No new rows: they were there already (loading twice is loading once).",
            [rows(expr) for expr in columns.values()],
            size=(24, 9),
            transformations=grafana.lines_of(columns, "cluster", "source"),
            options={"sortBy": [{"displayName": "newest record", "desc": True}]},
            overrides=[override(name, unit="s", decimals=1) for name in ("newest record", "last load")],
            no_value="never loaded",
            **_COUNT,
        ),
        grafana.time_series(
            "Age of the newest record, by source",
            "A line that rises at 45 degrees is a source that has gone silent. trackside doctor finds the cause.",
            [ranged(lag, "{{cluster}}: {{source}}")],
            size=(12, 8),
            no_value="no sources",
            **_SECONDS,
        ),
        grafana.time_series(
            "Refused input rows, by source",
            "Rows that could not be read, kept with their reasons: trackside status.",
            [ranged(rejected, "{{cluster}}: {{source}}")],
            size=(12, 8),
            no_value="none refused",
            **_COUNT,
        ),
    ]


def _service() -> list[Any]:
    return [
        grafana.stat(
            "Scrapes",
            "Whether Prometheus reaches Trackside, by instance that has answered within the last day.",
            [instant(f"up {OF_TRACKSIDE}", "{{instance}}")],
            size=(6, 8),
            unit="none",
            decimals=0,
            min=0,
            max=1,
            no_value="nothing scraped within a day",
            mappings=[_UP],
            thresholds=steps(BAD, (1, GOOD)),
            options={"textMode": "value_and_name"},
        ),
        grafana.time_series(
            "Time of a scrape",
            "How long Trackside took to answer Prometheus. Only the first scrape after new data computes; if that is "
            "beyond Prometheus' scrape_timeout (10 s), raise it for this job.",
            [ranged(f"scrape_duration_seconds {OF_TRACKSIDE}", "{{instance}}")],
            size=(6, 8),
            thresholds=steps(GOOD, (SCRAPE_S[0], MIDDLING), (SCRAPE_S[1], BAD)),
            no_value="nothing scraped",
            **_SECONDS,
        ),
        grafana.time_series(
            "Time to compute what is exported",
            "How long computing the exported numbers of a cluster took, after its data last changed.",
            [ranged(exported("export_seconds"), "{{cluster}}")],
            size=(6, 8),
            no_value="nothing computed",
            **_SECONDS,
        ),
        grafana.time_series(
            "Series",
            "Series that Trackside exports. They are bounded: the caps of each family are in the manual (exported "
            "metrics).",
            [ranged(f"scrape_samples_scraped {OF_TRACKSIDE}", "{{instance}}")],
            size=(6, 8),
            thresholds=steps(GOOD, (SERIES[0], MIDDLING), (SERIES[1], BAD)),
            no_value="nothing scraped",
            **_COUNT,
        ),
        grafana.table(
            "Versions",
            "Trackside's version by instance.",
            [rows("max by (instance, version) (trackside_build_info)")],
            size=(24, 4),
            unit="none",
            decimals=0,
            min=0,
            max=1,
            no_value="nothing scraped",
            transformations=[
                grafana.organize({"instance": "instance", "version": "version"}, leave_out=("Time", "Value"))
            ],
        ),
    ]


BOARD = pipeline
