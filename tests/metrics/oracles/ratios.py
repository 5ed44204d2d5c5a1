"""The ratio of sums, the headline form of ratios, and the averages of ratios that it must not be taken for."""

from __future__ import annotations

import polars as pl

from metrics.exact import exact_mean, exact_sum


def ratio_of_sums(numerator: pl.Expr, denominator: pl.Expr) -> pl.Expr:
    """All numerators over all denominators: the headline form of ETTR, goodput and MFU.

    Multiply both by the GPUs of the run to weight by GPU-time. A row with either half null is left out
    of both sums; null where nothing is left to divide by.

    >>> runs = pl.DataFrame({"productive": [95, 40, 8], "wall": [100, 50, 20], "gpus": [1024, 64, 8]})
    >>> productive, wall, gpus = pl.col("productive"), pl.col("wall"), pl.col("gpus")
    >>> runs.select(ratio_of_sums(productive, wall)).item()  # 143 / 170
    0.8411764705882353
    >>> round(runs.select(ratio_of_sums(productive * gpus, wall * gpus)).item(), 5)  # 99904 / 105760
    0.94463
    """
    both = numerator.is_not_null() & denominator.is_not_null()
    return _ratio(exact_sum(numerator.filter(both)), exact_sum(denominator.filter(both)))


def mean_of_ratios(numerator: pl.Expr, denominator: pl.Expr) -> pl.Expr:
    """The average over rows of each row's own ratio, one row one vote.

    A different quantity from :func:`ratio_of_sums`, and ruled by the many small runs: show both. A row
    without a ratio (denominator zero, or either half null) is left out.

    >>> runs = pl.DataFrame({"productive": [95, 40, 8], "wall": [100, 50, 20]})
    >>> round(runs.select(mean_of_ratios(pl.col("productive"), pl.col("wall"))).item(), 5)
    0.71667
    """
    return exact_mean(_ratio(numerator, denominator))


def weighted_mean_of_ratios(numerator: pl.Expr, denominator: pl.Expr, weight: pl.Expr) -> pl.Expr:
    """The average over rows of each row's own ratio, a row's vote being its weight.

    With the denominator as weight it is :func:`ratio_of_sums`. So the weight must be GPU-*time* to agree
    with the GPU-time weighted headline; GPUs alone would give a short run a full vote. A row without a
    ratio or a weight is left out.

    >>> runs = pl.DataFrame({"productive": [95, 40, 8], "wall": [100, 50, 20], "gpus": [1024, 64, 8]})
    >>> productive, wall, gpus = pl.col("productive"), pl.col("wall"), pl.col("gpus")
    >>> round(runs.select(weighted_mean_of_ratios(productive, wall, wall * gpus)).item(), 5)
    0.94463
    >>> round(runs.select(weighted_mean_of_ratios(productive, wall, gpus)).item(), 5)
    0.93723
    """
    return ratio_of_sums(_ratio(numerator, denominator) * weight, weight)


def _ratio(numerator: pl.Expr, denominator: pl.Expr) -> pl.Expr:
    return pl.when(denominator > 0).then(numerator / denominator)
