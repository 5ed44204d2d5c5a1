"""Samples in order: each series once through, no time twice, nothing outside the requested time."""

from __future__ import annotations

import numpy as np

from ingest.prometheus.client.remote_read import Samples


def tidied(samples: Samples, low_ms: int, high_ms: int, *, nan: bool = True) -> Samples:
    """Readings from one time to another, both included, in order, one at each time; without `nan` none that is NaN.

    Of two readings at one time the larger counts. Series without any are left out.
    """
    labels, sizes, times, values = samples
    series = np.repeat(np.arange(sizes.size), sizes)
    keep = (times >= low_ms) & (times <= high_ms)
    if not nan:
        keep &= ~np.isnan(values)
    if not keep.all():
        times, values, series = times[keep], values[keep], series[keep]
    back = (times[1:] <= times[:-1]) & (series[1:] == series[:-1])
    if back.any():
        order = np.lexsort((values, times, series))
        times, values, series = times[order], values[order], series[order]
        last = np.append((times[1:] != times[:-1]) | (series[1:] != series[:-1]), True)
        times, values, series = times[last], values[last], series[last]
    counts = np.bincount(series, minlength=sizes.size)
    some = counts > 0
    kept = labels if some.all() else [each for each, has in zip(labels, some.tolist(), strict=True) if has]
    return Samples(kept, counts[some], times, values)


def merged(batches: list[Samples]) -> Samples:
    """All of several; a series of two of them comes twice."""
    if len(batches) == 1:
        return batches[0]
    return Samples(
        [labels for one in batches for labels in one.labels],
        np.concatenate([np.empty(0, np.int64), *(one.sizes for one in batches)]),
        np.concatenate([np.empty(0, np.int64), *(one.times for one in batches)]),
        np.concatenate([np.empty(0, np.float64), *(one.values for one in batches)]),
    )
