"""A real Prometheus: what its exporters said is what is in the warehouse, whatever happens to it in between."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from urllib.parse import urlencode
from urllib.request import urlopen

import polars as pl
import pytest

from ingest.prometheus.client.server import PrometheusServer
from queries.warehouse import open_reader
from tests.lab.dcgm_exporter import DcgmExporter
from tests.lab.node_exporter import NodeExporter
from tests.lab.processes import now as wall_clock
from tests.lab.processes import wait_until
from tests.lab.prometheus import PrometheusLab, need_prometheus
from tests.support.command import assert_same, contents, trackside
from tests.support.telemetry.telemetry_lab import (
    EXPORTED,
    FLAPS,
    HOURS,
    SCRAPE_S,
    START,
    XIDS,
    Found,
    T,
    assert_alike,
    expected,
    history,
    ingest,
    raw,
    scraped,
    settings,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


pytestmark = [pytest.mark.xdist_group("prometheus")]


@pytest.fixture(scope="module")
def server() -> Iterator[PrometheusLab]:
    need_prometheus()
    with PrometheusLab(history=history(nodes=True)) as lab:
        yield lab


@pytest.fixture(scope="module")
def reference(server: PrometheusLab, tmp_path_factory: pytest.TempPathFactory) -> Path:
    warehouse = tmp_path_factory.mktemp("reference") / "w"
    reports = ingest(warehouse, settings(server))
    assert [report.error for report in reports if report.error] == []
    return warehouse


def test_what_was_exported_is_what_is_loaded(reference: Path) -> None:
    with open_reader(reference) as reader:
        samples = reader.table("gpu_samples")
    columns = [column for column, _ in EXPORTED.values()]
    result = {
        (row["node"], row["gpu"], round((row["ts"] - START).total_seconds() / 60)): [row[name] for name in columns]
        for row in samples.iter_rows(named=True)
    }
    reported = expected()
    assert len(result) == samples.height
    assert set(result) == set(reported)
    for key, values in result.items():
        assert values == pytest.approx([reported[key][name] for name in columns], rel=1e-6), key
    assert samples["power_w"].null_count() == samples.height


def test_both_transports_load_the_same(reference: Path, server: PrometheusLab, tmp_path: Path) -> None:
    reports = ingest(tmp_path / "w", settings(server, remote_read=False))
    assert [report.error for report in reports if report.error] == []
    assert_alike(tmp_path / "w", reference)


def test_json_intervals_of_any_length_give_the_same(reference: Path, server: PrometheusLab, tmp_path: Path) -> None:
    """Ten days at once are 14,400 points, and Prometheus gives no more than 11,000."""
    config = settings(server, remote_read=False, chunk_hours=24 * 10)
    reports = ingest(tmp_path / "w", config, since=START - timedelta(days=9))
    assert [report.error for report in reports if report.error] == []
    assert_alike(tmp_path / "w", reference)


def raw_by_both_roads(
    lab: PrometheusLab, name: str, begin: datetime, end: datetime, matchers: str = ""
) -> dict[str, Found]:
    """What `raw` finds by each transport."""
    requested = PrometheusServer(lab.url, retries=0)
    transports = {"json": True, "stream": False}
    return {way: raw(requested, name, begin, end, json=json, matchers=matchers) for way, json in transports.items()}


def test_raw_samples_are_bit_equal_by_both_transports() -> None:
    """The server's own labels, which remote read shows and PromQL does not, change nothing."""
    need_prometheus()
    with PrometheusLab(history=history(), external_labels={"cluster": "own", "gpu": "own"}) as lab:
        for name in EXPORTED:
            for low, high in ((0, HOURS * 3600), (3599, 5385), (15, 30)):
                begin, end = START + timedelta(seconds=low), START + timedelta(seconds=high)
                result = raw_by_both_roads(lab, name, begin, end)
                assert result["json"]
                assert result["json"] == result["stream"]
        for matchers, series in (
            ('cluster="own"', 0),
            ('gpu="own"', 0),
            ('gpu="0",cluster=""', 2),
            ('gpu=~"0|own"', 2),
        ):
            result = raw_by_both_roads(lab, name, START, START + timedelta(hours=1), matchers)
            assert len(result["json"]) == series
            assert result["json"] == result["stream"]


def n_series(lab: PrometheusLab, name: str) -> int:
    """How many series of a name the server has now."""
    now = datetime.fromtimestamp(wall_clock(), UTC)
    return len(PrometheusServer(lab.url, retries=0).points(name, first=now, last=now, step=timedelta(seconds=1)).labels)


def test_ended_series_have_equal_readings_by_both_transports() -> None:
    """Scraped for real: an exporter that goes away leaves a mark in its series, which is no reading."""
    need_prometheus()
    name, begin = "DCGM_FI_DEV_GPU_UTIL", wall_clock() // 1 - 1
    with DcgmExporter("n1", gpus=1) as stays:
        gone = DcgmExporter("n2", gpus=1).__enter__()
        stays.set(name, 1)
        gone.set(name, 2)
        with PrometheusLab(targets=[stays.address, gone.address], scrape_s=0.25) as lab:
            wait_until(lambda: n_series(lab, name) == 2, 60, "both to be scraped")
            gone.__exit__(None, None, None)
            wait_until(lambda: n_series(lab, name) == 1, 60, "one to be gone")  # by its mark; else after five minutes
            end = wall_clock() // 1 + 1
            wait_until(lambda: wall_clock() > end + 1, 20, "nothing more to be scraped in that time")
            low, high = (datetime.fromtimestamp(moment, UTC) for moment in (begin, end))
            result = raw_by_both_roads(lab, name, low, high)
    assert len(result["json"]) == 2
    assert result["json"] == result["stream"]


def test_sticky_xids_are_events_once_when_they_appeared(reference: Path) -> None:
    with open_reader(reference) as reader:
        events = (
            reader.table("health_events")
            .filter(kind="xid")
            .sort("ts")
            .select("node", "gpu", "ts", "code", "severity")
            .rows()
        )
    appeared = [(node, gpu, _seen_at(node, since), xid) for (node, gpu), xids in XIDS.items() for since, xid in xids]
    assert [(node, gpu, (ts - START).total_seconds(), int(xid)) for node, gpu, ts, xid, _ in events] == sorted(
        appeared, key=lambda event: event[2]
    )
    assert [severity for *_, severity in events] == ["info", "critical", "critical", "critical"]


def test_links_that_went_down_are_events_each_time(reference: Path) -> None:
    with open_reader(reference) as reader:
        events = reader.table("health_events").filter(kind="ib", code="link_downed").sort("ts")
    assert [
        (row["node"], row["device"], (row["ts"] - START).total_seconds()) for row in events.iter_rows(named=True)
    ] == [("n1", "mlx5_0/1", second) for second in FLAPS]


def _seen_at(node: str, since: int) -> int:
    """The first scrape that could see it."""
    return next(s for s in range(0, HOURS * 3600, SCRAPE_S) if s >= since and scraped(s, node))


@pytest.mark.parametrize("chunk_hours", [0.75, 24 * 10])
def test_intervals_of_any_length_give_the_same(
    reference: Path, server: PrometheusLab, tmp_path: Path, chunk_hours: float
) -> None:
    # Ten days at once are 14,400 points, and Prometheus gives no more than 11,000.
    since = START - timedelta(days=9) if chunk_hours > 24 else START - timedelta(hours=1)
    reports = ingest(tmp_path / "w", settings(server, chunk_hours=chunk_hours), since=since)
    assert [report.error for report in reports if report.error] == []
    assert_same(tmp_path / "w", reference)


def test_intervals_in_any_order_and_twice_give_the_same(reference: Path, server: PrometheusLab, tmp_path: Path) -> None:
    for low, high in ((2, 3), (0, 2), (-1, 1), (-1, 3)):
        ingest(
            tmp_path / "w",
            settings(server),
            since=START + timedelta(hours=low),
            until=START + timedelta(hours=high),
        )
    assert_same(tmp_path / "w", reference)


def test_history_as_a_file_equals_history_from_the_server(reference: Path, tmp_path: Path) -> None:
    path = tmp_path / "history.om"
    path.write_text(history(nodes=True))
    done = trackside("ingest", "prometheus", "--cluster", "c", "--warehouse", str(tmp_path / "w"), str(path))
    assert done.returncode == 0, done.stderr
    assert_equal_inside(tmp_path / "w", reference)


def test_a_saved_answer_equals_what_is_read_from_the_server(
    reference: Path, server: PrometheusLab, tmp_path: Path
) -> None:
    parameters = {"query": '{__name__!=""}[1d]', "time": str(T + HOURS * 3600)}
    with urlopen(f"{server.url}/api/v1/query?{urlencode(parameters)}") as response:
        (tmp_path / "answer.json").write_bytes(response.read())
    done = trackside(
        "ingest", "prometheus", "--cluster", "c", "--warehouse", str(tmp_path / "w"), str(tmp_path / "answer.json")
    )
    assert done.returncode == 0, done.stderr
    assert_equal_inside(tmp_path / "w", reference)


def assert_equal_inside(loaded: Path, reference: Path) -> None:
    """Of a file and of the server: the same events, and the same samples of the history but for its ends."""
    from_file, from_server = contents(loaded), contents(reference)
    assert from_file["health_events"].equals(from_server["health_events"])
    inner = (pl.col("ts") >= START) & (pl.col("ts") < START + timedelta(hours=HOURS, minutes=-1))
    for name in ("gpu_samples", "node_samples"):
        one, other = (result[name].filter(inner) for result in (from_file, from_server))
        floats = [column for column, kind in one.schema.items() if kind.is_float()]
        key = [column for column in one.columns if column not in floats]
        one, other = one.sort(key), other.sort(key)
        assert one.height > 0
        assert one.select(key).equals(other.select(key))
        for column in floats:
            assert one[column].is_null().equals(other[column].is_null())
            assert one[column].drop_nulls().to_list() == pytest.approx(other[column].drop_nulls().to_list(), rel=1e-6)


def test_server_with_a_sample_limit_is_queried_by_intervals(reference: Path, tmp_path: Path) -> None:
    need_prometheus()
    with PrometheusLab(history=history(nodes=True), flags=["--query.max-samples=300"]) as small:
        reports = ingest(tmp_path / "w", settings(small, remote_read=False))
        assert [report.error for report in reports if report.error] == []
    assert_alike(tmp_path / "w", reference)


def test_server_that_may_scan_nothing_is_reported(tmp_path: Path) -> None:
    need_prometheus()
    with PrometheusLab(history=history(), flags=["--query.max-samples=2"]) as tiny:
        *_, last = ingest(tmp_path / "w", settings(tiny, remote_read=False))
    assert "Even the smallest segment is too large" in str(last.error)


def test_an_empty_server_is_a_warning(tmp_path: Path) -> None:
    need_prometheus()
    with PrometheusLab() as empty:
        done = trackside(
            *("ingest", "prometheus", "--cluster", "c", "--url", empty.url, "--warehouse", str(tmp_path / "w"))
        )
    assert done.returncode == 0
    assert "answers, but has no DCGM series" in done.stderr


def test_an_address_with_a_path_too_many_is_explained(server: PrometheusLab, tmp_path: Path) -> None:
    done = trackside(
        *("ingest", "prometheus", "--cluster", "c", "--url", f"{server.url}/graph"),
        *("--warehouse", str(tmp_path / "w")),
    )
    assert done.returncode == 22
    assert "Give the base address of the server, without /graph" in done.stderr


def test_live_exporters_are_read_with_the_values_they_were_given(tmp_path: Path) -> None:
    """Half a minute of real scrapes: one exporter writes Hostname, the other hostname; one GPU has two jobs.

    A node_exporter counts at a known rate, and begins again at 0 in the second interval.
    """
    need_prometheus()
    tensor, xid = "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "DCGM_FI_DEV_XID_ERRORS"
    with (
        DcgmExporter("n1", gpus=2) as one,
        DcgmExporter("n2", gpus=1, host_label="hostname") as two,
        NodeExporter("n1") as node,
    ):
        for exporter, tensor_active in ((one, 0.25), (two, 0.75)):
            exporter.set(tensor, tensor_active)
            exporter.set(xid, 0)
        one.run_jobs(1, "7", "8")
        node.set("node_load1", 3)
        node.grow("node_infiniband_port_data_received_bytes_total", 1000, device="mlx5_0", port="1")
        with PrometheusLab(targets=[one.address, two.address, node.address], scrape_s=0.5) as lab:
            wait_until(lambda: n_series(lab, tensor) == 4 and n_series(lab, "node_load1") == 1, 60, "a scrape of each")
            begin = -(-(wall_clock() + 3) // 10) * 10  # with scrapes before: else its rate begins later
            wait_until(lambda: wall_clock() > begin + 12, 60, "a whole interval of scrapes")
            one.set(xid, 79, gpu=1)
            hit = wall_clock()
            node.restart()
            wait_until(lambda: wall_clock() > begin + 21, 30, "another one")
            config = settings(lab, interval_s=10, lookback_hours=0.1)
            until = datetime.fromtimestamp(begin + 21, UTC)
            ingest(tmp_path / "w", config, since=None, until=until)
            ingest(tmp_path / "w", config, since=None, until=until)
    with open_reader(tmp_path / "w") as reader:
        samples, events = reader.table("gpu_samples"), reader.table("health_events")
        of_nodes = reader.table("node_samples")
    whole = [round(begin), round(begin) + 10]
    seen = samples.filter(pl.col("ts").dt.epoch("s").is_in(whole)).sort("node", "gpu", "ts")
    assert seen.select("node", "gpu", "tensor_active").rows() == [
        *[("n1", "0", 0.25)] * 2,
        *[("n1", "1", 0.25)] * 2,
        *[("n2", "0", 0.75)] * 2,
    ]
    (event,) = events.iter_rows(named=True)
    assert (event["node"], event["gpu"], event["code"], event["severity"]) == ("n1", "1", "79", "critical")
    assert 0 <= event["ts"].timestamp() - hit < 9  # scrapes are late where much else is done
    assert set(of_nodes["node"]) == {"n1"}
    then = of_nodes.filter(pl.col("ts").dt.epoch("s").is_in(whole)).sort("metric", "ts")
    assert then.select("metric", "device").rows() == [("ib_received_bytes_per_s", "mlx5_0/1")] * 2 + [("load1", "")] * 2
    first, second, *load = then["value"].to_list()
    assert first == pytest.approx(1000, rel=0.1)
    assert 400 < second < 1100  # up to the last scrape before the new beginning, and from there on
    assert load == [3, 3]


def test_doctor_reports_the_server(server: PrometheusLab, tmp_path: Path) -> None:
    (tmp_path / "trackside.toml").write_text(f'[prometheus]\nurl = "{server.url}"\n')
    done = trackside("doctor", "--warehouse", str(tmp_path / "w"), cwd=tmp_path)
    assert f"warn {server.url} answers, but has no DCGM series" in done.stdout  # its history is weeks old
