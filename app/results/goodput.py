"""Where the GPU-time went, and what share of it became progress."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from app.results.base import as_results, ledger_sums
from metrics.goodput import goodput, lost
from metrics.theory import lost_goodput_gpu_s_expr

if TYPE_CHECKING:
    from app.results.base import Source, Window


def goodput_rows(source: Source, window: Window, dimension: str = "cluster") -> pl.DataFrame:
    """Goodput, occupancy and availability as result rows."""
    inventoried = source.query("inventoried")["cluster"]
    found = goodput(ledger_sums(source, window, dimension), inventoried)
    if dimension not in {"cluster", "node", "day"}:  # what nobody held is nobody's
        found = found.filter((pl.col("metric") == "goodput_allocated") & (pl.col("subject") != "(no attempt)"))
    return as_results(found, window, dimension)


def lost_rows(source: Source, window: Window, dimension: str = "cluster") -> pl.DataFrame:
    """Where all GPU-time went, largest first."""
    return lost(ledger_sums(source, window, dimension))


def lost_imputed_rows(source: Source, window: Window) -> pl.DataFrame:
    """GPU-seconds that infrastructure interruptions cost by Meta's assumption, as one result row."""
    events = source.query("interruptions", cluster=window.cluster, since=window.since, until=window.until)
    failed = events.filter((pl.col("class") == "infrastructure") & (pl.col("milli_gpus") > 0))
    amount = failed.select(lost_goodput_gpu_s_expr(pl.col("runtime_s"), pl.col("milli_gpus") / 1000).sum()).item()
    row = pl.DataFrame(
        {
            "cluster": [window.cluster],
            "subject": [window.cluster],
            "metric": ["lost_imputed"],
            "unit": ["gpu_s"],
            "value": [float(amount)],
            "n": [failed.height],
            "evidence_assumed": [1.0],
            "note": ["assumed: half an hourly checkpoint interval lost per interruption"],
        }
    )
    return as_results(row, window, "cluster")
