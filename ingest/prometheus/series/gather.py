"""Readings from a file, in any order, as series in order of time.

Files come series by series (promtool) or scrape by scrape. Both are kept as three numbers a reading until all are here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

import numpy as np
import polars as pl

from ingest.prometheus.client.remote_read import Samples
from ingest.prometheus.series.labels import is_blank

if TYPE_CHECKING:
    from collections.abc import Callable, Container

    import numpy.typing as npt

    from ingest.prometheus.client.xor_chunks import Whole

    Real = npt.NDArray[np.float64]

_Kind = TypeVar("_Kind", bound=np.generic)

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

BATCH: Final = 1 << 21
"""Approximate number of readings in a batch."""


class Gathered(NamedTuple):
    """The readings of a file of the requested series.

    `samples` has every series of which there is a reading within the requested time, and of each time one. `n_readings`
    counts the readings of each series within that time; `outside` those outside, by metric.
    """

    samples: Samples
    n_readings: Whole
    outside: dict[str, int]
    n_conflicts: int


@dataclass
class Gathering:
    """Takes readings after `since` up to and with `until` (None: any); series are distinguished by all their labels."""

    since: datetime | None = None
    until: datetime | None = None
    labels: list[dict[str, str]] = field(default_factory=list)
    _numbers: dict[tuple[tuple[str, str], ...], int] = field(default_factory=dict)
    _series: list[npt.NDArray[np.int32]] = field(default_factory=list)
    _times: list[Whole] = field(default_factory=list)
    _values: list[Real] = field(default_factory=list)
    _outside: dict[int, int] = field(default_factory=dict)

    def number(self, labels: dict[str, str]) -> int:
        """The number of a series, new or existing, by which its readings are added."""
        key = tuple(sorted(labels.items()))
        number = self._numbers.setdefault(key, len(self.labels))
        if number == len(self.labels):
            self.labels.append(labels)
        return number

    def add(self, series: Whole, times: Whole, values: Real) -> None:
        """Readings: the numbers of their series, epoch milliseconds, values."""
        keep = np.ones(times.size, bool)
        if self.since is not None:
            keep &= times > milliseconds(self.since)
        if self.until is not None:
            keep &= times <= milliseconds(self.until)
        if not keep.all():
            for number, count in zip(*np.unique(series[~keep], return_counts=True), strict=True):
                self._outside[int(number)] = self._outside.get(int(number), 0) + int(count)
            series, times, values = series[keep], times[keep], values[keep]
        self._series.append(series.astype(np.int32))
        self._times.append(times)
        self._values.append(values)

    def take(self, samples: Samples) -> None:
        """All readings of some series."""
        numbers = np.array([self.number(labels) for labels in samples.labels], np.int64)
        self.add(np.repeat(numbers, samples.sizes), samples.times, samples.values)

    def finish(self) -> Gathered:
        """All of it. Of several values for one time the largest counts; no number at all is less than any."""
        series, times = _joined(self._series, np.int32), _joined(self._times, np.int64)
        values = _joined(self._values, np.float64)
        n_of_series = np.bincount(series, minlength=len(self.labels)).astype(np.int64)
        is_same = series[1:] == series[:-1]
        if np.any((series[1:] < series[:-1]) | (is_same & (times[1:] < times[:-1]))):
            order = np.lexsort((times, series))
            series = series[order]  # one after the other: of each there are then two at a time
            times = times[order]
            values = values[order]
            del order
        is_next = (series[1:] != series[:-1]) | (times[1:] != times[:-1])
        n_conflicts = 0
        if not is_next.all():
            n_conflicts = int(np.count_nonzero(~is_next & (values[1:] != values[:-1]) & ~np.isnan(values[1:])))
            first = np.concatenate([[0], np.flatnonzero(is_next) + 1])
            series, times, values = series[first], times[first], np.fmax.reduceat(values, first)
        sizes = np.bincount(series, minlength=len(self.labels)).astype(np.int64)
        some = sizes > 0
        labels = [each for each, has in zip(self.labels, some.tolist(), strict=True) if has]
        outside: dict[str, int] = {}
        for number, count in self._outside.items():
            name = self.labels[number].get("__name__", "")
            outside[name] = outside.get(name, 0) + count
        return Gathered(Samples(labels, sizes[some], times, values), n_of_series[some], outside, n_conflicts)


def _joined(parts: list[npt.NDArray[_Kind]], kind: type[_Kind]) -> npt.NDArray[_Kind]:
    """All parts as one; the list of them is cleared."""
    whole = np.concatenate([np.empty(0, kind), *parts])
    parts.clear()
    return whole


def milliseconds(moment: datetime) -> int:
    """Epoch milliseconds of a moment, down to the last one that has begun."""
    return (moment - _EPOCH) // timedelta(milliseconds=1)


def chosen(samples: Samples, is_selected: Callable[[dict[str, str]], bool]) -> Samples:
    """The requested series, by their labels."""
    selected = np.array([is_selected(labels) for labels in samples.labels], bool)
    if selected.all():
        return samples
    labels = [each for each, has in zip(samples.labels, selected.tolist(), strict=True) if has]
    readings = np.repeat(selected, samples.sizes)
    return Samples(labels, samples.sizes[selected], samples.times[readings], samples.values[readings])


def named(samples: Samples, names: Container[str]) -> Samples:
    """The series of some metrics."""
    return chosen(samples, lambda labels: labels["__name__"] in names)


def keep_readings(samples: Samples, keep: npt.NDArray[np.bool_]) -> Samples:
    """The readings to keep, and the series that have one."""
    if keep.all():
        return samples
    which = np.repeat(np.arange(samples.sizes.size), samples.sizes)[keep]
    sizes = np.bincount(which, minlength=samples.sizes.size).astype(np.int64)
    some = sizes > 0
    labels = [each for each, has in zip(samples.labels, some.tolist(), strict=True) if has]
    return Samples(labels, sizes[some], samples.times[keep], samples.values[keep])


def without_blanks(samples: Samples) -> Samples:
    """Readings without DCGM's and Prometheus' marks for "no value"."""
    if not samples.labels:
        return samples  # most metrics are not in the file, and even an empty search takes a millisecond
    blank = pl.DataFrame({"value": samples.values}).select(is_blank())["value"].to_numpy()
    return keep_readings(samples, ~blank)


def batches(samples: Samples) -> list[Samples]:
    """Batches of whole series, with about BATCH readings each."""
    stops = np.cumsum(samples.sizes)
    batches, first, begin = [], 0, 0
    while first < len(samples.labels):
        last = max(int(np.searchsorted(stops, begin + BATCH, side="right")), first + 1)
        end = int(stops[last - 1])
        part = slice(first, last), slice(begin, end)
        batches.append(
            Samples(samples.labels[part[0]], samples.sizes[part[0]], samples.times[part[1]], samples.values[part[1]])
        )
        first, begin = last, end
    return batches
