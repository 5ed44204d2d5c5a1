"""Which parser reads which kind of text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ingest.slurm import parse_accounting
from ingest.slurm_nodes import parse_events, parse_nodes, parse_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ingest.frames import Parsed, SourceName
    from ingest.given import Given

NAMELESS: Final[frozenset[SourceName]] = frozenset(
    {"slurm.nodes", "slurm.topology", "slurm.reservations", "slurm.diag", "slurm.events"}
)
"""Kinds whose text need not name its cluster: somebody else has to."""

SNAPSHOTS: Final[frozenset[SourceName]] = frozenset(
    {"slurm.nodes", "slurm.topology", "slurm.reservations", "slurm.diag"}
)
"""Kinds that tell how things were at one moment, `until`."""


def parse(kind: SourceName, data: bytes, given: Given) -> Parsed:
    """Read one input of a known kind.

    Raises:
        InputError: The text as a whole cannot be read; see `ingest.errors`.
        KeyError: There is no parser for this kind.
    """
    return PARSERS[kind](data, given)


def _accounting(data: bytes, given: Given) -> Parsed:
    return parse_accounting(
        data,
        origin=given.origin,
        cluster=given.cluster,
        timezone=given.timezone,
        delimiter=given.delimiter,
        accept_truncated=given.accept_truncated,
        since=given.since,
        until=given.until,
    )


def _events(data: bytes, given: Given) -> Parsed:
    return parse_events(
        data,
        origin=given.origin,
        cluster=given.cluster,
        timezone=given.timezone,
        delimiter=given.delimiter,
        accept_truncated=given.accept_truncated,
        planned_reasons=given.planned_reasons,
        since=given.since,
        until=given.until,
    )


def _nodes(data: bytes, given: Given) -> Parsed:
    return parse_nodes(
        data,
        origin=given.origin,
        cluster=given.cluster or "",
        timezone=given.timezone,
        as_of=given.until,
        planned_reasons=given.planned_reasons,
    )


def _settings(data: bytes, given: Given) -> Parsed:
    return parse_settings(data, origin=given.origin, cluster=given.cluster)


PARSERS: Final[Mapping[SourceName, Callable[[bytes, Given], Parsed]]] = {
    "slurm.accounting": _accounting,
    "slurm.events": _events,
    "slurm.nodes": _nodes,
    "slurm.config": _settings,
}
