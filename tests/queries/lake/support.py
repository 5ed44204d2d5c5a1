"""What tests of the lake do again and again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb
import polars as pl

from queries import sql_files, units
from queries.warehouse import Copied, copy, copy_to_lake, open_reader, open_writer
from tests.support.warehouses import NOW

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from queries.units import Unit


def silent(_what: str, _done: int, _total: int) -> None:
    """Report no progress."""


def into_lake(
    source: Path, lake: Path, files: str | None = None, report: Callable[[str, int, int], None] = silent
) -> Copied:
    """Copy a directory into a lake; `files` is where those of a new one are."""
    return copy_to_lake(source, lake, now=NOW, report=report, data_path=files)


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
            found = []
            for shape in units.shapes(connection, "one").values():
                if shape.name != "main.partitions":
                    found += units.differing(*(units.of_table(connection, name, shape) for name in ("one", "other")))
    return found


def samples(root: Path) -> dict[str, pl.DataFrame]:
    """All samples, sorted."""
    with open_reader(root) as reader:
        tables = {name: reader.table(name) for name in sql_files.sample_tables()}
    return {name: rows.sort(rows.columns) for name, rows in tables.items()}


def add_reject(root: Path, raw: str, cluster: str = "demo") -> None:
    """Change a warehouse, as any load does."""
    row = pl.DataFrame({"cluster": [cluster], "source": ["s"], "origin": ["o"], "reason": ["r"], "raw": [raw]})
    with open_writer(root, verb="test", now=NOW) as writer, writer.transaction():
        writer.append("rejects", row)
