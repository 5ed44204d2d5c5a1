"""Rows of a person's SQL: any type, any name, any value comes as something that all formats can show."""

from __future__ import annotations

import io
import json
from datetime import UTC, date, datetime, time
from typing import TYPE_CHECKING, Any

import duckdb
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app import console
from app.formatting import display
from queries.sandbox.results import answer

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def engine() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        yield connection


def rows(engine: duckdb.DuckDBPyConnection, sql: str, most: int = 1_000) -> pl.DataFrame:
    return pl.DataFrame(pl.from_arrow(answer(engine.sql(sql), most, 2**26)[0]))


TEXTS = [
    ("INTERVAL 26 HOUR", "26:00:00"),
    ("INTERVAL '14 months 1 day'", "1 year 2 months 1 day"),
    ("TIMESTAMP '2026-03-01' - TIMESTAMP '2026-02-27 23:59:58.5'", "1 day 00:00:01.5"),
    ("union_value(k := 7)", "7"),
    ("'infinity'::TIMESTAMP", "infinity"),
    ("'-infinity'::TIMESTAMPTZ", "-infinity"),
    ("'infinity'::DATE", "infinity"),
    ("TIMESTAMP '294247-01-10 04:00:54'", "294247-01-10 04:00:54"),
    ("DATE '10000-01-01'", "10000-01-01"),
    ("TIMESTAMP '0044-03-15 (BC) 12:00:00'", "0044-03-15 (BC) 12:00:00"),
    ("TIMESTAMP_NS '2026-10-01 00:00:00.123456789'", datetime.fromisoformat("2026-10-01T00:00:00.123456")),
    ("TIME '24:00:00'", "24:00:00"),
    ("TIMETZ '01:02:03+04'", "01:02:03+04"),
    ("170141183460469231731687303715884105727::HUGEINT", "170141183460469231731687303715884105727"),
    ("340282366920938463463374607431768211455::UHUGEINT", "340282366920938463463374607431768211455"),
    ("'123456789012345678901234567890123456789012345'::BIGNUM", "123456789012345678901234567890123456789012345"),
    ("'0a' || chr(0)", "0a\0"),
    (r"'\x00\xFF'::BLOB", r"\x00\xFF"),
    ("'101'::BIT", "101"),
    ("'x'::ENUM('x', 'y')", "x"),
    ("'4ac7a9e9-607c-4c8a-84f3-843f0191e3fd'::UUID", "4ac7a9e9-607c-4c8a-84f3-843f0191e3fd"),
    ("MAP {'a': 1}", "{a=1}"),
    ("{'a': INTERVAL 1 DAY}", "{'a': 1 day}"),
    ("[{'a': 'infinity'::DATE}]", "[{'a': infinity}]"),
    ("['infinity'::TIMESTAMP, NULL]", "[infinity, NULL]"),
    ("[1, 2]", [1, 2]),
    ("[1, 2]::INT[2]", [1, 2]),
    ("{'a': DATE '2026-10-01'}", {"a": date(2026, 10, 1)}),
    ("DATE '9999-12-31'", date(9999, 12, 31)),
    ("DATE '0001-01-01'", date(1, 1, 1)),
    ("TIMESTAMPTZ '2026-10-01 00:00:00Z'", datetime(2026, 10, 1, tzinfo=UTC)),
    ("TIME '23:59:59.999999'", time(23, 59, 59, 999999)),
    ("NULL", None),
    ("NULL::INTERVAL", None),
    ("'nan'::DOUBLE::VARCHAR", "nan"),
]


@pytest.mark.parametrize(("expression", "value"), TEXTS)
def test_a_value_comes_as_it_is_or_as_the_text_of_the_engine(
    engine: duckdb.DuckDBPyConnection,
    expression: str,
    value: Any,
) -> None:
    assert rows(engine, f"SELECT {expression} AS v")["v"].to_list() == [value]


def test_columns_of_one_name_all_come(engine: duckdb.DuckDBPyConnection) -> None:
    result = rows(engine, "SELECT 1 AS n, 2 AS n, 3 AS n_1, 4 AS n, INTERVAL 1 DAY AS n")
    assert result.rows() == [(1, 2, 3, 4, "1 day")]
    assert result.columns == ["n", "n_2", "n_1", "n_3", "n_4"]


def test_rows_keep_their_order_where_columns_come_as_text(engine: duckdb.DuckDBPyConnection) -> None:
    sql = (
        "SELECT range AS n, INTERVAL (range) DAY AS d, IF(range = 7, 'infinity'::DATE, DATE '2026-01-01') AS t "
        "FROM range(200000) ORDER BY hash(range) LIMIT 150000"
    )
    result = rows(engine, sql, most=100_000)
    assert result["n"].to_list() == [n for (n,) in engine.execute(f"SELECT n FROM ({sql}) LIMIT 100000").fetchall()]
    assert result.height == 100_000
    assert result.schema == {"n": pl.Int64, "d": pl.String, "t": pl.String}


def test_a_result_of_no_rows_has_its_columns(engine: duckdb.DuckDBPyConnection) -> None:
    assert rows(engine, "SELECT 1 AS a, INTERVAL 1 DAY AS b WHERE false").schema == {"a": pl.Int32, "b": pl.String}


def of_each_type(engine: duckdb.DuckDBPyConnection) -> list[str]:
    return [name for name in engine.sql("FROM test_all_types()").columns if name != "geometry"]


def test_values_of_each_engine_type_are_shown_in_each_format(
    engine: duckdb.DuckDBPyConnection, capsys: pytest.CaptureFixture[str]
) -> None:
    names = of_each_type(engine)
    assert len(names) > 50
    for name in names:
        result = rows(engine, f'SELECT "{name}" AS v FROM test_all_types()')
        console.table("", result, {"v": ("v", "text")})
        assert len(json.loads(console._encoded(result, "json", None))) == result.height  # noqa: SLF001 - as it is written, without a console
        assert console._encoded(result, "csv", None).startswith(b"v\n")  # noqa: SLF001 - the bytes of a file
        assert pl.read_parquet(io.BytesIO(console._encoded(result, "parquet", None))).height == result.height  # noqa: SLF001 - as it is written, without a console
    assert capsys.readouterr().out.count("v") >= len(names)


def test_structures_are_text_in_csv(engine: duckdb.DuckDBPyConnection) -> None:
    result = rows(
        engine, "SELECT {'a': 1, 'b': [DATE '2026-10-01']} AS s, [[1], NULL] AS l UNION ALL SELECT NULL, NULL"
    )
    csv = console._encoded(result, "csv", None).decode()  # noqa: SLF001 - the bytes of a file
    assert pl.read_csv(io.StringIO(csv)).rows() == [('{"a": 1, "b": ["2026-10-01"]}', "[[1], null]"), (None, None)]


VALUES = st.recursive(
    st.sampled_from([expression for expression, _ in TEXTS]),
    lambda inner: st.one_of(
        st.builds("[{0}, NULL]".format, inner),
        st.builds("[{0}]::VARCHAR[1]".format, inner),
        st.builds("{{'k': {0}, 'K 2': {1}}}".format, inner, inner),
        st.builds("MAP {{'k': {0}}}".format, inner),
        st.builds("union_value(u := {0})".format, inner),
        st.builds("to_json({0})".format, inner),
    ),
    max_leaves=5,
)


@given(st.lists(st.tuples(VALUES, st.sampled_from(["a", "A", "a_1", "b"])), min_size=1, max_size=4))
def test_any_columns_are_shown_in_each_format(
    engine: duckdb.DuckDBPyConnection, columns: list[tuple[str, str]]
) -> None:
    result = rows(engine, "SELECT " + ", ".join(f'{value} AS "{name}"' for value, name in columns))
    assert (result.height, result.width) == (1, len(columns))
    for form in ("json", "csv", "parquet"):
        assert console._encoded(result, form, None)  # noqa: SLF001 - the bytes of a file
    assert [display(cell, "text") for cell in result.row(0)]
