"""Many exporters behind a real server: each line is the value that it means, by any transport or from a file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from app.config.settings import Config
from ingest.prometheus.load_files import ingest_files
from ingest.prometheus.target import TelemetryRequest
from queries.warehouse import open_reader, open_writer
from tests.lab.prometheus import PrometheusLab, need_prometheus
from tests.lab.victoria import VictoriaLab, need_victoria
from tests.support.slurm.parsing import at
from tests.support.telemetry.telemetry_lab import START, T, ingest, quiet

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.xdist_group("prometheus")]

SECONDS = 1800
STEP = 15
OWN = [
    {"name": "my_power_mw", "fills": "gpu_samples.power_w", "scale": 0.001, "where": {"rail": "gpu"}},
    {
        "name": "beegfs_read_kilobytes",
        "fills": "node_samples.fs_read_bytes_per_s",
        "counter": True,
        "scale": 1024,
        "device": ["target"],
        "device_pattern": "^(.*)-[0-9]+$",
    },
    {"name": "my_queue", "fills": "cluster_samples.jobs", "device_as": "pending"},
]

GAUGES = {
    # n1: dcgm-exporter tells index and UUID, by two generations of names; nvidia-smi's the UUID alone, and writes it
    # otherwise; jobstats' the UUID and the minor number, which differs from the index.
    'DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-AA",Hostname="n1.example"}': 50,
    'DCGM_FI_DEV_POWER_USAGE{gpu="0",UUID="GPU-AA",Hostname="n1.example"}': 600,
    'DCGM_FI_DEV_BOARD_POWER_WATTS{gpu="0",UUID="GPU-AA",hostname="n1"}': 602,
    'nvidia_smi_temperature_gpu{uuid="aa",instance="n1:9835"}': 61,
    'nvidia_gpu_sm_util_percent{minor_number="5",uuid="GPU-AA",instance="n1:9445"}': 0.25,
    # n1's other GPU has two MIG instances, and DCGM has no value for its power.
    'DCGM_FI_DEV_FB_USED{gpu="1",UUID="GPU-BB",Hostname="n1",GPU_I_ID="1"}': 1024,
    'DCGM_FI_DEV_FB_USED{gpu="1",UUID="GPU-BB",Hostname="n1",GPU_I_ID="2"}': 2048,
    'DCGM_FI_DEV_POWER_USAGE{gpu="1",UUID="GPU-BB",Hostname="n1"}': 2.0**47,
    # n2: jobstats' exporter, of whose clocks one is meant; a metric of our own, of which one rail is.
    'nvidia_gpu_duty_cycle{ordinal="0",minor_number="1",uuid="GPU-CC",instance="n2:9445",jobid="7"}': 25,
    'nvidia_gpu_clock{ordinal="0",minor_number="1",uuid="GPU-CC",instance="n2:9445",type="sm"}': 1410,
    'nvidia_gpu_clock{ordinal="0",minor_number="1",uuid="GPU-CC",instance="n2:9445",type="mem"}': 9999,
    'my_power_mw{gpu="0",node="n2",rail="gpu"}': 700_000,
    'my_power_mw{gpu="0",node="n2",rail="board"}': 900_000,
    # n3: AMD's; the second is somebody else's.
    'gpu_package_power{gpu_id="4",hostname="n3",serial_number="69"}': 742,
    'gpu_package_power{gpu_id="4",hostname="n3"}': 9000,
    # Nodes.
    'node_memory_MemAvailable_bytes{instance="n1:9100"}': 2.0**35,
    'node_filesystem_avail_bytes{instance="n1:9100",fstype="nfs4",mountpoint="/scratch"}': 2.0**40,
    'node_filesystem_avail_bytes{instance="n1:9100",fstype="tmpfs",mountpoint="/tmp"}': 1,
    # Slurm.
    'slurm_nodes_alloc{instance="exporter:8080"}': 3,
    'slurm_nodes_mixed_total{instance="slinky:8080"}': 2,
    'slurm_node_count_per_state{state="drained",instance="rivos:9092"}': 1,
    'slurm_node_gpus_alloc{node="n1",instance="ctld:6817"}': 2,
    'slurm_node_gpus_alloc{node="n2",instance="ctld:6817"}': 1,
    'slurm_partition_gpu_alloc{partition="main",instance="sunk:8080"}': 3,
    'my_queue{instance="mine:1"}': 12,
}
COUNTERS = {
    'DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{gpu="1",UUID="GPU-BB",Hostname="n1"}': 500_000,
    'node_cpu_seconds_total{instance="n1:9100",cpu="0",mode="idle"}': 0.5,
    'node_cpu_seconds_total{instance="n1:9100",cpu="1",mode="idle"}': 0.7,
    'node_cpu_seconds_total{instance="n1:9100",cpu="0",mode="user"}': 0.5,
    'node_infiniband_port_data_received_bytes_total{instance="n1:9100",device="mlx5_0",port="1"}': 1000,
    'node_network_receive_bytes_total{instance="n1:9100",device="lo"}': 7,
    'node_mountstats_nfs_operations_requests_total{instance="n1:9100",export="s:/x",operation="READ"}': 20,
    'node_mountstats_nfs_operations_requests_total{instance="n1:9100",export="s:/x",operation="GETATTR"}': 30,
    'node_nfs_requests_total{instance="n1:9100",proto="4",method="GetAttr"}': 30,
    'lustre_read_bytes_total{instance="n1:9169",component="client",target="work-ffff88105db50000"}': 4096,
    'lustre_read_bytes_total{instance="oss1:9169",component="ost",target="work-OST0000"}': 5,
    'beegfs_read_kilobytes{instance="n1:9100",target="data-7"}': 2,
}
"""What they count in a second."""

FALLING = 'DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{gpu="0",UUID="GPU-DD",Hostname="n4"}'
"""It is lower at each reading, so its power is unknown."""

GPUS = {
    ("n1", "0"): {"gpu_util": 0.5, "power_w": 602.0, "temperature_c": 61.0, "sm_active": 0.25},
    ("n1", "1"): {"memory_used_bytes": 3072 * 2.0**20, "power_w": 500.0},
    ("n2", "0"): {"gpu_util": 0.25, "sm_clock_hz": 1.41e9, "power_w": 700.0},
    ("n3", "4"): {"power_w": 742.0},
}
NODES = {
    ("n1", "cpu_busy", ""): 0.4,
    ("n1", "memory_available_bytes", ""): 2.0**35,
    ("n1", "fs_available_bytes", "/scratch"): 2.0**40,
    ("n1", "ib_received_bytes_per_s", "mlx5_0/1"): 1000.0,
    ("n1", "fs_operations_per_s", "s:/x"): 50.0,
    ("n1", "fs_read_operations_per_s", "s:/x"): 20.0,
    ("n1", "fs_metadata_operations_per_s", "s:/x"): 30.0,
    ("n1", "nfs_operations_per_s", ""): 30.0,
    ("n1", "nfs_metadata_operations_per_s", ""): 30.0,
    ("n1", "fs_read_bytes_per_s", "work"): 4096.0,
    ("n1", "fs_read_bytes_per_s", "data"): 2048.0,
}
CLUSTER = {
    ("nodes", "allocated"): 3.0,
    ("nodes", "mixed"): 2.0,
    ("nodes", "drained"): 1.0,
    ("gpus_allocated", ""): 3.0,
    ("gpus_allocated_in_partition", "main"): 3.0,
    ("jobs", "pending"): 12.0,
}


def history() -> str:
    lines = [
        f"{series} {value if series in GAUGES else value * second + 1e6} {T + second}"
        for series, value in sorted((GAUGES | COUNTERS).items())
        for second in range(0, SECONDS + 1, STEP)
    ]
    lines += [f"{FALLING} {4e6 - 1000 * second} {T + second}" for second in range(0, SECONDS + 1, STEP)]
    return "\n".join([*lines, "# EOF\n"])


def config(**more: object) -> Config:
    return Config.model_validate({"cluster": "c", "prometheus": {"metric": OWN, "retries": 0, **more}})


def mid_values(warehouse: Path) -> tuple[dict[Any, Any], dict[Any, Any], dict[Any, Any]]:
    """GPUs' columns that are not null, nodes' and the cluster's metrics: their values in the middle of the time."""
    with open_reader(warehouse) as reader:
        names = ("gpu_samples", "node_samples", "cluster_samples")
        gpus, nodes, cluster = (reader.table(name).filter(pl.col("ts") == at(T + 900)) for name in names)
    rows = gpus.drop("cluster", "ts", "interval_s").rows(named=True)
    of_gpus = {
        (row["node"], row["gpu"]): {key: row[key] for key in row.keys() - {"node", "gpu"} if row[key] is not None}
        for row in rows
    }
    of_nodes = {tuple(key): value for *key, value in nodes.select("node", "metric", "device", "value").rows()}
    return of_gpus, of_nodes, {tuple(key): value for *key, value in cluster.select("metric", "device", "value").rows()}


def assert_as_exported(warehouse: Path) -> None:
    gpus, nodes, cluster = mid_values(warehouse)
    assert gpus.keys() == GPUS.keys()
    for key, values in GPUS.items():
        assert gpus[key] == pytest.approx(values, rel=1e-6), key
    assert nodes == pytest.approx(NODES, rel=1e-6)
    assert cluster == pytest.approx(CLUSTER)


@pytest.fixture(scope="module", params=["prometheus", "victoria"])
def server(request: pytest.FixtureRequest) -> Iterator[PrometheusLab | VictoriaLab]:
    if request.param == "prometheus":
        need_prometheus()
        with PrometheusLab(history=history()) as prometheus:
            yield prometheus
    else:
        need_victoria()
        with VictoriaLab(history=history()) as victoria:
            yield victoria


@pytest.mark.parametrize("remote_read", [True, False])
def test_every_exporters_line_is_the_value_that_it_means(
    server: PrometheusLab | VictoriaLab, tmp_path: Path, remote_read: bool
) -> None:
    reports = ingest(
        tmp_path / "w", config(url=server.url, remote_read=remote_read), since=START, until=at(T + SECONDS)
    )
    assert [report.error for report in reports if report.error] == []
    assert_as_exported(tmp_path / "w")


def test_file_of_exporter_output_gives_the_same(tmp_path: Path) -> None:
    (tmp_path / "x.om").write_text(history())
    now = at(T + SECONDS)
    with open_writer(tmp_path / "w", verb="test", now=now) as writer:
        (*reports,) = ingest_files(
            writer, config(), [str(tmp_path / "x.om")], TelemetryRequest(), now=now, progress=quiet
        )
    assert [report.error for report in reports if report.error] == []
    assert_as_exported(tmp_path / "w")
