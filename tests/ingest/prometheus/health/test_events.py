"""Events of health in raw readings: what is one, when, of what, and how often it is told."""

from __future__ import annotations

from itertools import pairwise

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.prometheus.client.raw import GONE_S
from ingest.prometheus.health import events as health
from ingest.prometheus.health.rules import builtin
from ingest.tables import HEALTH_EVENTS, empty
from tests.support.slurm.parsing import at
from tests.support.telemetry.health_readings import Series, between, every, of_gpu, of_node, rows, samples, series

DBE, FAILURE = "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", "DCGM_FI_DEV_ROW_REMAP_FAILURE"
REASONS, VIOLATION = "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", "DCGM_FI_DEV_THERMAL_VIOLATION"
WIDTH, GENERATION = "DCGM_FI_DEV_PCIE_LINK_WIDTH", "DCGM_FI_DEV_PCIE_LINK_GEN"
DOWNED, SYMBOLS = "node_infiniband_link_downed_total", "node_infiniband_symbol_error_total"
STATE, RATE = "node_infiniband_state_id", "node_infiniband_rate_bytes_per_second"
MOUNTED, CONDITION = "node_filesystem_device_error", "kube_node_status_condition"
PORT = {"device": "mlx5_0", "port": "1"}


def events_of(*those: Series) -> list[tuple[object, ...]]:
    return rows(health.from_raw([samples(*those)], cluster="c").events)


def steps(*values: tuple[float, float, float]) -> list[tuple[float, float]]:
    """Readings every 15 s from one second to before another, with a value."""
    return [point for begin, end, value in values for point in every(15, begin, end, value)]


# --- links of GPUs


def test_pcie_link_that_gets_narrower_is_an_event() -> None:
    link = of_gpu(WIDTH, steps((0, 600, 16), (600, 1200, 8), (1200, 9000, 8)))
    assert events_of(link) == [(600, "n1/0", "pcie link_width", "warning")]
    assert events_of(of_gpu(WIDTH, steps((0, 9000, 16)))) == []


def test_pcie_link_narrow_at_first_sight_is_information() -> None:
    assert events_of(of_gpu(WIDTH, steps((0, 9000, 8)))) == [(0, "n1/0", "pcie link_width", "info!")]


def test_pcie_generation_that_flaps_is_reported_seldom() -> None:
    idle = steps(*((begin, begin + 300, 1 if begin % 600 else 5) for begin in range(0, 7200, 300)))
    found = events_of(of_gpu(GENERATION, idle))
    assert {row[2:] for row in found} == {("pcie link_generation", "info")}
    assert [row[0] for row in found] == [300, 2100, 3900, 5700]  # of 12 times
    assert events_of(of_gpu(GENERATION, steps((0, 7200, 4)))) == []


# --- counters


def test_a_counter_that_grows_is_an_event_with_how_much() -> None:
    result = health.from_raw([samples(of_gpu(DBE, steps((0, 60, 0), (60, 120, 2))))], cluster="c").events
    assert rows(result) == [(60, "n1/0", "ecc dbe", "critical")]
    row = result.row(0, named=True)
    assert (row["value"], row["class"], row["source"], row["evidence"]) == (2, "HW", "prometheus.health", "telemetry")
    assert row["detail"] == "uncorrectable ECC errors (+2)"
    assert row["action"].startswith("reset the GPU")


def test_a_counter_that_restarts_counts_from_zero() -> None:
    assert events_of(of_gpu(DBE, steps((0, 60, 3), (60, 120, 0), (120, 180, 1), (600, 660, 1))))[1:] == [
        (120, "n1/0", "ecc dbe", "critical")
    ]
    assert [row[0] for row in events_of(of_gpu(DBE, steps((0, 60, 5), (60, 120, 2))))] == [0, 60]


def test_what_links_counted_since_a_restart_is_no_event() -> None:
    assert events_of(of_node(DOWNED, steps((0, 60, 7), (400, 460, 1)), **PORT)) == []
    assert events_of(of_node(DOWNED, steps((0, 60, 7), (400, 460, 1), (460, 520, 2)), **PORT)) == [
        (460, "n1/mlx5_0/1", "ib link_downed", "critical")
    ]


@pytest.mark.parametrize(("gap", "events"), [(300, [360]), (301, [])])
def test_link_downs_counted_during_a_gap_may_be_the_boot(gap: int, events: list[int]) -> None:
    """A link that comes up with the machine counts, too."""
    assert [row[0] for row in events_of(of_node(DOWNED, [(60, 0), (60 + gap, 1), (75 + gap, 1)], **PORT))] == events


def test_counter_high_at_first_sight_is_information_where_useful() -> None:
    assert events_of(of_gpu(DBE, steps((0, 60, 3)))) == [(0, "n1/0", "ecc dbe", "info!")]
    assert events_of(of_node(DOWNED, steps((0, 60, 3)), **PORT)) == []


def test_large_burst_is_an_event_once_while_it_lasts() -> None:
    slow = [(float(second), second / 15) for second in range(0, 3000, 15)]
    assert events_of(of_node(SYMBOLS, slow, **PORT)) == []
    fast = [(float(second), 10.0 * second) for second in range(15, 3000, 15)]
    assert events_of(of_node(SYMBOLS, fast, **PORT)) == [(30, "n1/mlx5_0/1", "ib symbol_errors", "warning")]
    long = [(float(second), 10.0 * second) for second in range(15, 7300, 15)]
    assert [row[0] for row in events_of(of_node(SYMBOLS, long, **PORT))] == [30, 3615, 7215]


def test_each_uncorrectable_error_is_an_event() -> None:
    points = steps((0, 60, 0), (60, 120, 1), (120, 180, 2), (180, 240, 3))
    assert [row[0] for row in events_of(of_gpu(DBE, points))] == [60, 120, 180]


def test_counter_that_appears_with_its_first_count_began_at_zero() -> None:
    name = "DCGM_EXP_CLOCK_EVENTS_TOTAL"
    other = of_gpu(FAILURE, steps((0, 600, 0)))
    late = of_gpu(name, steps((300, 600, 2)), clock_event="hw_thermal")
    assert events_of(other, late) == [(300, "n1/0", "throttle hw_thermal", "warning")]
    assert events_of(of_gpu(name, steps((300, 600, 2)), clock_event="hw_thermal")) == []
    assert events_of(other, of_gpu(name, steps((300, 600, 2)), clock_event="power_cap")) == []


def test_gauge_absent_while_healthy_was_good_before_it_appears() -> None:
    watched = of_gpu(FAILURE, steps((0, 3000, 0)))
    links = of_gpu("DCGM_FI_DEV_GPU_NVLINK_ERRORS", steps((1200, 1800, 1), (1800, 3000, 2)))
    assert sorted(events_of(watched, links)) == [
        (1200, "n1/0", "nvlink recovery_required", "warning"),
        (1800, "n1/0", "nvlink fatal", "critical"),
    ]


def test_blank_values_are_none() -> None:
    blank = 9223372036854775792.0
    assert events_of(of_gpu(DBE, [(0, 0), (15, blank), (30, 2147483632), (45, float("nan")), (60, 0)])) == []


def test_values_below_nothing_are_none() -> None:
    assert events_of(of_gpu(DBE, steps((0, 60, -1), (60, 120, 0)))) == []
    assert events_of(of_gpu(REASONS, steps((0, 60, 1), (60, 120, -1)))) == []


def test_endless_growth_is_reported_in_words_as_well() -> None:
    result = health.from_raw([samples(of_node(SYMBOLS, steps((0, 60, 0), (60, 120, 2.0**70)), **PORT))], cluster="c")
    (detail,) = result.events["detail"]
    assert detail.startswith("a burst of InfiniBand symbol errors: mlx5_0/1 (+1.18059")


def test_a_node_exporters_large_numbers_are_not_blank() -> None:
    big = 2.0**48
    gone = of_node("node_filesystem_size_bytes", steps((0, 1200, big)), mountpoint="/scratch", fstype="lustre")
    assert events_of(gone, of_node(MOUNTED, steps((0, 3000, 0)), mountpoint="/", fstype="ext4")) == [
        (1185, "n1//scratch", "filesystem mount_lost", "critical")
    ]


# --- gauges


def test_a_sticky_gauge_is_one_event_however_long_it_stays() -> None:
    assert events_of(of_gpu(FAILURE, steps((0, 60, 0), (60, 9000, 1)))) == [
        (60, "n1/0", "row_remap failure", "critical")
    ]


def test_a_gauge_that_was_bad_when_first_seen_explains_nothing() -> None:
    assert events_of(of_gpu(FAILURE, steps((0, 600, 1)))) == [(0, "n1/0", "row_remap failure", "info!")]


def test_bits_of_a_mask_are_separate_events_except_idling() -> None:
    points = steps((0, 60, 1), (60, 120, 8 + 64), (120, 180, 64), (180, 240, 4))
    assert events_of(of_gpu(REASONS, points)) == [
        (60, "n1/0", "throttle hw_slowdown", "warning"),
        (60, "n1/0", "throttle hw_thermal", "warning"),
    ]


def test_flapping_throttling_is_one_event_per_half_hour() -> None:
    flapping = [(float(second), 32.0 * (second // 15 % 2)) for second in range(0, 4000, 15)]
    assert [row[0] for row in events_of(of_gpu(REASONS, flapping))] == [15, 1815, 3615]


def test_port_that_goes_down_is_an_event_and_an_unused_is_not() -> None:
    assert events_of(of_node(STATE, steps((0, 600, 1)), **PORT)) == []
    assert events_of(of_node(STATE, steps((0, 60, 4), (60, 120, 1)), **PORT)) == [
        (60, "n1/mlx5_0/1", "ib not_active", "warning")
    ]


def test_slower_link_is_an_event_and_a_faster_one_is_not() -> None:
    assert events_of(of_node(RATE, steps((0, 60, 5e10), (60, 120, 2.5e10), (120, 180, 5e10)), **PORT)) == [
        (60, "n1/mlx5_0/1", "ib slower", "warning")
    ]


def test_the_share_of_time_that_clocks_were_lowered_is_an_event() -> None:
    """In stretches of five minutes: a tenth of the second and third, and then nothing."""
    grown = [(second, 1e8 * min(max(second - 300, 0), 600)) for second in range(0, 1800, 15)]
    result = health.from_raw([samples(of_gpu(VIOLATION, grown))], cluster="c").events
    assert rows(result) == [(600, "n1/0", "throttle thermal", "warning")]
    assert result["value"].item() == pytest.approx(0.1)
    assert result["detail"].item() == "clocks were lowered for heat (10% of 300 s)"


def test_time_counted_in_a_gap_is_in_no_interval() -> None:
    assert events_of(of_gpu(VIOLATION, [(0, 0.0), (290, 0.0), (1000, 7e11), (1190, 7e11)])) == []


# --- what is gone


def test_mount_lost_while_the_node_reports_on_is_an_event() -> None:
    """Its time is that of the last reading."""
    root = of_node(MOUNTED, steps((0, 3000, 0)), mountpoint="/", fstype="xfs")
    lost = of_node(MOUNTED, steps((0, 1200, 0)), mountpoint="/scratch", fstype="lustre")
    assert events_of(root, lost) == [(1185, "n1//scratch", "filesystem mount_lost", "critical")]


@pytest.mark.parametrize(
    "labels",
    [
        {"mountpoint": "/run/user/1000", "fstype": "tmpfs"},
        {"mountpoint": "/home/joe", "fstype": "nfs4"},
        {"mountpoint": "/var/lib/kubelet/pods/1/volumes/x", "fstype": "nfs4"},
        {"mountpoint": "/mnt", "fstype": "overlay"},
        {"mountpoint": "/mnt/beeond", "fstype": "beegfs_nodev"},
        {"mountpoint": "/tmp/.mount_App1", "fstype": "fuse.App.AppImage"},
        {"mountpoint": "/scratch/joe/image", "fstype": "fuse.squashfuse_ll"},
        {"mountpoint": "/home/joe/elsewhere", "fstype": "fuse.sshfs"},
    ],
)
def test_mounts_that_come_and_go_are_no_events(labels: dict[str, str]) -> None:
    root = of_node(MOUNTED, steps((0, 3000, 0)), mountpoint="/", fstype="xfs")
    assert events_of(root, of_node(MOUNTED, steps((0, 1200, 0)), **labels)) == []


@pytest.mark.parametrize(
    ("mountpoint", "fstype"), [("/data", "fuse.juicefs"), ("/daos", "fuse.dfuse"), ("/home", "nfs4"), ("/tmp", "xfs")]
)
def test_mounts_of_the_machine_are_missed(mountpoint: str, fstype: str) -> None:
    root = of_node(MOUNTED, steps((0, 3000, 0)), mountpoint="/", fstype="xfs")
    lost = events_of(root, of_node(MOUNTED, steps((0, 1200, 0)), mountpoint=mountpoint, fstype=fstype))
    assert lost == [(1185, f"n1/{mountpoint}", "filesystem mount_lost", "critical")]


def test_a_node_that_is_gone_lost_no_mounts_and_no_gpus() -> None:
    mounts = [of_node(MOUNTED, steps((0, 1200, 0)), mountpoint=name, fstype="nfs") for name in ("/a", "/b")]
    gpus = [of_gpu(FAILURE, steps((0, 1200, 0)), gpu=gpu) for gpu in "01"]
    away = of_node(MOUNTED, steps((0, 3000, 0)), mountpoint="/", fstype="xfs", instance="n2:9100")
    assert events_of(*mounts, *gpus, away) == []


def test_a_collector_that_fails_lost_no_mounts() -> None:
    mounts = [of_node(MOUNTED, steps((0, 1200, 0)), mountpoint=name, fstype="nfs") for name in ("/a", "/b")]
    assert events_of(*mounts, of_node(DOWNED, steps((0, 3000, 0)), **PORT)) == []


def test_a_scrape_that_failed_is_no_loss() -> None:
    lost = of_node(MOUNTED, steps((0, 1200, 0), (1400, 3000, 0)), mountpoint="/a", fstype="nfs")
    assert events_of(lost, of_node(MOUNTED, steps((0, 3000, 0)), mountpoint="/", fstype="xfs")) == []


def test_a_mount_that_was_lost_and_is_back_was_lost() -> None:
    lost = of_node(MOUNTED, steps((0, 1200, 0), (1600, 3000, 0)), mountpoint="/a", fstype="nfs")
    root = of_node(MOUNTED, steps((0, 3000, 0)), mountpoint="/", fstype="xfs")
    assert events_of(lost, root) == [(1185, "n1//a", "filesystem mount_lost", "critical")]


def test_series_shown_only_while_bad_is_a_new_event_after_a_gap() -> None:
    other = series("problem_gauge", steps((0, 3000, 0)), node="n1", type="Disk", reason="None", instance="n1:1")
    bad = series(
        "problem_gauge", steps((900, 960, 1), (1500, 1560, 1)), node="n1", type="D", reason="x", instance="n1:1"
    )
    assert [row[0] for row in events_of(other, bad)] == [900, 1500]


def test_gpu_without_readings_while_others_have_them_is_warned() -> None:
    assert events_of(of_gpu(FAILURE, steps((0, 1200, 0))), of_gpu(FAILURE, steps((0, 3000, 0)), gpu="1")) == [
        (1185, "n1/0", "gpu lost", "warning")
    ]


def test_gpu_whose_series_is_relabelled_by_a_new_job_is_not_lost() -> None:
    first = of_gpu(FAILURE, steps((0, 1200, 0)), hpc_job="1")
    second = of_gpu(FAILURE, steps((1200, 3000, 0)), hpc_job="2")
    assert events_of(first, second, of_gpu(FAILURE, steps((0, 3000, 0)), gpu="1")) == []


# --- several series of one thing


def test_series_by_job_are_one_series() -> None:
    first = of_gpu(FAILURE, steps((0, 600, 0), (600, 900, 1)), hpc_job="1")
    both = of_gpu(FAILURE, steps((300, 600, 0), (600, 1800, 1)), hpc_job="2")
    idle = of_gpu(FAILURE, steps((1800, 2400, 1)))
    assert events_of(first, both, idle) == [(600, "n1/0", "row_remap failure", "critical")]


def test_stale_job_after_a_node_failure_repeats_no_event() -> None:
    """The node was away for ten minutes; what is wrong was wrong before."""
    points = steps((0, 600, 0), (600, 900, 1), (1500, 3000, 1))
    assert events_of(
        of_gpu(FAILURE, points, hpc_job="7"), of_gpu(DBE, steps((0, 900, 4), (1500, 3000, 4)), hpc_job="7")
    ) == [
        (0, "n1/0", "ecc dbe", "info!"),
        (600, "n1/0", "row_remap failure", "critical"),
    ]


def test_same_event_of_two_exporters_is_one() -> None:
    points = steps((0, 600, 0), (600, 900, 1))
    later = [(second + 8, value) for second, value in points]
    assert events_of(of_gpu(FAILURE, later), of_gpu(FAILURE, points, instance="n1:9401")) == [
        (600, "n1/0", "row_remap failure", "critical")
    ]


def test_new_exporter_reports_new_trouble_and_not_old() -> None:
    old = of_gpu(FAILURE, steps((0, 600, 0), (600, 1200, 1)))
    assert len(events_of(old, of_gpu(FAILURE, steps((900, 2400, 1)), instance="other:9400"))) == 1
    before = of_gpu(FAILURE, steps((0, 600, 0)))
    assert events_of(before, of_gpu(FAILURE, steps((660, 2400, 1)), instance="other:9400")) == [
        (660, "n1/0", "row_remap failure", "critical")
    ]


def test_a_counter_of_another_name_is_no_counter_to_compare_with() -> None:
    vol = of_gpu(DBE, steps((0, 1200, 0)))
    agg = of_gpu("DCGM_FI_DEV_ECC_DBE_AGG_TOTAL", steps((600, 1200, 5)))
    assert events_of(vol, agg) == [(600, "n1/0", "ecc dbe", "info!")]


# --- Kubernetes


def test_conditions_are_identified_by_name() -> None:
    def of(condition: str, status: str, points: list[tuple[float, float]]) -> Series:
        labels = {"node": "n1", "condition": condition, "status": status, "instance": "10.1.1.1:8080"}
        return series(CONDITION, points, **labels)

    assert events_of(
        of("Ready", "true", steps((0, 60, 1), (60, 120, 0), (120, 180, 1))),
        of("Ready", "unknown", steps((0, 60, 0), (60, 120, 1))),
        of("DiskPressure", "true", steps((0, 90, 0), (90, 120, 1))),
        of("MemoryPressure", "true", steps((0, 120, 0))),
        of("GpuHealthy", "true", steps((0, 60, 0), (60, 120, 1))),
        series("kube_node_spec_unschedulable", steps((0, 30, 0), (30, 60, 1)), node="n1"),
        series("problem_gauge", steps((0, 60, 0), (60, 120, 1)), node="n1", type="KernelDeadlock", reason="DockerHung"),
    ) == [
        (30, "n1", "condition Unschedulable", "info"),
        (60, "n1/DockerHung", "condition KernelDeadlock", "warning"),
        (60, "n1/Ready", "condition Ready", "critical"),
        (90, "n1/DiskPressure", "condition DiskPressure", "warning"),
    ]


def test_not_ready_while_the_exporter_moves_keeps_full_severity() -> None:
    labels = {"node": "n1", "condition": "Ready", "status": "true"}
    first = series(CONDITION, steps((0, 600, 1)), **labels, instance="10.1.1.1:8080")
    second = series(CONDITION, steps((660, 1200, 0)), **labels, instance="10.1.1.2:8080")
    third = series(CONDITION, steps((1230, 1800, 0)), **labels, instance="10.1.1.3:8080")
    assert events_of(first, second, third) == [(660, "n1/Ready", "condition Ready", "critical")]


def test_a_watch_without_a_name_is_that_of_all() -> None:
    name = "DCGM_EXP_GPU_HEALTH_STATUS"
    fine = of_gpu(name, steps((0, 600, 0)), health_watch="MEM", health_error_code="DCGM_FR_OK")
    failed = of_gpu(name, steps((600, 900, 20)), health_watch="MEM", health_error_code="DCGM_FR_VOLATILE_DBE_DETECTED")
    whole = of_gpu(name, steps((0, 600, 10), (600, 900, 20)))
    assert events_of(fine, failed, whole) == [
        (600, "n1/0", "gpu_health ALL", "warning"),
        (600, "n1/0", "gpu_health MEM", "warning"),
    ]


def test_the_nodes_own_label_beats_that_of_the_exporters_node() -> None:
    labels = {"condition": "Ready", "status": "true", "node": "monitoring", "exported_node": "n7"}
    assert events_of(series(CONDITION, steps((0, 60, 1), (60, 120, 0)), **labels))[0][1] == "n7/Ready"


# --- places


def test_an_address_is_named_by_what_the_machine_calls_itself() -> None:
    address = {"instance": "10.0.0.7:9100"}
    name = of_node("node_uname_info", steps((0, 60, 1)), nodename="n7.cluster.local", **address)
    event = of_node(DOWNED, steps((0, 60, 0), (60, 120, 1)), **PORT, **address)
    assert events_of(event, name)[0][1] == events_of(name, event)[0][1] == "n7/mlx5_0/1"
    assert events_of(event)[0][1] == "10.0.0.7/mlx5_0/1"


def test_the_pod_of_an_exporter_is_no_node() -> None:
    pod = {"hostname": "node-exporter-x7k2q", "pod": "node-exporter-x7k2q"}
    assert events_of(of_node(DOWNED, steps((0, 60, 0), (60, 120, 1)), **PORT, **pod))[0][1] == "n1/mlx5_0/1"


def test_a_series_that_names_no_place_is_refused_with_why() -> None:
    result = health.from_raw([samples(series(DBE, steps((0, 60, 1))), series(DOWNED, steps((0, 60, 1))))], cluster="c")
    assert sorted(result.refused.values()) == ["no label names the node", "no label names the node and the GPU"]
    assert result.events.is_empty()
    assert result.readings == 0


def test_readings_are_counted_once_and_blank_ones_by_themselves() -> None:
    some = samples(of_gpu(DBE, [(0, 0), (15, float("nan")), (30, 0)]), of_gpu("DCGM_FI_DEV_GPU_TEMP", [(0, 40)]))
    result = health.from_raw([some], cluster="c", reported_before=at(0))
    assert (result.readings, result.blanks, result.covers_from, result.covers_until) == (2, 1, at(30), at(30))


def test_no_readings_give_no_events() -> None:
    result = health.from_raw([], cluster="c")
    assert result.events.equals(empty(HEALTH_EVENTS))
    assert (result.readings, result.covers_from) == (0, None)


# --- laws

LENGTH_S = 14_400
VALUES = {
    DBE: (0.0, 1.0, 2.0),
    FAILURE: (0.0, 1.0),
    REASONS: (1.0, 9.0, 64.0),
    VIOLATION: (0.0, 1e9, 4e10),
    "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL": (0.0, 60.0, 120.0),
}
"""Of a metric its values; of those that only grow what they grow by."""
GROWING = (DBE, VIOLATION, "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL")


@st.composite
def a_series(draw: st.DrawFn) -> Series:
    """One of two GPUs as one of two exporters or jobs sees it: values that change, gaps, restarts."""
    name = draw(st.sampled_from(list(VALUES)))
    labels = {"gpu": draw(st.sampled_from("01")), "instance": draw(st.sampled_from(["n1:9400", "n1:9401"]))}
    labels |= draw(st.sampled_from([{}, {"hpc_job": "1"}, {"UUID": "GPU-1"}]))
    at_s, value, points = float(draw(st.integers(0, 3000))), 0.0, []
    for _ in range(draw(st.integers(1, 8))):
        change = draw(st.sampled_from(VALUES[name]))
        value = value + change if name in GROWING and draw(st.integers(0, 4)) else change
        stay = draw(st.sampled_from([30, 60, 300, 1500, 3000]))
        while stay > 0 and at_s < LENGTH_S:
            points.append((at_s, value))
            at_s, stay = at_s + 30, stay - 30
            if name == VIOLATION:
                value += change / 10
        at_s += draw(st.sampled_from([0, 0, 0, 45, 330, 1000, 2000, 5000]))
    return of_gpu(name, points, **labels)


def once(told_of: list[Series]) -> list[Series]:
    """Each series (by its labels) once."""
    return list({str(sorted(labels.items())): (labels, points) for labels, points in told_of}.values())


def piece(told_of: list[Series], since: int, until: int) -> pl.DataFrame:
    read = between(told_of, since - health.LOOKBACK_S, until)
    return health.from_raw([samples(*read)], cluster="c", reported_before=at(since), until=at(until)).events


@pytest.mark.slow
@given(st.lists(a_series(), min_size=1, max_size=4).map(once), st.lists(st.integers(61, 239), max_size=5))
@settings(max_examples=50, deadline=None)
def test_intervals_give_the_events_of_the_whole_in_any_order(told_of: list[Series], minutes: list[int]) -> None:
    """Also when intervals come twice."""
    cuts = [3600, *sorted({minute * 60 for minute in minutes}), LENGTH_S]
    whole = health.merge(empty(HEALTH_EVENTS), piece(told_of, cuts[0], cuts[-1]))
    pieces = [piece(told_of, *cut) for cut in pairwise(cuts)]
    for order in (pieces, pieces[::-1], [*pieces, *pieces[:2]]):
        known = empty(HEALTH_EVENTS)
        for some in order:
            known = health.merge(known, some)
        assert known.equals(whole), (rows(known), rows(whole))


@pytest.mark.slow
@given(st.lists(a_series(), min_size=1, max_size=3).map(once), st.randoms(use_true_random=False))
@settings(max_examples=25, deadline=None)
def test_batches_and_the_order_of_series_change_nothing(told_of: list[Series], chance: object) -> None:
    whole = health.from_raw([samples(*told_of)], cluster="c").events
    mixed = list(told_of)
    chance.shuffle(mixed)  # type: ignore[attr-defined]  # random.Random, which hypothesis does not say
    halves = [between(mixed, -1, 5000), between(mixed, 5000, LENGTH_S)]
    assert health.from_raw([samples(*half) for half in halves], cluster="c").events.equals(whole)
    assert health.from_raw([samples(one) for one in mixed], cluster="c").events.equals(whole)


# --- merging


def test_xid_and_other_events_are_merged_by_their_own_rules() -> None:
    new = health.from_raw([samples(of_gpu(DBE, steps((0, 60, 0), (60, 120, 1))))], cluster="c").events
    xids = new.with_columns(kind=pl.lit("xid"), code=pl.lit("79"), source=pl.lit("prometheus.gpu"))
    again = health.merge(xids, new)
    assert rows(again) == [(60, "n1/0", "ecc dbe", "critical"), (60, "n1/0", "xid 79", "critical")]
    assert health.merge(again, xids).equals(again)
    assert health.merge(new, xids).equals(again)


def test_event_of_unknown_start_is_new_only_without_a_known_one() -> None:
    seen = health.from_raw([samples(of_gpu(FAILURE, steps((0, 60, 0), (60, 120, 1))))], cluster="c").events
    result = health.from_raw([samples(of_gpu(FAILURE, steps((9000, 9060, 1))))], cluster="c").events
    assert health.merge(seen, result).equals(seen)
    assert health.merge(result, seen).equals(seen)
    assert result.height == 1


def test_the_lookback_suffices_for_every_rule() -> None:
    longest = max(rule.within_s for rule in builtin())
    assert 2 * longest + health.FORGET_S + GONE_S <= health.LOOKBACK_S
