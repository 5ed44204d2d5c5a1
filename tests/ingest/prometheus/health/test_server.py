"""Events of health and names of hosts from a real Prometheus: the same by every transport, whole or in pieces."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from ingest.prometheus.client.server import PrometheusServer
from ingest.prometheus.health import events as health
from ingest.prometheus.health import server as prometheus_health
from ingest.prometheus.node import kubernetes_names
from ingest.prometheus.reader import ScrapeSpec
from ingest.tables import HEALTH_EVENTS, Parsed, empty
from tests.lab.prometheus import PrometheusLab, need_prometheus
from tests.support.telemetry.health_readings import (
    Series,
    as_openmetrics,
    between,
    every,
    of_gpu,
    of_node,
    rows,
    samples,
    series,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    import polars as pl

pytestmark = [pytest.mark.xdist_group("prometheus")]

T = 1_793_530_800  # 2026-11-01T11:00:00Z, an hour
START = datetime.fromtimestamp(T, UTC)
WANTED = ScrapeSpec("c", "", 60)
CUTS = [0, 3600, 3660, 5400, 7200]


def steps(*values: tuple[int, int, float]) -> list[tuple[float, float]]:
    """Readings every 15 s from one second (after T) to before another, with a value."""
    return [point for begin, end, value in values for point in every(15, T + begin, T + end, value)]


ADDRESS = {"instance": "10.0.0.7:9100"}
PORT = {"device": "mlx5_0", "port": "1", **ADDRESS}
HISTORY: list[Series] = [
    # An uncorrectable error at 1000 s, in the series of a job; the counter begins anew after a reboot of ten minutes.
    of_gpu("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", steps((0, 1005, 0), (1005, 2000, 1), (2600, 4995, 0)), hpc_job="7"),
    of_gpu("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", steps((4995, 7200, 1))),
    of_gpu("DCGM_FI_DEV_ROW_REMAP_FAILURE", steps((0, 3600, 0), (3600, 7200, 1))),
    of_gpu("DCGM_FI_DEV_ROW_REMAP_FAILURE", steps((0, 7200, 0)), gpu="1"),
    of_gpu("DCGM_FI_DEV_PCIE_REPLAY_COUNTER", steps((0, 4000, 0)), gpu="2"),
    of_gpu("DCGM_FI_DEV_THERMAL_VIOLATION", [(T + s, 2e8 * max(s - 1800, 0)) for s in range(0, 7200, 15)], gpu="1"),
    of_node("node_infiniband_link_downed_total", steps((0, 5400, 2), (5400, 7200, 3)), **PORT),
    of_node("node_filesystem_device_error", steps((0, 7200, 0)), mountpoint="/", fstype="xfs", **ADDRESS),
    of_node("node_filesystem_device_error", steps((0, 3570, 0)), mountpoint="/data", fstype="lustre", **ADDRESS),
    of_node("node_uname_info", steps((0, 7200, 1)), nodename="n7", **ADDRESS),
    series(
        "kube_node_status_condition",
        steps((0, 6000, 1), (6000, 6600, 0), (6600, 7200, 1)),
        node="n2",
        condition="Ready",
        status="true",
    ),
]
EXPECTED = [
    (T + 1005, "n1/0", "ecc dbe", "critical"),
    (T + 4995, "n1/0", "ecc dbe", "critical"),
    (T + 3600, "n1/0", "row_remap failure", "critical"),
    (T + 2100, "n1/1", "throttle thermal", "warning"),
    (T + 3900, "n1/1", "throttle thermal", "warning"),
    (T + 3990, "n1/2", "gpu lost", "warning"),
    (T + 6000, "n2/Ready", "condition Ready", "critical"),
    (T + 3555, "n7//data", "filesystem mount_lost", "critical"),
    (T + 5400, "n7/mlx5_0/1", "ib link_downed", "critical"),
]
PODS = [
    ({"pod": "worker-3", "node": "host-a", "host_ip": "10.0.0.7", "created_by_kind": "NodeSet"}, steps((0, 3600, 1))),
    (
        {"pod": "worker-3", "node": "host-b", "host_ip": "10.0.0.8", "created_by_kind": "NodeSet"},
        steps((3660, 7200, 1)),
    ),
    ({"pod": "exporter-x", "node": "host-a", "host_ip": "10.0.0.7", "created_by_kind": "DaemonSet"}, steps((0, 60, 1))),
    ({"pod": "worker-4", "node": "", "host_ip": "", "created_by_kind": "NodeSet"}, steps((0, 60, 1))),
]


def text() -> str:
    """All of it as OpenMetrics."""
    pods: list[Series] = [series("kube_pod_info", points, **labels) for labels, points in PODS]
    return as_openmetrics([*HISTORY, *pods])


@pytest.fixture(scope="module")
def lab() -> Iterator[PrometheusLab]:
    need_prometheus()
    with PrometheusLab(history=text()) as running:
        yield running


def read(server: PrometheusServer, since: int, until: int) -> Parsed:
    low, high = START + timedelta(seconds=since), START + timedelta(seconds=until)
    names = server.names(WANTED.matcher(prometheus_health.READER.names(WANTED)), since=low, until=high)
    return prometheus_health.READER.read(server, WANTED, names, since=low, until=high)


def by_place(events: pl.DataFrame) -> list[tuple[object, ...]]:
    return sorted(rows(events), key=lambda row: (row[1], row[2], row[0]))


@pytest.mark.parametrize("remote_read", [True, False])
def test_server_reports_exactly_what_happened_by_every_transport(lab: PrometheusLab, *, remote_read: bool) -> None:
    server = PrometheusServer(lab.url, remote_read=remote_read)
    result = read(server, -60, 7200)
    server.close()
    assert by_place(result.frames["health_events"]) == sorted(EXPECTED, key=lambda row: (row[1], row[2], row[0]))
    assert result.rows_read == result.rows_loaded == sum(len(points) for labels, points in HISTORY if _counts(labels))
    assert (result.covers_from, result.covers_until) == (START, START + timedelta(seconds=7185))
    whole = health.from_raw([samples(*HISTORY)], cluster="c", until=START + timedelta(hours=2))
    assert result.frames["health_events"].equals(whole.events)


def _counts(labels: dict[str, str]) -> bool:
    return labels["__name__"] != "node_uname_info"


@pytest.mark.parametrize("remote_read", [True, False])
def test_intervals_give_the_events_of_the_whole_once(lab: PrometheusLab, *, remote_read: bool) -> None:
    server = PrometheusServer(lab.url, remote_read=remote_read)
    whole = read(server, -60, 7200)
    pieces = [read(server, low, high) for low, high in pairwise([-60, *CUTS])]
    server.close()
    known = empty(HEALTH_EVENTS)
    for piece in reversed(pieces):
        known = health.merge(known, piece.frames["health_events"])
    assert known.equals(whole.frames["health_events"])
    assert sum(piece.rows_read for piece in pieces) == whole.rows_read


def test_quiet_time_is_covered_and_time_without_readings_is_not(lab: PrometheusLab) -> None:
    server = PrometheusServer(lab.url)
    quiet, silent = read(server, 1200, 1800), read(server, 90_000, 93_600)
    server.close()
    assert quiet.frames["health_events"].is_empty()
    assert quiet.covers_until == START + timedelta(seconds=1800)
    assert silent.covers_until is None
    assert silent.rows_read == 0


def test_pods_of_slurmd_are_named_by_their_hosts(lab: PrometheusLab) -> None:
    server = PrometheusServer(lab.url)
    names = [kubernetes_names.POD_INFO]
    low, high = START - timedelta(seconds=60), START + timedelta(hours=2)
    result = kubernetes_names.READER.read(server, WANTED, names, since=low, until=high)
    server.close()
    assert result.frames["node_aliases"].select("name", "valid_from", "node").rows() == [
        ("10.0.0.7", START - timedelta(seconds=60), "worker-3"),
        ("10.0.0.8", START + timedelta(seconds=3600), "worker-3"),
        ("host-a", START - timedelta(seconds=60), "worker-3"),
        ("host-b", START + timedelta(seconds=3600), "worker-3"),
    ]
    assert (result.rows_loaded, result.rows_skipped) == (240 + 236, 8)


def test_pod_back_on_an_earlier_host_is_reported_again() -> None:
    def pod(name: str, points: list[tuple[float, float]], **more: str) -> Series:
        return series("kube_pod_info", points, pod=name, node="host-a", created_by_kind="NodeSet", **more)

    reported = [
        pod("worker-3", steps((3000, 3600, 1)), instance="another"),  # before what its other series tells
        pod("worker-3", steps((15, 1000, 1), (1200, 1500, 1), (3600, 4000, 1))),
        pod("worker-4", steps((1800, 2400, 1))),
    ]
    for cuts in ([0, 7200], [0, 900, 3300, 7200]):
        batches = [samples(*between(reported, T + low, T + high)) for low, high in pairwise(cuts)]
        result = kubernetes_names.from_raw(batches, cluster="c", interval_s=60, names=["kube_pod_info"])
        assert result.frames["node_aliases"].select("name", "valid_from", "node").rows() == [
            ("host-a", START, "worker-3"),
            ("host-a", START + timedelta(seconds=2940), "worker-3"),
            ("host-a", START + timedelta(seconds=1740), "worker-4"),
        ]
