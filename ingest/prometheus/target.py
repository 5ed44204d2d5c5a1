"""What the command line asks of telemetry, and which cluster that is of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ingest.cluster_names import TOO_LONG, fits_a_folder
from ingest.errors import OptionError, shorten
from ingest.prometheus.mapping.mapping import builtin

if TYPE_CHECKING:
    from datetime import datetime

    from ingest.prometheus.mapping.mapping import Mapping
    from ingest.prometheus.settings import TelemetrySettings
    from queries.warehouse import Writer


@dataclass(frozen=True)
class TelemetryRequest:
    """What the command line asked for, beyond the configuration; None leaves it to that."""

    url: str | None = None
    cluster: str | None = None
    since: datetime | None = None
    until: datetime | None = None


def cluster_of(writer: Writer, settings: TelemetrySettings, asked: TelemetryRequest) -> str:
    """The cluster that telemetry belongs to: as told, as configured, or the only one there is."""
    told = asked.cluster or settings.prometheus.cluster or settings.cluster
    if told is not None:
        if not fits_a_folder(told):
            raise OptionError(f"cluster {shorten(told, 40)}: {TOO_LONG}")
        return told
    known = [str(name) for name in writer.query("clusters")["cluster"]]
    if len(known) == 1:
        return known[0]
    found = f"there are several here ({', '.join(known)})" if known else "nothing has been loaded here that names one"
    raise OptionError(
        f"telemetry does not say which cluster it is of, and {found}.\n"
        "Say it: --cluster NAME (as in accounting), or prometheus.cluster in the configuration"
    )


def mapping_of(settings: TelemetrySettings) -> Mapping:
    """Which exported metric means what: the built-in mapping, and what the configuration says besides."""
    return builtin().and_more(settings.prometheus.metric, origin="[[prometheus.metric]]")
