"""Addresses of lakes: what is one, and that none holds a password."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from queries.errors import NoWarehouseError, WarehouseError
from queries.lake.address import address_of
from queries.lake.faults import explained, without_secrets
from queries.warehouse import open_reader


@pytest.mark.parametrize(
    ("text", "kind", "at"),
    [
        ("ducklake:postgres:dbname=lake host=db", "postgres", "dbname=lake host=db"),
        ("/etc/trackside/ducklake:postgres:service=lake", "postgres", "service=lake"),
        ("ducklake:/srv/lake.ducklake", "duckdb", "/srv/lake.ducklake"),
        ("/etc/trackside/ducklake:lake.db", "duckdb", "/etc/trackside/lake.db"),
        ("ducklake:sqlite:/srv/lake.sqlite", "sqlite", "/srv/lake.sqlite"),
    ],
)
def test_address_is_read_from_a_path(text: str, kind: str, at: str) -> None:
    address = address_of(Path(text))
    assert address is not None
    assert (address.kind, address.at) == (kind, at)


@pytest.mark.parametrize("text", ["trackside-data", "/srv/my-ducklake:x", "/srv/ducklake"])
def test_directory_is_no_lake(text: str) -> None:
    assert address_of(Path(text)) is None


@pytest.mark.parametrize(
    "text",
    [
        "ducklake:postgres:dbname=lake password=hunter2",
        "ducklake:postgres:dbname=lake PASSWORD = hunter2",
        "ducklake:postgres:postgresql://me:hunter2@db/lake",
        "ducklake:postgres:lake",
        "ducklake:postgresql://me:hunter2@db/lake",
        "ducklake:postgresql:dbname=lake password=hunter2",
        "ducklake:Postgres:dbname=lake password=hunter2",
        "ducklake:dbname=lake password=hunter2",
        "ducklake:",
    ],
)
def test_address_with_a_password_is_refused_unrepeated(text: str) -> None:
    with pytest.raises(WarehouseError) as refused:
        address_of(text)
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("kind", ["", "sqlite:"])
def test_a_file_that_is_no_catalogue_is_no_lake(kind: str, tmp_path: Path) -> None:
    other = tmp_path / "passwd"
    other.write_text("root:x:0:0:" * 1000)
    for place in (other, tmp_path):
        with (
            pytest.raises(NoWarehouseError, match="is no catalogue of a lake"),
            open_reader(Path(f"ducklake:{kind}{place}")),
        ):
            pass


def test_message_keeps_no_words_of_libpq() -> None:
    assert "hunter2" not in without_secrets('cannot connect at "host=db password=hunter2": refused')


def test_the_message_has_what_a_read_only_role_lacks() -> None:
    address = address_of("ducklake:postgres:dbname=lake")
    assert address is not None
    error = duckdb.TransactionException(
        "TransactionContext Error: Failed to commit: Failed to commit DuckLake transaction.\n"
        'Failed to execute: ERROR:  permission denied for table ducklake_snapshot: "dbname=lake password=hunter2"'
    )
    said = str(explained(address, error))
    assert "refuses this user in the catalogue of ducklake:postgres:dbname=lake: permission denied for table" in said
    assert "needs SELECT" in said
    assert "hunter2" not in said
