"""Filters by GPU model and scheduler: what is offered, and that a run counts by what its attempts had."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import polars as pl
import pytest

from app.explorer import row_filters
from app.window import Window
from queries.warehouse import open_reader
from tests.ingest.kubernetes.test_together import inputs
from tests.support.command import trackside

if TYPE_CHECKING:
    from collections.abc import Iterator

    from queries.warehouse import Reader

ATTEMPTS = """
    SELECT run_id, scheduler, gpu_model, COALESCE(started_at, eligible_at, submitted_at) AS began, ended_at
    FROM run_attempts INNER JOIN attempts USING (cluster, scheduler, job_id, submitted_at)
    WHERE cluster = 'c'
"""
WHOLE = Window("c", datetime(2026, 10, 1, tzinfo=UTC), datetime(2026, 10, 2, tzinfo=UTC))


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    """Jobs of Slurm and pods of Kubernetes on the same nodes."""
    folder = tmp_path_factory.mktemp("narrowing")
    for each in (*(("ingest", *arguments) for arguments in inputs(folder).values()), ("compute",)):
        done = trackside(*each, "--warehouse", str(folder / "warehouse"))
        assert done.returncode == 0, done.stderr
    with open_reader(folder / "warehouse") as reader:
        yield reader


def test_schedulers_are_offered_where_there_are_several(source: Reader) -> None:
    attempts = source.frame(ATTEMPTS)
    offered = row_filters.choices(source, WHOLE)
    for name in row_filters.CHOSEN_BETWEEN:
        values = sorted(attempts[name].drop_nulls().unique())
        assert offered.get(name, values[:1]) == values
    assert "kubernetes" in offered["scheduler"]


@pytest.mark.slow
@pytest.mark.parametrize("name", row_filters.CHOSEN_BETWEEN)
def test_runs_are_those_with_such_an_attempt(source: Reader, name: str) -> None:
    attempts = source.frame(ATTEMPTS)
    for value in attempts[name].drop_nulls().unique():
        expected = attempts.filter(pl.col(name) == value)["run_id"].unique().sort()
        assert row_filters.runs_of(source, WHOLE, {name: value}).to_list() == expected.to_list()
    assert row_filters.runs_of(source, WHOLE, {name: "another"}).is_empty()


def test_rows_by_run_are_narrowed_by_scheduler(source: Reader) -> None:
    rows = source.frame("SELECT DISTINCT run_id FROM run_attempts WHERE cluster = 'c'")
    kept, beside = row_filters.narrow(source, WHOLE, rows, "run", (("scheduler", "kubernetes"),))
    assert (0 < kept.height < rows.height, beside) == (True, ())
    unable, beside = row_filters.narrow(source, WHOLE, pl.DataFrame({"day": ["a"]}), "day", (("scheduler", "slurm"),))
    assert (unable.height, beside) == (1, ("scheduler",))
