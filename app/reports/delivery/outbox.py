"""The outbox: which scheduled reports were made and delivered: a small SQLite file beside the warehouse.

    begun        the first period of each report's schedule
    made         a report on a period, with the folder of its files; or that it was left out
    deliveries   the outcome of each for each target
    failures     periods whose report could not be made, with the last reason

A report is written to its folder first, then recorded together with its deliveries as pending, then delivered. So what
a kill at any moment leaves is either not recorded, and is made again with nothing delivered, or recorded, and its
pending deliveries are sent again under the same key: each is delivered at least once.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import sqlite3
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from app.errors import OutboxError, UsageError
from app.json_text import as_json
from queries.lake.address import address_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime
    from pathlib import Path

Outcome = Literal["pending", "delivered", "dead"]

VERSION: Final = 1

_TABLES: Final = """
CREATE TABLE IF NOT EXISTS begun (report TEXT PRIMARY KEY, period TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS made (
  key TEXT PRIMARY KEY, report TEXT NOT NULL, period TEXT NOT NULL, cluster TEXT, sha256 TEXT, made_at TEXT NOT NULL,
  summary TEXT NOT NULL, files TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS deliveries (
  key TEXT NOT NULL REFERENCES made (key), target TEXT NOT NULL, outcome TEXT NOT NULL, tries INTEGER NOT NULL,
  at TEXT NOT NULL, reason TEXT, PRIMARY KEY (key, target));
CREATE TABLE IF NOT EXISTS failures (
  report TEXT NOT NULL, period TEXT NOT NULL, at TEXT NOT NULL, reason TEXT NOT NULL, PRIMARY KEY (report, period));
"""


@dataclass(frozen=True)
class MadeReport:
    """A report on a period that was made; one that was left out has no files and no digest.

    Attributes:
        key: of the report: its name, the period and the digest; receivers drop doubles by it.
        report: name of the report.
        period: as written: 2026-10.
        cluster: what it is on.
        sha256: digest of its contents.
        made_at: when, in ISO 8601.
        summary: its verdicts in a few words.
        files: names of its files, in its folder.
    """

    key: str
    report: str
    period: str
    cluster: str | None
    sha256: str | None
    made_at: str
    summary: str
    files: tuple[str, ...]


@dataclass(frozen=True)
class Delivery:
    """The outcome of a report for one target."""

    key: str
    target: str
    outcome: Outcome
    tries: int
    at: str
    reason: str | None


@dataclass(frozen=True)
class FailedReport:
    """A period whose report could not be made."""

    report: str
    period: str
    at: str
    reason: str


def key_of(report: str, period: str, sha256: str) -> str:
    """The idempotency key of a report.

    >>> key_of("monthly", "2026-10", "0123456789abcdef" * 4)
    'monthly-2026-10-0123456789abcdef'
    """
    return f"{report}-{period}-{sha256[:16]}"


def folder_of(root: Path, named: Path | None = None) -> Path:
    """The folder of the outbox and of its reports: the one that is named, else beside the warehouse.

    >>> from pathlib import Path
    >>> str(folder_of(Path("/srv/warehouse")))
    '/srv/warehouse-reports'

    Raises:
        UsageError: the warehouse is a lake, and none is named.
    """
    if named is not None:
        return named
    if address_of(root) is not None:
        raise UsageError(
            "the warehouse is a lake, so there is no directory beside which reports could be kept;\n"
            'name a folder that all machines see in [deliver], for example: outbox = "/srv/shared/trackside-reports"'
        )
    whole = root.resolve()
    return whole.parent / f"{whole.name}-reports"


@dataclass(frozen=True)
class Outbox:
    """The outbox in a folder.

    Attributes:
        folder: also holds the reports that were made, and dead letters.
    """

    folder: Path

    def folder_of(self, key: str) -> Path:
        """The folder with the files of a report."""
        return self.folder / "made" / key

    @property
    def exists(self) -> bool:
        """Whether anything was ever recorded."""
        return self._path.exists()

    def first(self, report: str) -> str | None:
        """The first period of a report's schedule; None where it has not begun."""
        found = self._rows("SELECT period FROM begun WHERE report = ?", report)
        return str(found[0][0]) if found else None

    def begin(self, report: str, period: str) -> None:
        """Record the first period of a report's schedule, unless it has one."""
        with self._changing() as database:
            database.execute("INSERT OR IGNORE INTO begun VALUES (?, ?)", (report, period))

    def made(self, report: str | None = None) -> list[MadeReport]:
        """Reports that were made, in the order of their making; of all names if None."""
        rows = self._rows(
            "SELECT key, report, period, cluster, sha256, made_at, summary, files FROM made"
            " WHERE ?1 IS NULL OR report = ?1 ORDER BY made_at, rowid",
            report,
        )
        return [MadeReport(*[*row[:7], tuple(json.loads(row[7]))]) for row in rows]

    def pending(self, report: str) -> list[MadeReport]:
        """Reports of a name that are still to be delivered somewhere, in the order of their making."""
        keys = {row[0] for row in self._rows("SELECT DISTINCT key FROM deliveries WHERE outcome = 'pending'")}
        return [each for each in self.made(report) if each.key in keys] if keys else []

    def deliveries(self, key: str | None = None) -> list[Delivery]:
        """Outcomes for each target, in the order in which targets were named."""
        rows = self._rows(
            "SELECT key, target, outcome, tries, at, reason FROM deliveries"
            " WHERE ?1 IS NULL OR key = ?1 ORDER BY rowid",
            key,
        )
        return [Delivery(*row) for row in rows]

    def failures(self) -> list[FailedReport]:
        """Periods whose report could not be made so far."""
        rows = self._rows("SELECT report, period, at, reason FROM failures ORDER BY report, period")
        return [FailedReport(*row) for row in rows]

    def add(self, made: MadeReport, targets: Sequence[str]) -> None:
        """Record a report, and that it is to be delivered; both or nothing. One that is recorded stays as it is."""
        self.add_all([made], targets)

    def add_all(self, made: Sequence[MadeReport], targets: Sequence[str]) -> None:
        """Record all that was made for a period (each user's digest), and that it is to be delivered; or nothing."""
        with self._changing() as database:
            for each in made:
                row = (each.key, each.report, each.period, each.cluster, each.sha256, each.made_at, each.summary)
                values = (*row, as_json(each.files))
                database.execute("INSERT OR IGNORE INTO made VALUES (?, ?, ?, ?, ?, ?, ?, ?)", values)
                database.executemany(
                    "INSERT OR IGNORE INTO deliveries VALUES (?, ?, 'pending', 0, ?, NULL)",
                    [(each.key, target, each.made_at) for target in targets if each.sha256 is not None],
                )
                database.execute("DELETE FROM failures WHERE report = ? AND period = ?", (each.report, each.period))

    def note(self, key: str, target: str, outcome: Outcome, *, tries: int, now: datetime, reason: str | None) -> None:
        """Record the outcome of a delivery; tries are added to those before."""
        with self._changing() as database:
            database.execute(
                "INSERT INTO deliveries VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (key, target) DO UPDATE SET"
                " outcome = excluded.outcome, tries = tries + excluded.tries, at = excluded.at,"
                " reason = excluded.reason",
                (key, target, outcome, tries, now.isoformat(timespec="seconds"), reason),
            )

    def failed(self, report: str, period: str, *, now: datetime, reason: str) -> None:
        """Record that a report could not be made."""
        with self._changing() as database:
            row = (report, period, now.isoformat(timespec="seconds"), reason)
            database.execute("INSERT OR REPLACE INTO failures VALUES (?, ?, ?, ?)", row)

    @contextlib.contextmanager
    def locked(self, report: str) -> Iterator[bool]:
        """Whether this process alone works on a report; the kernel frees the lock of a process that was killed."""
        self._make()
        descriptor = os.open(self.folder / f"{report}.lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
            else:
                yield True
        finally:
            os.close(descriptor)

    @property
    def _path(self) -> Path:
        return self.folder / "outbox.sqlite"

    def _make(self) -> None:
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise OutboxError(f"{self.folder} cannot be made: {error.strerror}") from None

    def _rows(self, statement: str, *values: object) -> list[Any]:
        if not self.exists:
            return []
        with self._opened() as database:
            return database.execute(statement, values).fetchall()

    @contextlib.contextmanager
    def _changing(self) -> Iterator[sqlite3.Connection]:
        """One transaction that is on the disk when it ends."""
        self._make()
        with self._opened() as database:
            database.execute("BEGIN IMMEDIATE")
            try:
                yield database
            except BaseException:
                database.execute("ROLLBACK")
                raise
            database.execute("COMMIT")

    @contextlib.contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        try:
            with contextlib.closing(sqlite3.connect(self._path, timeout=30, isolation_level=None)) as database:
                version = database.execute("PRAGMA user_version").fetchone()[0]
                if version > VERSION:
                    raise OutboxError(f"{self._path} was written by a newer Trackside")
                if version == 0:
                    database.executescript(f"BEGIN IMMEDIATE; {_TABLES} PRAGMA user_version = {VERSION}; COMMIT;")
                yield database
        except sqlite3.Error as error:
            raise OutboxError(f"{self._path} cannot be used: {error}") from None
