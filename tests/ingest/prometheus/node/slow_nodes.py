"""Values of nodes and devices from readings, one by one and slowly: the twin of `ingest.prometheus.node.samples`."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ingest.prometheus.client.remote_read import Samples
from ingest.prometheus.series.hosts import POD_LABELS, REPLICA_LABELS
from tests.ingest.prometheus.node.slow_counters import WIDTH, Reading, slow

if TYPE_CHECKING:
    from ingest.prometheus.mapping.mapping import MappedMetric

Series = tuple[dict[str, str], Sequence[Reading]]
Thing = tuple[str, str, str, int]
"""Node, metric, device and cell."""

SCRAPE = {*REPLICA_LABELS, *POD_LABELS, "node"}


class Known(NamedTuple):
    """A value in a cell: how much is known of that, from when to when, and how often it was read."""

    value: float | None
    known: int
    begin: int
    end: int
    n: int


def samples(*reported: Series) -> Samples:
    """Series as a batch of readings."""
    return Samples(
        [labels for labels, _ in reported],
        np.array([len(readings) for _, readings in reported], np.int64),
        np.array([moment for _, readings in reported for moment, _ in readings], np.int64),
        np.array([value for _, readings in reported for _, value in readings], np.float64),
    )


def slow_values(
    series: Sequence[Series], metrics: Sequence[MappedMetric], width: int = WIDTH
) -> dict[Thing, tuple[float, int, int]]:
    """By node, metric, device and cell: value, beginning and length (milliseconds) of the time it speaks for.

    Nodes are what the label `node` says.
    """
    several: dict[Thing, list[Known]] = defaultdict(list)
    for metric in metrics:
        groups: dict[Thing, dict[tuple[tuple[str, str], ...], list[Known]]] = defaultdict(lambda: defaultdict(list))
        for labels, readings in series:
            if labels["__name__"] == metric.name and metric.matches(labels):
                rest = tuple(sorted((label, value) for label, value in labels.items() if label not in SCRAPE))
                for cell, known in _cells(readings, metric, width).items():
                    groups[labels["node"], metric.column, metric.device_of(labels), cell][rest].append(known)
        for thing, by_twin in groups.items():
            one = _combined([_best(twins) for twins in by_twin.values()], metric)
            if one is not None:
                several[thing].append(one)
    chosen = {thing: _best(result) for thing, result in several.items()}
    return {thing: (one.value, one.begin, one.known) for thing, one in chosen.items() if one.value is not None}


def _cells(readings: Sequence[Reading], metric: MappedMetric, width: int) -> dict[int, Known]:
    """What one series says for an entry."""
    if metric.counter:
        reported = slow(readings, width)
        rates = {cell: float(one.increase * 1000 / one.covered) for cell, one in reported.items()}
        return {
            cell: Known(_in_base_units(rates[cell], metric), one.covered, one.begin, one.end, one.covered)
            for cell, one in reported.items()
        }
    by_cell: dict[int, list[float]] = defaultdict(list)
    for at, value in readings:
        by_cell[(at - 1) // width].append(value)
    result = {}
    for cell, values in by_cell.items():
        high = math.inf if metric.high is None else metric.high * 1.001
        good = [value for value in values if math.isfinite(value) and metric.low <= value <= high]
        mean = _in_base_units(math.fsum(good) / len(good), metric) if good else None
        result[cell] = Known(mean, width, cell * width, (cell + 1) * width, len(values))
    return result


def _in_base_units(value: float, metric: MappedMetric) -> float:
    scaled = min(value, math.inf if metric.high is None else metric.high) * metric.scale
    return max(1 - scaled, 0.0) if metric.one_minus else scaled


def _best(result: Sequence[Known]) -> Known:
    """What knows most, and of those the largest."""
    return min(result, key=lambda one: (-one.n, one.value is None, -(one.value or 0), one.begin))


def _combined(result: Sequence[Known], metric: MappedMetric) -> Known | None:
    values = [one.value for one in result if one.value is not None]
    most = max(one.n for one in result)
    begin, end = max(one.begin for one in result), min(one.end for one in result)
    known = min(end - begin, *(one.known for one in result))
    if known <= 0 or not values or (metric.combine == "sum" and len(values) < len(result)):
        return None
    if metric.combine == "sum" and not metric.counter and len(result) > 1:
        value = math.fsum((one.value or 0) * one.n / most for one in result)
    else:
        value = {"sum": math.fsum(values), "max": max(values), "mean": math.fsum(values) / len(values)}[metric.combine]
    return Known(value, known, begin, begin + known, known)
