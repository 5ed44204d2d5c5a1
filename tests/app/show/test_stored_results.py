"""Stored results are what `show` prints of a standard window, and equal what it computes."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from polars.testing import assert_frame_equal

from app.compute.stored_results import standard_windows
from app.results import stored
from app.show.answer import Question
from app.show.questions.cluster.goodput import goodput
from app.show.questions.cluster.lost import lost
from app.show.questions.runs.ettr import ettr
from app.window import Window
from queries.warehouse import open_reader, open_writer
from tests.support.warehouses import from_accounting

if TYPE_CHECKING:
    from collections.abc import Callable

    import polars as pl

    from app.show.answer import Answer
    from queries.warehouse import Reader


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return from_accounting(tmp_path_factory.mktemp("stored"))


def windows(reader: Reader) -> list[Window]:
    computed = reader.query("computed", cluster="tiny").row(0, named=True)
    return standard_windows(Window("tiny", computed["since"], computed["until"]))


@pytest.mark.parametrize("answer", [goodput, ettr])
def test_stored_answer_equals_computed_in_each_standard_window(
    warehouse: Path, answer: Callable[[Reader, Window, Question], Answer]
) -> None:
    with open_reader(warehouse) as reader:
        for window in windows(reader):
            assert stored.stored_rows(reader, window, ()) is not None
            read, computed = (answer(reader, window, Question(details=details)) for details in (False, True))
            assert read.queries == ("stored_cluster_metrics",)
            assert_frame_equal(read.rows, computed.rows, check_exact=True)
            assert (read.notes, read.title, read.columns) == (computed.notes, computed.title, computed.columns)
            assert read.rows.height


def test_other_windows_and_changed_data_are_computed(warehouse: Path, tmp_path: Path) -> None:
    with open_reader(warehouse) as reader:
        whole = windows(reader)[0]
        part = Window("tiny", whole.since, datetime(2026, 10, 3, 5, tzinfo=UTC))
        assert stored.stored_rows(reader, part, ()) is None
        assert goodput(reader, part, Question(details=False)).rows.height
    changed = Path(shutil.copytree(warehouse, tmp_path / "changed"))  # the order of these tests is random
    with open_writer(changed, verb="t", now=whole.until) as writer, writer.transaction():
        pass  # anything may have been written in it
    with open_reader(changed) as reader:
        assert stored.stored_rows(reader, whole, ()) is None


def test_lost_reads_what_failures_cost_as_stored(warehouse: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_reader(warehouse) as reader:
        window = windows(reader)[0]
        with monkeypatch.context() as patched:
            patched.setattr(stored, "stored_rows", lambda *_: None)
            computed = lost(reader, window, Question())
        monkeypatch.setattr(reader, "query", _without("interruptions", reader.query))
        read = lost(reader, window, Question())
    assert read.notes == computed.notes
    assert read.notes


def _without(name: str, query: Callable[..., pl.DataFrame]) -> Callable[..., pl.DataFrame]:
    """The queries but one, which must not be needed."""

    def queried(requested: str, **params: object) -> pl.DataFrame:
        assert requested != name
        return query(requested, **params)

    return queried
