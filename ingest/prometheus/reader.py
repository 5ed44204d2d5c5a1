"""The request to a server for a cluster, and the reader of each source of telemetry."""

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

    `mapping` maps metrics to columns.
    """

    cluster: str
    selector: str
    interval_s: int
    mapping: Mapping = field(default_factory=builtin)

    def series(self, name: str, *more: str) -> str:
        """A selector of PromQL for one metric."""
        return f"{name}{{{','.join([*filter(None, [self.selector]), *more])}}}"

    def origin(self, url: str) -> str:
        """Origin of its rows: server and selector, as in `loads.origin`, by which the next load resumes."""
        return f"{url} {{{self.selector}}}" if self.selector else url

    def matcher(self, names: Sequence[str]) -> str:
        """A selector for all these metrics."""
        return self.series("", f'__name__=~"{"|".join(names)}"')


class Read(Protocol):
    """Reads an interval on the grid for one source.

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
    """One source of telemetry: its name, its metrics, and its reader."""

    source: SourceName
    names: Callable[[ScrapeSpec], Sequence[str]]
    read: Read
