"""Series with their values, and how they become the families that Prometheus reads."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from app.visible import visible
from dashboards.exported_metrics import FAMILIES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime
    from decimal import Decimal

    from dashboards.exported_metrics import Family


@dataclass(frozen=True)
class ExportedSample:
    """A series with its value. `labels` are in the order in which the family declares them; `at`: now if None."""

    family: Family
    labels: tuple[str, ...]
    value: float
    at: datetime | None = None


def known(family: Family, labels: tuple[str, ...], value: float | Decimal | None) -> Iterator[ExportedSample]:
    """The sample; none of a number that is unknown or has no limit."""
    if value is not None and math.isfinite(value):
        yield ExportedSample(family, labels, float(value))


class ExportedSamples(Collector):
    """Samples as families, in the order in which they are declared; families without data are left out.

    Labels are shown as people can read them. Of two samples of a series at one time the first is kept: a second one
    spoils the scrape.
    """

    def __init__(self, samples: Iterable[ExportedSample]) -> None:
        self._by_family: dict[Family, dict[tuple[str, ...], dict[datetime | None, float]]] = {}
        for sample in samples:
            labels = tuple(map(visible, sample.labels))
            series = self._by_family.setdefault(sample.family, {}).setdefault(labels, {})
            series.setdefault(sample.at, sample.value)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield the families, each series with all of its times at once."""
        for family in FAMILIES:
            if family not in self._by_family:
                continue
            made = GaugeMetricFamily(family.name, family.help, labels=family.labels)
            for labels, values in self._by_family[family].items():
                for at, value in values.items():
                    made.add_metric(labels, value, timestamp=at.timestamp() if at else None)
            yield made
