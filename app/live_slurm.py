"""`trackside ingest slurm` without files: a running Slurm, asked part by part and window by window."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from app.errors import UsageError
from app.ingesting import seen_until_now
from app.loading import Report, load
from ingest.errors import InputError, SourceError
from ingest.slurm import fetch_accounting, parse_accounting
from ingest.slurm_nodes import fetch_events, fetch_nodes, fetch_settings, parse_events, parse_nodes, parse_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from app.config import Config
    from app.ingesting import Options
    from ingest.frames import Parsed
    from ingest.live import Fetched, Runner
    from queries.warehouse import Writer


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
