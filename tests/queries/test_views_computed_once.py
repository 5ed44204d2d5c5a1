"""Views that many queries expand are tables while rows do not change, and views again afterwards."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING

import polars as pl
import pytest

from queries import sql_files
from queries.reader import EMPTY, EXPANDED, expanded_in
from queries.warehouse import open_reader, open_writer
from tests.queries.test_check_outcomes import attempt

if TYPE_CHECKING:
    from pathlib import Path

    from queries.reader import Connection

NOW = datetime(2026, 11, 22, tzinfo=UTC)


def expands(connection: Connection) -> bool:
    """Whether the plan of a query of attempts contains what `attempt_estimated_gpus` reads."""
    plan = connection.frame("EXPLAIN (FORMAT json) SELECT * FROM attempts")["explain_value"].item()
    assert "resubmissions" in plan
    return "job_gpus" in plan


def test_each_view_follows_those_that_it_reads() -> None:
    sql = {view.name: view.sql for view in sql_files.views()}
    for number, name in enumerate(EXPANDED):
        words = set(re.findall(r"\w+", sql[name]))
        assert not words & set(EXPANDED[number + 1 :])


def test_views_are_tables_within_it_and_views_afterwards(tmp_path: Path) -> None:
    with open_writer(tmp_path, verb="t", now=NOW) as writer:
        with writer.transaction():
            writer.append("stored.attempts", attempt())
        with writer.transaction(), writer.views_computed_once():
            assert not expands(writer)
            with writer.views_computed_once():
                assert not expands(writer)
            assert not expands(writer)
        assert expands(writer)
        with writer.views_computed_once():
            writer.checks()
            assert not expands(writer)


def test_views_are_views_again_after_a_failure(tmp_path: Path) -> None:
    with open_writer(tmp_path, verb="t", now=NOW) as writer:
        with pytest.raises(ZeroDivisionError), writer.transaction(), writer.views_computed_once():
            raise ZeroDivisionError
        assert expands(writer)
        with pytest.raises(Exception, match="no_such_table"), writer.transaction(), writer.views_computed_once():
            writer.append("no_such_table", attempt())
        assert expands(writer)
        with writer.views_computed_once():
            assert not expands(writer)


def test_checks_run_on_a_copy_with_views_of_another_trackside(tmp_path: Path) -> None:
    with open_writer(tmp_path, verb="t", now=NOW) as writer, writer.transaction():
        writer.append("stored.attempts", attempt())
        writer.put_fact("views", "of another")  # there is no other Trackside at hand
    with open_reader(tmp_path) as reader:
        assert reader.checks() == []
        with reader.views_computed_once():
            assert expands(reader)  # hidden by temporary views already


@pytest.mark.parametrize(
    ("sql", "read"),
    [
        ("SELECT * FROM accounted_gpus", ("accounted_gpus",)),
        ("SELECT a.n_gpus FROM attempts AS a", ("accounted_gpus", "attempt_estimated_gpus")),
        (sql_files.named_queries()["attempts"].sql, ("accounted_gpus", "attempt_estimated_gpus", "runaway_attempts")),
        ("SELECT * FROM stored.attempts -- of attempts, and runaway_attempts", ()),
        ("SELECT q.attempts FROM runs AS q", ()),
        ("SELECT * FROM run_attempts", ()),
    ],
)
def test_views_that_a_query_reads(sql: str, read: tuple[str, ...]) -> None:
    assert expanded_in(sql) == read


@pytest.mark.slow
def test_reader_computes_a_view_when_it_is_first_read(tmp_path: Path) -> None:
    with open_writer(tmp_path, verb="t", now=NOW) as writer, writer.transaction():
        writer.append("stored.attempts", attempt())
    with open_reader(tmp_path) as plain:
        plain._may_compute_views = False  # noqa: SLF001 - as it is on a copy of another Trackside
        assert expands(plain)
        rows = {view.name: plain.table(view.name) for view in sql_files.views()}
    with open_reader(tmp_path) as reader:
        assert reader.query("clusters").is_empty()
        assert not temporary(reader)
        assert not expands(reader)
        assert temporary(reader) == {"accounted_gpus", "attempt_estimated_gpus"}
        for name, expected in rows.items():
            assert reader.table(name).equals(expected), name
        assert reader.checks() == []
        assert temporary(reader) == set(EXPANDED)


def temporary(connection: Connection) -> set[str]:
    return set(connection.frame("SELECT table_name FROM duckdb_tables() WHERE temporary")["table_name"])


def test_view_known_to_be_empty_has_its_columns(tmp_path: Path) -> None:
    with open_writer(tmp_path, verb="t", now=NOW) as writer, writer.transaction():
        for view in EMPTY:
            declared = writer.frame(f"DESCRIBE {view}")
            with writer.computed_once(view):
                assert writer.frame(f"DESCRIBE {view}").equals(declared)


def interruption(job: str, *, attempt_no: int = 1) -> pl.DataFrame:
    """One of a run: the components of a heterogeneous job share its attempt's number."""
    at = datetime(2026, 11, 1, tzinfo=UTC)
    row: dict[str, object] = dict.fromkeys(
        ("cluster", "scheduler", "run_id", "state", "class", "cause", "evidence"), "x"
    )
    times = dict.fromkeys(("submitted_at", "ended_at"), at)
    numbers = {"attempt_no": attempt_no, "n_gpus": Decimal(8), "n_nodes": 1, "runtime_s": 60.0}
    return pl.DataFrame([row | times | numbers | {"job_id": job}])


@pytest.mark.parametrize(("numbers", "kind"), [((1, 2), "VIEW"), ((1, 1), "LOCAL TEMPORARY")])
def test_interruptions_are_copied_only_where_some_are_one(tmp_path: Path, numbers: tuple[int, int], kind: str) -> None:
    with open_writer(tmp_path, verb="t", now=NOW) as writer:
        with writer.transaction():
            for job, number in zip(("1", "2"), numbers, strict=True):
                writer.append("interruptions", interruption(job, attempt_no=number))
        expected = writer.frame("FROM run_interruptions ORDER BY ALL")
        assert expected.height == len(set(numbers))
        of_temp = (
            "SELECT table_type FROM information_schema.tables "
            "WHERE table_name = 'run_interruptions' AND table_catalog = 'temp'"
        )
        with writer.transaction(), writer.computed_once("run_interruptions"):
            assert writer.frame(of_temp)["table_type"].to_list() == [kind]
            assert writer.frame("FROM run_interruptions ORDER BY ALL").equals(expected)
        assert writer.frame(of_temp).is_empty()
