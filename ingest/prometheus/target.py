"""The request of the command line for telemetry, and its cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ingest.cluster_names import TOO_LONG, fits_a_folder, only_cluster
from ingest.errors import OptionError, shorten
from ingest.prometheus.mapping.mapping import builtin

if TYPE_CHECKING:
    from datetime import datetime

    from ingest.prometheus.mapping.mapping import Mapping
    from ingest.prometheus.settings import TelemetrySettings
    from queries.warehouse import Writer


@dataclass(frozen=True)
class TelemetryRequest:
    """The options of the command line, beyond the configuration; None leaves it to that."""

    url: str | None = None
    cluster: str | None = None
    since: datetime | None = None
    until: datetime | None = None


def cluster_of(writer: Writer, settings: TelemetrySettings, request: TelemetryRequest) -> str:
    """The cluster that telemetry belongs to: the requested one, the configured one, or the only one."""
    named = request.cluster or settings.prometheus.cluster or settings.cluster
    if named is None:
        return only_cluster("telemetry", writer.query("clusters")["cluster"].to_list(), option=_OPTION)
    if not fits_a_folder(named):
        raise OptionError(f"cluster {shorten(named, 40)}: {TOO_LONG}")
    return named


_OPTION: Final = "--cluster NAME (as in accounting), or prometheus.cluster in the configuration"


def mapping_of(settings: TelemetrySettings) -> Mapping:
    """The mapping of exported metrics: the built-in one, and the additions of the configuration."""
    return builtin().and_more(settings.prometheus.metric, origin="[[prometheus.metric]]")
