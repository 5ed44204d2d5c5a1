"""From raw readings to rows of nodes and devices: whose they are, what makes one value, and of which time."""

from __future__ import annotations

import itertools
import math
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ingest.load_warnings import messages
from ingest.prometheus.client.raw import GONE_S
from ingest.prometheus.mapping.mapping import MappedMetric, Mapping, builtin
from ingest.prometheus.node.samples import NodeReadings, SampleRows, from_raw
from ingest.tables import CLUSTER_SAMPLES, NODE_SAMPLES
from tests.ingest.prometheus.node.slow_nodes import samples, slow_values
from tests.support.slurm.parsing import at

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from random import Random

    from ingest.prometheus.mapping.mapping import Table
    from ingest.tables import Schema
    from tests.ingest.prometheus.node.slow_nodes import Series

T = 1_795_248_000
"""On every grid."""

BEGIN, END = at(T), at(T + 3600)
"""What a server is asked for."""

BUSY = MappedMetric(
    "node_cpu_seconds_total",
    "node_samples",
    "cpu_busy",
    counter=True,
    where=(("mode", "idle"),),
    combine="mean",
    one_minus=True,
)
RECEIVED = MappedMetric(
    "rx_total", "node_samples", "rx_bytes_per_s", counter=True, device=("device", "port"), combine="sum"
)
USED = MappedMetric("used_percent", "node_samples", "used", scale=0.01, high=100, combine="max")
OPEN = MappedMetric("open_files", "node_samples", "open_files", combine="sum")
OPENED = MappedMetric("files_opened", "node_samples", "open_files")
GPUS = MappedMetric("slurm_gpus_alloc", "cluster_samples", "gpus_allocated", device=("partition",), combine="sum")
MAPPING = Mapping((BUSY, RECEIVED, USED, OPEN, OPENED, GPUS))


def series(name: str, *readings: tuple[float, float], **labels: str) -> Series:
    """Readings at seconds after T."""
    return {"__name__": name, **labels}, [(round((T + second) * 1000), value) for second, value in readings]


def every(seconds: int, until: int, start: int = 0, **slopes: float) -> list[tuple[float, float]]:
    """A counter read every so many seconds that grows by `rate` a second, or a gauge that is `steady`."""
    rate, steady = slopes.get("rate"), slopes.get("steady")
    return [
        (at_s, steady if steady is not None else (rate or 0) * at_s + 1000) for at_s in range(start, until, seconds)
    ]


def made(
    *reported: Series,
    table: Table = "node_samples",
    width: int = 60,
    since: datetime | None = BEGIN,
    until: datetime | None = END,
) -> SampleRows:
    """What series tell, as from a server that was asked for the time from T on, unless another was asked for."""
    return from_raw([samples(*reported)], MAPPING, table, cluster="c", interval_s=width, since=since, until=until)


def rows(result: SampleRows, *columns: str) -> list[tuple[object, ...]]:
    """Those columns; `ts` in seconds after T."""
    wanted = columns or ("node", "device", "ts", "interval_s", "value")
    shown = result.frame.with_columns(
        (pl.col("ts").dt.epoch("ms") / 1000 - T).alias("ts"), pl.col("value").cast(pl.Float64).round(5)
    )
    return shown.select(wanted).rows()


# --- whose it is


@pytest.mark.parametrize(
    "labels",
    [
        {"node": "n7", "instance": "10.0.0.7:9100"},
        {"Hostname": "n7.cluster.local"},
        {"nodename": "n7", "instance": "10.0.0.9:9100"},
        {"instance": "n7.cluster.local:9100"},
        {"instance": "10.0.0.7:9100"},
        {"instance": "10.0.0.7:9400"},  # another exporter of the host
        {"exported_instance": "10.0.0.7:9100", "instance": "federation:9090"},
        {"hostname": "node-exporter-x7k2q", "pod": "node-exporter-x7k2q", "instance": "10.0.0.7:9100"},
        {"hostname": "node-exporter-x7k2q", "pod": "node-exporter-x7k2q", "node": "n7"},
    ],
)
def test_node_is_named_by_labels_or_the_host_at_its_address(labels: dict[str, str]) -> None:
    host = series("node_uname_info", (0, 1), instance="10.0.0.7:9100", nodename="n7.cluster.local")
    result = made(series("used_percent", (30, 50), **labels), host)
    assert rows(result, "node", "metric", "value") == [("n7", "used", 0.5)]


def test_address_without_a_host_name_is_the_name() -> None:
    assert rows(made(series("used_percent", (30, 50), instance="10.0.0.7:9100")), "node") == [("10.0.0.7",)]


def test_exporter_pod_that_reports_its_pod_name_names_no_host() -> None:
    pod = {"pod": "node-exporter-x7k2q", "instance": "10.0.0.7:9100"}
    host = series("node_uname_info", (0, 1), nodename="node-exporter-x7k2q", **pod)
    assert rows(made(series("used_percent", (30, 50), **pod), host), "node") == [("10.0.0.7",)]


def test_the_name_of_a_host_may_come_in_a_later_batch() -> None:
    readings = NodeReadings((USED,), "node_samples", "c", 60, at(T), at(T + 60))
    readings.take(samples(series("used_percent", (30, 50), instance="10.0.0.7:9100")))
    readings.take(samples(series("node_uname_info", (30, 1), instance="10.0.0.7:9100", nodename="n7")))
    assert rows(readings.made(), "node") == [("n7",)]


def test_a_series_that_names_no_node_is_refused_with_its_labels() -> None:
    result = made(series("used_percent", (30, 50), job="x"), series("used_percent", (30, 50), node="n1"))
    assert result.refused == {"used_percent {'job': 'x'}": "no label names the node"}
    assert (rows(result, "node"), tuple(result.counts)) == ([("n1",)], (1, 0, 1))


def test_an_address_that_several_hosts_claim_is_nobodys() -> None:
    hosts = [series("node_uname_info", (0, 1), instance="localhost:9100", nodename=name) for name in ("n1", "n2")]
    result = made(series("used_percent", (30, 50), instance="localhost:9100"), *hosts)
    assert result.frame.is_empty()
    [(shown, why)] = result.refused.items()
    assert shown == "used_percent {'instance': 'localhost:9100'}"
    assert why.startswith("several hosts have the name localhost:9100: n1, n2;")


def test_exporters_at_one_address_differ_by_port_if_hosts_differ() -> None:
    hosts = [
        series("node_uname_info", (0, 1), instance=f"gateway:{port}", nodename=name)
        for port, name in ((1, "n1"), (2, "n2"))
    ]
    used = [series("used_percent", (30, port), instance=f"gateway:{port}") for port in (1, 2)]
    assert rows(made(*used, *hosts), "node", "value") == [("n1", 0.01), ("n2", 0.02)]


def test_rows_of_a_cluster_need_no_node() -> None:
    reported = [
        series("slurm_gpus_alloc", (30, n), partition=name, instance="exporter:80") for name, n in (("a", 8), ("b", 16))
    ]
    result = made(*reported, table="cluster_samples")
    assert dict(result.frame.schema) == CLUSTER_SAMPLES
    assert rows(result, "cluster", "metric", "device", "value") == [
        ("c", "gpus_allocated", "a", 8),
        ("c", "gpus_allocated", "b", 16),
    ]


# --- which series are meant


def test_unmapped_series_give_no_rows_and_are_not_counted() -> None:
    result = made(
        series("node_cpu_seconds_total", *every(15, 61, rate=0.5), node="n1", mode="user", cpu="0"),
        series("something_else", (30, 1), node="n1"),
        series("slurm_gpus_alloc", (30, 1), node="n1"),
    )
    assert (result.frame.height, tuple(result.counts), result.refused) == (0, (0, 0, 0), {})


def test_labels_name_the_device() -> None:
    result = made(series("rx_total", *every(15, 61, rate=7), node="n1", device="mlx5_0", port="1"))
    assert rows(result) == [("n1", "mlx5_0/1", 0, 60, 7)]


# --- counters


def test_a_counter_is_its_rate_by_the_seconds_that_are_known() -> None:
    result = made(series("rx_total", *every(15, 200, start=25, rate=4), node="n1"))
    assert rows(result) == [
        ("n1", "", 25, 35, 4),
        ("n1", "", 60, 60, 4),
        ("n1", "", 120, 60, 4),
        ("n1", "", 180, 10, 4),
    ]


def test_readings_around_the_time_complete_cells_uncounted() -> None:
    whole = series("rx_total", *every(90, 800, start=-300, rate=2), node="n1")
    result = made(whole, until=at(T + 300))
    assert rows(result) == [("n1", "", 60 * n, 60, 2) for n in range(5)]
    assert result.counts.loaded == 3  # at 60, 150 and 240


def test_idle_cpus_make_a_busy_share() -> None:
    reported = [
        series("node_cpu_seconds_total", *every(15, 61, rate=rate), node="n1", cpu=cpu, mode="idle")
        for cpu, rate in (("0", 1.0), ("1", 0.5))
    ]
    assert rows(made(*reported)) == [("n1", "", 0, 60, 0.25)]


def test_a_share_is_not_below_nothing_though_clocks_jitter() -> None:
    reported = series("node_cpu_seconds_total", *every(15, 61, rate=1.01), node="n1", cpu="0", mode="idle")
    assert rows(made(reported)) == [("n1", "", 0, 60, 0)]


def test_restarted_exporter_loses_only_what_it_had_not_reported() -> None:
    readings = [(0.0, 500.0), (15, 530), (30, 10), (45, 40), (60, 70)]
    assert rows(made(series("rx_total", *readings, node="n1"))) == [
        ("n1", "", 0, 60, pytest.approx(100 / 60, abs=1e-5))
    ]


def test_a_sum_covers_the_time_of_all_its_series() -> None:
    result = made(
        series("rx_total", *every(15, 121, rate=5), node="n1", lane="0"),
        series("rx_total", *every(15, 121, start=30, rate=3), node="n1", lane="1"),  # came later
    )
    assert rows(result) == [("n1", "", 30, 30, 8), ("n1", "", 60, 60, 8)]


def test_a_series_that_was_gone_does_not_keep_the_others_back() -> None:
    result = made(
        series("rx_total", *every(15, 181, rate=5), node="n1", lane="0"),
        series("rx_total", *every(15, 76, rate=3), node="n1", lane="1"),
    )
    assert rows(result) == [("n1", "", 0, 60, 8), ("n1", "", 60, 15, 8), ("n1", "", 120, 60, 5)]


def test_series_without_a_second_in_common_make_no_sum() -> None:
    result = made(
        series("rx_total", *every(10, 21, rate=5), node="n1", lane="0"),
        series("rx_total", *every(10, 61, start=40, rate=3), node="n1", lane="1"),
    )
    assert result.frame.is_empty()


def test_counters_that_are_read_too_seldom_are_a_warning() -> None:
    result = made(series("rx_total", *every(GONE_S + 1, 1000, start=1, rate=5), node="n1"))
    assert result.frame.is_empty()
    assert messages(result.warnings) == ["counters are read less often than every 300 s, so they have no rows"]


# --- gauges


def test_a_gauge_is_the_mean_of_what_was_read_in_the_cell() -> None:
    result = made(series("used_percent", (0, 99), (15, 10), (60, 30), (61, 80), node="n1"))
    assert rows(result) == [("n1", "", 0, 60, 0.2), ("n1", "", 60, 60, 0.8)]


def test_values_that_cannot_be_are_left_out_with_a_warning() -> None:
    result = made(series("used_percent", (10, 50), (20, -1), (30, math.nan), (40, 101), (50, 100.05), node="n1"))
    assert rows(result, "value") == [(0.75025,)]
    assert (result.counts.loaded, result.counts.left_out) == (2, 3)
    assert messages(result.warnings) == ["3 values of used_percent implausible, left out"]


@pytest.mark.parametrize("value", [1e308, 1e31, 2e9])
def test_a_gauge_that_no_cluster_can_reach_is_left_out(value: float) -> None:
    result = made(series("slurm_gpus_alloc", (10, 64), (70, value)), table="cluster_samples")
    assert rows(result, "ts", "value") == [(0, 64)]
    assert messages(result.warnings) == ["1 value of slurm_gpus_alloc implausible, left out"]


JUMPED = "1 interval of rx_bytes_per_s left out: the counter jumped by more than is plausible"
NO_COUNT = "3 values of rx_total implausible, left out"


@pytest.mark.parametrize(("value", "output"), [(1.8e19, JUMPED), (1e29, JUMPED), (1e38, NO_COUNT), (1e308, NO_COUNT)])
def test_impossible_counter_jump_leaves_its_time_empty(value: float, output: str) -> None:
    steady = every(15, 61, rate=5)
    result = made(series("rx_total", *steady, (75, value), (90, value), (120, value), node="n1", device="ib0"))
    assert result.frame["value"].max() == 5
    assert messages(result.warnings) == [output]


def test_a_value_that_is_a_trifle_too_high_is_the_highest() -> None:
    assert rows(made(series("used_percent", (10, 100.05), node="n1")), "value") == [(1.0,)]


def test_a_cell_with_no_value_that_can_be_is_no_row() -> None:
    result = made(series("used_percent", (10, math.nan), (70, 50), node="n1"))
    assert rows(result) == [("n1", "", 60, 60, 0.5)]


def test_sum_of_gauges_weighs_a_series_by_its_part_of_the_cell() -> None:
    result = made(
        series("open_files", *every(15, 61, start=15, steady=10), node="n1", app="a"),
        series("open_files", (45, 100), (60, 100), node="n1", app="b"),
    )
    assert rows(result) == [("n1", "", 0, 60, 60)]


def test_a_sum_with_a_missing_part_is_null() -> None:
    result = made(
        series("open_files", (30, 10), (90, 10), node="n1", app="a"),
        series("open_files", (30, math.nan), (90, 5), node="n1", app="b"),
    )
    assert rows(result) == [("n1", "", 60, 60, 15)]


def test_gauges_sparser_than_the_interval_are_a_warning() -> None:
    result = made(series("used_percent", *every(120, 3600, start=60, steady=5), node="n1"))
    assert messages(result.warnings) == [
        "gauges come only every 120 s, so of the 60 s intervals many are empty; "
        "set prometheus.interval_s to 120 or more"
    ]


# --- what says the same


TWINS = [
    {"job": "node", "instance": "10.0.0.7:9100"},
    {"job": "again", "instance": "10.0.0.7:9100"},
    {"prometheus_replica": "prometheus-1", "instance": "n7:9100"},
    {"pod": "exporter-xyz", "namespace": "monitoring", "container": "exporter", "endpoint": "metrics"},
    {"exported_job": "node", "exported_instance": "10.0.0.7:9100", "job": "federate", "instance": "federation:9090"},
]


@pytest.mark.parametrize("labels", TWINS)
def test_series_that_differ_only_in_scrape_labels_count_once(labels: dict[str, str]) -> None:
    result = made(
        series("open_files", (30, 10), node="n7", app="a"),
        series("open_files", (30, 12), node="n7", app="a", **labels),
        series("open_files", (30, 1), node="n7", app="b"),
        series("rx_total", *every(15, 61, rate=5), node="n7"),
        series("rx_total", *every(20, 61, rate=5), node="n7", **labels),
    )
    assert rows(result, "metric", "value") == [("open_files", 13), ("rx_bytes_per_s", 5)]


def test_job_named_by_a_metric_itself_is_not_a_scrape_label() -> None:
    of_jobs = [series("open_files", (30, 10), node="n7", exported_job=job, job="slurm") for job in "12"]
    assert rows(made(*of_jobs), "metric", "value") == [("open_files", 20)]


def test_twins_are_matched_by_host_name_and_by_label() -> None:
    result = made(
        series("open_files", (30, 10), instance="10.0.0.7:9100"),
        series("open_files", (30, 10), node="n7", instance="10.0.0.7:9100"),
        series("node_uname_info", (30, 1), instance="10.0.0.7:9100", nodename="n7"),
    )
    assert rows(result, "node", "value") == [("n7", 10)]


def test_of_two_replicas_the_one_of_more_coverage_counts() -> None:
    result = made(
        series("rx_total", *every(15, 61, rate=5), node="n7", replica="a"),
        series("rx_total", (0, 0), (15, 150), node="n7", replica="b"),
    )
    assert rows(result) == [("n7", "", 0, 60, 5)]


def test_a_pod_is_no_label_of_the_scrape_in_metrics_about_pods() -> None:
    metric = MappedMetric("container_open_files", "node_samples", "open_files", combine="sum")
    reported = samples(*(series("container_open_files", (30, 1), node="n1", pod=pod) for pod in ("a", "b")))
    result = from_raw([reported], Mapping((metric,)), "node_samples", cluster="c", interval_s=60)
    assert rows(result, "value") == [(2,)]


def test_two_names_of_one_thing_are_one_value() -> None:
    result = made(series("open_files", (30, 10), node="n1"), series("files_opened", (30, 12), node="n1"))
    assert rows(result, "metric", "value") == [("open_files", 12)]


# --- answers that break off


def test_readings_that_are_not_added_do_not_count() -> None:
    reported = samples(
        series("open_files", (10, 5), (30, math.nan), node="n1"),
        series("rx_total", *every(15, 61, rate=5), node="n1"),
        series("used_percent", (30, 1)),
    )
    readings = NodeReadings(MAPPING.of("node_samples"), "node_samples", "c", 60, BEGIN, END)
    readings.read_batch(reported)
    readings.read_batch(samples(series("rx_total", (10, 1e9), node="n1")))
    readings.add(readings.read_batch(reported))
    once = from_raw([reported], MAPPING, "node_samples", cluster="c", interval_s=60, since=BEGIN, until=END)
    result = readings.made()
    assert result.frame.equals(once.frame)
    assert result[1:] == once[1:]


# --- files


def test_in_a_file_edge_cells_cover_only_what_was_read() -> None:
    reported = series("used_percent", *every(20, 111, start=50, steady=50), node="n1")  # 50, 70, 90, 110
    result = made(reported, since=None, until=None)
    assert rows(result) == [("n1", "", 30, 30, 0.5), ("n1", "", 60, 60, 0.5)]
    result = made(reported, series("used_percent", (70, 1), node="n2"), since=None, until=None, width=600)
    assert rows(result) == [("n1", "", 30, 80, 0.5), ("n2", "", 50, 20, 0.01)]


def test_a_file_of_one_reading_covers_its_cell() -> None:
    assert rows(made(series("used_percent", (70, 50), node="n1"), since=None, until=None)) == [("n1", "", 60, 60, 0.5)]


def test_nothing_read_is_an_empty_frame() -> None:
    tables: dict[Table, Schema] = {"node_samples": NODE_SAMPLES, "cluster_samples": CLUSTER_SAMPLES}
    for table, schema in tables.items():
        result = from_raw([], MAPPING, table, cluster="c", interval_s=60)
        assert (result.frame.height, dict(result.frame.schema), messages(result.warnings)) == (0, schema, [])


def test_the_mapping_that_comes_with_it_can_be_read_by() -> None:
    idle = series("node_cpu_seconds_total", *every(15, 61, rate=0.25), instance="n1:9100", cpu="0", mode="idle")
    result = from_raw([samples(idle)], builtin(), "node_samples", cluster="c", interval_s=60)
    assert rows(result, "metric", "value") == [("cpu_busy", 0.75)]


# --- laws


values = st.one_of(st.integers(0, 200).map(float), st.sampled_from([math.nan, -1.0, 100.05, 1e6]))
gaps = st.one_of(st.integers(1, 40_000), st.sampled_from([15_000, 60_000, 301_000]))


@st.composite
def some_series(draw: st.DrawFn) -> list[Series]:
    """Some series of a few nodes, no two with the same labels."""
    result: dict[tuple[tuple[str, str], ...], Series] = {}
    for _ in range(draw(st.integers(1, 7))):
        name = draw(
            st.sampled_from(["rx_total", "node_cpu_seconds_total", "used_percent", "open_files", "files_opened"])
        )
        labels = {"__name__": name, "node": draw(st.sampled_from(["n1", "n2"])), "mode": "idle"}
        labels |= {"port": draw(st.sampled_from("01")), "lane": draw(st.sampled_from("01"))}
        labels |= {"replica": draw(st.sampled_from("ab")), "job": draw(st.sampled_from("xy"))}
        moment, readings = T * 1000 + draw(st.integers(-400_000, 400_000)), []
        for gap, value in draw(st.lists(st.tuples(gaps, values), min_size=1, max_size=25)):
            moment += gap
            readings.append((moment, value))
        result[tuple(sorted(labels.items()))] = labels, readings
    return list(result.values())


def by_cell(result: pl.DataFrame, width: int = 60) -> dict[tuple[str, str, str, int], tuple[float, int, int]]:
    frame = result.with_columns(pl.col("ts").dt.epoch("ms").alias("begin"), known=(pl.col("interval_s") * 1000).round())
    keys = frame.select("node", "metric", "device", pl.col("begin") // (width * 1000)).rows()
    assert len(set(keys)) == len(keys)
    reported = frame.select("value", "begin", pl.col("known").cast(pl.Int64)).rows()
    return dict(zip(keys, reported, strict=True))


def alike(one: dict[Any, tuple[float, int, int]], other: dict[Any, tuple[float, int, int]]) -> bool:
    return one.keys() == other.keys() and all(
        one[key][1:] == other[key][1:] and math.isclose(one[key][0], other[key][0], rel_tol=1e-5, abs_tol=1e-5)
        for key in one
    )


@pytest.mark.slow
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(some_series())
def test_samples_equal_those_of_plain_python(reported: list[Series]) -> None:
    low, high = T // 60 - 60, T // 60 + 60
    result = made(*reported, since=at(low * 60), until=at(high * 60))
    exact = slow_values(reported, MAPPING.of("node_samples"))
    assert alike(by_cell(result.frame), {key: one for key, one in exact.items() if low <= key[3] < high})
    assert result.frame.sort("node", "metric", "device", "ts").equals(result.frame)


@pytest.mark.slow
@settings(deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow])
@given(some_series(), st.lists(st.integers(-15, 15), max_size=3))
def test_cuts_of_time_into_pieces_do_not_matter(reported: list[Series], cuts: list[int]) -> None:
    ends = [-60, *sorted(set(cuts)), 60]
    gone, parts = timedelta(seconds=GONE_S), []
    for low, high in itertools.pairwise(ends):
        since, until = at(T + low * 60), at(T + high * 60)
        parts.append(
            made(*(_between(one, since - gone, until + gone) for one in reported), since=since, until=until).frame
        )
    whole = made(*reported, since=at(T - 3600), until=at(T + 3600))
    assert alike(by_cell(pl.concat(parts)), by_cell(whole.frame))


def _between(one: Series, since: datetime, until: datetime) -> Series:
    labels, readings = one
    return labels, [
        reading for reading in readings if since.timestamp() * 1000 < reading[0] <= until.timestamp() * 1000
    ]


@pytest.mark.slow
@settings(deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow])
@given(some_series(), st.lists(st.integers(-15, 15), max_size=3), st.booleans())
def test_cuts_into_batches_and_settling_on_the_way_do_not_matter(
    reported: list[Series], cuts: list[int], settle: bool
) -> None:
    since, until = at(T - 3600), at(T + 3600)
    readings = NodeReadings(MAPPING.of("node_samples"), "node_samples", "c", 60, since, until)
    ends = [since, *(at(T + 60 * cut) for cut in sorted(set(cuts))), until]
    for low, high in itertools.pairwise(ends):
        batch: Sequence[Series] = [_between(one, low, high) for one in reported]
        readings.take(samples(*(one for one in batch if one[1])))
        if settle:
            readings.finalize(high - timedelta(seconds=GONE_S))
    result, whole = readings.made(), made(*reported, since=since, until=until)
    assert alike(by_cell(result.frame), by_cell(whole.frame))
    assert result.counts == whole.counts
    assert result.refused == whole.refused == {}


@settings(deadline=None, max_examples=30, suppress_health_check=[HealthCheck.too_slow])
@given(some_series(), st.randoms())
def test_the_order_of_series_does_not_matter(reported: list[Series], chance: Random) -> None:
    shuffled = list(reported)
    chance.shuffle(shuffled)
    whole, other = made(*reported), made(*shuffled)
    assert alike(by_cell(whole.frame), by_cell(other.frame))
    assert whole.counts == other.counts
