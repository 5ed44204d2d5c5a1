"""A lake as a directory that readers open: a published copy of one snapshot, made here of what the catalogue names.

    CACHE/lakes/LAKE/MADE_BY/published/N.duckdb   numbered by the lake's snapshots and what they are made of; small
                                                  tables are in it, large ones are views of the lake's files
    CACHE/lakes/LAKE/MADE_BY/raw/...              links to the lake's folders, or what was read from a bucket

The copy of a snapshot begins as the copy before it: only tables with other files are filled anew.

It is a warehouse directory in every respect except that it is read-only: whatever reads a warehouse reads this. It
may be deleted at any time.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

import duckdb

from queries import directory, integrity, sql_files, upgrade
from queries.errors import NewerWarehouseError, NoWarehouseError, WarehouseError
from queries.lake import catalogue as catalogues
from queries.lake import origins
from queries.lake.faults import NO_FILE, unreadable
from queries.lake.storage import storage_of
from queries.opening import config, disk_errors, first_line
from queries.samples.views import sample_view
from queries.sql_files import literal

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from queries.lake.address import Address
    from queries.lake.catalogue import Catalogue, CatalogueFile
    from queries.lake.storage import Storage
    from queries.sql_files import Table

IN_THE_COPY: Final = 200_000
"""Rows up to which a table is copied: DuckDB plans and reads it faster than a view of files."""

ABOUT: Final = "lake"
"""Fact of a copy: where the files are, whose each cluster is, the last commit if there is one warehouse alone, and of
each table that has rows a digest of its files."""

CHECK_INTERVAL_S: Final = 5.0
"""For so long a process uses the last snapshot that it read as the newest: a page runs many queries."""

_FORM: Final = 2
"""Changes with what a copy has besides its tables and views."""

_FETCHED_AT_ONCE: Final = 8

_LEFT_S: Final = 3600.0
"""An unfinished file that is this much older than a copy made now was abandoned."""

_ONCE: Final = frozenset({"main.node_lists", "main.job_summaries"})
"""Tables without a cluster: several warehouses may have the same row."""

_ALWAYS_COPIED: Final = _ONCE | {"main.partitions"}
"""Tables of which some rows are left out."""

_NOT_FILLED: Final = frozenset({"main.meta", "main.schema_steps"})

_making: Final = threading.Lock()
"""One thread of a process makes a copy, the others find it made."""

_seen: dict[Address, tuple[float, Path]] = {}
"""By lake: when its newest snapshot was looked for, and where its copies are."""


def cache_of(identity: str, origin: str = "") -> Path:
    """The directory of a lake's copies on this machine; with an origin, of those that have only its rows.

    Copies of another Trackside are in another one: they may have other tables and views.
    """
    home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    of_this = f"{_FORM} {upgrade.views_digest(sql_files.views())} {origins.schema()}"
    made_by = hashlib.sha256(of_this.encode()).hexdigest()
    return Path(home, "trackside", "lakes", f"{identity}{'-' if origin else ''}{origin[:8]}", made_by[:12])


def prepared(address: Address, cluster: str | None = None) -> Path:
    """The directory of a lake's copies, with the newest snapshot published in it.

    Args:
        address: of the lake.
        cluster: only what the warehouse of this cluster has; None for all.

    Raises:
        NoWarehouseError: there is no lake, or none of that cluster.
        WarehouseError: the catalogue cannot be reached, or is of another Trackside.
    """
    with _making:
        return _prepared(address, cluster)


def _prepared(address: Address, cluster: str | None) -> Path:
    seen_at, root = _seen.get(address, (-CHECK_INTERVAL_S, Path()))
    if cluster is None and time.monotonic() - seen_at < CHECK_INTERVAL_S:
        return root
    with catalogues.attached(address, read_only=True) as lake:
        with lake.one_view():
            identity, snapshot, entries = lake.identity(), lake.snapshot(), lake.entries()
        root = cache_of(identity)
        if cluster is None and directory.pointed(root) == _copy_of(root, snapshot, entries):
            _make_private(root.parents[1])
            _seen[address] = time.monotonic(), root
            return root  # its facts, of which each origin has a file, were read when it was made
        content = _content(lake, snapshot, entries, cluster)
        root = root if cluster is None else cache_of(identity, next(iter(content.facts)))
    with disk_errors(root):
        _make_private(root.parents[1])  # it has rows of all clusters
        (root / "published").mkdir(parents=True, exist_ok=True, mode=0o700)
        if directory.pointed(root) != content.path(root):
            _Builder(root, content).build()
    if cluster is None:
        _seen[address] = time.monotonic(), root
    return root


def _make_private(folder: Path) -> None:
    """Make a folder that no other user can read, also if an earlier version let all users read it."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with contextlib.suppress(PermissionError):
        folder.chmod(0o700)


@dataclass(frozen=True)
class Content:
    """Contents of a snapshot of a lake."""

    address: Address
    snapshot: int
    data_path: str
    entries: tuple[CatalogueFile, ...]
    facts: Mapping[str, Mapping[str, str]]

    @property
    def only(self) -> Mapping[str, str] | None:
        """The facts of the origin if there is one alone."""
        return next(iter(self.facts.values())) if len(self.facts) == 1 else None

    def path(self, root: Path) -> Path:
        """Its published copy."""
        return _copy_of(root, self.snapshot, self.entries)

    @functools.cached_property
    def by_table(self) -> Mapping[str, Sequence[CatalogueFile]]:
        """The files of each table that has any."""
        return catalogues.by_table(self.entries)

    def is_viewed(self, table: str) -> bool:
        """Whether a table is a view of its files, since it has too many rows to copy."""
        return table not in _ALWAYS_COPIED and sum(entry.rows for entry in self.by_table.get(table, ())) > IN_THE_COPY

    @functools.cached_property
    def digests(self) -> Mapping[str, str]:
        """Of each table that has files, what distinguishes its rows and how they are read."""
        return {
            table: f"{'view' if self.is_viewed(table) else 'rows'} {_digest(entries)}"
            for table, entries in self.by_table.items()
        }


def _digest(entries: Iterable[CatalogueFile]) -> str:
    """A digest of files, whatever their order: their names identify their contents."""
    return hashlib.sha256("\n".join(sorted(entry.name for entry in entries)).encode()).hexdigest()


def _copy_of(root: Path, snapshot: int, entries: Iterable[CatalogueFile]) -> Path:
    """The published copy of a snapshot: a catalogue restored from a backup gives its number to another one again."""
    digits = int(_digest(entries), 16) % 10**10
    return root / "published" / f"{snapshot:08d}{digits:010d}.duckdb"


def _content(lake: Catalogue, snapshot: int, entries: Sequence[CatalogueFile], cluster: str | None) -> Content:
    facts = origins.facts(lake, entries)
    clusters = sorted({entry.cluster for entry in entries if entry.cluster})
    if cluster is not None:
        mine = {entry.origin for entry in entries if entry.cluster == cluster}
        entries = [entry for entry in entries if entry.origin in mine]
        facts = {origin: of for origin, of in facts.items() if origin in mine}
    if not facts and clusters:
        raise NoWarehouseError(f"{lake.address}: it has no cluster {cluster!r}; there are: {', '.join(clusters)}")
    if not facts:
        raise NoWarehouseError(
            f"{lake.address}: nothing has been copied into it yet.\n"
            f"Copy a warehouse:  trackside warehouse copy DIR '{lake.address}'"
        )
    for of in facts.values():
        _refuse_other_schemas(lake.address, of)
    return Content(lake.address, snapshot, lake.data_path, tuple(entries), facts)


def _refuse_other_schemas(address: Address, facts: Mapping[str, str]) -> None:
    """Refuse a lake in which a warehouse has another schema than ours."""
    ours, theirs = origins.schema(), facts.get(origins.SCHEMA, "")
    if theirs == ours:
        return
    by = f"{facts.get(origins.COMMITTED_BY)}, at {facts.get(origins.COMMITTED_AT)}"
    if len(theirs.split()) > len(ours.split()):
        raise NewerWarehouseError(
            f"{address}: a newer Trackside commits to it ({by}).\nUpgrade this one. Nothing was changed."
        )
    raise WarehouseError(
        f"{address}: another Trackside with an older schema committed to it last ({by}).\n"
        "Upgrade that one, and let it write and copy again. Nothing was changed."
    )


class _Builder:
    """Makes the published copy of a snapshot."""

    def __init__(self, root: Path, content: Content) -> None:
        self._root = root
        self._content = content
        self._storage = storage_of(content.data_path.rstrip("/"))

    def build(self) -> None:
        """Make the copy, and point at it when it is whole."""
        self._have_tables()
        target, before = self._content.path(self._root), directory.pointed(self._root)
        unfinished = target.with_name(f"{target.name}.{os.getpid()}.unfinished")
        _remove(unfinished)
        if before is None or not self._renewed(before, unfinished):
            _remove(unfinished)
            self._make(unfinished)
        unfinished.replace(target)
        self._point_at(target)
        self._sweep(target, {target, before, *directory.copies(self._root)[-directory.PUBLISHED_KEPT :]})

    def _sweep(self, made: Path, kept: Collection[Path | None]) -> None:
        """Remove old copies, and what processes left that were killed while they made one."""
        for old in directory.copies(self._root):
            if old not in kept:
                old.unlink(missing_ok=True)
        made_at = made.stat().st_mtime
        for unfinished in (self._root / "published").glob("*.unfinished*"):
            with contextlib.suppress(FileNotFoundError):
                if made_at - unfinished.lstat().st_mtime > _LEFT_S:
                    unfinished.unlink()

    def _make(self, file: Path) -> None:
        """Make a copy from nothing."""
        with _opened(file) as connection:
            upgrade.apply_missing_steps(connection, {})
            self._fill(connection, {})
            for view in sql_files.views():
                connection.execute(view.sql)
                connection.execute(f'COMMENT ON VIEW "{view.name}" IS {literal(view.description)}')

    def _renewed(self, before: Path, file: Path) -> bool:
        """Make a copy from that of another snapshot; False where that one is no such copy, or is damaged."""
        try:
            directory.copy_file(before, file)
            with _opened(file) as connection:
                tables = _tables_of(connection)
                if tables is None or not _views_among(tables) <= _views_among(self._content.digests):
                    return False
                self._fill(connection, tables)
        except (duckdb.Error, FileNotFoundError):
            return False
        return True

    def _point_at(self, target: Path) -> None:
        pointer = target.with_name(f"current.{os.getpid()}.unfinished")
        pointer.unlink(missing_ok=True)
        pointer.symlink_to(target.name)
        pointer.replace(target.with_name("current"))

    def _have_tables(self) -> None:
        """Have all that is no sample be readable below the directory: by a link, or fetched."""
        if self._storage.local:
            for origin in self._content.facts:
                self._link(f"raw/tables/{origin}", f"{origin}/tables")
            for entry in self._content.entries:
                if not entry.digest:
                    place = f"{entry.table.replace('.', '/')}/cluster={quote(entry.cluster or '', safe='')}"
                    self._link(place, f"{entry.origin}/{place}")
            return
        missing = [(e.name, self._place(e)) for e in self._content.entries if e.digest and not self._place(e).exists()]
        fetch(self._storage, missing)

    def _link(self, name: str, target: str) -> None:
        link = self._root / name
        if link.is_symlink():
            return
        link.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):  # another process made it meanwhile
            link.symlink_to(self._storage.address(target))

    def _place(self, entry: CatalogueFile) -> Path:
        """Path at which the file of a table is read."""
        origin, _, rest = entry.name.partition("/tables/")
        return self._root / "raw" / "tables" / origin / rest

    def _fill(self, connection: duckdb.DuckDBPyConnection, tables: Mapping[str, str]) -> None:
        """Fill the tables that have other files than in the copy as it is, and write its facts anew."""
        digests, views = self._content.digests, _views_among(tables)
        for table in sql_files.all_tables():
            name = catalogues.full_name(table.name)
            if name in _NOT_FILLED or name.startswith("raw.") or digests.get(name) == tables.get(name):
                continue
            if name in tables and not self._content.is_viewed(name):
                connection.execute(f"TRUNCATE {name}")
            if name in digests:
                self._fill_table(connection, table, name, is_view=name in views)
        self._put_facts(connection)
        for samples in sql_files.sample_tables():
            files = integrity.live_files(connection, samples) if self._storage.local else []
            connection.execute(sample_view(self._root, samples, files, temporary=False))

    def _fill_table(self, connection: duckdb.DuckDBPyConnection, table: Table, name: str, *, is_view: bool) -> None:
        rows = rows_of(table, [self._place(entry) for entry in self._content.by_table[name]], once=name in _ONCE)
        if self._content.is_viewed(name):
            statement = f"DROP {'VIEW' if is_view else 'TABLE'} {name}; CREATE VIEW {name} AS {rows}"
        elif name == "main.partitions":
            statement = f"INSERT INTO {name} BY NAME {rows} WHERE rows > 0"  # a lake has no files without rows
        else:
            statement = f"INSERT INTO {name} BY NAME {rows}"
        try:
            connection.execute(statement)
        except duckdb.Error:
            self._refuse_unreadable(connection, table, name)
            raise

    def _refuse_unreadable(self, connection: duckdb.DuckDBPyConnection, table: Table, name: str) -> None:
        """Name the first file of a table that cannot be read.

        Raises:
            CorruptWarehouseError: there is one.
        """
        for entry in self._content.by_table[name]:
            place = self._place(entry)
            rows = rows_of(table, [place], once=False)
            try:
                connection.execute(f"SELECT MAX(hash(COLUMNS(*))) FROM ({rows})")  # noqa: S608 - our names
            except duckdb.Error as error:
                why = first_line(error) if place.exists() else NO_FILE
                raise unreadable(self._content.address, entry.address, why) from None

    def _put_facts(self, connection: duckdb.DuckDBPyConnection) -> None:
        """The facts of the one warehouse that the lake has, or those of all of them together."""
        content = self._content
        if content.only is None:
            names = hashlib.sha256(" ".join(sorted(content.facts)).encode()).hexdigest()[:32]
            facts = {"data_version": str(content.snapshot), "warehouse": names}
        else:
            facts = {key: value for key, value in content.only.items() if key not in origins.OURS}
        root = (
            str(self._root) if self._storage.local else ""
        )  # else each reader makes its views of what is here by then
        facts |= {
            "root": root,
            "views": upgrade.views_digest(sql_files.views()),
            ABOUT: json.dumps(self._description()),
        }
        connection.execute("TRUNCATE meta")
        connection.executemany("INSERT INTO meta VALUES (?, ?)", list(facts.items()))

    def _description(self) -> dict[str, object]:
        content = self._content
        clusters = {entry.cluster: entry.origin for entry in content.entries if entry.cluster}
        token = None if content.only is None else content.only[origins.TOKEN]
        place = {"address": str(content.address), "data_path": content.data_path.rstrip("/")}
        return {**place, "clusters": clusters, "token": token, "tables": content.digests}


def _remove(unfinished: Path) -> None:
    """Remove a copy under way, and its log, which DuckDB would apply to the next file of that name.

    A process may have left them that was killed: in a container the next one has its number again.
    """
    for file in (unfinished, unfinished.with_name(f"{unfinished.name}.wal")):
        file.unlink(missing_ok=True)


@contextlib.contextmanager
def _opened(file: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a copy under way; it is written to the disk when all went well."""
    with duckdb.connect(str(file), config=config()) as connection:
        connection.execute("SET TimeZone = 'UTC'; SET enable_progress_bar = false")
        yield connection
        connection.execute("CHECKPOINT")


def _tables_of(connection: duckdb.DuckDBPyConnection) -> dict[str, str] | None:
    """The digest of each table that a copy has rows of; None of a copy without that record."""
    found = connection.execute("SELECT value FROM meta WHERE key = ?", [ABOUT]).fetchone()
    return None if found is None else dict(json.loads(found[0])["tables"])


def _views_among(digests: Mapping[str, str]) -> set[str]:
    """The tables that are views of their files."""
    return {table for table, digest in digests.items() if digest.startswith("view ")}


def rows_of(table: Table, files: Sequence[Path], *, once: bool) -> str:
    """SQL for the rows of a table in some files; a query of one cluster opens only those that have it in their path."""
    columns = ", ".join(f'CAST("{c.name}" AS {c.type.removesuffix(" NOT NULL")}) AS "{c.name}"' for c in table.columns)
    named = ", ".join(literal(str(file)) for file in files)
    hive = "true, hive_types = {'cluster': VARCHAR}" if any(c.name == "cluster" for c in table.columns) else "false"
    distinct = "DISTINCT " if once else ""
    return f"SELECT {distinct}{columns} FROM read_parquet([{named}], hive_partitioning = {hive})"  # noqa: S608 - our names


def fetch(storage: Storage, files: Iterable[tuple[str, Path]]) -> None:
    """Copy files of a lake here, several at once."""
    with ThreadPoolExecutor(_FETCHED_AT_ONCE) as pool:
        for _ in pool.map(lambda file: storage.fetch(*file), files):
            pass
