"""`/metrics`: the numbers as Prometheus reads them. `dashboards.exported_metrics` declares the families.

An unknown value is left out, and its bounds stay: no NaN, and no 0 in its place. Everything except the age of the
sources is computed once per data version, so a scrape costs little until the data change.

Each part of each window of each cluster is computed alone: one that fails is left out, counted in
`trackside_export_failures`, logged, and reported by `/healthz` with its reason; all others are exported.
"""

from __future__ import annotations

import importlib.metadata
import logging
import math
import time
from collections import Counter
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ParamSpec

import polars as pl
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from app import clock
from app.claims import verify as verifying
from app.claims.watched import WatchedClaims
from app.compute.stored_results import standard_windows
from app.errors import raise_interrupt
from app.faults import FAULTS, reason_of
from app.results import headlines
from app.results.ettr import ettr_run_rows
from app.results.failures.interruptions import restart_rows
from app.results.goodput import lost_rows
from app.results.nodes.capacity import share_by_accounting
from app.results.source import CachedSource
from app.service import exported_parts as parts
from app.service.samples import ExportedSample, ExportedSamples, known
from app.times import months
from app.window import Window
from dashboards import exported_metrics as families
from dashboards.exported_metrics import MAX_JOB_NODES, MAX_RUNS, MTTF_GPUS, RUN_DAYS
from metrics.categories import COSTLY
from metrics.failures.classes import CLASSES
from metrics.restarts.restarts import restart_summary
from metrics.units import DAY_S
from queries.errors import NoWarehouseError, WarehouseError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from datetime import datetime

    from app.results.headlines import Headline
    from app.results.serving.cache import AnswerCache
    from app.window import RowSource
    from dashboards.exported_metrics import Family
    from metrics.claims.verdict import Claim
    from queries.warehouse import Reader

P = ParamSpec("P")

logger = logging.getLogger("trackside.exporter")

VERDICT = {"supported": 1.0, "undetermined": 0.0, "refuted": -1.0}
"""Values of trackside_verdict."""

NO_CAUSE = "none"
"""Label of time that has no cause next to its category: an empty label would read as no label."""


@dataclass(frozen=True)
class Missing:
    """A part that `/metrics` lacks.

    Attributes:
        cluster: whose; empty where it is about all of them.
        window: value of the label `window`; empty where the part has none.
        part: what is missing.
        reason: why, in one line.
        failed: computing it failed; otherwise the data have no such number, and nothing is wrong.
    """

    cluster: str
    window: str
    part: str
    reason: str
    failed: bool


@dataclass(frozen=True)
class ExportedContents:
    """The exported contents of the published copy: samples, and the time of each source's newest record."""

    samples: tuple[ExportedSample, ...]
    newest: tuple[tuple[str, str, datetime], ...]
    missing: tuple[Missing, ...] = ()


@dataclass
class LastScrape:
    """The parts that the last scrape lacked, for `/healthz`, which must not wait for a scrape."""

    at: datetime | None = None
    missing: tuple[Missing, ...] = ()


@dataclass
class _Collection:
    """Samples, part by part: a part that fails is left out whole and noted."""

    samples: list[ExportedSample] = field(default_factory=list)
    missing: list[Missing] = field(default_factory=list)

    def add(
        self,
        cluster: str,
        window: str,
        part: str,
        make: Callable[P, Iterable[ExportedSample]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> None:
        """Take in the samples of one part: `make(...)`."""
        try:
            self.samples.extend([_checked(sample) for sample in make(*args, **kwargs)])
        except FAULTS as error:
            raise_interrupt(error)
            where = f"{cluster}, window {window}" if window else cluster
            logger.exception("%r: %s is not exported", where, part)
            self.missing.append(Missing(cluster, window, part, reason_of(error), failed=True))

    def absent(self, cluster: str, window: str, part: str, reason: str) -> None:
        """Note what the data do not give."""
        self.missing.append(Missing(cluster, window, part, reason, failed=False))

    def failures(self, cluster: str) -> ExportedSample:
        """How many parts of a cluster failed."""
        failed = Counter(each.cluster for each in self.missing if each.failed)
        return ExportedSample(families.EXPORT_FAILURES, (cluster,), float(failed[cluster]))


def _checked(sample: ExportedSample) -> ExportedSample:
    """The sample, if it can be exported.

    Raises:
        ValueError: its value is not finite, or a label is no text.
    """
    if not math.isfinite(sample.value) or not all(isinstance(each, str) for each in sample.labels):
        raise ValueError(f"{sample.family.name}{list(sample.labels)} is {sample.value}")
    return sample


def negotiated(
    answers: AnswerCache,
    accept: str,
    *,
    now: datetime | None = None,
    claims: WatchedClaims | None = None,
    last: LastScrape | None = None,
) -> tuple[bytes, str]:
    """All metrics in the requested format (OpenMetrics or Prometheus text), and its content type.

    Args:
        answers: the published warehouse.
        accept: the header of the request.
        now: the time for the ages of sources; the clock's if None.
        claims: the claims to judge; the vendor's headlines if None.
        last: receives what this scrape lacks.
    """
    moment = now or clock.now()
    exported = _exported(answers, (claims or WatchedClaims(None)).now())
    if last is not None:
        last.at, last.missing = moment, exported.missing
    ages = [
        ExportedSample(families.INPUT_LAG, (cluster, source), (moment - newest).total_seconds())
        for cluster, source, newest in exported.newest
    ]
    registry = CollectorRegistry()
    registry.register(ExportedSamples([*exported.samples, *ages, _build()]))
    encode, content_type = _encoder(accept)
    return encode(registry), content_type


def _encoder(accept: str) -> tuple[Callable[[CollectorRegistry], bytes], str]:
    """The format that the header requests; Prometheus's text format if its version is no number."""
    try:
        return choose_encoder(accept)
    except (TypeError, ValueError):
        return choose_encoder("")


def _build() -> ExportedSample:
    return ExportedSample(families.BUILD_INFO, (importlib.metadata.version("trackside"),), 1.0)


def _exported(answers: AnswerCache, claims: tuple[Claim, ...]) -> ExportedContents:
    """The exported contents; empty where the published copy cannot be read."""
    try:
        return answers.ask(exported, claims)
    except NoWarehouseError:  # nothing is published yet
        return ExportedContents((), ())
    except FAULTS as error:
        raise_interrupt(error)
        logger.exception("nothing can be exported", exc_info=not isinstance(error, WarehouseError))
        return ExportedContents((), (), (Missing("", "", "everything", reason_of(error), failed=True),))


def exported(reader: Reader, claims: tuple[Claim, ...]) -> ExportedContents:
    """Everything that the published copy has to export."""
    source = CachedSource(reader)
    made = _Collection()
    for cluster in source.query("clusters")["cluster"]:
        made.add(cluster, "", "all its numbers", _of_cluster, made, source, cluster, claims)
    sources: list[dict[str, Any]] = []
    made.add("", "", "sources", _of_sources, source, sources)
    made.add("", "", "loads", parts.of_loads, source)
    newest = [(row["cluster"], row["source"], row["covers_until"]) for row in sources if row["covers_until"]]
    return ExportedContents(tuple(made.samples), tuple(newest), tuple(made.missing))


def _of_cluster(made: _Collection, source: RowSource, cluster: str, claims: tuple[Claim, ...]) -> list[ExportedSample]:
    """Add all parts of a cluster, and count those that failed; a cluster that is not computed has none."""
    computed = source.query("computed", cluster=cluster)
    if computed.is_empty():
        return []
    row, began = computed.row(0, named=True), time.monotonic()
    whole = Window(cluster, row["since"], row["until"])
    _of_windows(made, source, whole, claims)
    of_whole: dict[str, Callable[[RowSource, Window], Iterable[ExportedSample]]] = {
        "runs": _of_runs,
        "jobs": _of_jobs,
        "events": parts.of_events,
        "blocks": parts.of_blocks,
        "stragglers": parts.of_stragglers,
        "loads waiting": parts.of_waiting,
    }
    for name, part in of_whole.items():
        made.add(cluster, "", name, part, source, whole)
    return [
        ExportedSample(families.EXPORT_SECONDS, (cluster,), time.monotonic() - began),
        *_data_end(whole),
        ExportedSample(families.COMPUTED, (cluster,), row["computed_at"].timestamp()),
        made.failures(cluster),
    ]


def exported_at(source: RowSource, whole: Window, claims: tuple[Claim, ...]) -> ExportedContents:
    """The exported samples of a cluster whose data end with a window, without those of single jobs and runs."""
    made = _Collection()
    _of_windows(made, source, whole, claims)
    made.add(whole.cluster, "", "end of the data", _data_end, whole)
    return ExportedContents(tuple(made.samples), (), tuple(made.missing))


def _of_windows(made: _Collection, source: RowSource, whole: Window, claims: tuple[Claim, ...]) -> None:
    """Take in the standard windows, and the nodes and GPUs at their end."""
    for name, window in windows(whole).items():
        _of_window(made, source, window, name, claims)
    made.add(whole.cluster, "", "nodes", _of_nodes, source, whole)
    made.add(whole.cluster, "", "gpus", _of_gpus, source, whole)


def _data_end(whole: Window) -> Iterator[ExportedSample]:
    yield ExportedSample(families.DATA_END, (whole.cluster,), whole.until.timestamp())


def _of_sources(source: RowSource, rows: list[dict[str, Any]]) -> Iterator[ExportedSample]:
    """How many rows of each source were refused; `rows` has all sources."""
    rows += source.query("status_sources").to_dicts()
    for row in rows:
        yield from known(families.ROWS_REJECTED, (row["cluster"], row["source"]), row["rows_rejected"])


def windows(whole: Window) -> dict[str, Window]:
    """The standard windows by the names that the label `window` has, but those that the data are too short for.

    `month` is the calendar month (UTC) that the data end in, as far as there are data; verdicts are on the whole month.
    """
    standard = standard_windows(whole)
    named = {"all": whole}
    for days in (28, 7):
        last = Window(whole.cluster, whole.until - timedelta(days=days), whole.until)
        if last in standard:
            named[f"{days}d"] = last
    *_, (month, _) = months(whole.since, whole.until)
    named["month"] = Window(whole.cluster, max(month, whole.since), whole.until)
    return named


def _of_window(made: _Collection, source: RowSource, window: Window, name: str, claims: tuple[Claim, ...]) -> None:
    """Take in the parts of a window: the headline numbers, what is behind them, where the time went, the verdicts."""
    key = (window.cluster, name)
    for part, make in headlines.parts(source, window, exported=True).items():
        made.add(*key, part, _ratios, made, key, part, make)
    made.add(*key, "failures", _failures, source, window, key)
    made.add(*key, "restarts", _restarts, source, window, key)
    made.add(*key, "gpu_time", _gpu_time, source, window, key)
    made.add(*key, "capacity", _capacity, source, window, key)
    made.add(*key, "waste", parts.of_waste, source, window, key)
    made.add(*key, "placement", parts.of_placement, source, window, key)
    for claim in claims:
        made.add(*key, f"verdict on {claim.id}", _verdict, source, window, key, claim)


def _ratios(
    made: _Collection, key: tuple[str, str], part: str, make: Callable[[], tuple[Headline, ...]]
) -> Iterator[ExportedSample]:
    """Ratios among the headline numbers; a ratio without value and bounds is recorded with the reason."""
    shown = {each.metric: each for each in make()}
    if not shown:
        made.absent(*key, part, "this window has no GPU-time")
    for metric, headline in shown.items():
        exported = headline.definition.exported
        if exported is None:
            continue
        family, labels = families.OF_METRICS[exported.family], (*key, *(value for _, value in exported.labels))
        if not exported.bounds:
            yield from known(family, labels, headline.value)
            continue
        ratio = list(_bounded(family, labels, headline))
        yield from ratio
        if not ratio:
            made.absent(*key, metric, headline.note or "this window has no data to compute it from")
    if "goodput_allocated" in shown:
        for kind, share in shown["goodput_allocated"].evidence:
            yield ExportedSample(families.EVIDENCE, (*key, kind), share)


def _verdict(source: RowSource, window: Window, key: tuple[str, str], claim: Claim) -> Iterator[ExportedSample]:
    for judged in verifying.verify(source, _verdict_period(window, key[1]), [claim]):
        yield ExportedSample(families.VERDICT, (*key, claim.id, claim.kind), VERDICT[judged.verdict])
        yield from parts.of_claim(key, judged)


def _verdict_period(window: Window, name: str) -> Window:
    """The period that verdicts of a window are on: of `month` the whole one, though the data end within it."""
    if name != "month":
        return window
    return Window(window.cluster, *next(months(window.since, window.until)))


def _bounded(
    family: Family, labels: tuple[str, ...], shown: Headline, *, unit: float = 1.0
) -> Iterator[ExportedSample]:
    """Point, lower and upper of a number: its bounds, or its interval where it has no bounds."""
    low, high = shown.bound_low, shown.bound_high
    if low is None and high is None:
        low, high = shown.ci_low, shown.ci_high
    for bound, value in (("point", shown.value), ("lower", low), ("upper", high)):
        yield from known(family, (*labels, bound), None if value is None else value * unit)


def _failures(source: RowSource, window: Window, key: tuple[str, str]) -> Iterator[ExportedSample]:
    """MTTF, the failures it counts, and what they are counted over."""
    mttf = headlines.mttf_at(source, window, float(MTTF_GPUS))
    if not mttf.numerator:  # no exposure: nothing could have failed
        return
    yield from _bounded(families.MTTF, (*key, MTTF_GPUS), mttf, unit=DAY_S)
    exposed = mttf.numerator * float(MTTF_GPUS) * DAY_S
    yield ExportedSample(families.FAILURE_EXPOSURE, key, exposed)
    events = source.query("interruptions", **window.parameters)
    counted = dict(events.filter(pl.col("milli_gpus") > 0).group_by("class").len().iter_rows())
    counted["infrastructure"] = mttf.n or 0
    for name in CLASSES:
        yield ExportedSample(families.FAILURES, (*key, name), float(counted.get(name) or 0))


def _restarts(source: RowSource, window: Window, key: tuple[str, str]) -> Iterator[ExportedSample]:
    summed = restart_summary(restart_rows(source, window)).filter(
        (pl.col("class") == "infrastructure") & (pl.col("cause") == "all")
    )
    if summed.is_empty():
        return
    row = summed.row(0, named=True)
    yield from known(families.RESTART, (*key, "median"), row["median_s"])
    yield from known(families.RESTART, (*key, "p90"), row["p90_s"])
    yield ExportedSample(families.RESTARTS, key, float(row["n"]))


def _gpu_time(source: RowSource, window: Window, key: tuple[str, str]) -> Iterator[ExportedSample]:
    """The ledger of the window by category, and what could have trained and did not by cause."""
    rows = lost_rows(source, window)
    by_category = rows.group_by("state", "category").agg(pl.col("gpu_seconds").sum()).sort("state", "category")
    for state, category, seconds in by_category.iter_rows():
        yield from known(families.GPU_SECONDS, (*key, state, category), seconds)
    by_cause = (
        rows.filter(pl.col("category").is_in(COSTLY))
        .with_columns(pl.col("cause").fill_null(NO_CAUSE))
        .group_by("category", "cause")
        .agg(pl.col("gpu_seconds").sum())
        .sort("category", "cause")
    )
    for category, cause, seconds in by_cause.iter_rows():
        yield from known(families.GPU_LOST, (*key, category, cause), seconds)


def _capacity(source: RowSource, window: Window, key: tuple[str, str]) -> Iterator[ExportedSample]:
    yield from known(families.CAPACITY_BY_ACCOUNTING, key, share_by_accounting(source, window))


def _of_gpus(source: RowSource, whole: Window) -> Iterator[ExportedSample]:
    for state, gpus in source.query("gpus_at", cluster=whole.cluster, until=whole.until).iter_rows():
        yield from known(families.GPUS, (whole.cluster, state), gpus)


def _of_nodes(source: RowSource, whole: Window) -> Iterator[ExportedSample]:
    """Nodes that fail more often than by chance."""
    flagged = source.query("flagged_nodes", cluster=whole.cluster, until=whole.until)
    for node, verdict, failures in flagged.iter_rows():
        yield ExportedSample(families.FLAGGED_NODE, (whole.cluster, node, verdict), float(failures))


def _of_jobs(source: RowSource, whole: Window) -> Iterator[ExportedSample]:
    """Jobs that hold GPUs, by node: a join of these with the exporters' series gives the holder of a node's GPUs."""
    held = source.query("jobs_on_nodes", cluster=whole.cluster, until=whole.until).head(MAX_JOB_NODES)
    for row in held.iter_rows(named=True):
        names = (
            row["node"],
            row["job_id"],
            row["run_id"],
            *(row[name] or "" for name in ("user", "account", "partition")),
        )
        yield ExportedSample(families.JOB_GPUS, (whole.cluster, *names), float(row["n_gpus"]))


def _of_runs(source: RowSource, whole: Window) -> Iterator[ExportedSample]:
    """Runs that run, and those that ended last: bounded, since every run is a series for ever."""
    since = whole.until - timedelta(days=RUN_DAYS)
    recent = (
        source.query("runs", cluster=whole.cluster, since=since, until=whole.until)
        .filter(pl.col("started_at").is_not_null() & (pl.col("n_gpus") > 0))
        .sort("ended_at", "run_id", descending=[True, False], nulls_last=False)
        .head(MAX_RUNS)
    )
    ratios = {row["run_id"]: row for row in ettr_run_rows(source, whole).iter_rows(named=True)}
    for run in recent.iter_rows(named=True):
        key = (whole.cluster, run["run_id"])
        labels = (run["user"] or "", run["partition"] or "", run["state"] or "")
        yield ExportedSample(families.RUN_INFO, (*key, *labels), 1.0)
        yield ExportedSample(families.RUN_GPUS, key, float(run["n_gpus"]))
        yield ExportedSample(families.RUN_ATTEMPTS, key, float(run["n_attempts"]))
        ratio = ratios.get(run["run_id"], {})
        for bound, column in (("point", "ettr"), ("lower", "ettr_low"), ("upper", "ettr_high")):
            yield from known(families.RUN_ETTR, (*key, bound), ratio.get(column))
    yield from parts.of_runs_lost(source, whole, recent["run_id"].to_list())
