"""Whether the Parquet files of samples are those that the manifest (the table `partitions`) names.

Size is compared whenever a file is to be read, the digest too: once per process and state of the file, since neither
DuckDB nor polars notices most flipped bits. What does not agree is named with its cluster and day, and what mends it.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Final

from queries import sql_files
from queries.errors import CorruptWarehouseError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    import duckdb

_THREADS: Final = min(4, len(os.sched_getaffinity(0)))


@dataclass(frozen=True)
class ManifestFile:
    """A Parquet file as the manifest has it."""

    table: str
    cluster: str
    day: date
    path: str
    bytes: int
    sha256: str


_LIVE_FILES: Final = """
SELECT table_name, cluster, day, path, bytes, sha256
FROM partitions
WHERE removed_version IS NULL
    AND table_name = coalesce($table, table_name)
    AND cluster = coalesce($cluster, cluster)
    AND day BETWEEN $first AND $last
ORDER BY path
"""


def live_files(
    connection: duckdb.DuckDBPyConnection,
    table: str | None = None,
    *,
    cluster: str | None = None,
    first: date = date.min,
    last: date = date.max,
) -> list[ManifestFile]:
    """The files of the manifest that count: of one table or of all, of one cluster or of all, of some days."""
    scope = {"table": table, "cluster": cluster, "first": first, "last": last}
    return [ManifestFile(*row) for row in connection.execute(_LIVE_FILES, scope).fetchall()]


@dataclass(frozen=True)
class DamagedFile:
    """A file that is not as the manifest has it, and what is wrong."""

    file: ManifestFile
    what: str

    def __str__(self) -> str:
        file = self.file
        return f"{file.table} of cluster {file.cluster} on {file.day.isoformat()}: {file.path} {self.what}"


_verified: Final[dict[str, tuple[object, ...]]] = {}
"""Files whose digest was right, with what changes when they are written. Read and set by one step each."""


def check(root: Path, file: ManifestFile, *, digest: bool = True, again: bool = False) -> DamagedFile | None:
    """The damage of a file; None if it is whole.

    Args:
        root: the warehouse directory.
        file: the file as it ought to be.
        digest: read it and compare the digest, not only the size.
        again: read it even if its digest was right before.
    """
    try:
        status = (root / file.path).stat()
        if status.st_size != file.bytes:
            return DamagedFile(file, f"has {status.st_size:,} bytes instead of {file.bytes:,}")
        name, state = str(root / file.path), (status.st_size, status.st_mtime_ns, status.st_ino, file.sha256)
        if not digest or (not again and _verified.get(name) == state):
            return None
        if digest_of(root / file.path) != file.sha256:
            return DamagedFile(file, "does not have the contents it was written with")
    except FileNotFoundError:
        return DamagedFile(file, "is missing")
    except OSError as error:
        return DamagedFile(file, f"cannot be read ({error.strerror})")
    _verified[name] = state
    return None


def digest_of(path: Path) -> str:
    """The sha256 of a file, as the manifest has it."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def damaged(
    root: Path, files: Iterable[ManifestFile], *, digest: bool = True, again: bool = False
) -> list[DamagedFile]:
    """Those of the files that are damaged, and how."""
    with ThreadPoolExecutor(_THREADS) as pool:
        results = pool.map(lambda file: check(root, file, digest=digest, again=again), files)
        return [each for each in results if each is not None]


def require(root: Path, files: Sequence[ManifestFile]) -> None:
    """Have every file be as it was written.

    Raises:
        CorruptWarehouseError: some are not; the message names them and how to repair them.
    """
    broken = damaged(root, files)
    if broken:
        raise CorruptWarehouseError(message(root, broken))


def message(root: Path, damage: Sequence[DamagedFile]) -> str:
    """Message about the damage, with the commands that repair it."""
    more = f", and {len(damage) - 1:,} more files (trackside doctor lists them)" if len(damage) > 1 else ""
    lines = [f"{root}: damaged samples: {damage[0]}{more}."]
    lines.append("Copy the files back from a backup, or set them aside and load those days again:")
    lines += ["  trackside doctor --repair", *(f"  {command}" for command in commands([each.file for each in damage]))]
    return "\n".join([*lines, "What does not need these days still answers."])


def commands(files: Iterable[ManifestFile]) -> list[str]:
    """The commands that load the days of files again."""
    days: dict[str, list[date]] = {}
    logs = set()
    for file in files:
        if file.table in _OF_FILES:
            logs.add(_OF_FILES[file.table])
        else:
            days.setdefault(file.cluster, []).append(file.day)
    loads = [
        f"trackside ingest prometheus --cluster {cluster} --since {min(of)} --until {max(of) + timedelta(days=1)}"
        for cluster, of in sorted(days.items())
    ]
    return [*loads, *sorted(logs)]


_OF_FILES: Final = {
    "steps": "trackside ingest runlog FILE ...    (the run logs of those days)",
    "rank_steps": "trackside ingest ranks FILE ...    (the rank times of those days)",
    "gpu_busy_hours": "trackside compute    (it makes them of the samples)",
    "anomaly_sums": "trackside compute    (it makes them of the samples)",
    "node_day_sums": "trackside compute    (it makes them of the samples)",
    "attempt_node_day_sums": "trackside compute    (it makes them of the samples)",
}
"""How tables that come from files, or are computed, are loaded again."""


# Which files a query reads ---------------------------------------------------------------------------------------

_COMMENT = re.compile(r"--[^\n]*")
_READ = re.compile(r"\b(?:FROM|JOIN)\s+\"?(\w+)", re.IGNORECASE)
_DEFINED = re.compile(r"\b(\w+)\s+AS\s+(?:NOT\s+MATERIALIZED\s+|MATERIALIZED\s+)?\(", re.IGNORECASE)


@functools.cache
def sample_tables_in(sql: str) -> frozenset[str]:
    """Sample tables that Trackside's own SQL reads.

    >>> sorted(sample_tables_in("SELECT * FROM gpu_samples -- FROM steps"))
    ['gpu_samples']
    >>> sorted(sample_tables_in("WITH steps AS (SELECT 1) SELECT * FROM steps"))
    []
    """
    plain = _COMMENT.sub("", sql)
    return (frozenset(_READ.findall(plain)) - frozenset(_DEFINED.findall(plain))) & frozenset(sql_files.sample_tables())


def sample_tables_named(sql: str) -> frozenset[str]:
    """Sample tables that a person's SQL may read: those whose names occur in it."""
    words = set(re.findall(r"\w+", sql.lower()))
    return frozenset(name for name in sql_files.sample_tables() if name in words)


_AROUND: Final = "date_trunc('hour', $since"
"""How a query begins that reads samples of the hours around its time, too: the longest lasts an hour."""


def scope(sql: str, params: Mapping[str, object]) -> tuple[str | None, date, date]:
    """Cluster (None: all), first and last day of the samples that a query with such parameters reads.

    A sample lies in the file of the day that it begins in.
    """
    cluster, since, until = (params.get(name) for name in ("cluster", "since", "until"))
    around = timedelta(hours=2 if _AROUND in sql else 0)
    first = _day(since - around) if isinstance(since, datetime) else date.min
    last = _day(until + around - timedelta(microseconds=1)) if isinstance(until, datetime) else date.max
    return (cluster if isinstance(cluster, str) else None), first, last


def _day(moment: datetime) -> date:
    return (moment if moment.tzinfo is None else moment.astimezone(UTC)).date()
