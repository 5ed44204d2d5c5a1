"""Raw readings of any series, whatever road they come by: what everything but averages of GPUs is made of."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

import numpy as np
import polars as pl

from ingest.frames import REAL
from ingest.remote_read import Samples

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from ingest.prometheus_server import Series, Server

Answer = TypeVar("Answer")

GONE_S: Final = 300
"""A series that was not read for longer than that was gone; Prometheus' own limit. Nothing is told of the time."""


class Road(Protocol):
    """Who gives raw readings."""

    def raw(
        self,
        names: Sequence[str],
        *,
        since: datetime,
        until: datetime,
        each: Callable[[Samples], Answer],
    ) -> list[Answer]:
        """What `each` makes of the readings after `since`, up to and with `until`, batch by batch.

        The series are those with one of the `names`; `__name__` is among their labels. A series may be in several
        batches, later readings in later ones; no reading comes twice.

        Raises:
            SourceError: they cannot be had.
        """


@dataclass
class ServerRoad:
    """Readings from a server, by the quickest way it has. `selector` is label matchers, without braces."""

    server: Server
    selector: str = ""
    step: timedelta = timedelta(minutes=1)
    _last: dict[tuple[tuple[str, str], ...], int] = field(default_factory=dict, repr=False)

    def raw(
        self,
        names: Sequence[str],
        *,
        since: datetime,
        until: datetime,
        each: Callable[[Samples], Answer],
    ) -> list[Answer]:
        """See `Road.raw`."""
        if not names:
            return []
        matchers = ",".join(filter(None, [f'__name__=~"{"|".join(names)}"', self.selector]))
        selector = f"{{{matchers}}}"
        found = self.server.samples(selector, first=since + self.step, last=until, step=self.step, each=each)
        if found is not None:
            return found
        self._last.clear()
        series = self.server.readings(selector, since=since + timedelta(milliseconds=1), until=until, step=self.step)
        return [each(self._not_again(as_samples(series)))]

    def _not_again(self, samples: Samples) -> Samples:
        """Without the readings that came before: pieces of time touch, and some servers count both ends."""
        keep = np.ones(samples.times.size, bool)
        stops = np.cumsum(samples.sizes)
        for labels, start, stop in zip(samples.labels, stops - samples.sizes, stops, strict=True):
            key = tuple(sorted(labels.items()))
            last = self._last.get(key)
            if last is not None:
                keep[start:stop] = samples.times[start:stop] > last
            if stop > start:
                self._last[key] = max(int(samples.times[stop - 1]), last or 0)
        if keep.all():
            return samples
        which = np.repeat(np.arange(samples.sizes.size), samples.sizes)
        sizes = np.bincount(which[keep], minlength=samples.sizes.size)
        return Samples(samples.labels, sizes, samples.times[keep], samples.values[keep])


def as_samples(series: Series, name: str | None = None) -> Samples:
    """Series of an answer in JSON; `name` is the metric's where the answer does not have it (averages)."""
    points = [point for one in series for point in one["values"]]
    times = (pl.Series([point[0] for point in points], dtype=REAL) * 1000).round().cast(pl.Int64)
    values = pl.Series([point[1] for point in points], dtype=pl.String).str.strip_prefix("+").cast(REAL, strict=False)
    return Samples(
        [one["metric"] if name is None else {"__name__": name, **one["metric"]} for one in series],
        np.array([len(one["values"]) for one in series], np.int64),
        times.to_numpy(),
        values.fill_null(float("nan")).to_numpy(),
    )
