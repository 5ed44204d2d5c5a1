"""From a real Prometheus to whom it hit: sticky XIDs, stale jobs and hosts with other names give exactly the known."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from app.compute import pipeline as computing
from app.config.settings import Config
from ingest.prometheus.load_live import ingest_live
from ingest.prometheus.target import TelemetryRequest
from ingest.slurm import load_files as ingesting
from ingest.store.report import first_error
from queries.warehouse import open_reader, open_writer
from tests.lab.prometheus import PrometheusLab, need_prometheus
from tests.support.telemetry.health_readings import Series, as_openmetrics, every, of_gpu, of_node, series

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import polars as pl

pytestmark = [pytest.mark.xdist_group("prometheus")]

T = 1_793_530_800  # 2026-11-01T11:00:00Z, an hour
HOURS = 4
END = 3600 * HOURS
AWAY = range(5400, 6000)
"""Seconds after T in which the node n1 was away: it failed, and came back."""


def steps(*values: tuple[int, int, float]) -> list[tuple[float, float]]:
    return [point for begin, end, value in values for point in every(15, T + begin, T + end, value)]


def gpu(name: str, points: list[tuple[float, float]], **labels: str) -> Series:
    return of_gpu(name, [point for point in points if int(point[0]) - T not in AWAY], **labels)


HISTORY: list[Series] = [
    # GPU 0 of n1 falls off the bus under job 7; its code stays, and after the reboot the exporter still names the job.
    gpu("DCGM_FI_DEV_XID_ERRORS", steps((0, 5250, 0), (5250, END, 79)), hpc_job="7"),
    gpu("DCGM_FI_DEV_XID_ERRORS", steps((0, END, 0)), gpu="1", hpc_job="7"),
    # A remap failed once, long before job 8 began there; it is failed still, in the series of job 8 and of none.
    gpu("DCGM_FI_DEV_ROW_REMAP_FAILURE", steps((0, 3000, 0), (3000, 7200, 1)), gpu="1", hpc_job="7"),
    gpu("DCGM_FI_DEV_ROW_REMAP_FAILURE", steps((7200, 12_000, 1)), gpu="1", hpc_job="8"),
    gpu("DCGM_FI_DEV_ROW_REMAP_FAILURE", steps((12_000, END, 1)), gpu="1"),
    gpu("DCGM_FI_DEV_ROW_REMAP_FAILURE", steps((0, END, 0))),
    # The host of n2, which Kubernetes knows by another name: a link goes down two minutes before job 9 fails.
    of_node(
        "node_infiniband_link_downed_total",
        steps((0, 8880, 3), (8880, END, 4)),
        device="mlx5_0",
        port="1",
        instance="10.0.0.8:9100",
    ),
    of_node("node_uname_info", steps((0, END, 1)), nodename="host-b.cluster.local", instance="10.0.0.8:9100"),
    series("kube_pod_info", steps((0, END, 1)), pod="n2", node="host-b", host_ip="10.0.0.8", created_by_kind="NodeSet"),
]


def job(number: int, node: str, begin: int, end: int, state: str) -> str:
    tres = "cpu=64,gres/gpu=2,node=1"
    ran = f"{T + begin}|{T + begin}|{T + begin}|{T + end}"
    return f"{number}|{number}|c|alice|lab|main|train|{state}|1:0|{ran}|1|{tres}|{node}\n"


SACCT = (
    "JobID|JobIDRaw|Cluster|User|Account|Partition|JobName|State|ExitCode|Submit|Eligible|Start|End|NNodes|AllocTRES"
    "|NodeList\n"
    + job(7, "n1", 600, 5400, "NODE_FAIL")
    + job(8, "n1", 7200, 12_000, "FAILED")
    + job(9, "n2", 600, 9000, "FAILED")
)


@pytest.fixture(scope="module")
def lab() -> Iterator[PrometheusLab]:
    need_prometheus()
    with PrometheusLab(history=as_openmetrics(HISTORY)) as running:
        yield running


@pytest.fixture(scope="module", params=["at once", "as it happens"])
def warehouse(request: pytest.FixtureRequest, lab: PrometheusLab, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Accounting, then telemetry: of all four hours, or hour by hour as an ingest from time to time reads it."""
    folder = tmp_path_factory.mktemp("live")
    root, accounting = folder / "warehouse", folder / "sacct.txt"
    accounting.write_text(SACCT)
    settings = Config.model_validate({"cluster": "c", "prometheus": {"url": lab.url, "retries": 0}})
    begin, until = datetime.fromtimestamp(T, UTC), datetime.fromtimestamp(T + END, UTC)
    times = [until, until] if request.param == "at once" else [begin + timedelta(minutes=55 * n) for n in range(1, 6)]
    with open_writer(root, verb="test", now=until) as writer:
        reports = ingesting.ingest_files(
            writer, settings, [str(accounting)], ingesting.Options(), now=until, progress=lambda *_: None
        )
        for now in times:
            requested = TelemetryRequest(since=begin - timedelta(hours=1) if now == times[0] else None, until=None)
            reports += ingest_live(writer, settings, requested, now=now, progress=lambda *_: None)
        assert first_error(reports) is None
        computing.compute(writer, settings, now=until)
    return root


def table(warehouse: Path, name: str, *by: str) -> pl.DataFrame:
    with open_reader(warehouse) as reader:
        return reader.table(name).sort(by)


def second(moment: datetime) -> int:
    return round(moment.timestamp()) - T


def test_each_event_is_stored_once_under_slurms_node_names(warehouse: Path) -> None:
    result = table(warehouse, "health_events", "node", "ts")
    assert [
        (second(row["ts"]), row["node"], row["gpu"], row["device"], f"{row['kind']} {row['code']}", row["severity"])
        for row in result.iter_rows(named=True)
    ] == [
        (3000, "n1", "1", None, "row_remap failure", "critical"),
        (5250, "n1", "0", None, "xid 79", "critical"),
        (8880, "n2", None, "mlx5_0/1", "ib link_downed", "critical"),
    ]


def test_only_attempts_on_the_node_are_affected(warehouse: Path) -> None:
    result = table(warehouse, "attempt_health", "started_at")
    assert result.select("node", "job_id", "n_events", "at_end").rows() == [
        ("n1", "7", 1, False),
        ("n1", "7", 1, True),
        ("n2", "9", 1, True),
    ]


def test_ends_are_explained_by_events_just_before_only(warehouse: Path) -> None:
    result = table(warehouse, "interruptions", "job_id")
    assert result.select("job_id", "class", "cause", "node").rows() == [
        ("7", "infrastructure", "node_fail", "n1"),
        ("8", "user", "failed", None),
        ("9", "infrastructure", "ib", "n2"),
    ]
    assert "xid 79" in result["detail"][0]


def test_a_time_without_errors_is_covered(warehouse: Path) -> None:
    loads = table(warehouse, "loads", "covers_until")
    of_health = loads.filter(loads["source"] == "prometheus.health")
    assert second(of_health["covers_until"].max()) >= END - 15  # type: ignore[arg-type]  # polars types max() broadly
