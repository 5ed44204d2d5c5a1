"""Statistics of samples: quantiles, ratios of sums, their bootstrap intervals, and the effective number of weights.

Expected values are worked out by hand or by scipy, never taken from running the code.
"""

import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from metrics import sample_statistics
from metrics.statistics import FloatArray
from tests.metrics.oracles import ratios

confidences = st.floats(0.5, 0.999)


# --- quantiles ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n", "low", "high", "coverage"),
    [
        (0, -math.inf, math.inf, 1),
        (5, -math.inf, math.inf, 1),
        (6, 1, 6, 1 - 2 / 64),
        (8, 1, 8, 1 - 2 / 256),
        (9, 2, 8, 1 - 2 * 10 / 512),
        (10, 2, 9, 1 - 2 * 11 / 1024),
    ],
)
def test_median_interval_by_hand(n: int, low: float, high: float, coverage: float) -> None:
    values = np.random.default_rng(n).permutation(np.arange(1.0, n + 1))
    assert sample_statistics.quantile_interval(values) == pytest.approx((low, high, coverage))


@pytest.mark.parametrize(("n", "known"), [(35, False), (36, True)])
def test_upper_end_of_the_90th_percentile_takes_36_values(n: int, known: bool) -> None:
    """0.9^35 = 0.02503 and 0.9^36 = 0.0225: the chance that every value lies below."""
    assert math.isfinite(sample_statistics.quantile_interval(np.arange(float(n)), 0.9).high) is known


def test_missing_values_are_left_out_of_a_quantile() -> None:
    values = np.array([3.0, math.nan, 1.0, 2.0, 6.0, 5.0, 4.0, math.nan])
    assert sample_statistics.quantile_interval(values)[:2] == (1, 6)


@given(st.integers(0, 200), st.floats(0.05, 0.95), confidences)
def test_quantile_interval_keeps_its_promise_and_wastes_nothing(n: int, q: float, confidence: float) -> None:
    values = np.arange(1.0, n + 1)
    low, high, coverage = sample_statistics.quantile_interval(values, q, confidence=confidence)
    below = stats.binom(n, q)
    r, s = (0 if math.isinf(low) else low), (n + 1 if math.isinf(high) else high)
    assert coverage == pytest.approx(sum(below.pmf(i) for i in range(int(r), int(s))), abs=1e-9)
    assert coverage >= confidence - 1e-9
    tail = (1 - confidence) / 2
    assert below.cdf(r) >= tail - 1e-9  # one further in on either side would leave too much out
    assert below.sf(s - 2) >= tail - 1e-9


# --- ratios -------------------------------------------------------------------------------------------

PRODUCTIVE, WALL, GPUS = pl.col("productive"), pl.col("wall"), pl.col("gpus")
RUNS = pl.DataFrame({"productive": [95.0, 40.0, 8.0], "wall": [100.0, 50.0, 20.0], "gpus": [1024, 64, 8]})


@pytest.mark.parametrize(
    ("ratio", "expected"),
    [
        (ratios.ratio_of_sums(PRODUCTIVE, WALL), 0.84118),
        (ratios.mean_of_ratios(PRODUCTIVE, WALL), 0.71667),
        (ratios.ratio_of_sums(PRODUCTIVE * GPUS, WALL * GPUS), 0.94463),
        (ratios.weighted_mean_of_ratios(PRODUCTIVE, WALL, WALL * GPUS), 0.94463),
        # weights 1, 1, 1 and GPUs alone are other quantities: (972.8 + 51.2 + 3.2) / 1096
        (ratios.weighted_mean_of_ratios(PRODUCTIVE, WALL, pl.lit(1)), 0.71667),
        (ratios.weighted_mean_of_ratios(PRODUCTIVE, WALL, GPUS), 1027.2 / 1096),
    ],
)
def test_three_averages_of_the_same_runs(ratio: pl.Expr, expected: float) -> None:
    assert RUNS.select(ratio).item() == pytest.approx(expected, rel=1e-5)


ALL_RATIOS = [
    ratios.ratio_of_sums(PRODUCTIVE, WALL),
    ratios.mean_of_ratios(PRODUCTIVE, WALL),
    ratios.weighted_mean_of_ratios(PRODUCTIVE, WALL, GPUS),
]


@pytest.mark.parametrize("ratio", ALL_RATIOS)
@pytest.mark.parametrize("half", [{"wall": None}, {"productive": None}, {"productive": 0.0, "wall": 0.0}])
def test_a_run_without_a_ratio_changes_nothing(ratio: pl.Expr, half: dict[str, float | None]) -> None:
    unknown = pl.DataFrame([{"productive": 50.0, "wall": 50.0, "gpus": 8} | half], schema=RUNS.schema)
    assert pl.concat([RUNS, unknown]).select(ratio).item() == RUNS.select(ratio).item()


@pytest.mark.parametrize("ratio", ALL_RATIOS)
def test_nothing_to_divide_by_gives_null(ratio: pl.Expr) -> None:
    assert RUNS.head(0).select(ratio).item() is None
    assert RUNS.with_columns(wall=pl.lit(0.0)).select(ratio).item() is None


@pytest.mark.parametrize("ratio", ALL_RATIOS)
def test_ratios_work_by_group(ratio: pl.Expr) -> None:
    by_gpus = RUNS.group_by("gpus").agg(value=ratio).sort("gpus")
    assert by_gpus["value"].to_list() == pytest.approx([0.4, 0.8, 0.95])


# --- bootstrap ----------------------------------------------------------------------------------------


def skewed_runs(n: int, seed: int) -> tuple[FloatArray, FloatArray]:
    random = np.random.default_rng(seed)
    wall = random.gamma(2.0, 100.0, n)
    return wall * random.beta(9, 1, n), wall


def test_bootstrap_agrees_with_scipy() -> None:
    productive, wall = skewed_runs(60, seed=5)

    def ratio(top: FloatArray, bottom: FloatArray, axis: int) -> FloatArray:
        return np.asarray(top.sum(axis=axis) / bottom.sum(axis=axis))

    theirs = stats.bootstrap(
        (productive, wall), ratio, paired=True, vectorized=True, n_resamples=40_000, method="BCa", rng=1
    ).confidence_interval
    ours = sample_statistics.bootstrap_ratio_interval(productive, wall, resamples=40_000, seed=2)
    assert ours is not None
    assert ours == pytest.approx((theirs.low, theirs.high), abs=0.05 * (theirs.high - theirs.low))


def test_bootstrap_has_about_its_nominal_coverage() -> None:
    """The productive share is 0.9 by design; 300 sets of runs know the coverage to about 1.4 points."""
    intervals = [
        sample_statistics.bootstrap_ratio_interval(*skewed_runs(100, seed), resamples=1000, seed=seed + 10_000)
        for seed in range(300)
    ]
    covered = [interval is not None and interval.low <= 0.9 <= interval.high for interval in intervals]
    assert 0.90 <= np.mean(covered) <= 0.98


def test_bootstrap_is_repeatable_and_ignores_units_and_empties() -> None:
    productive, wall = skewed_runs(50, seed=8)
    interval = sample_statistics.bootstrap_ratio_interval(productive, wall, seed=1)
    assert interval is not None
    assert interval.low < productive.sum() / wall.sum() < interval.high
    assert sample_statistics.bootstrap_ratio_interval(productive, wall, seed=1) == interval
    in_hours = sample_statistics.bootstrap_ratio_interval(productive / 3600, wall / 3600, seed=1)
    assert in_hours == pytest.approx(interval)
    with_empty = sample_statistics.bootstrap_ratio_interval(np.append(productive, 0.0), np.append(wall, 0.0), seed=1)
    assert with_empty == interval


def test_bootstrap_of_many_runs_is_done_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    productive, wall = skewed_runs(50, seed=8)
    whole = sample_statistics.bootstrap_ratio_interval(productive, wall, seed=1)
    monkeypatch.setattr(sample_statistics, "_RESAMPLED_AT_ONCE", 700)
    assert sample_statistics.bootstrap_ratio_interval(productive, wall, seed=1) == whole


@pytest.mark.parametrize(
    "wall", [[], [100.0] * 19, [0.0] * 50, [1024.0] * 3 + [1.0] * 500, [math.nan] * 50, [100.0] * 40 + [math.inf]]
)
def test_too_few_runs_give_no_interval(wall: list[float]) -> None:
    denominators = np.array(wall)
    with np.errstate(invalid="ignore"):
        assert sample_statistics.bootstrap_ratio_interval(denominators * 0.9, denominators, seed=1) is None


def test_twenty_equal_runs_are_enough() -> None:
    wall = np.full(20, 100.0)
    interval = sample_statistics.bootstrap_ratio_interval(wall * np.linspace(0.8, 1, 20), wall, seed=1)
    assert interval is not None
    assert interval.low < 0.9 < interval.high


def test_equal_ratios_give_a_point() -> None:
    wall = np.linspace(50, 150, 40)
    assert sample_statistics.bootstrap_ratio_interval(wall * 0.5, wall, seed=1) == pytest.approx((0.5, 0.5))


@given(st.lists(st.floats(0.1, 1e6), min_size=1, max_size=50))
def test_effective_number_is_between_one_and_the_number(weights: list[float]) -> None:
    assert 1 - 1e-9 <= sample_statistics.effective_number(np.array(weights)) <= len(weights) + 1e-9


def test_effective_number_of_equal_weights_is_their_number() -> None:
    assert sample_statistics.effective_number(np.full(7, 3.0)) == pytest.approx(7)
    assert math.isnan(sample_statistics.effective_number(np.array([])))
