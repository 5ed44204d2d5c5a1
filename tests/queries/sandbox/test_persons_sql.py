"""A person's SQL: one SELECT within the warehouse, with limits of rows, memory and time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from queries.errors import QueryError
from queries.sandbox.run import SandboxLimits, user_sql
from queries.warehouse import open_writer
from tests.queries.test_warehouse import DAY, NOW, put, samples

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse with a user and a day of samples; nobody's SQL changes it."""
    root = tmp_path_factory.mktemp("persons_sql") / "w"
    put(root, "alice")
    with open_writer(root, verb="t", now=NOW) as writer, writer.transaction():
        writer.write_partition("gpu_samples", "c", DAY, samples(0.1))
    return root


@pytest.mark.parametrize(
    "sql",
    [
        "COPY (SELECT 1) TO '/tmp/stolen.csv'",
        "ATTACH '/tmp/other.duckdb'",
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM read_text('/etc/hostname')",
        "SELECT * FROM '/etc/passwd'",
        "SELECT * FROM glob('/etc/*')",
        "SET enable_external_access = true",
        "PRAGMA enable_profiling",
        "INSTALL httpfs",
        "LOAD httpfs",
        "DELETE FROM users",
        "CREATE TABLE t AS SELECT 1",
        "SELECT 1; SELECT 2",
        "",
        "SELEC 1",
    ],
)
def test_a_persons_sql_cannot_leave_the_warehouse(sql: str, root: Path) -> None:
    with pytest.raises(QueryError):
        user_sql(root, sql)


def test_a_persons_sql_may_compute_durations(root: Path) -> None:
    requested = "SELECT INTERVAL 26 HOUR, TIMESTAMP '2026-03-01' - TIMESTAMP '2026-02-27 23:59:58.5', NULL::INTERVAL"
    rows, _ = user_sql(root, requested)
    assert rows.row(0) == ("26:00:00", "1 day 00:00:01.5", None)


def test_a_persons_sql_may_have_columns_of_any_name_and_type(root: Path) -> None:
    requested = "SELECT 1 AS n, 2 AS n, 'infinity'::TIMESTAMPTZ AS t, union_value(k := 1) AS u, [INTERVAL 1 DAY] AS i"
    rows, _ = user_sql(root, requested)
    assert rows.rows(named=True) == [{"n": 1, "n_1": 2, "t": "infinity", "u": "1", "i": "[1 day]"}]


@pytest.mark.slow
def test_a_persons_sql_has_limits(root: Path) -> None:
    rows, more = user_sql(root, "FROM range(100)", SandboxLimits(rows=10))
    assert (rows.height, more) == (10, True)
    assert user_sql(root, "FROM range(100)", SandboxLimits(rows=100))[1] is False
    rows, more = user_sql(root, "SELECT repeat('x', 100000) FROM range(1000)", SandboxLimits(result_mb=1))
    assert more
    assert rows.height < 1000


@pytest.mark.slow
@pytest.mark.parametrize(
    "hungry",
    [
        "SELECT list(range) FROM range(300000000)",
        "SELECT length(repeat('x', 3000000000))",
        "SELECT repeat('x', 500000000) FROM range(10)",
    ],
)
def test_a_persons_sql_cannot_eat_the_machine(hungry: str, root: Path) -> None:
    with pytest.raises(QueryError, match=r"(?i)memory|allocat|large"):
        user_sql(root, hungry, SandboxLimits(memory_mb=100, seconds=30))


@pytest.mark.slow
def test_a_persons_sql_that_does_not_end_is_ended(root: Path) -> None:
    with pytest.raises(QueryError, match="longer than"):
        user_sql(root, "SELECT count(*) FROM range(100000000) a, range(100000000) b", SandboxLimits(seconds=-3))


@pytest.mark.slow
def test_a_persons_sql_cannot_write_where_it_may_read(root: Path) -> None:
    target = root / "raw" / "stolen.csv"
    for sql in (f"COPY (SELECT 1) TO '{target}'", f"EXPLAIN ANALYZE COPY (SELECT 1) TO '{target}'"):
        with pytest.raises(QueryError, match="only one SELECT"):
            user_sql(root, sql)
    assert not target.exists()


def test_times_are_utc_whatever_the_machine_thinks(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "America/New_York")
    rows, _ = user_sql(root, "SELECT TIMESTAMPTZ '2026-10-01T00:00:00Z' AS t")
    assert str(rows["t"].dtype) == "Datetime(time_unit='us', time_zone='UTC')"
