"""Numbers that are read as `compute` stored them are those that would be computed, in every standard window."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, TypeVar
from unittest import mock

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from app.compute.stored_results import standard_windows
from app.results.failures.failure_rates import failure_rate_rows, stored_failure_rates
from app.results.headlines import headlines
from app.results.mfu import allocated_to_runs
from app.results.registry import in_standard_windows, results
from app.results.stored import stored_rows
from app.window import Window
from queries.warehouse import open_reader
from tests.support.warehouses import from_everything

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from app.window import RowSource
    from queries.warehouse import Reader

T = TypeVar("T")


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    with open_reader(from_everything(tmp_path_factory.mktemp("stored"))) as opened:
        yield opened


@pytest.fixture(scope="module")
def windows(reader: Reader) -> list[Window]:
    computed = reader.query("computed", cluster="demo").row(0, named=True)
    return standard_windows(Window("demo", computed["since"], computed["until"]))


class NothingStored:
    """A source of which nothing stored can be read."""

    def __init__(self, source: RowSource) -> None:
        self._source = source

    def query(self, name: str, **params: object) -> pl.DataFrame:
        rows = self._source.query(name, **params)
        return rows.clear() if name.startswith("stored_") else rows

    def memo(self, key: tuple[object, ...], make: Callable[[], T]) -> T:
        return self._source.memo(key, make)


@pytest.mark.slow
def test_stored_result_rows_are_those_of_their_functions(reader: Reader, windows: list[Window]) -> None:
    functions = {function for function in results().values() if in_standard_windows(function)}
    assert len(functions) > 5
    assert len(windows) > 3
    for window in windows:
        metrics = set()
        for function in functions:
            rows = function(reader, window)
            metrics |= set(rows["metric"])
            stored = stored_rows(reader, window, rows["metric"].to_list())
            assert stored is not None
            assert_frame_equal(stored, rows)
        period = {"cluster": "demo", "since": window.since, "until": window.until}
        of_all_data_only = {"mfu_wall", "mfu_estimated"}
        assert set(reader.query("stored_cluster_metrics", **period)["metric"]) - of_all_data_only == metrics


def test_stored_failure_rates_are_those_of_their_function(reader: Reader, windows: list[Window]) -> None:
    for window in windows:
        stored = stored_failure_rates(reader, window)
        assert stored is not None
        assert_frame_equal(stored, failure_rate_rows(NothingStored(reader), window))
        assert_frame_equal(failure_rate_rows(reader, window), stored)


@pytest.mark.slow
def test_headlines_of_standard_windows_need_no_ledger(reader: Reader, windows: list[Window]) -> None:
    for window in windows:
        assert headlines(Refusing(reader), window) == headlines(NothingStored(reader), window)


class Refusing(NothingStored):
    """A source that refuses to read what numbers are computed from."""

    REFUSED: Final = {"ledger_sums", "attempts", "exposures", "endings", "steps", "runs", "interruptions"}

    def query(self, name: str, **params: object) -> pl.DataFrame:
        assert name not in self.REFUSED
        return self._source.query(name, **params)


def test_without_logged_steps_no_ledger_of_runs_is_read() -> None:
    window = Window("demo", datetime(2026, 10, 1, tzinfo=UTC), datetime(2026, 10, 2, tzinfo=UTC))
    unread = Refusing(mock.Mock())
    assert allocated_to_runs(unread, window, pl.DataFrame()).is_empty()


def test_other_windows_and_sizes_are_computed(reader: Reader, windows: list[Window]) -> None:
    whole = windows[0]
    half = Window(whole.cluster, whole.since, whole.since + (whole.until - whole.since) / 2)
    assert stored_failure_rates(reader, half) is None
    assert failure_rate_rows(reader, half)["n_attempts"].sum() < failure_rate_rows(reader, whole)["n_attempts"].sum()
    assert "90-102" in failure_rate_rows(reader, whole, claimed_gpus=96)["size"].to_list()
