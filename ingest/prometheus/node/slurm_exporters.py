"""Counts of Slurm's exporters, from a server, as rows of `cluster_samples`: a cross-check of accounting."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ingest.prometheus.node.server import read_table
from ingest.prometheus.reader import ScrapeSpec, SourceReader

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from ingest.prometheus.client.server import PrometheusServer
    from ingest.tables import Parsed

SOURCE: Final = "prometheus.slurm"
"""Name of the source in `loads` and `rejects`."""


def read(
    server: PrometheusServer, spec: ScrapeSpec, names: Sequence[str], *, since: datetime, until: datetime
) -> Parsed:
    """Counts of a cluster in an interval on the grid: `cluster_samples`, without nodes.

    See `ingest.prometheus.reader.Read`.

    Returns:
        As `ingest.prometheus.node.server.read`.
    """
    return read_table(server, spec, names, source=SOURCE, table="cluster_samples", since=since, until=until)


def _names(spec: ScrapeSpec) -> Sequence[str]:
    return spec.mapping.names("cluster_samples")


READER: Final = SourceReader(SOURCE, _names, read)
"""GPUs, nodes and jobs as the scheduler counts them."""
