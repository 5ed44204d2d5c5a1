"""The gate for a person's SQL: what it refuses wherever it stands, and what people need it to admit."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from queries import sql_files
from queries.errors import QueryError
from queries.sandbox import gate
from queries.sandbox.functions import FUNCTIONS
from queries.warehouse import open_reader
from tests.queries.test_warehouse import put

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="module")
def engine() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(config={"autoload_known_extensions": "false"}) as connection:
        connection.execute("CREATE TABLE users (a INT, s VARCHAR, l INT[])")
        connection.execute("CREATE SCHEMA raw; CREATE VIEW raw.samples AS SELECT 1 AS x")
        yield connection


def refusal(engine: duckdb.DuckDBPyConnection, sql: str) -> str | None:
    """What the gate says against a statement; None where it passes."""
    try:
        gate.admit(engine, sql)
    except (QueryError, duckdb.ParserException) as error:
        return str(error)
    return None


_REFUSED: Final = """
    can_cast_implicitly cast_to_type col_description combine constant_or_null create_sort_key current_connection_id
    current_query current_query_id current_role current_setting current_transaction_id currval finalize format_pg_type
    format_type get_block_size get_type getvariable has_any_column_privilege has_column_privilege has_database_privilege
    has_foreign_data_wrapper_privilege has_function_privilege has_language_privilege has_schema_privilege
    has_sequence_privilege has_server_privilege has_table_privilege has_tablespace_privilege icu_sort_key
    in_search_path inet_client_addr inet_client_port inet_server_addr inet_server_port json_deserialize_sql
    json_serialize_plan json_serialize_sql make_type map_to_pg_oid nextval obj_description parse_duckdb_log_message
    pg_collation_is_visible pg_conf_load_time pg_conversion_is_visible pg_function_is_visible pg_get_constraintdef
    pg_get_expr pg_get_viewdef pg_has_role pg_is_other_temp_schema pg_my_temp_schema pg_opclass_is_visible
    pg_operator_is_visible pg_opfamily_is_visible pg_postmaster_start_time pg_sleep pg_table_is_visible
    pg_ts_config_is_visible pg_ts_dict_is_visible pg_ts_parser_is_visible pg_ts_template_is_visible pg_type_is_visible
    remap_struct replace_type shobj_description sleep_ms st_asbinary st_astext st_aswkb st_aswkt st_crs st_geomfromwkb
    st_intersects_extent st_setcrs stats timetz_byte_comparable txid_current variant_bytes_to_variant variant_extract
    variant_normalize variant_to_parquet_variant variant_typeof vector_type write_log
"""
REFUSED_FUNCTIONS: Final = frozenset(_REFUSED.split())


def test_each_function_of_the_engine_is_decided_on(engine: duckdb.DuckDBPyConnection) -> None:
    rows = engine.execute(
        "SELECT DISTINCT lower(function_name) FROM duckdb_functions() WHERE function_type IN "
        "('scalar', 'aggregate', 'macro') AND NOT starts_with(function_name, 'icu_collate_') "
        "AND NOT starts_with(function_name, '__internal_')"
    ).fetchall()
    of_engine = {name for (name,) in rows}
    assert of_engine - FUNCTIONS == REFUSED_FUNCTIONS
    assert FUNCTIONS - of_engine == {"unnest"}


PLACES: Final = (
    "SELECT {}",
    "SELECT 1 WHERE {} IS NULL",
    "SELECT (SELECT {})",
    "SELECT 1 WHERE EXISTS (SELECT {})",
    "SELECT a IN (SELECT {}) FROM users",
    "SELECT a IN (1, {}) FROM users",
    "WITH x AS MATERIALIZED (SELECT {} AS v) SELECT 1",
    "WITH RECURSIVE x AS (SELECT 1 AS v UNION ALL SELECT v + ({} IS NULL)::INT FROM x) SELECT 1",
    "SELECT 1 UNION ALL (SELECT 2 EXCEPT SELECT {})",
    "SELECT list_transform(l, lambda x: {}) FROM users",
    "SELECT [x + {} FOR x IN l IF x > {}] FROM users",
    "SELECT sum(a) FILTER ({} IS NULL) FROM users",
    "SELECT sum(a ORDER BY {}) FROM users",
    "SELECT sum(a) OVER (PARTITION BY {} ORDER BY a ROWS BETWEEN {} PRECEDING AND CURRENT ROW) FROM users",
    "SELECT lag(a, {}) OVER () FROM users",
    "SELECT a FROM users WINDOW w AS (ORDER BY {}) QUALIFY row_number() OVER w > {}",
    "SELECT a FROM users GROUP BY GROUPING SETS ((a, {}), ()) HAVING {} > 0",
    "SELECT a FROM users ORDER BY {} LIMIT {} OFFSET {}",
    "SELECT DISTINCT ON ({}) a FROM users",
    "SELECT * REPLACE ({} AS a) FROM users",
    "SELECT COLUMNS(lambda c: {} IS NULL) FROM users",
    "SELECT CASE {} WHEN 1 THEN {} ELSE {} END",
    "SELECT l[{}:{}] FROM users",
    "SELECT {{'k': {}}}, MAP {{1: {}}}, [{}]",
    "SELECT TRY({}), CAST({} AS VARCHAR), {} BETWEEN {} AND {}",
    "SELECT ({}).k",
    "SELECT u.a FROM users AS u JOIN users AS v ON {} = v.a",
    "SELECT * FROM users, LATERAL (SELECT {})",
    "SELECT * FROM range({})",
    "SELECT * FROM unnest([{}])",
    "SELECT * FROM (VALUES ({}))",
    "FROM users AT (VERSION => {})",
    "FROM (FROM users PIVOT (sum({}) FOR a IN (1)))",
    "FROM (FROM users UNPIVOT (v FOR n IN (a, {})))",
    "SUMMARIZE SELECT {}",
    "DESCRIBE SELECT {}",
)
"""Where an expression can stand."""


@pytest.mark.slow
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    "function", ["json_serialize_plan('SELECT 1')", "getenv('HOME')", "current_setting('threads')"]
)
def test_a_function_is_refused_at_any_position(engine: duckdb.DuckDBPyConnection, place: str, function: str) -> None:
    output = refusal(engine, re.sub(r"\{\}", lambda _: function, place).replace("{{", "{").replace("}}", "}"))
    assert output is not None
    assert "cannot be called here" in output
    assert refusal(engine, re.sub(r"\{\}", "abs(1)", place).replace("{{", "{").replace("}}", "}")) is None


@pytest.mark.slow
@pytest.mark.parametrize(
    "function",
    [
        "json_execute_serialized_sql('{}')",
        "arrow_scan(1, 2, 3)",
        "arrow_scan_dumb(1, 2, 3)",
        "pandas_scan(140571733223403)",
        "python_map_function(1)",
        "query('SELECT 1')",
        "query_table('users')",
        "seq_scan('users')",
        "summary((SELECT 1))",
        "read_text('/etc/passwd')",
        "read_blob('/etc/passwd')",
        "read_csv('/etc/passwd')",
        "read_parquet('x.parquet')",
        "parquet_scan('x.parquet')",
        "parquet_metadata('x.parquet')",
        "parquet_bloom_probe('x', 'y', 1)",
        "read_duckdb('x.duckdb')",
        "read_json_objects('x')",
        "sniff_csv('x')",
        "glob('/*')",
        "duckdb_settings()",
        "duckdb_secrets()",
        "duckdb_logs()",
        "which_secret('x', 's3')",
        "pragma_storage_info('users')",
        "checkpoint()",
        "force_checkpoint()",
        "enable_logging()",
        "enable_profiling()",
        "test_all_types()",
        "histogram('users', a)",
        "main.query('SELECT 1')",
        "system.main.query('SELECT 1')",
        "QUERY('SELECT 1')",
        "\"query\"('SELECT 1')",
        "from_substrait('x')",
        "postgres_scan('host=1.2.3.4', 'a', 'b')",
    ],
)
@pytest.mark.parametrize(
    "place",
    [
        "FROM {}",
        "SELECT (SELECT count(*) FROM {})",
        "WITH x AS (FROM {}) SELECT 1",
        "SELECT * FROM users LEFT JOIN {} AS t ON true",
        "SELECT list_transform([1], lambda x: (SELECT count(*) FROM {}))",
        "SUMMARIZE FROM {}",
        "FROM users WHERE a IN (SELECT 1 FROM {})",
        "FROM (FROM {} PIVOT (count(*) FOR a IN (1)))",
    ],
)
def test_a_table_function_that_reads_or_runs_is_refused(
    engine: duckdb.DuckDBPyConnection, function: str, place: str
) -> None:
    output = refusal(engine, place.replace("{}", function))
    assert output is not None
    assert "cannot be called here" in output


@pytest.mark.parametrize(
    "sql",
    [
        "FROM 'x.parquet'",
        "FROM '/etc/passwd'",
        'FROM "s3://bucket/x.csv"',
        "WITH \"/etc/passwd\" AS (SELECT 1) SELECT * FROM (SELECT 1), '/etc/passwd'",
        "FROM connection",
        "FROM raw.users",
        "FROM other.raw.samples",
        "FROM duckdb_settings",
        "FROM pg_catalog.pg_settings",
        "SELECT 1; SELECT 2",
        "SELECT $1",
        "SELECT ?",
        "SELECT sum(1) EXPORT_STATE",
        "SELECT 1::GEOMETRY",
        "SELECT 1::VARIANT",
        "SELECT 1::users",
        "SHOW VARIABLES",
        "PIVOT users ON a",
        "EXPLAIN ANALYZE SELECT 1",
        "PRAGMA table_info('users')",
        "CALL pragma_version()",
        "SET threads = 1",
        "RESET threads",
        "COPY users TO 'x'",
        "EXPORT DATABASE 'x'",
        "ATTACH 'x'",
        "USE raw",
        "CREATE TEMP TABLE t AS SELECT 1",
        "CREATE MACRO f() AS 1",
        "INSERT INTO users VALUES (1)",
        "CHECKPOINT",
        "BEGIN",
        "PREPARE p AS SELECT 1",
        "EXECUTE p",
        "DEALLOCATE p",
        "VACUUM",
        "COMMENT ON TABLE users IS 'x'",
        "LOAD httpfs",
        "",
        "--",
        "SELECT " + "+".join(["a"] * 5_000) + " FROM users",
        "SELECT " + "[" * 5_000 + "1" + "]" * 5_000,
        "SELECT " + "(SELECT " * 2_000 + "1" + ")" * 2_000,
    ],
)
def test_what_is_not_one_select_of_known_parts_is_refused(engine: duckdb.DuckDBPyConnection, sql: str) -> None:
    assert refusal(engine, sql) is not None


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("ATTACH 'x'", "ATTACH is refused"),
        ("COPY users TO 'x'", "COPY is refused"),
        ("SELECT 1; SELECT 2", "2 statements are refused"),
        ("SELECT abss(1)", "did you mean abs()?"),
        ("FROM usrs", "there is no table 'usrs'; did you mean users?"),
        ("PIVOT users ON a", "PIVOT needs its values"),
        ("--", "there is no statement"),
    ],
)
def test_what_was_refused_is_named(engine: duckdb.DuckDBPyConnection, sql: str, said: str) -> None:
    assert said in str(refusal(engine, sql))


@pytest.mark.parametrize(
    "sql",
    [
        "FROM users",
        "FROM memory.main.users",
        "FROM Raw.Samples",
        'SELECT "A" FROM "users"',
        "SELECT * EXCLUDE (a) RENAME (s AS t) FROM main.users",
        "SELECT a::DECIMAL(10, 2), s::ENUM('x'), l::INT[3], {'a': 1}::STRUCT(a INT), s COLLATE nocase FROM users",
        "SELECT current_date, current_timestamp, date_trunc('day', now()), INTERVAL 3 DAY, s::JSON->>'x' FROM users",
        "SELECT quantile_cont(a, 0.5), percentile_cont(0.5) WITHIN GROUP (ORDER BY a), arg_max(s, a) FROM users",
        "SELECT s SIMILAR TO 'x', s ILIKE 'y%', s NOT LIKE 'z' ESCAPE '!', s GLOB '*' FROM users",
        "SELECT * FROM users ASOF JOIN raw.samples ON a >= x",
        "FROM users POSITIONAL JOIN users AS v",
        "SELECT unnest(l), if(a > 1, 2, 3), ifnull(a, 0), s[1:2], trim(BOTH 'x' FROM s) FROM users",
        "PIVOT users ON a IN (1, 2) USING sum(a)",
        "UNPIVOT users ON a INTO NAME n VALUE v",
        "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 9) FROM t",
        "SELECT table_name FROM information_schema.tables",
        "SELECT comment FROM duckdb_columns() WHERE table_name = 'users'",
        "FROM users USING SAMPLE 10 ROWS",
        "FROM users TABLESAMPLE bernoulli(10%)",
        "TABLE users",
        "VALUES (1), (2)",
        "SHOW TABLES",
        "SHOW ALL TABLES",
        "DESCRIBE users",
        "SUMMARIZE users",
        "SELECT sum(COLUMNS('a|b')) FROM users",
        "SELECT * FROM users ORDER BY ALL LIMIT 10%",
        "SELECT s.upper().length() FROM users;",
        "-- a comment\nSELECT 1 /* another */",
    ],
)
def test_common_questions_are_admitted(engine: duckdb.DuckDBPyConnection, sql: str) -> None:
    assert refusal(engine, sql) is None


@pytest.mark.slow
def test_all_our_own_queries_would_pass(tmp_path: Path) -> None:
    put(tmp_path / "w", "alice")
    selects = [view.sql.partition(" AS\n")[2] for view in sql_files.views()]
    selects += [check.sql.replace("$since", "TIMESTAMPTZ '2026-11-01'") for check in sql_files.checks()]
    assert len(list(filter(None, selects))) > 20
    with open_reader(tmp_path / "w") as reader:
        for sql in filter(None, selects):
            assert refusal(reader._connection, sql) is None, sql  # noqa: SLF001 - what a person gets


FORBIDDEN: Final = REFUSED_FUNCTIONS | {"query", "arrow_scan", "read_text", "unheard_of"}
NAMES: Final = st.sampled_from(sorted(FORBIDDEN))
SAFE: Final = st.sampled_from(["1", "a", "'x'", "abs(a)", "upper(s)", "NULL", "(SELECT max(a) FROM users)"])


def expressions() -> st.SearchStrategy[str]:
    """Expressions, some of which call what must not be called."""
    calls = st.builds("{}({})".format, NAMES, SAFE)
    forms = ["({} + {})", "[{}, {}]", "coalesce({}, {})", "CASE WHEN {} THEN {} END", "list_filter([{}], lambda y: {})",
             "(SELECT {} WHERE {})", "({}, {})", "{} IN (SELECT {})", "{} OVER (ORDER BY {})"]  # fmt: skip
    more = st.sampled_from(forms)
    return st.recursive(SAFE | calls, lambda inner: st.builds(str.format, more, inner, inner), max_leaves=12)


@given(st.sampled_from(PLACES), expressions())
def test_no_nesting_hides_a_call(engine: duckdb.DuckDBPyConnection, place: str, inner: str) -> None:
    sql = place.replace("{}", inner).replace("{{", "{").replace("}}", "}")
    called = {name.lower() for name in re.findall(r"(\w+)\(", sql)}
    if refusal(engine, sql) is None:
        assert not called & FORBIDDEN


JSON: Final = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=8)
    | st.sampled_from(["SELECT_NODE", "FUNCTION", "abs"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                ["class", "type", "id", "function_name", "function", "map", "key", "table_name", "node", "name"]
            )
            | st.text(max_size=5),
            inner,
            max_size=5,
        )
    ),
    max_leaves=30,
)


@given(JSON)
def test_a_tree_of_any_form_is_judged(tree: Any) -> None:
    try:
        gate.check(json.dumps({"statements": [{"node": tree}]}), {"users"})
    except QueryError:
        return
    kinds = re.findall(r'"class": "(\w+)"', json.dumps(tree))
    assert set(kinds) <= {"FUNCTION"}


PIECES: Final = [*"aF1'\"$()[]{},.;*-/ \n\0", "SELECT ", "FROM ", "users ", "range", "::", "WITH ", "\ud800"]


@given(st.lists(st.sampled_from(PIECES)).map("".join))
def test_no_text_gets_past_the_gate_but_as_select(engine: duckdb.DuckDBPyConnection, sql: str) -> None:
    if refusal(engine, sql) is None:
        assert [each.type for each in engine.extract_statements(sql)] == [duckdb.StatementType.SELECT]
