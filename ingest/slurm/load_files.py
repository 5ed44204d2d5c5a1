"""`trackside ingest slurm FILE...`: read, parse, merge with the warehouse's rows, write. One transaction per input."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from ingest.cluster_names import foreign, only_cluster
from ingest.context import ParseContext, untimed
from ingest.errors import OptionError, UntimedError
from ingest.files.input import STDIN, Input
from ingest.iso_time import iso
from ingest.load_warnings import LoadWarning
from ingest.slurm.detect import detect_kind
from ingest.slurm.formats.json_answer import is_json
from ingest.slurm.parsers import NAMELESS, TIMELESS, parse
from ingest.slurm.sources import SOURCES
from ingest.slurm.stream import load_accounting
from ingest.slurm.write import empty_warnings, write_input
from ingest.store.report import FAULTS, LoadReport, fault_of
from ingest.store.request import from_file
from ingest.tables import NODE_STATES, Parsed, SourceName

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ingest.slurm.settings import SlurmSettings
    from queries.warehouse import Writer


@dataclass(frozen=True)
class Options:
    """The options of the command line, beyond the configuration."""

    cluster: str | None = None
    timezone: str | None = None
    delimiter: str | None = None
    accept_truncated: bool = False
    since: datetime | None = None
    until: datetime | None = None


KINDS = tuple(source.name for source in SOURCES)
"""All kinds, in the order of loading."""


def ingest_files(
    writer: Writer,
    config: SlurmSettings,
    files: Sequence[str],
    options: Options,
    *,
    now: datetime,
    progress: Callable[[str, int, int], None],
) -> list[LoadReport]:
    """Load files of any of the kinds of Slurm text, each in a transaction of its own.

    Files that name their cluster go first, so that inventories (`scontrol show node` names none) can take it from
    them, and files without a time go last: files loaded together are assumed to be made together, so their time is the
    latest of the others. An unusable file is reported and leaves nothing behind; the others are loaded.

    Raises:
        OptionError: standard input is named twice, or the window ends before it begins.
    """
    once_only(files)
    if options.since and options.until and options.since >= options.until:
        raise OptionError(f"--since {iso(options.since)} is not before --until {iso(options.until)}")
    options = replace(options, until=min(options.until, now) if options.until else None)  # the future is unknown
    reports: list[LoadReport] = []
    inputs: list[tuple[Input, SourceName]] = []
    for name in files:
        try:
            source = Input(name)
            inputs.append((source, detect_kind(source.head, origin=name)))
        except FAULTS as error:
            reports.append(LoadReport(name, error=fault_of(name, error)))
    inputs.sort(key=lambda each: _load_order(each[1], options))
    loaded: list[Parsed] = []
    waiting: list[tuple[Input, SourceName]] = []  # until another input gives the time
    for number, (source, kind) in enumerate(chain(inputs, waiting)):
        progress(source.name, min(number, len(inputs) - 1), len(inputs))
        try:
            context = _context(source, kind, config, options, loaded, now)
            if kind == "slurm.accounting" and not is_json(source.head):
                with source:
                    parsed = load_accounting(writer, source, context, now=now, progress=progress)
            else:
                with source:
                    data = b"".join(source.in_lines())
                parsed = _parse(data, kind, context, loaded, writer)
                request = from_file(source.name, options.since, options.until)
                parsed = write_input(writer, parsed, request=request, data=data, now=now, cluster=context.cluster)
        except UntimedError as error:
            if number < len(inputs) and source.name != STDIN:
                waiting.append((source, kind))
            else:
                reports.append(LoadReport(source.name, error=error))
        except FAULTS as error:
            reports.append(LoadReport(source.name, error=fault_of(source.name, error)))
        else:
            loaded.append(parsed)
            reports.append(LoadReport(source.name, parsed))
    return reports


def once_only(files: Sequence[str]) -> None:
    """Standard input can be read only once.

    Raises:
        OptionError: it is named twice.
    """
    if list(files).count(STDIN) > 1:
        raise OptionError("- (standard input) is named twice, but can be read only once; name files, or pipe one text")


def _load_order(kind: SourceName, options: Options) -> tuple[bool, bool, int]:
    """Sort key for the order of loading."""
    return kind in TIMELESS and options.until is None, kind in NAMELESS, KINDS.index(kind)


def _context(  # noqa: PLR0917 - private, and every one of them is needed
    source: Input, kind: SourceName, config: SlurmSettings, options: Options, loaded: list[Parsed], now: datetime
) -> ParseContext:
    """The context of an input.

    Raises:
        InputError: it is a snapshot whose time is unknown.
    """
    context = ParseContext(
        origin=source.name,
        cluster=options.cluster or config.cluster,
        timezone=options.timezone or config.timezone,
        delimiter=options.delimiter,
        accept_truncated=options.accept_truncated,
        since=options.since,
        until=options.until,
        now=now,
        # With the time of loading, a file that is loaded twice would count as two snapshots.
        reached=max((each.covers_until for each in loaded if each.covers_until), default=None),
        planned_reasons=config.rules.planned_reasons,
    )
    if kind in TIMELESS and not (context.until or context.reached):
        raise untimed(context.origin, _written_at(source.name))
    return context


def _written_at(name: str) -> str | None:
    """Modification time of a file, which may be the time of the command. None for other inputs."""
    try:
        return None if name == STDIN else iso(datetime.fromtimestamp(int(Path(name).stat().st_mtime), UTC))
    except (OSError, OverflowError, ValueError):
        return None


def _parse(data: bytes, kind: SourceName, context: ParseContext, loaded: list[Parsed], writer: Writer) -> Parsed:
    if kind in NAMELESS and context.cluster is None and not _names_clusters(kind, data):
        context = replace(context, cluster=_only_cluster(loaded, writer, context.origin))
    parsed = parse(kind, data, context)
    parsed = replace(parsed, warnings=[*parsed.warnings, *empty_warnings(parsed)])
    if context.cluster is not None and kind != "slurm.accounting":  # accounting has its own warning
        parsed = replace(parsed, warnings=[*parsed.warnings, *foreign(context.cluster, parsed.clusters)])
    if kind in NAMELESS and not parsed.clusters and parsed.rejects.is_empty():  # nothing in it, which is news as well
        parsed = replace(parsed, clusters=frozenset({context.cluster or _only_cluster(loaded, writer, context.origin)}))
    if kind == "slurm.events":
        # A dump of events does not record its own time; the coverage query takes it to reach as far as accounting.
        # One without any node event is evidence that nothing happened.
        warnings = [] if context.until or context.reached else [LoadWarning("events_end_unknown", 1)]
        return replace(parsed, covers_until=context.until, warnings=[*parsed.warnings, *warnings])
    return close_states_at_snapshot(parsed)


def _names_clusters(kind: SourceName, data: bytes) -> bool:
    """Whether a text of a kind that need not name its cluster has a column that does."""
    header = data[:4096].decode(errors="replace").partition("\n")[0].lower()
    return kind in {"slurm.events", "slurm.reservations"} and re.search(r"\bcluster\b", header) is not None


def _only_cluster(loaded: list[Parsed], writer: Writer, origin: str) -> str:
    """The only cluster of the other inputs, or else of the warehouse."""
    named = set().union(*(parsed.clusters for parsed in loaded)) or set(writer.query("clusters")["cluster"])
    return only_cluster(origin, named)


def close_states_at_snapshot(nodes: Parsed) -> Parsed:
    """A snapshot proves node states until its own time, not after it."""
    states = nodes.frames.get("node_states")
    if states is None or nodes.covers_until is None:
        return nodes
    closed = states.with_columns(
        ended_at=pl.col("ended_at").fill_null(nodes.covers_until).cast(NODE_STATES["ended_at"])
    )
    return replace(nodes, frames=nodes.frames | {"node_states": closed})
