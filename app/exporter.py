"""`/metrics`: the numbers as Prometheus reads them. Which families there are, `dashboards.exported` says.

A point that cannot be told is left out, and its bounds stay: no NaN, and no 0 in its place. All but the age of the
sources is worked out once per data version, so a scrape costs next to nothing until the data change.
"""

from __future__ import annotations

import importlib.metadata
import math
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

import polars as pl
from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from app import clock, headlines, results, verifying
from app.answers import Claims, Remembering
from app.computed_results import standard_windows
from app.palette import COSTLY
from app.results import DAY_S, Window
from app.times import months
from dashboards.exported import FAMILIES, MAX_RUNS, MTTF_GPUS, RUN_DAYS
from metrics.restarts import restart_summary
from queries.errors import WarehouseError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime

    from app.answers import Answers
    from app.headlines import Headline
    from app.results import Source
    from metrics.verdicts import Claim
    from queries.warehouse import Reader

VERDICT = {"supported": 1.0, "undetermined": 0.0, "refuted": -1.0}
"""Values of trackside_verdict."""

CLASSES = ("infrastructure", "preemption", "planned", "timeout", "user")
"""Classes of interruptions; one that did not happen is a true 0."""

NO_CAUSE = "none"
"""Label of time that has no cause beside its category: an empty label would read as no label."""


@dataclass(frozen=True)
class Sample:
    """A series with its value. `labels` are in the order in which the family declares them."""

    family: str
    labels: tuple[str, ...]
    value: float


@dataclass(frozen=True)
class Exported:
    """What the published copy has to export: samples, and when each source last spoke (its age depends on the time)."""

    samples: tuple[Sample, ...]
    spoke: tuple[tuple[str, str, datetime], ...]


def render(answers: Answers, *, now: datetime | None = None, claims: Claims | None = None) -> bytes:
    """All metrics in Prometheus's text format.

    Args:
        answers: the published warehouse. An empty one, or one that cannot be read, gives `trackside_build_info` alone.
        now: the time that ages of sources are taken at; the clock's if None.
        claims: what is judged; the vendor's headlines if None.
    """
    return negotiated(answers, "", now=now, claims=claims)[0]


def negotiated(
    answers: Answers, accept: str, *, now: datetime | None = None, claims: Claims | None = None
) -> tuple[bytes, str]:
    """All metrics in the format that a scraper asks for (OpenMetrics or Prometheus text), and its content type."""
    registry = CollectorRegistry()
    judged = (claims or Claims(None)).now()
    registry.register(_Collected([*_samples(answers, now or clock.now(), judged), _build()]))
    encode, content_type = choose_encoder(accept)
    return encode(registry), content_type


class _Collected(Collector):
    """Samples as families, in the order in which they are declared; families without data are left out."""

    def __init__(self, samples: Iterable[Sample]) -> None:
        self._by_family: dict[str, list[Sample]] = {}
        for sample in samples:
            self._by_family.setdefault(sample.family, []).append(sample)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Give what there is."""
        for family in FAMILIES:
            found = self._by_family.get(family.name)
            if found is None:
                continue
            made = GaugeMetricFamily(family.name, family.help, labels=family.labels)
            for sample in found:
                made.add_metric(sample.labels, sample.value)
            yield made


def _build() -> Sample:
    return Sample("trackside_build_info", (importlib.metadata.version("trackside"),), 1.0)


def _samples(answers: Answers, now: datetime, claims: tuple[Claim, ...]) -> list[Sample]:
    try:
        found = answers.ask(exported, claims)
    except WarehouseError:  # nothing published yet, or not readable: /healthz says which
        return []
    ages = [
        Sample("trackside_input_lag_seconds", (cluster, source), (now - spoke).total_seconds())
        for cluster, source, spoke in found.spoke
    ]
    return [*found.samples, *ages]


def exported(reader: Reader, claims: tuple[Claim, ...]) -> Exported:
    """Everything that the published copy has to export."""
    source = Remembering(reader)
    samples: list[Sample] = []
    for cluster in source.query("clusters")["cluster"]:
        computed = source.query("computed", cluster=cluster)
        if computed.is_empty():
            continue
        row = computed.row(0, named=True)
        whole = Window(cluster, row["since"], row["until"])
        for name, window in windows(whole).items():
            samples.extend(_of_window(source, window, name, claims))
        samples.extend(_of_runs(source, whole))
        samples.extend(_of_gpus(source, whole))
        samples.append(Sample("trackside_data_end_timestamp_seconds", (cluster,), whole.until.timestamp()))
        samples.append(Sample("trackside_computed_timestamp_seconds", (cluster,), row["computed_at"].timestamp()))
    sources = source.query("status_sources").to_dicts()
    samples.extend(
        Sample("trackside_rows_rejected", (row["cluster"], row["source"]), float(row["rows_rejected"]))
        for row in sources
    )
    spoke = [(row["cluster"], row["source"], row["covers_until"]) for row in sources if row["covers_until"]]
    return Exported(tuple(samples), tuple(spoke))


def windows(whole: Window) -> dict[str, Window]:
    """The standard windows by the names that the label `window` has, but those that the data are too short for.

    `month` is the calendar month (UTC) that the data end in, as far as there are data; verdicts are on the whole month.
    """
    known = standard_windows(whole)
    found = {"all": whole}
    for days in (28, 7):
        last = Window(whole.cluster, whole.until - timedelta(days=days), whole.until)
        if last in known:
            found[f"{days}d"] = last
    *_, (month, _) = months(whole.since, whole.until)
    found["month"] = Window(whole.cluster, max(month, whole.since), whole.until)
    return found


def _of_window(source: Source, window: Window, name: str, claims: tuple[Claim, ...]) -> Iterator[Sample]:
    """What is told of a window: the headline numbers, what is behind them, where the time went, the verdicts."""
    key = (window.cluster, name)
    shown = {each.metric: each for each in headlines.headlines(source, window, gpus=float(MTTF_GPUS))}
    for metric, family, labels in _RATIOS:
        if metric in shown:
            yield from _bounded(f"trackside_{family}", (*key, *labels), shown[metric])
    yield from _points("trackside_occupancy_ratio", key, shown["occupancy"].value)
    yield from _failures(source, window, key, shown["mttf"])
    yield from _restarts(source, window, key)
    yield from _gpu_time(source, window, key)
    for kind, share in shown["goodput_allocated"].evidence if "goodput_allocated" in shown else ():
        yield Sample("trackside_evidence_ratio", (*key, kind), share)
    for judged in verifying.verify(source, _asked(window, name), claims):
        yield Sample("trackside_verdict", (*key, judged.claim.id, judged.claim.kind), VERDICT[judged.verdict])


def _asked(window: Window, name: str) -> Window:
    """The period that verdicts of a window are on: of `month` the whole one, though the data end within it."""
    if name != "month":
        return window
    return Window(window.cluster, *next(months(window.since, window.until)))


_RATIOS = (
    ("goodput_allocated", "goodput_ratio", ("allocated",)),
    ("goodput_capacity", "goodput_ratio", ("capacity",)),
    ("ettr", "ettr_ratio", ()),
    ("availability", "availability_ratio", ()),
    ("mfu", "mfu_ratio", ()),
)
"""Metric, family, and what the family's labels say between `window` and `bound`."""


def _bounded(family: str, labels: tuple[str, ...], shown: Headline, *, unit: float = 1.0) -> Iterator[Sample]:
    """Point, lower and upper of a number: its bounds, or its interval where it has no bounds."""
    low, high = shown.bound_low, shown.bound_high
    if low is None and high is None:
        low, high = shown.ci_low, shown.ci_high
    for bound, value in (("point", shown.value), ("lower", low), ("upper", high)):
        yield from _points(family, (*labels, bound), None if value is None else value * unit)


def _points(family: str, labels: tuple[str, ...], value: float | None) -> Iterator[Sample]:
    if value is not None and math.isfinite(value):
        yield Sample(family, labels, value)


def _failures(source: Source, window: Window, key: tuple[str, str], mttf: Headline) -> Iterator[Sample]:
    """MTTF, the failures it counts, and what they are counted over."""
    if not mttf.numerator:  # no exposure: nothing could have failed
        return
    yield from _bounded("trackside_mttf_seconds", (*key, MTTF_GPUS), mttf, unit=DAY_S)
    exposed = mttf.numerator * float(MTTF_GPUS) * DAY_S
    yield Sample("trackside_failure_exposure_gpu_seconds", key, exposed)
    events = source.query("interruptions", cluster=window.cluster, since=window.since, until=window.until)
    counted = dict(events.filter(pl.col("milli_gpus") > 0).group_by("class").len().iter_rows())
    counted["infrastructure"] = mttf.n
    for name in CLASSES:
        yield Sample("trackside_failures_observed", (*key, name), float(counted.get(name) or 0))


def _restarts(source: Source, window: Window, key: tuple[str, str]) -> Iterator[Sample]:
    summed = restart_summary(results.restart_rows(source, window)).filter(
        (pl.col("class") == "infrastructure") & (pl.col("cause") == "all")
    )
    if summed.is_empty():
        return
    row = summed.row(0, named=True)
    yield from _points("trackside_restart_seconds", (*key, "median"), row["median_s"])
    yield from _points("trackside_restart_seconds", (*key, "p90"), row["p90_s"])
    yield Sample("trackside_restarts_observed", key, float(row["n"]))


def _gpu_time(source: Source, window: Window, key: tuple[str, str]) -> Iterator[Sample]:
    """The ledger of the window by category, and what could have trained and did not by cause."""
    rows = results.lost_rows(source, window)
    by_category = rows.group_by("state", "category").agg(pl.col("gpu_seconds").sum()).sort("state", "category")
    for state, category, seconds in by_category.iter_rows():
        yield Sample("trackside_gpu_seconds", (*key, state, category), float(seconds))
    by_cause = (
        rows.filter(pl.col("category").is_in(COSTLY))
        .with_columns(pl.col("cause").fill_null(NO_CAUSE))
        .group_by("category", "cause")
        .agg(pl.col("gpu_seconds").sum())
        .sort("category", "cause")
    )
    for category, cause, seconds in by_cause.iter_rows():
        yield Sample("trackside_gpu_lost_seconds", (*key, category, cause), float(seconds))


def _of_gpus(source: Source, whole: Window) -> Iterator[Sample]:
    for state, gpus in source.query("gpus_at", cluster=whole.cluster, until=whole.until).iter_rows():
        yield Sample("trackside_gpus", (whole.cluster, state), float(gpus))


def _of_runs(source: Source, whole: Window) -> Iterator[Sample]:
    """Runs that run, and those that ended last: bounded, since every run is a series for ever."""
    since = whole.until - timedelta(days=RUN_DAYS)
    recent = (
        source.query("runs", cluster=whole.cluster, since=since, until=whole.until)
        .filter(pl.col("started_at").is_not_null() & (pl.col("n_gpus") > 0))
        .sort("ended_at", "run_id", descending=[True, False], nulls_last=False)
        .head(MAX_RUNS)
    )
    ratios = {row["run_id"]: row for row in results.ettr_run_rows(source, whole).iter_rows(named=True)}
    for run in recent.iter_rows(named=True):
        key = (whole.cluster, run["run_id"])
        told = (run["user"] or "", run["partition"] or "", run["state"])
        yield Sample("trackside_run_info", (*key, *told), 1.0)
        yield Sample("trackside_run_gpus", key, float(run["n_gpus"]))
        ratio = ratios.get(run["run_id"], {})
        for bound, column in (("point", "ettr"), ("lower", "ettr_low"), ("upper", "ettr_high")):
            yield from _points("trackside_run_ettr_ratio", (*key, bound), ratio.get(column))
