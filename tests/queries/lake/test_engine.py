"""The database in memory to which catalogues are attached: made anew now and then, for DuckLake gives nothing back."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pytest

from queries.lake import catalogue, engine, origins, snapshot
from tests.queries.lake.support import add_reject, address, differences, into_lake

if TYPE_CHECKING:
    from collections.abc import Callable


def megabytes() -> float:
    """What this process has in memory now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def grown_by(work: Callable[[], object], times: int) -> float:
    """Megabytes that this process has more after doing something so often, and a few times before that."""
    for _ in range(5):
        work()
    before = megabytes()
    for _ in range(times):
        work()
    return megabytes() - before


@pytest.mark.slow
def test_looking_at_a_lake_keeps_no_memory(filled: Path) -> None:
    """DuckLake's own question of a table keeps 1.5 MB: 60 in 40 looks."""

    def look() -> None:
        with catalogue.attached(address(filled), read_only=True) as lake:
            assert lake.read_facts(lake.entries())

    assert grown_by(look, 40) < 15


@pytest.mark.slow
def test_changes_keep_memory_for_a_while_only(filled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "CHANGES_KEPT", 5)

    def change() -> None:
        with catalogue.attached(address(filled), read_only=False) as lake:
            lake.make_tables()

    assert grown_by(change, 40) < 25


@pytest.mark.slow
def test_database_in_use_is_not_closed(filled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "CHANGES_KEPT", 1)
    with engine.connection() as used:
        used.execute("CREATE TABLE of_this_database (number INTEGER)")
        with catalogue.attached(address(filled), read_only=False) as lake:
            lake.make_tables()
        assert used.execute("FROM of_this_database").fetchall() == []
    with engine.connection() as next_one, pytest.raises(duckdb.CatalogException):
        next_one.execute("FROM of_this_database")


def test_database_made_anew_fails_no_other_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "CHANGES_KEPT", 1)

    def change(number: int) -> int:
        with engine.connection() as connection:
            engine.count_change()
            connection.execute(f"CREATE TABLE table_{number} AS SELECT {number} AS number")
            [row] = connection.execute(f"FROM table_{number}").fetchall()
            return int(row[0])

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(change, range(80))) == list(range(80))


@pytest.mark.slow
def test_facts_are_those_of_the_files_at_hand(source: Path, filled: Path) -> None:
    """A commit between two questions of the catalogue: the copy of the one state had the version of the other."""
    with catalogue.attached(address(filled), read_only=True) as lake:
        entries = lake.entries()
        [before] = origins.facts(lake, entries).values()
    add_reject(source, "late")
    into_lake(source, filled)
    with catalogue.attached(address(filled), read_only=True) as lake:
        assert list(origins.facts(lake, entries).values()) == [before]
        [now] = origins.facts(lake, lake.entries()).values()
    assert int(now["data_version"]) > int(before["data_version"])


@pytest.mark.slow
def test_renewed_copies_of_a_lake_stay_small(source: Path, filled: Path, tmp_path: Path) -> None:
    """A dozen commits, each with its copy: two of them are kept, and none grows."""
    copy = snapshot.prepared(address(filled)) / "published"
    sizes = []
    for number in range(12):
        add_reject(source, f"row {number}")
        into_lake(source, filled)
        snapshot.prepared(address(filled))
        sizes.append(sum(file.stat().st_size for file in copy.glob("*.duckdb*") if not file.is_symlink()))
    assert len(list(copy.glob("*"))) <= 4
    assert sizes[-1] <= 1.1 * sizes[3]
    assert differences(source, filled) == []
