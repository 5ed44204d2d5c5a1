"""Health events from a server with Prometheus' HTTP API: raw readings, an interval at a time.

Averages hide events, so all readings are read, by the fastest transport of the server, and are condensed while they
arrive (`ingest.prometheus.health.condense`). A segment looks back as far as its events may depend on.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

import polars as pl

from ingest.prometheus.client.raw import ServerReader
from ingest.prometheus.health.condense import Condenser
from ingest.prometheus.health.events import LOOKBACK_S, SOURCE, health_events
from ingest.prometheus.health.rules import builtin
from ingest.prometheus.reader import ScrapeSpec, SourceReader
from ingest.prometheus.series.hosts import HOST_INFO
from ingest.tables import RAW_LIMIT, REJECTS, Parsed

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from ingest.prometheus.client.server import PrometheusServer


def read(
    server: PrometheusServer, spec: ScrapeSpec, names: Sequence[str], *, since: datetime, until: datetime
) -> Parsed:
    """Events that became known after `since`, up to and with `until`.

    See `ingest.prometheus.reader.Read`.

    Returns:
        Each reading of the segment is a row; a series without a location is a rejected one. `covers_from` and
        `covers_until` are its first and last reading's times, whether anything happened or not.
    """
    gathering = Condenser(builtin(), since)
    if set(names) != {HOST_INFO}:
        transport = ServerReader(server, spec.selector, timedelta(seconds=spec.interval_s))
        looked_back = since - timedelta(seconds=LOOKBACK_S)
        for part in transport.raw(names, since=looked_back, until=until, each=gathering.condensed):
            gathering.take(part)
    health = health_events(gathering, cluster=spec.cluster, reported_before=since, until=until)
    rejects = pl.DataFrame(
        [(spec.cluster, SOURCE, server.url, None, why, raw[:RAW_LIMIT]) for raw, why in health.refused.items()],
        schema=REJECTS,
        orient="row",
    )
    return Parsed(
        SOURCE,
        frozenset({spec.cluster}),
        {"health_events": health.events},
        rejects,
        rows_read=health.readings + rejects.height,
        rows_loaded=health.readings - health.blanks,
        rows_skipped=health.blanks,
        rows_rejected=rejects.height,
        columns=list(names),
        covers_from=health.covers_from,
        covers_until=health.covers_until,
    )


READER: Final = SourceReader(SOURCE, lambda _: Condenser(builtin()).names, read)
"""Faults of GPUs, memory, links, filesystems and nodes."""
