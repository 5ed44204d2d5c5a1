"""Ranks that compute longer than their peers, for good or for a while, from sums of computation alone.

A rank is compared with the middle one of its peers: the ranks of the same session and pipeline stage, over the same
steps, which have equal work in a job of regular shape. How far the logarithm of that ratio goes beyond what does not
matter (3 %, or as much more as ranks of this session differ anyway) is summed up, and starts again at 0 where the sum
would be negative: Page's cumulative sum. Its highest value shows a slow rank, and its last start the begin. False
discoveries are controlled over all ranks tested.

Sources: computation, since waiting hides a slow rank in wall time: OSDI'25; medians rather than means: NVIDIA's
resiliency extension; Page, Biometrika 41 (1954); how high it goes by chance: Siegmund, Sequential Analysis (1985),
chapter 2; Benjamini and Hochberg, J. R. Statist. Soc. B 57 (1995); intervals from means of batches: Law, Simulation
Modeling and Analysis (2015), section 9.5.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from metrics import frames
from metrics.lazy_scipy import special
from metrics.statistics import CONFIDENCE, adjusted

if TYPE_CHECKING:
    from collections.abc import Iterable

    from metrics.statistics import FloatArray

IMMATERIAL: Final = 1.03
"""Times its peers: GPUs of one kind differ by as much."""

SPREAD: Final = 4.0
"""Robust standard deviations of the session's ranks that count as immaterial, too."""

BIAS: Final = 3.0
"""Of these, how many a rank that is not slow may lie above its peers."""

MIN_STRETCH: Final = 3
"""Intervals beyond what does not matter; what is over sooner is a stall, and no slow rank."""

MIN_PEERS: Final = 3
MIN_INTERVALS: Final = 5
"""With fewer peers or intervals nothing is tested."""

LEVEL: Final = 0.05
"""False discovery rate."""

BATCHES: Final = 20
"""Of consecutive intervals, at most: their means are what the confidence interval of a ratio comes from."""

_POWER_Z: Final = 0.84
"""Standard normal quantile of 0.8."""

_MAD_TO_SIGMA: Final = 1.4826
_RANK: Final = ("cluster", "session", "run_id", "rank", "node", "stage")
_PEERS: Final = ("cluster", "run_id", "session", "stage")

SLOW_RANKS: frames.Schema = {
    "cluster": frames.TEXT,
    "session": frames.TEXT,
    "run_id": frames.TEXT,
    "rank": frames.COUNT,
    "node": frames.TEXT,
    "stage": frames.COUNT,
    "intervals": frames.COUNT,
    "peers": frames.COUNT,
    "ratio": frames.NUMBER,
    "ratio_low": frames.NUMBER,
    "ratio_high": frames.NUMBER,
    "since_step": frames.COUNT,
    "ratio_since": frames.NUMBER,
    "ratio_before": frames.NUMBER,
    "immaterial": frames.NUMBER,
    "detectable": frames.NUMBER,
    "p_value": frames.NUMBER,
    "q_value": frames.NUMBER,
    "slow": frames.FLAG,
}
"""`ratio` is the geometric mean of a rank's seconds over its peers' middle one, with its 95 % confidence interval from
`ratio_low` to `ratio_high`; `since_step` and `ratio_since` are of the stretch in which it was slowest, `ratio_before`
of the time before that (null with fewer than five intervals); `immaterial` is what it is tested against; `detectable`
the lasting ratio that would be flagged in 8 of 10 cases if this rank alone were slow."""

_TESTED: frames.Schema = {
    **{name: kind for name, kind in SLOW_RANKS.items() if name not in {"detectable", "p_value", "q_value", "slow"}},
    **dict.fromkeys(("apart", "sigma", "height"), frames.NUMBER),
    "beyond": frames.COUNT,
    "testable": frames.FLAG,
}


def slow_ranks(parts: Iterable[pl.DataFrame]) -> pl.DataFrame:
    """Test every rank of every session.

    Args:
        parts: `frames.RANK_STEPS`, in any order, each session in one part: memory is that of the largest part. Rows
            without seconds of computation do not count.

    Returns:
        `SLOW_RANKS`, the slowest of each session first. Where peers or intervals are too few, or all ranks of a stage
        are on one node, nothing is tested: `p_value`, `q_value`, `detectable` and `slow` are null.
    """
    return judged([tested(measured(frames.conform(part, frames.RANK_STEPS))) for part in parts])


def tested(times: pl.DataFrame) -> pl.DataFrame:
    """Inputs of each rank's test, a row a rank: sessions can be passed in parts, each session in one part.

    Args:
        times: rows of `measured`.
    """
    ratios = _ratios(times)
    ranks = _with_interval(ratios, _limits(ratios, _means(ratios)))
    ranks = ranks.join(_stretches(ratios, ranks), on=_RANK, how="left", nulls_equal=True, maintain_order="left")
    return frames.conform(ranks, _TESTED)


def judged(parts: Iterable[pl.DataFrame]) -> pl.DataFrame:
    """`SLOW_RANKS` of all parts that `tested` returned: false discoveries are controlled over all of them."""
    ranks = pl.concat([frames.empty(_TESTED), *parts])
    p_values = np.where(ranks["testable"].to_numpy(), _p_values(ranks), np.nan)
    answer = ranks.with_columns(
        detectable=pl.Series(np.where(np.isnan(p_values), np.nan, _detectable(ranks))),
        p_value=pl.Series(p_values),
        q_value=pl.Series(adjusted(p_values)),
    ).with_columns(pl.col("detectable", "p_value", "q_value").fill_nan(None))
    return frames.conform(answer.with_columns(slow=pl.col("q_value") <= LEVEL), SLOW_RANKS).sort(
        "cluster", "run_id", "session", "ratio", "rank", descending=[False, False, False, True, False]
    )


def measured(sums: pl.DataFrame) -> pl.DataFrame:
    """Rows with seconds of computation; of steps that a session ran again, the fastest time of each rank."""
    usable = pl.col("compute_s").is_finite() & (pl.col("compute_s") > 0) & (pl.col("steps") > 0)
    once = ["cluster", "session", "run_id", "rank", "first_step"]
    return sums.filter(usable).sort("compute_s", "steps", "node").unique(once, keep="first", maintain_order=True)


def _ratios(times: pl.DataFrame) -> pl.DataFrame:
    """Logarithm of each rank's seconds per step over the middle of its peers', by interval."""
    interval = [*_PEERS, "first_step", "steps"]
    return (
        times.with_columns(seconds=pl.col("compute_s") / pl.col("steps"))
        .with_columns(middle=pl.col("seconds").median().over(interval), peers=pl.len().over(interval) - 1)
        .filter(pl.col("peers") > 0)
        .select(*_RANK, "first_step", "peers", log=(pl.col("seconds") / pl.col("middle")).log())
        .sort(*_RANK, "first_step")
    )


def _means(ratios: pl.DataFrame) -> pl.DataFrame:
    """Mean of each rank's logarithms, how much they scatter around their middle, and how alike neighbours are."""
    log, centred = pl.col("log"), pl.col("log") - pl.col("log").mean()
    lagged = (centred * centred.shift(1)).sum() / (centred**2).sum()
    return ratios.group_by(_RANK, maintain_order=True).agg(
        mean=log.mean(),
        scatter=_MAD_TO_SIGMA * (log - log.median()).abs().median(),
        intervals=pl.len().cast(pl.Int64),
        peers=pl.col("peers").min().cast(pl.Int64),
        correlation=lagged.fill_nan(0.0).fill_null(0.0).clip(0.0, 0.9),
    )


def _with_interval(ratios: pl.DataFrame, ranks: pl.DataFrame) -> pl.DataFrame:
    """Confidence interval of the ratio from means of batches of consecutive intervals, which are nearly independent."""
    n = pl.len().over(_RANK)
    batch = pl.int_range(pl.len()).over(_RANK) * pl.min_horizontal(n, pl.lit(BATCHES)) // n
    batches = ratios.group_by(*_RANK, batch.alias("batch"), maintain_order=True).agg(pl.col("log").mean())
    spread = batches.group_by(_RANK, maintain_order=True).agg(
        error=(pl.col("log").var() / pl.len()).sqrt(), freedom=pl.len().cast(pl.Float64) - 1
    )
    ranks = ranks.join(spread, on=_RANK, how="left", nulls_equal=True, maintain_order="left")
    quantile = special.stdtrit(ranks["freedom"].to_numpy(), (1 + CONFIDENCE) / 2)
    half = pl.col("error") * pl.Series(quantile).fill_nan(None)
    return ranks.with_columns(ratio_low=(pl.col("mean") - half).exp(), ratio_high=(pl.col("mean") + half).exp())


def _limits(ratios: pl.DataFrame, means: pl.DataFrame) -> pl.DataFrame:
    """Immaterial difference and scatter by chance of each group of peers, and the ranks that can be tested.

    The scatter is that of the middle rank, so a slow one does not hide itself. Neighbouring intervals that are alike
    count for fewer: by their correlation r the variance of a sum grows by (1 + r) / (1 - r).
    """
    log = pl.col("mean")
    apart = _MAD_TO_SIGMA * (log - log.median().over(_PEERS)).abs().median().over(_PEERS)
    alike = pl.col("correlation").median().over(_PEERS)
    nodes = ratios.group_by(_PEERS).agg(nodes=pl.col("node").n_unique())
    return (
        means.with_columns(
            ratio=log.exp(),
            apart=apart,
            immaterial=(SPREAD * apart).exp().clip(lower_bound=IMMATERIAL),
            sigma=pl.col("scatter").median().over(_PEERS) * ((1 + alike) / (1 - alike)).sqrt(),
        )
        .join(nodes, on=_PEERS, how="left", nulls_equal=True, maintain_order="left")
        .with_columns(
            testable=(pl.col("peers") >= MIN_PEERS) & (pl.col("intervals") >= MIN_INTERVALS) & (pl.col("nodes") > 1)
        )
    )


def _stretches(ratios: pl.DataFrame, ranks: pl.DataFrame) -> pl.DataFrame:
    """The highest cumulative sum of each rank, since when, and the ratio from there to the highest."""
    beyond = pl.col("log") - pl.col("immaterial").log()
    total = beyond.cum_sum().over(_RANK)
    low = pl.min_horizontal(pl.lit(0.0), pl.col("total").cum_min().shift(1, fill_value=0.0).over(_RANK))
    sums = (
        ratios.join(ranks.select(*_RANK, "immaterial"), on=_RANK, how="left", nulls_equal=True, maintain_order="left")
        .with_columns(total=total)
        .with_columns(height=pl.col("total") - low)
        .with_columns(stretch=(pl.col("height") - beyond <= 0).cum_sum().over(_RANK))
    )
    top = pl.col("height").arg_max()
    of_top = pl.col("stretch") == pl.col("stretch").get(top)
    inside = of_top & (pl.col("first_step") <= pl.col("first_step").get(top))
    before = pl.col("log").filter(pl.col("stretch") < pl.col("stretch").get(top))
    return sums.group_by(_RANK).agg(
        height=pl.col("height").max(),
        beyond=inside.filter(beyond > 0).sum(),
        since_step=pl.col("first_step").filter(inside).min(),
        ratio_since=pl.col("log").filter(inside).mean().exp(),
        ratio_before=pl.when(before.len() >= MIN_INTERVALS).then(before.mean().exp()),
    )


def _allowance(ranks: pl.DataFrame) -> tuple[FloatArray, FloatArray]:
    """Exponent of the height's tail, and intervals: P(height > h) is at most intervals x exp(-exponent x h).

    By chance the sum drifts down by what does not matter, less three standard deviations by which a rank may be slower
    than its peers anyway.
    """
    limit = np.log(ranks["immaterial"].to_numpy())
    drift = np.maximum(limit - BIAS * ranks["apart"].to_numpy(), limit / 4)
    variance = np.maximum(ranks["sigma"].to_numpy(), 1e-9) ** 2
    return 2 * drift / variance, ranks["intervals"].to_numpy().astype(float)


def _p_values(ranks: pl.DataFrame) -> FloatArray:
    exponent, intervals = _allowance(ranks)
    height = np.maximum(ranks["height"].to_numpy(), 0.0)
    tail = np.minimum(1.0, intervals * np.exp(-np.minimum(exponent * height, 700.0)))
    return np.where(ranks["beyond"].to_numpy() < MIN_STRETCH, 1.0, tail)


def _detectable(ranks: pl.DataFrame) -> FloatArray:
    exponent, intervals = _allowance(ranks)
    strictest = LEVEL / max(1, int(ranks["testable"].sum()))
    height = np.log(intervals / strictest) / exponent
    margin = _POWER_Z * ranks["sigma"].to_numpy() * np.sqrt(intervals)
    ratio: FloatArray = ranks["immaterial"].to_numpy() * np.exp((height + margin) / intervals)
    return ratio
