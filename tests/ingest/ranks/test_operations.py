"""Traces of operations: the published artifact's layout in small, in any order, damaged, and with parts missing."""

from __future__ import annotations

import io
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import polars as pl
import pytest

from ingest.errors import InputError
from ingest.load_warnings import LoadWarning
from ingest.ranks.operations import is_parquet, parse_operations
from ingest.ranks.stated import Stated
from metrics import frames
from metrics.stragglers.sessions import session_stragglers

if TYPE_CHECKING:
    from ingest.tables import Parsed

BEGIN = datetime(2026, 1, 5, tzinfo=UTC)
STATED = Stated(begin=BEGIN)


def operations(
    slow: tuple[int, int] | None = None, *, ranks: int = 8, stages: int = 2, steps: int = 30
) -> pl.DataFrame:
    """Forward, backward and a reduction of each worker, whose times count from 0 in every step."""
    rows = []
    for step in range(steps):
        for rank in range(ranks):
            for stage in range(stages):
                times = 2.0 if (rank, stage) == slow else 1.0 + 0.002 * ((step + rank) % 3)
                rows += [
                    (rank, stage, rank * stages + stage, step, "forward-compute", 0.0, times),
                    (rank, stage, rank * stages + stage, step, "backward-compute", 3.0, 2 * times),
                    (rank, stage, rank * stages + stage, step, "grads-reduce-scatter", 7.0, 1.0),
                ]
    names = ["dp_rank", "stage", "rank", "step", "optype", "start_ts", "duration"]
    return pl.DataFrame(rows, schema=names, orient="row")


def packed(rows: pl.DataFrame) -> bytes:
    data = io.BytesIO()
    rows.write_parquet(data)
    return data.getvalue()


def parsed(rows: pl.DataFrame, stated: Stated = STATED) -> Parsed:
    return parse_operations(packed(rows), origin="trace-X.parquet", cluster="c", stated=stated)


def verdict(rows: pl.DataFrame) -> dict[str, object]:
    return session_stragglers([frames.conform(parsed(rows).frames["rank_steps"], frames.RANK_STEPS)]).row(0, named=True)


def test_worker_and_step_is_a_row_of_its_computation() -> None:
    rows = parsed(operations((3, 1))).frames["rank_steps"]
    one = rows.filter(node="trace-X/dp3-stage1", first_step=0).row(0, named=True)
    assert rows.height == 8 * 2 * 30
    assert (one["compute_s"], one["stage"], one["wait_s"], one["run_id"]) == (6.0, 1, None, "trace-X")
    assert (one["ended_at"] - one["started_at"]).total_seconds() == 8.0
    assert one["started_at"] == BEGIN


def test_one_slow_worker_is_named() -> None:
    found = verdict(operations((3, 1)))
    assert (found["cause"], found["nodes"]) == ("node", ["trace-X/dp3-stage1"])


def test_all_workers_slow_is_no_straggler() -> None:
    assert verdict(operations().with_columns(pl.col("duration") * 2))["cause"] == "none"


def test_order_of_operations_changes_nothing() -> None:
    rows = operations((3, 1))
    shuffled = rows.sample(fraction=1.0, shuffle=True, seed=3)
    assert parsed(rows).frames["rank_steps"].equals(parsed(shuffled).frames["rank_steps"])


def test_hosts_of_a_trace_go_before_places() -> None:
    rows = operations().with_columns(node=pl.when(pl.col("dp_rank") < 4).then(pl.lit("n1")))
    assert set(parsed(rows).frames["rank_steps"]["node"].unique()) >= {"n1", "trace-X/dp7-stage1"}


def test_trace_without_ranks_numbers_its_workers() -> None:
    rows = parsed(operations().drop("rank")).frames["rank_steps"]
    assert rows["rank"].unique().sort().to_list() == list(range(16))


def test_times_of_day_need_no_begin_and_others_do() -> None:
    absolute = operations().with_columns(pl.col("start_ts") + BEGIN.timestamp() + 10.0 * pl.col("step"))
    rows = parsed(absolute, Stated()).frames["rank_steps"]
    assert rows["started_at"].min() == BEGIN
    with pytest.raises(InputError, match="--begin"):
        parsed(operations(), Stated())


def test_operations_that_cannot_be_are_rejected() -> None:
    rows = operations()
    wrong = rows.head(4).with_columns(
        duration=pl.Series([-1.0, float("nan"), None, 1.0]), step=pl.Series([0, 0, 0, None], dtype=pl.Int64)
    )
    done = parsed(pl.concat([rows, wrong], how="vertical_relaxed"))
    assert (done.rows_rejected, done.rows_loaded) == (4, 480)


def test_operations_that_are_there_twice_count_once() -> None:
    rows = operations((3, 1))
    twice = parsed(pl.concat([rows, rows.tail(100)]))
    assert twice.frames["rank_steps"].equals(parsed(rows).frames["rank_steps"])
    assert list(twice.warnings) == [LoadWarning("operations_repeated", 100)]


@pytest.mark.parametrize("factor", [1e3, 1e6])
def test_times_in_another_unit_are_refused(factor: float) -> None:
    with pytest.raises(InputError, match="have to be in seconds"):
        parsed(operations().with_columns(pl.col("start_ts", "duration") * factor))


@pytest.mark.parametrize("column", ["dp_rank", "optype", "duration"])
def test_missing_column_is_named(column: str) -> None:
    with pytest.raises(InputError, match=f"missing: {column}"):
        parsed(operations().drop(column))


def test_trace_of_transfers_only_is_refused() -> None:
    with pytest.raises(InputError, match="no computation"):
        parsed(operations().filter(pl.col("optype") == "grads-reduce-scatter"))


@pytest.mark.parametrize("size", [4, 100, 2000])
def test_cut_file_is_refused(size: int) -> None:
    data = packed(operations())[:size]
    assert is_parquet(data)
    with pytest.raises(InputError, match="cannot be read as Parquet"):
        parse_operations(data, origin="x", cluster="c", stated=STATED)
