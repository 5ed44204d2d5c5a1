"""Differences between attempts on more and fewer blocks: step time, failures, waits; and the detectable difference.

These are comparisons of what happened, not experiments: the same run on more blocks has other nodes, too. Each has an
interval, and the smallest effect that would have been found in 8 of 10 cases, at 5 % (two-sided).

- Steps: within a run and node count, the median step of attempts on the fewest blocks against those on more; over runs
  the Hodges-Lehmann estimate with Wilcoxon's signed-rank interval (Hollander, Wolfe and Chicken 2014, section 3.3).
- Failures: infrastructure interruptions per GPU-day, spanning more than the least against the least, within sizes:
  the Mantel-Haenszel rate ratio. Failures come in series (a run that fails is started again, a bad node hits again), so
  its spread is the larger of Greenland and Robins' (1985), which takes them as independent, and a jackknife over runs;
  its interval is Student's. Its degrees of freedom are one less than the effective number of runs with failures (Kish
  1965): where a few large runs have most of the failures, these few are all that is known.
- Waiting: seconds from eligible to start, the same two, after the median of their size and partition is taken off
  (aligned ranks, Hodges and Lehmann 1962): the shift with Mann-Whitney's interval (as above, section 4.3).
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from metrics import frames
from metrics.failures.survival import Z_95
from metrics.lazy_scipy import special
from metrics.metric import Metric
from metrics.units import DAY_S

if TYPE_CHECKING:
    from metrics.statistics import FloatArray

Z_80: Final = 0.8416212335729143
"""The normal quantile at 0.8."""

MOST: Final = 1500
"""Values of a sample that are compared; of more, so many evenly spaced ones in order are."""

MIN_RUNS: Final = 6
"""With fewer pairs no signed-rank interval reaches 95 %."""

FEWEST: Final = 2.0
"""With failures of fewer runs, evenly, no interval of the ratio of failures is known."""

LARGEST: Final = 700.0
"""Logarithm of the largest ratio."""

MORE: Final = pl.col("spanned") > pl.col("least")


@dataclass(frozen=True)
class Effect:
    """An effect, its 95 % interval, and the smallest one that could have been seen; null: unknown.

    Attributes:
        what: `step_time`, `failures` (ratios) or `waiting` (seconds).
        value: the estimate for spanning more.
        low: lower end of the interval.
        high: upper end.
        detectable: smallest increase found in 8 of 10 cases: a ratio above 1, or seconds.
        n: pairs of runs, or attempts that spanned more.
        n_other: attempts that spanned the least; of steps: attempts compared.
    """

    what: str
    value: float | None = None
    low: float | None = None
    high: float | None = None
    detectable: float | None = None
    n: int = 0
    n_other: int = 0


def effects(rows: pl.DataFrame, step_times: pl.DataFrame, broken: pl.DataFrame, size: pl.Expr) -> pl.DataFrame:
    """The three effects, one row each: the fields of `Effect`.

    Args:
        rows: `metrics.placement.spans.SPANS`, with `run_id`.
        step_times: the attempt key, and `median_s` of the attempt's steps.
        broken: the attempt key of those that infrastructure interrupted.
        size: the size within which attempts are compared.
    """
    known = rows.filter(pl.col("least").is_not_null()).with_columns(size=size)
    each = (of_steps(known, step_times), of_failures(known, broken), of_waiting(known))
    return pl.DataFrame([asdict(one) for one in each], schema_overrides=dict.fromkeys(_NUMBERS, pl.Float64))


_NUMBERS: Final = ("value", "low", "high", "detectable")


def of_steps(rows: pl.DataFrame, step_times: pl.DataFrame) -> Effect:
    """Step time on more groups over that on the fewest, within runs."""
    key = list(frames.ATTEMPT_KEY)
    timed = rows.join(step_times.filter(pl.col("median_s") > 0), on=key).with_columns(log=pl.col("median_s").log())
    run = ["cluster", "run_id", "n_nodes"]
    fewest = pl.col("spanned") == pl.col("spanned").min().over(run)
    pairs = (
        timed.group_by(run)
        .agg(
            (pl.col("log").filter(~fewest).mean() - pl.col("log").filter(fewest).mean()).alias("d"),
            pl.len().alias("attempts"),
        )
        .drop_nulls("d")
    )
    n, compared = pairs.height, int(pairs["attempts"].sum())
    if n == 0:
        return Effect("step_time")
    differences = pairs["d"].sort().to_numpy()
    value, ends = signed_rank(differences)
    spread = float(np.std(differences, ddof=1)) if n >= MIN_RUNS else math.nan
    # Wilcoxon's test needs pi/3 times the pairs of a t-test on normal differences.
    detectable = math.exp((Z_95 + Z_80) * spread * math.sqrt(math.pi / 3 / n)) if n >= MIN_RUNS else None
    low, high = (None, None) if ends is None else (math.exp(ends[0]), math.exp(ends[1]))
    return Effect("step_time", math.exp(value), low, high, detectable, n, compared)


def signed_rank(differences: FloatArray) -> tuple[float, tuple[float, float] | None]:
    """The Hodges-Lehmann estimate of paired differences, and Wilcoxon's 95 % interval; None with fewer than six pairs.

    >>> value, ends = signed_rank(np.array([1.0, 2, 3, 4, 5, 6]))
    >>> value, ends
    (3.5, (1.0, 6.0))
    """
    kept = _thinned(differences)
    n = len(kept)
    upper = np.triu_indices(n)
    walsh = np.sort((kept[upper[0]] + kept[upper[1]]) / 2)
    value = float(np.median(walsh))
    if n < MIN_RUNS:
        return value, None
    depth = _signed_rank_depth(n)
    return value, (float(walsh[depth]), float(walsh[len(walsh) - 1 - depth]))


def _signed_rank_depth(n: int) -> int:
    """Number of Walsh averages outside of the interval at each end: P(W < depth + 1) stays within 2.5 %."""
    if n > 40:
        mean, spread = n * (n + 1) / 4, math.sqrt(n * (n + 1) * (2 * n + 1) / 24)
        return max(0, math.floor(mean - Z_95 * spread - 0.5))
    ways = np.zeros(n * (n + 1) // 2 + 1)
    ways[0] = 1.0
    for rank in range(1, n + 1):
        ways[rank:] += ways[:-rank].copy()
    below = np.cumsum(ways / 2.0**n)
    return max(0, int(np.searchsorted(below, 0.025, side="right")) - 1)


def of_failures(rows: pl.DataFrame, broken: pl.DataFrame) -> Effect:
    """Infrastructure interruptions per GPU-day, spanning more over spanning the least, within sizes."""
    key = list(frames.ATTEMPT_KEY)
    struck = broken.select(key).unique().with_columns(struck=pl.lit(1))
    marked = rows.join(struck, on=key, how="left").with_columns(
        pl.col("struck").fill_null(0), days=pl.col("gpu_s") / DAY_S
    )
    per_run = marked.group_by("cluster", "size", "run_id").agg(
        pl.col("struck").filter(MORE).sum().alias("a"),
        pl.col("struck").filter(~MORE).sum().alias("b"),
        pl.col("days").filter(MORE).sum().alias("t1"),
        pl.col("days").filter(~MORE).sum().alias("t0"),
    )
    both = per_run.filter(
        (pl.col("t1").sum().over("cluster", "size") > 0) & (pl.col("t0").sum().over("cluster", "size") > 0)
    ).sort("cluster", "size", "run_id")
    n, other = _sizes(rows)
    if both.is_empty():
        return Effect("failures", n=n, n_other=other)
    top, bottom, variance = _mantel_haenszel(both)
    spread = _spread(both, top, bottom, variance)
    # Had they been alike, top and bottom would be about equal to the variance.
    inflated = 1.0 if top <= 0 or bottom <= 0 else max(1.0, spread / math.sqrt(variance / (top * bottom)))
    quantile = _quantile(both)
    wide = (quantile + Z_80) * inflated / math.sqrt(variance) if quantile is not None and variance > 0 else None
    detectable = None if wide is None else math.exp(min(LARGEST, wide))
    if top <= 0 or bottom <= 0:
        return Effect("failures", detectable=detectable, n=n, n_other=other)
    ratio = top / bottom
    if quantile is None or not math.isfinite(spread):
        return Effect("failures", ratio, n=n, n_other=other)
    factor = math.exp(min(LARGEST, quantile * spread))
    return Effect("failures", ratio, ratio / factor, ratio * factor, detectable, n, other)


def _quantile(per_run: pl.DataFrame) -> float | None:
    """Student's for 95 %, by how many runs have failures; None: they are fewer than two.

    Runs with unequal numbers of failures count as the number of runs with equal ones that would vary as much (Kish).
    """
    failures = (per_run["a"] + per_run["b"]).cast(pl.Float64)
    squares = float((failures**2).sum())
    effective = float(failures.sum()) ** 2 / squares if squares else 0.0
    return float(special.stdtrit(effective - 1, 0.975)) if effective >= FEWEST else None


def _mantel_haenszel(per_run: pl.DataFrame) -> tuple[float, float, float]:
    """Numerator and denominator of the ratio, and the variance of the numerator were both alike."""
    sums = per_run.group_by("cluster", "size").agg(pl.col("a", "b", "t1", "t0").sum()).sort("cluster", "size")
    a, b, t1, t0 = (sums[name].to_numpy().astype(np.float64) for name in ("a", "b", "t1", "t0"))
    both = t1 + t0
    whole = np.where(both > 0, both, 1.0)
    variance = float(((a + b) * t1 * t0 / whole**2).sum())
    return float((a * t0 / whole).sum()), float((b * t1 / whole).sum()), variance


def _spread(per_run: pl.DataFrame, top: float, bottom: float, variance: float) -> float:
    """Standard error of the ratio's logarithm: failures independent, or each run's alike, whichever is larger."""
    if top <= 0 or bottom <= 0:
        return math.nan
    logs = []
    for (run,), _ in per_run.filter((pl.col("a") > 0) | (pl.col("b") > 0)).group_by(["run_id"], maintain_order=True):
        one, other, _ = _mantel_haenszel(per_run.filter(pl.col("run_id") != run))
        logs.append(math.log(one / other) - math.log(top / bottom) if one > 0 and other > 0 else math.inf)
    # Runs without a failure hardly move the ratio; their number does not, either.
    jackknife = math.sqrt(sum(each**2 for each in logs))
    return max(jackknife, math.sqrt(variance / (top * bottom)))


def of_waiting(rows: pl.DataFrame) -> Effect:
    """Seconds that attempts waited longer before they spanned more than the least."""
    strata = ["cluster", "size", "partition"]
    both = MORE.any().over(strata) & (~MORE).any().over(strata)
    aligned = rows.filter(both & pl.col("waited_s").is_not_null()).with_columns(
        aligned=pl.col("waited_s") - pl.col("waited_s").median().over(strata)
    )
    more = aligned.filter(MORE)["aligned"].sort().to_numpy()
    least = aligned.filter(~MORE)["aligned"].sort().to_numpy()
    if not len(more) or not len(least):
        return Effect("waiting", n=len(more), n_other=len(least))
    value, low, high = shift(more, least)
    detectable = None if low is None or high is None else (high - low) / 2 * (Z_95 + Z_80) / Z_95
    return Effect("waiting", value, low, high, detectable, len(more), len(least))


def shift(more: FloatArray, least: FloatArray) -> tuple[float, float | None, float | None]:
    """The Hodges-Lehmann shift of one sample against another, and Mann-Whitney's 95 % interval by the normal form.

    None where the samples are so small that it has no such interval.

    >>> shift(np.array([4.0, 5, 6, 7, 8]), np.array([1.0, 2, 3, 4, 5]))
    (3.0, 0.0, 6.0)
    """
    one, other = _thinned(more), _thinned(least)
    differences = np.sort((one[:, None] - other[None, :]).ravel())
    # The interval is that of the samples as they are: fewer values make the grid coarser, not the samples smaller.
    m, n = len(more), len(least)
    depth = (0.5 - Z_95 * math.sqrt((m + n + 1) / (12 * m * n))) * len(differences)
    value = float(np.median(differences))
    if depth < 1:
        return value, None, None
    place = math.floor(depth) - 1
    return value, float(differences[place]), float(differences[len(differences) - 1 - place])


def _thinned(values: FloatArray) -> FloatArray:
    """In order, and no more than `MOST`: evenly spaced ones."""
    ordered = np.sort(values)
    if len(ordered) <= MOST:
        return ordered
    return ordered[np.linspace(0, len(ordered) - 1, MOST).round().astype(np.int64)]


def _sizes(rows: pl.DataFrame) -> tuple[int, int]:
    more = int(rows.select(MORE.sum()).item() or 0)
    return more, rows.height - more


# Published metrics --------------------------------------------------------------------------------------------------

METRICS = (
    Metric(
        name="spanning_effect",
        unit="ratio",
        summary="Differences that go with spanning more blocks: step time and failures as ratios, waiting as seconds.",
        formula=(
            "step time: within a run and node count, attempts on more groups / on the fewest, Hodges-Lehmann over "
            "runs; failures: Mantel-Haenszel ratio of infrastructure interruptions per GPU-day within sizes; waiting: "
            "aligned Hodges-Lehmann shift within size and partition"
        ),
        query="step_times_of_attempts",
        function=effects,
        interval=(
            "95 %: signed ranks, Greenland-Robins or a jackknife over runs with Student's quantile, Mann-Whitney; with "
            "the smallest effect found in 8 of 10 cases"
        ),
        source=(
            "Hollander, Wolfe and Chicken (2014) 3.3, 4.3; Greenland and Robins (1985); Kish (1965); "
            "Hodges and Lehmann (1962)"
        ),
        show="placement",
    ),
)
