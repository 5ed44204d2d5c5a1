"""Sections that would read every attempt of a year read its last quarter, or the runs that tell something."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from polars.testing import assert_frame_equal

from app.explorer import filters, questions
from app.explorer.filters import ClusterState, Situation
from app.explorer.page import pages
from app.explorer.questions import QUARTER, answered, command, window_of
from app.show.answer import Question
from app.window import Window
from queries.warehouse import Reader, open_reader
from tests.support.warehouses import from_everything

if TYPE_CHECKING:
    from pathlib import Path

    from app.explorer.questions import QuestionSpec

BEGIN, END = datetime(2025, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC)
YEAR = filters.resolve(Situation(("c",), (ClusterState("c", BEGIN, END, END, 0, ()),), 1), {})
HEAVY = {
    "/checkpoints": ("waste", "idle-runs"),
    "/gpu-time": ("waste",),
    "/placement": ("placement", "effect"),
    "/reliability": ("survival",),
}
"""Sections with a row for each attempt, by page."""


def spec_of(path: str, name: str) -> QuestionSpec:
    found: QuestionSpec = pages()[path].questions[name]
    return found


@pytest.mark.parametrize(("path", "name"), [(path, name) for path, names in HEAVY.items() for name in names])
def test_a_section_of_all_attempts_reads_a_quarter(path: str, name: str) -> None:
    section = spec_of(path, name)
    assert window_of(section, YEAR) == Window("c", END - timedelta(days=QUARTER), END)
    assert "--since 2025-10-01T00:00:00Z --until 2026-01-01T00:00:00Z" in command(section, "x", YEAR)
    short = filters.resolve(YEAR.situation, {"since": "2025-02-01", "until": "2025-03-01"})
    assert window_of(section, short) == short.window


def whole(reader: Reader) -> Window:
    """All of the computed time."""
    computed = reader.query("computed", cluster="demo").row(0, named=True)
    return Window("demo", computed["since"], computed["until"])


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return from_everything(tmp_path_factory.mktemp("bounded"))


@pytest.mark.slow
def test_advice_on_checkpoints_is_that_among_all_runs(root: Path) -> None:
    """Runs that logged have the same rows, whether the others are read, too, or not."""
    section = spec_of("/checkpoints", "checkpoints")
    with open_reader(root) as reader:
        window = whole(reader)
        every = answered(reader, window, section.question, Question(details=False), ())
        own = answered(reader, window, section.question, Question(details=False), (), section.runs)
    assert (every.of_some, own.of_some) == (False, True)
    assert own.answer.rows["n_checkpoints"].min() > 0  # type: ignore[operator]  # a number: of others there is a sentence
    assert_frame_equal(own.answer.rows, every.answer.rows, check_row_order=False, check_exact=False, rel_tol=1e-12)


def test_runs_that_stand_still_are_the_first_of_all(root: Path) -> None:
    section = spec_of("/checkpoints", "idle-runs")
    with open_reader(root) as reader:
        window = whole(reader)
        every = answered(reader, window, section.question, Question(by="run", details=False), ())
        first, few = (
            answered(reader, window, section.question, Question(by="run", details=False), (), section.runs, most)
            for most in (section.most, 3)
        )
    assert (every.of_some, first.of_some, few.of_some) == (False, False, True)
    shown = ["subject", "gpu_s_idle", "high_gpu_s_idle"]
    assert_frame_equal(first.answer.rows.select(shown), every.answer.rows.select(shown), check_exact=False)
    assert_frame_equal(few.answer.rows.select(shown), every.answer.rows.select(shown).head(3), check_exact=False)


def test_runs_of_a_user_are_not_those_that_logged(root: Path) -> None:
    """A chosen user's runs without a log are in the table, too."""
    with open_reader(root) as reader:
        window = whole(reader)
        user = reader.table("runs")["user"].drop_nulls()[0]
        found = questions._some_runs(reader, window, (("user", user),), "runs_that_logged", 0)  # noqa: SLF001 - which of both counts
        assert found is not None
        assert found.ids == reader.query("runs_with_user", cluster="demo", user=user)["run_id"].to_list()
