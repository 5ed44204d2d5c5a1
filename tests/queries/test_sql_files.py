"""The SQL files: every table, column, view, query and check says what it is, and each is used."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest

from queries import published, sql_files

ROOT = Path(__file__).parents[2]

LAST_OF_BASELINE = 7
"""Number of the last schema step of the baseline."""


@pytest.mark.parametrize("table", sql_files.all_tables(), ids=lambda table: table.name)
def test_every_column_is_described(table: sql_files.Table) -> None:
    step = [step for step in sql_files.schema_steps() if f"CREATE TABLE {table.name} (" in step.sql][-1]
    body = step.sql.split(f"CREATE TABLE {table.name} (\n")[1].split("\n);")[0]
    added = sum(each.sql.count(f"ALTER TABLE {table.name} ADD COLUMN ") for each in sql_files.schema_steps())
    assert len(table.columns) == len(body.splitlines()) + added
    assert table.description.startswith("One row ")


def test_every_create_table_is_recognised() -> None:
    text = "".join(step.sql for step in sql_files.schema_steps())
    declared = re.findall(r"^CREATE TABLE ([\w.]+)", text, re.MULTILINE)
    replaced = {"run_metrics"}  # a view since: see run_results
    assert replaced <= {view.name for view in sql_files.views()}
    shown = {name.removeprefix("raw.") for name in declared}
    assert len(sql_files.all_tables()) == len(shown - replaced) > 30
    assert text.count("CREATE TABLE") == len(declared)


def test_the_baseline_declares_each_table_once() -> None:
    text = "".join(step.sql for step in sql_files.schema_steps() if step.number <= LAST_OF_BASELINE)
    assert not re.findall("ALTER TABLE|DROP TABLE", text), "what changes a table is a step of its own"
    assert len(set(declared := re.findall("CREATE TABLE (.*) ", text))) == len(declared)


@pytest.fixture(scope="module")
def code() -> str:
    """All that may use a query."""
    return "".join(
        path.read_text()
        for folder in ("app", "dashboards", "ingest", "metrics")
        for path in (ROOT / folder).rglob("*.py")
    )


@pytest.mark.slow
@pytest.mark.parametrize("query", sql_files.named_queries().values(), ids=lambda query: query.name)
def test_every_named_query_is_described_and_used(query: sql_files.Named, code: str) -> None:
    assert re.match(r"(One row|Writes) ", query.description)
    if query.name.startswith(published.PREFIX):
        assert re.search(rf"(FROM|JOIN) {query.name.removeprefix(published.PREFIX)}\b", code), "no board reads it"
    else:
        assert f'"{query.name}"' in code


@pytest.mark.parametrize("view", sql_files.views(), ids=lambda view: view.name)
def test_every_view_is_described_and_named_like_its_file(view: sql_files.Named) -> None:
    assert view.description.startswith("One row ")
    assert f"CREATE OR REPLACE VIEW {view.name} AS" in view.sql


@pytest.mark.parametrize("check", sql_files.checks(), ids=lambda check: check.name)
def test_every_check_describes_its_findings(check: sql_files.Check) -> None:
    assert check.description


def test_step_digest_ignores_comments_but_no_statement() -> None:
    bare = sql_files.SchemaStep(1, "0001_a.sql", "CREATE TABLE t (\n    a BIGINT\n);\n")
    commented = replace(bare, sql="CREATE TABLE t (  -- one row is a t\n    a BIGINT   -- a number\n);\n")
    assert commented.sha256 == bare.sha256
    assert commented.sha256 != replace(commented, sql=commented.sql.replace("BIGINT", "DOUBLE")).sha256


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("it stands above the header", "it precedes the header"),
        ("it stands above sdiag's", "it precedes sdiag's output"),
        (
            "names no cluster, and several have accounting: --cluster NAME says which",
            "names no cluster, and several have accounting: --cluster NAME",
        ),
        ("no JSON that others read: no JSON that others read", "not valid JSON: no JSON that others read"),
        (
            "3 fields instead of 2; which text holds the delimiter cannot be decided",
            "3 fields instead of 2; the text that holds the delimiter is ambiguous",
        ),
        ("duration_s is 1e+09, which cannot be: a year", "duration_s is 1e+09, which is impossible: a year"),
        ("no state: which cannot be", "no state: which cannot be"),
    ],
)
def test_reasons_of_stored_rejects_are_in_the_words_of_now(before: str, after: str) -> None:
    step = next(step for step in sql_files.schema_steps() if step.name == "0054_reworded_rejects.sql")
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE rejects AS SELECT $1 AS reason", [before])
        connection.execute(step.sql)
        assert connection.execute("FROM rejects").fetchall() == [(after,)]
