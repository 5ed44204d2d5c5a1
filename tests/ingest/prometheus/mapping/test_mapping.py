"""Which exported metric means what: the built-in mapping beside exporters' own lines, and entries that are wrong."""

from __future__ import annotations

import math
import re
from collections import Counter
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.prometheus.files.openmetrics_parser import labels_of
from ingest.prometheus.mapping.mapping import GPU_COLUMNS, GPU_RATIOS, Mapping, MappingError, builtin, parse_metric
from ingest.prometheus.series.labels import SAMPLES, gpu_location, in_base_units
from ingest.tables import GPU_SAMPLES
from tests.support.slurm.parsing import at

if TYPE_CHECKING:
    from collections.abc import Callable

HEAD = {"name": "my_metric", "fills": "node_samples.mine"}


def apart(line: str) -> tuple[dict[str, str], float]:
    """Labels and value of a line of an exporter."""
    series, _, value = line.rpartition(" ")
    return labels_of(series), float(value)


def meant(line: str) -> list[tuple[str, str, float]]:
    """What a line means: what it fills, of which device, and the value in base units (of counters: of an increase)."""
    labels, value = apart(line)
    result = (metric for metric in builtin().metrics if metric.name == labels["__name__"] and metric.matches(labels))
    return sorted((metric.fills, metric.device_of(labels), value * metric.scale) for metric in result)


def of_gpu(line: str) -> tuple[str, str, str, str, float | None]:
    """Column, node, GPU, MIG instance and value that a line of a GPU's exporter means."""
    labels, value = apart(line)
    name = labels["__name__"]
    assert builtin().of_gpus[name].matches(labels)
    where = gpu_location(labels)
    assert where is not None
    sample = pl.DataFrame([(name, *where, "", at(0), value)], schema=SAMPLES, orient="row")
    row = in_base_units(sample).row(0, named=True)
    return row["column"], *where, row["value"]


DCGM = 'UUID="GPU-6ad7ea5e",pci_bus_id="00000000:0F:00.0",device="nvidia0",modelName="NVIDIA H100 80GB HBM3"'
DRIVER = 'DCGM_FI_DRIVER_VERSION="570.86.15"'


@pytest.mark.parametrize(
    ("line", "reported"),
    [
        # dcgm-exporter 4.5: Hostname; main since May 2026: hostname.
        (
            f'DCGM_FI_DEV_GPU_UTIL{{gpu="0",{DCGM},Hostname="n1.example",{DRIVER}}} 97',
            ("gpu_util", "n1", "0", "", 0.97),
        ),
        (f'DCGM_FI_DEV_GPU_UTIL{{gpu="0",{DCGM},hostname="n1",{DRIVER}}} 97', ("gpu_util", "n1", "0", "", 0.97)),
        (
            f'DCGM_FI_DEV_GPU_UTIL{{gpu="0",{DCGM},hostname="n1",{DRIVER},hpc_job="4711"}} 97',
            ("gpu_util", "n1", "0", "", 0.97),
        ),
        (
            f'DCGM_FI_PROF_GR_ENGINE_ACTIVE{{gpu="0",{DCGM},GPU_I_PROFILE="1g.10gb",GPU_I_ID="7",Hostname="n1"}} 0.5',
            ("gr_engine_active", "n1", "0", "7", 0.5),
        ),
        (
            f'DCGM_FI_PROF_PIPE_TENSOR_ACTIVE{{gpu="0",{DCGM},Hostname="n1"}} 0.452301',
            ("tensor_active", "n1", "0", "", 0.452301),
        ),
        (f'DCGM_FI_PROF_SM_ACTIVE{{gpu="0",{DCGM},Hostname="n1"}} 0.9', ("sm_active", "n1", "0", "", 0.9)),
        (f'DCGM_FI_PROF_DRAM_ACTIVE{{gpu="0",{DCGM},Hostname="n1"}} 0.3', ("dram_active", "n1", "0", "", 0.3)),
        (f'DCGM_FI_DEV_FB_USED{{gpu="0",{DCGM},Hostname="n1"}} 1024', ("memory_used_bytes", "n1", "0", "", 2.0**30)),
        (f'DCGM_FI_DEV_POWER_USAGE{{gpu="0",{DCGM},Hostname="n1"}} 689.713', ("power_w", "n1", "0", "", 689.713)),
        (f'DCGM_FI_DEV_GPU_TEMP{{gpu="0",{DCGM},Hostname="n1"}} 61', ("temperature_c", "n1", "0", "", 61.0)),
        (f'DCGM_FI_DEV_SM_CLOCK{{gpu="0",{DCGM},Hostname="n1"}} 1980', ("sm_clock_hz", "n1", "0", "", 1.98e9)),
        # DCGM's newer names.
        ('DCGM_FI_DEV_GPU_UTIL_RATIO{gpu="0",hostname="n1"} 0.97', ("gpu_util", "n1", "0", "", 0.97)),
        ('DCGM_FI_PROF_TENSOR_UTIL_RATIO{gpu="0",hostname="n1"} 0.25', ("tensor_active", "n1", "0", "", 0.25)),
        ('DCGM_FI_DEV_BOARD_POWER_WATTS{gpu="0",hostname="n1"} 700', ("power_w", "n1", "0", "", 700.0)),
        ('DCGM_FI_DEV_GPU_TEMP_CELSIUS{gpu="0",hostname="n1"} 61', ("temperature_c", "n1", "0", "", 61.0)),
        ('DCGM_FI_DEV_SM_CLOCK_HERTZ{gpu="0",hostname="n1"} 1980000000', ("sm_clock_hz", "n1", "0", "", 1.98e9)),
        # On Kubernetes.
        (
            'DCGM_FI_DEV_GPU_UTIL{gpu="3",Hostname="n1",instance="10.4.2.7:9400",pod="dcgm-exporter-x7k2q",'
            'exported_namespace="ml",exported_pod="train-0",exported_container="main"} 50',
            ("gpu_util", "n1", "3", "", 0.5),
        ),
        # Moneo, and DCGM's own exporter.
        (
            'dcgm_gpu_utilization{gpu_id="2",gpu_uuid="GPU-6a",job_id="None",instance="n1:8000"} 97.0',
            ("gpu_util", "n1", "2", "", 0.97),
        ),
        (
            'dcgm_tensor_active{gpu_id="2",gpu_uuid="GPU-6a",instance="n1:8000"} 0.25',
            ("tensor_active", "n1", "2", "", 0.25),
        ),
        (
            'dcgm_fb_used{gpu_id="2",gpu_uuid="GPU-6a",instance="n1:8000"} 1.0',
            ("memory_used_bytes", "n1", "2", "", 2.0**20),
        ),
        # jobstats: the index beside the minor number, milliwatts, and percents that are ratios.
        (
            'nvidia_gpu_duty_cycle{GPU_I_ID="",instance="n1:9445",jobid="47",minor_number="2",name="NVIDIA A100",'
            'ordinal="3",userid="1000",uuid="GPU-6a"} 100',
            ("gpu_util", "n1", "3", "", 1.0),
        ),
        (
            'nvidia_gpu_power_usage_milliwatts{instance="n1:9445",minor_number="2",uuid="GPU-6a"} 68900',
            ("power_w", "n1", "2", "", 68.9),
        ),
        (
            'nvidia_gpu_any_tensor_util_percent{instance="n1:9445",ordinal="3",uuid="GPU-6a"} 0.41',
            ("tensor_active", "n1", "3", "", 0.41),
        ),
        ('nvidia_gpu_memory_used_bytes{instance="n1:9445",ordinal="3"} 1e9', ("memory_used_bytes", "n1", "3", "", 1e9)),
        ('nvidia_gpu_clock{instance="n1:9445",ordinal="3",type="sm"} 1410', ("sm_clock_hz", "n1", "3", "", 1.41e9)),
        # nvidia-smi's exporter tells the UUID alone, and cuts it.
        ('nvidia_smi_utilization_gpu_ratio{instance="n1:9835",uuid="6ad7"} 0.5', ("gpu_util", "n1", "6ad7", "", 0.5)),
        # AMD.
        ('rocm_utilization_percentage{card="5",instance="n1:8001"} 88', ("gpu_util", "n1", "5", "", 0.88)),
        (
            'gpu_gfx_activity{card_model="x",gpu_id="5",hostname="n1",serial_number="69",instance="10.0.0.3:5000"} 88',
            ("gpu_util", "n1", "5", "", 0.88),
        ),
        ('amd_gpu_package_power{gpu_id="5",hostname="n1",serial_number="6"} 742', ("power_w", "n1", "5", "", 742.0)),
        ('gpu_power_usage{gpu_id="5",hostname="n1",serial_number="6"} 691', ("power_w", "n1", "5", "", 691.0)),
        (
            'gpu_used_vram{gpu_id="5",hostname="n1",serial_number="6"} 1000',
            ("memory_used_bytes", "n1", "5", "", 1048576000.0),
        ),
    ],
)
def test_a_line_of_a_gpus_exporter_is_a_value_of_a_column(
    line: str, reported: tuple[str, str, str, str, float | None]
) -> None:
    *where, value = of_gpu(line)
    assert where == list(reported[:-1])
    assert value == pytest.approx(reported[-1])


@pytest.mark.parametrize(
    ("line", "reported"),
    [
        ('node_cpu_seconds_total{cpu="0",mode="idle"} 9', [("cpu_busy", "")]),
        ('node_cpu_seconds_total{cpu="0",mode="iowait"} 9', [("cpu_iowait", "")]),
        ('node_cpu_seconds_total{cpu="0",mode="user"} 9', []),
        ("node_load1 9", [("load1", "")]),
        ("node_memory_MemTotal_bytes 9", [("memory_total_bytes", "")]),
        ("node_memory_MemAvailable_bytes 9", [("memory_available_bytes", "")]),
        ("node_vmstat_oom_kill 9", [("oom_kills_per_s", "")]),
        ("node_pressure_io_stalled_seconds_total 9", [("io_stalled", "")]),
        (
            'node_infiniband_port_data_received_bytes_total{device="mlx5_0",port="1"} 9',
            [("ib_received_bytes_per_s", "mlx5_0/1")],
        ),
        ('node_infiniband_link_downed_total{device="mlx5_0",port="1"} 9', [("ib_link_downed_per_s", "mlx5_0/1")]),
        (
            'node_infiniband_port_transmit_wait_total{device="mlx5_0",port="2"} 9',
            [("ib_transmit_wait_per_s", "mlx5_0/2")],
        ),
        ('node_infiniband_state_id{device="mlx5_0",port="1"} 9', [("ib_state", "mlx5_0/1")]),
        (
            'node_infiniband_rate_bytes_per_second{device="mlx5_0",port="1"} 9',
            [("ib_link_rate_bytes_per_s", "mlx5_0/1")],
        ),
        ('node_network_receive_bytes_total{device="eth0"} 9', [("net_received_bytes_per_s", "eth0")]),
        ('node_network_transmit_drop_total{device="bond0"} 9', [("net_transmit_drops_per_s", "bond0")]),
        ('node_network_receive_bytes_total{device="lo"} 9', []),
        ('node_network_receive_bytes_total{device="veth12ab"} 9', []),
        ('node_network_receive_bytes_total{device="enp1s0"} 9', [("net_received_bytes_per_s", "enp1s0")]),
        ('node_amazonefa_tx_bytes{device="rdmap113s0",port="1"} 9', [("efa_transmitted_bytes_per_s", "rdmap113s0/1")]),
        (
            'node_amazonefa_rx_drops_total{device="rdmap113s0",port="1"} 9',
            [("efa_receive_drops_per_s", "rdmap113s0/1")],
        ),
        ('node_disk_read_bytes_total{device="nvme0n1"} 9', [("disk_read_bytes_per_s", "nvme0n1")]),
        ('node_disk_io_time_seconds_total{device="sda"} 9', [("disk_busy", "sda")]),
        ('node_disk_io_time_seconds_total{device="sda1"} 9', []),
        ('node_disk_io_time_seconds_total{device="nvme0n1p2"} 9', []),
        ('node_disk_io_time_seconds_total{device="dm-0"} 9', []),
        (
            'node_filesystem_avail_bytes{device="/dev/sda1",device_error="",fstype="ext4",mountpoint="/"} 9',
            [("fs_available_bytes", "/")],
        ),
        (
            'node_filesystem_readonly{device="10.0.0.9:/scratch",fstype="nfs4",mountpoint="/scratch"} 1',
            [("fs_readonly", "/scratch")],
        ),
        ('node_filesystem_avail_bytes{device="tmpfs",fstype="tmpfs",mountpoint="/tmp"} 9', []),
        ('node_filesystem_avail_bytes{device="shm",fstype="xfs",mountpoint="/var/lib/kubelet/pods/x"} 9', []),
        (
            'node_nfs_requests_total{method="GetAttr",proto="4"} 9',
            [("nfs_metadata_operations_per_s", ""), ("nfs_operations_per_s", "")],
        ),
        (
            'node_nfs_requests_total{method="Read",proto="3"} 9',
            [("nfs_operations_per_s", ""), ("nfs_read_operations_per_s", "")],
        ),
        (
            'node_nfs_requests_total{method="ReadDirPlus",proto="3"} 9',
            [("nfs_metadata_operations_per_s", ""), ("nfs_operations_per_s", "")],
        ),
        ("node_nfs_rpc_retransmissions_total 9", [("nfs_retransmissions_per_s", "")]),
        (
            'node_mountstats_nfs_operations_requests_total{export="10.0.0.9:/scratch",mountaddr="10.0.0.9",'
            'operation="WRITE",protocol="tcp"} 9',
            [("fs_operations_per_s", "10.0.0.9:/scratch"), ("fs_write_operations_per_s", "10.0.0.9:/scratch")],
        ),
        (
            'node_mountstats_nfs_operations_requests_total{export="f:/x",operation="GETATTR",protocol="tcp"} 9',
            [("fs_metadata_operations_per_s", "f:/x"), ("fs_operations_per_s", "f:/x")],
        ),
        (
            'node_mountstats_nfs_operations_response_time_seconds_total{export="f:/x",operation="READ"} 9',
            [("fs_response_s_per_s", "f:/x")],
        ),
        (
            'node_mountstats_nfs_total_read_bytes_total{export="f:/x",protocol="tcp"} 9',
            [("fs_read_bytes_per_s", "f:/x")],
        ),
        (
            'lustre_read_bytes_total{component="client",target="scratch-ffff88105db50000"} 9',
            [("fs_read_bytes_per_s", "scratch")],
        ),
        ('lustre_write_samples_total{client="scratch-ffff88105db50000"} 9', [("fs_write_operations_per_s", "scratch")]),
        ('lustre_read_bytes_total{component="ost",target="scratch-OST0000"} 9', []),
        ('lustre_read_bytes_total{ost="scratch-OST0000"} 9', []),
        (
            'gpfs_perf_operations_total{fs="project",operation="reads"} 9',
            [("fs_operations_per_s", "project"), ("fs_read_operations_per_s", "project")],
        ),
    ],
)
def test_exporter_line_maps_to_a_metric_device_and_value(line: str, reported: list[tuple[str, str]]) -> None:
    result = meant(line)
    assert [(fills.removeprefix("node_samples."), device) for fills, device, _ in result] == reported
    assert {value for *_, value in result} <= {apart(line)[1]}


@pytest.mark.parametrize(
    ("line", "reported"),
    [
        # vpenso, SUNK
        ("slurm_nodes_alloc 9", [("nodes", "allocated")]),
        ("slurm_nodes_mix 9", [("nodes", "mixed")]),
        ("slurm_nodes_drain 9", [("nodes", "drained")]),
        ('slurm_nodes_idle{active_feature_set="",partition="main"} 9', []),
        ("slurm_nodes_not_responding 9", [("nodes", "not_responding")]),
        ("slurm_gpus_alloc 9", [("gpus_allocated", "")]),
        ("slurm_gpus_total 9", [("gpus", "")]),
        ("slurm_queue_running 9", [("jobs", "running")]),
        ("slurm_queue_node_fail 9", [("jobs", "node_fail")]),
        ('slurm_node_gpu_alloc{node="n1",status="mixed"} 4', [("gpus_allocated", "")]),
        ('slurm_partition_gpu_alloc{partition="main"} 9', [("gpus_allocated_in_partition", "main")]),
        # Slinky: gauges that are called totals
        ("slurm_nodes_total 9", [("nodes", "")]),
        ("slurm_nodes_mixed_total 9", [("nodes", "mixed")]),
        ("slurm_jobs_pending_total 9", [("jobs", "pending")]),
        ("slurm_jobs_outofmemory_total 9", [("jobs", "out_of_memory")]),
        ('slurm_partition_jobs_running_total{partition="main"} 9', [("jobs_running_in_partition", "main")]),
        # slurmctld since 25.11
        ("slurm_nodes 9", [("nodes", "")]),
        ("slurm_nodes_draining 9", [("nodes", "draining")]),
        ("slurm_nodes_noresp 9", [("nodes", "not_responding")]),
        ("slurm_jobs_node_failed 9", [("jobs", "node_fail")]),
        ("slurm_jobs_gpus_alloc 9", [("gpus_allocated", "")]),
        ('slurm_node_gpus{node="n1"} 8', [("gpus", "")]),
        ('slurm_partition_jobs_gpus_alloc{partition="main"} 9', [("gpus_allocated_in_partition", "main")]),
        ('slurm_partition_gpus{partition="main"} 9', [("gpus_in_partition", "main")]),
        # soperator
        (
            'slurm_node_info{node_name="worker-0",instance_id="x",state_base="MIXED",state_is_drain="true",'
            'state_is_maintenance="false",state_is_reserved="false",address="10.0.0.3"} 1',
            [("nodes", ""), ("nodes", "drained"), ("nodes", "mixed")],
        ),
        (
            'slurm_job_info{job_id="7",job_state="RUNNING",job_state_reason="None",slurm_partition="main"} 1',
            [("jobs", "running")],
        ),
        # rivosinc
        ('slurm_node_count_per_state{state="allocated"} 9', [("nodes", "allocated")]),
        ('slurm_node_count_per_state{state="down*"} 9', [("nodes", "down"), ("nodes", "not_responding")]),
        ('slurm_node_count_per_state{state="idle~"} 9', [("nodes", "powered_down")]),
        (
            'slurm_partition_job_state_total{partition="main",state="RUNNING"} 9',
            [("jobs", "running"), ("jobs_running_in_partition", "main")],
        ),
    ],
)
def test_a_line_of_slurms_exporters_is_a_count_of_the_cluster(line: str, reported: list[tuple[str, str]]) -> None:
    result = meant(line)
    assert [(fills.removeprefix("cluster_samples."), device) for fills, device, _ in result] == reported
    counters = {metric.column for metric in builtin().of("cluster_samples") if metric.counter}
    assert counters == {"rpcs_per_s", "rpc_s_per_s"}


def test_built_in_mapping_has_no_repeats_and_fills_gpu_columns() -> None:
    reported = Counter(
        (metric.name, metric.fills, metric.where, metric.where_not, metric.device_as) for metric in builtin().metrics
    )
    assert [entry for entry, count in reported.items() if count > 1] == []
    assert {metric.column for metric in builtin().of("gpu_samples")} == set(GPU_COLUMNS)
    assert set(GPU_COLUMNS) == GPU_SAMPLES.keys() - {"cluster", "node", "gpu", "ts", "interval_s"}


SHARES = {"cpu_busy", "cpu_iowait", "disk_busy"} | {
    *("cpu_waiting", "io_waiting", "io_stalled", "memory_waiting", "memory_stalled")
}
"""Rates that are shares: seconds per second."""


EXPORTED_AS_RATES = {f"{name}_bytes_per_s" for name in ("ib_link_rate", "nvlink_received", "nvlink_transmitted")}
"""Rates that exporters have as gauges: of ports, and of DCGM's profiler."""


def test_rates_of_counters_are_called_so() -> None:
    for metric in builtin().of("node_samples"):
        rate = metric.column.endswith("_per_s") and metric.column not in EXPORTED_AS_RATES
        assert metric.counter == (rate or metric.column in SHARES), metric.name


def test_synonyms_are_combined_the_same_way_in_one_unit() -> None:
    """What `ib_...` of two exporters say can be compared; so can power in watts and milliwatts."""
    for table in ("gpu_samples", "node_samples"):
        for column in {metric.read_as for metric in builtin().of(table)}:
            of_column = [metric for metric in builtin().of(table) if metric.read_as == column]
            assert len({(metric.counter, metric.combine, bool(metric.device)) for metric in of_column}) == 1, column
    for metric in builtin().of("gpu_samples"):
        if metric.column in GPU_RATIOS:
            assert metric.high is not None
            assert metric.high * metric.scale == pytest.approx(1)


def test_names_are_listed_once_by_table() -> None:
    names = builtin().names("node_samples")
    assert len(set(names)) == len(names)
    assert "node_load1" in names
    assert "DCGM_FI_DEV_GPU_UTIL" not in names
    assert set(builtin().names()) == {metric.name for metric in builtin().metrics}


@pytest.mark.parametrize(
    ("entry", "output"),
    [
        ("node_load5", "mine, entry 1: not a table; write [[prometheus.metric]] and its keys below"),
        ({}, "mine, entry 1: name is missing; write a metric's name as the exporter has it"),
        ({"name": "my_metric"}, 'mine, entry 1 (my_metric): fills is missing; write "TABLE.NAME"'),
        ({**HEAD, "nmae": 1}, "mine, entry 1 (my_metric): nmae: no such key; the keys are name, fills, counter, scale"),
        ({**HEAD, "name": "gcm.gpu.0.util"}, "name is 'gcm.gpu.0.util'; write a metric's name"),
        ({**HEAD, "name": 'x"}) or vector(1'}, "name is 'x\"}) or vector(1'; write a metric's name"),
        (
            {**HEAD, "fills": "steps.loss"},
            "fills is 'steps.loss'; write \"TABLE.NAME\" in small letters, with TABLE one",
        ),
        ({**HEAD, "fills": "node_samples"}, "fills is 'node_samples'; write"),
        (
            {**HEAD, "fills": "gpu_samples.fan_speed"},
            "gpu_samples has no column fan_speed; it has gpu_util, gr_engine_act",
        ),
        ({**HEAD, "counter": "yes"}, "counter is 'yes'; write true or false"),
        ({**HEAD, "scale": 0}, "scale is 0; write a number above 0"),
        ({**HEAD, "scale": True}, "scale is True; write a number above 0"),
        ({**HEAD, "scale": math.nan}, "scale is nan; write a number above 0"),
        ({**HEAD, "scale": 10**400}, "scale is 1000000"),
        ({**HEAD, "low": "0"}, "low is '0'; write a number"),
        ({**HEAD, "low": 5, "high": 5}, "low (5) must be less than high (5)"),
        ({**HEAD, "counter": True, "high": 5}, "high is not used for counters; leave it out"),
        ({**HEAD, "where": "READ"}, "where is 'READ'; write { LABEL = \"regular expression\" }"),
        ({**HEAD, "where": {"a-b": "x"}}, "where names the label 'a-b'; write"),
        ({**HEAD, "where": {"__name__": "x"}}, "where names the label '__name__'; write"),
        ({**HEAD, "where": {"a": 5}}, "where (a) is 5; write"),
        ({**HEAD, "where": {"a": "("}}, "where (a) is '(', which is no regular expression: missing )"),
        (
            {**HEAD, "where_not": {"a": "(?=x)"}},
            "where_not (a) is '(?=x)', which Python supports, but no server",
        ),
        ({**HEAD, "where": {"a": "x" * 3000}}, "where (a) is 'xxxx"),
        ({**HEAD, "device": "mountpoint"}, 'device is \'mountpoint\'; write a list of labels: ["device", "port"]'),
        ({**HEAD, "device": ["a b"]}, "device names the label 'a b'; write a list"),
        ({**HEAD, "device_as": ""}, "device_as is ''; write the device's name"),
        ({**HEAD, "device": ["a"], "device_as": "b"}, "device_as is the device already; leave it or device"),
        ({**HEAD, "device": ["a"], "device_pattern": "x+"}, "device_pattern is 'x+', which has no group; write"),
        (
            {**HEAD, "device_pattern": "(x)"},
            "device_pattern is applied to the labels in device, and there are none",
        ),
        ({**HEAD, "combine": "median"}, "combine is 'median'; write one of max, sum, mean"),
        ({**HEAD, "combine": ["max"]}, "combine is ['max']; write one of"),
        ({**HEAD, "one_minus": 1}, "one_minus is 1; write true or false"),
        (
            {"name": "x", "fills": "gpu_samples.power_w", "device": ["card"]},
            "device has no use in gpu_samples, whose rows are of GPUs; leave it out",
        ),
        ({"name": "x", "fills": "gpu_samples.power_w", "counter": True, "low": 1}, "low is not used for counters"),
        ({"name": "x", "fills": "gpu_samples.memory_used_bytes"}, 'by "sum"; write combine = "sum"'),
        (
            {"name": "DCGM_FI_DEV_GPU_UTIL", "fills": "gpu_samples.sm_active"},
            "the name fills gpu_samples.gpu_util already, and can fill only one column of gpu_samples; write fills",
        ),
    ],
)
def test_wrong_entry_is_reported_with_place_fault_and_remedy(entry: object, output: str) -> None:
    with pytest.raises(MappingError, match=re.escape(output)):
        builtin().and_more([entry], origin="mine")


def test_duplicate_entries_are_reported() -> None:
    with pytest.raises(MappingError, match=r"mine, entry 3 \(my_metric\): the same as entry 1; leave one"):
        builtin().and_more([HEAD, {**HEAD, "where": {"a": "b"}}, {**HEAD, "scale": 2}], origin="mine")


def test_own_entry_replaces_the_built_in_one_of_name_and_target() -> None:
    name, fills = "node_nfs_requests_total", "node_samples.nfs_operations_per_s"
    mine = builtin().and_more([{"name": name, "fills": fills, "counter": True, "where": {"proto": "4"}}], origin="mine")
    (result,) = (metric for metric in mine.metrics if (metric.name, metric.fills) == (name, fills))
    assert result.where == (("proto", "4"),)
    assert len(mine.metrics) == len(builtin().metrics)


def test_nothing_more_is_the_same_mapping() -> None:
    assert builtin().and_more([], origin="mine") == builtin()


def test_where_and_where_not_become_escaped_promql_matchers() -> None:
    metric = parse_metric({**HEAD, "where": {"a": r'x"\d'}, "where_not": {"b": "y|z"}}, origin="mine")
    assert metric.matchers() == ['a=~"x\\"\\\\d"', 'b!~"y|z"']


KEYS = ["name", "fills", "counter", "scale", "low", "high", "where", "where_not", "device", "device_as"]
KEYS += ["device_pattern", "combine", "one_minus"]
SCALARS = st.one_of(st.booleans(), st.integers(), st.floats(), st.text(max_size=12), st.none())
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
)
ENTRIES = st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=6), VALUES, max_size=6)
RIGHT = st.fixed_dictionaries(
    {
        "name": st.from_regex(r"[a-z_:]+", fullmatch=True),
        "fills": st.sampled_from(["node_samples.x", "gpu_samples.power_w"]),
    },
    optional={
        "where": st.dictionaries(st.from_regex(r"[a-z]{1,4}", fullmatch=True), st.text(max_size=8), max_size=2),
        "device": st.lists(st.from_regex(r"[a-z]{1,4}", fullmatch=True), max_size=2),
        "device_pattern": st.text(max_size=8).map(lambda text: f"({text})"),
        "scale": st.floats(),
        "high": st.floats(),
        "counter": st.booleans(),
    },
)


@given(st.one_of(VALUES, ENTRIES, RIGHT), st.dictionaries(st.text("abcd", max_size=3), st.text(max_size=4), max_size=3))
def test_any_entry_is_a_metric_or_an_error_with_its_origin(entry: object, labels: dict[str, str]) -> None:
    try:
        metric = parse_metric(entry, origin="mine, entry 1")
    except MappingError as error:
        output = str(error)
    else:
        output = "mine, entry 1"
        assert metric.matches(labels) in {True, False}
        assert isinstance(metric.device_of(labels), str)
        assert Mapping((metric,)).and_more([entry], origin="again").metrics == (metric,)
    assert output.startswith("mine, entry 1")
    assert "\n" not in output


CAPTURED = (Path(__file__).parents[3] / "data" / "prometheus" / "node-exporter-1.5.txt").read_text().splitlines()
"""What node_exporter 1.5.0 said of /proc and /sys of our own making: one port, one NFS mount, two disks, two CPUs."""

TOLD = {
    ("cpu_busy", ""): 4.0,  # seconds idle, of either CPU
    ("cpu_iowait", ""): 0.25,
    ("cpu_waiting", ""): 14.036781,
    ("io_waiting", ""): 14.036781,
    ("io_stalled", ""): 7.036781,
    ("memory_waiting", ""): 14.036781,
    ("memory_stalled", ""): 7.036781,
    ("load1", ""): 12.5,
    ("memory_total_bytes", ""): 2113544192 * 1024,
    ("memory_available_bytes", ""): 1500000000 * 1024,
    ("oom_kills_per_s", ""): 4,
    ("ib_received_bytes_per_s", "mlx5_0/1"): 4000,  # the port counts words of four bytes
    ("ib_transmitted_bytes_per_s", "mlx5_0/1"): 8000,
    ("ib_received_packets_per_s", "mlx5_0/1"): 300,
    ("ib_transmitted_packets_per_s", "mlx5_0/1"): 400,
    ("ib_link_downed_per_s", "mlx5_0/1"): 2,
    ("ib_link_error_recovery_per_s", "mlx5_0/1"): 1,
    ("ib_symbol_errors_per_s", "mlx5_0/1"): 7,
    ("ib_receive_errors_per_s", "mlx5_0/1"): 3,
    ("ib_transmit_discards_per_s", "mlx5_0/1"): 5,
    ("ib_receive_constraint_errors_per_s", "mlx5_0/1"): 0,
    ("ib_transmit_constraint_errors_per_s", "mlx5_0/1"): 0,
    ("ib_transmit_wait_per_s", "mlx5_0/1"): 99,
    ("ib_state", "mlx5_0/1"): 4,
    ("ib_physical_state", "mlx5_0/1"): 5,
    ("ib_link_rate_bytes_per_s", "mlx5_0/1"): 400e9 / 8,
    ("disk_read_bytes_per_s", "nvme0n1"): 8000 * 512,
    ("disk_written_bytes_per_s", "nvme0n1"): 32000 * 512,
    ("disk_reads_per_s", "nvme0n1"): 1000,
    ("disk_writes_per_s", "nvme0n1"): 2000,
    ("disk_busy", "nvme0n1"): 0.9,
    ("disk_read_waiting_s_per_s", "nvme0n1"): 0.5,
    ("disk_write_waiting_s_per_s", "nvme0n1"): 0.7,
    ("fs_operations_per_s", "10.0.0.9:/scratch"): 1298 + 40 + 700,
    ("fs_read_operations_per_s", "10.0.0.9:/scratch"): 1298,
    ("fs_write_operations_per_s", "10.0.0.9:/scratch"): 40,
    ("fs_metadata_operations_per_s", "10.0.0.9:/scratch"): 700,
    ("fs_transmissions_per_s", "10.0.0.9:/scratch"): 1310 + 40 + 700 + 5,
    ("fs_timeouts_per_s", "10.0.0.9:/scratch"): 1,
    ("fs_queue_s_per_s", "10.0.0.9:/scratch"): 0.009,
    ("fs_response_s_per_s", "10.0.0.9:/scratch"): 79.386 + 0.2 + 0.09,
    ("fs_request_s_per_s", "10.0.0.9:/scratch"): 79.407 + 0.3 + 0.095,
    ("fs_read_bytes_per_s", "10.0.0.9:/scratch"): 1210214218,
    ("fs_written_bytes_per_s", "10.0.0.9:/scratch"): 555000,
    ("nfs_rpcs_per_s", ""): 1218785755,
    ("nfs_retransmissions_per_s", ""): 374636,
    ("nfs_read_operations_per_s", ""): 47747 + 2,  # of versions 3 and 4
    ("nfs_write_operations_per_s", ""): 7981 + 3,
}
"""What the mapping makes of it, counters as they stand."""


def test_captured_exporter_text_maps_to_its_known_values() -> None:
    result: dict[tuple[str, str], list[float]] = {}
    for line in CAPTURED:
        labels, value = apart(line)
        for metric in builtin().of("node_samples"):
            if metric.name == labels["__name__"] and metric.matches(labels):
                result.setdefault((metric.column, metric.device_of(labels)), []).append(value * metric.scale)
    combine = {metric.column: metric.combine for metric in builtin().of("node_samples")}
    in_one: dict[str, Callable[[list[float]], float]] = {"sum": sum, "max": max, "mean": mean}
    values = {key: in_one[combine[key[0]]](values) for key, values in result.items()}
    assert {key: values.get(key) for key in TOLD} == pytest.approx(TOLD)
    assert {device for column, device in values if column.startswith("disk")} == {"nvme0n1", "sda"}
    assert {device for column, device in values if column.startswith("net")} == {"eth0"}
