"""New warehouses of tests are copies of an empty one: they are what the product makes."""

from pathlib import Path

import pytest

from queries.warehouse import Reader, open_reader, open_writer
from tests.support.warehouses import NOW, from_scratch

DESCRIBED = "SELECT * EXCLUDE (database_oid, schema_oid, table_oid, database_name) FROM duckdb_columns() ORDER BY ALL"


@pytest.mark.slow
def test_prepared_warehouse_is_as_one_made_from_scratch(tmp_path: Path) -> None:
    with open_writer(tmp_path / "prepared", verb="test", now=NOW):
        pass
    with from_scratch(), open_writer(tmp_path / "scratch", verb="test", now=NOW):
        pass
    with open_reader(tmp_path / "prepared") as one, open_reader(tmp_path / "scratch") as other:
        assert one.frame(DESCRIBED).equals(other.frame(DESCRIBED))
        assert facts(one) == facts(other)
        assert one.meta("warehouse") != other.meta("warehouse")
        assert one.table("schema_steps").equals(other.table("schema_steps"))
    assert mode(tmp_path / "prepared") == mode(tmp_path / "scratch")


def facts(reader: Reader) -> tuple[str | None, ...]:
    return tuple(reader.meta(name) for name in ("data_version", "views"))


def mode(root: Path) -> dict[str, int]:
    return {str(file.relative_to(root)): file.stat().st_mode for file in root.rglob("*")}
