"""A lake as a directory that readers open: a published copy of one snapshot, made here of what the catalogue names.

    CACHE/lakes/LAKE/MADE_BY/published/NNNNNNNN.duckdb   numbered by the lake's snapshots; small tables are in it,
                                                         large ones are views of the lake's files
    CACHE/lakes/LAKE/MADE_BY/raw/...                     links to the lake's folders, or what was read from a bucket

It is a warehouse directory in every respect but that nobody writes to it: whatever reads a warehouse reads this. It
may be deleted at any time.
"""

from __future__ import annotations

import contextlib
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
from queries.lake.storage import storage_of
from queries.opening import config, disk_errors
from queries.samples.views import sample_view
from queries.sql_files import literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from queries.lake.address import Address
    from queries.lake.catalogue import Catalogue, Entry
    from queries.lake.storage import Storage
    from queries.sql_files import Table

IN_THE_COPY: Final = 200_000
"""Rows up to which a table is copied: DuckDB plans and reads it faster than a view of files."""

ABOUT: Final = "lake"
"""Fact of a copy: where the files are, whose each cluster is, and the last commit if there is one warehouse alone."""

SEEN_S: Final = 5.0
"""So long a process takes the snapshot that it saw last for the newest: a page asks many questions."""

_FORM: Final = 1
"""Changes with what a copy has besides its tables and views."""

_FETCHED_AT_ONCE: Final = 8

_ONCE: Final = frozenset({"main.node_lists", "main.job_summaries"})
"""Tables without a cluster: several warehouses may have the same row."""

_making: Final = threading.Lock()
"""One thread of a process makes a copy, the others find it made."""

_seen: dict[Address, tuple[float, Path]] = {}
"""By lake: when its newest snapshot was looked for, and where its copies are."""


def cache_of(identity: str, origin: str = "") -> Path:
    """The directory of a lake's copies on this machine; with an origin, of those that have only its rows.

    Copies of another Trackside are in another one: they may have other tables and views.
    """
    home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    made_by = hashlib.sha256(f"{_FORM} {upgrade.views_digest(sql_files.views())}".encode()).hexdigest()
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
    seen_at, root = _seen.get(address, (-SEEN_S, Path()))
    if cluster is None and time.monotonic() - seen_at < SEEN_S:
        return root
    with catalogues.attached(address, read_only=True) as lake:
        content = _content(lake, cluster)
        root = cache_of(lake.identity(), "" if cluster is None else next(iter(content.facts)))
    with disk_errors(root):
        _for_this_user_alone(root.parents[1])  # it has rows of all clusters
        (root / "published").mkdir(parents=True, exist_ok=True, mode=0o700)
        if directory.pointed(root) != content.path(root):
            _Builder(root, content).build()
    if cluster is None:
        _seen[address] = time.monotonic(), root
    return root


def _for_this_user_alone(folder: Path) -> None:
    """Make a folder that nobody else can look into, also if an earlier version let all users read it."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with contextlib.suppress(PermissionError):
        folder.chmod(0o700)


@dataclass(frozen=True)
class Content:
    """What a snapshot of a lake is made of."""

    address: Address
    snapshot: int
    data_path: str
    entries: tuple[Entry, ...]
    facts: Mapping[str, Mapping[str, str]]

    @property
    def only(self) -> Mapping[str, str] | None:
        """The facts of the origin if there is one alone."""
        return next(iter(self.facts.values())) if len(self.facts) == 1 else None

    def path(self, root: Path) -> Path:
        """Its published copy."""
        return root / "published" / f"{self.snapshot:08d}.duckdb"

    def of_table(self, table: str) -> list[Entry]:
        """The files of a table."""
        return [entry for entry in self.entries if entry.table == table]


def _content(lake: Catalogue, cluster: str | None) -> Content:
    snapshot = lake.snapshot()
    entries, facts = lake.entries(), origins.of_all(lake)
    if cluster is not None:
        mine = {entry.origin for entry in entries if entry.cluster == cluster}
        entries = [entry for entry in entries if entry.origin in mine]
        facts = {origin: of for origin, of in facts.items() if origin in mine}
    if not facts:
        what = "nothing has been copied into it yet" if cluster is None else f"it has no cluster {cluster!r}"
        raise NoWarehouseError(
            f"{lake.address}: {what}.\nCopy a warehouse:  trackside warehouse copy DIR '{lake.address}'"
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
        target = self._content.path(self._root)
        unfinished = target.with_name(f"{target.name}.{os.getpid()}.unfinished")
        unfinished.unlink(missing_ok=True)
        connection = duckdb.connect(str(unfinished), config=config())
        try:
            connection.execute("SET TimeZone = 'UTC'; SET enable_progress_bar = false")
            self._fill(connection)
            connection.execute("CHECKPOINT")
        finally:
            connection.close()
        unfinished.replace(target)
        self._point_at(target)
        for old in directory.copies(self._root)[: -directory.PUBLISHED_KEPT]:
            old.unlink(missing_ok=True)

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

    def _link(self, here: str, there: str) -> None:
        link = self._root / here
        if link.is_symlink():
            return
        link.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):  # another process made it meanwhile
            link.symlink_to(self._storage.address(there))

    def _place(self, entry: Entry) -> Path:
        """Where the file of a table is read."""
        origin, _, rest = entry.name.partition("/tables/")
        return self._root / "raw" / "tables" / origin / rest

    def _fill(self, connection: duckdb.DuckDBPyConnection) -> None:
        upgrade.apply_missing_steps(connection, {})
        for table in sql_files.all_tables():
            if table.name not in {"meta", "schema_steps"} and not table.name.startswith("raw."):
                self._make_table(connection, table)
        self._put_facts(connection)
        for samples in sql_files.sample_tables():
            files = integrity.live_files(connection, samples) if self._storage.local else []
            connection.execute(sample_view(self._root, samples, files, temporary=False))
        for view in sql_files.views():
            connection.execute(view.sql)
            connection.execute(f'COMMENT ON VIEW "{view.name}" IS {literal(view.description)}')

    def _make_table(self, connection: duckdb.DuckDBPyConnection, table: Table) -> None:
        name = table.name if "." in table.name else f"main.{table.name}"
        entries = self._content.of_table(name)
        if not entries:
            return
        rows = _rows_of(table, [self._place(entry) for entry in entries], once=name in _ONCE)
        if name == "main.partitions":
            connection.execute(f"INSERT INTO {name} BY NAME {rows} WHERE rows > 0")  # a lake has no files without rows
        elif sum(entry.rows for entry in entries) <= IN_THE_COPY or name in _ONCE:
            connection.execute(f"INSERT INTO {name} BY NAME {rows}")
        else:
            connection.execute(f"DROP TABLE {name}; CREATE VIEW {name} AS {rows}")

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
        facts |= {"root": root, "views": upgrade.views_digest(sql_files.views()), ABOUT: json.dumps(self._about())}
        connection.executemany("INSERT INTO meta VALUES (?, ?)", list(facts.items()))

    def _about(self) -> dict[str, object]:
        content = self._content
        clusters = {entry.cluster: entry.origin for entry in content.entries if entry.cluster}
        token = None if content.only is None else content.only[origins.TOKEN]
        place = {"address": str(content.address), "data_path": content.data_path.rstrip("/")}
        return {**place, "clusters": clusters, "token": token}


def _rows_of(table: Table, files: Sequence[Path], *, once: bool) -> str:
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
