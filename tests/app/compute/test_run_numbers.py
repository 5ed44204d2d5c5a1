"""Numbers of runs are made again where something that they depend on changed, and nowhere else."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import polars as pl
import pytest

from app.compute.run_numbers import run_digests
from app.config.settings import Rules
from app.results.ettr import expected_run_rows, logged_starts
from app.results.source import CachedSource
from app.window import Window
from queries.warehouse import open_reader, open_writer
from tests.app.compute.test_result_windows import BEGIN, NOW, RULES, Cluster, assert_same_as_full
from tests.support.warehouses import from_everything, simulated

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from app.window import RowSource


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RowSource]:
    with open_reader(from_everything(tmp_path_factory.mktemp("numbers"), days=10)) as reader:
        yield reader


@pytest.fixture(scope="module")
def whole(source: RowSource) -> Window:
    computed = source.query("computed", cluster="demo").row(0, named=True)
    return Window("demo", computed["since"], computed["until"])


class Changed:
    """A source that tells other rows in the place of a query's."""

    def __init__(self, source: RowSource, name: str, rows: pl.DataFrame) -> None:
        self._source, self._name, self._rows = source, name, rows

    def query(self, name: str, **params: object) -> pl.DataFrame:
        return self._rows if name == self._name else self._source.query(name, **params)

    def memo(self, _key: object, make):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201 - as `Source.memo`
        return make()


def changed_runs(source: RowSource, other: RowSource, windows: tuple[Window, Window]) -> set[str]:
    before, after = (
        run_digests(CachedSource(each), window, Rules()) for each, window in zip((source, other), windows, strict=True)
    )
    assert before.height == after.height > 0
    return set(before.join(after, on=["run_id", "inputs"], how="anti")["run_id"])


def test_a_later_end_changes_runs_that_last_longer_only(source: RowSource, whole: Window) -> None:
    earlier = Window("demo", whole.since, whole.until - timedelta(days=2))
    changed = changed_runs(source, source, (whole, earlier))
    members = source.query("attempts", cluster="demo").join(
        source.query("run_attempts", cluster="demo"), on=["cluster", "scheduler", "job_id", "submitted_at"]
    )
    lasts = pl.col("ended_at").is_null() | (pl.max_horizontal("ended_at", "started_at", "submitted_at") > earlier.until)
    assert changed == set(members.filter(lasts)["run_id"])
    assert changed < set(members["run_id"])


@pytest.mark.parametrize("column", ["state", "ended_at", "milli_gpus", "eligible_at"])
def test_another_value_of_an_attempt_changes_its_run_only(source: RowSource, whole: Window, column: str) -> None:
    attempts = source.query("attempts", cluster="demo")
    joined = source.query("run_attempts", cluster="demo")
    which = attempts.filter(pl.col("started_at").is_not_null())["job_id"][3]
    other = {"state": pl.lit("NODE_FAIL"), "milli_gpus": pl.col("milli_gpus") + 1}
    new = other.get(column, pl.col(column) + timedelta(seconds=1))
    altered = attempts.with_columns(pl.when(pl.col("job_id") == which).then(new).otherwise(column).alias(column))
    changed = changed_runs(source, Changed(source, "attempts", altered), (whole, whole))
    assert changed == set(joined.filter(pl.col("job_id") == which)["run_id"])


@pytest.mark.slow
def test_another_day_of_the_ledger_changes_runs_of_that_day(source: RowSource, whole: Window) -> None:
    days = source.query("ledger_days", cluster="demo")
    third = pl.col("day") == days["day"][2]
    altered = days.with_columns(inputs=pl.when(third).then(pl.lit("other")).otherwise("inputs"))
    changed = changed_runs(source, Changed(source, "ledger_days", altered), (whole, whole))
    begin = pl.lit(days["day"][2]).cast(pl.Datetime("us")).dt.replace_time_zone("UTC")
    sizes = source.query("run_sizes", cluster="demo")
    open_or_after = pl.col("ended_at").is_null() | (pl.col("ended_at") >= begin)
    during = sizes.filter(open_or_after & (pl.col("started_at") < begin + pl.duration(days=1)))
    assert changed == set(during["run_id"])
    assert changed < set(sizes["run_id"])


def test_view_expects_the_ettr_that_python_expects(source: RowSource, whole: Window) -> None:
    assert_expected_by_view(source, whole)


def assert_expected_by_view(source: RowSource, whole: Window) -> None:
    by_python = expected_run_rows(source, whole).select("run_id", "expected", "wall_gpu_s", form="regime")
    by_view = source.table("run_metrics").filter(pl.col("metric") == "ettr_expected")  # type: ignore[attr-defined]  # a Reader
    both = by_python.join(by_view, on="run_id", how="full", coalesce=True)
    assert both.height == by_view.height == by_python.height > 0
    assert both["expected"].to_list() == pytest.approx(both["value"].to_list(), rel=1e-12)
    assert both["wall_gpu_s"].to_list() == both["denominator"].to_list()
    assert (both["form"].str.replace_all("_", " ") + " form").to_list() == both["note"].to_list()


@pytest.mark.slow
def test_startup_of_a_run_begun_before_the_span_is_nobodys(tmp_path: Path) -> None:
    """The span begins between a run's start and that of its log: its startup is in the span, and its start is not."""
    with open_writer(tmp_path / "w", verb="test", now=NOW) as writer:
        cluster = Cluster(writer, simulated(), tmp_path, until=BEGIN + timedelta(days=5), logs=True)
        cluster.load()
        start = writer.table("attempts").filter(pl.col("job_id") == LOGGED)["started_at"].item()
        cluster.since = start + timedelta(seconds=1)
        for _ in range(2):
            cluster.compute()
            span = Window("demo", cluster.since, cluster.until)
            assert logged_starts(writer, span).height == 2
            stored = writer.frame(
                "SELECT startup_gpu_s, logged_starts_gpus FROM run_results WHERE job_logged ORDER BY 2"
            )
            assert stored.filter(pl.col("startup_gpu_s") > 0).height == 2
            assert stored["logged_starts_gpus"].null_count() == 1
            assert_expected_by_view(writer, span)
            assert_same_as_full(cluster)
            cluster.until += timedelta(days=1)
            cluster.load()


LOGGED = "4102"
"""A job that ran for days, with a log that began some seconds after it."""


@pytest.mark.slow
def test_a_new_day_keeps_the_rows_of_runs_that_ended(tmp_path: Path) -> None:
    with open_writer(tmp_path / "w", verb="test", now=NOW) as writer:
        cluster = Cluster(writer, simulated(), tmp_path, until=BEGIN + timedelta(days=10))
        cluster.load()
        cluster.compute()
        before = places(writer)
        cluster.until += timedelta(days=1)
        cluster.load()
        cluster.compute()
        after = places(writer)
        ended = set(writer.table("runs").filter(pl.col("ended_at") < BEGIN + timedelta(days=9))["run_id"])
        assert {run: after[run] for run in ended} == {run: before[run] for run in ended}
        assert len(after) > len(before) > len(ended) > 0
        cluster.settings = RULES
        cluster.compute()
        assert not set(places(writer).values()) & set(after.values())


def places(writer) -> dict[str, int]:  # type: ignore[no-untyped-def]  # noqa: ANN001 - a Writer
    """DuckDB's numbers of the rows of runs: a row that is written again has another."""
    rows = writer.frame("SELECT run_id, rowid AS place FROM run_results")
    return dict(rows.iter_rows())
