"""Straggler reports in a log, as rows of `rank_reports`; the other lines of the log are passed over."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final
from zoneinfo import ZoneInfo

import polars as pl

from ingest.delimited.reader import BLOCK, clean_blocks, damaged
from ingest.errors import TimeZoneError, UnrecognisedInputError
from ingest.ranks.report_format import ReportReader, formats
from ingest.tables import RAW_LIMIT, REJECTS, Parsed, columns_of, conform, earliest_time, latest_time

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ingest.ranks.report_format import ListedRank
    from ingest.ranks.stated import Stated

SOURCE: Final = "ranks.reports"
ROWS: Final = columns_of("rank_reports")
KEY: Final = ("cluster", "run_id", "session", "program", "reported_at", "measure", "place", "rank")

LARGEST: Final = 2**53
"""No rank or step has such a number."""

_STAMP: Final = re.compile(
    r"(?<!\d)(\d{4})[-/](\d\d)[-/](\d\d)[ T](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,6}))?\s?(Z|[+-]\d\d:?\d\d)?(?!\d)"
)


def parse_reports(chunks: Iterable[bytes], *, origin: str, cluster: str, stated: Stated) -> Parsed:
    """Read one log, a block at a time.

    Args:
        chunks: its bytes.
        origin: its name.
        cluster: of its run; empty: unknown, it is refused.
        stated: what the log does not record.

    Raises:
        UnrecognisedInputError: it is empty, has no report, or its cluster is unknown.
        TimeZoneError: its times have no zone, and none is stated.
    """
    if not cluster:
        raise UnrecognisedInputError(f"{origin}: it names no cluster, and several have accounting: --cluster NAME")
    log = _ReportLog(origin, cluster, stated)
    n_damaged = 0
    for block, replaced in clean_blocks(chunks, origin, BLOCK):
        n_damaged += replaced
        for line in block.decode("utf-8", "replace").splitlines():
            log.read(line)
    if not log.rows and not log.rejects:
        titles = " or ".join(form.title for form in formats())
        raise UnrecognisedInputError(
            f"{origin}: neither rank times (JSON lines), nor a trace, nor a log with reports of {titles}"
        )
    loaded = pl.DataFrame(log.rows, schema=ROWS)
    kept = loaded.unique(KEY, keep="last", maintain_order=True)
    return Parsed(
        SOURCE,
        frozenset(kept["cluster"]),
        {"rank_reports": kept},
        conform(pl.DataFrame(log.rejects, schema=dict.fromkeys(REJECTS, pl.String())), REJECTS),
        rows_read=loaded.height + len(log.rejects),
        rows_loaded=kept.height,
        rows_duplicate=loaded.height - kept.height,
        rows_rejected=len(log.rejects),
        covers_from=earliest_time(kept["reported_at"]),
        covers_until=latest_time(kept["reported_at"]),
        warnings=damaged(n_damaged),
    )


class _ReportLog:
    """A log while it is read."""

    def __init__(self, origin: str, cluster: str, stated: Stated) -> None:
        self._readings = [ReportReader(form) for form in formats()]
        self._origin, self._stated = origin, stated
        self._words = tuple({word for form in formats() for word in form.words})
        self._stamp: str | None = None
        self._number = 0
        self._facts = {
            "cluster": cluster,
            "run_id": stated.run_id or PurePath(origin).name.partition(".")[0] or origin,
            "session": stated.session,
            "job_id": stated.job_id,
        }
        self.rows: list[dict[str, Any]] = []
        self.rejects: list[dict[str, str]] = []

    def read(self, line: str) -> None:
        """Add what a line lists; one without a time has that of the last line before it that has one."""
        self._number += 1
        if _STAMP.search(line) is not None:
            self._stamp = line
        if not any(word in line for word in self._words):
            return
        for reading in self._readings:
            for one in reading.read(line):
                self._add(one, reading, line)

    def _add(self, one: ListedRank, reading: ReportReader, line: str) -> None:
        at = None if self._stamp is None else moment(self._stamp, self._stated.timezone, self._origin)
        why = "no line before it has a date and time" if at is None else ""
        if one.rank > LARGEST or (reading.step or 0) > LARGEST:
            why = "the number of a rank or step is too large"
        if why:
            self.rejects.append(self._reject(line, why))
            return
        self.rows.append(
            {**self._facts, **one._asdict(), "program": reading.form.name, "reported_at": at, "step": reading.step}
        )

    def _reject(self, line: str, reason: str) -> dict[str, str]:
        return {
            "cluster": str(self._facts["cluster"]),
            "source": SOURCE,
            "origin": self._origin,
            "reason": reason,
            "raw": f"{self._number}: {line}"[:RAW_LIMIT],
        }


def moment(line: str, timezone: str | None, origin: str) -> datetime | None:
    """The first date and time in a line; None where it is none of the calendar.

    >>> moment("[2026-10-01 08:00:02] x", "Europe/Berlin", "a.log")
    datetime.datetime(2026, 10, 1, 6, 0, 2, tzinfo=datetime.timezone.utc)

    Raises:
        TimeZoneError: it has no offset, and no zone is stated.
    """
    found = _STAMP.search(line)
    if found is None:
        return None
    *parts, fraction, offset = found.groups()
    try:
        naive = datetime.fromisoformat("{}-{}-{}T{}:{}:{}".format(*parts) + f".{(fraction or '0').ljust(6, '0')}")
    except ValueError:
        return None
    if offset is not None:
        zone = datetime.strptime(offset.replace("Z", "+0000").replace(":", ""), "%z").tzinfo
        return naive.replace(tzinfo=zone).astimezone(UTC)
    try:
        if timezone is None:
            raise TimeZoneError(origin, "its time", found[0], command=None)
        return naive.replace(tzinfo=ZoneInfo(timezone)).astimezone(UTC)
    except (KeyError, ValueError, OSError) as error:
        if isinstance(error, TimeZoneError):
            raise
        raise TimeZoneError(origin, "its time", found[0], timezone, command=None) from None
