"""Raw readings as intervals of constant value per series: the input of health events.

Readings are many and repeat for weeks. For each series of a batch only its intervals of constant value are kept; a gap
of more than GONE_S ends an interval. Of counters of time, which change with every reading, the last reading of each
interval of a rule is kept.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import polars as pl

from ingest.prometheus.client.raw import GONE_S
from ingest.prometheus.health.rules import DCGM, names
from ingest.prometheus.series.hosts import HOST_INFO, REPLICA_LABELS, Hosts
from ingest.prometheus.series.hosts import Identity as Named
from ingest.prometheus.series.labels import ADDRESS_LABELS, gpu_location, is_blank, node_label
from ingest.tables import REAL, TEXT, WHOLE, Schema

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    import numpy.typing as npt

    from ingest.prometheus.client.remote_read import Samples
    from ingest.prometheus.health.rules import Rule

VOLATILE: Final = frozenset(
    (
        *("hpc_job", "pod", "namespace", "container", "pod_uid", "pod_name", "pod_namespace", "container_name"),
        *("exported_pod", "exported_namespace", "exported_container", "exported_uid"),
        *("err_code", "err_msg", "health_error_code", "device_error"),
    )
)
"""Labels that change while the measured thing stays: the workload of a GPU, and its errors. Series that differ in
nothing else are one; where they are read at the same time the larger value counts."""

WITNESS: Final = ("job", "instance", "prometheus", "prometheus_replica", "replica")
"""Labels that distinguish exporters and scrapers."""

RUNS: Final[Schema] = {"series": WHOLE, "low": WHOLE, "high": WHOLE, "value": REAL}
"""`series` had `value` from `low` to `high` (epoch milliseconds)."""

TARGETS: Final[Schema] = {
    "series": WHOLE,
    "name": TEXT,
    "rule": WHOLE,
    "node": TEXT,
    "gpu": TEXT,
    "device": TEXT,
    "code": TEXT,
    "witness": TEXT,
    "kin": TEXT,
    "identity": TEXT,
}
"""The targets of a series, one for each matching rule. Series of one `kin` measure the same thing by several scrapers.

`identity` sorts series, independent of the order of input.
"""


class CondensedSeries(NamedTuple):
    """RUNS and TARGETS, the refused series (with reasons), and the times of the first and last reading.

    `readings` is the number of readings that count, `blanks` that of blank ones among them.
    """

    runs: pl.DataFrame
    targets: pl.DataFrame
    refused: dict[str, str]
    readings: int
    blanks: int
    first: int | None
    last: int | None


class CondensedBatch(NamedTuple):
    """Result of a batch: RUNS, numbers of readings that count and of blank ones, and the times of the others."""

    runs: pl.DataFrame
    readings: int
    blanks: int
    first: int | None
    last: int | None


class _SeriesTarget(NamedTuple):
    """The target of a series for one rule."""

    rule: int
    named: Named
    gpu: str
    device: str
    code: str


@dataclass
class Condenser:
    """Condenses batches of readings. Readings up to `counted_from` do not count as read.

    A transport that fails midway starts again, and its earlier batches are void: `condensed` only computes a result,
    and `take` adds it.
    """

    rules: Sequence[Rule]
    counted_from: datetime | None = None
    _by_name: dict[str, list[int]] = field(default_factory=dict)
    _widths: dict[str, int] = field(default_factory=dict)
    _masks: dict[str, int] = field(default_factory=dict)
    _numbers: dict[str, int] = field(default_factory=dict)
    _abouts: list[tuple[str, str, str, str, list[_SeriesTarget]]] = field(default_factory=list)
    _hosts: Hosts = field(default_factory=Hosts)
    _refused: dict[str, str] = field(default_factory=dict)
    _parts: list[CondensedBatch] = field(default_factory=list)

    def __post_init__(self) -> None:
        for number, rule in enumerate(self.rules):
            for name in rule.names:
                self._by_name.setdefault(name, []).append(number)
                if rule.event == "share":
                    self._widths[name] = rule.within_s * 1000
                if rule.bits is not None:
                    self._masks[name] = self._masks.get(name, 0) | rule.bits

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the metrics to read."""
        return (*names(self.rules), HOST_INFO)

    def add(self, samples: Samples) -> None:
        """Add a batch. A series may be in several."""
        self.take(self.condensed(samples))

    def take(self, part: CondensedBatch) -> None:
        """Add the result of a batch."""
        self._parts.append(part)

    def condensed(self, samples: Samples) -> CondensedBatch:
        """The result of a batch."""
        metrics = [labels.get("__name__", "") for labels in samples.labels]
        numbers = np.array([self._number(labels) for labels in samples.labels], np.int64)
        of_dcgm = np.array([name.startswith(DCGM) for name in metrics], bool)
        widths = np.array([self._widths.get(name, 0) for name in metrics], np.int64)
        series = np.repeat(np.arange(len(metrics)), samples.sizes)
        in_rules = numbers[series] >= 0
        valid = in_rules & _usable(samples.values, of_dcgm[series])
        counted = in_rules & (samples.times > self._since)
        real = samples.times[counted & valid]
        series = series[valid]
        values = _masked(
            samples.values[valid], np.array([self._masks.get(name, 0) for name in metrics], np.int64)[series]
        )
        return CondensedBatch(
            _runs(series, numbers[series], samples.times[valid], values, widths[series]),
            int(counted.sum()),
            int((counted & ~valid).sum()),
            int(real.min()) if real.size else None,
            int(real.max()) if real.size else None,
        )

    @property
    def _since(self) -> int:
        return -(1 << 62) if self.counted_from is None else round(self.counted_from.timestamp() * 1000)

    def gathered(self) -> CondensedSeries:
        """The result of all batches."""
        runs = pl.concat([pl.DataFrame(schema=RUNS), *(part.runs for part in self._parts)])
        # Series that became one: their readings of one time are one reading.
        runs = runs.group_by("series", "low").agg(pl.col("high", "value").max()).sort("series", "low")
        rows, refused = list[tuple[object, ...]](), dict(self._refused)
        for number, (name, witness, kin, identity, abouts) in enumerate(self._abouts):
            for about in abouts:
                node, reason = self._hosts.node(about.named)
                if reason:
                    refused[identity] = reason
                else:
                    what = (about.rule, node, about.gpu, about.device, about.code)
                    rows.append((number, name, *what, f"{node} {witness}", kin, identity))
        targets = pl.DataFrame(rows, schema=TARGETS, orient="row")
        return CondensedSeries(
            runs.select(*RUNS),
            targets,
            refused,
            sum(part.readings for part in self._parts),
            sum(part.blanks for part in self._parts),
            min((part.first for part in self._parts if part.first is not None), default=None),
            max((part.last for part in self._parts if part.last is not None), default=None),
        )

    def _number(self, labels: Mapping[str, str]) -> int:
        """The series' number; -1 where no rule matches it."""
        name = labels.get("__name__", "")
        if name == HOST_INFO:
            self._hosts.add(labels)
            return -1
        lasting = sorted(pair for pair in labels.items() if _lasts(pair[0]))
        identity = str(lasting)
        number = self._numbers.get(identity)
        if number is None:
            abouts = self._targets(name, labels)
            number = self._numbers[identity] = len(self._abouts) if abouts else -1
            if abouts:
                kin = str([pair for pair in lasting if pair[0] not in _OF_REPLICAS])
                witness = str([labels.get(label, "") for label in WITNESS])
                self._abouts.append((name, witness, kin, identity, abouts))
        return number

    def _targets(self, name: str, labels: Mapping[str, str]) -> list[_SeriesTarget]:
        """The targets of a series, one for each matching rule."""
        targets: list[_SeriesTarget] = []
        for number in self._by_name.get(name, []):
            rule = self.rules[number]
            if not rule.fits(labels):
                continue
            device = "/".join(filter(None, (labels.get(label) for label in rule.device)))
            code = labels.get(rule.code_from) or rule.code
            label = node_label(labels, rule.node_labels)
            named, gpu = Named(labels.get(label, ""), label in ADDRESS_LABELS, "", ()), ""
            if rule.of_gpus:
                where = gpu_location(labels)
                named = Named(where.node if where else "", by_address=False, device="", rest=())
                gpu = where.gpu if where else ""
            if not named.name or not code:
                required = "the node and the GPU" if rule.of_gpus else "the node"
                self._refused[f"{name} {dict(labels)}"] = f"no label names {required if code else rule.code_from}"
                return []
            targets.append(_SeriesTarget(number, named, gpu, device, code))
        return targets


_OF_REPLICAS: Final = REPLICA_LABELS - {"__name__"}


@cache
def _lasts(label: str) -> bool:
    """Whether a label is constant for a thing. DCGM's fields may be labels, too: the driver's version."""
    return label not in VOLATILE and not label.startswith(DCGM)


def _usable(values: npt.NDArray[np.float64], of_dcgm: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Mask of usable values: numbers from 0 on, without DCGM's marks for "no value"."""
    frame = pl.DataFrame({"value": values, "of_dcgm": of_dcgm})
    usable = pl.col("value").is_finite() & (pl.col("value") >= 0) & ~(pl.col("of_dcgm") & is_blank())
    return frame.select(good=usable)["good"].to_numpy().astype(bool)


def _masked(values: npt.NDArray[np.float64], masks: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Values of rules about bits, reduced to these bits: the others change all the time."""
    which = np.flatnonzero((masks > 0) & (np.abs(values) < _EXACT))
    masked = values.copy()
    masked[which] = values[which].astype(np.int64) & masks[which]
    return masked


_EXACT: Final = 2.0**53
"""Largest exact whole number of a float."""


def _runs(
    places: npt.NDArray[np.int64],
    series: npt.NDArray[np.int64],
    times: npt.NDArray[np.int64],
    values: npt.NDArray[np.float64],
    widths: npt.NDArray[np.int64],
) -> pl.DataFrame:
    """RUNS of readings, in order within each series of a batch.

    Where a width (milliseconds) is given, they are the last readings of its cells, one by one.
    """
    if not series.size:
        return pl.DataFrame(schema=RUNS)
    cells = -(-times // np.maximum(widths, 1))
    last = np.append((places[1:] != places[:-1]) | (cells[1:] != cells[:-1]), [True]) | (widths == 0)
    places, series, times, values, widths = places[last], series[last], times[last], values[last], widths[last]
    gone = np.diff(times) > GONE_S * 1000
    begins = (places[1:] != places[:-1]) | (values[1:] != values[:-1]) | gone | (widths[1:] > 0)
    first = np.concatenate([[0], np.flatnonzero(begins) + 1])
    ends = np.append(first[1:], series.size) - 1
    columns = {"series": series[first], "low": times[first], "high": times[ends], "value": values[first]}
    return pl.DataFrame(columns, schema=RUNS)
