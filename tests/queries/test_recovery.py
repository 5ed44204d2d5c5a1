"""Damage of a database file that `doctor` looks for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb
import pytest

from queries import recovery
from queries.errors import CorruptWarehouseError
from queries.warehouse import open_writer
from tests.support.warehouses import NOW

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("damage", "lost"),
    [("DROP TABLE stored.attempts", "attempts"), ("ALTER TABLE gpu_time DROP COLUMN cause", "gpu_time.cause")],
)
def test_contents_of_a_file_that_lacks_a_part_are_refused(tmp_path: Path, damage: str, lost: str) -> None:
    """A reader of every row cannot notice what is not there."""
    with open_writer(tmp_path / "w", verb="test", now=NOW):
        pass
    file = tmp_path / "w" / "warehouse.duckdb"
    with duckdb.connect(file) as connection:
        connection.execute(damage)
    with pytest.raises(CorruptWarehouseError, match=f"it lacks {lost}\n"):
        recovery.contents(file, whole=True)
