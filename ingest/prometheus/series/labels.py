"""Identity of GPUs and plausibility of their values: labels of node, GPU and MIG instance, blanks, units.

The mapping of metrics to columns is in `ingest/prometheus/mapping`. Sources: dcgm-exporter's
`etc/default-counters.csv` and its rendering of labels, DCGM's `dcgm_structs.h` (blank values), and the exporters that
the mappings name.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

import polars as pl

from ingest.prometheus.mapping.mapping import GPU_COLUMNS, GPU_RATIOS, builtin
from ingest.tables import REAL, TEXT, TIME, Schema

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from collections.abc import Mapping as Labels

    from ingest.prometheus.mapping.mapping import Mapping

SOURCE: Final = "prometheus.gpu"
"""Name of the source in `loads`, `rejects` and `health_events`."""

BLANK_INT32: Final = 0x7FFFFFF0
"""DCGM's blank value of 32 bits; it and its fifteen successors encode the reason for a missing value."""

BLANK_REAL: Final = 2.0**47
"""DCGM's blank double; its blank of 64 bits (2**63 - 16) lies above. No real value is as large."""

COLUMNS: Final = GPU_COLUMNS
RATIOS: Final = GPU_RATIOS

SLACK: Final = 1e-3
"""Tolerance above the highest value, as a share of it: rounding."""

STRAY: Final = 1e-3
"""Share of the values above 0 of a ratio that may be above 1 by accident. Where more are, they are percents."""

XID_GAUGES: Final = ("DCGM_FI_DEV_XID_ERRORS", "DCGM_FI_DEV_XID_ERROR")
"""Gauges that hold the last XID until the driver is reloaded."""

XID_COUNTS: Final = ("DCGM_EXP_XID_ERRORS_COUNT", "DCGM_EXP_XID_ERRORS_TOTAL")
"""Counts by label `xid`: in the exporter's last window (a gauge), and since its start (a counter)."""

XID_NAMES: Final = (*XID_GAUGES, *XID_COUNTS)

ADDRESS_LABELS: Final = ("exported_instance", "instance")
"""Labels with the scraped address, which on Kubernetes is a pod's."""

NODE_LABELS: Final = (
    *("Hostname", "hostname", "node", "nodename", "node_name", "kubernetes_node", "host"),
    *ADDRESS_LABELS,
)
"""Labels that may name the node; the first that is not empty counts, but for names of pods (`node_of`)."""

POD_LABELS: Final = ("pod", "exported_pod", "pod_name")
"""Labels of the workload's pod, or of the exporter's own."""

EXPORTER: Final = "exporter"
"""Part of the names of exporters' pods."""

UUID_LABELS: Final = ("UUID", "uuid", "gpu_uuid")

INDEX_LABELS: Final = ("gpu", "ordinal", "gpu_id", "card")
"""Labels with a GPU's index in its node: DCGM's and NVML's index."""

MINOR_LABELS: Final = ("minor_number", "device")
"""Labels with the device's minor number, which changes after a GPU fell off; `device` is nvidia3."""

GPU_LABELS: Final = (*INDEX_LABELS, *MINOR_LABELS, *UUID_LABELS)

INSTANCE_LABEL: Final = "GPU_I_ID"
"""Distinguishes the MIG instances of a GPU."""

LOCATION_LABELS: Final = (*NODE_LABELS, *GPU_LABELS, INSTANCE_LABEL, *POD_LABELS)

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

_ANYWHERE = "*"
"""Stands for any node's name."""

_NUMBERED = re.compile(r"(?:gpu|nvidia|card)?(\d+)", re.ASCII | re.IGNORECASE)
_PORT = re.compile(r":[\w-]+$")
_ADDRESS = re.compile(r"[\d.]+|\[?[0-9a-fA-F:]*:[0-9a-fA-F:.]*\]?")


class GpuLocation(NamedTuple):
    """Node, GPU and MIG instance of a series. `instance` is empty for the whole GPU."""

    node: str
    gpu: str
    instance: str


def gpu_location(labels: Labels[str, str]) -> GpuLocation | None:
    """Node, GPU and MIG instance of a series; None where no label names the node or the GPU.

    >>> gpu_location({"gpu": "3", "Hostname": "n7.cluster.local", "instance": "10.0.0.7:9400"})
    GpuLocation(node='n7', gpu='3', instance='')
    >>> gpu_location({"device": "nvidia3", "instance": "10.0.0.7:9400", "GPU_I_ID": "1"})
    GpuLocation(node='10.0.0.7', gpu='3', instance='1')
    """
    node, gpu = node_of(labels), _gpu_of(labels)
    return GpuLocation(node, gpu, labels.get(INSTANCE_LABEL, "")) if node and gpu else None


def node_of(labels: Labels[str, str]) -> str:
    """The node of a series; empty where no label names it.

    In a pod, some exporters use the pod's name as the host's: it counts only where no other label names a node (it is
    right in clusters whose nodes are pods). The name of an exporter's own pod never counts.

    >>> node_of({"Hostname": "dcgm-exporter-x7k2q", "pod": "dcgm-exporter-x7k2q", "node": "n7"})
    'n7'
    >>> node_of({"Hostname": "worker-3", "pod": "worker-3", "instance": "10.0.0.7:9400"})
    'worker-3'
    """
    label = node_label(labels)
    return bare_host(labels[label]) if label else ""


def node_label(labels: Labels[str, str], among: Sequence[str] = NODE_LABELS) -> str:
    """The label that names the node, by the rules of `node_of`; empty where none does.

    >>> node_label({"hostname": "node-exporter-x7k2q", "pod": "node-exporter-x7k2q", "instance": "10.0.0.7:9100"})
    'instance'
    """
    pods = {labels[label] for label in POD_LABELS if labels.get(label)}
    present = [
        label for label in among if labels.get(label) and not (labels[label] in pods and EXPORTER in labels[label])
    ]
    return min(present, key=lambda label: (label in ADDRESS_LABELS, labels[label] in pods), default="")


def _gpu_of(labels: Labels[str, str]) -> str:
    """Index, else minor number, else UUID of a GPU; where a series has none of them, the first label that names it."""
    numbers = (_number(labels, names) for names in (INDEX_LABELS, MINOR_LABELS))
    return next((number for number in numbers if number), "") or _first(labels, (*UUID_LABELS, *GPU_LABELS))


def _number(labels: Labels[str, str], names: Iterable[str]) -> str:
    """The first number in some labels, alone or behind its kind: 3, gpu3, nvidia3, card3. Addresses are none."""
    found = (_NUMBERED.fullmatch(labels[name]) for name in names if labels.get(name))
    return next((number[1] for number in found if number), "")


def uuid_alone(labels: Labels[str, str]) -> str:
    """The UUID of a GPU where a series lacks its index; empty where it has an index, or no UUID."""
    return "" if _number(labels, INDEX_LABELS) else _first(labels, UUID_LABELS)


def index_and_uuid(labels: Labels[str, str]) -> tuple[str, str]:
    """Index and UUID (in small letters, without GPU-) of a GPU; empty where a series lacks one.

    >>> index_and_uuid({"gpu": "3", "UUID": "GPU-1F"}), index_and_uuid({"gpu": "00000000:3B:00.0", "UUID": "GPU-1F"})
    (('3', '1f'), ('', '1f'))
    """
    return _number(labels, INDEX_LABELS), _short(_first(labels, UUID_LABELS))


def _short(uuid: str) -> str:
    """A UUID without the prefix GPU-, which some exporters leave out."""
    return uuid.lower().removeprefix("gpu-")


@dataclass
class Indexes:
    """Indexes of GPUs by node and UUID: some exporters export the index, some the UUID, and some both.

    Where none exports a GPU's index, its minor number is used instead. A UUID with several indexes on a node (a
    renumbered GPU) has none. A GPU that moved has one on each of its nodes; a node without an index for it (its
    exporters may use another name of the node) has that of the other nodes, if they agree.
    """

    _index: dict[tuple[str, str], set[str]] = field(default_factory=dict)
    _minor: dict[tuple[str, str], set[str]] = field(default_factory=dict)

    def add(self, labels: Labels[str, str]) -> None:
        """Add a series."""
        uuid, node = _short(_first(labels, UUID_LABELS)), node_of(labels)
        for names, numbers in ((INDEX_LABELS, self._index), (MINOR_LABELS, self._minor)):
            number = _number(labels, names)
            if uuid and number:
                for key in ((node, uuid), (_ANYWHERE, uuid)):
                    numbers.setdefault(key, set()).add(number)

    def of(self, uuid: str, node: str = "") -> str | None:
        """The index of a GPU of a node; None where it is unknown."""
        keys = (node, _short(uuid)), (_ANYWHERE, _short(uuid))
        known = (named[key] for named in (self._index, self._minor) for key in keys if key in named)
        numbers = next(known, set())
        return next(iter(numbers)) if len(numbers) == 1 else None

    def renamed(self, frame: pl.DataFrame) -> pl.DataFrame:
        """A frame with `node` and `gpu`, in which UUIDs whose index is known are replaced by that."""
        gpus = frame.select("node", "gpu").unique().rows()
        known = [(node, gpu, index) for node, gpu in gpus if (index := self.of(gpu, node)) is not None]
        if not known:
            return frame
        indexes = pl.DataFrame(known, {"node": TEXT, "gpu": TEXT, "index": TEXT}, orient="row")
        joined = frame.join(indexes, on=["node", "gpu"], how="left", maintain_order="left")
        return joined.with_columns(gpu=pl.coalesce("index", "gpu")).drop("index")


def with_indexes(series: Sequence[dict[str, str]]) -> list[dict[str, str]]:
    """Labels of series, with the index of the GPU where they lack it, and another with the same UUID has it.

    >>> with_indexes([{"UUID": "GPU-1f", "gpu": "3"}, {"uuid": "1f"}])
    [{'UUID': 'GPU-1f', 'gpu': '3'}, {'uuid': '1f', 'gpu': '3'}]
    """
    indexes = Indexes()
    for labels in series:
        indexes.add(labels)
    identities = [(labels, indexes.of(uuid_alone(labels), node_of(labels))) for labels in series]
    return [labels if index is None else {**labels, "gpu": index} for labels, index in identities]


def identity(name: str, labels: Labels[str, str]) -> str:
    """The identity of a series of an XID metric, independent of the order of its labels. That of others is empty.

    XIDs are edges, and every series has its own: those of two exporters, MIG instances or jobs of one GPU.

    >>> identity("DCGM_FI_DEV_XID_ERRORS", {"gpu": "3", "Hostname": "n7"})
    '[["Hostname", "n7"], ["gpu", "3"]]'
    """
    if name not in XID_NAMES:
        return ""
    return json.dumps(sorted((label, value) for label, value in labels.items() if label != "__name__"))


def _first(labels: Labels[str, str], names: Iterable[str]) -> str:
    return next((labels[name] for name in names if labels.get(name)), "")


def bare_host(name: str) -> str:
    """A host's name without port (on Kubernetes it may have a name) and domain; addresses stay whole.

    >>> bare_host("n7.local:9400"), bare_host("n7:metrics"), bare_host("10.0.0.7:9400"), bare_host("[fd00::7]:1")
    ('n7', 'n7', '10.0.0.7', 'fd00::7')
    """
    host = _PORT.sub("", name) if name.count(":") == 1 or "]:" in name else name
    return host.strip("[]") if is_address(host) else host.split(".")[0]


def in_base_units(samples: pl.DataFrame, mapping: Mapping | None = None) -> pl.DataFrame:
    """Samples (SAMPLES) of GPUs with `column` (`read_as`), and `value` in base units; implausible values are null.

    `blank` marks DCGM's blank values (missing, not implausible). A ratio slightly above 1 is rounding, and becomes 1.
    Names that `in_percent` finds have to be left out before. `mapping` is the built-in one by default.
    """
    metrics = (mapping or builtin()).of_gpus.values()
    identities = pl.DataFrame(
        [
            (
                *(each.name, each.read_as, each.scale, each.low),
                *(math.inf if each.high is None else each.high, each.one_minus),
            )
            for each in metrics
        ],
        schema={"name": TEXT, "column": TEXT, "scale": REAL, "low": REAL, "high": REAL, "one_minus": pl.Boolean},
        orient="row",
    )
    value = pl.col("value")
    plausible = value.is_finite() & value.is_between(pl.col("low"), pl.col("high") * (1 + SLACK))
    scaled = pl.min_horizontal(value, pl.col("high")) * pl.col("scale")
    turned = pl.when("one_minus").then(1 - scaled).otherwise(scaled)
    return samples.join(identities, on="name", maintain_order="left").select(
        *("name", "column", "node", "gpu", "instance", "ts"),
        is_blank().alias("blank"),
        pl.when(plausible).then(turned).alias("value"),
    )


def as_ratios(mapping: Mapping | None = None) -> list[str]:
    """Names of ratios up to 1, sorted."""
    metrics = (mapping or builtin()).of_gpus.values()
    return sorted(metric.name for metric in metrics if metric.column in RATIOS and metric.high == 1)


def in_percent(samples: pl.DataFrame, mapping: Mapping | None = None) -> list[str]:
    """Names of ratios that count percents in these samples (SAMPLES of one load): they have values from 1 to 100.

    Then none of the name's values can be used: 0.5 may be half a percent of one exporter, or a half of a newer one.
    Where all GPUs of a load idle, percents look like ratios and are taken for them; the values do not distinguish
    them. DCGM's headers have one such name: DCGM_FI_DEV_GPU_UTIL_RATIO was field 203, whole percents,
    in 4.5 and 4.6, which an exporter uses only if its list of counters was changed. Its profiling fields are ratios in
    all versions, but recording rules may write anything.
    """
    value = pl.col("value")
    identities = pl.col("name").is_in(as_ratios(mapping)) & value.is_between(0, 100 * (1 + SLACK), closed="right")
    above = samples.filter(identities).group_by("name").agg((value > 1 + SLACK).mean().alias("share"))
    return above.filter(pl.col("share") > STRAY)["name"].sort().to_list()


def is_address(host: str) -> bool:
    """Whether a host (`bare_host`) is an address of IP, and no name."""
    return _ADDRESS.fullmatch(host) is not None


def is_blank() -> pl.Expr:
    """Whether the column `value` is one of DCGM's or Prometheus' marks for "no value"."""
    value = pl.col("value")
    return ~value.is_finite() | (value >= BLANK_REAL) | value.is_between(BLANK_INT32, BLANK_INT32 + 15)
