"""The exporters of a cluster of any size, as a Prometheus server has them: remote read and what goes with it.

GPUs have dcgm-exporter's nine usual gauges, nodes of eight GPUs what node_exporter tells of 96 CPUs, eight InfiniBand
ports, two disks, a filesystem and a network card. GPUs of sixteen nodes, as of one job, work and rest together.
"""

from __future__ import annotations

import itertools
import json
import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from ingest.prometheus.client.remote_read import STREAMED, Matcher
from tests.bench.reading.storing import GAUGES, GPUS_PER_NODE, Gauge
from tests.bench.sizes.xor_series import chunks, frames
from tests.support.web import Answer, told

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import numpy.typing as npt

SCRAPE_S: Final = 30
CHUNK_S: Final = 3600
"""Prometheus' chunks have 120 samples."""

_SAMPLES: Final = CHUNK_S // SCRAPE_S
_HALF_HOUR_S: Final = 1800
_JOB_NODES: Final = 16
_WORKS: Final = 0.9
"""Share of the half hours in which GPUs work."""

_KINDS: Final = ("=", "!=", "=~", "!~")


def _ports(name: str) -> list[dict[str, str]]:
    return [{"__name__": name, "device": f"mlx5_{number}", "port": "1"} for number in range(8)]


def _devices(name: str, label: str, *devices: str) -> list[dict[str, str]]:
    return [{"__name__": name, label: device} for device in devices]


_INFINIBAND: Final = {
    "node_infiniband_port_data_received_bytes_total": 2e10,
    "node_infiniband_port_data_transmitted_bytes_total": 2e10,
    "node_infiniband_port_packets_received_total": 5e6,
    "node_infiniband_port_packets_transmitted_total": 5e6,
    "node_infiniband_symbol_error_total": 0.0,
    "node_infiniband_link_downed_total": 0.0,
}
_DISK: Final = {
    "node_disk_read_bytes_total": 1e8,
    "node_disk_written_bytes_total": 2e7,
    "node_disk_io_time_seconds_total": 0.2,
}
_CARD: Final = {"node_network_receive_bytes_total": 1e6, "node_network_transmit_bytes_total": 1e6}

COUNTERS: Final[tuple[tuple[list[dict[str, str]], float], ...]] = (
    *((_ports(name), rate) for name, rate in _INFINIBAND.items()),
    *((_devices(name, "device", "nvme0n1", "nvme1n1"), rate) for name, rate in _DISK.items()),
    *((_devices(name, "device", "eth0"), rate) for name, rate in _CARD.items()),
    (
        [{"__name__": "node_cpu_seconds_total", "cpu": str(number), "mode": "idle"} for number in range(96)],
        0.7,
    ),
)
"""Series of a node, and how much each grows in a second."""

LEVELS: Final[tuple[tuple[dict[str, str], float], ...]] = (
    ({"__name__": "node_load1"}, 60.0),
    ({"__name__": "node_memory_MemTotal_bytes"}, 2e12),
    ({"__name__": "node_memory_MemAvailable_bytes"}, 1.5e12),
    ({"__name__": "node_filesystem_size_bytes", "mountpoint": "/scratch", "fstype": "lustre"}, 1e15),
    ({"__name__": "node_filesystem_avail_bytes", "mountpoint": "/scratch", "fstype": "lustre"}, 4e14),
)
"""Gauges of a node, and about which value each has."""


@dataclass(frozen=True)
class Family:
    """Series that are made together: their labels, and their values from a chunk's beginning (in seconds) on."""

    labels: Sequence[Mapping[str, str]]
    values: Callable[[int], npt.NDArray[np.float64]]


@dataclass(frozen=True)
class Exporters:
    """What a server has of a cluster whose nodes have these names."""

    nodes: Sequence[str]

    def families(self) -> Iterator[Family]:
        """All series."""
        for number, gauge in enumerate(GAUGES.values()):
            labels = [{"__name__": gauge.name, **_of_gpu(node, gpu)} for node in self.nodes for gpu in range(8)]
            yield Family(labels, _Gpus(number, len(self.nodes), gauge))
        yield from self._of_nodes()

    def _of_nodes(self) -> Iterator[Family]:
        for number, (of_node, rate) in enumerate(COUNTERS, 100):
            labels = [{**each, "instance": f"{node}:9100", "job": "node"} for node in self.nodes for each in of_node]
            yield Family(labels, _Counter(number, len(labels), rate))
        for number, (gauge, level) in enumerate(LEVELS, 200):
            labels = [{**gauge, "instance": f"{node}:9100", "job": "node"} for node in self.nodes]
            yield Family(labels, _Level(number, len(labels), level))

    def samples_a_day(self) -> int:
        """How many samples its series have."""
        return sum(len(family.labels) for family in self.families()) * 86_400 // SCRAPE_S

    def answer(self, path: str, params: Mapping[str, str]) -> Answer:
        """The names of metrics and labels, and how many series they have; another query in PromQL has no result."""
        families = [family.labels[0] for family in self.families()]
        if counted := re.fullmatch(r'count by \(__name__\) \(\{__name__=~"([^"]*)".*\}\)', params.get("query", "")):
            return told({"resultType": "vector", "result": self._counted(counted[1], params["time"])})
        if path.endswith("/label/__name__/values"):
            wanted = re.search(r'__name__=~"([^"]*)"', params.get("match[]", ""))
            names = sorted({labels["__name__"] for labels in families})
            return told([name for name in names if wanted is None or re.fullmatch(wanted[1], name)])
        if path.endswith("/labels"):
            return told(sorted(set().union(*families)))
        return told({"resultType": "vector" if path.endswith("/query") else "matrix", "result": []})

    def _counted(self, names: str, time: str) -> list[dict[str, object]]:
        """The answer to a count of series by name."""
        series = Counter(labels["__name__"] for family in self.families() for labels in family.labels)
        return [
            {"metric": {"__name__": name}, "value": [float(time), str(n)]}
            for name, n in series.items()
            if re.fullmatch(names, name)
        ]

    def read(self, body: bytes) -> Answer:
        """A remote read."""
        low, high, matchers = question(body)
        return Answer(b"".join(frames(self._series(low, high, matchers))), kind=STREAMED) if matchers else _NOTHING

    def _series(
        self, low: int, high: int, matchers: Sequence[Matcher]
    ) -> Iterator[tuple[Mapping[str, str], list[bytes]]]:
        begins = range(low // 1000 // CHUNK_S * CHUNK_S, high // 1000 + 1, CHUNK_S)
        for family in self.families():
            if not all(_matches(family.labels[0], each) for each in matchers if each.name == "__name__"):
                continue
            parts = [chunks(begin * 1000, SCRAPE_S * 1000, family.values(begin)) for begin in begins]
            for labels, *of_series in zip(family.labels, *parts, strict=True):
                if all(_matches(labels, each) for each in matchers):
                    yield labels, of_series


_NOTHING: Final = Answer(b"", kind=STREAMED)


@dataclass(frozen=True)
class _Gpus:
    number: int
    nodes: int
    gauge: Gauge

    def __call__(self, begin: int) -> npt.NDArray[np.float64]:
        exported = self.gauge.values(_chance(self.number, begin), self._works(begin))
        return np.round(exported, int(self.gauge.form[1]))

    def _works(self, begin: int) -> npt.NDArray[np.float64]:
        """Whether each GPU works, sample by sample."""
        jobs, halves = -(-self.nodes // _JOB_NODES), CHUNK_S // _HALF_HOUR_S
        busy = (_chance(0, begin).random((jobs, halves)) < _WORKS).astype(float)
        of_jobs = np.repeat(busy, _HALF_HOUR_S // SCRAPE_S, axis=1)
        return np.repeat(of_jobs, _JOB_NODES * GPUS_PER_NODE, axis=0)[: self.nodes * GPUS_PER_NODE]


@dataclass(frozen=True)
class _Counter:
    number: int
    series: int
    rate: float

    def __call__(self, begin: int) -> npt.NDArray[np.float64]:
        times = begin + SCRAPE_S * np.arange(_SAMPLES)
        ahead = _chance(self.number, begin).random((self.series, _SAMPLES)) * self.rate * SCRAPE_S
        return np.round(times * self.rate + ahead, 2)


@dataclass(frozen=True)
class _Level:
    number: int
    series: int
    level: float

    def __call__(self, begin: int) -> npt.NDArray[np.float64]:
        spread = _chance(self.number, begin).normal(1.0, 0.01, (self.series, _SAMPLES))
        return np.round(self.level * spread, 2)


def _chance(number: int, begin: int) -> np.random.Generator:
    return np.random.default_rng([30, number, begin])


def _of_gpu(node: str, gpu: int) -> dict[str, str]:
    return {
        "gpu": str(gpu),
        "UUID": f"GPU-{node}-{gpu}",
        "device": f"nvidia{gpu}",
        "modelName": "NVIDIA H100 80GB HBM3",
        "Hostname": node,
    }


def _matches(labels: Mapping[str, str], matcher: Matcher) -> bool:
    value = labels.get(matcher.name, "")
    same = value == matcher.value if matcher.kind in _KINDS[:2] else re.fullmatch(matcher.value, value) is not None
    return same is not matcher.kind.startswith("!")


# What is asked for


def question(body: bytes) -> tuple[int, int, list[Matcher]]:
    """From when to when (epoch milliseconds), and the conditions of a remote read."""
    low, high, matchers = 0, 0, []
    for number, query in _fields(_unpacked(body)):
        for inner, value in _fields(query) if number == 1 and isinstance(query, bytes) else ():
            if inner == 1:
                low = int(value)
            elif inner == 2:
                high = int(value)
            elif isinstance(value, bytes):
                parts = dict(_fields(value))
                name, text = (part.decode() for part in (parts[2], parts[3]) if isinstance(part, bytes))
                matchers.append(Matcher(name, _KINDS[int(parts.get(1, 0))], text))
    return low, high, matchers


def _unpacked(body: bytes) -> bytes:
    """What is in a snappy block of literals alone, as ours are."""
    at, result = 0, bytearray()
    _, at = _number(body, at)
    while at < len(body):
        length = int.from_bytes(body[at + 1 : at + 3], "little") + 1
        result += body[at + 3 : at + 3 + length]
        at += 3 + length
    return bytes(result)


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    at = 0
    while at < len(message):
        tag, at = _number(message, at)
        value, at = _number(message, at)
        if tag & 7 == 2:
            yield tag >> 3, message[at : at + value]
            at += value
        else:
            yield tag >> 3, value


def _number(data: bytes, at: int) -> tuple[int, int]:
    number = 0
    for shift in itertools.count(0, 7):
        byte = data[at]
        number |= (byte & 127) << shift
        at += 1
        if byte < 128:
            return number, at
    raise AssertionError


def main(nodes: Sequence[str]) -> None:
    """Serve them on loopback until the standard input ends; prints the address and how many samples a day has."""
    import sys

    from tests.support.web import web

    exporters = Exporters(nodes)
    with web(exporters.answer, exporters.read) as server:
        print(json.dumps({"url": server.url, "samples": exporters.samples_a_day()}), flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    import sys

    main(json.loads(sys.argv[1]))
