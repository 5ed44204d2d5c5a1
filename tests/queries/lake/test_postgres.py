"""A lake whose catalogue is in PostgreSQL: killed committers, two at once, and a server that is away."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from queries.errors import LockedWarehouseError, WarehouseError
from queries.lake import catalogue, locks
from queries.lake.address import Address
from queries.warehouse import open_reader, vacuum
from tests.queries.lake.support import add_reject, differences, into_lake, out_of_lake
from tests.support.warehouses import NOW

if TYPE_CHECKING:
    from pathlib import Path

    from tests.lab.postgres import PostgresLab

COPY = "import sys; sys.argv[0] = 'trackside'; from trackside import main; sys.exit(main())"
KILLS = 8


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


def committer(source: Path, address: Address, files: str) -> subprocess.Popen[bytes]:
    """A process that copies a directory into a lake."""
    command = ["warehouse", "copy", str(source), str(address), "--data-path", files, "--quiet"]
    return subprocess.Popen([sys.executable, "-c", COPY, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def files_without_need(address: Address) -> set[str]:
    with catalogue.attached(address, read_only=True) as lake:
        return set(lake.storage.sizes("")) - {entry.name for entry in lake.entries()}


def test_lake_in_postgres_is_the_warehouse(source: Path, lake: Path, files: str, tmp_path: Path) -> None:
    into_lake(source, lake, files)
    assert differences(source, lake) == []
    add_reject(source, "late")
    assert into_lake(source, lake).rows == 1
    out_of_lake(lake, tmp_path / "back")
    assert differences(source, tmp_path / "back") == []


def test_second_committer_is_refused_by_process(source: Path, lake: Path, address: Address, files: str) -> None:
    into_lake(source, lake, files)
    with open_reader(source) as reader:
        origin = str(reader.meta("warehouse"))
    with locks.held(address, origin), pytest.raises(LockedWarehouseError, match=r"by process \d+ on .*, since 2"):
        into_lake(source, lake)
    assert into_lake(source, lake).rows == 0


@pytest.mark.slow
def test_killed_committer_leaves_the_lake_whole(source: Path, lake: Path, address: Address, files: str) -> None:
    """Killed anywhere: readers see the state before or after; in the end all is there once, and no file too many."""
    chance = random.Random(24)
    into_lake(source, lake, files)
    for number in range(KILLS):
        add_reject(source, f"row {number}")
        process = committer(source, address, files)
        time.sleep(chance.uniform(0.5, 8.0))
        process.kill()
        process.communicate()
        with open_reader(lake) as reader, open_reader(source) as whole:
            seen, there = reader.table("rejects")["raw"], whole.table("rejects")["raw"]
        assert seen.is_unique().all()
        assert set(seen) <= set(there)
    into_lake(source, lake)
    assert differences(source, lake) == []
    vacuum(lake, before=NOW.replace(year=2100))
    assert files_without_need(address) == set()


@pytest.mark.slow
def test_crash_of_postgres_is_reported_and_survived(
    source: Path, lake: Path, address: Address, files: str, postgres: PostgresLab
) -> None:
    process = committer(source, address, files)
    time.sleep(4.0)
    postgres.stop("immediate")
    _, message = process.communicate(timeout=300)
    assert b"Traceback" not in message
    with pytest.raises(WarehouseError, match="cannot be reached"), open_reader(lake):
        pass
    postgres.start()
    into_lake(source, lake, files)
    assert differences(source, lake) == []


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
