"""The slowdown estimated from seconds of computation alone, where no operations are traced.

Wall time of a step is the same on every worker, since they wait for each other; seconds of computation are not. If a
step lasted in proportion to its slowest worker's computation, and the ideal step to the mean worker's, their ratio
would be S. Waiting in the pipeline and communication are not part of it. On two published traces of OSDI'25 the
estimate is 9 % above S (one slow worker, 1.973) and 2 % below it (sequences of unequal length, 1.537). On 78 simulated
jobs it is at most 5 % above S without a pipeline. With 2 to 8 stages a slow worker or stage is overrated (by 7 to 51 %,
median 17 %: the bubble takes as long in the ideal step), and unequal sequences are underrated (by 2 to 36 %, median
21 %: they delay each other from stage to stage).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from collections.abc import Sequence


def estimated_slowdown(sums: pl.DataFrame, *, by: Sequence[str] = ()) -> pl.DataFrame:
    """Mean over the steps of the longest computation, over the mean computation.

    Args:
        sums: `step` and `compute_s` of each worker and step, and the columns `by`. Steps that lack a worker's seconds
            count with those that they have; null is no measurement.
        by: columns of what is estimated each by itself, such as a run.

    Returns:
        The columns `by`, `slowdown`, `steps` and `workers` (the most of a step); no row where no step has two workers.
    """
    by = list(by)
    measured = sums.filter(pl.col("compute_s").is_finite() & (pl.col("compute_s") >= 0))
    steps = measured.group_by(*by, "step").agg(
        longest=pl.col("compute_s").max(), mean=pl.col("compute_s").mean(), workers=pl.len()
    )
    compared = steps.filter((pl.col("workers") > 1) & (pl.col("mean") > 0))
    if not by:
        return compared.select(**_TOTALS).filter(pl.col("steps") > 0)
    return compared.group_by(by).agg(**_TOTALS).sort(by)


_TOTALS = {
    "slowdown": pl.col("longest").mean() / pl.col("mean").mean(),
    "steps": pl.len().cast(pl.Int64),
    "workers": pl.col("workers").max().cast(pl.Int64),
}
