"""A lake whose files are in a bucket: what is read is fetched, checked, and kept here."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from queries.errors import CorruptWarehouseError, WarehouseError
from queries.lake import engine, snapshot
from queries.lake.storage import storage_of
from queries.sandbox.run import user_sql
from queries.warehouse import open_reader, vacuum
from tests.lab.object_store import BUCKET, ObjectStore
from tests.queries.lake.support import (
    add_reject,
    address,
    differences,
    files_without_need,
    into_lake,
    out_of_lake,
    samples,
)
from tests.support.warehouses import NOW

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    with ObjectStore(tmp_path_factory.mktemp("objects")) as made:
        yield made


@pytest.fixture
def bucket(store: ObjectStore, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """Where the files of a lake are going to be."""
    for name, value in store.environment.items():
        monkeypatch.setenv(name, value)
    return f"s3://{BUCKET}/{tmp_path.name}"


@pytest.mark.slow
def test_lake_in_a_bucket_is_the_warehouse(source: Path, lake: Path, bucket: str, tmp_path: Path) -> None:
    into_lake(source, lake, bucket)
    assert differences(source, lake) == []
    there, here = samples(lake), samples(source)
    assert all(there[name].equals(rows) for name, rows in here.items())
    out_of_lake(lake, tmp_path / "back")
    assert differences(source, tmp_path / "back") == []


@pytest.mark.slow
def test_sql_of_a_person_reads_samples_of_a_bucket(source: Path, lake: Path, bucket: str) -> None:
    into_lake(source, lake, bucket)
    question = "SELECT COUNT(*) AS n, SUM(gpu_util) AS used FROM gpu_samples"
    assert user_sql(lake, question)[0].equals(user_sql(source, question)[0])


@pytest.mark.slow
def test_samples_are_fetched_when_they_are_read(source: Path, lake: Path, bucket: str) -> None:
    into_lake(source, lake, bucket)
    with open_reader(lake) as reader:
        files = [reader.root / file.path for file in reader.files()]
        assert files
        assert not any(file.exists() for file in files)
        reader.table("steps")
        fetched = {file.path for file in reader.files() if (reader.root / file.path).exists()}
    assert fetched
    assert all(path.startswith("raw/steps/") for path in fetched)


@pytest.mark.slow
def test_object_that_is_gone_is_named(source: Path, lake: Path, bucket: str) -> None:
    into_lake(source, lake, bucket)
    storage = storage_of(bucket)
    gone = next(name for name in storage.sizes("") if "main.node_states" in name)
    storage.remove([gone])
    with (
        pytest.raises(CorruptWarehouseError, match=rf"{bucket}/{gone}, .* cannot be read: there is no such"),
        open_reader(lake),
    ):
        pass


@pytest.mark.slow
def test_vacuum_empties_a_bucket_of_replaced_files(source: Path, lake: Path, bucket: str) -> None:
    into_lake(source, lake, bucket)
    add_reject(source, "late")
    into_lake(source, lake)
    removed = vacuum(lake, before=NOW.replace(year=2100))
    assert removed.replaced > 0
    assert files_without_need(address(lake)) == set()
    assert differences(source, lake) == []


@pytest.mark.slow
def test_database_made_anew_has_the_keys_again(
    source: Path, lake: Path, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "CHANGES_KEPT", 1)
    into_lake(source, lake, bucket)
    assert differences(source, lake) == []
    add_reject(source, "late")
    assert into_lake(source, lake).rows == 1
    monkeypatch.setattr(snapshot, "CHECK_INTERVAL_S", 0)
    assert differences(source, lake) == []


def test_refusal_of_a_bucket_has_no_secret(
    source: Path, lake: Path, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("queries.lake.storage._RETRIES", 0)
    with pytest.raises(WarehouseError, match="there is no such bucket") as refused:
        into_lake(source, lake, bucket.replace(BUCKET, "no-such-bucket"))
    assert "hunter2" not in str(refused.value)
