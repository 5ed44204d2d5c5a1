"""Committing a warehouse directory to a lake: only what has changed, in one transaction of the catalogue.

Files are written first and counted last, so that a reader sees all of a commit or nothing, and whatever instant the
committer dies at, the lake is what it was before: the next commit of the same warehouse takes the files that are there
already, and removes those that it does not need.
"""

from __future__ import annotations

import functools
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from queries import changes, integrity
from queries.copying import AttachedCopy, Copied
from queries.errors import NoWarehouseError, WarehouseError
from queries.lake import catalogue as catalogues
from queries.lake import engine, fence, locks, markers, origins, spans
from queries.lake.spans import MonthSpan
from queries.lake.storage import origin_of, storage_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping
    from datetime import datetime
    from pathlib import Path

    import duckdb

    from queries.integrity import ManifestFile
    from queries.lake.address import Address
    from queries.lake.catalogue import Catalogue, CatalogueFile
    from queries.lake.storage import Storage
    from queries.units import Shape

_AT_ONCE: Final = 4
"""Files of samples that are written at once."""


@dataclass(frozen=True)
class LakeState:
    """State of a lake for an origin, and clusters that it has of others, when a commit begins."""

    data_path: str = ""
    identity: str = ""
    entries: tuple[CatalogueFile, ...] = ()
    facts: Mapping[str, str] = field(default_factory=dict)
    known: frozenset[str] = frozenset()
    others: Mapping[str, str] = field(default_factory=dict)

    def spans(self, table: str) -> list[MonthSpan]:
        """The spans of a table that it has."""
        mine = (entry for entry in self.entries if entry.table == table)
        return [MonthSpan(entry.table, entry.cluster, entry.span, entry.rows, entry.digest) for entry in mine]


def push(
    address: Address,
    root: Path,
    path: Path,
    *,
    now: datetime,
    report: Callable[[str, int, int], None],
    create_at: Path | str | None = None,
    dry_run: bool = False,
    full: bool = False,
) -> Copied:
    """Have a lake have what is published of a warehouse directory.

    Args:
        address: of the lake.
        root: the directory.
        path: its published copy.
        now: the time, which the lake keeps with the commit.
        report: takes what is being done, how much of it is done, of how much.
        create_at: where the files are going to be, if there is no lake yet.
        dry_run: change nothing; return what would be committed.
        full: compare every row, not only those of tables and months that the directory has noted as changed.

    Raises:
        LockedWarehouseError: another process commits the same warehouse.
        WarehouseError: the lake has a later state of it, or its clusters are those of another; see `queries.errors`.
    """
    with engine.connection() as connection, AttachedCopy(connection, root, path).attached() as source:
        work = _Push(address, connection, source, report, full=full)
        if dry_run:
            return work.compare(create_at)
        work.make_lake(create_at)
        with locks.held(address, source.facts["warehouse"]) as lock:
            return work.run(lock, now)


class _Push:
    """A commit under way."""

    def __init__(
        self,
        address: Address,
        connection: duckdb.DuckDBPyConnection,
        source: AttachedCopy,
        report: Callable[[str, int, int], None],
        *,
        full: bool,
    ) -> None:
        self._address = address
        self._connection = connection
        self._source = source
        self._report = report
        self._shapes = [shape for name, shape in source.shapes.items() if _is_span(name)]
        self._origin = source.facts["warehouse"]
        self._changes = changes.Changes() if full else changes.of_warehouse(source.facts)
        self._full = full
        self._taken = Copied()
        self._done, self._total = 0, 1
        self._clusters: set[str | None] = set()

    def make_lake(self, create_at: Path | str | None) -> None:
        """Make the lake, or the tables that it lacks."""
        try:
            with catalogues.attached(self._address, read_only=True) as lake:
                _refuse_another_place(lake, create_at)
                if lake.is_complete():
                    return
            create_at = None
        except NoWarehouseError:
            if create_at is None:
                raise
        with locks.held(self._address, locks.COMMIT, wait_s=locks.COMMIT_WAIT_S):
            if create_at is not None and not catalogues.exists(self._address):
                place = storage_of(str(create_at))
                markers.refuse_a_second(self._address, place)
                place.require_writable()
            with catalogues.attached(self._address, read_only=False, create_at=create_at) as lake:
                lake.make_tables()
                markers.leave(lake.storage, lake.identity())

    def compare(self, create_at: Path | str | None) -> Copied:
        """Rows that would be committed."""
        try:
            state = self._state(create_at)
        except NoWarehouseError:
            if create_at is None:
                raise
            markers.refuse_a_second(self._address, storage_of(str(create_at)))
            state = LakeState()
        fence.refuse(self._address, self._source, state.facts, state.entries)
        fresh, samples, _ = self._differing(state)
        self._refuse_clusters_of_others(state.others)
        for span, _ in fresh.values():
            self._count(span.table, span.rows)
        for file, rows in samples.values():
            self._count_file(file, rows)
        return self._taken

    def run(self, lock: locks.Held, now: datetime) -> Copied:
        """Write the files that differ, and have them count."""
        state = self._state()
        fence.refuse(self._address, self._source, state.facts, state.entries)
        fence.adopt_last_commit(self._source.root, self._address, state.facts)
        same = origins.is_same_state(self._source, state.facts)
        if same and not self._full:  # a published copy never changes: this one is in the lake
            return self._taken
        fresh, samples, gone = self._differing(state)
        self._refuse_clusters_of_others(state.others)
        if same and not (fresh or samples or gone):
            return self._taken
        storage = storage_of(state.data_path)
        loose = self._tidy(storage, state, {*fresh, *samples})
        self._total = sum(span.rows for span, _ in fresh.values()) + sum(rows for _, rows in samples.values())
        self._write_spans(storage, fresh, loose)
        self._write_samples(storage, samples, loose)
        token = fence.note_pending(self._source.root, self._address)
        new = [(name, span.rows) for name, (span, _) in fresh.items()]
        new += [(name, rows) for name, (_, rows) in samples.items()]
        new.append(origins.write(self._connection, storage, self._source, token, now))
        gone += [entry for entry in state.entries if entry.table == catalogues.ORIGINS]
        self._commit(lock, gone, new)
        fence.note_committed(self._source.root, self._address, token)
        return self._taken

    def _state(self, place: Path | str | None = None) -> LakeState:
        with catalogues.attached(self._address, read_only=True) as lake, lake.one_view():
            _refuse_another_place(lake, place)
            entries = lake.entries(self._origin)
            return LakeState(
                lake.data_path,
                lake.identity(),
                tuple(entries),
                origins.facts(lake, entries).get(self._origin, {}),
                frozenset(lake.known(self._origin)),
                lake.clusters_of_others(self._origin),
            )

    def _differing(
        self, state: LakeState
    ) -> tuple[dict[str, tuple[MonthSpan, Shape]], dict[str, tuple[ManifestFile, int]], list[CatalogueFile]]:
        """Files to write, by name: those of spans (with their shapes) and those of samples; and those that go."""
        stored = {(e.table, e.cluster, e.span, e.rows, e.digest): e for e in state.entries if e.digest}
        fresh: dict[str, tuple[MonthSpan, Shape]] = {}
        heights = spans.heights(self._connection, self._source.database, self._shapes)
        for number, whole in enumerate(self._shapes):
            self._report("compare", number, len(self._shapes))
            height = heights[whole.name]
            shape = spans.shape_in_lake(whole, height)
            for span in self._spans(shape, height, state):
                self._clusters.add(span.cluster)
                if stored.pop(span.key, None) is None:
                    fresh[span.name(self._origin, self._source.version)] = (span, shape)
        sample_files = {entry.name: entry for entry in state.entries if not entry.digest}
        samples = {}
        for file, rows in self._source.files():
            if not rows:  # a catalogue has no files without rows, and readers do without them
                continue
            if sample_files.pop(f"{self._origin}/{file.path}", None) is None:
                samples[f"{self._origin}/{file.path}"] = (file, rows)
            self._clusters.add(file.cluster)
        old = [entry for entry in stored.values() if entry.table != catalogues.ORIGINS]
        return fresh, samples, [*old, *sample_files.values()]

    def _spans(self, shape: Shape, height: int, state: LakeState) -> list[MonthSpan]:
        """The spans of a table: those that may have changed are read, the others are as the lake has them.

        The number of rows is compared in any case: where it is another, the whole table is read. So it is where the
        lake has months of a table that is not divided now, or the other way round.
        """
        if height == 0:  # as most tables are where few sources are read, and to digest none takes as long as some
            return []
        lake_spans = state.spans(shape.name)
        read = functools.partial(spans.of_table, self._connection, self._source.database, shape)
        changed = self._changed_since(state.facts, shape.name)
        divided, was_divided = shape.day is not None, {span.span != changes.WHOLE for span in lake_spans}
        if changes.WHOLE in changed or was_divided != {divided} or (changed and not divided):
            return read()
        found = [span for span in lake_spans if span.span not in changed] + (read(months=changed) if changed else [])
        return found if sum(span.rows for span in found) == height else read()

    def _changed_since(self, lake_facts: Mapping[str, str], table: str) -> frozenset[str]:
        """The months of a table that may have changed since the lake's last commit; `WHOLE` if that is not known."""
        version = int(lake_facts.get("data_version", -1))
        known = self._changes.state(version)
        if (
            known is None
            or known != lake_facts.get(origins.STATE)
            or lake_facts.get(origins.SCHEMA) != origins.schema()
        ):
            return frozenset({changes.WHOLE})
        return self._changes.since(version, table)

    def _refuse_clusters_of_others(self, others: Mapping[str, str]) -> None:
        fence.refuse_clusters_of_others(self._address, self._clusters, others)

    def _tidy(self, storage: Storage, state: LakeState, needed: Collection[str]) -> set[str]:
        """Remove the files of a stopped commit; returns those of the wanted files that it left whole.

        Nothing is removed where another catalogue may use these files: of an origin of which this one has no facts,
        and where the marker of another one lies. Files of a first commit go with the next commit, or with `vacuum`.
        """
        found = storage.sizes(f"{self._origin}/")
        loose = {name for name in found if origin_of(name) and name not in state.known}
        others = markers.leave(storage, state.identity)
        if state.facts and not others:
            storage.remove(sorted(loose - set(needed)))
        return loose & set(needed)

    def _write_spans(
        self, storage: Storage, fresh: Mapping[str, tuple[MonthSpan, Shape]], loose: Collection[str]
    ) -> None:
        for name, (span, shape) in fresh.items():
            left = name in loose and storage.local
            if not (left and spans.is_in(self._connection, shape, span, storage.address(name))):
                with storage.writing(name) as file:
                    spans.write(self._connection, self._source.database, shape, span, file)
            self._count(span.table, span.rows)
            self._advance(span.table.removeprefix("main."), span.rows)

    def _write_samples(
        self, storage: Storage, samples: Mapping[str, tuple[ManifestFile, int]], loose: Collection[str]
    ) -> None:
        def write(item: tuple[str, tuple[ManifestFile, int]]) -> tuple[ManifestFile, int]:
            name, (file, rows) = item
            if not (name in loose and storage.has(name, file.sha256)):
                integrity.require(self._source.root, [file])
                storage.put(self._source.root / file.path, name)
            return file, rows

        with ThreadPoolExecutor(_AT_ONCE) as pool:
            for file, rows in pool.map(write, samples.items()):
                self._count_file(file, rows)
                self._advance(file.table, rows)

    def _commit(self, lock: locks.Held, gone: Iterable[CatalogueFile], new: Iterable[tuple[str, int]]) -> None:
        with (
            locks.held(self._address, locks.COMMIT, wait_s=locks.COMMIT_WAIT_S),
            catalogues.attached(self._address, read_only=False) as lake,
        ):
            lock.confirm()
            self._refuse_clusters_of_others(lake.clusters_of_others(self._origin))
            lake.commit(gone, _entries(lake, new), f"data version {self._source.version} of {self._origin}")

    def _count(self, table: str, rows: int) -> None:
        if table != "main.partitions":
            self._taken.tables.add(table)
            self._taken.rows += rows

    def _count_file(self, file: ManifestFile, rows: int) -> None:
        self._taken.files += 1
        self._taken.bytes += file.bytes
        self._taken.rows += rows

    def _advance(self, what: str, rows: int) -> None:
        self._done += rows
        self._report(what, self._done, max(self._total, 1))


def _refuse_another_place(lake: Catalogue, named: Path | str | None) -> None:
    """Refuse a place for files that is not the one of the lake, which cannot change.

    Raises:
        WarehouseError: another one is named.
    """
    if named is not None and not lake.storage.is_at(str(named)):
        raise WarehouseError(
            f"{lake.address}: its files are in {lake.storage.address('')} since it was made, not in {named}.\n"
            "Name no other place (--data-path, lake_files), or make another lake. Nothing was changed."
        )


def _is_span(table: str) -> bool:
    return table not in spans.NOT_SPANS and not table.startswith("raw.")


def _entries(lake: Catalogue, new: Iterable[tuple[str, int]]) -> Iterable[CatalogueFile]:
    for name, rows in new:
        entry = catalogues.entry_of(lake.storage.address(name), name, rows)
        assert entry is not None, name  # noqa: S101 - names of ours
        yield entry
