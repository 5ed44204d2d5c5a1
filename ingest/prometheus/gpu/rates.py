"""Counters of GPUs as gauges: their increase per second since the reading before.

A counter fills a column of `gpu_samples` where no gauge does: the energy counter yields the power where the exporter
leaves the power out. The rate at a reading covers the time since the one before, as an average of DCGM does. That time
is unknown where the counter fell (the driver was reloaded, or the GPU replaced) and where more than `GONE_S` seconds
lie between the two; an impossible rise is implausible by the mapping's `high`, per second.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from ingest.prometheus.client.raw import GONE_S
from ingest.prometheus.mapping.mapping import COUNTED
from ingest.prometheus.series.gather import keep_readings

if TYPE_CHECKING:
    from ingest.prometheus.client.remote_read import Samples


def per_second(samples: Samples) -> Samples:
    """Rates at the readings of counters, in the exporter's unit per second; a series' first reading has none.

    Args:
        samples: readings without blanks.
    """
    owners = np.repeat(np.arange(samples.sizes.size), samples.sizes)
    elapsed_ms, rise = np.diff(samples.times, prepend=0), np.diff(samples.values, prepend=0.0)
    known = np.concatenate([[False], owners[1:] == owners[:-1]]) if owners.size else np.zeros(0, bool)
    known &= (elapsed_ms > 0) & (elapsed_ms <= GONE_S * 1000) & (rise >= 0)
    rates = rise * 1000 / np.maximum(elapsed_ms, 1)
    return keep_readings(samples._replace(values=rates), known)


def gauges_first(values: pl.DataFrame) -> pl.DataFrame:
    """LONG with values of counters only where no gauge has a value of that column, GPU and time."""
    counted = pl.col("column").str.ends_with(COUNTED)
    rates = values.filter(counted)
    if rates.is_empty():
        return values
    gauges = values.filter(~counted)
    named = rates.with_columns(pl.col("column").str.strip_suffix(COUNTED))
    return pl.concat([gauges, named.join(gauges, on=["column", "node", "gpu", "ts"], how="anti")])
