"""Recording rules that give one name to series that exporters call differently: boards and alerts use these.

They come from the mappings that ingest reads (`ingest/prometheus/mapping`), so that a board shows what the warehouse
stores: `gpu_samples.tensor_active` is `trackside:gpu:tensor_active`, in the same unit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import yaml

from dashboards.rules.derived import DERIVED
from dashboards.rules.identity import by, once, with_device, with_gpu, with_host_names, with_node
from dashboards.rules.kubernetes import KUBERNETES
from dashboards.rules.recorded import Recorded
from ingest.prometheus.mapping.mapping import builtin
from ingest.prometheus.series.labels import SLACK, XID_GAUGES

if TYPE_CHECKING:
    from collections.abc import Mapping as Labels
    from collections.abc import Sequence

    from ingest.prometheus.mapping.mapping import MappedMetric, Mapping, Table

RATE_WINDOW: Final = "5m"
"""Over which rates of counters are taken: four scrapes of a minute, and a spare one."""

EVERY: Final = "1m"
"""How often the rules are evaluated."""

LEVELS: Final[Labels[Table, tuple[str, tuple[str, ...]]]] = {
    "gpu_samples": ("gpu", ("cluster", "node", "gpu")),
    "node_samples": ("node", ("cluster", "node", "device")),
    "cluster_samples": ("slurm", ("cluster",)),
}
"""By table: the level in the names of its series, and their labels."""

STATES: Final = frozenset({"nodes", "jobs"})
"""Columns of `cluster_samples` that are counted by state; what is counted by partition ends in `_in_partition`."""

HOST_NAMES_OF: Final = "node_"
"""Prefix of the metrics of node_exporter, which reports the host's own name."""


def recorded(mapping: Mapping | None = None) -> tuple[Recorded, ...]:
    """All recorded series, in the order of the mapping.

    Several exported names of one quantity are one series: of two exporters' values of a device, the larger counts,
    as in ingest. A counter is its rate per second.

    Args:
        mapping: the built-in one if it is not given.
    """
    columns: dict[tuple[Table, str], list[MappedMetric]] = {}
    for metric in (mapping or builtin()).metrics:
        columns.setdefault((metric.table, metric.column), []).append(metric)
    return (*(_recorded(table, column, metrics) for (table, column), metrics in columns.items()), _last_xid())


def _recorded(table: Table, column: str, metrics: Sequence[MappedMetric]) -> Recorded:
    level, labels = LEVELS[table]
    label = device_label(table, column)
    if label and label not in labels:
        labels = (*labels, label)
    parts = dict.fromkeys(by(labels, _values(each, label or "device"), _how(each)) for each in metrics)
    return Recorded(f"trackside:{level}:{column}", labels, by(labels, _either(list(parts))) if parts else "")


def device_label(table: Table, column: str) -> str:
    """The label with the device, state or partition of a column's value; empty: there is none."""
    if table == "node_samples":
        return "device"
    if column in STATES:
        return "state"
    if column.startswith("rpc"):
        return "message_type"
    return "partition" if column.endswith("_in_partition") else ""


def _values(metric: MappedMetric, label: str) -> str:
    """Values of an entry of the mapping in our unit, by node, GPU and device."""
    selector = f"{metric.name}{{{', '.join(metric.matchers())}}}" if metric.matchers() else metric.name
    value = f"rate({selector}[{RATE_WINDOW}])" if metric.counter else f"({selector}{_plausible(metric)})"
    if metric.table != "cluster_samples":
        value = with_node(with_host_names(value) if metric.name.startswith(HOST_NAMES_OF) else value)
    value = with_gpu(value) if metric.table == "gpu_samples" else with_device(value, metric, label)
    value = once(value, metric)
    scaled = value if metric.scale == 1 else f"{value} * {metric.scale:.15g}"
    return f"1 - ({scaled})" if metric.one_minus else scaled


def _plausible(metric: MappedMetric) -> str:
    """The comparisons that leave implausible values out, DCGM's blank ones among them."""
    high = "" if metric.high is None else f" <= {metric.high * (1 + SLACK):.15g}"
    return f" >= {metric.low:.15g}{high}"


def _how(metric: MappedMetric) -> str:
    return "avg" if metric.combine == "mean" else metric.combine


def _either(parts: Sequence[str]) -> str:
    """All of the parts, distinguished by a label: `or` would drop series that are equal in labels."""
    if len(parts) == 1:
        return parts[0]
    marked = (f'label_replace({part}, "of", "{number}", "", "")' for number, part in enumerate(parts))
    return " or ".join(marked)


def _last_xid() -> Recorded:
    level, labels = LEVELS["gpu_samples"]
    parts = [by(labels, with_gpu(with_node(f"({name} > 0)"))) for name in XID_GAUGES]
    return Recorded(f"trackside:{level}:last_xid", labels, by(labels, _either(parts)))


def rules_text(mapping: Mapping | None = None, *, cluster: str = "") -> str:
    """The rule file.

    Args:
        mapping: the built-in one if it is not given.
        cluster: the label that series get whose Prometheus is of one cluster and does not name it; empty: none.
    """
    labels = {"labels": {"cluster": cluster}} if cluster else {}
    levels: dict[str, list[dict[str, object]]] = {}
    for each in recorded(mapping):
        levels.setdefault(each.name.split(":")[1], []).append({"record": each.name, "expr": each.expr, **labels})
    groups = [{"name": f"trackside-{level}", "interval": EVERY, "rules": rules} for level, rules in levels.items()]
    derived = [{"record": each.name, "expr": each.expr} for each in DERIVED]
    groups.append({"name": "trackside-derived", "interval": EVERY, "rules": derived})
    of_kubernetes: list[dict[str, object]] = [{"record": each.name, "expr": each.expr, **labels} for each in KUBERNETES]
    groups.append({"name": "trackside-kubernetes", "interval": EVERY, "rules": of_kubernetes})
    text: str = yaml.safe_dump({"groups": groups}, sort_keys=False, width=10_000)
    return text
