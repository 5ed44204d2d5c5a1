"""What dcgm-exporter calls things: metrics and their units, and the labels that tell node, GPU and MIG instance.

Sources: dcgm-exporter's `etc/default-counters.csv` and `etc/dcp-metrics-included.csv` (names, units), DCGM's
`dcgm_fields.h` (names since 4.6, which exporters may be told to use) and `dcgm_structs.h` (blank values).
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import polars as pl

from ingest.frames import REAL, TEXT, TIME, Schema

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

SOURCE: Final = "prometheus.gpu"
"""Name of the source in `loads`, `rejects` and `health_events`."""

MIB: Final = 1024.0**2
MHZ: Final = 1e6
PERCENT: Final = 0.01

BLANK_INT32: Final = 0x7FFFFFF0
"""DCGM's blank value of 32 bits, which with its fifteen successors says why there is no value."""

BLANK_REAL: Final = 2.0**47
"""DCGM's blank double; its blank of 64 bits (2**63 - 16) lies above. No value of ours is as large."""


@dataclass(frozen=True)
class Metric:
    """One exported metric: the column of `gpu_samples` it fills, and what a plausible value is in the exporter's unit.

    `scale` times the exported value is in our base unit. `of_instances` says how the values of MIG instances make one
    of the whole GPU where the GPU has none itself.
    """

    name: str
    column: str
    scale: float = 1.0
    low: float = 0.0
    high: float = 1.0
    of_instances: Literal["max", "sum"] = "max"


METRICS: Final = (
    Metric("DCGM_FI_DEV_GPU_UTIL", "gpu_util", scale=PERCENT, high=100),
    # The same measurement as a ratio since DCGM 4.7. In 4.5 and 4.6 this was a name of the percents: see `in_percent`.
    Metric("DCGM_FI_DEV_GPU_UTIL_RATIO", "gpu_util"),
    Metric("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "gr_engine_active"),
    Metric("DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO", "gr_engine_active"),
    Metric("DCGM_FI_PROF_SM_ACTIVE", "sm_active"),
    Metric("DCGM_FI_PROF_SM_UTIL_RATIO", "sm_active"),
    Metric("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "tensor_active"),
    Metric("DCGM_FI_PROF_TENSOR_UTIL_RATIO", "tensor_active"),
    Metric("DCGM_FI_PROF_DRAM_ACTIVE", "dram_active"),
    Metric("DCGM_FI_PROF_DRAM_UTIL_RATIO", "dram_active"),
    Metric("DCGM_FI_DEV_FB_USED", "memory_used_bytes", scale=MIB, high=4 * 1024.0**2, of_instances="sum"),
    Metric("DCGM_FI_DEV_POWER_USAGE", "power_w", high=10_000),
    Metric("DCGM_FI_DEV_BOARD_POWER_WATTS", "power_w", high=10_000),
    Metric("DCGM_FI_DEV_GPU_TEMP", "temperature_c", low=-60, high=200),
    Metric("DCGM_FI_DEV_GPU_TEMP_CELSIUS", "temperature_c", low=-60, high=200),
    Metric("DCGM_FI_DEV_SM_CLOCK", "sm_clock_hz", scale=MHZ, high=20_000),
    Metric("DCGM_FI_DEV_SM_CLOCK_HERTZ", "sm_clock_hz", high=20_000 * MHZ),
)
"""What is read. Where an exporter gives a quantity under both names, the larger value counts."""

METRIC: Final = {metric.name: metric for metric in METRICS}
COLUMNS: Final = tuple(dict.fromkeys(metric.column for metric in METRICS))
RATIOS: Final = frozenset({"gpu_util", "gr_engine_active", "sm_active", "tensor_active", "dram_active"})

SLACK: Final = 1e-3
"""What a value may be over its highest, as a share of that: rounding."""

STRAY: Final = 1e-3
"""Share of the values above 0 of a ratio that may be above 1 by accident. Where more are, they are percents."""

XID_GAUGES: Final = ("DCGM_FI_DEV_XID_ERRORS", "DCGM_FI_DEV_XID_ERROR")
"""Gauges that hold the last XID until the driver is loaded anew."""

XID_COUNTS: Final = ("DCGM_EXP_XID_ERRORS_COUNT", "DCGM_EXP_XID_ERRORS_TOTAL")
"""By label `xid`: how many in the exporter's last window (a gauge), and how many since it started (a counter)."""

NAMES: Final = (*METRIC, *XID_GAUGES, *XID_COUNTS)

NODE_LABELS: Final = (
    *("Hostname", "hostname", "node", "nodename", "node_name", "kubernetes_node"),
    *("exported_instance", "instance"),
)
"""Labels that may name the node; the first that is not empty counts."""

GPU_LABELS: Final = ("gpu", "minor_number", "device", "UUID", "uuid", "gpu_uuid")
"""Labels that may name the GPU; `device` is nvidia3 and the like."""

INSTANCE_LABEL: Final = "GPU_I_ID"
"""Tells the MIG instances of a GPU apart."""

PLACE_LABELS: Final = (*NODE_LABELS, *GPU_LABELS, INSTANCE_LABEL)

SAMPLES: Final[Schema] = {
    "name": TEXT,
    "node": TEXT,
    "gpu": TEXT,
    "instance": TEXT,
    "code": TEXT,
    "ts": TIME,
    "value": REAL,
}
"""Values as they were exported: metric `name`, and `code` the label `xid` of the metrics that count by it."""

READINGS: Final[Schema] = {**SAMPLES, "series": TEXT}
"""Values as they were exported, with the `identity` of their series."""

_PORT = re.compile(r":\d+$")
_ADDRESS = re.compile(r"[\d.]+|\[?[0-9a-fA-F:]*:[0-9a-fA-F:.]*\]?")


class Place(NamedTuple):
    """What a series is about. `instance` is empty for the whole GPU."""

    node: str
    gpu: str
    instance: str


def place(labels: Mapping[str, str]) -> Place | None:
    """Node, GPU and MIG instance of a series; None where no label tells the node or the GPU.

    >>> place({"gpu": "3", "Hostname": "n7.cluster.local", "instance": "10.0.0.7:9400"})
    Place(node='n7', gpu='3', instance='')
    >>> place({"device": "nvidia3", "instance": "10.0.0.7:9400", "GPU_I_ID": "1"})
    Place(node='10.0.0.7', gpu='3', instance='1')
    """
    node = bare_host(_first(labels, NODE_LABELS))
    gpu = _first(labels, GPU_LABELS).removeprefix("nvidia")
    return Place(node, gpu, labels.get(INSTANCE_LABEL, "")) if node and gpu else None


def identity(name: str, labels: Mapping[str, str]) -> str:
    """What tells the series of an XID metric apart, whatever the order of its labels. That of others is empty.

    XIDs are edges, and every series has its own: those of two exporters, MIG instances or jobs of one GPU.

    >>> identity("DCGM_FI_DEV_XID_ERRORS", {"gpu": "3", "Hostname": "n7"})
    '[["Hostname", "n7"], ["gpu", "3"]]'
    """
    if name in METRIC:
        return ""
    return json.dumps(sorted((label, value) for label, value in labels.items() if label != "__name__"))


def _first(labels: Mapping[str, str], names: Iterable[str]) -> str:
    return next((labels[name] for name in names if labels.get(name)), "")


def bare_host(name: str) -> str:
    """A host's name without port and domain; addresses stay whole.

    >>> bare_host("n7.cluster.local:9400"), bare_host("10.0.0.7:9400"), bare_host("[fd00::7]:9400")
    ('n7', '10.0.0.7', 'fd00::7')
    """
    host = _PORT.sub("", name) if name.count(":") == 1 or "]:" in name else name
    return host.strip("[]") if _ADDRESS.fullmatch(host) else host.split(".")[0]


def in_base_units(samples: pl.DataFrame) -> pl.DataFrame:
    """Samples (SAMPLES) of METRICS with `column` and `value` in base units; implausible values are null.

    `blank` marks values that DCGM gives where it has none (a missing value then, not a strange one). A ratio a trifle
    above 1 is rounding, and 1. Names that `in_percent` finds are to be left out before.
    """
    told = pl.DataFrame(
        [(metric.name, metric.column, metric.scale, metric.low, metric.high) for metric in METRICS],
        schema={"name": TEXT, "column": TEXT, "scale": REAL, "low": REAL, "high": REAL},
        orient="row",
    )
    value = pl.col("value")
    plausible = value.is_finite() & value.is_between(pl.col("low"), pl.col("high") * (1 + SLACK))
    scaled = pl.min_horizontal(value, pl.col("high")) * pl.col("scale")
    return samples.join(told, on="name", maintain_order="left").select(
        *("column", "node", "gpu", "instance", "ts"),
        is_blank("value").alias("blank"),
        pl.when(plausible).then(scaled).alias("value"),
    )


def in_percent(samples: pl.DataFrame) -> list[str]:
    """Names of ratios that count percents in these samples (SAMPLES of one load): they have values from 1 to 100.

    Then none of the name's values can be used: 0.5 may be half a percent of one exporter, or half of all of another
    that is newer. Where all GPUs of a load idle, percents look like ratios and pass for them; nothing in the values
    tells them apart. DCGM's headers know of one such name: DCGM_FI_DEV_GPU_UTIL_RATIO was field 203, whole percents,
    in 4.5 and 4.6, which an exporter uses only if its list of counters was changed. Its profiling fields are ratios in
    all versions, but recording rules may write anything.
    """
    value = pl.col("value")
    told = pl.col("name").is_in(_AS_RATIOS) & value.is_between(0, 100 * (1 + SLACK), closed="right")
    above = samples.filter(told).group_by("name").agg((value > 1 + SLACK).mean().alias("share"))
    return above.filter(pl.col("share") > STRAY)["name"].sort().to_list()


_AS_RATIOS: Final = sorted(metric.name for metric in METRICS if metric.column in RATIOS and metric.high == 1)


def is_blank(column: str) -> pl.Expr:
    """Whether a value is one of DCGM's or Prometheus' words for "there is none"."""
    value = pl.col(column)
    return ~value.is_finite() | (value >= BLANK_REAL) | value.is_between(BLANK_INT32, BLANK_INT32 + 15)
