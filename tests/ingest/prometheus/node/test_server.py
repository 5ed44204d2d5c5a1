"""Node telemetry from real servers: the expected rows by every transport and in any pieces."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ingest.prometheus.client import remote_read
from ingest.prometheus.client.server import PrometheusServer
from ingest.prometheus.mapping.mapping import MappedMetric, Mapping, builtin
from ingest.prometheus.node import server as prometheus_nodes
from ingest.prometheus.node import slurm_exporters
from ingest.prometheus.node.samples import ReadingCounts, SampleRows
from ingest.prometheus.node.server import questions
from ingest.prometheus.reader import ScrapeSpec
from ingest.tables import NODE_SAMPLES
from tests.ingest.prometheus.node.slow_nodes import samples, slow_values
from tests.lab.prometheus import PrometheusLab, need_prometheus
from tests.lab.victoria import VictoriaLab, need_victoria
from tests.support.slurm.parsing import at

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from datetime import datetime

    from ingest.prometheus.client.remote_read import Samples
    from ingest.prometheus.node.samples import Batch
    from ingest.tables import Parsed
    from tests.ingest.prometheus.node.slow_nodes import Series

pytestmark = [pytest.mark.xdist_group("prometheus")]

T = 1_795_248_000
"""On every grid, and where a block of Prometheus begins."""

MINUTES = 100
CPU, RECEIVED, LOAD = "node_cpu_seconds_total", "node_infiniband_port_data_received_bytes_total", "node_load1"
GPUS = "slurm_gpus_alloc"
MAPPING = Mapping(
    (
        MappedMetric(
            CPU,
            "node_samples",
            "cpu_busy",
            counter=True,
            where=(("mode", "idle"),),
            combine="mean",
            one_minus=True,
        ),
        MappedMetric(
            RECEIVED,
            "node_samples",
            "received_per_s",
            counter=True,
            device=("device", "port"),
            combine="sum",
            scale=0.5,
        ),
        MappedMetric(LOAD, "node_samples", "load"),
        MappedMetric(GPUS, "cluster_samples", "gpus_allocated", combine="sum"),
    )
)


def history() -> list[Series]:
    """A reset, a gap, an exporter that was away, a series that came late, and what two servers scraped twice."""
    result: list[tuple[dict[str, str], Sequence[tuple[float, float]]]] = []
    for number in (1, 2):
        host = {"instance": f"10.0.0.{number}:9100", "job": "node"}
        ticks = [15 * n + number for n in range(MINUTES * 4) if not (number == 2 and 120 <= n < 160)]
        result.append(
            ({"__name__": "node_uname_info", "nodename": f"n{number}.x", **host}, [(tick, 1) for tick in ticks])
        )
        for cpu, share in (("0", 0.75), ("1", 0.25)):
            idle = [(tick, round(1e6 + share * tick, 3)) for tick in ticks]
            result.append(({"__name__": CPU, "cpu": cpu, "mode": "idle", **host}, idle))
            result.append(({"__name__": CPU, "cpu": cpu, "mode": "user", **host}, [(tick, tick) for tick in ticks]))
        for port, born in (("1", 0), ("2", 2000)):
            grown = [(tick, float((tick - 3000 if tick >= 3000 else tick) * 1000)) for tick in ticks if tick >= born]
            labels = {"__name__": RECEIVED, "device": "mlx5_0", "port": port}
            result.append(({**labels, **host}, grown))
            if number == 1:
                result.append(({**labels, **host, "job": "again"}, [(tick + 2, value) for tick, value in grown[:40]]))
        result.append(({"__name__": LOAD, **host}, [(tick, float(tick % 7)) for tick in ticks]))
    for partition, gpus in (("a", 8), ("b", 24)):
        counted = [(60.0 * n, float(gpus)) for n in range(MINUTES)]
        result.append(({"__name__": GPUS, "partition": partition, "instance": "slurm:8080"}, counted))
    result.append(({"__name__": LOAD, "job": "nobody"}, [(30, 1.0)]))
    return [
        (labels, [(round((T + second) * 1000), value) for second, value in reported]) for labels, reported in result
    ]


def text() -> str:
    """The same as OpenMetrics, metric by metric."""
    lines = []
    for labels, readings in sorted(history(), key=lambda one: one[0]["__name__"]):
        name = labels["__name__"]
        shown = ",".join(f'{label}="{value}"' for label, value in labels.items() if label != "__name__")
        lines += [f"{name}{{{shown}}} {value!r} {moment // 1000}" for moment, value in readings]
    return "\n".join([*lines, "# EOF"]) + "\n"


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    need_prometheus()
    with PrometheusLab(history=text()) as prometheus:
        yield prometheus.url


def read(
    server: PrometheusServer,
    since: datetime,
    until: datetime,
    *,
    reader: object = prometheus_nodes.READER,
    mapping: Mapping = MAPPING,
    selector: str = "",
) -> Parsed:
    wanted = ScrapeSpec("c", selector, 60, mapping)
    assert reader in {prometheus_nodes.READER, slurm_exporters.READER}
    one = prometheus_nodes.READER if reader is prometheus_nodes.READER else slurm_exporters.READER
    names = server.names(wanted.matcher(one.names(wanted)), since=since, until=until)
    return one.read(server, wanted, names, since=since, until=until)


def known(frame: pl.DataFrame) -> list[tuple[object, ...]]:
    """Rows, with values as good as a float of 32 bits."""
    keys = [name for name in ("node", "metric", "device") if name in frame.columns]
    value = pl.col("value").cast(pl.Float64).round_sig_figs(5)
    return frame.select(*keys, pl.col("ts").dt.epoch("ms"), pl.col("interval_s").cast(pl.Float64), value).rows()


def meant() -> list[tuple[object, ...]]:
    """What the history means, slowly."""
    reported: list[Series] = []
    for labels, readings in history():
        if "instance" in labels:
            reported.append(({**labels, "node": f"n{labels['instance'][7]}"}, readings))
    exact = slow_values([one for one in reported if one[0]["__name__"] != GPUS], MAPPING.of("node_samples"))
    rows = [
        (node, metric, device, begin, length / 1000, value)
        for (node, metric, device, cell), (value, begin, length) in exact.items()
        if 0 <= cell - T // 60 < MINUTES + 10
    ]
    frame = pl.DataFrame(sorted(rows), orient="row").with_columns(pl.col("column_5").round_sig_figs(5))
    return frame.rows()


BEGIN, END = at(T), at(T + 60 * (MINUTES + 10))


@pytest.mark.parametrize("streams", [True, False])
def test_rows_are_as_expected_by_either_transport(url: str, *, streams: bool) -> None:
    server = PrometheusServer(url, remote_read=streams)
    parsed = read(server, BEGIN, END)
    assert known(parsed.frames["node_samples"]) == meant()
    assert parsed.rejects["raw"].to_list() == ["node_load1 {'job': 'nobody'}"]
    readings = [
        moment
        for labels, reported in history()
        if labels["__name__"] in {CPU, RECEIVED, LOAD} and labels.get("mode") != "user" and labels["job"] != "nobody"
        for moment, _ in reported
        if moment > T * 1000
    ]
    assert (parsed.rows_loaded, parsed.rows_skipped, parsed.rows_read) == (len(readings), 0, len(readings) + 1)
    assert parsed.columns == sorted([CPU, RECEIVED, LOAD])


@pytest.mark.parametrize("minutes", [7, 33])
def test_intervals_give_what_the_whole_gives(url: str, minutes: int) -> None:
    server = PrometheusServer(url)
    ends = [BEGIN + timedelta(minutes=n) for n in range(0, MINUTES + 10, minutes)] + [END]
    parts = [read(server, low, high) for low, high in pairwise(ends)]
    frames = [part.frames["node_samples"] for part in parts]
    assert sorted(known(pl.concat(frames))) == meant()
    whole = read(server, BEGIN, END)
    assert sum(part.rows_loaded for part in parts) == whole.rows_loaded


def test_steps_of_few_cells_give_what_one_query_gives(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prometheus_nodes, "CELLS", 10)
    assert known(read(PrometheusServer(url), BEGIN, END).frames["node_samples"]) == meant()


def test_an_answer_that_breaks_off_and_comes_again_counts_once(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, unbroken = read(PrometheusServer(url), BEGIN, END), remote_read.batches
    broken: list[int] = []

    def batches(parts: Iterable[bytes], low_ms: int, high_ms: int, *more: Any) -> Iterator[Samples]:
        yield from unbroken(parts, low_ms, high_ms, *more)
        if not broken and low_ms > T * 1000:  # the second step of a question
            broken.append(low_ms)
            raise remote_read.GarbledError("cut off")

    monkeypatch.setattr(remote_read, "batches", batches)
    again = read(PrometheusServer(url, sleep=lambda _: None), BEGIN, END)
    assert len(broken) == 1
    assert known(again.frames["node_samples"]) == meant()
    assert again.rows_loaded == whole.rows_loaded


def test_another_server_gives_the_same() -> None:
    need_victoria()
    with VictoriaLab(history=text()) as victoria:
        assert known(read(PrometheusServer(victoria.url), BEGIN, END).frames["node_samples"]) == meant()


def test_a_piece_is_covered_from_its_first_sample_to_its_last(url: str) -> None:
    parsed = read(PrometheusServer(url), BEGIN, END)
    last = T + 15 * (MINUTES * 4 - 1)
    assert (parsed.covers_from, parsed.covers_until) == (BEGIN, at((last // 60 + 1) * 60))


def test_where_readings_go_on_a_piece_is_covered_to_its_end(url: str) -> None:
    parsed = read(PrometheusServer(url), BEGIN, BEGIN + timedelta(minutes=20), selector=f'__name__!="{LOAD}"')
    assert (parsed.covers_from, parsed.covers_until) == (BEGIN + timedelta(seconds=1), BEGIN + timedelta(minutes=20))


def test_coverage_ends_at_the_first_cell_with_a_reading_due() -> None:
    reported = [("c", "n1", "x", "", at(T + second), 60.0, 1.0) for second in (0, 60)]
    rows = pl.DataFrame(reported, NODE_SAMPLES, orient="row")
    for last, latest, covered in (
        (30, 100, (T, T + 60)),
        (70, 100, (T, T + 120)),
        (-30, 100, (T - 60, T)),
        (120, 120, (T, T + 120)),  # nothing is due
        (30, 331, (T, T + 120)),  # it is gone
    ):
        result = SampleRows(rows, {}, [], ReadingCounts(1, 0, 0), (T + latest) * 1000, np.array([(T + last) * 1000]))
        known_of = prometheus_nodes.covered(rows, at(T + 120), [result], 60)
        assert known_of == tuple(map(at, covered)), (last, latest)


def test_a_time_without_readings_is_not_covered(url: str) -> None:
    parsed = read(PrometheusServer(url), BEGIN - timedelta(days=1), BEGIN - timedelta(hours=20))
    assert (parsed.covers_from, parsed.covers_until, parsed.rows_read) == (None, None, 0)


@dataclass
class Growing:
    """In place of a server: it has what was read until now."""

    now: datetime

    def raw(
        self, names: Sequence[str], *, since: datetime, until: datetime, each: Callable[[Samples], Batch]
    ) -> list[Batch]:
        low, high = (moment.timestamp() * 1000 for moment in (since, min(until, self.now)))
        reported = [
            (labels, [reading for reading in readings if low < reading[0] <= high])
            for labels, readings in SELDOM_AND_OFTEN
            if labels["__name__"] in names
        ]
        return [each(samples(*reported))]


SELDOM_AND_OFTEN: list[Series] = [
    (
        {"__name__": RECEIVED, "node": "n1", "device": device},
        [((T + second) * 1000, 1000.0 * second) for second in range(0, 3600, step)],
    )
    for device, step in (("often", 15), ("seldom", 150), ("rare", 290))
]


@settings(
    deadline=None, max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(st.lists(st.integers(20, 900), min_size=1, max_size=8))
def test_continuing_at_the_last_sample_loses_no_sparse_readings(
    monkeypatch: pytest.MonkeyPatch, pauses: list[int]
) -> None:
    best: dict[tuple[str, int], tuple[float, float]] = {}
    since = BEGIN
    for second in accumulate([60, *pauses, 5000]):
        now = at(T + second)
        monkeypatch.setattr(prometheus_nodes, "ServerReader", lambda *_, now=now: Growing(now))
        until = at((T + second) // 60 * 60)
        wanted = ScrapeSpec("c", "", 60, MAPPING)
        parsed = prometheus_nodes.read(PrometheusServer("http://nobody"), wanted, [RECEIVED], since=since, until=until)
        for _, device, begin, interval_s, value in known(parsed.frames["node_samples"].drop("node")):
            key = str(device), int(str(begin)) // 60_000
            best[key] = max(best.get(key, (0.0, 0.0)), (float(str(interval_s)), float(str(value))))
        if parsed.covers_until is not None:
            since = min(parsed.covers_until, until) - timedelta(seconds=60)
            since = at(int(since.timestamp()) // 60 * 60)
    seconds = dict.fromkeys(("often", "seldom", "rare"), 0.0)
    for (device, _), (interval_s, value) in best.items():
        seconds[device] += interval_s
        assert value == 500
    assert seconds == {"often": 3585, "seldom": 3450, "rare": 3480}


def test_what_slurm_counts_is_of_the_cluster(url: str) -> None:
    parsed = read(PrometheusServer(url), BEGIN, END, reader=slurm_exporters.READER)
    frame = parsed.frames["cluster_samples"]
    assert parsed.source == "prometheus.slurm"
    assert known(frame) == [("gpus_allocated", "", (T + 60 * n - 60) * 1000, 60, 32) for n in range(1, MINUTES)]


def test_only_mapped_series_are_requested() -> None:
    names: Sequence[str] = [CPU, "unknown", RECEIVED, LOAD, "node_uname_info", GPUS]
    assert list(questions(MAPPING, "node_samples", names)) == [
        (["node_uname_info"], []),
        ([CPU], ['mode=~"idle"']),
        ([RECEIVED, LOAD], []),
    ]
    assert list(questions(MAPPING, "cluster_samples", names)) == [([GPUS], [])]


def test_only_series_that_a_name_needs_are_requested() -> None:
    """Of CPUs two modes of eight; of NFS all operations, since one metric counts all of them."""
    names = ["node_cpu_seconds_total", "node_nfs_requests_total"]
    assert list(questions(builtin(), "node_samples", names)) == [
        ([names[0]], ['mode=~"idle|iowait"']),
        ([names[1]], []),
    ]


def test_many_names_are_several_questions_and_none_is_left_out() -> None:
    names = builtin().names("node_samples")
    requested = [name for some, _ in questions(builtin(), "node_samples", names) for name in some]
    assert sorted(requested) == sorted(names)
    long = [f"{'x' * 500}_{n}" for n in range(30)]
    mapping = Mapping(tuple(MappedMetric(name, "node_samples", "open_files") for name in long))
    sizes = [len(some) for some, _ in questions(mapping, "node_samples", long)]
    assert (sum(sizes), max(sizes)) == (30, 5)
