"""Raw readings of GPUs, as a file holds them, on the grid: `gpu_samples`, and XIDs.

`ingest.prometheus.gpu.server` does the same for a server. What is read is averaged series by series, as readings by
remote read are, and then put together to whole GPUs. A file may begin and end in the middle of a cell: the first and
the last cell of a GPU cover only the part that was read.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import polars as pl

from ingest.prometheus.client.remote_read import Samples
from ingest.prometheus.gpu.drivers import Versions
from ingest.prometheus.gpu.rates import per_second
from ingest.prometheus.gpu.samples import KEY, LONG, end, of_whole_gpus, too_sparse, usable, wide
from ingest.prometheus.gpu.server import cell_means
from ingest.prometheus.gpu.uuids import Uuids
from ingest.prometheus.health import xid
from ingest.prometheus.series.gather import chosen, keep_readings, without_blanks
from ingest.prometheus.series.hosts import HOST_INFO, Hosts
from ingest.prometheus.series.labels import (
    READINGS,
    SAMPLES,
    SOURCE,
    XID_COUNTS,
    XID_GAUGES,
    XID_NAMES,
    GpuLocation,
    gpu_location,
    identity,
    with_indexes,
)
from ingest.tables import GPU_SAMPLES, REJECTS, TEXT, TIME, WHOLE, Parsed, conform, empty

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from collections.abc import Mapping as Labels

    import numpy.typing as npt

    from ingest.load_warnings import LoadWarning
    from ingest.prometheus.mapping.mapping import Mapping
    from ingest.prometheus.series.gather import Gathered, Real

CELLS_AT_ONCE: Final = 1 << 18
"""Approximate number of cells (of one metric each) combined into rows together."""

_US: Final = 1_000_000
_NOWHERE: Final = GpuLocation("", "", "")


def names(mapping: Mapping) -> tuple[str, ...]:
    """Metrics that are read."""
    return (*mapping.of_gpus, *XID_NAMES)


def is_read(labels: Labels[str, str], mapping: Mapping) -> bool:
    """Whether a series is one of those that are read."""
    name = labels["__name__"]
    return name in XID_NAMES or (name in mapping.of_gpus and mapping.of_gpus[name].matches(labels))


def refused(labels: Labels[str, str], mapping: Mapping) -> str | None:
    """Reason why the readings of a series are unusable; None where they are usable, or not requested."""
    if not is_read(labels, mapping) or gpu_location(labels) is not None:
        return None
    return "no label names the node and the GPU"


class _GpuReadingCounts(NamedTuple):
    """Numbers of distinct readings, of plausible ones among them, and of all that are not blank."""

    distinct: int
    good: int
    n_readings: int


@dataclass
class _Averaging:
    """Readings of one file that become cells of the grid.

    `numbers` are those of the GPUs, by node and GPU; `moments` when each was read (epoch milliseconds), each time once.
    """

    mapping: Mapping
    interval_s: int
    means: list[tuple[str, Samples]] = field(default_factory=list)
    numbers: dict[tuple[str, str], int] = field(default_factory=dict)
    moments: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema={"number": pl.Int32, "at": WHOLE}))
    warnings: list[LoadWarning] = field(default_factory=list)

    def add(self, samples: Samples) -> _GpuReadingCounts:
        """Readings of one metric that are not blank."""
        name = samples.labels[0]["__name__"]
        values = self._believed(samples, name)
        good = ~np.isnan(values)
        valid = keep_readings(Samples(samples.labels, samples.sizes, samples.times, values), good)
        numbers = np.repeat(np.array([self._number(labels) for labels in valid.labels], np.int32), valid.sizes)
        new = pl.DataFrame({"number": numbers, "at": valid.times}, schema=self.moments.schema)
        self.moments = pl.concat([self.moments, new]).unique()
        self.means.append((self.mapping.of_gpus[name].read_as, cell_means(valid, self.interval_s * 1000)))
        return _counted(samples, good)

    def _number(self, labels: dict[str, str]) -> int:
        where = gpu_location(labels) or _NOWHERE
        return self.numbers.setdefault((where.node, where.gpu), len(self.numbers))

    def _believed(self, samples: Samples, name: str) -> Real:
        """Values in base units; NaN where they are implausible."""
        values = np.full(samples.times.size, np.nan)
        # `usable` uses the name and the value only; the reading's number is in place of its time.
        numbers = pl.int_range(samples.times.size, eager=True).cast(TIME)
        exported = conform(
            pl.DataFrame({"ts": numbers, "value": samples.values}).with_columns(name=pl.lit(name)), SAMPLES
        )
        judged = usable(exported, self.mapping)
        self.warnings += judged.warnings
        values[judged.values["ts"].to_physical().to_numpy()] = judged.values["value"].to_numpy()
        return values

    def samples(self, cluster: str) -> pl.DataFrame:
        """GPU_SAMPLES, sorted; some nodes at a time: rows take many times the memory of cells."""
        edges = self._edges()
        nodes = {node: number for number, node in enumerate(sorted({node for node, _ in self.numbers}))}
        owners = [np.array([nodes[_node(labels)] for labels in means.labels], np.int64) for _, means in self.means]
        n_cells = sum(means.times.size for _, means in self.means)
        at_once = max(1, len(nodes) * CELLS_AT_ONCE // max(n_cells, 1))
        frames = [empty(GPU_SAMPLES)]
        for begin in range(0, len(nodes), at_once):
            parts = [
                _long(keep_readings(means, np.repeat((of >= begin) & (of < begin + at_once), means.sizes)), column)
                for (column, means), of in zip(self.means, owners, strict=True)
            ]
            frames.append(wide(self._cut(of_whole_gpus(pl.concat(parts)), edges), cluster=cluster))
        return pl.concat(frames).sort(*KEY)

    def _cut(self, cells: pl.DataFrame, edges: pl.DataFrame) -> pl.DataFrame:
        """LONG means at the ends of their cells, as LONG with `interval_s`, the time that each covers."""
        stop = pl.col("ts").dt.epoch("us")
        start, stop = pl.max_horizontal(stop - self.interval_s * _US, "low"), pl.min_horizontal(stop, "high")
        return (
            cells.join(edges, on=["node", "gpu"])
            .with_columns(ts=start.cast(pl.Datetime("us")).dt.replace_time_zone("UTC"), interval_s=(stop - start) / _US)
            .drop("low", "high")
        )

    def _edges(self) -> pl.DataFrame:
        """Period in which each GPU's readings count (node, gpu): `low`, `high` in microseconds.

        Readings are taken to come as regularly as the median GPU's do.
        """
        at, width = pl.col("at") * 1000, self.interval_s * _US
        steps = self.moments.sort("number", "at").select(pl.col("at").diff().over("number").alias("step"))
        median = steps["step"].drop_nulls().median()
        step = min(round(median) * 1000, width) if isinstance(median, float) and median >= 1 else width
        whole_cell = -(-at.max() // width) * width
        places = self.moments.group_by("number").agg(
            (at.min() - step).alias("low"),
            # With another reading due within its cell, the cell is not whole.
            pl.when(at.max() + step > whole_cell).then(whole_cell).otherwise(at.max()).alias("high"),
        )
        return self.gpus().join(places, on="number").drop("number")

    def gpus(self) -> pl.DataFrame:
        """Node and GPU by number."""
        rows = [(node, gpu, number) for (node, gpu), number in self.numbers.items()]
        return pl.DataFrame(rows, schema={"node": TEXT, "gpu": TEXT, "number": pl.Int32}, orient="row")

    def present(self) -> pl.DataFrame:
        """First reading of each GPU (node, gpu, ts)."""
        first = self.moments.group_by("number").agg(
            pl.col("at").min().cast(pl.Datetime("ms", "UTC")).cast(TIME).alias("ts")
        )
        return self.gpus().join(first, on="number").select("node", "gpu", "ts")


def from_readings(gathered: Gathered, mapping: Mapping, *, cluster: str, interval_s: int) -> Parsed:
    """A file's readings of GPUs; those of other metrics are not examined.

    Each reading is a row. Blank ones, those of strange values and those outside the requested time are skipped; those
    that repeat others of a GPU (one per job, the same line twice) are duplicates.
    """
    on_nodes = _with_hosts(gathered.samples)
    read = on_nodes._replace(labels=with_indexes(on_nodes.labels))
    averaging = _Averaging(mapping, interval_s)
    counts, columns = [], []
    exported = {labels["__name__"] for labels in read.labels}
    for name in filter(exported.__contains__, mapping.of_gpus):
        places = without_blanks(_named(read, {name}, mapping))
        if places.labels and mapping.of_gpus[name].counter:
            places = per_second(places)
        if places.labels:
            counts.append(averaging.add(places))
            columns.append(name)
    raw = _readings(without_blanks(_named(read, XID_NAMES, mapping)))
    samples = averaging.samples(cluster)
    health = xid.events(_xid_readings(raw, averaging.present()), cluster=cluster)
    times = samples.select(pl.col("ts").min().alias("low"), end("ts", "interval_s").max().alias("high"))
    versions, uuids = Versions(), Uuids()
    versions.add(on_nodes)
    uuids.add(on_nodes)
    account = _account(gathered, set(names(mapping)), counts, raw.height)
    return Parsed(
        SOURCE,
        frozenset({cluster}),
        {
            "gpu_samples": samples,
            "health_events": health,
            "driver_versions": versions.frame(cluster),
            "gpu_uuids": uuids.frame(cluster),
        },
        empty(REJECTS),
        **account,
        columns=sorted({*columns, *raw["name"].unique()}),
        warnings=[*averaging.warnings, *too_sparse(samples, interval_s=interval_s)],
        covers_from=times["low"].item(),
        covers_until=times["high"].item(),
    )


def _with_hosts(samples: Samples) -> Samples:
    """Readings with the names of hosts that node_exporters in the same file have, where series have an address only."""
    named_hosts = [labels for labels in samples.labels if labels["__name__"] == HOST_INFO]
    if not named_hosts:
        return samples
    hosts = Hosts()
    for labels in named_hosts:
        hosts.add(labels)
    return samples._replace(labels=[hosts.with_name(labels) for labels in samples.labels])


def _named(samples: Samples, metrics: Collection[str], mapping: Mapping) -> Samples:
    return chosen(samples, lambda labels: labels["__name__"] in metrics and is_read(labels, mapping))


def _account(gathered: Gathered, metrics: set[str], counts: list[_GpuReadingCounts], n_xids: int) -> dict[str, int]:
    """`rows_...` of Parsed."""
    named_so = [labels["__name__"] in metrics for labels in gathered.samples.labels]
    places = int(gathered.n_readings[named_so].sum())
    within = int(gathered.samples.sizes[named_so].sum())
    outside = sum(count for name, count in gathered.outside.items() if name in metrics)
    loaded = sum(each.good for each in counts) + n_xids
    duplicate = places - within + sum(each.n_readings - each.distinct for each in counts)
    return {
        "rows_read": places + outside,
        "rows_loaded": loaded,
        "rows_duplicate": duplicate,
        "rows_skipped": places + outside - loaded - duplicate,
    }


def _rows(samples: Samples, columns: Labels[str, Sequence[str]]) -> pl.DataFrame:
    """One row per reading: the columns of its series, ts and value."""
    of_series = pl.DataFrame(columns, schema=dict.fromkeys(columns, TEXT))
    rows = of_series[np.repeat(np.arange(of_series.height), samples.sizes)]
    return rows.with_columns(
        pl.Series("ts", samples.times).cast(pl.Datetime("ms", "UTC")).cast(TIME), pl.Series("value", samples.values)
    )


def _long(means: Samples, column: str) -> pl.DataFrame:
    """LONG of means."""
    locations = [gpu_location(labels) or _NOWHERE for labels in means.labels]
    places = {key: [getattr(each, key) for each in locations] for key in ("node", "gpu", "instance")}
    return conform(_rows(means, places).with_columns(column=pl.lit(column)), LONG)


def _readings(samples: Samples) -> pl.DataFrame:
    """READINGS of samples."""
    places = [(labels, labels["__name__"], gpu_location(labels) or _NOWHERE) for labels in samples.labels]
    of_series = {
        "name": [name for _, name, _ in places],
        "node": [where.node for *_, where in places],
        "gpu": [where.gpu for *_, where in places],
        "instance": [where.instance for *_, where in places],
        "code": [labels.get("xid", "") for labels, *_ in places],
        "series": [identity(name, labels) for labels, name, _ in places],
    }
    return conform(_rows(samples, of_series), READINGS)


def _counted(samples: Samples, good: npt.NDArray[np.bool_]) -> _GpuReadingCounts:
    """Numbers of readings and of usable readings of a metric; those of one series and time count once."""
    slots: dict[GpuLocation, int] = {}
    numbers = [slots.setdefault(gpu_location(labels) or _NOWHERE, len(slots)) for labels in samples.labels]
    if len(slots) == len(numbers):
        return _GpuReadingCounts(good.size, int(good.sum()), good.size)
    rows = pl.DataFrame({"slot": np.repeat(numbers, samples.sizes), "ts": samples.times, "good": good})
    once = rows.group_by("slot", "ts").agg(pl.col("good").any())
    return _GpuReadingCounts(once.height, int(once["good"].sum()), good.size)


def _node(labels: Labels[str, str]) -> str:
    return (gpu_location(labels) or _NOWHERE).node


def _xid_readings(raw: pl.DataFrame, present_samples: pl.DataFrame) -> xid.XidReadings:
    """XIDs, and the first reading of each GPU; `present_samples` are GPUs with other readings."""
    both = pl.concat([present_samples, raw.select("node", "gpu", "ts")])
    present = both.group_by("node", "gpu").agg(pl.col("ts").min().alias("present_from"))
    gauges, counted = pl.col("name").is_in(XID_GAUGES), pl.col("name").is_in(XID_COUNTS)
    return xid.XidReadings(raw.filter(gauges), raw.filter(counted), present)
