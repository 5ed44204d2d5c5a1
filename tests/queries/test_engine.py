"""How much of the machine DuckDB takes: as it was chosen, in every file that is opened."""

from __future__ import annotations

import argparse
import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import polars as pl
import pytest

from app.cli.run_context import settings_and_root
from app.config.settings import Config, parse
from queries.opening import Engine, connect, engine, looked_into, use_engine
from queries.warehouse import ROW_GROUP, open_reader, open_writer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NOW = datetime(2026, 11, 2, tzinfo=UTC)


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    before = engine()
    yield
    use_engine(before)


def set_in(root: Path, name: str) -> str:
    with open_reader(root) as reader:
        return str(reader.frame(f"SELECT current_setting('{name}') AS value")["value"].item())


def test_an_opened_file_shows_no_progress_bar(tmp_path: Path) -> None:
    """It goes to stdout, among the answers; DuckDB shows it by itself where no file is the program."""
    connection = connect(tmp_path / "a.duckdb", tmp_path, read_only=False)
    assert connection.execute("SELECT current_setting('enable_progress_bar')").fetchone() == (False,)
    connection.close()
    with looked_into(tmp_path / "a.duckdb", tmp_path) as looking:
        assert looking.execute("SELECT current_setting('enable_progress_bar')").fetchone() == (False,)


def test_reader_and_writer_take_what_was_chosen(tmp_path: Path) -> None:
    use_engine(Engine(memory_mb=300, threads=1, temp_directory=tmp_path / "spilled"))
    with open_writer(tmp_path / "w", verb="test", now=NOW) as writer:
        mine = writer.frame("SELECT current_setting('threads') AS threads, current_setting('memory_limit') AS memory")
    assert mine.row(0) == (1, "286.1 MiB")  # megabytes as DuckDB says them
    assert set_in(tmp_path / "w", "memory_limit") == "286.1 MiB"
    assert set_in(tmp_path / "w", "temp_directory") == str(tmp_path / "spilled")


@pytest.mark.parametrize("chosen", [None, 1])
def test_threads_after_many_rows_are_those_before(tmp_path: Path, chosen: int | None) -> None:
    use_engine(Engine(threads=chosen))
    reason = pl.Series(["a reason"]).new_from_index(0, ROW_GROUP + 1)
    rows = pl.DataFrame({"reason": reason}).with_columns(
        cluster=pl.lit("c"), source=pl.lit("s"), origin=pl.lit("o"), raw=pl.lit("")
    )
    with open_writer(tmp_path / "w", verb="test", now=NOW) as writer, writer.transaction():
        writer.append("rejects", rows)
        assert writer.height("rejects") == ROW_GROUP + 1
        threads = writer.frame("SELECT current_setting('threads') AS threads")["threads"].item()
    assert threads == (chosen or len(os.sched_getaffinity(0)))


@pytest.mark.slow
def test_what_needs_more_memory_goes_to_files(tmp_path: Path) -> None:
    use_engine(Engine(memory_mb=100, threads=1, temp_directory=tmp_path / "spilled"))
    connection = connect(tmp_path / "one.duckdb", tmp_path, read_only=False)
    connection.execute("CREATE TABLE shuffled AS SELECT hash(range) AS x, range AS y FROM range(4_000_000) ORDER BY x")
    cursor = connection.execute("SELECT x, y FROM shuffled ORDER BY y")
    assert cursor.fetchone() is not None
    assert list((tmp_path / "spilled").iterdir())
    connection.close()


def test_settings_of_a_file_reach_each_verb(tmp_path: Path) -> None:
    (tmp_path / "trackside.toml").write_text('[engine]\nmemory_mb = 300\nthreads = 1\ntemp_directory = "spilled"\n')
    settings_and_root(argparse.Namespace(config=tmp_path / "trackside.toml", warehouse=None))
    assert engine() == Engine(300, 1, tmp_path / "spilled")


def test_nothing_chosen_leaves_all_to_duckdb() -> None:
    assert Config().engine.chosen == Engine()
    assert Engine().as_duckdb() == {}
    assert parse({"engine": {"threads": 3}}, origin="test").engine.chosen.half_the_threads == 1
