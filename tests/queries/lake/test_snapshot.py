"""The local copy of a lake's snapshot: made from the copy before it, and the same as one made from nothing."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import duckdb
import pytest

from queries.lake import snapshot
from queries.warehouse import open_reader
from tests.queries.lake.support import add_reject, address, differences, into_lake

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from queries.sql_files import Table


@pytest.fixture
def filled(filled: Path) -> Path:
    """A lake with the warehouse in it, of whose newest snapshot there is a copy."""
    copy_of(filled)
    return filled


def copy_of(lake: Path) -> Path:
    return (snapshot.prepared(address(lake)) / "published" / "current").resolve()


def filled_tables(monkeypatch: pytest.MonkeyPatch, lake: Path) -> list[str]:
    """Names of the tables that are filled when the copy of the newest snapshot is made."""
    names = []
    rows_of = snapshot.rows_of

    def noted(table: Table, files: Sequence[Path], *, once: bool) -> str:
        names.append(table.name)
        return rows_of(table, files, once=once)

    with monkeypatch.context() as patched:
        patched.setattr(snapshot, "rows_of", noted)
        copy_of(lake)
    return sorted(names)


@pytest.mark.slow
@pytest.mark.parametrize("largest", [snapshot.IN_THE_COPY, 1])
def test_next_copy_fills_only_what_changed(
    source: Path, filled: Path, monkeypatch: pytest.MonkeyPatch, largest: int
) -> None:
    monkeypatch.setattr(snapshot, "IN_THE_COPY", largest)
    add_reject(source, "one")
    into_lake(source, filled)
    filled_tables(monkeypatch, filled)
    add_reject(source, "two")
    into_lake(source, filled)
    assert filled_tables(monkeypatch, filled) == ["rejects"]  # of one row, which is copied, and of two, a view
    assert differences(source, filled) == []
    with open_reader(filled) as reader:
        assert set(reader.table("rejects")["raw"].to_list()) >= {"one", "two"}


@pytest.mark.slow
def test_next_copy_has_the_facts_of_its_snapshot(source: Path, filled: Path) -> None:
    add_reject(source, "one")
    into_lake(source, filled)
    with open_reader(source) as one, open_reader(filled) as other:
        assert one.meta("data_version") == other.meta("data_version")
        assert one.meta("warehouse") == other.meta("warehouse")


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["cut", "no facts", "gone"])
def test_copy_is_made_anew_beside_a_damaged_one(source: Path, filled: Path, damage: str) -> None:
    file = copy_of(filled)
    if damage == "cut":
        file.write_bytes(file.read_bytes()[:5000])
    elif damage == "gone":
        file.unlink()
    else:
        with duckdb.connect(str(file)) as connection:
            connection.execute("TRUNCATE meta")
    add_reject(source, "one")
    into_lake(source, filled)
    assert differences(source, filled) == []


@pytest.mark.slow
def test_restored_catalogue_is_read_as_it_is(source: Path, filled: Path, tmp_path: Path) -> None:
    catalogue = tmp_path / "lake.ducklake"
    shutil.copy(catalogue, tmp_path / "backup")
    first = copy_of(filled)
    for raw in ("one", "two", "three"):
        add_reject(source, raw)
        into_lake(source, filled)
        copy_of(filled)
    assert not first.exists()
    shutil.copy(tmp_path / "backup", catalogue)
    with open_reader(filled) as reader:
        assert reader.table("rejects").height == 0
    assert copy_of(filled) == first


@pytest.mark.slow
def test_table_that_became_small_is_copied_again(source: Path, filled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(snapshot, "IN_THE_COPY", 1)
        add_reject(source, "one")
        into_lake(source, filled)
        assert len(filled_tables(monkeypatch, filled)) > 10
    add_reject(source, "two")
    into_lake(source, filled)
    assert len(filled_tables(monkeypatch, filled)) > 10
    assert differences(source, filled) == []


@pytest.mark.slow
def test_files_of_killed_readers_go(source: Path, filled: Path) -> None:
    published = copy_of(filled).parent
    left, new = published / "1.duckdb.7.unfinished", published / "1.duckdb.8.unfinished"
    for file in (left, new):
        file.touch()
    os.utime(left, (0, 0))
    add_reject(source, "one")
    into_lake(source, filled)
    copy_of(filled)
    assert not left.exists()
    assert new.exists()


@pytest.mark.slow
def test_log_of_a_killed_reader_is_not_applied(source: Path, filled: Path) -> None:
    before = copy_of(filled)
    add_reject(source, "one")
    into_lake(source, filled)
    target = copy_of(filled)
    left = target.with_name(f"{target.name}.{os.getpid()}.unfinished")
    log = left.with_name(f"{left.name}.wal")
    shutil.copy(before, left)
    with duckdb.connect(str(left)) as connection:
        connection.execute(f"ATTACH '{target}' AS target (READ_ONLY)")
        connection.execute("INSERT INTO rejects SELECT * FROM target.rejects")
        written = log.read_bytes()
    log.write_bytes(written)
    target.unlink()
    pointer = target.with_name("current")
    pointer.unlink()
    pointer.symlink_to(before.name)
    assert copy_of(filled) == target
    assert differences(source, filled) == []
    assert not log.exists()
