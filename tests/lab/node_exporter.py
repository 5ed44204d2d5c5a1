"""A stand-in for node_exporter: its text format, gauges as they are set, counters that grow at known rates.

    with NodeExporter("n1") as exporter:
        exporter.set("node_memory_MemAvailable_bytes", 2**40)
        exporter.grow("node_infiniband_port_data_received_bytes_total", 1000, device="mlx5_0", port="1")
        print(exporter.address)

A counter is computed when it is scraped, so that its rate is exact whenever that is.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.lab.exporter import Exporter
from tests.lab.processes import now

Labels = tuple[tuple[str, str], ...]


@dataclass
class NodeExporter(Exporter):
    """One node's exporter, which names its node as node_exporter does: in `node_uname_info`."""

    node: str
    _gauges: dict[tuple[str, Labels], float] = field(default_factory=dict)
    _rates: dict[tuple[str, Labels], float] = field(default_factory=dict)
    _began: float = field(default_factory=now)

    def __post_init__(self) -> None:
        self.set("node_uname_info", 1, nodename=self.node, sysname="Linux", machine="x86_64")

    def set(self, metric: str, value: float, **labels: str) -> None:
        """From now on a gauge has this value."""
        self._gauges[metric, tuple(labels.items())] = value

    def grow(self, metric: str, per_s: float, **labels: str) -> None:
        """A counter: it is as if it had grown so much in every second since the exporter began."""
        self._rates[metric, tuple(labels.items())] = per_s

    def restart(self) -> None:
        """All counters begin at zero again."""
        self._began = now()

    def text(self) -> str:
        """What a scrape gets."""
        age_s = now() - self._began
        grown = {key: per_s * age_s for key, per_s in self._rates.items()}
        return "".join([*_family(self._gauges, "gauge"), *_family(grown, "counter")])


def _family(values: dict[tuple[str, Labels], float], kind: str) -> list[str]:
    """Lines of metrics of a kind, one metric after the other."""
    lines = []
    for metric in sorted({metric for metric, _ in values}):
        lines += [f"# HELP {metric} {metric}\n", f"# TYPE {metric} {kind}\n"]
        lines += [
            f"{metric}{{{shown(labels)}}} {value!r}\n"
            for (name, labels), value in sorted(values.items())
            if name == metric
        ]
    return lines


def shown(labels: Labels) -> str:
    """Labels as they stand between the braces."""
    return ",".join(f'{name}="{text}"' for name, text in labels)
