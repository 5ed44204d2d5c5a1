"""A small warehouse, and lakes to copy it into."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.lab.postgres import PostgresLab
from tests.queries.lake.filled import filled_lake
from tests.support.warehouses import from_everything

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Copies of lakes belong to the test, and each is looked for anew."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("queries.lake.snapshot.CHECK_INTERVAL_S", -1.0)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A warehouse with rows in most tables, and samples."""
    return from_everything(tmp_path / "made", gpus=16, days=3)


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """The address of a lake that there is not yet, with its catalogue in a file."""
    return tmp_path / f"ducklake:{tmp_path}/lake.ducklake"


@pytest.fixture
def files(tmp_path: Path) -> str:
    """Where the files of a lake are, or are going to be; with words in it that statements about a lake have."""
    return str(tmp_path / "a LAKE's META. files")


@pytest.fixture
def filled(source: Path, lake: Path, files: str) -> Path:
    """A lake with the warehouse in it, of which this user has a copy."""
    filled_lake(source, lake, Path(files))
    return lake


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresLab]:
    """A PostgreSQL for the tests of this worker; pytest's own folders keep its user out."""
    with tempfile.TemporaryDirectory(prefix="trackside-postgres-") as folder, PostgresLab(Path(folder)) as lab:
        yield lab
