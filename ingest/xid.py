"""XIDs, the error codes of NVIDIA's driver: what each means, and when one happened.

DCGM exports the *last* code as a gauge that keeps it until the driver is loaded anew, so an event is an edge: the
value becomes non-zero, or another. A repeat of the same code leaves no trace there; the exporter's counts by code
(off by default) show it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

import polars as pl

from ingest.dcgm import SOURCE
from ingest.frames import HEALTH_EVENTS, TEXT, TIME, conform, empty

Class = Literal["HW", "DRIVER", "APP", "INFO", "CONSEQUENCE", "WARN", "UNKNOWN"]
Severity = Literal["critical", "warning", "info"]

FIRST_SEEN: Final = "already there when first seen, so when it happened is unknown: "
"""How `detail` begins for a code that nobody saw appear."""

HIGHEST: Final = 1_000
"""Larger values are not codes."""


@dataclass(frozen=True)
class Xid:
    """A code. `kind` is what it usually speaks of: a prior, not a fact. `needs` is what NVIDIA's catalog asks for."""

    code: int
    meaning: str
    kind: Class
    needs: str

    @property
    def severity(self) -> Severity:
        """Critical can explain that a job died; info never does by itself."""
        if self.kind in {"INFO", "APP", "CONSEQUENCE"}:
            return "info"
        return "critical" if self.kind in {"HW", "DRIVER"} and self.needs != _SEE_48 else "warning"

    @property
    def said(self) -> str:
        """Meaning and action in words."""
        return f"{self.meaning}; {self.needs}"


_RESTART_APP = "restart the application"
_RESET = "reset the GPU"
_IGNORE = "no action"
_NVLINK = "follow NVIDIA's NVLink workflow"
_NVLINK5 = "follow NVIDIA's NVLink 5 workflow for its sub-code (kernel log)"
_SEE_48 = "see the XID 48 beside it"

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
    Xid(154, "recovery action changed", "WARN", "the kernel log says which action is asked for"),
    Xid(155, "NVLink error defined by software", "INFO", _RESET),
    Xid(156, "resource retired", "WARN", _RESET),
    Xid(158, "fatal timeout", "HW", _RESET),
    Xid(171, "detail of an uncorrectable ECC error: DRAM", "HW", _SEE_48),
    Xid(172, "detail of an uncorrectable ECC error: SRAM", "HW", _SEE_48),
)
"""NVIDIA's XID catalog (docs.nvidia.com/deploy/xid-errors), with our classes."""

_KNOWN: Final = {xid.code: xid for xid in XIDS}


def xid(code: int) -> Xid:
    """What a code says; of codes that are not in the table nothing is assumed.

    >>> xid(79).severity, xid(31).severity, xid(999).kind
    ('critical', 'info', 'UNKNOWN')
    """
    return _KNOWN.get(code) or Xid(code, "not in our table of XIDs", "UNKNOWN", "see NVIDIA's XID catalog")


class Seen(NamedTuple):
    """Raw samples: `gauge` (node, gpu, ts, value) and `counts` (name, node, gpu, code, ts, value).

    `present` says since when each GPU was seen at all (node, gpu, present_from): a count that begins later began at 0.
    """

    gauge: pl.DataFrame
    counts: pl.DataFrame
    present: pl.DataFrame


def events(seen: Seen, *, cluster: str) -> pl.DataFrame:
    """HEALTH_EVENTS of a cluster, one per edge, sorted; each (node, GPU, time, code) once.

    Series that say the same twice (one per job on the GPU, per MIG instance, per exporter) are one.
    """
    found = pl.concat([_gauge_edges(seen.gauge), _count_edges(seen.counts, seen.present)])
    codes = [_described(code) for code in found["code"].unique().sort()]
    if not codes:
        return empty(HEALTH_EVENTS)
    words = pl.DataFrame(codes, schema=["code", "class", "severity", "detail"], orient="row")
    first = pl.col("first_seen")
    told = (
        found.sort("node", "gpu", "ts", "code", "first_seen")
        .unique(["node", "gpu", "ts", "code"], keep="first", maintain_order=True)
        .join(words, on="code", maintain_order="left")
        .with_columns(
            cluster=pl.lit(cluster),
            kind=pl.lit("xid"),
            source=pl.lit(SOURCE),
            evidence=pl.lit("telemetry"),
            severity=pl.when(first).then(pl.lit("info")).otherwise("severity"),
            detail=pl.when(first).then(pl.lit(FIRST_SEEN) + pl.col("detail")).otherwise("detail"),
        )
    )
    return conform(told, HEALTH_EVENTS)


def _described(code: str) -> tuple[str, str, str, str]:
    known = xid(int(code))
    return code, known.kind, known.severity, known.said


_EDGE: Final = {"node": TEXT, "gpu": TEXT, "ts": TIME, "code": TEXT, "first_seen": pl.Boolean()}


def _gauge_edges(gauge: pl.DataFrame) -> pl.DataFrame:
    value, before = pl.col("value"), pl.col("value").shift(1).over("node", "gpu")
    return conform(
        gauge.filter(value.is_between(0, HIGHEST))
        .group_by("node", "gpu", "ts")
        .agg(value.max())
        .sort("node", "gpu", "ts")
        .with_columns(before=before)
        .filter(value > 0, before.is_null() | (value != pl.col("before")))
        .with_columns(code=value.cast(pl.Int64).cast(TEXT), first_seen=pl.col("before").is_null()),
        _EDGE,
    )


def _count_edges(counts: pl.DataFrame, present: pl.DataFrame) -> pl.DataFrame:
    """An increase is an event; a counter that restarted counts from 0, a window that moved on does not."""
    value, before = pl.col("value"), pl.col("before")
    series = ["name", "node", "gpu", "code"]
    restarted = pl.col("name").str.ends_with("_TOTAL") & (value < before)
    absent = before.is_null() & (pl.col("present_from") >= pl.col("ts")).fill_null(value=True)
    code = pl.col("code").cast(pl.Int64, strict=False)
    return conform(
        counts.filter(value.is_finite(), code.is_between(1, HIGHEST))
        .group_by(*series, "ts")
        .agg(value.max())
        .sort(*series, "ts")
        .with_columns(before=value.shift(1).over(series))
        .join(present, on=["node", "gpu"], how="left", maintain_order="left")
        .filter(value > 0, before.is_null() | (value > before) | restarted)
        .with_columns(code=code.cast(TEXT), first_seen=absent),
        _EDGE,
    )


def merge(there: pl.DataFrame, new: pl.DataFrame) -> pl.DataFrame:
    """Events known before and new ones (both HEALTH_EVENTS of kind xid from SOURCE) as one list.

    One that was seen to happen beats one found there at the same time. A code found there says nothing new where the
    same GPU had it before: then it is that one still, or the count of that one.
    """
    found = pl.col("detail").str.starts_with(FIRST_SEEN)
    place = ["cluster", "node", "gpu"]
    both = (
        pl.concat([there, new])
        .with_columns(found=found)
        .sort(*place, "ts", "code", "found")
        .unique([*place, "ts", "code"], keep="first", maintain_order=True)
    )
    known = pl.col("ts") > pl.col("ts").min().over(*place, "code")
    return both.filter(~(pl.col("found") & known)).drop("found")
