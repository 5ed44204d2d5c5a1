"""Scaling efficiency: what a GPU does among many of what it does among few.

Strong scaling keeps the problem: the same recipe and global batch, or the same target whatever the batch. Weak scaling
keeps the share of a GPU: the same recipe and batch per GPU.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from metrics.metric import Claimable, Metric
from metrics.scaling.estimate import Estimate, quotient
from metrics.scaling.speeds import rate, same_batch
from metrics.scaling.target import time_to_train

if TYPE_CHECKING:
    import polars as pl

Scaling: TypeAlias = Literal["strong", "weak"]

SCALINGS: Final[tuple[Scaling, ...]] = ("strong", "weak")


def by_tokens(few: pl.DataFrame, many: pl.DataFrame) -> Estimate | None:
    """Tokens per GPU-second of the larger size over that of the smaller.

    Args:
        few: rows of `metrics.scaling.speeds.run_speeds`: the runs of one recipe, size and batch.
        many: those of a larger size.
    """
    return of_rates(rate(few), rate(many))


def of_rates(small: Estimate | None, large: Estimate | None) -> Estimate | None:
    """The larger size's tokens per GPU-second over the smaller's; None where either is unknown."""
    return None if small is None or large is None else quotient(large, small)


def by_time(few: pl.DataFrame, many: pl.DataFrame) -> Estimate | None:
    """GPU-time to the target of the smaller size over that of the larger: `T1 N1 / (T2 N2)`.

    Args:
        few: the runs of one recipe and size, with `seconds`.
        many: those of a larger size.
    """
    small, large = time_to_train(few), time_to_train(many)
    return None if small is None or large is None else of_times(small, large, few["n_gpus"][0] / many["n_gpus"][0])


def of_times(small: Estimate | None, large: Estimate | None, factor: float) -> Estimate | None:
    """The smaller size's time to the target over the larger's, times `factor`: its GPUs over theirs."""
    return None if small is None or large is None else quotient(small, large, factor)


def comparable(few: tuple[float, float | None], many: tuple[float, float | None], scaling: Scaling) -> bool:
    """Whether two sizes, each GPUs and global batch, are a pair of strong or of weak scaling.

    >>> comparable((512, 1024.0), (1024, 1024.0), "strong"), comparable((512, 1024.0), (1024, 2048.0), "weak")
    (True, True)
    """
    (gpus, batch), (more, larger) = few, many
    if scaling == "strong":
        return same_batch(batch, larger)
    return batch is not None and larger is not None and same_batch(batch / gpus, larger / more)


def sizes(runs: pl.DataFrame) -> list[pl.DataFrame]:
    """The runs of one recipe by size: GPUs and global batch, the fewest GPUs first."""
    ordered = runs.sort("n_gpus", "batch", "run_id", nulls_last=True)
    return [rows for _, rows in ordered.group_by("n_gpus", "batch", maintain_order=True)]


def size_of(runs: pl.DataFrame) -> tuple[float, float | None]:
    """GPUs and global batch of the runs of a size."""
    return runs["n_gpus"][0], runs["batch"][0]


# Published metrics --------------------------------------------------------------------------------------------------


METRICS = (
    Metric(
        name="scaling_efficiency",
        unit="ratio",
        title="Scaling efficiency",
        summary="Speed of a GPU among many, over its speed among few of the same recipe.",
        formula=(
            "tokens per GPU-second of the larger size / of the smaller; by time: GPU-seconds to the target of the "
            "smaller size / of the larger"
        ),
        query="steps",
        function=by_tokens,
        interval=(
            "t interval of the logarithm, 95 %, over runs (of a size with one run: over blocks of its steps); degrees "
            "of freedom by Welch and Satterthwaite"
        ),
        source="ours; by time: official times of MLPerf Training",
        show="scaling",
        claim=Claimable(
            "scaling_efficiency",
            of="runs",
            fields=("gpus", "base_gpus", "scaling", "basis", "runs", "tokens"),
            required=("gpus", "base_gpus", "scaling"),
            categories=False,
            exclusions=False,
        ),
    ),
)
