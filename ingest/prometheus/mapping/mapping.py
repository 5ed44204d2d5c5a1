"""Mapping of exported metrics to columns and metrics: data in `ingest/prometheus/mapping/*.toml`, read here.

    [[metric]]
    name = "node_infiniband_port_data_received_bytes_total"
    fills = "node_samples.ib_received_bytes_per_s"
    counter = true
    device = ["device", "port"]

The entries of a [[family]] also have the family's keys. People add their own to these in the configuration
(`[[prometheus.metric]]`), with the same keys; `MappedMetric` explains them.
"""

from __future__ import annotations

import math
import re
import tomllib
import warnings
from dataclasses import dataclass, replace
from functools import cache, cached_property
from importlib import resources
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

import polars as pl
from polars.exceptions import ComputeError

from ingest.errors import shorten
from ingest.tables import GPU_SAMPLES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from collections.abc import Mapping as Labels

Table = Literal["gpu_samples", "node_samples", "cluster_samples"]
Combine = Literal["max", "sum", "mean"]

GPU_COLUMNS: Final = tuple(name for name in GPU_SAMPLES if name not in {"cluster", "node", "gpu", "ts", "interval_s"})
"""Columns of `gpu_samples`."""

GPU_RATIOS: Final = frozenset({"gpu_util", "gr_engine_active", "sm_active", "tensor_active", "dram_active"})
"""Of these the ratios: at most 1 in our unit, and so at most 1 / `scale` in the exporter's, if `high` is not set."""

COUNTED: Final = "/s"
"""Ends the name of a column of `gpu_samples` while its values are a counter's: those of a gauge come first."""

_NAME: Final = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_COLUMN: Final = re.compile(r"[a-z][a-z0-9_]{0,99}")
_LONGEST_PATTERN: Final = 2_000


class MappingError(ValueError):
    """An invalid entry of a mapping; the message names it and the valid form."""


@dataclass(frozen=True)
class MappedMetric:
    """One exported metric, and the column that it fills.

    Several exported names of one device (GPU) are the same quantity by several names: the largest counts.

    Attributes:
        name: as exported.
        table: the table it belongs to.
        column: column of `gpu_samples`; elsewhere the `metric` of the rows. A name that ends in `_per_s` is a rate.
        counter: it only grows, but for restarts; its rate per second is what is stored (of GPUs: where no gauge fills
            the column). Any other metric is a gauge, whatever its name.
        scale: factor from the exported value (of counters: its increase) to our base unit.
        low: least plausible value, in the exporter's unit; of counters not examined.
        high: greatest plausible value, in the exporter's unit (of a GPU's counter: per second); null: any (of
            `GPU_RATIOS`: that of 1).
        where: labels and what their values must match (regular expressions, whole); series without the label have "".
        where_not: labels and what their values must not match, likewise; a match of one of them leaves a series out.
        device: labels that, joined by `/`, name the device; none: the whole node (cluster).
        device_pattern: regular expression whose first group is the device, searched in the labels' values; without a
            match the values are unchanged.
        device_as: the device itself, in place of labels.
        combine: how several series of one node (GPU) and device make one value; of GPUs: those of MIG instances.
        one_minus: 1 minus the value is stored (idle to busy).
    """

    name: str
    table: Table
    column: str
    counter: bool = False
    scale: float = 1.0
    low: float = 0.0
    high: float | None = None
    where: tuple[tuple[str, str], ...] = ()
    where_not: tuple[tuple[str, str], ...] = ()
    device: tuple[str, ...] = ()
    device_pattern: str = ""
    device_as: str = ""
    combine: Combine = "max"
    one_minus: bool = False

    @property
    def fills(self) -> str:
        """Its target, as in the key `fills` of an entry."""
        return f"{self.table}.{self.column}"

    @property
    def read_as(self) -> str:
        """The column, with the mark `COUNTED` for a counter."""
        return f"{self.column}{COUNTED}" if self.counter else self.column

    def matches(self, labels: Labels[str, str]) -> bool:
        """Whether a series with these labels (and this name) is meant.

        >>> reads = MappedMetric("nfs", "node_samples", "fs", where=(("operation", "READ|WRITE"),))
        >>> reads.matches({"operation": "READ"}), reads.matches({"operation": "READDIR"}), reads.matches({})
        (True, False, False)
        """
        return all(re.fullmatch(pattern, labels.get(label, "")) for label, pattern in self.where) and not any(
            re.fullmatch(pattern, labels.get(label, "")) for label, pattern in self.where_not
        )

    def device_of(self, labels: Labels[str, str]) -> str:
        """The device that a series is about; empty for the whole node.

        >>> of_a_port = MappedMetric("ib", "node_samples", "ib", device=("device", "port"))
        >>> of_a_port.device_of({"device": "mlx5_0", "port": "1"})
        'mlx5_0/1'
        """
        if self.device_as:
            return self.device_as
        device = "/".join(filter(None, (labels.get(label, "") for label in self.device)))
        match = re.search(self.device_pattern, device) if self.device_pattern else None
        return (match[1] or "") if match else device

    def matchers(self) -> list[str]:
        """`where` and `where_not` as label matchers of PromQL; patterns are whole there too."""
        return [
            *(f'{label}=~"{quoted(pattern)}"' for label, pattern in self.where),
            *(f'{label}!~"{quoted(pattern)}"' for label, pattern in self.where_not),
        ]


def quoted(text: str) -> str:
    r"""A text as it is written between the quotes of PromQL.

    >>> quoted(r'a\.b"c')
    'a\\\\.b\\"c'
    """
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


@dataclass(frozen=True)
class Mapping:
    """All metrics that are read. One exported name may fill several things (by `where`)."""

    metrics: tuple[MappedMetric, ...]

    def of(self, table: Table) -> tuple[MappedMetric, ...]:
        """Those of a table."""
        return tuple(metric for metric in self.metrics if metric.table == table)

    @cached_property
    def of_gpus(self) -> dict[str, MappedMetric]:
        """Those of `gpu_samples` by their exported names."""
        return {metric.name: metric for metric in self.of("gpu_samples")}

    def names(self, *tables: Table) -> tuple[str, ...]:
        """Exported names, each once, in order; of all tables if none is named."""
        selected = tables or get_args(Table)
        return tuple(dict.fromkeys(metric.name for metric in self.metrics if metric.table in selected))

    def and_more(self, entries: Iterable[object], *, origin: str) -> Mapping:
        """With entries in the form of the files; they replace existing ones of the same exported name and target.

        Raises:
            MappingError: an entry is invalid, two are the same, or one contradicts existing ones.
        """
        more = [parse_metric(entry, origin=f"{origin}, entry {n}") for n, entry in enumerate(entries, 1)]
        replaced = {(metric.name, metric.fills) for metric in more}
        remaining = tuple(metric for metric in self.metrics if (metric.name, metric.fills) not in replaced)
        _agreed(remaining, more, origin)
        return replace(self, metrics=(*remaining, *more))


@cache
def builtin() -> Mapping:
    """The mapping that comes with Trackside."""
    mapping = Mapping(())
    for file in sorted((resources.files("ingest") / "prometheus" / "mapping").iterdir(), key=lambda file: file.name):
        if file.name.endswith(".toml"):
            content = tomllib.loads(file.read_text(encoding="utf-8"))
            mapping = mapping.and_more(_entries(content), origin=file.name)
    return mapping


def _entries(tables: dict[str, Any]) -> list[dict[str, Any]]:
    """The entries of a file: alone, or in families, whose members have the family's keys."""
    alone = list(tables.get("metric", ()))
    for family in tables.get("family", ()):
        shared = {key: value for key, value in family.items() if key != "metric"}
        alone += [{**shared, **entry} for entry in family["metric"]]
    return alone


def _agreed(remaining: Sequence[MappedMetric], more: Sequence[MappedMetric], origin: str) -> None:
    """Check new entries against each other and the existing ones.

    Raises:
        MappingError: two contradict each other.
    """
    first_of: dict[object, int] = {}
    columns = {metric.name: metric.column for metric in remaining if metric.table == "gpu_samples"}
    combined = {metric.column: metric.combine for metric in remaining if metric.table == "gpu_samples"}
    for number, metric in enumerate(more, 1):
        where = f"{origin}, entry {number} ({metric.name})"
        same = (metric.name, metric.fills, metric.where, metric.where_not, metric.device_as)
        first = first_of.setdefault(same, number)
        if first != number:
            raise MappingError(f"{where}: the same as entry {first}; leave one of the two out")
        if metric.table != "gpu_samples":
            continue
        if metric.name in columns:
            raise MappingError(
                f"{where}: the name fills gpu_samples.{columns[metric.name]} already, and can fill only one column of "
                f'gpu_samples; write fills = "gpu_samples.{columns[metric.name]}", or leave it out'
            )
        columns[metric.name] = metric.column
        rule = combined.setdefault(metric.column, metric.combine)
        if metric.combine != rule:
            raise MappingError(
                f'{where}: combine is "{metric.combine}", but MIG instances make one {metric.column} by "{rule}"; '
                f'write combine = "{rule}"'
            )


def parse_metric(entry: object, *, origin: str) -> MappedMetric:
    """An entry of a mapping.

    Raises:
        MappingError: It is invalid; the message has its place, the fault and the valid form.
    """
    if not isinstance(entry, dict):
        raise MappingError(f"{origin}: not a table; write [[prometheus.metric]] and its keys below")
    name = entry.get("name")
    where = f"{origin} ({shorten(name, 80)})" if isinstance(name, str) else origin
    unknown = [shorten(str(key), 40) for key in entry if key not in _KEYS]
    if unknown:
        raise MappingError(f"{where}: {', '.join(unknown)}: no such key; the keys are {', '.join(_KEYS)}")
    for key in ("name", "fills"):
        if key not in entry:
            raise MappingError(f"{where}: {key} is missing; {_KEYS[key][1]}")
    values: dict[str, Any] = {}
    for key, value in entry.items():
        check, expected = _KEYS[key]
        try:
            values[key] = check(value)
        except _WrongError as error:
            raise MappingError(f"{where}: {key} {error}; {expected}") from None
    table, column = values.pop("fills")
    if table == "gpu_samples" and column in GPU_RATIOS:
        values.setdefault("high", 1 / values.get("scale", 1.0))
    metric = MappedMetric(table=table, column=column, **values)
    _together(metric, values, where)
    return metric


class _WrongError(ValueError):
    """The value of a key is invalid."""


def _together(metric: MappedMetric, entry: Labels[str, Any], where: str) -> None:
    """Check the keys of an entry together.

    Raises:
        MappingError: they contradict each other.
    """
    of_gpus = metric.table == "gpu_samples"
    devices = [key for key in ("device", "device_as", "device_pattern") if entry.get(key)]
    if of_gpus and metric.column not in GPU_COLUMNS:
        raise MappingError(f"{where}: gpu_samples has no column {metric.column}; it has {', '.join(GPU_COLUMNS)}")
    if of_gpus and devices:
        raise MappingError(f"{where}: {devices[0]} has no use in gpu_samples, whose rows are of GPUs; leave it out")
    if metric.device_as and (metric.device or metric.device_pattern):
        raise MappingError(f"{where}: device_as is the device already; leave it or device and device_pattern out")
    if metric.device_pattern and not metric.device:
        raise MappingError(f"{where}: device_pattern is applied to the labels in device, and there are none")
    examined = ("low",) if of_gpus else ("low", "high")
    if metric.counter and (limits := [key for key in examined if key in entry]):
        raise MappingError(f"{where}: {limits[0]} is not used for counters; leave it out")
    if metric.high is not None and metric.low >= metric.high:
        raise MappingError(f"{where}: low ({metric.low:g}) must be less than high ({metric.high:g})")


def _name(value: object) -> str:
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise _WrongError(f"is {_shown(value)}")
    return value


def _target(value: object) -> tuple[str, str]:
    table, _, column = value.partition(".") if isinstance(value, str) else ("", "", "")
    if table not in get_args(Table) or not _COLUMN.fullmatch(column):
        raise _WrongError(f"is {_shown(value)}")
    return table, column


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise _WrongError(f"is {_shown(value)}")
    return value


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _WrongError(f"is {_shown(value)}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise _WrongError(f"is {_shown(value)}")
    return number


def _factor(value: object) -> float:
    number = _number(value)
    if number <= 0:
        raise _WrongError(f"is {number:g}")
    return number


def _patterns(value: object) -> tuple[tuple[str, str], ...]:
    if not isinstance(value, dict):
        raise _WrongError(f"is {_shown(value)}")
    for label, pattern in value.items():
        _label(label)
        try:
            _pattern(pattern)
        except _WrongError as error:
            raise _WrongError(f"({label}) {error}") from None
    return tuple(sorted(value.items()))


def _label(value: object) -> str:
    if not isinstance(value, str) or not _LABEL.fullmatch(value) or value == "__name__":
        raise _WrongError(f"names the label {_shown(value)}")
    return value


def _labels(value: object) -> tuple[str, ...]:
    if not isinstance(value, list | tuple):
        raise _WrongError(f"is {_shown(value)}")
    return tuple(_label(label) for label in value)


def _pattern(value: object) -> str:
    """A regular expression that is valid here and in the server: for Python's and for RE2's (Rust's) engine."""
    if not isinstance(value, str) or len(value) > _LONGEST_PATTERN:
        raise _WrongError(f"is {_shown(value)}")
    why = _no_pattern(value)
    if why:
        raise _WrongError(f"is {_shown(value)}, which {why}")
    return value


@cache
def _no_pattern(text: str) -> str:
    """Reason why a text is no regular expression; empty: it is one."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            re.compile(text)
        pl.Series([""]).str.contains(f"^(?:{text})$")
    except (re.error, OverflowError, RecursionError, Warning) as error:
        return f"is no regular expression: {error}"
    except ComputeError:
        return "Python supports, but no server"
    return ""


def _group(value: object) -> str:
    pattern = _pattern(value)
    if re.compile(pattern).groups < 1:
        raise _WrongError(f"is {_shown(value)}, which has no group")
    return pattern


def _text(value: object) -> str:
    if not isinstance(value, str) or not value or len(value) > 200:
        raise _WrongError(f"is {_shown(value)}")
    return value


def _combine(value: object) -> str:
    if value not in get_args(Combine):
        raise _WrongError(f"is {_shown(value)}")
    return str(value)


def _shown(value: object) -> str:
    return shorten(repr(value), 80)


_KEYS: Final[dict[str, tuple[Callable[[object], Any], str]]] = {
    "name": (_name, "write a metric's name as the exporter has it: letters, digits, _ and :"),
    "fills": (_target, f'write "TABLE.NAME" in small letters, with TABLE one of {", ".join(get_args(Table))}'),
    "counter": (_flag, "write true or false"),
    "scale": (_factor, "write a number above 0"),
    "low": (_number, "write a number"),
    "high": (_number, "write a number"),
    "where": (_patterns, 'write { LABEL = "regular expression" }'),
    "where_not": (_patterns, 'write { LABEL = "regular expression" }'),
    "device": (_labels, 'write a list of labels: ["device", "port"]'),
    "device_pattern": (_group, "write a regular expression whose first (group) is the device"),
    "device_as": (_text, "write the device's name"),
    "combine": (_combine, f"write one of {', '.join(get_args(Combine))}"),
    "one_minus": (_flag, "write true or false"),
}
"""Keys of an entry: the check of each, and the valid form."""
