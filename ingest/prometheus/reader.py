"""What is read from a server for a cluster, and how each source of telemetry reads it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from ingest.prometheus.mapping.mapping import Mapping, builtin

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from ingest.prometheus.client.server import PrometheusServer
    from ingest.tables import Parsed, SourceName


@dataclass(frozen=True)
class ScrapeSpec:
    """What to read: a cluster's series (those that the selector matches) as averages over `interval_s`.

    `mapping` defines the metrics.
    """

    cluster: str
    selector: str
    interval_s: int
    mapping: Mapping = field(default_factory=builtin)

    def series(self, name: str, *more: str) -> str:
        """A selector of PromQL for one metric."""
        return f"{name}{{{','.join([*filter(None, [self.selector]), *more])}}}"

    def origin(self, url: str) -> str:
        """Where its rows come from, as in `loads.origin`, where the next load finds it: server and selector."""
        return f"{url} {{{self.selector}}}" if self.selector else url

    def matcher(self, names: Sequence[str]) -> str:
        """A selector for all these metrics."""
        return self.series("", f'__name__=~"{"|".join(names)}"')


class Read(Protocol):
    """How one source reads an interval on the grid.

    Args:
        server: The server to query.
        spec: What to read.
        names: The metrics of the source that the server has.
        since: Beginning, on the grid.
        until: End, on the grid.

    Raises:
        ServerDownError: A part of it cannot be read; then none of it is.
    """

    def __call__(  # noqa: D102 - see the class
        self, server: PrometheusServer, spec: ScrapeSpec, names: Sequence[str], *, since: datetime, until: datetime
    ) -> Parsed: ...


@dataclass(frozen=True)
class SourceReader:
    """One source of those that a server feeds: its name, which metrics it reads, and how."""

    source: SourceName
    names: Callable[[ScrapeSpec], Sequence[str]]
    read: Read
