"""XIDs, the error codes of NVIDIA's driver: the meaning of each, and the detection of events.

DCGM exports the *last* code as a gauge that keeps it until the driver is reloaded, so an event is an edge: the
value of a series becomes non-zero, or another. A repeat of the same code leaves no trace there; the exporter's counts
by code (off by default) show it.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import polars as pl

from ingest.prometheus.series.labels import SOURCE
from ingest.tables import HEALTH_EVENTS, TEXT, TIME, conform, empty

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime

Class = Literal["HW", "DRIVER", "APP", "INFO", "CONSEQUENCE", "WARN", "UNKNOWN"]
Severity = Literal["critical", "warning", "info"]

FIRST_SEEN: Final = "already there when first seen, so when it happened is unknown: "
"""Prefix of `detail` for a code whose appearance was not observed."""

HIGHEST: Final = 1_000
"""Larger values are not codes."""

ECHO_S: Final = 120
"""Seconds within which two series with the same code report one event: each exporter has its own scrape times, at
least
about once a minute."""

GONE_S: Final = 300
"""Seconds without a reading after which a series is gone (Prometheus' own limit)."""

_US: Final = 1_000_000


@dataclass(frozen=True)
class Xid:
    """A code. `kind` is what it usually indicates: a prior, not a fact. `needs` is the action of NVIDIA's catalog."""

    code: int
    meaning: str
    kind: Class
    needs: str

    @property
    def severity(self) -> Severity:
        """Critical codes may end a job; info alone never does."""
        if self.kind in {"INFO", "APP", "CONSEQUENCE"}:
            return "info"
        return "critical" if self.kind in {"HW", "DRIVER"} and self.needs != _SEE_48 else "warning"

    @property
    def description(self) -> str:
        """Meaning and action in words."""
        return f"{self.meaning}; {self.needs}"


_RESTART_APP = "restart the application"
_RESET = "reset the GPU"
_IGNORE = "no action"
_NVLINK = "follow NVIDIA's NVLink workflow"
_NVLINK5 = "follow NVIDIA's NVLink 5 workflow for its sub-code (kernel log)"
_SEE_48 = "see the XID 48 next to it"

XIDS: Final = (
    Xid(13, "graphics engine exception", "APP", f"{_RESTART_APP}, debug it first"),
    Xid(31, "GPU memory page fault", "APP", f"{_RESTART_APP}, debug it first"),
    Xid(32, "invalid or corrupted push buffer (mostly PCIe quality)", "UNKNOWN", _RESTART_APP),
    *(Xid(code, "copy engine error", "UNKNOWN", _RESTART_APP) for code in (39, 40, 41, 70, 71, 72, 75, 76, 77)),
    Xid(43, "GPU stopped processing a channel; the GPU stays healthy", "APP", _IGNORE),
    Xid(45, "preemptive cleanup after another error", "CONSEQUENCE", "look for the XID before it"),
    Xid(46, "GPU stopped processing (timeout)", "HW", _RESET),
    Xid(48, "uncorrectable ECC error", "HW", "reset the GPU; replace it if its SRAM threshold is exceeded"),
    Xid(62, "internal micro-controller halt", "HW", _RESET),
    Xid(63, "memory row remapping recorded", "INFO", "no action; watch the trend"),
    Xid(64, "memory row remapping failed", "HW", _RESET),
    Xid(69, "graphics engine class error", "APP", _RESTART_APP),
    Xid(74, "NVLink error (the remote end may be at fault)", "HW", _NVLINK),
    Xid(79, "GPU has fallen off the bus", "HW", "restart the machine"),
    Xid(92, "high rate of single-bit ECC errors", "WARN", _IGNORE),
    Xid(94, "contained memory error: its job dies, the node stays usable", "HW", _RESTART_APP),
    Xid(95, "uncontained memory error", "HW", _RESET),
    Xid(109, "context switch timeout", "UNKNOWN", _RESET),
    Xid(110, "security fault", "HW", _RESET),
    Xid(119, "GSP firmware did not answer", "DRIVER", _RESET),
    Xid(120, "GSP firmware error", "DRIVER", _RESET),
    Xid(121, "corrected C2C link error", "INFO", _IGNORE),
    Xid(136, "link training failed", "HW", _RESET),
    Xid(137, "NVLink privilege error of an application", "APP", _IGNORE),
    Xid(140, "unrecovered ECC error", "HW", _RESET),
    Xid(143, "GPU initialisation error", "HW", _RESET),
    *(Xid(code, "NVLink 5 error", "UNKNOWN", _NVLINK5) for code in range(144, 151)),
    Xid(154, "recovery action changed", "WARN", "the kernel log has the recommended action"),
    Xid(155, "NVLink error defined by software", "INFO", _RESET),
    Xid(156, "resource retired", "WARN", _RESET),
    Xid(158, "fatal timeout", "HW", _RESET),
    Xid(171, "detail of an uncorrectable ECC error: DRAM", "HW", _SEE_48),
    Xid(172, "detail of an uncorrectable ECC error: SRAM", "HW", _SEE_48),
)
"""NVIDIA's XID catalog (docs.nvidia.com/deploy/xid-errors), with our classes."""

_BY_CODE: Final = {xid.code: xid for xid in XIDS}


def xid(code: int) -> Xid:
    """The entry of a code; for codes outside the table nothing is assumed.

    >>> xid(79).severity, xid(31).severity, xid(999).kind
    ('critical', 'info', 'UNKNOWN')
    """
    return _BY_CODE.get(code) or Xid(code, "not in our table of XIDs", "UNKNOWN", "see NVIDIA's XID catalog")


class XidReadings(NamedTuple):
    """Raw readings (READINGS): `gauge`, and `counts` by code. Several series may be of one GPU.

    `present`: since when each GPU has readings (node, gpu, present_from). A count that begins later began at 0,
    and so did a gauge: where there was no XID yet DCGM's is blank (since 4.5), and the exporter does not show it.
    """

    gauge: pl.DataFrame
    counts: pl.DataFrame
    present: pl.DataFrame


def events(readings: XidReadings, *, cluster: str, reported_before: datetime | None = None) -> pl.DataFrame:
    """HEALTH_EVENTS of a cluster, sorted; each (node, GPU, time, code) once.

    An event is an edge within one series. Reports of several series of a GPU (two exporters, MIG instances, one per
    job) within ECHO_S are one event, at the earliest time. Edges before `reported_before` belong to another load: they
    only show which later ones repeat them.
    """
    edges = pl.concat([_gauge_edges(readings.gauge, readings.present), _count_edges(readings.counts, readings.present)])
    first = pl.col("first_seen")
    edges = pl.concat([_without_echoes(edges.filter(~first)), edges.filter(first)])
    if reported_before is not None:
        edges = edges.filter(first | (pl.col("ts") >= reported_before))
    codes = [_described(code) for code in edges["code"].unique().sort()]
    if not codes:
        return empty(HEALTH_EVENTS)
    texts = pl.DataFrame(codes, schema=["code", "class", "severity", "detail", "action"], orient="row")
    rows = (
        edges.sort("node", "gpu", "ts", "code", "first_seen")
        .unique(["node", "gpu", "ts", "code"], keep="first", maintain_order=True)
        .join(texts, on="code", maintain_order="left")
        .with_columns(
            cluster=pl.lit(cluster),
            kind=pl.lit("xid"),
            source=pl.lit(SOURCE),
            evidence=pl.lit("telemetry"),
            severity=pl.when(first).then(pl.lit("info")).otherwise("severity"),
            detail=pl.when(first).then(pl.lit(FIRST_SEEN) + pl.col("detail")).otherwise("detail"),
        )
    )
    return conform(rows, HEALTH_EVENTS)


def _described(code: str) -> tuple[str, str, str, str, str]:
    entry = xid(int(code))
    return code, entry.kind, entry.severity, entry.description, entry.needs


_EDGE: Final = {"node": TEXT, "gpu": TEXT, "series": TEXT, "ts": TIME, "code": TEXT, "first_seen": pl.Boolean()}


def _gauge_edges(gauge: pl.DataFrame, present: pl.DataFrame) -> pl.DataFrame:
    """A series' value that becomes a code, or another one."""
    value, others = pl.col("value"), pl.col("others")
    runs = _runs(gauge.filter(value.is_between(0, HIGHEST)), ["node", "gpu"], operator.eq)
    return conform(
        runs.join(present, on=["node", "gpu"], how="left", maintain_order="left")
        .filter(value > 0, value.ne_missing(pl.col("before")), others.ne_missing(KNOWN))
        .with_columns(code=value.cast(pl.Int64).cast(TEXT), first_seen=others.eq_missing(UNSEEN) & _ABSENT),
        _EDGE,
    )


_ABSENT: Final = (pl.col("present_from") >= pl.col("ts")).fill_null(value=True)
"""Whether the GPU had no reading before."""


def _count_edges(counts: pl.DataFrame, present: pl.DataFrame) -> pl.DataFrame:
    """An increase is an event; a counter that restarted counts from 0, a count in a moving window does not."""
    value, before, others = pl.col("value"), pl.col("before"), pl.col("others")
    restarted = pl.col("name").str.ends_with("_TOTAL") & (value < before)
    code = pl.col("code").cast(pl.Int64, strict=False)
    good = counts.filter(value.is_finite(), code.is_between(1, HIGHEST))
    return conform(
        _runs(good, ["name", "node", "gpu", "code"], operator.ge)
        .join(present, on=["node", "gpu"], how="left", maintain_order="left")
        .filter(value > 0, before.is_null() | (value > before) | restarted, others.ne_missing(KNOWN))
        .with_columns(code=code.cast(TEXT), first_seen=others.eq_missing(UNSEEN) & _ABSENT),
        _EDGE,
    )


KNOWN: Final = "known"
UNKNOWN: Final = "unknown"
UNSEEN: Final = "unseen"


def _runs(readings: pl.DataFrame, key: list[str], holds: Callable[[float, float], bool]) -> pl.DataFrame:
    """Intervals of a series with one value and no long gap, from `ts` to `until`, and `before`, the value before them.

    The time at which a new series, or one after a gap, got its value is unknown. `others` is the evidence of the other
    series of the GPU: KNOWN if a recent one of them has the value (a new job began a new series under an old code),
    UNKNOWN if none has it (the code ended the job, and its series with it), UNSEEN if there is no other recent series.
    Where the series itself shows the time, `others` is null.
    """
    series = [*dict.fromkeys([*key, "name"]), "series"]
    value, ts = pl.col("value"), pl.col("ts")
    once = readings.group_by(*series, "ts").agg(value.max()).sort(*series, "ts")
    long = (ts - ts.shift(1).over(series) > timedelta(seconds=GONE_S)).fill_null(value=True)
    stepped = once.with_columns(before=value.shift(1).over(series), alone=long)
    marked = stepped.with_columns(run=(pl.col("alone") | (value != pl.col("before"))).cum_sum())
    runs = (
        marked.group_by("run", maintain_order=True)
        .agg(pl.col(*series, "ts", "value", "before", "alone").first(), ts.last().alias("until"))
        .with_columns(series=pl.concat_str("name", "series"))
        .sort(*key, "ts", "series")
    )
    return runs.with_columns(others=pl.Series(list(_others_state(runs, key, holds)), dtype=TEXT))


def _others_state(runs: pl.DataFrame, key: list[str], holds: Callable[[float, float], bool]) -> Iterator[str | None]:
    """`others` of each run, as `_runs` describes it."""
    others, where = _EarlierSeries(), None
    moments = (pl.col(name).dt.epoch("us") for name in ("ts", "until"))
    rows = runs.select(pl.struct(key).alias("place"), "series", *moments, "value", "before", "alone")
    for here, series, ts, until, value, before, alone in rows.iter_rows():
        if here != where:
            others, where = _EarlierSeries(), here
        others.move_to(ts)
        if alone and value > 0:
            lately = others.lately(ts, series)
            unseen = not lately and before is None
            yield UNSEEN if unseen else KNOWN if any(holds(other, value) for other in lately) else UNKNOWN
        else:
            yield None
        others.coming[series] = (until, value)


@dataclass
class _EarlierSeries:
    """The series of a GPU that were read before a moment: the value of each, and the end of it (microseconds).

    Those that begin or change at that moment are `coming`.
    """

    current: dict[str, tuple[int, float]] = field(default_factory=dict)
    coming: dict[str, tuple[int, float]] = field(default_factory=dict)
    moment: int = 0

    def move_to(self, moment: int) -> None:
        """Add the series before this moment."""
        if moment > self.moment:
            self.current |= self.coming
            self.coming, self.moment = {}, moment

    def lately(self, moment: int, itself: str) -> list[float]:
        """Values of the series other than `itself` that still existed at the last reading of the GPU."""
        last = {series: min(until, moment) for series, (until, _) in self.current.items()}
        newest = max(last.values(), default=0)
        # Old values stay old: drop them, or many successive jobs make this slow.
        self.current = {
            series: value for series, value in self.current.items() if last[series] >= newest - GONE_S * _US
        }
        return [value for series, (_, value) in self.current.items() if series != itself]


def _without_echoes(edges: pl.DataFrame) -> pl.DataFrame:
    """Edges without those with which another series repeats one within ECHO_S. A series does not repeat itself."""
    ordered = edges.sort("node", "gpu", "code", "ts", "series")
    kept: list[bool] = []
    event: tuple[str, str, str] | None = None
    began, reporters = 0, set[str]()
    for node, gpu, code, ts, series in ordered.select(
        "node", "gpu", "code", pl.col("ts").dt.epoch("us"), "series"
    ).iter_rows():
        echo = event == (node, gpu, code) and ts - began <= ECHO_S * _US and series not in reporters
        if not echo:
            event, began, reporters = (node, gpu, code), ts, set()
        reporters.add(series)
        kept.append(not echo)
    return ordered.filter(pl.Series(kept, dtype=pl.Boolean()))


def merge(stored: pl.DataFrame, new: pl.DataFrame) -> pl.DataFrame:
    """Stored and new events (both HEALTH_EVENTS of kind xid from SOURCE) as one list.

    An event whose beginning was observed replaces one that was already present at the same time. A code already present
    is dropped where the same GPU had it before: it is the same event, or the count of it.
    """
    found_present = pl.col("detail").str.starts_with(FIRST_SEEN)
    key = ["cluster", "node", "gpu"]
    both = (
        pl.concat([stored, new])
        .with_columns(found=found_present)
        .sort(*key, "ts", "code", "found")
        .unique([*key, "ts", "code"], keep="first", maintain_order=True)
    )
    earlier_exists = pl.col("ts") > pl.col("ts").min().over(*key, "code")
    return both.filter(~(pl.col("found") & earlier_exists)).drop("found")
