"""The output of the simulated cluster's node_exporter: counters around a fault, and hours of all nodes.

Networks and filesystems follow what the GPUs did; a silent node has no samples.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import polars as pl

from app.demo.simulate.exporters import observed_at
from app.demo.simulate.health import SAMPLE_S
from app.demo.simulate.plan import BEGIN, CLUSTER, HOUR_S
from app.demo.simulate.telemetry import attempt_intervals, grid, spread, watched
from ingest.tables import NODE_HOURS, conform

if TYPE_CHECKING:
    from app.demo.simulate.telemetry import Watched
    from app.demo.simulate.world import World

PORT: Final = "mlx5_0/1"
DATA, CHECKPOINTS = "nas-1:/datasets", "nas-2:/checkpoints"
CPUS: Final = 4
"""CPUs of which counters are written; real nodes have more, and are as busy."""


class NodeSeries(NamedTuple):
    """A measured value of a node: its metric and device, the value while it computes, saves, and idles."""

    metric: str
    device: str
    computing: float
    saving: float
    standing: float


KINDS: Final = (
    NodeSeries("cpu_busy", "", 0.34, 0.21, 0.02),
    NodeSeries("ib_received_bytes_per_s", PORT, 21e9, 0.2e9, 2e4),
    NodeSeries("ib_transmitted_bytes_per_s", PORT, 21e9, 0.2e9, 2e4),
    NodeSeries("fs_read_operations_per_s", DATA, 420.0, 0.0, 0.0),
    NodeSeries("fs_read_bytes_per_s", DATA, 110e6, 0.0, 0.0),
    NodeSeries("fs_metadata_operations_per_s", DATA, 35.0, 2.0, 0.2),
    NodeSeries("fs_operations_per_s", DATA, 455.0, 2.0, 0.2),
    NodeSeries("fs_response_s_per_s", DATA, 0.5, 0.002, 0.0002),
    NodeSeries("fs_write_operations_per_s", CHECKPOINTS, 2.0, 1300.0, 0.0),
    NodeSeries("fs_written_bytes_per_s", CHECKPOINTS, 1e4, 1.3e9, 0.0),
    NodeSeries("fs_metadata_operations_per_s", CHECKPOINTS, 1.0, 40.0, 0.1),
    NodeSeries("fs_operations_per_s", CHECKPOINTS, 3.0, 1340.0, 0.1),
    NodeSeries("fs_response_s_per_s", CHECKPOINTS, 0.003, 9.4, 0.0001),
)
"""Rates follow the GPUs: a node whose GPUs all compute reads its data, one that saves writes."""


def node_hours(world: World) -> pl.DataFrame:
    """Hourly roll-ups of all nodes, in the columns of `node_hours`; hours without samples have no rows."""
    settings, cells = world.settings, grid(world)
    saving = spread(
        world.segments.filter(pl.col("category") == "checkpoint").join(world.held, on="attempt"), cells.busy.shape
    )
    chance = np.random.default_rng([settings.seed, 11])
    covered = cells.covered.min(axis=1)
    observed = covered > 0
    node, hour = (index.astype(np.int32) for index in np.nonzero(observed))
    seconds = covered[observed] / 1000
    saved = _share(saving, observed, seconds)
    computed = np.minimum(_share(cells.busy, observed, seconds), 1 - saved)
    names = pl.Series([settings.name(n) for n in range(settings.n_nodes)])
    base = pl.DataFrame(
        {
            "node": names.gather(node),
            "ts": pl.Series((BEGIN + hour.astype(np.int64) * HOUR_S) * 1_000_000).cast(pl.Datetime("us", "UTC")),
            "covered_s": seconds,
        }
    )
    rows = [_hours(base, kind, computed, saved, chance.normal(1, 0.05, seconds.size)) for kind in KINDS]
    return conform(pl.concat(rows).with_columns(cluster=pl.lit(CLUSTER)), NODE_HOURS)


def _share(cells: np.ndarray, observed: np.ndarray, seconds: np.ndarray) -> np.ndarray:
    """Share of the observed time of a node and hour in which its GPUs did something, all of them counted."""
    shares: np.ndarray = np.minimum(cells.mean(axis=1)[observed] / 1000 / seconds, 1.0)
    return shares


def _hours(
    base: pl.DataFrame, kind: NodeSeries, computed: np.ndarray, saved: np.ndarray, wobble: np.ndarray
) -> pl.DataFrame:
    mean = (kind.computing * computed + kind.saving * saved + kind.standing * (1 - computed - saved)) * wobble.clip(
        0.8, 1.2
    )
    most = np.where(saved > 0, max(kind.computing, kind.saving), np.where(computed > 0, kind.computing, kind.standing))
    return base.with_columns(
        pl.lit(kind.metric).alias("metric"),
        pl.lit(kind.device).alias("device"),
        pl.Series("mean", mean.round(4)),
        pl.Series("max", np.maximum(most * 1.2, mean).round(4)),
    )


# --- counters of the watched nodes


def openmetrics(world: World) -> str:
    """Counters and gauges of node_exporter every 15 s as OpenMetrics text, of the nodes that are watched."""
    what = watched(world)
    times = np.arange(what.begin, what.end, SAMPLE_S)
    text = io.StringIO()
    series_of_nodes = {node: _counters(world, what, node, times) for node in what.nodes}
    for family in dict.fromkeys(name for series in series_of_nodes.values() for name, _ in series):
        text.write(f"# TYPE {family} {'counter' if family.endswith('_total') else 'gauge'}\n")
        for node in what.nodes:
            host = f'instance="{world.settings.name(node)}:9100"'
            for (name, labels), (moments, values) in series_of_nodes[node].items():
                if name == family:
                    inside = ",".join(filter(None, [host, labels]))
                    pairs = zip(values.tolist(), moments.tolist(), strict=True)
                    text.writelines(f"{name}{{{inside}}} {value:.15g} {at}\n" for value, at in pairs)
    text.write("# EOF\n")
    return text.getvalue()


Series = dict[tuple[str, str], tuple[np.ndarray, np.ndarray]]


def _counters(world: World, what: Watched, node: int, times: np.ndarray) -> Series:
    """All series of a node: by name and labels, its times and values. A dead node has no samples."""
    chance = np.random.default_rng([world.settings.seed, 12, node])
    observed = observed_at(world, node, times)
    computing, saving = _doing(world, what, node, times)
    wobble = chance.normal(1, 0.03, times.size).clip(0.8, 1.2)
    series: Series = {}

    def add(name: str, labels: str, values: np.ndarray) -> None:
        series[name, labels] = times[observed], values[observed]

    def count(name: str, labels: str, kind: NodeSeries, share: float = 1.0) -> None:
        rate = np.where(saving, kind.saving, np.where(computing, kind.computing, kind.standing)) * wobble * share
        start = float(chance.integers(1, 1_000_000))
        add(name, labels, (start + np.cumsum(rate) * SAMPLE_S).round(3 if kind.metric == "cpu_busy" else 0))

    kinds = {(kind.metric, kind.device): kind for kind in KINDS}
    busy = kinds["cpu_busy", ""]
    idle = NodeSeries("cpu_busy", "", *(1 - value for value in busy[2:]))
    for cpu in range(CPUS):
        count("node_cpu_seconds_total", f'cpu="{cpu}",mode="idle"', idle, 1.0 / wobble.max())
        count("node_cpu_seconds_total", f'cpu="{cpu}",mode="user"', busy)
    device, port = PORT.split("/")
    where = f'device="{device}",port="{port}"'
    count("node_infiniband_port_data_received_bytes_total", where, kinds["ib_received_bytes_per_s", PORT])
    count("node_infiniband_port_data_transmitted_bytes_total", where, kinds["ib_transmitted_bytes_per_s", PORT])
    downs = np.zeros(times.size)
    if what.failure is not None and what.failure.node == node:
        downs[times >= what.failure.at] = 1
    add("node_infiniband_link_downed_total", where, downs)
    mount = 'export="{}",mountaddr="10.1.0.9",protocol="tcp"'
    for export, operation, metric in (
        (DATA, "READ", "fs_read_operations_per_s"),
        (DATA, "GETATTR", "fs_metadata_operations_per_s"),
        (CHECKPOINTS, "WRITE", "fs_write_operations_per_s"),
        (CHECKPOINTS, "GETATTR", "fs_metadata_operations_per_s"),
    ):
        label = f'{mount.format(export)},operation="{operation}"'
        count("node_mountstats_nfs_operations_requests_total", label, kinds[metric, export])
        count("node_mountstats_nfs_operations_response_time_seconds_total", label, kinds[metric, export], 0.0011)
    count("node_mountstats_nfs_total_read_bytes_total", mount.format(DATA), kinds["fs_read_bytes_per_s", DATA])
    written = kinds["fs_written_bytes_per_s", CHECKPOINTS]
    count("node_mountstats_nfs_total_write_bytes_total", mount.format(CHECKPOINTS), written)
    return series


def _doing(world: World, what: Watched, node: int, times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Whether a node computed, and whether it saved a checkpoint, at each time."""
    computing, saving = np.zeros(times.size, dtype=bool), np.zeros(times.size, dtype=bool)
    mine = attempt_intervals(world, what, node)
    for category, active, begin, end in mine.select("category", "active", "begin", "end").rows():
        inside = (times * 1000 >= begin) & (times * 1000 < end)
        saving[inside] |= category == "checkpoint"
        computing[inside] |= active
    return computing & ~saving, saving
