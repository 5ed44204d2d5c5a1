"""Numbers as `compute` has stored them: read where a standard window is requested and nothing was changed since."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import polars as pl

from app.results.registry import in_standard_windows
from metrics import frames

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from app.window import RowSource, Window

RESULTS: Final = "results"
"""Fact of a data version: a computation made it, so the results that it stored are those of its rows."""


@dataclass(frozen=True)
class Verdicts:
    """The verdicts on a cluster's claims, as `compute` stores them.

    Attributes:
        rows: of the table `verdicts`.
        facts: facts of the data version by their names: the same verdicts with all that is printed of them.
    """

    rows: pl.DataFrame
    facts: dict[str, str]


def stored_rows(
    source: RowSource, window: Window, metrics: Sequence[str], *, dimension: str = "cluster"
) -> pl.DataFrame | None:
    """The stored result rows of these metrics of a cluster, in the order of `metrics`; None where none can be read.

    A metric that has no row in the window, such as job goodput without run logs, has none here either.

    Args:
        source: where rows are read from.
        window: cluster and time; only standard windows are stored.
        metrics: names of metrics whose functions are registered as stored (`app.results.registry.in_standard_windows`).
        dimension: what the rows are about: the cluster, or its long runs (`app.results.ettr.LONG_RUNS`).
    """
    stored = source.query("stored_cluster_metrics", cluster=window.cluster, since=window.since, until=window.until)
    if stored.is_empty():
        return None
    of_dimension = frames.conform(stored, frames.RESULT).filter(pl.col("dimension") == dimension)
    by_metric = of_dimension.partition_by("metric", as_dict=True)
    rows = [by_metric[name,] for name in metrics if (name,) in by_metric]
    return pl.concat([frames.empty(frames.RESULT), *rows])


def stored_or(
    maker: Callable[..., pl.DataFrame], source: RowSource, window: Window, metrics: Sequence[str]
) -> pl.DataFrame:
    """The result rows of metrics: as stored for a standard window, else as their function computes them."""
    stored = stored_rows(source, window, metrics) if in_standard_windows(maker) else None
    return maker(source, window) if stored is None else stored
