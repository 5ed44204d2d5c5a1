"""The parser of each kind of text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ingest.errors import TimeZoneError
from ingest.slurm.accounting.controller_jobs import parse_jobs
from ingest.slurm.accounting.sacct import parse_accounting
from ingest.slurm.accounting.sacct_json import parse_accounting_json
from ingest.slurm.formats.json_answer import is_json
from ingest.slurm.nodes.inventory import parse_events, parse_nodes, parse_settings
from ingest.slurm.nodes.inventory_json import parse_nodes_json, parse_settings_json
from ingest.slurm.nodes.reservations import is_listing, parse_reservations
from ingest.slurm.nodes.reservations_json import parse_reservations_json
from ingest.slurm.nodes.topology import parse_topology
from ingest.slurm.people.associations import parse_associations, parse_qos
from ingest.slurm.people.transactions import parse_transactions
from ingest.slurm.scheduler.runaway import parse_runaway
from ingest.slurm.scheduler.sdiag import parse_diag
from ingest.slurm.sources import BY_NAME, SOURCES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ingest.context import ParseContext
    from ingest.tables import Parsed, SourceName

NAMELESS: Final[frozenset[SourceName]] = frozenset(source.name for source in SOURCES if not source.names_cluster)
"""Kinds whose text need not name its cluster: the caller has to pass it."""

SNAPSHOTS: Final[frozenset[SourceName]] = frozenset(source.name for source in SOURCES if source.snapshot)
"""Kinds that are a snapshot of one moment, `until`."""

TIMELESS: Final[frozenset[SourceName]] = frozenset(source.name for source in SOURCES if not source.dated)
"""Kinds whose text has no time: the caller has to pass it."""


def parse(kind: SourceName, data: bytes, context: ParseContext) -> Parsed:
    """Parse one input of a kind.

    Raises:
        TimeZoneError: Its times are local and no zone is set; it names the command that was run.
        InputError: The text as a whole cannot be read; see `ingest.errors`.
        KeyError: There is no parser for this kind.
    """
    try:
        return PARSERS[kind](data, context)
    except TimeZoneError as error:
        listing = kind == "slurm.reservations" and is_listing(data.decode(errors="replace"))
        raise error.of("scontrol show reservation" if listing else BY_NAME[kind].prints_times) from None


def _either(
    from_json: Callable[[bytes, ParseContext], Parsed], from_text: Callable[[bytes, ParseContext], Parsed]
) -> Callable[[bytes, ParseContext], Parsed]:
    """The parser of a kind that comes as JSON or as text."""
    return lambda data, context: (from_json if is_json(data) else from_text)(data, context)


PARSERS: Final[Mapping[SourceName, Callable[[bytes, ParseContext], Parsed]]] = {
    "slurm.accounting": _either(parse_accounting_json, parse_accounting),
    "slurm.events": parse_events,
    "slurm.nodes": _either(parse_nodes_json, parse_nodes),
    "slurm.config": _either(parse_settings_json, parse_settings),
    "slurm.associations": parse_associations,
    "slurm.qos": parse_qos,
    "slurm.transactions": parse_transactions,
    "slurm.diag": parse_diag,
    "slurm.runaway": parse_runaway,
    "slurm.jobs": parse_jobs,
    "slurm.topology": parse_topology,
    "slurm.reservations": _either(parse_reservations_json, parse_reservations),
}
