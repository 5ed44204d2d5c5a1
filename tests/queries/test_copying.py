"""A copy of a warehouse is the warehouse: whole, stopped at any point and gone on with, or brought up to date."""

from __future__ import annotations

import random
import shutil
from typing import TYPE_CHECKING

import duckdb
import polars as pl
import pytest

from queries import directory, sql_files, units
from queries.errors import CorruptWarehouseError, NoWarehouseError, WarehouseError
from queries.units import Unit
from queries.warehouse import Copied, copy, open_reader, open_writer, would_copy
from tests.support.warehouses import NOW, from_everything

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class StoppedHereError(Exception):
    """Stands for whatever ends a copy."""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return from_everything(tmp_path / "made", gpus=16, days=3)


def silent(_what: str, _done: int, _total: int) -> None:
    pass


def stops_at(call: int) -> Callable[[str, int, int], None]:
    """A progress report that fails when it is called that often."""
    calls = iter(range(call))

    def report(_what: str, _done: int, _total: int) -> None:
        if next(calls, None) is None:
            raise StoppedHereError

    return report


def copied(source: Path, target: Path, report: Callable[[str, int, int], None] = silent) -> Copied:
    with open_writer(target, verb="test", now=NOW, half_copied=True) as writer:
        return copy(source, writer, report=report)


def differences(one: Path, other: Path) -> list[Unit]:
    """Units in which two published copies differ; files of samples are compared with the manifest, too."""
    with open_reader(one) as reader, open_reader(other) as copy:
        for each in (reader, copy):
            each.check_samples(" ".join(sql_files.sample_tables()))
        assert reader.data_version == copy.data_version
        connection, place = duckdb.connect(), reader.path
        connection.execute("SET TimeZone = 'UTC'")
        for name, path in (("one", place), ("other", copy.path)):
            connection.execute(f"ATTACH '{path}' AS {name} (READ_ONLY)")
    found = []
    for shape in units.shapes(connection, "one").values():
        found += units.differing(*(units.of_table(connection, name, shape) for name in ("one", "other")))
    connection.close()
    return found


def add_reject(root: Path, raw: str) -> None:
    """Change a warehouse, as any load does."""
    row = pl.DataFrame({"cluster": ["demo"], "source": ["s"], "origin": ["o"], "reason": ["r"], "raw": [raw]})
    with open_writer(root, verb="test", now=NOW) as writer, writer.transaction():
        writer.append("rejects", row)


@pytest.mark.slow
def test_copy_is_the_same_in_every_table(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "copy"
    taken = copied(source, target)
    assert taken.rows > 1000
    assert taken.files > 1
    assert differences(source, target) == []
    assert copied(source, target) == Copied(), "a second copy takes nothing"


@pytest.mark.slow
def test_dry_run_counts_and_changes_nothing(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "copy"
    would = would_copy(source, target, report=silent)
    assert not target.exists()
    assert would == copied(source, target)
    assert would_copy(source, target, report=silent) == Copied()


@pytest.mark.slow
def test_copy_takes_what_has_changed(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "copy"
    copied(source, target)
    add_reject(source, "late")
    taken = copied(source, target)
    assert taken.tables == {"main.rejects"}
    assert (taken.rows, taken.files) == (1, 0)
    assert differences(source, target) == []


@pytest.mark.slow
def test_copy_may_be_stopped_anywhere(source: Path, tmp_path: Path) -> None:
    target, points = tmp_path / "copy", random.Random(24)
    compared = len(sql_files.all_tables())
    for _ in range(4):
        with pytest.raises(StoppedHereError):
            copied(source, target, stops_at(compared + points.randrange(8)))
        assert directory.current_copy(target) is None, "nobody reads half a copy"
    copied(source, target)
    assert differences(source, target) == []
    assert not list(target.rglob("*.unfinished"))


@pytest.mark.slow
def test_half_a_copy_is_refused_to_writers(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "copy"
    with pytest.raises(StoppedHereError):
        copied(source, target, stops_at(110))
    with pytest.raises(NoWarehouseError, match=f"trackside warehouse copy {source} {target}"):
        add_reject(target, "too early")


def test_copy_replaces_no_other_warehouse(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "other"
    add_reject(target, "mine")
    with pytest.raises(WarehouseError, match=r"holds another warehouse \(rejects"):
        copied(source, target)


@pytest.mark.slow
def test_copy_replaces_no_changed_copy(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "copy"
    copied(source, target)
    add_reject(target, "written here")
    add_reject(source, "written there")
    with pytest.raises(WarehouseError, match="has changed since"):
        copied(source, target)


@pytest.mark.slow
def test_copy_refuses_damaged_samples(source: Path, tmp_path: Path) -> None:
    damaged = source / directory.raw_files(source)[0]
    damaged.write_bytes(damaged.read_bytes()[:-1])
    with pytest.raises(CorruptWarehouseError, match="damaged samples"):
        copied(source, tmp_path / "copy")
    assert directory.current_copy(tmp_path / "copy") is None


@pytest.mark.slow
def test_copy_can_be_written_to(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "copy"
    copied(source, target)
    shutil.move(source, tmp_path / "gone")
    add_reject(target, "after the move")
    with open_reader(target) as reader:
        assert "after the move" in reader.table("rejects")["raw"].to_list()
        assert reader.table("gpu_hours").height


def test_units_differ_by_count_and_content() -> None:
    here, there = Unit("t", "c", None, 2, "5"), Unit("t", "c", None, 2, "6")
    assert units.differing([there], [here]) == [there]
    assert units.differing([here], [here]) == []
    assert units.differing([], [here]) == [Unit("t", "c", None, 0, "")]
