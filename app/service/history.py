"""History of `/metrics`: what it would have told at past moments, by the data as they are known today.

Prometheus never changes a sample, so its own history is as computed at the time, and begins with the first scrape. This
one begins with the data. It is OpenMetrics text with times, of which `promtool tsdb create-blocks-from` makes blocks.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.openmetrics.exposition import generate_latest
from prometheus_client.registry import Collector

from app.results.source import OF_ALL_WINDOWS, CachedSource
from app.service.exporter import Missing, exported_at
from app.visible import visible
from app.window import Window
from dashboards.exported_metrics import FAMILIES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import timedelta

    from dashboards.exported_metrics import Family
    from metrics.claims.verdict import Claim
    from queries.warehouse import Reader

    Report = Callable[[str, int, int], None]


def moments(window: Window, every: timedelta, *, before: datetime) -> list[datetime]:
    """The moments at which a history tells: whole steps since 1970 in a window, and its end, oldest first.

    Args:
        window: from its end of the first step on.
        every: the step.
        before: none is as late as this.
    """
    step_s = int(every.total_seconds())
    first = int(window.since.timestamp()) // step_s + 1
    last = int(window.until.timestamp()) // step_s
    found = [datetime.fromtimestamp(number * step_s, window.until.tzinfo) for number in range(first, last + 1)]
    return [moment for moment in dict.fromkeys([*found, window.until]) if moment < before]


def history(
    reader: Reader,
    windows: Sequence[tuple[Window, Sequence[datetime]]],
    claims: tuple[Claim, ...],
    *,
    report: Report = lambda _what, _done, _total: None,
) -> tuple[bytes, list[Missing]]:
    """OpenMetrics text of what `/metrics` would have told.

    Args:
        reader: the published warehouse.
        windows: by cluster all of its data, and the moments that are told of.
        claims: what is judged.
        report: receives the progress.

    Returns:
        The text, and what could not be computed.
    """
    source = CachedSource(reader, only=OF_ALL_WINDOWS)
    by_family: dict[Family, dict[tuple[str, ...], dict[datetime, float]]] = {}
    missing: list[Missing] = []
    total = sum(len(at) for _, at in windows)
    done = 0
    for whole, at in windows:
        for moment in at:
            report(whole.cluster, done, total)
            made = exported_at(CachedSource(source), Window(whole.cluster, whole.since, moment), claims)
            missing += [each for each in made.missing if each.failed]
            for sample in made.samples:
                labels = tuple(map(visible, sample.labels))
                by_family.setdefault(sample.family, {}).setdefault(labels, {}).setdefault(moment, sample.value)
            done += 1
    registry = CollectorRegistry()
    registry.register(_History(by_family))
    text: bytes = generate_latest(registry)  # type: ignore[no-untyped-call]  # theirs
    return text, missing


class _History(Collector):
    """Series with their times: families in the order in which they are declared, each series at once."""

    def __init__(self, by_family: dict[Family, dict[tuple[str, ...], dict[datetime, float]]]) -> None:
        self._by_family = by_family

    def describe(self) -> list[GaugeMetricFamily]:
        """Nothing: the names are known to be distinct."""
        return []

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield the families."""
        for family in FAMILIES:
            if family not in self._by_family:
                continue
            made = GaugeMetricFamily(family.name, family.help, labels=family.labels)
            for labels, values in self._by_family[family].items():
                for moment, value in values.items():
                    made.add_metric(labels, value, timestamp=moment.timestamp())
            yield made
