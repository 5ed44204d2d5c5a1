"""What a live ingest says in the end: one line for each source, and one message for each cause of failure."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import polars as pl

from app.live_counting import Counts
from app.live_windows import Window, together
from app.loading import Report
from ingest.errors import ServerDownError, SourceDownError
from ingest.frames import REJECTS, Parsed, empty

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from ingest.frames import SourceName

_SPEAKER: Final = re.compile(r"^(slurm_)?\w+: (error|fatal): ")
"""How a command begins what it says on stderr."""

SHOWN: Final = 20
"""Names that one message shows."""


@dataclass(frozen=True)
class Loaded:
    """One answer that was loaded: `title` is what it was asked by, `parsed` has no rows any more."""

    title: str
    parsed: Parsed
    counts: Counts | None
    window: Window | None = None


@dataclass(frozen=True)
class Failed:
    """One question without an answer that could be used."""

    title: str
    error: Exception
    needed: bool = True
    window: Window | None = None
    source: SourceName = "slurm.config"


@dataclass(frozen=True)
class Summary(Report):
    """What came of all answers of one source. Only the warnings that were not said last time are repeated."""

    @property
    def line(self) -> str:
        """All of it in one line."""
        return f"{self.parsed.source}  {self.origin}" if self.parsed else self.origin


@dataclass(frozen=True)
class Note(Summary):
    """A warning that belongs to no answer."""

    @property
    def line(self) -> str:
        """What it is about."""
        return self.origin


def without_rows(parsed: Parsed) -> Parsed:
    """All but the rows: a backfill of years is not to hold them until it ends."""
    return replace(parsed, frames={})


# --- what was loaded


def summaries(loads: Sequence[Loaded], *, cluster: str, before: Mapping[str, Collection[str]]) -> Iterator[Summary]:
    """One report for each source, in the order in which they were first read.

    Args:
        loads: All answers, of one cluster.
        cluster: What to begin the lines with: its name where there are several, else nothing.
        before: The warnings that the source gave last time.
    """
    for source in dict.fromkeys(load.parsed.source for load in loads):
        answers = [load for load in loads if load.parsed.source == source]
        warnings = list(dict.fromkeys(warning for load in answers for warning in load.parsed.warnings))
        fresh = [warning for warning in warnings if warning not in before.get(source, ())]
        parsed = _added([load.parsed for load in answers], fresh)
        said = f"{_asked(answers)}: {', '.join(_came_of(answers, parsed, len(warnings), len(fresh)))}"
        counted = [load.counts.new for load in answers if load.counts is not None]
        parsed = replace(parsed, rows_new=sum(counted) if counted else None)
        yield Summary(f"{cluster}: {said}" if cluster else said, parsed)


def _asked(answers: Sequence[Loaded]) -> str:
    """What was asked: the commands, and how many windows of which time."""
    said = []
    for title in dict.fromkeys(load.title for load in answers):
        windows = [load.window for load in answers if load.title == title and load.window is not None]
        if not windows:
            said.append(title)
            continue
        span = Window(min(each.since for each in windows), max(each.until for each in windows))
        said.append(f"{title} {shown(span)}" + (f" ({len(windows)} windows)" if len(windows) > 1 else ""))
    return " and ".join(said)


def _came_of(answers: Sequence[Loaded], parsed: Parsed, warnings: int, fresh: int) -> Iterator[str]:
    counted = [load.counts for load in answers if load.counts is not None]
    if counted:
        all_of_them = Counts()
        for each in counted:
            all_of_them = all_of_them.plus(each)
        parts = [f"{number:,} {name}" for name, number in all_of_them._asdict().items() if number]
        yield from parts or ["nothing"]
    else:
        yield f"{parsed.rows_loaded:,} rows"
    if parsed.rows_rejected:
        yield f"{parsed.rows_rejected:,} refused"
    if warnings:
        again = f" ({warnings - fresh} as last time: trackside status)" if warnings > fresh else ""
        yield f"{warnings} warning{'s' if warnings > 1 else ''}{again}"


def _added(answers: Sequence[Parsed], warnings: list[str]) -> Parsed:
    """The account of several answers of one source."""
    times = [(each.covers_from, each.covers_until) for each in answers]
    return Parsed(
        source=answers[0].source,
        clusters=frozenset().union(*(each.clusters for each in answers)),
        frames={},
        rejects=pl.concat([each.rejects for each in answers]),
        rows_read=sum(each.rows_read for each in answers),
        rows_loaded=sum(each.rows_loaded for each in answers),
        rows_duplicate=sum(each.rows_duplicate for each in answers),
        rows_skipped=sum(each.rows_skipped for each in answers),
        rows_rejected=sum(each.rows_rejected for each in answers),
        columns=list(dict.fromkeys(name for each in answers for name in each.columns)),
        warnings=warnings,
        covers_from=min((since for since, _ in times if since), default=None),
        covers_until=max((until for _, until in times if until), default=None),
    )


def nothing(source: SourceName, warning: str) -> Parsed:
    """No rows, but something to say."""
    return Parsed(source, frozenset(), {}, empty(REJECTS), rows_read=0, rows_loaded=0, warnings=[warning])


# --- what was not


def failures(failed: Sequence[Failed], *, cluster: str) -> Iterator[Report]:
    """One report for each cause that keeps something needed from being read, and one warning about all the rest.

    The error of a cause is the first one; it names everything that was not read for it.
    """
    needed = list(dict.fromkeys(cause(each.error) for each in failed if each.needed))
    for why in needed:
        same = [each for each in failed if cause(each.error) == why]
        first = next(each for each in same if each.needed)
        said = f"{cluster}: {first.error}" if cluster else str(first.error)
        first.error.args = (f"{said}\nNot read: {_names(same)}.",)
        yield Report(first.title, error=first.error)
    left = [each for each in failed if cause(each.error) not in needed]
    if left:
        reasons = dict.fromkeys(_reason(each.error) for each in left)
        said = "; ".join(f"{_names([e for e in left if _reason(e.error) == why])} ({why})" for why in reasons)
        prefix = f"{cluster}: " if cluster else ""
        yield Note("left out", nothing(left[0].source, f"{prefix}not read, and not needed: {said}"))


def cause(error: Exception) -> str:
    """Why there was no answer, the same for all commands and addresses that fail for it."""
    if isinstance(error, SourceDownError):
        return "no answer in time" if error.status is None else _reason(error)
    if isinstance(error, ServerDownError):
        return _reason(error).removeprefix(error.url)
    return str(error)


def _reason(error: Exception) -> str:
    """Why there was no answer, in a few words."""
    if isinstance(error, SourceDownError) and error.stderr:
        return _SPEAKER.sub("", error.stderr.splitlines()[0].strip()).rstrip(".")
    return str(error).splitlines()[0].strip().rstrip(".")


def _names(failed: Iterable[Failed]) -> str:
    """What was asked for, each title once, windows that touch as one."""
    titles: dict[str, list[Window]] = {}
    for each in failed:
        titles.setdefault(each.title, []).extend([each.window] if each.window is not None else [])
    names = []
    for title, windows in titles.items():
        names += [f"{title} {shown(span)}" for span in together(windows)] or [title]
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more


def shown(window: Window) -> str:
    """A window for people.

    >>> from datetime import UTC, datetime
    >>> shown(Window(datetime(2026, 11, 1, tzinfo=UTC), datetime(2026, 11, 8, 12, tzinfo=UTC)))
    '2026-11-01 00:00 to 2026-11-08 12:00'
    """
    return f"{window.since:%Y-%m-%d %H:%M} to {window.until:%Y-%m-%d %H:%M}"
