"""A real VictoriaMetrics fed the history of a real Prometheus: the same readings by every transport and warehouse."""

from __future__ import annotations

import re
import struct
from datetime import timedelta
from typing import TYPE_CHECKING
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest

from ingest.errors import ServerDownError
from ingest.prometheus.client.server import PrometheusServer
from queries.warehouse import open_reader
from tests.lab.prometheus import PrometheusLab, need_prometheus
from tests.lab.victoria import VictoriaLab, need_victoria
from tests.support.command import assert_same, trackside
from tests.support.telemetry.telemetry_lab import (
    EXPORTED,
    HOURS,
    SCRAPE_S,
    SECOND,
    START,
    T,
    assert_alike,
    history,
    ingest,
    raw,
    settings,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


pytestmark = [pytest.mark.xdist_group("prometheus")]

END = START + timedelta(hours=HOURS)


def as_exported() -> str:
    """The history with the digits that an exporter writes: VictoriaMetrics keeps decimals, and of 17 digits not all."""
    text = history(nodes=True)
    return re.sub(r" ([\d.e-]+) (\d+)$", lambda one: f" {float(one[1]):.6f} {one[2]}", text, flags=re.MULTILINE)


@pytest.fixture(scope="module")
def victoria() -> Iterator[VictoriaLab]:
    need_victoria()
    with VictoriaLab(history=as_exported()) as lab:
        yield lab


@pytest.fixture(scope="module")
def prometheus() -> Iterator[PrometheusLab]:
    need_prometheus()
    with PrometheusLab(history=as_exported()) as lab:
        yield lab


def test_raw_readings_are_bit_equal_by_every_transport(victoria: VictoriaLab, prometheus: PrometheusLab) -> None:
    one, other = PrometheusServer(prometheus.url, retries=0), PrometheusServer(victoria.url, retries=0)
    assert (one.describe_transport(), other.describe_transport()) == ("remote read", "VictoriaMetrics' export")
    for name in EXPORTED:
        for low, high in ((0, HOURS * 3600), (3599, 5385), (15, 30)):
            begin, end = START + low * SECOND, START + high * SECOND
            streamed = raw(one, name, begin, end, json=False)
            assert len(streamed) == 5
            assert raw(one, name, begin, end, json=True) == streamed
            assert raw(other, name, begin, end, json=False) == streamed
            assert raw(other, name, begin, end, json=True) == streamed


def test_a_saved_export_is_the_text_of_its_readings(victoria: VictoriaLab, tmp_path: Path) -> None:
    """The export as lines of JSON, and as the server writes Prometheus' text."""
    for name, form in (("lines", {}), ("text", {"format": "prometheus"})):
        parameters = urlencode({"match[]": '{__name__=~".+"}', **form})
        with urlopen(f"{victoria.url}/api/v1/export?{parameters}") as response:
            (tmp_path / name).write_bytes(response.read())
        command = ("ingest", "prometheus", "--cluster", "c", "--warehouse", str(tmp_path / f"w-{name}"))
        assert trackside(*command, str(tmp_path / name)).returncode == 0
    assert_same(tmp_path / "w-lines", tmp_path / "w-text")


def test_an_export_of_missing_series_is_empty(victoria: VictoriaLab) -> None:
    server = PrometheusServer(victoria.url, retries=0)
    for name, matchers in (("nothing_has_this_name", ""), (next(iter(EXPORTED)), 'gpu="17"')):
        assert raw(server, name, START, END, json=False, matchers=matchers) == {}
        assert raw(server, name, START, END, json=True, matchers=matchers) == {}


def test_averages_of_the_servers_are_the_same_to_nine_digits(victoria: VictoriaLab, prometheus: PrometheusLab) -> None:
    """Each is asked with the window that makes it count what lies after its left end; sums differ at the end."""
    result = {}
    for lab in (prometheus, victoria):
        server = PrometheusServer(lab.url, retries=0)
        width = timedelta(minutes=5)
        for name in EXPORTED:
            query = f"max by (Hostname, gpu) (avg_over_time({name}{server.window(width, at=END)}))"
            points = server.points(query, first=START + width, last=END, step=width)
            at = 0
            for labels, size in zip(points.labels, points.sizes.tolist(), strict=True):
                reported = dict(zip(points.times[at : at + size].tolist(), points.values[at : at + size], strict=True))
                result[lab.url, name, labels["Hostname"], labels["gpu"]] = reported
                at += size
    keys = [key[1:] for key in result if key[0] == prometheus.url]
    assert len(keys) == 4 * len(EXPORTED)
    for key in keys:
        left, right = result[prometheus.url, *key], result[victoria.url, *key]
        assert left.keys() == right.keys()
        assert list(left.values()) == pytest.approx([right[moment] for moment in left], rel=1e-9)


@pytest.mark.parametrize("remote_read", [True, False])
def test_the_warehouse_is_the_one_that_prometheus_makes(
    victoria: VictoriaLab, prometheus: PrometheusLab, tmp_path: Path, remote_read: bool
) -> None:
    for lab, name in ((prometheus, "one"), (victoria, "other")):
        reports = ingest(tmp_path / name, settings(lab, remote_read=remote_read))  # type: ignore[arg-type]  # it has a url
        assert "\n".join(str(report.error) for report in reports if report.error) == ""
    assert_alike(tmp_path / "other", tmp_path / "one")
    with open_reader(tmp_path / "other") as reader:
        origins = reader.table("loads")["origin"].to_list()
    assert all(victoria.url in origin for origin in origins)


def test_server_with_point_and_series_limits_gets_small_queries(victoria: VictoriaLab, tmp_path: Path) -> None:
    """Of samples it counts those of whole blocks, however short the time is: there smaller pieces are of no use."""
    with VictoriaLab(
        history=as_exported(), flags=["-search.maxPointsPerTimeseries=100", "-search.maxUniqueTimeseries=9"]
    ) as small:
        for lab, name in ((victoria, "one"), (small, "other")):
            reports = ingest(tmp_path / name, settings(lab, remote_read=False))  # type: ignore[arg-type]  # as above
            assert "\n".join(str(report.error) for report in reports if report.error) == ""
    assert_alike(tmp_path / "other", tmp_path / "one")


def test_unavailable_server_differs_from_refusing_and_is_resumed(victoria: VictoriaLab) -> None:
    with VictoriaLab(history=as_exported()) as lab:
        lab.kill()
        with pytest.raises(ServerDownError, match="Connection refused") as caught:
            PrometheusServer(lab.url, retries=0).names(since=START, until=END)
        assert caught.value.unreachable
        lab.start()
        lab.feed(as_exported())  # what came a moment before it was killed is lost
        name = next(iter(EXPORTED))
        one, other = (PrometheusServer(each.url, retries=0) for each in (lab, victoria))
        assert raw(one, name, START, END, json=False) == raw(other, name, START, END, json=False)


def test_equal_times_are_one_reading_and_non_numbers_none() -> None:
    """VictoriaMetrics keeps both readings of two servers that scrape the same; it drops NaN when it is fed."""
    need_victoria()
    lines = [
        f'x{{a="1"}} 2 {T + SCRAPE_S}.001',
        f'x{{a="1"}} 3 {T + SCRAPE_S}.001',
        f'x{{a="1"}} NaN {T + 2 * SCRAPE_S}',
        f'x{{a="2"}} 0.125 {T + SCRAPE_S}',
        f'x{{a="inf"}} +Inf {T + SCRAPE_S}',
    ]
    with VictoriaLab(history="\n".join(lines) + "\n") as lab:
        server = PrometheusServer(lab.url, retries=0)
        exported = raw(server, "x", START, END, json=False)
        assert exported == raw(server, "x", START, END, json=True)
    assert sorted((dict(key)["a"], points) for key, points in exported.items()) == [
        ("1", [(1000 * (T + SCRAPE_S) + 1, struct.pack("d", 3))]),
        ("2", [(1000 * (T + SCRAPE_S), struct.pack("d", 0.125))]),
        ("inf", [(1000 * (T + SCRAPE_S), struct.pack("d", float("inf")))]),
    ]


def test_doctor_reports_the_transport(tmp_path: Path) -> None:
    from tests.lab.processes import now  # the doctor looks at the last minutes

    need_victoria()
    name = "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE"
    with VictoriaLab(history=f'{name}{{gpu="0",Hostname="n1"}} 0.5 {int(now())}\n') as lab:
        (tmp_path / "trackside.toml").write_text(f'[prometheus]\nurl = "{lab.url}"\n')
        done = trackside("doctor", "--warehouse", str(tmp_path / "w"), cwd=tmp_path)
    assert "read by VictoriaMetrics' export" in done.stdout
