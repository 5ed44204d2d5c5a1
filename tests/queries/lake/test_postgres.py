"""A lake whose catalogue is in PostgreSQL: killed committers, two at once, and a server that is away."""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING

import pytest

from queries.errors import LockedWarehouseError, WarehouseError
from queries.lake import locks
from queries.lake.address import Address
from queries.warehouse import open_reader, vacuum
from tests.queries.lake.support import (
    add_reject,
    differences,
    files_without_need,
    into_lake,
    of_lake,
    of_source,
    out_of_lake,
    statements,
    tried,
)
from tests.support.warehouses import NOW

if TYPE_CHECKING:
    from pathlib import Path

    from tests.lab.postgres import PostgresLab

CRASHES = 24 if os.environ.get("TRACKSIDE_TEST_KILLS") == "all" else 6


@pytest.fixture
def address(postgres: PostgresLab) -> Address:
    """A lake that there is not yet."""
    return Address("postgres", postgres.new_database())


@pytest.fixture
def lake(address: Address, tmp_path: Path) -> Path:
    return tmp_path / str(address)


@pytest.fixture
def files(tmp_path: Path) -> str:
    return str(tmp_path / "files")


@pytest.mark.slow
def test_lake_in_postgres_is_the_warehouse(source: Path, lake: Path, files: str, tmp_path: Path) -> None:
    into_lake(source, lake, files)
    assert differences(source, lake) == []
    add_reject(source, "late")
    assert into_lake(source, lake).rows == 1
    out_of_lake(lake, tmp_path / "back")
    assert differences(source, tmp_path / "back") == []


@pytest.mark.slow
def test_second_committer_is_refused_by_process(source: Path, lake: Path, address: Address, files: str) -> None:
    into_lake(source, lake, files)
    with open_reader(source) as reader:
        origin = str(reader.meta("warehouse"))
    with locks.held(address, origin), pytest.raises(LockedWarehouseError, match=r"by process \d+ on .*, since 2"):
        into_lake(source, lake)
    assert into_lake(source, lake).rows == 0


@pytest.mark.slow
def test_absent_postgres_is_said(lake: Path, source: Path, postgres: PostgresLab) -> None:
    into_lake(source, lake, str(lake.parent / "files"))
    postgres.stop("immediate")
    try:
        with pytest.raises(WarehouseError, match="cannot be reached"), open_reader(lake):
            pass
    finally:
        postgres.start()


@pytest.mark.slow
def test_postgres_that_crashes_leaves_the_lake_whole(
    source: Path, address: Address, postgres: PostgresLab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends at once and is started again, before a statement of a commit or in the middle of one."""

    def crash() -> None:
        postgres.stop("immediate")
        postgres.start()

    lake = tmp_path / str(address)
    into_lake(source, lake, str(tmp_path / "files"))
    add_reject(source, "counted")
    with statements(monkeypatch) as counted:
        into_lake(source, lake)
    chance, refused = random.Random(24), 0
    for number in range(CRASHES):
        add_reject(source, f"row {number}")
        at = chance.randint(counted.done - 30 if number % 2 else 1, counted.done)
        with statements(monkeypatch, at=at, act=crash, into_s=chance.choice((0.0, 0.002))):
            refused += bool(tried(source, lake))
        rejects = of_lake(address)[0]
        assert rejects in {of_source(source)[0] - each for each in range(number + 2)}
    assert refused > 0
    into_lake(source, lake)
    assert differences(source, lake) == []
    vacuum(lake, before=NOW.replace(year=2100))
    assert files_without_need(address) == set()


def test_unreachable_catalogue_has_no_secret(
    postgres: PostgresLab, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PGPASSWORD", "hunter2")
    words = f"dbname=lake host=127.0.0.1 port={postgres.port} user=nobody_knows"
    with (
        pytest.raises(WarehouseError, match="cannot be reached") as refused,
        open_reader(tmp_path / str(Address("postgres", words))),
    ):
        pass
    assert "hunter2" not in str(refused.value)
