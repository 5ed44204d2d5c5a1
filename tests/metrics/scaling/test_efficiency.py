"""Strong and weak scaling, by tokens and by time; times to a target."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import polars as pl
import pytest

from metrics import frames
from metrics.scaling.efficiency import by_time, by_tokens, comparable
from metrics.scaling.speeds import run_speeds
from metrics.scaling.target import logged_times, official_time, time_to_train, timed, token_times
from tests.metrics.scaling.runs import BEGIN, steps_of


def runs(*rows: pl.DataFrame, seconds: dict[str, float | None] | None = None) -> pl.DataFrame:
    times = pl.DataFrame(list((seconds or {}).items()), {"run_id": frames.TEXT, "seconds": frames.NUMBER}, orient="row")
    return run_speeds(pl.concat(rows)).join(times, on="run_id", how="left", maintain_order="left")


def test_efficiency_by_tokens_is_the_quotient_of_what_a_gpu_does() -> None:
    few, many = runs(steps_of("a", gpus=8.0, step_s=2.0)), runs(steps_of("b", gpus=16.0, step_s=1.25))
    result = by_tokens(few, many)
    assert result is not None
    assert result.value == pytest.approx(0.8)


def test_efficiency_by_time_is_gpu_time_to_the_target() -> None:
    few = runs(steps_of("a", gpus=8.0, step_s=2.0, time_factor=1.5), seconds={"a": 100.0})
    many = runs(steps_of("b", gpus=16.0, step_s=2.0), seconds={"b": 80.0})
    result = by_time(few, many)
    assert result is not None
    assert result.value == pytest.approx(150 * 8 / (80 * 16))
    assert by_time(few, runs(steps_of("b", gpus=16.0, step_s=2.0), seconds={"b": None})) is None


def test_unknown_batches_are_not_comparable() -> None:
    assert not comparable((8, None), (16, None), "strong")
    assert not comparable((8, None), (16, 64.0), "weak")
    assert not comparable((8, 64.0), (16, 64.0), "weak")


def events(*rows: tuple[str, str, float, str | None]) -> pl.DataFrame:
    kinds: dict[str, Any] = {"run_id": frames.TEXT, "kind": frames.TEXT, "ts": frames.TIME, "detail": frames.TEXT}
    table = [(name, kind, BEGIN + timedelta(seconds=at), detail) for name, kind, at, detail in rows]
    return pl.DataFrame(table, kinds, orient="row").with_columns(cluster=pl.lit("c"))


def test_official_time_is_from_first_start_to_successful_stop() -> None:
    times = logged_times(
        events(
            ("a", "mlperf_run_start", 10.0, None),
            ("a", "mlperf_run_start", 50.0, None),
            ("a", "mlperf_run_stop", 110.0, "success"),
            ("b", "mlperf_run_start", 0.0, None),
            ("b", "mlperf_run_stop", 90.0, "aborted"),
            ("c", "mlperf_run_start", 0.0, None),
            ("d", "eval", 0.0, None),
        )
    )
    assert times.select("run_id", "status", "seconds").rows() == [
        *(("a", "success", 100.0), ("b", "aborted", None), ("c", None, None)),
    ]


def test_time_to_tokens_counts_what_lies_between_the_steps() -> None:
    first = steps_of("a", gpus=8.0, step_s=2.0)
    later = steps_of("a", gpus=8.0, step_s=2.0).with_columns(pl.col("begin", "end") + 60_000_000)
    steps = pl.concat([later, first, steps_of("b", gpus=8.0, step_s=2.0)])
    times = token_times(steps, 4 * 64 * 1024.0)
    assert times.rows() == [("c", "a", "success", 62.0), ("c", "b", None, None)]


def test_a_run_that_changed_its_size_has_a_time_of_no_size() -> None:
    changed = [steps_of("a", gpus=8.0, step_s=2.0), steps_of("a", gpus=16.0, step_s=1.0)]
    rows = timed(runs(*changed, steps_of("b", gpus=8.0, step_s=2.0), seconds={"a": 5.0, "b": 6.0}))
    assert rows["run_id"].to_list() == ["b"]
    result = time_to_train(rows)
    assert result is not None
    assert (result.value, result.n) == (6.0, 1)


@pytest.mark.parametrize(
    ("seconds", "dropped", "expected"),
    [
        ([30.0, 10.0, 20.0], 1, 40.0),  # of three the one in the middle
        ([10.0, None, 40.0], 1, 80.0),  # a run that missed the target is the slowest
        ([10.0, 20.0, 30.0, 40.0, 90.0], 1, 60.0),
        ([float(each) for each in range(1, 11)], 4, 11.0),
        ([10.0, None, None, 40.0], 1, None),
        ([10.0, 20.0], 1, None),
        ([10.0], 1, None),
    ],
)
def test_official_time_drops_the_fastest_and_slowest(
    seconds: list[float | None], dropped: int, expected: float | None
) -> None:
    """As MLPerf's rules say: Benchmark Results of its training rules."""
    rows = pl.DataFrame(
        {"seconds": seconds, "time_factor": [2.0] * len(seconds)}, schema_overrides={"seconds": pl.Float64}
    )
    result = official_time(rows, dropped=dropped)
    assert (None if result is None else result.value) == expected
