"""`trackside ingest slurm FILE...`: read, parse, merge with what is there, write. One transaction per input."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, get_args

import polars as pl

from app.errors import UsageError
from app.loading import Report, load
from app.streaming import load_accounting
from ingest.clusters import foreign
from ingest.errors import InputError
from ingest.frames import NODE_STATES, Parsed, SourceName
from ingest.given import Given
from ingest.parsers import NAMELESS, TIMELESS, parse
from ingest.pieces import Input
from ingest.slurm_json_answer import is_json
from ingest.sniff import kind_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from app.config import Config
    from queries.warehouse import Writer


@dataclass(frozen=True)
class Options:
    """What the command line asked for, beyond the configuration."""

    cluster: str | None = None
    timezone: str | None = None
    delimiter: str | None = None
    accept_truncated: bool = False
    since: datetime | None = None
    until: datetime | None = None


KINDS = get_args(SourceName)
"""All kinds, in the order in which inputs are loaded."""


def ingest_files(
    writer: Writer,
    config: Config,
    files: Sequence[str],
    options: Options,
    *,
    now: datetime,
    progress: Callable[[str, int, int], None],
) -> list[Report]:
    """Load files of any of the kinds of Slurm text, each in a transaction of its own.

    Files that name their cluster go first, so that inventories (`scontrol show node` names none) can take it from
    them. A file that cannot be used is reported and leaves nothing behind; the others are loaded.
    """
    reports: list[Report] = []
    inputs: list[tuple[Input, SourceName]] = []
    for name in files:
        try:
            source = Input(name)
            inputs.append((source, kind_of(source.head, origin=name)))
        except InputError as error:
            reports.append(Report(name, error=error))
    inputs.sort(key=lambda each: (each[1] in NAMELESS, KINDS.index(each[1])))
    told: list[Parsed] = []
    for number, (source, kind) in enumerate(inputs):
        progress(source.name, number, len(inputs))
        given = _given(source.name, config, options)
        if kind in TIMELESS and given.until is None:
            # What is dumped together is of one time: as late as the other files reach. The time of loading would make
            # two things of a file that is loaded twice.
            given = replace(given, until=max((each.covers_until for each in told if each.covers_until), default=None))
        try:
            if kind == "slurm.accounting" and not is_json(source.head):
                parsed = load_accounting(writer, source, given, now=now, progress=progress)
            else:
                data = source.whole()
                parsed = _parse(data, kind, given, told, writer)
                parsed = load(writer, parsed, origin=source.name, data=data, now=now, cluster=given.cluster)
        except (InputError, UsageError) as error:
            reports.append(Report(source.name, error=error))
        else:
            told.append(parsed)
            reports.append(Report(source.name, parsed))
    return reports


def standard_input() -> bytes:
    """What was piped in, unpacked."""
    return Input("-").whole()


def _given(origin: str, config: Config, options: Options) -> Given:
    return Given(
        origin=origin,
        cluster=options.cluster or config.cluster,
        timezone=options.timezone or config.timezone,
        delimiter=options.delimiter,
        accept_truncated=options.accept_truncated,
        since=options.since,
        until=options.until,
        planned_reasons=config.rules.planned_reasons,
    )


def _parse(data: bytes, kind: SourceName, given: Given, told: list[Parsed], writer: Writer) -> Parsed:
    if kind in NAMELESS and given.cluster is None and not _names_clusters(kind, data):
        given = replace(given, cluster=_only_cluster(told, writer, given.origin))
    parsed = parse(kind, data, given)
    if given.cluster is not None and kind != "slurm.accounting":  # which says so itself
        parsed = replace(parsed, warnings=[*parsed.warnings, *foreign(given.cluster, parsed.clusters)])
    if kind in NAMELESS and not parsed.clusters and parsed.rejects.is_empty():  # nothing in it, which is news as well
        parsed = replace(parsed, clusters=frozenset({given.cluster or _only_cluster(told, writer, given.origin)}))
    if kind == "slurm.events":
        # A dump of events does not say when it was made; the coverage query takes it to reach as far as accounting.
        # One without any node event still tells that nothing happened.
        return replace(parsed, covers_until=given.until)
    return seen_until_now(parsed)


def _names_clusters(kind: SourceName, data: bytes) -> bool:
    """Whether a text of a kind that need not name its cluster has a column that does."""
    header = data[:4096].decode(errors="replace").partition("\n")[0].lower()
    return kind in {"slurm.events", "slurm.reservations"} and re.search(r"\bcluster\b", header) is not None


def _only_cluster(told: list[Parsed], writer: Writer, origin: str) -> str:
    """The cluster that the other inputs, or else the warehouse, are all about."""
    known = set().union(*(parsed.clusters for parsed in told)) or set(writer.query("clusters")["cluster"])
    if len(known) == 1:
        return str(known.pop())
    found = f"there are several here ({', '.join(sorted(known))})" if known else "nothing else here names one"
    raise UsageError(f"{origin} does not say which cluster it is of, and {found}.\nSay it: --cluster NAME")


def seen_until_now(nodes: Parsed) -> Parsed:
    """What a snapshot sees is known to hold until the snapshot, not for ever after."""
    states = nodes.frames.get("node_states")
    if states is None or nodes.covers_until is None:
        return nodes
    closed = states.with_columns(
        ended_at=pl.col("ended_at").fill_null(nodes.covers_until).cast(NODE_STATES["ended_at"])
    )
    return replace(nodes, frames=nodes.frames | {"node_states": closed})
