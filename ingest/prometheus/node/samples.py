"""Rows of `node_samples` and `cluster_samples` from raw readings of any transport.

    made = from_raw(batches, mapping, "node_samples", cluster="c", interval_s=60)                # a file
    made = from_raw(batches, mapping, "node_samples", cluster="c", interval_s=60, since=a, until=b)  # a server

`made.frame` are the rows, `made.refused` the series that name no node, with the reason, `made.warnings` the warnings,
`made.counts` an account of the readings. With `since` and `until` (both on the grid) rows are those of the cells in
between, and readings up to `GONE_S` next to them are only context: they complete the counters' first and last cells.
Without them, rows are of all cells with readings. Batches may hold series that are not requested.

From readings to a row, step by step:

1. Each series alone: for a gauge the mean of its readings in the cell, for a counter its increase in the cell
   divided by the observed seconds (`ingest.prometheus.node.counters`).
2. Series that differ only in labels of the scrape (`ingest.prometheus.series.hosts`) are one: the one with the longest
   observed time of the cell counts, and of equal ones the larger.
3. The remaining series are combined (`Metric.combine`) to one value of a node and device. Rates are combined for the
   time of the cell that is observed in all its series; without common time there is no row. A series without observed
   time in the cell did not exist then: it began later, or was gone. A sum of gauges weighs each series by its number of
   readings in the cell, so one that came or went counts for its part of the cell only; if one of them has no plausible
   value, there is no sum.
4. Several exported names (or entries) of one quantity have one value, chosen as in 2.

A row of rates covers its observed seconds, one of gauges the whole cell; in a file the first and the
last cell of a node cover the part that was read, as in `ingest.prometheus.gpu.samples`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import polars as pl

from ingest.load_warnings import LoadWarning
from ingest.plausible import of_telemetry
from ingest.prometheus.client.raw import GONE_S
from ingest.prometheus.node.cells import (
    NEVER,
    CellRange,
    CounterLimits,
    edges_and_steps,
    median,
    of_counters,
    of_gauges,
    picked,
    where,
)
from ingest.prometheus.node.counters import Counters, Grown
from ingest.prometheus.node.table import (
    GAUGES,
    RATES,
    USES,
    VALUES,
    gauges_added_up,
    rates_added_up,
    values_of_gauges,
    values_of_rates,
    without_duplicates,
)
from ingest.prometheus.series.hosts import HOST_INFO, Hosts, Identity, identify
from ingest.prometheus.series.labels import SLACK
from ingest.tables import CLUSTER_SAMPLES, NODE_SAMPLES, TEXT, conform, empty

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy.typing as npt

    from ingest.prometheus.client.remote_read import Samples
    from ingest.prometheus.client.xor_chunks import Whole
    from ingest.prometheus.mapping.mapping import MappedMetric, Mapping, Table
    from ingest.tables import Schema

    Real = npt.NDArray[np.float64]

_NAMES_SHOWN: Final = 5
_FRAMES: Final[dict[str, Schema]] = {"node_samples": NODE_SAMPLES, "cluster_samples": CLUSTER_SAMPLES}


class ReadingCounts(NamedTuple):
    """Readings within the requested time, of requested series.

    Attributes:
        loaded: the accepted ones.
        left_out: those with implausible values.
        refused: those of series that were refused.
    """

    loaded: int
    left_out: int
    refused: int


class SampleRows(NamedTuple):
    """The rows of readings.

    Attributes:
        frame: NODE_SAMPLES or CLUSTER_SAMPLES.
        refused: series as text, with the reason.
        warnings: the warnings.
        counts: an account of the readings.
        latest_ms: the last reading's time (0: none).
        last_ms: the last reading's time of each counter.
    """

    frame: pl.DataFrame
    refused: dict[str, str]
    warnings: list[LoadWarning]
    counts: ReadingCounts
    latest_ms: int
    last_ms: Whole


def from_raw(
    batches: Iterable[Samples],
    mapping: Mapping,
    table: Table,
    *,
    cluster: str,
    interval_s: int,
    since: datetime | None = None,
    until: datetime | None = None,
) -> SampleRows:
    """Rows of a table from readings; see above.

    Args:
        batches: readings. A series may be in several batches, later readings in later ones.
        mapping: the columns that metrics fill.
        table: `node_samples` or `cluster_samples`.
        cluster: cluster of the rows.
        interval_s: width of the grid.
        since: beginning of the requested cells, on the grid; None: all.
        until: their end, on the grid; None: all.

    Returns:
        NODE_SAMPLES or CLUSTER_SAMPLES, sorted by node, metric, device and time, with an account of the readings.
    """
    readings = NodeReadings(mapping.of(table), table, cluster, interval_s, since, until)
    for samples in batches:
        readings.take(samples)
    return readings.made()


class _Use(NamedTuple):
    """One series for one entry: numbers of both, and its identity."""

    series: int
    entry: int
    identity: Identity


class Batch(NamedTuple):
    """The contents of a batch of readings, in numbers of series and uses.

    Attributes:
        series: those that are requested.
        n_read: number of readings of each within the requested time.
        uses: the entries that use those series, one for each run of readings.
        grown: increases of counters.
        gauges: GAUGES.
        strange: uses of the implausible values, one for each.
        edges: first and last readings of gauges, and their steps, where required
            (`ingest.prometheus.node.cells`).
        latest_ms: the last reading's time (0: none).
    """

    series: Whole
    n_read: Whole
    uses: Whole
    grown: Grown
    gauges: pl.DataFrame
    strange: Whole
    edges: tuple[pl.DataFrame, pl.DataFrame] | None
    latest_ms: int


@dataclass
class NodeReadings:
    """Readings that are taken batch by batch; of each series only its cells are stored.

    Attributes are the arguments of `from_raw`; `hosts` may have hosts that other sources reported.
    """

    metrics: Sequence[MappedMetric]
    table: Table
    cluster: str
    interval_s: int
    since: datetime | None = None
    until: datetime | None = None
    hosts: Hosts = field(default_factory=Hosts)

    def __post_init__(self) -> None:
        self._width = self.interval_s * 1000
        low = -NEVER if self.since is None else _epoch_ms(self.since)
        self._window = CellRange(self._width, low, NEVER if self.until is None else _epoch_ms(self.until))
        self._entries: dict[str, list[int]] = {}
        for number, metric in enumerate(self.metrics):
            self._entries.setdefault(metric.name, []).append(number)
        self._known: dict[tuple[tuple[str, str], ...], tuple[int, list[int]]] = {}
        self._uses: list[_Use] = []
        self._limits: list[tuple[bool, float, float]] = []
        self._counters = Counters(self._width)
        self._rates: list[pl.DataFrame] = []
        self._gauges: list[pl.DataFrame] = []
        self._n_read = np.zeros(0, np.int64)  # by series
        self._n_strange = np.zeros(0, np.int64)  # by use
        self._n_stretches = np.zeros(0, np.int64)  # by use
        self._edges: list[tuple[pl.DataFrame, pl.DataFrame]] = []
        self._latest = 0
        self.n_cells = 0  # that have readings, by series
        self._n_rates = 0  # of those that were of counters
        self._settled: list[pl.DataFrame] = []
        self._refused: dict[str, str] = {}
        self._jumped = 0
        self._jumps: set[str] = set()
        self._is_refused = np.zeros(0, bool)  # by use

    # --- readings

    def take(self, samples: Samples) -> None:
        """Take a batch."""
        self.add(self.read_batch(samples))

    def read_batch(self, samples: Samples) -> Batch:
        """The contents of a batch, not added yet (an answer may break off, and be requested again)."""
        identify = [self._number(labels) for labels in samples.labels]
        used = [(at, *each) for at, each in enumerate(identify) if each and each[1]]
        places = np.array([at for at, _, uses in used for _ in uses], np.int64)
        uses = np.array([use for _, _, uses in used for use in uses], np.int64)
        limits = np.array(self._limits, np.float64).reshape(-1, 3)
        is_counter = limits[uses, 0] > 0
        counters = of_counters(picked(samples, places[is_counter], uses[is_counter]), self._window)
        read = picked(samples, places[~is_counter], uses[~is_counter])
        gauges = of_gauges(read, CounterLimits(limits[:, 1], limits[:, 2]), self._window)
        return Batch(
            np.array([series for _, series, _ in used], np.int64),
            self._window.n_read(samples)[[at for at, _, _ in used]],
            uses,
            counters.grown,
            gauges.rows,
            np.concatenate([counters.strange, gauges.strange]),
            edges_and_steps(read) if self.since is None else None,
            int(samples.times.max(initial=0)),
        )

    def add(self, batch: Batch) -> None:
        """Take the contents of a batch; later readings of a series come in later ones."""
        self._n_read = _room(self._n_read, len(self._known))
        self._n_stretches = _room(self._n_stretches, len(self._uses))
        self._n_strange = _room(self._n_strange, len(self._uses))
        np.add.at(self._n_read, batch.series, batch.n_read)
        np.add.at(self._n_stretches, batch.uses, 1)
        np.add.at(self._n_strange, batch.strange, 1)
        increases = self._counters.add(batch.grown)
        increases_here = where(self._window.has(increases.cells), increases)
        rates = pl.DataFrame(dict(zip(RATES, increases_here, strict=True)), RATES)
        self._rates.append(rates)
        self._gauges.append(batch.gauges)
        self.n_cells += rates.height + batch.gauges.height
        if batch.edges is not None:
            self._edges.append(batch.edges)
        self._latest = max(self._latest, batch.latest_ms)

    def _number(self, labels: dict[str, str]) -> tuple[int, list[int]] | None:
        """Number of a series, and those of its uses; None where no entry of the mapping matches it."""
        name = labels.get("__name__", "")
        if name == HOST_INFO:
            self.hosts.add(labels)
        entries = self._entries.get(name)
        if entries is None:
            return None
        key = tuple(sorted(labels.items()))
        number_and_uses = self._known.get(key)
        if number_and_uses is None:
            number_and_uses = self._known[key] = len(self._known), []
            for entry in entries:
                metric = self.metrics[entry]
                if metric.matches(labels):
                    number_and_uses[1].append(len(self._uses))
                    self._uses.append(_Use(number_and_uses[0], entry, identify(metric, labels)))
                    self._limits.append(_limits(metric))
        return number_and_uses

    # --- rows

    def finalize(self, before: datetime | None) -> None:
        """Make rows of all cells that end by `before` (None: of all cells), and drop their readings.

        All readings up to `GONE_S` after these cells must have been added.
        """
        last = NEVER if before is None else _epoch_ms(before) // self._width
        rates, gauges = _all(self._rates, RATES), _all(self._gauges, GAUGES)
        self._rates, self._gauges = ([each.filter(pl.col("cell") >= last)] for each in (rates, gauges))
        rates, gauges = (each.filter(pl.col("cell") < last) for each in (rates, gauges))
        if self._n_stretches.max(initial=0) > 1:
            rates, gauges = rates_added_up(rates), gauges_added_up(gauges)
        self._n_rates += rates.height
        targets, uses = self._judged()
        steady = values_of_gauges(gauges, uses, width_ms=self._width)
        cut = self._cut(steady, targets, uses) if self.since is None and steady.height else steady
        values = without_duplicates(pl.concat([self._plausible(values_of_rates(rates, uses), targets), cut]))
        self._settled.append(_rows(values, targets, self.cluster, self.table))

    def _plausible(self, values: pl.DataFrame, targets: Sequence[tuple[str, str, str]]) -> pl.DataFrame:
        """Values of counters without implausible ones, from a counter that jumped instead of growing."""
        metrics = pl.Series([metric for _, metric, _ in targets], dtype=pl.String)
        most = pl.Series([of_telemetry(metric).most for metric in metrics], dtype=pl.Float64)
        beyond = values["value"].fill_null(0.0) > most.gather(values["target"])
        self._jumped += int(beyond.sum())
        self._jumps |= set(metrics.gather(values.filter(beyond)["target"]))
        return values.filter(~beyond)

    def made(self) -> SampleRows:
        """The rows of all that was taken."""
        self.finalize(None)
        frame = combined(self._settled, self.table, interval_s=self.interval_s)
        warnings = [*self._of_strange(), *self._of_jumps(), *self._of_sparse(frame), *self._of_silent()]
        counters = [use for use, limits in enumerate(self._limits) if limits[0] and not self._is_refused[use]]
        last = self._counters.last_ms(np.array(counters, np.int64))
        return SampleRows(frame, self._refused, warnings, self._counts(), self._latest, last)

    def _judged(self) -> tuple[list[tuple[str, str, str]], pl.DataFrame]:
        """Targets of rows (node, metric, device, in order), and USES; marks refused series."""
        targets: list[tuple[str, str, str] | None] = []
        keys = list(self._known)
        for use in self._uses:
            node, why = self.hosts.node(use.identity) if self.table == "node_samples" else ("", "")
            targets.append(None if why else (node, self.metrics[use.entry].column, use.identity.device))
            if why:
                labels = dict(keys[use.series])
                self._refused[f"{labels.pop('__name__')} {labels}"] = why
        ordered = sorted({target for target in targets if target is not None})
        number = {target: at for at, target in enumerate(ordered)}
        groups: dict[tuple[int, int], int] = {}
        twins: dict[tuple[int, tuple[tuple[str, str], ...]], int] = {}
        rows = []
        for use, target in zip(self._uses, targets, strict=True):
            metric = self.metrics[use.entry]
            target_numbers: tuple[int | None, ...] = (None, None, None)
            if target is not None:
                group = groups.setdefault((number[target], use.entry), len(groups))
                target_numbers = number[target], group, twins.setdefault((group, use.identity.rest), len(twins))
            rows.append((*target_numbers, metric.scale, metric.high, metric.one_minus, metric.combine))
        self._is_refused = np.array([target is None for target in targets], bool)
        return ordered, pl.DataFrame(rows, USES, orient="row")

    def _cut(self, values: pl.DataFrame, targets: Sequence[tuple[str, str, str]], uses: pl.DataFrame) -> pl.DataFrame:
        """Values of gauges that cover no time before a node's first reading or behind its last."""
        nodes = pl.DataFrame({"node": [node for node, _, _ in targets]}).with_row_index("target")
        read = pl.concat([each.with_columns(uses["target"].gather(each["use"])) for each, _ in self._edges])
        step = min(median([steps for _, steps in self._edges]) or self._width, self._width)
        last = pl.col("last_ms").max()
        whole = -(-last // self._width) * self._width
        edges = (
            read.join(nodes, on="target")
            .group_by("node")
            .agg(
                (pl.col("first_ms").min() - step).alias("low"),
                # With another reading due within its cell, the cell is not whole.
                pl.when(last + step > whole).then(whole).otherwise(last).alias("high"),
            )
        )
        begin = pl.max_horizontal("begin_ms", "low")
        end = pl.min_horizontal(pl.col("begin_ms") + self._width, "high")
        joined = values.join(nodes, on="target").join(edges, on="node")
        return joined.with_columns(begin_ms=begin, observed_ms=end - begin).select(VALUES.keys())

    def _counts(self) -> ReadingCounts:
        owners, refused = np.array([use.series for use in self._uses], np.int64), self._is_refused
        strange, read = _room(self._n_strange, len(self._uses)), _room(self._n_read, len(self._known))
        left_out = np.zeros(read.size, np.int64)
        np.maximum.at(left_out, owners[~refused], strange[~refused])
        gone = int(read[np.unique(owners[refused])].sum())
        return ReadingCounts(int(read.sum() - left_out.sum()) - gone, int(left_out.sum()), gone)

    # --- warnings

    def _of_strange(self) -> list[LoadWarning]:
        joined = np.flatnonzero(self._n_strange)
        if not joined.size:
            return []
        names = sorted({self.metrics[self._uses[use].entry].name for use in joined.tolist()})
        more = ", ..." if len(names) > _NAMES_SHOWN else ""
        count = int(self._n_strange.sum())
        detail = f"{', '.join(names[:_NAMES_SHOWN])}{more}"
        return [LoadWarning("node_values_implausible", count, detail)]

    def _of_jumps(self) -> list[LoadWarning]:
        if not self._jumped:
            return []
        names = sorted(self._jumps)
        more = ", ..." if len(names) > _NAMES_SHOWN else ""
        return [LoadWarning("counter_jumps", self._jumped, f"{', '.join(names[:_NAMES_SHOWN])}{more}")]

    def _of_sparse(self, frame: pl.DataFrame) -> list[LoadWarning]:
        """Where gauges are read less often than the interval, most of the time is unobserved."""
        columns = [metric.column for metric in self.metrics if not metric.counter]
        gauges = frame.filter(pl.col("metric").is_in(columns))
        step = pl.col("ts").diff().over([name for name in ("node", "metric", "device") if name in frame.columns])
        median = gauges.select((step.dt.total_milliseconds() / 1000).median()).item()
        if not isinstance(median, float) or median <= self.interval_s:
            return []
        detail = (
            f"gauges come only every {median:g} s, so of the {self.interval_s} s intervals many are empty; "
            f"set prometheus.interval_s to {round(median)} or more"
        )
        return [LoadWarning("readings_sparse", None, detail)]

    def _of_silent(self) -> list[LoadWarning]:
        counters = [use for use, limits in enumerate(self._limits) if limits[0]]
        read = _room(self._n_read, len(self._known))[[self._uses[use].series for use in counters]]
        if self._n_rates or not np.any(read > 1):
            return []
        detail = f"counters are read less often than every {GONE_S} s, so they have no rows"
        return [LoadWarning("counters_sparse", None, detail)]


def _rows(values: pl.DataFrame, targets: Sequence[tuple[str, str, str]], cluster: str, table: Table) -> pl.DataFrame:
    """Rows as declared, of VALUES."""
    names = pl.DataFrame(targets, dict.fromkeys(("node", "metric", "device"), TEXT), orient="row")
    row_names = names[values["target"]] if values.height else names.clear()
    made = pl.concat([row_names, values], how="horizontal").with_columns(
        cluster=pl.lit(cluster),
        ts=pl.col("begin_ms").cast(pl.Datetime("ms", "UTC")),
        interval_s=pl.col("observed_ms") / 1000,
    )
    return conform(made, _FRAMES[table])


def combined(frames: Sequence[pl.DataFrame], table: Table, *, interval_s: int) -> pl.DataFrame:
    """Rows of several queries as one frame, sorted; several names of one quantity are one value (see above)."""
    if len(frames) == 1:
        return frames[0]
    rows = pl.concat([empty(_FRAMES[table]), *frames])
    key = [name for name in ("node", "metric", "device") if name in rows.columns]
    targets = rows.select(key).unique().sort(key).with_row_index("target")
    cell = pl.col("ts").dt.epoch("ms") // (interval_s * 1000)
    values = rows.join(targets, on=key).with_columns(cell=cell, observed_ms="interval_s", begin_ms="ts")
    return conform(without_duplicates(values), _FRAMES[table])


def _all(parts: Sequence[pl.DataFrame], schema: Schema) -> pl.DataFrame:
    return pl.concat([empty(schema), *parts])


def _limits(metric: MappedMetric) -> tuple[bool, float, float]:
    """Whether it is a counter, and the plausible range of values (of gauges)."""
    most = of_telemetry(metric.column).most / metric.scale
    return metric.counter, metric.low, most if metric.high is None else min(metric.high * (1 + SLACK), most)


def _room(counts: Whole, size: int) -> Whole:
    """The counts, extended to `size`."""
    return np.concatenate([counts, np.zeros(max(size - counts.size, 0), np.int64)])


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def _epoch_ms(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(milliseconds=1)
