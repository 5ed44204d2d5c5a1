"""What every figure starts from: a cluster between two moments, rows of named queries, sums over the ledger."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import UTC
from typing import TYPE_CHECKING, Protocol

import polars as pl

from metrics import frames

if TYPE_CHECKING:
    from datetime import datetime

CLAIMED_GPUS = 1024.0
"""Size that the vendors' headline MTTF is quoted at."""


class Source(Protocol):
    """What rows are read from: a published copy, or the warehouse being written."""

    def query(self, name: str, **params: object) -> pl.DataFrame:
        """Rows of a named query."""
        ...


@dataclass(frozen=True)
class Window:
    """A cluster between two moments."""

    cluster: str
    since: datetime
    until: datetime


def ledger_sums(source: Source, window: Window, dimension: str) -> pl.DataFrame:
    """GPU-seconds by subject and category within the window."""
    rows = source.query(
        "ledger_sums", cluster=window.cluster, since=window.since, until=window.until, dimension=dimension
    )
    return frames.conform(rows, frames.LEDGER_SUMS)


def as_results(found: pl.DataFrame, window: Window, dimension: str) -> pl.DataFrame:
    """Rows of a metric as rows of the table `cluster_metrics`: `frames.RESULT`."""
    return frames.conform(
        found.with_columns(
            window_from=pl.lit(window.since, dtype=frames.TIME),
            window_until=pl.lit(window.until, dtype=frames.TIME),
            dimension=pl.lit(dimension),
        ),
        frames.RESULT,
    )


def seed(*asked: str) -> int:
    """The same question gets the same resampling, and so the same answer."""
    return int.from_bytes(hashlib.sha256("\0".join(asked).encode()).digest()[:4], "big")


def named(window: Window) -> tuple[str, str, str]:
    """A window in words that are the same wherever it was asked for: for `seed`."""
    return window.cluster, window.since.astimezone(UTC).isoformat(), window.until.astimezone(UTC).isoformat()
