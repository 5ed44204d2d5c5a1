"""Which exported metric fills which column or metric of ours: data in `ingest/mappings/*.toml`, read here.

    [[metric]]
    name = "node_infiniband_port_data_received_bytes_total"
    fills = "node_samples.ib_received_bytes_per_s"
    counter = true
    device = ["device", "port"]
    combine = "sum"

People add their own to these in the configuration (`[[prometheus.metric]]`), in the same words.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

if TYPE_CHECKING:
    from collections.abc import Iterable

Table = Literal["gpu_samples", "node_samples", "cluster_samples"]
Combine = Literal["max", "sum", "mean"]


class MappingError(ValueError):
    """An entry of a mapping that means nothing; says which, and what to write."""


@dataclass(frozen=True)
class Metric:
    """One exported metric, and what of ours it fills.

    Attributes:
        name: as exported.
        table: the table it belongs to.
        column: column of `gpu_samples`; elsewhere the `metric` of the rows. A name that ends in `_per_s` is a rate.
        counter: it only grows, but for restarts; its rate per second is what is stored.
        scale: times the exported value (of counters: its increase) is in our base unit.
        low: least plausible value, in the exporter's unit; of counters not looked at.
        high: greatest plausible value, in the exporter's unit; null: any.
        where: labels and what their values must match (regular expressions, whole); series without the label have "".
        device: labels that, joined by `/`, name the device; none: the whole node.
        combine: how several series of one node (GPU) and device make one value; of GPUs: those of MIG instances.
        one_minus: what is stored is 1 less the value (idle to busy).
    """

    name: str
    table: Table
    column: str
    counter: bool = False
    scale: float = 1.0
    low: float = 0.0
    high: float | None = None
    where: tuple[tuple[str, str], ...] = ()
    device: tuple[str, ...] = ()
    combine: Combine = "max"
    one_minus: bool = False


@dataclass(frozen=True)
class Mapping:
    """All metrics that are read. One exported name may fill several things (by `where`)."""

    metrics: tuple[Metric, ...]

    def of(self, table: Table) -> tuple[Metric, ...]:
        """Those of a table."""
        return tuple(metric for metric in self.metrics if metric.table == table)

    def names(self, *tables: Table) -> tuple[str, ...]:
        """Exported names, each once, in order; of all tables if none is named."""
        wanted = tables or get_args(Table)
        return tuple(dict.fromkeys(metric.name for metric in self.metrics if metric.table in wanted))

    def and_more(self, entries: Iterable[dict[str, Any]], *, origin: str) -> Mapping:
        """With entries in the words of the files; one of an exported name and target that is there takes its place.

        Raises:
            MappingError: an entry means nothing.
        """
        more = [parse_metric(entry, origin=f"{origin}, entry {n}") for n, entry in enumerate(entries, 1)]
        replaced = {(metric.name, metric.table, metric.column) for metric in more}
        kept = (metric for metric in self.metrics if (metric.name, metric.table, metric.column) not in replaced)
        return replace(self, metrics=(*kept, *more))


@cache
def builtin() -> Mapping:
    """The mapping that comes with Trackside."""
    files = sorted((resources.files("ingest") / "mappings").iterdir(), key=lambda file: file.name)
    found: list[Metric] = []
    for file in files:
        told = tomllib.loads(file.read_text(encoding="utf-8"))
        found += [parse_metric(entry, origin=f"{file.name}, entry {n}") for n, entry in enumerate(told["metric"], 1)]
    return Mapping(tuple(found))


_FIELDS: Final = frozenset(
    ("name", "fills", "counter", "scale", "low", "high", "where", "device", "combine", "one_minus")
)


def parse_metric(entry: dict[str, Any], *, origin: str) -> Metric:
    """An entry of a mapping.

    Raises:
        MappingError: it means nothing.
    """
    unknown = sorted(entry.keys() - _FIELDS)
    if unknown:
        raise MappingError(f"{origin}: {', '.join(unknown)}: no such key; there are {', '.join(sorted(_FIELDS))}")
    name, fills = entry.get("name"), entry.get("fills")
    if not isinstance(name, str) or not isinstance(fills, str):
        raise MappingError(f"{origin}: name and fills are wanted, both text")
    table, _, column = fills.partition(".")
    if table not in get_args(Table) or not column.isidentifier():
        raise MappingError(f"{origin} ({name}): fills is TABLE.NAME, with TABLE one of {', '.join(get_args(Table))}")
    rest = {key: entry[key] for key in entry.keys() - {"name", "fills", "where", "device"}}
    where = tuple(sorted(entry.get("where", {}).items()))
    return Metric(name, table, column, where=where, device=tuple(entry.get("device", ())), **rest)  # type: ignore[arg-type]  # checked above
