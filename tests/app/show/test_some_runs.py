"""Questions of a user's runs, answered from the rows of these runs, are those of all, narrowed."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from app.explorer.row_filters import narrow
from app.results.runs.some_runs import SomeRuns
from app.show.answer import Question
from app.show.registry import of_runs, question_of, questions
from app.window import Window
from queries.warehouse import Reader, open_reader
from tests.support.warehouses import from_everything

if TYPE_CHECKING:
    from pathlib import Path

SPLITS = [(name, by) for name, entry in questions().items() for by in entry.of_some_runs]

OF_OTHERS = ("gpu_s_at_maximum", "high_gpu_s_at_maximum")
"""Columns that compare with what others requested; no table shows them by run."""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return from_everything(tmp_path_factory.mktemp("some_runs"))


def _rows(source: Reader, window: Window, name: str, by: str, user: str) -> pl.DataFrame:
    answer = question_of(name)(source, window, Question(by=by, details=False))
    rows, beside = narrow(source, window, answer.rows, by, (("user", user),))
    assert not beside
    return rows.drop(OF_OTHERS, strict=False)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "by"), SPLITS)
def test_own_rows_are_those_among_all(root: Path, name: str, by: str) -> None:
    with open_reader(root) as reader:
        computed = reader.query("computed", cluster="demo").row(0, named=True)
        window = Window("demo", computed["since"], computed["until"])
        users = reader.table("runs")["user"].unique().sort().to_list()
        seen = 0
        for user in users[:5]:
            own = reader.query("runs_with_user", cluster="demo", user=user)["run_id"].to_list()
            rows = _rows(of_runs(reader, window, own), window, name, by, user)
            assert_frame_equal(rows, _rows(reader, window, name, by, user), check_exact=False, rel_tol=1e-12)
            seen += rows.height
    assert seen > 0


@pytest.mark.slow
@pytest.mark.parametrize("name", ["checkpoints", "interruptions"])
def test_one_run_is_as_among_all(root: Path, name: str) -> None:
    with open_reader(root) as reader:
        computed = reader.query("computed", cluster="demo").row(0, named=True)
        window = Window("demo", computed["since"], computed["until"])
        run = reader.table("run_interruptions")["run_id"][0]
        every = question_of(name)(reader, window, Question(details=False)).rows
        own = question_of(name)(reader, window, Question(run=run, details=False)).rows
    assert own.height > 0
    assert_frame_equal(own, every.filter(pl.col("run_id") == run), check_row_order=False)


def test_a_query_of_several_runs_is_read_once(root: Path) -> None:
    with open_reader(root) as reader:
        source = SomeRuns(reader, "demo", ["a"])
        until = datetime(2030, 1, 1, tzinfo=UTC)
        several = {"cluster": "demo", "since": datetime(2020, 1, 1, tzinfo=UTC), "until": until, "runs": ["a", "b"]}
        rows = source.query("runs_with_rank_lines", **several)
        assert source.query("runs_with_rank_lines", **several) is rows
