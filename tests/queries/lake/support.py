"""What tests of the lake do again and again."""

from __future__ import annotations

import contextlib
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

import duckdb
import polars as pl

from queries import sql_files, units
from queries.errors import NoWarehouseError, WarehouseError
from queries.lake import catalogue, engine, markers
from queries.lake.address import address_of
from queries.warehouse import Copied, copy, copy_to_lake, open_reader, open_writer
from tests.support.warehouses import NOW

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    import pytest

    from queries.lake.address import Address
    from queries.units import Unit


def silent(_what: str, _done: int, _total: int) -> None:
    """Report no progress."""


@dataclass
class Statements:
    """How many statements of SQL have been run."""

    done: int = 0


@contextlib.contextmanager
def statements(
    monkeypatch: pytest.MonkeyPatch, *, at: int = 0, act: Callable[[], None] = lambda: None, into_s: float = 0.0
) -> Iterator[Statements]:
    """Count the statements of commits; something happens before the n-th, or so long after it has begun."""
    counted, waiting = Statements(), threading.Timer(into_s, act)

    class Counting:
        def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
            self._connection = connection

        def execute(self, *arguments: str | Sequence[object]) -> duckdb.DuckDBPyConnection:
            counted.done += 1
            if counted.done == at and into_s:
                waiting.start()
            elif counted.done == at:
                act()
            return self._connection.execute(*arguments)  # type: ignore[arg-type]  # passed on

    @contextlib.contextmanager
    def counting() -> Iterator[Counting]:
        with connection() as plain:
            yield Counting(plain)

    connection = engine.connection
    with monkeypatch.context() as patched:
        patched.setattr(engine, "connection", counting)
        try:
            yield counted
        finally:
            if waiting.ident is not None:
                waiting.join()


def address(lake: Path) -> Address:
    """The address that a path has."""
    found = address_of(lake)
    assert found is not None
    return found


def into_lake(
    source: Path, lake: Path, files: str | None = None, report: Callable[[str, int, int], None] = silent
) -> Copied:
    """Copy a directory into a lake; `files` is where those of a new one are."""
    return copy_to_lake(source, lake, now=NOW, report=report, data_path=files)


def tried(source: Path, lake: Path) -> str:
    """Copy a directory into a lake; what the refusal says, without a secret; empty if there is none."""
    try:
        into_lake(source, lake)
    except WarehouseError as error:
        message = str(error)
        assert "hunter2" not in message
        return message
    return ""


def out_of_lake(lake: Path, target: Path, cluster: str | None = None) -> Copied:
    """Copy a lake, or the warehouse of one cluster, into a directory."""
    with open_writer(target, verb="test", now=NOW, half_copied=True) as writer:
        return copy(lake, writer, report=silent, cluster=cluster)


def differences(one: Path, other: Path) -> list[Unit]:
    """Units in which two warehouses differ, of every table but the manifest's files without rows."""
    with open_reader(one) as reader, open_reader(other) as copied:
        for each in (reader, copied):
            each.check_samples(" ".join(sql_files.sample_tables()))
        with duckdb.connect() as connection:
            connection.execute("SET TimeZone = 'UTC'")
            for name, path in (("one", reader.path), ("other", copied.path)):
                connection.execute(f"ATTACH '{path}' AS {name} (READ_ONLY)")
            found, empty = [], _empty(connection)
            for shape in units.shapes(connection, "one").values():
                if shape.name != "main.partitions" and shape.name not in empty:
                    found += units.differing(*(units.of_table(connection, name, shape) for name in ("one", "other")))
    return found


def _empty(connection: duckdb.DuckDBPyConnection) -> set[str]:
    """Tables that have never had a row in either database: to digest them takes as long as some rows do."""
    found = connection.execute(
        "SELECT schema_name || '.' || table_name FROM duckdb_tables() "
        "WHERE database_name IN ('one', 'other') AND estimated_size = 0 GROUP BY 1 HAVING COUNT(*) = 2"
    )
    return {name for (name,) in found.fetchall()}


def samples(root: Path) -> dict[str, pl.DataFrame]:
    """All samples, sorted."""
    with open_reader(root) as reader:
        tables = {name: reader.table(name) for name in sql_files.sample_tables()}
    return {name: rows.sort(rows.columns) for name, rows in tables.items()}


def of_source(root: Path) -> tuple[int, int]:
    """What tells the states of a warehouse apart: how many rejects it has, and how many samples."""
    with open_reader(root) as reader:
        return reader.table("rejects").height, reader.table("gpu_samples").height


def of_lake(address: Address) -> tuple[int, int]:
    """The same of a lake, by the files of its newest snapshot, all of which are there."""
    try:
        with catalogue.attached(address, read_only=True) as lake:
            entries = lake.entries()
            assert {entry.name for entry in entries} <= set(lake.storage.sizes(""))
    except NoWarehouseError:
        return 0, 0
    rows = {table: sum(e.rows for e in entries if e.table == table) for table in ("main.rejects", "raw.gpu_samples")}
    return rows["main.rejects"], rows["raw.gpu_samples"]


def files_without_need(address: Address) -> set[str]:
    """Names of files of a lake that its newest snapshot does not name."""
    with catalogue.attached(address, read_only=True) as lake:
        marker = f"{markers.FOLDER}/{lake.identity()}"
        return set(lake.storage.sizes("")) - {entry.name for entry in lake.entries()} - {marker}


def add_reject(root: Path, raw: str, cluster: str = "demo") -> None:
    """Change a warehouse, as any load does."""
    row = pl.DataFrame({"cluster": [cluster], "source": ["s"], "origin": ["o"], "reason": ["r"], "raw": [raw]})
    with open_writer(root, verb="test", now=NOW) as writer, writer.transaction():
        writer.append("rejects", row)


def change(root: Path, number: int) -> None:
    """Change a table and a day of samples, as a load does."""
    add_reject(root, f"row {number}")
    with open_writer(root, verb="test", now=NOW) as writer, writer.transaction():
        file = min(writer.files(), key=lambda each: (each.table != "gpu_samples", each.day))
        rows = writer.frame("SELECT * FROM gpu_samples WHERE CAST(ts AS DATE) = $day", {"day": file.day})
        writer.write_partition("gpu_samples", file.cluster, file.day, rows.head(rows.height - 1))
