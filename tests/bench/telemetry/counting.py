"""Increases of counters by cell against the least that could be done for them: numpy's own diff and bincount."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np

from ingest.prometheus.node.counters import grown
from tests.bench.table import row

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from ingest.prometheus.client.xor_chunks import Whole

BEGIN_MS = 1_795_248_000_000
SCRAPE_MS = 15_000
WIDTH_MS = 60_000
READINGS = 480
"""Of each counter: two hours."""

GOAL = 12.0
"""The baseline splits nothing, looks for no resets and no gaps, and does not know what time it speaks for."""


def _counters(series: int) -> tuple[Whole, npt.NDArray[np.float64]]:
    """Times and values, counter by counter: each is scraped at an offset of its own, and one in ten begins again."""
    chance = np.random.default_rng(11)
    times = BEGIN_MS + SCRAPE_MS * np.arange(READINGS) + chance.integers(0, SCRAPE_MS, (series, 1))
    values = np.cumsum(chance.integers(0, 10**6, (series, READINGS)), axis=1).astype(np.float64)
    again = chance.integers(1, READINGS, (series // 10, 1))
    values[::10][: len(again)] -= np.where(
        np.arange(READINGS) >= again, np.take_along_axis(values[::10][: len(again)], again, axis=1), 0
    )
    return times.ravel(), values.ravel()


def bench_counters(series: int, *, repeats: int = 5) -> list[dict[str, Any]]:
    """A row for the table: all increases of so many counters, and the same of a sixteenth of them, 16 times."""
    times, values = _counters(series)
    part = series // 16 * READINGS
    ours = _best(lambda: _ours(times, values), repeats)
    name = f"counters: {times.size:,} readings"
    return [
        row(name, ours, _best(lambda: _baseline(times, values), repeats), "np.diff + np.bincount", GOAL),
        row(name, ours, 16 * _best(lambda: _ours(times[:part], values[:part]), repeats), "16 x a sixteenth", 2.0),
    ]


def _ours(times: Whole, values: npt.NDArray[np.float64]) -> None:
    series = times.size // READINGS
    result = grown(np.arange(series), np.full(series, READINGS), times, values, width_ms=WIDTH_MS)
    assert result.increases.cells.size >= series * (READINGS * SCRAPE_MS // WIDTH_MS)


def _baseline(times: Whole, values: npt.NDArray[np.float64]) -> None:
    """Differences of neighbours, added up by counter and cell."""
    owners = np.repeat(np.arange(times.size // READINGS), READINGS)
    cells = (times - BEGIN_MS) // WIDTH_MS
    np.bincount(owners[1:] * (cells.max() + 1) + cells[1:], weights=np.diff(values))


def _best(work: Callable[[], None], repeats: int) -> float:
    result = []
    for _ in range(repeats):
        began = time.perf_counter()
        work()
        result.append(time.perf_counter() - began)
    return min(result)
