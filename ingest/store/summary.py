"""The summary of a live ingest: one line for each source, and one message for each cause of failure."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import polars as pl

from ingest.errors import ServerDownError, SourceDownError
from ingest.load_warnings import LoadWarning
from ingest.store.report import LoadReport, LoadSummary, Note
from ingest.store.windows import LoadWindow, together
from ingest.tables import REJECTS, Parsed, empty

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from ingest.tables import SourceName

_SPEAKER: Final = re.compile(r"^(slurm_)?\w+: (error|fatal): ")
"""Prefix of a command's messages on stderr."""

SHOWN: Final = 20
"""Names that one message shows."""


@dataclass(frozen=True)
class Loaded:
    """One loaded answer: `title` is its request, `parsed` is without rows."""

    title: str
    parsed: Parsed
    window: LoadWindow | None = None


@dataclass(frozen=True)
class FailedQuestion:
    """One request without a usable answer."""

    title: str
    error: Exception
    needed: bool = True
    window: LoadWindow | None = None
    source: SourceName = "slurm.config"


def without_rows(parsed: Parsed) -> Parsed:
    """The account without rows, so that a backfill of years does not hold them in memory."""
    return replace(parsed, frames={})


# --- what was loaded


def summaries(
    loads: Sequence[Loaded], *, cluster: str, before: Mapping[str, Collection[LoadWarning]]
) -> Iterator[LoadSummary]:
    """One report for each source, in the order in which they were first read.

    Args:
        loads: All answers, of one cluster.
        cluster: Prefix of the lines: its name where there are several, else empty.
        before: The warnings of the source's last load.
    """
    for source in dict.fromkeys(load.parsed.source for load in loads):
        answers = [load for load in loads if load.parsed.source == source]
        title = f"{cluster}: {_requested(answers)}" if cluster else _requested(answers)
        parsed = added([load.parsed for load in answers])
        yield LoadSummary(title, parsed, reported_before=before.get(source, ()))


def _requested(answers: Sequence[Loaded]) -> str:
    """The requests: commands, and number and time of windows."""
    parts = []
    for title in dict.fromkeys(load.title for load in answers):
        windows = [load.window for load in answers if load.title == title and load.window is not None]
        if not windows:
            parts.append(title)
            continue
        span = LoadWindow(min(each.since for each in windows), max(each.until for each in windows))
        parts.append(f"{title} {shown(span)}" + (f" ({len(windows)} windows)" if len(windows) > 1 else ""))
    return " and ".join(parts)


def added(answers: Sequence[Parsed]) -> Parsed:
    """The account of several answers of one source, without their rows."""
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
        rows_of_headers=sum(each.rows_of_headers for each in answers),
        rows_rejected=sum(each.rows_rejected for each in answers),
        rows_new=sum(each.rows_new or 0 for each in answers),
        columns=list(dict.fromkeys(name for each in answers for name in each.columns)),
        warnings=list(dict.fromkeys(warning for each in answers for warning in each.warnings)),
        covers_from=min((since for since, _ in times if since), default=None),
        covers_until=max((until for _, until in times if until), default=None),
    )


def nothing(source: SourceName, warning: LoadWarning) -> Parsed:
    """No rows, but a warning."""
    return Parsed(source, frozenset(), {}, empty(REJECTS), rows_read=0, rows_loaded=0, warnings=[warning])


# --- failures


def failures(failed: Sequence[FailedQuestion], *, cluster: str) -> Iterator[LoadReport]:
    """One report for each cause with required requests, and one warning about all optional ones.

    The error of a cause is the first one; it names all failed requests.
    """
    causes = [(each, cause(each.error)) for each in failed]
    needed = list(dict.fromkeys(why for each, why in causes if each.needed))
    for why in needed:
        same = [each for each, its in causes if its == why]
        first = next(each for each in same if each.needed)
        message = f"{cluster}: {first.error}" if cluster else str(first.error)
        first.error.args = (f"{message}\nNot read: {_names(same)}.",)
        yield LoadReport(first.title, error=first.error)
    left = [each for each, why in causes if why not in needed]
    if left:
        reasons = dict.fromkeys(_reason(each.error) for each in left)
        message = "; ".join(f"{_names([e for e in left if _reason(e.error) == why])} ({why})" for why in reasons)
        prefix = f"{cluster}: " if cluster else ""
        warning = LoadWarning("not_read", None, f"{prefix}not read, and not needed: {message}")
        yield Note("left out", nothing(left[0].source, warning))


def cause(error: Exception) -> str:
    """The cause of a missing answer, the same for all commands and addresses that fail for it."""
    if isinstance(error, SourceDownError):
        return "no answer in time" if error.status is None else _reason(error)
    if isinstance(error, ServerDownError):
        return _reason(error).removeprefix(error.url)
    return str(error)


def _reason(error: Exception) -> str:
    """The cause of a missing answer, in a few words."""
    if isinstance(error, SourceDownError) and error.stderr:
        return _SPEAKER.sub("", error.stderr.splitlines()[0].strip()).rstrip(".")
    return str(error).splitlines()[0].strip().rstrip(".")


def _names(failed: Iterable[FailedQuestion]) -> str:
    """The failed requests: each title once, with adjacent windows merged."""
    titles: dict[str, list[LoadWindow]] = {}
    for each in failed:
        titles.setdefault(each.title, []).extend([each.window] if each.window is not None else [])
    names = []
    for title, windows in titles.items():
        names += [f"{title} {shown(span)}" for span in together(windows)] or [title]
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more


def shown(window: LoadWindow) -> str:
    """A window for people.

    >>> from datetime import UTC, datetime
    >>> shown(LoadWindow(datetime(2026, 11, 1, tzinfo=UTC), datetime(2026, 11, 8, 12, tzinfo=UTC)))
    '2026-11-01 00:00 to 2026-11-08 12:00'
    """
    return f"{window.since:%Y-%m-%d %H:%M} to {window.until:%Y-%m-%d %H:%M}"
