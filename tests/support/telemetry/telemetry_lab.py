"""A history of a few GPUs and nodes as exporters told it, what is true of it, and how it is read from a server."""

from __future__ import annotations

import struct
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from app.config.settings import Config
from ingest.prometheus.load_live import ingest_live
from ingest.prometheus.target import TelemetryRequest
from queries.warehouse import open_writer
from tests.support.command import contents

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ingest.prometheus.client.remote_read import Samples
    from ingest.prometheus.client.server import PrometheusServer
    from ingest.store.report import LoadReport
    from tests.lab.prometheus import PrometheusLab
    from tests.lab.slow_proxy import SlowProxy

T = 1_793_530_800  # 2026-11-01T11:00:00Z, an hour
START = datetime.fromtimestamp(T, UTC)
HOURS = 3
SCRAPE_S = 15
GPUS = [(node, gpu) for node in ("n1", "n2") for gpu in ("0", "1")]
EXPORTED = {
    "DCGM_FI_DEV_GPU_UTIL": ("gpu_util", 0.01),
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": ("tensor_active", 1.0),
    "DCGM_FI_DEV_FB_USED": ("memory_used_bytes", 1048576.0),
    "DCGM_FI_DEV_SM_CLOCK": ("sm_clock_hz", 1e6),
}
XIDS = {("n1", "0"): [(4000, 79)], ("n2", "0"): [(5450, 119)], ("n2", "1"): [(500, 31), (7000, 48)]}
"""When (seconds after T) which GPU's gauge shows which code from then on."""


def scraped(second: int, node: str) -> bool:
    """Whether a scrape worked: n2 was away for ten minutes, a border of quarters of an hour among them."""
    return not (node == "n2" and 5385 < second <= 6000)


def value(name: str, node: str, gpu: str, second: int) -> float:
    """What an exporter said; any function of its arguments that is never the same for long does."""
    phase = (second // 60 + 7 * int(gpu) + 3 * len(name) + (11 if node == "n2" else 0)) % 20
    full = {"DCGM_FI_DEV_GPU_UTIL": 100, "DCGM_FI_DEV_FB_USED": 80_000, "DCGM_FI_DEV_SM_CLOCK": 1980}.get(name, 1)
    return full * phase / 20 + second % 60 / 60 * full / 40


def code(node: str, gpu: str, second: int) -> int:
    """The last XID of a GPU."""
    return next((xid for since, xid in reversed(XIDS.get((node, gpu), [])) if second >= since), 0)


COUNTERS = {
    'node_infiniband_port_data_received_bytes_total{device="mlx5_0",port="1",': ("ib_received_bytes_per_s", 1000.0),
    'node_mountstats_nfs_operations_requests_total{export="s:/data",operation="READ",': ("fs_operations_per_s", 20.0),
}
"""What node_exporters count: how it begins, what it fills, and how much it grows in a second."""

RESTARTED = {"n1": 4007, "n2": 5900}
"""When (seconds after T) a node's exporter began again; n2's while nobody saw it."""


FLAPS = (3000, 3030, 9000)
"""When (seconds after T) a link of n1 went down."""


def counted(node: str, per_s: float, second: int) -> float:
    """What a counter says; it had been counting for a day before T."""
    return per_s * (second - RESTARTED[node] if second >= RESTARTED[node] else second + 86_400)


def node_lines() -> list[str]:
    """Two nodes as node_exporter tells them, in three hours."""
    lines = []
    for name in ('node_uname_info{nodename="{node}",', *COUNTERS, "node_memory_MemAvailable_bytes{"):
        for node in ("n1", "n2"):
            labels = name.replace("{node}", node) + f'instance="{node}:9100"}}'
            for second in filter(lambda each: scraped(each, node), range(0, HOURS * 3600, SCRAPE_S)):
                output = counted(node, COUNTERS[name][1], second) if name in COUNTERS else 1
                lines.append(f"{labels} {output} {T + second}")
    times = [second for second in range(0, HOURS * 3600, SCRAPE_S) if scraped(second, "n1")]
    flaps = 'node_infiniband_link_downed_total{device="mlx5_0",port="1",instance="n1:9100"}'
    lines += [f"{flaps} {sum(second >= each for each in FLAPS)} {T + second}" for second in times]
    return [*lines, *(f"slurm_nodes_alloc {1 + (second > 5000)} {T + second}" for second in times)]


def history(*, nodes: bool = False, gone: range = range(0)) -> str:
    """Three hours of four GPUs as OpenMetrics; two jobs share one GPU, so that it comes twice.

    Args:
        nodes: with what their node_exporters said, too, and Slurm's exporter.
        gone: seconds after T of which nothing is known.
    """
    lines = node_lines() if nodes else []
    for name in (*EXPORTED, "DCGM_FI_DEV_XID_ERRORS"):
        for node, gpu in GPUS:
            for job in ("7", "8") if (node, gpu) == ("n1", "1") else ("",):
                labels = f'gpu="{gpu}",UUID="GPU-{node}-{gpu}",Hostname="{node}.cluster.local",hpc_job="{job}"'
                for second in range(0, HOURS * 3600, SCRAPE_S):
                    if scraped(second, node):
                        is_xid = name not in EXPORTED
                        output = code(node, gpu, second) if is_xid else value(name, node, gpu, second)
                        lines.append(f"{name}{{{labels}}} {output} {T + second}")
    there = [line for line in lines if int(line.rpartition(" ")[2]) - T not in gone]
    return "\n".join([*there, "# EOF"]) + "\n"


def expected() -> dict[tuple[str, str, int], dict[str, float]]:
    """By node, GPU and minute after T: the means of what was scraped after its beginning up to its end."""
    result: dict[tuple[str, str, int], dict[str, list[float]]] = {}
    for node, gpu in GPUS:
        for second in range(0, HOURS * 3600, SCRAPE_S):
            if scraped(second, node):
                minute = result.setdefault((node, gpu, -(-second // 60) - 1), {})
                for name, (column, scale) in EXPORTED.items():
                    minute.setdefault(column, []).append(value(name, node, gpu, second) * scale)
    return {
        key: {column: sum(values) / len(values) for column, values in minute.items()} for key, minute in result.items()
    }


def settings(lab: PrometheusLab | SlowProxy, **more: object) -> Config:
    return Config.model_validate({"cluster": "c", "prometheus": {"url": lab.url, "retries": 0, **more}})


def quiet(_what: str, _done: int, _total: int) -> None:
    """Say nothing."""


def ingest(
    warehouse: Path,
    config: Config,
    *,
    progress: Callable[[str, int, int], None] = quiet,
    since: datetime | None = START - timedelta(hours=1),
    until: datetime = START + timedelta(hours=HOURS),
) -> list[LoadReport]:
    with open_writer(warehouse, verb="test", now=until) as writer:
        requested = TelemetryRequest(since=since, until=None)
        return ingest_live(writer, config, requested, now=until, progress=progress)


SECOND = timedelta(seconds=1)
Found = dict[tuple[tuple[str, str], ...], list[tuple[int, bytes]]]


def raw(
    server: PrometheusServer, name: str, begin: datetime, end: datetime, *, json: bool, matchers: str = ""
) -> Found:
    """By series: times and the bits of values, of all readings after one time up to another."""
    result: Found = {}

    def keep(samples: Samples) -> None:
        at = 0
        for labels, size in zip(samples.labels, samples.sizes.tolist(), strict=True):
            times, values = samples.times[at : at + size].tolist(), samples.values[at : at + size].tolist()
            points = [(moment, struct.pack("d", value)) for moment, value in zip(times, values, strict=True)]
            result.setdefault(tuple(sorted(labels.items())), []).extend(points)
            at += size

    selector = f"{name}{{{matchers}}}"
    if json:
        keep(server.readings(selector, since=begin, until=end, step=SECOND))
    else:
        assert server.samples(selector, first=begin + SECOND, last=end, step=SECOND, each=keep) is not None
    return result


def assert_alike(one: Path, other: Path) -> None:
    """Both warehouses say the same; means may differ in their last digits, as sums in another order do."""
    left, right = contents(one), contents(other)
    assert left["health_events"].equals(right["health_events"])
    for name in ("gpu_samples", "gpu_hours", "node_samples", "node_hours"):
        assert left[name].schema == right[name].schema
        assert left[name].height == right[name].height > 0
        for column in left[name].columns:
            rows, others = left[name][column], right[name][column]
            assert rows.is_null().equals(others.is_null()), column
            rows, others = rows.drop_nulls(), others.drop_nulls()
            if rows.dtype.is_float():
                assert rows.to_list() == pytest.approx(others.to_list(), rel=1e-6), column
            else:
                assert rows.equals(others), column
