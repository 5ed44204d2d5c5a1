"""Which parser reads which kind of text."""

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
from ingest.slurm.sources import SOURCES, source_named

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ingest.context import ParseContext
    from ingest.tables import Parsed, SourceName

NAMELESS: Final[frozenset[SourceName]] = frozenset(source.name for source in SOURCES if not source.names_cluster)
"""Kinds whose text need not name its cluster: the caller has to."""

SNAPSHOTS: Final[frozenset[SourceName]] = frozenset(source.name for source in SOURCES if source.snapshot)
"""Kinds that report how things were at one moment, `until`."""

TIMELESS: Final[frozenset[SourceName]] = frozenset(source.name for source in SOURCES if not source.dated)
"""Kinds whose text does not have its time: the caller has to give it."""


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
        raise error.of("scontrol show reservation" if listing else source_named(kind).prints_times) from None


def _accounting(data: bytes, context: ParseContext) -> Parsed:
    if is_json(data):
        return parse_accounting_json(
            data,
            origin=context.origin,
            cluster=context.cluster,
            since=context.since,
            until=context.until,
            accept_truncated=context.accept_truncated,
            now=context.now,
        )
    return parse_accounting(
        data,
        origin=context.origin,
        cluster=context.cluster,
        timezone=context.timezone,
        delimiter=context.delimiter,
        accept_truncated=context.accept_truncated,
        since=context.since,
        until=context.until,
        now=context.now,
    )


def _events(data: bytes, context: ParseContext) -> Parsed:
    return parse_events(
        data,
        origin=context.origin,
        cluster=context.cluster,
        timezone=context.timezone,
        delimiter=context.delimiter,
        accept_truncated=context.accept_truncated,
        planned_reasons=context.planned_reasons,
        since=context.since,
        until=context.until,
    )


def _nodes(data: bytes, context: ParseContext) -> Parsed:
    if is_json(data):
        return parse_nodes_json(
            data,
            origin=context.origin,
            cluster=context.cluster,
            as_of=context.until,
            planned_reasons=context.planned_reasons,
            now=context.now,
        )
    return parse_nodes(
        data,
        origin=context.origin,
        cluster=context.cluster or "",
        timezone=context.timezone,
        as_of=context.until,
        planned_reasons=context.planned_reasons,
        reached=context.reached,
        now=context.now,
    )


def _settings(data: bytes, context: ParseContext) -> Parsed:
    if is_json(data):
        return parse_settings_json(data, origin=context.origin, cluster=context.cluster)
    return parse_settings(data, origin=context.origin, cluster=context.cluster)


def _reservations(data: bytes, context: ParseContext) -> Parsed:
    return parse_reservations_json(data, context) if is_json(data) else parse_reservations(data, context)


PARSERS: Final[Mapping[SourceName, Callable[[bytes, ParseContext], Parsed]]] = {
    "slurm.accounting": _accounting,
    "slurm.events": _events,
    "slurm.nodes": _nodes,
    "slurm.config": _settings,
    "slurm.associations": parse_associations,
    "slurm.qos": parse_qos,
    "slurm.transactions": parse_transactions,
    "slurm.diag": parse_diag,
    "slurm.runaway": parse_runaway,
    "slurm.jobs": parse_jobs,
    "slurm.topology": parse_topology,
    "slurm.reservations": _reservations,
}
