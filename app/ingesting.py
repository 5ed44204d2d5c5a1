"""`trackside ingest slurm`: fetch or read, parse, merge with what is there, write. One transaction per input."""

from __future__ import annotations

import hashlib
import sys
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from app.errors import UsageError
from ingest.errors import InputError, SourceError, UnrecognisedInputError
from ingest.frames import ATTEMPTS, NODE_STATES, NODES, Parsed, conform
from ingest.merge import attempt_nodes, merge_attempts
from ingest.node_merge import merge_node_states, merge_nodes
from ingest.slurm import fetch_accounting, parse_accounting
from ingest.slurm_nodes import fetch_events, fetch_nodes, fetch_settings, parse_events, parse_nodes, parse_settings
from ingest.sniff import kind_of, read_bytes, unpack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from app.config import Config
    from ingest.live import Fetched, Runner
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


@dataclass(frozen=True)
class Report:
    """What came of one input: loaded (`parsed`), or not (`error`)."""

    origin: str
    parsed: Parsed | None = None
    error: Exception | None = None


def ingest_files(
    writer: Writer,
    config: Config,
    files: Sequence[str],
    options: Options,
    *,
    now: datetime,
    progress: Callable[[str, int, int], None],
) -> list[Report]:
    """Load files of any of the four kinds, each in a transaction of its own.

    Files that name their cluster go first, so that inventories (`scontrol show node` names none) can take it from
    them. A file that cannot be used is reported and leaves nothing behind; the others are loaded.
    """
    reports: list[Report] = []
    inputs: list[tuple[str, bytes, str]] = []
    for name in files:
        try:
            data = standard_input() if name == "-" else read_bytes(Path(name))
            inputs.append((name, data, kind_of(data, origin=name)))
        except InputError as error:
            reports.append(Report(name, error=error))
    order = {"slurm.accounting": 0, "slurm.config": 1, "slurm.events": 2, "slurm.nodes": 3}
    inputs.sort(key=lambda each: order[each[2]])
    told: list[Parsed] = []
    for number, (name, data, kind) in enumerate(inputs):
        progress(name, number, len(inputs))
        try:
            parsed = _parse(data, kind, name, config, options, told, writer)
            load(writer, parsed, origin=name, data=data, now=now, cluster=options.cluster or config.cluster)
        except (InputError, UsageError) as error:
            reports.append(Report(name, error=error))
        else:
            told.append(parsed)
            reports.append(Report(name, parsed))
    return reports


def standard_input() -> bytes:
    """What was piped in, unpacked."""
    if sys.stdin is None:  # closed by whoever started us
        raise UnrecognisedInputError("standard input is closed; pipe a file into it")
    return unpack(sys.stdin.buffer.read(), origin="-")


def _parse(  # noqa: PLR0917 - private, and every one of them is needed
    data: bytes, kind: str, origin: str, config: Config, options: Options, told: list[Parsed], writer: Writer
) -> Parsed:
    cluster = options.cluster or config.cluster
    timezone = options.timezone or config.timezone
    if kind == "slurm.accounting":
        return parse_accounting(
            data,
            origin=origin,
            cluster=cluster,
            timezone=timezone,
            delimiter=options.delimiter,
            accept_truncated=options.accept_truncated,
            since=options.since,
            until=options.until,
        )
    if kind == "slurm.config":
        return parse_settings(data, origin=origin, cluster=cluster)
    cluster = cluster or _only_cluster(told, writer, origin)
    if kind == "slurm.events":
        parsed = parse_events(
            data,
            origin=origin,
            cluster=cluster,
            timezone=timezone,
            delimiter=options.delimiter,
            accept_truncated=options.accept_truncated,
            planned_reasons=config.rules.planned_reasons,
            since=options.since,
            until=options.until,
        )
        # A dump of events does not say when it was made; the coverage query takes it to reach as far as accounting.
        # One without any node event still tells that nothing happened.
        return replace(parsed, covers_until=options.until, clusters=parsed.clusters or frozenset({cluster}))
    parsed = parse_nodes(
        data,
        origin=origin,
        cluster=cluster,
        timezone=timezone,
        as_of=options.until,
        planned_reasons=config.rules.planned_reasons,
    )
    return seen_until_now(parsed)


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


def ingest_live(
    writer: Writer,
    config: Config,
    options: Options,
    *,
    now: datetime,
    runner: Runner,
    progress: Callable[[str, int, int], None],
) -> list[Report]:
    """Read a running Slurm: settings, node events, inventory, and accounting window by window.

    Each part is loaded in a transaction of its own. If one fails, the others are still read, and so are the earlier
    windows of accounting; run again and it goes on behind the last one that is whole.
    """
    live = _Live(writer, config, runner, now, cluster=options.cluster or config.cluster)
    until = options.until or now.replace(microsecond=0)
    progress("settings", 0, 1)
    live.settings()
    since = options.since or _resume_at(writer, config, live.cluster, until)
    windows = list(_windows(since, until, timedelta(days=config.slurm.window_days)))
    progress("node events", 0, 1)
    born = live.events(since, until)
    progress("inventory", 0, 1)
    live.inventory()
    for number, (low, high) in enumerate(windows):
        progress(f"accounting {low:%Y-%m-%d %H:%M} to {high:%Y-%m-%d %H:%M}", number, len(windows))
        if not live.accounting(low, high, born):
            break  # behind a failed window nothing is loaded, so the next ingest resumes there
    return live.reports


@dataclass
class _Live:
    """One live ingest: what it works with, and what came of each part so far."""

    writer: Writer
    config: Config
    runner: Runner
    now: datetime
    cluster: str | None
    reports: list[Report] = field(default_factory=list)

    def settings(self) -> None:
        """Read the scheduler's settings, and learn the cluster's name from them."""

        def parse(got: Fetched) -> Parsed:
            return parse_settings(got.data, origin=got.origin, cluster=self.cluster)

        found = self._load("scontrol show config", lambda: fetch_settings(self.runner), parse)
        if self.cluster is None and found is not None:
            self.cluster = min(found.clusters, default=None)

    def events(self, since: datetime, until: datetime) -> datetime | None:
        """Read node events; the cluster's first sign of life that they tell of."""
        planned = self.config.rules.planned_reasons

        def parse(got: Fetched) -> Parsed:
            found = parse_events(got.data, origin=got.origin, cluster=self.cluster, planned_reasons=planned)
            return _window(found, since, until)

        found = self._load("sacctmgr show event", lambda: fetch_events(self.runner, since=since, until=until), parse)
        return None if found is None else found.covers_from

    def inventory(self) -> None:
        """Read which nodes there are now. Slurm's answer does not name the cluster."""
        cluster = self.cluster
        if cluster is None:
            return
        planned, as_of = self.config.rules.planned_reasons, self.now.replace(microsecond=0)

        def parse(got: Fetched) -> Parsed:
            found = parse_nodes(got.data, origin=got.origin, cluster=cluster, as_of=as_of, planned_reasons=planned)
            return seen_until_now(found)

        self._load("scontrol show node", lambda: fetch_nodes(self.runner), parse)

    def accounting(self, since: datetime, until: datetime, born: datetime | None) -> bool:
        """Read one window of accounting; whether that worked."""

        def parse(got: Fetched) -> Parsed:
            found = parse_accounting(got.data, origin=got.origin, cluster=self.cluster, since=since, until=until)
            return _alive(found, born)

        return self._load("sacct", lambda: fetch_accounting(self.runner, since=since, until=until), parse) is not None

    def _load(self, what: str, fetch: Callable[[], Fetched], parse: Callable[[Fetched], Parsed]) -> Parsed | None:
        try:
            fetched = fetch()
            parsed = parse(fetched)
            parsed = replace(parsed, warnings=[*fetched.warnings, *parsed.warnings])
            load(self.writer, parsed, origin=fetched.origin, data=fetched.data, now=self.now, cluster=self.cluster)
        except (SourceError, InputError) as error:
            self.reports.append(Report(what, error=error))
            return None
        self.reports.append(Report(fetched.origin, parsed))
        return parsed


def _resume_at(writer: Writer, config: Config, cluster: str | None, until: datetime) -> datetime:
    """A little before the end of the last load; the first time, as far back as configured."""
    reached = writer.query("watermark", cluster=cluster, source="slurm.accounting")["covers_until"].item()
    if isinstance(reached, datetime):
        return min(reached, until) - timedelta(hours=config.slurm.overlap_hours)
    return until - timedelta(days=config.slurm.lookback_days)


def _window(events: Parsed, since: datetime, until: datetime) -> Parsed:
    """Live events speak for the window asked for, but not for the time before the cluster existed.

    The cluster's own registration is among its events, and so is anything that began before the window and lasted
    into it; the earliest of all is the first sign of life that Slurm's database keeps.
    """
    born = events.covers_from or until
    return replace(events, covers_from=max(since, born), covers_until=until)


def _alive(accounting: Parsed, born: datetime | None) -> Parsed:
    """Live accounting speaks for its window from the cluster's first sign of life on."""
    attempts = accounting.frames["attempts"]
    first = attempts["submitted_at"].min()
    signs = [sign for sign in (born, first) if isinstance(sign, datetime)]
    if accounting.covers_from is None or accounting.covers_until is None or not signs:
        return replace(accounting, covers_from=None, covers_until=None) if not signs else accounting
    start = max(accounting.covers_from, min(signs))
    if start >= accounting.covers_until:
        return replace(accounting, covers_from=None, covers_until=None)
    return replace(accounting, covers_from=start)


def _windows(since: datetime, until: datetime, length: timedelta) -> Iterator[tuple[datetime, datetime]]:
    if since >= until:
        raise UsageError(f"--since {since.isoformat()} is not before --until {until.isoformat()}")
    low = since
    while low < until:
        yield low, min(low + length, until)
        low += length


def load(
    writer: Writer, parsed: Parsed, *, origin: str, data: bytes, now: datetime, cluster: str | None = None
) -> None:
    """Write one parsed input: its rows merged with those that are there, its rejects, and an account of it.

    An input without a row that could be loaded still speaks for its time, and its refused rows for themselves: they
    are booked under `cluster`.
    """
    if not parsed.clusters:
        told = set(parsed.rejects["cluster"]) or ({cluster} if cluster else set())
        parsed = replace(parsed, clusters=frozenset(told))
    with writer.transaction():
        frames = parsed.frames
        if "attempts" in frames:
            _write_attempts(writer, frames["attempts"])
        if "node_states" in frames:
            there = writer.query_with(
                "existing_node_states", {"incoming": frames["node_states"].select("cluster", "node")}
            )
            merged = merge_node_states(there, frames["node_states"])
            writer.replace("node_states", merged, keys=["cluster", "node"])
        if "nodes" in frames:
            there = writer.query_with("existing_nodes", {"incoming": frames["nodes"].select("cluster", "node")})
            writer.replace("nodes", merge_nodes(conform(there, NODES), frames["nodes"]), keys=["cluster", "node"])
        if "cluster_settings" in frames:
            writer.replace("cluster_settings", frames["cluster_settings"], keys=["cluster", "name"])
        writer.append_new("rejects", parsed.rejects, keys=["cluster", "source", "reason", "raw"])
        for name in sorted(parsed.clusters):
            writer.append("loads", account_row(parsed, name, origin=origin, data=data, now=now))


def _write_attempts(writer: Writer, attempts: pl.DataFrame) -> None:
    jobs = attempts.select("cluster", "scheduler", "job_id").unique()
    there = writer.query_with("existing_attempts", {"incoming": jobs})
    merged = merge_attempts(conform(there, ATTEMPTS), attempts)
    keys = ["cluster", "scheduler", "job_id"]
    writer.replace("attempts", merged, keys=keys)
    writer.delete("attempt_nodes", jobs)
    writer.append("attempt_nodes", attempt_nodes(merged))


def account_row(parsed: Parsed, cluster: str, *, origin: str, data: bytes, now: datetime) -> pl.DataFrame:
    """The row of `loads`. Where an input has several clusters its row counts stand with the first of them."""
    first = cluster == min(parsed.clusters)
    counts = {
        "rows_read": parsed.rows_read,
        "rows_loaded": parsed.rows_loaded,
        "rows_duplicate": parsed.rows_duplicate,
        "rows_skipped": parsed.rows_skipped,
        "rows_rejected": parsed.rows_rejected,
    }
    return pl.DataFrame(
        {
            "cluster": [cluster],
            "source": [parsed.source],
            "origin": [origin],
            "digest": [hashlib.sha256(data).hexdigest()],
            "loaded_at": [now],
            "covers_from": [parsed.covers_from],
            "covers_until": [parsed.covers_until],
            **{name: [count if first else 0] for name, count in counts.items()},
            "columns": [parsed.columns],
            "warnings": [parsed.warnings if first else []],
        },
        schema_overrides={"columns": pl.List(pl.String), "warnings": pl.List(pl.String)},
    )


def first_error(reports: Sequence[Report]) -> Exception | None:
    """The error that decides the exit status, if any input failed."""
    return next((report.error for report in reports if report.error is not None), None)
