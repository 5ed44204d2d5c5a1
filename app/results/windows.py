"""What the numbers of a window share: sums over the ledger, the shape of result rows, the seed of resampling."""

from __future__ import annotations

import hashlib
from datetime import UTC
from typing import TYPE_CHECKING

import polars as pl

from metrics import frames

if TYPE_CHECKING:
    from app.window import RowSource, Window

CLAIMED_GPUS = 1024.0
"""Size that the vendors' headline MTTF is quoted at."""


def ledger_sums(source: RowSource, window: Window, dimension: str) -> pl.DataFrame:
    """GPU-seconds by subject and category within the window."""
    rows = source.query(
        "ledger_sums", cluster=window.cluster, since=window.since, until=window.until, dimension=dimension
    )
    return frames.conform(rows, frames.LEDGER_SUMS)


def as_results(found: pl.DataFrame, window: Window, dimension: str) -> pl.DataFrame:
    """Rows of a metric as rows of the table `cluster_metrics`: `frames.RESULT`."""
    return frames.conform(
        found.with_columns(
            window_from=frames.instant(window.since),
            window_until=frames.instant(window.until),
            dimension=pl.lit(dimension),
        ),
        frames.RESULT,
    )


def seed(*parts: str) -> int:
    """The same question gets the same resampling, and so the same answer."""
    return int.from_bytes(hashlib.sha256("\0".join(parts).encode()).digest()[:4], "big")


def named(window: Window) -> tuple[str, str, str]:
    """A window in words that do not depend on how it was requested: for `seed`."""
    return window.cluster, window.since.astimezone(UTC).isoformat(), window.until.astimezone(UTC).isoformat()
