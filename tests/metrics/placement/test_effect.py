"""Effects of spanning more, against tests by enumeration, and with effects that are known."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from itertools import product
from statistics import median
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metrics import frames
from metrics.placement.effect import effects, of_failures, of_steps, of_waiting, shift, signed_rank
from metrics.placement.spans import SPANS

BEGIN = datetime(2026, 9, 1, tzinfo=UTC)
DAY = 86_400.0


def attempt(number: int, *, more: bool, **other: Any) -> dict[str, Any]:
    usual = {
        "cluster": "c", "scheduler": "slurm", "job_id": str(number), "submitted_at": BEGIN, "partition": "main",
        "n_nodes": 4, "milli_gpus": 32_000, "least": 2, "spanned": 3 if more else 2, "gpu_s": DAY, "waited_s": 0.0,
    }  # fmt: skip
    return usual | other


def table(rows: list[dict[str, Any]]) -> pl.DataFrame:
    frame = pl.DataFrame([{name: row.get(name) for name in SPANS} for row in rows], schema=SPANS)
    runs = pl.Series([row.get("run", row["job_id"]) for row in rows], dtype=pl.String)
    return frame.with_columns(size=pl.lit("17-32"), run_id=runs)


def times(rows: list[tuple[int, float]]) -> pl.DataFrame:
    schema: frames.Schema = {name: frames.ATTEMPTS[name] for name in frames.ATTEMPT_KEY}
    schema |= {"median_s": frames.NUMBER}
    listed = [("c", "slurm", str(job), BEGIN, step) for job, step in rows]
    return pl.DataFrame(listed, schema=schema, orient="row")


def outside(differences: list[float], centre: float) -> bool:
    """Whether the exact signed-rank test of this centre is below 5 %, by every choice of signs."""
    values = sorted((abs(each - centre), each > centre) for each in differences)
    ranks = range(1, len(values) + 1)
    seen = sum(rank for rank, (_, above) in zip(ranks, values, strict=True) if above)
    sums = [
        sum(rank for rank, up in zip(ranks, signs, strict=True) if up) for signs in product((0, 1), repeat=len(values))
    ]
    low = sum(each <= seen for each in sums) / len(sums)
    high = sum(each >= seen for each in sums) / len(sums)
    return min(low, high) <= 0.025


def test_signed_rank_interval_inverts_the_exact_test() -> None:
    values = [0.31, -0.12, 0.55, 0.07, 0.83, 0.42, 0.19, 0.66]
    middle, ends = signed_rank(np.array(values))
    assert ends is not None
    walsh = sorted((one + other) / 2 for place, one in enumerate(values) for other in values[place:])
    assert middle == pytest.approx(median(walsh))
    tiny = 1e-9
    assert not outside(values, ends[0] + tiny)
    assert not outside(values, ends[1] - tiny)
    assert outside(values, ends[0] - tiny)
    assert outside(values, ends[1] + tiny)


@given(st.lists(st.floats(-5, 5).map(lambda value: round(value, 6)), min_size=1, max_size=12))
def test_signed_rank_value_is_the_median_of_walsh_averages(values: list[float]) -> None:
    middle, ends = signed_rank(np.array(values))
    walsh = [(one + other) / 2 for place, one in enumerate(values) for other in values[place:]]
    assert middle == pytest.approx(median(walsh), abs=1e-9)
    assert (ends is None) == (len(values) < 6)
    assert ends is None or ends[0] <= middle <= ends[1]


@given(st.lists(st.integers(-9, 9), min_size=1, max_size=8), st.lists(st.integers(-9, 9), min_size=1, max_size=8))
def test_shift_is_the_median_of_all_differences(more: list[int], least: list[int]) -> None:
    value, low, high = shift(np.array(more, dtype=float), np.array(least, dtype=float))
    assert value == median(one - other for one in more for other in least)
    assert low is None or high is None or low <= value <= high


def test_of_steps_finds_what_is_slower_in_every_run() -> None:
    """Eight runs of different speed, each once on two blocks and once on three: 10 % slower there."""
    chance = np.random.default_rng(5)
    rows, steps = [], []
    for run in range(8):
        noise = 1 + 0.01 * chance.standard_normal(2)
        rows += [attempt(2 * run + more, more=bool(more), run=f"r{run}") for more in (0, 1)]
        steps += [(2 * run + more, (1 + 0.1 * more) * (run + 1) * noise[more]) for more in (0, 1)]
    found = of_steps(table(rows), times(steps))
    assert found.low is not None
    assert found.high is not None
    assert found.low < 1.1 < found.high
    assert found.low > 1.05
    assert found.detectable is not None
    assert 1.0 < found.detectable < 1.05
    assert (found.n, found.n_other) == (8, 16)


def test_of_steps_with_few_runs_has_no_interval() -> None:
    rows = [attempt(1, more=False, run="r"), attempt(2, more=True, run="r")]
    found = of_steps(table(rows), times([(1, 1.0), (2, 2.0)]))
    assert found.value == pytest.approx(2)
    assert (found.low, found.high, found.detectable, found.n) == (None, None, None, 1)


def test_of_steps_compares_within_a_run_only() -> None:
    rows = [attempt(1, more=False, run="r"), attempt(2, more=True, run="other")]
    assert of_steps(table(rows), times([(1, 1.0), (2, 2.0)])).n == 0


def test_of_failures_is_the_mantel_haenszel_ratio() -> None:
    """Two sizes by hand: 4 in 20 and 3 in 30 GPU-days, 2 in 10 and 5 in 50."""
    rows = [attempt(number, more=number < 4, gpu_s=5 * DAY if number < 4 else 10 * DAY) for number in range(7)]
    rows += [attempt(10 + number, more=number < 2, gpu_s=5 * DAY if number < 2 else 10 * DAY) for number in range(7)]
    frame = table(rows).with_columns(
        size=pl.when(pl.col("job_id").str.len_chars() == 1).then(pl.lit("a")).otherwise(pl.lit("b"))
    )
    found = of_failures(frame, frame.drop("size"))
    top, bottom = 4 * 30 / 50 + 2 * 50 / 60, 3 * 20 / 50 + 5 * 10 / 60
    variance = 7 * 20 * 30 / 50**2 + 7 * 10 * 50 / 60**2
    spread = max(math.sqrt(variance / (top * bottom)), jackknife(frame))
    assert found.value == pytest.approx(top / bottom)
    student = 2.160369  # 14 runs with a failure each: 13 degrees of freedom
    assert found.low == pytest.approx(top / bottom * math.exp(-student * spread), rel=1e-5)
    assert found.high == pytest.approx(top / bottom * math.exp(student * spread), rel=1e-5)
    assert found.detectable is not None
    assert found.detectable >= math.exp(2.8015 / math.sqrt(variance))


def jackknife(frame: pl.DataFrame) -> float:
    """Each run left out in turn, by hand; every run of `frame` is one attempt that failed."""
    rows = frame.to_dicts()

    def log(without: str | None) -> float:
        tops = bottoms = 0.0
        for size in {row["size"] for row in rows}:
            own = [row for row in rows if row["size"] == size and row["job_id"] != without]
            more = [row for row in own if row["spanned"] > row["least"]]
            t1, t = sum(row["gpu_s"] for row in more), sum(row["gpu_s"] for row in own)
            tops += len(more) * (t - t1) / t
            bottoms += (len(own) - len(more)) * t1 / t
        return math.log(tops / bottoms)

    return math.sqrt(sum((log(row["job_id"]) - log(None)) ** 2 for row in rows))


def test_of_failures_in_series_of_one_run_are_no_evidence() -> None:
    """One run that fails twenty times where it spans more: the six others are too few for an interval."""
    rows = [attempt(number, more=True, run="bad", gpu_s=DAY / 4) for number in range(20)]
    rows += [attempt(100 + number, more=number % 2 == 0, run=f"r{number}") for number in range(60)]
    rows += [attempt(200 + number, more=number % 2 == 0, run=f"s{number}") for number in range(6)]
    frame = table(rows)
    struck = frame.filter((pl.col("run_id") == "bad") | pl.col("run_id").str.starts_with("s"))
    found = of_failures(frame, struck.drop("size"))
    assert found.value is not None
    assert found.value > 3
    assert (found.low, found.high) == (None, None)


def test_failures_of_one_run_alone_give_no_interval() -> None:
    rows = [attempt(number, more=number % 2 == 0, run=f"r{number // 40}", gpu_s=DAY) for number in range(80)]
    frame = table(rows)
    found = of_failures(frame, frame.filter(pl.col("run_id") == "r0", pl.col("job_id").is_in(["1", "2", "4"])))
    assert found.value == pytest.approx(2)
    assert (found.low, found.high, found.detectable) == (None, None, None)


def test_failures_of_few_large_runs_are_no_effect() -> None:
    """Failures and GPU-days of a simulated cluster whose three large runs have 69 of 72 failures; none was planted."""
    held = {"13b": (7, 2280, 7, 5055), "34b": (9, 5652, 1, 1580), "70b": (15, 6537, 31, 22859), "8b": (2, 337, 1, 399)}
    rows: list[dict[str, Any]] = []
    struck: list[str] = []
    for run, (failed_more, days_more, failed, days) in held.items():
        for more, count, gpu_days in ((True, failed_more, days_more), (False, failed, days)):
            struck += [str(len(rows) + number) for number in range(count)]
            share = gpu_days / count * DAY
            rows += [attempt(len(rows) + number, more=more, run=run, gpu_s=share) for number in range(count)]
    frame = table(rows)
    found = of_failures(frame, frame.filter(pl.col("job_id").is_in(struck)))
    assert found.value == pytest.approx(1.66, abs=0.01)
    assert found.low is not None
    assert found.high is not None
    assert found.low < 0.7
    assert found.high > 4


def test_of_waiting_takes_off_what_each_size_waits() -> None:
    """Large jobs wait longer and span more; within a size, those that span more waited 60 s less."""
    rows = []
    for number in range(40):
        more, large = number % 2 == 0, number >= 20
        waited = (5000.0 if large else 100.0) + number % 20 - (60 if more else 0)
        rows.append(attempt(number, more=more, waited_s=waited, partition="large" if large else "main"))
    found = of_waiting(table(rows))
    assert found.value == pytest.approx(-61, abs=1.5)
    assert found.high is not None
    assert found.high < 0


def test_effects_of_nothing_are_unknown() -> None:
    rows = table([]).drop("size")
    found = effects(rows, times([]), rows, pl.lit("any"))
    assert found["value"].to_list() == [None, None, None]
    assert found["what"].to_list() == ["step_time", "failures", "waiting"]
