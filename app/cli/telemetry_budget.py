"""The lines of `trackside doctor` on the volume of telemetry: samples a day, the budget, and how to stay within it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from app.formatting import display
from ingest import registry
from ingest.errors import SourceError
from ingest.prometheus.demand import DAY_S, demands
from ingest.prometheus.gpu.server import READER

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    from app.service.integrity import State
    from ingest.prometheus.client.server import PrometheusServer
    from ingest.prometheus.demand import Demand
    from ingest.prometheus.reader import ScrapeSpec
    from ingest.tables import SourceName

HOUR_S: Final = 3600

SHOWN: Final = 3
"""Metrics that are named."""


def budget_lines(
    server: PrometheusServer,
    spec: ScrapeSpec,
    exported: Mapping[SourceName, Sequence[str]],
    *,
    budget: int,
    now: datetime,
) -> Iterator[tuple[State, str]]:
    """A line for each source: how many samples a day it reads. A server that refuses to count them is a warning."""
    try:
        for demand in demands(server, spec, exported, at=now):
            yield _line(demand, budget)
    except SourceError as error:
        yield "warn", f"the number of samples a day is unknown: {str(error).splitlines()[0]}"


def _line(demand: Demand, budget: int) -> tuple[State, str]:
    how = "raw, one" if demand.raw else "means by the server, one"
    read = f"{registry.source(demand.source).title}: {demand.n_series:,} series"
    unknown = _unknown(demand)
    if not demand.every_s:
        return "warn", f"{read}; the number of samples a day is unknown: {unknown}"
    at_least = "at least " if unknown else ""
    read = f"{read}, {at_least}{_many(demand.samples)} samples a day ({how} in {_paces(demand)})"
    if demand.samples <= budget and unknown:
        return "warn", f"{read}; whether that is within the budget of {_many(budget)} is unknown: {unknown}"
    if demand.samples <= budget:
        return "ok", f"{read}; budget {_many(budget)}"
    most = ", ".join(f"{name} ({number:,} series)" for name, number in demand.largest())
    return "warn", (
        f"{read}: over the budget of {_many(budget)} (prometheus.daily_samples). Most samples: {most}. "
        f"{_advice(demand)}"
    )


def _unknown(demand: Demand) -> str:
    """The metrics whose scrape interval the server does not report; empty if there are none."""
    if not demand.unknown:
        return ""
    most = sorted(demand.unknown, key=lambda name: -demand.series[name])[:SHOWN]
    named = ", ".join(f"{name} ({demand.series[name]:,} series)" for name in most)
    more = f" and {len(demand.unknown) - SHOWN} more" if len(demand.unknown) > SHOWN else ""
    return f"the server does not report the scrape interval of: {named}{more}"


def _paces(demand: Demand) -> str:
    """Intervals at which series are read, and the metric with most samples where they differ."""
    least, most = (display(each, "seconds") for each in demand.paces)
    if least == most:
        return least
    widest = demand.largest(1)[0][0]
    return f"{least} to {most}; {display(demand.every_s[widest], 'seconds')} of {widest}, which has most samples"


def _advice(demand: Demand) -> str:
    if demand.source == READER.source and demand.raw:
        hourly = _many(demand.n_series * DAY_S / HOUR_S)
        return f"With prometheus.interval_s = {HOUR_S} the server computes hourly means: {hourly} samples a day"
    return (
        "They are always read raw: have them scraped less often, or have Prometheus drop those that you do not need "
        "(metric_relabel_configs)"
    )


def _many(number: float) -> str:
    """A number of samples in words of three digits.

    >>> _many(1_340_000_000), _many(24_500), _many(12)
    ('1.34 billion', '24.5 thousand', '12')
    """
    for size, word in ((1e9, "billion"), (1e6, "million"), (1e3, "thousand")):
        if number >= size:
            return f"{number / size:.3g} {word}"
    return f"{number:.0f}"
