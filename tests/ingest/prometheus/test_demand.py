"""How much a day of a server would read: counted by the server, of the series that are read."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from ingest.errors import ServerDownError
from ingest.prometheus.client.server import PrometheusServer
from ingest.prometheus.demand import Demand, demands
from ingest.prometheus.reader import ScrapeSpec
from tests.support.web import Answer, not_found, told, unsupported, web

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ingest.tables import SourceName

NOW = datetime(2026, 11, 1, tzinfo=UTC)
EXPORTED: Mapping[SourceName, list[str]] = {
    "prometheus.gpu": ["DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_XID_ERRORS"],
    "prometheus.node": ["node_cpu_seconds_total", "node_load1"],
}
SERIES = {"DCGM_FI_DEV_GPU_UTIL": 16, "node_cpu_seconds_total": 192, "node_load1": 2}


def vector(*values: tuple[dict[str, str], float]) -> Answer:
    result = [{"metric": labels, "value": [NOW.timestamp(), str(value)]} for labels, value in values]
    return told({"resultType": "vector", "result": result})


REFUSAL = Answer(
    b'{"status":"error","errorType":"execution","error":"query processing would load too many samples"}', 422
)


def answer(_path: str, params: dict[str, str]) -> Answer:
    """Series by name; 40 readings of each in ten minutes, ten of the load. Readings of all instances are refused."""
    query = params["query"]
    assert "XID" not in query
    assert "__name__" in query or "node_cpu" not in query or 'mode=~"idle|iowait"' in query  # those that are read
    if "count_over_time(" in query:
        if 'instance=~"a\\\\.b:9"' not in query:
            return REFUSAL
        return vector(({"job": "node"}, 10.0 if "node_load1" in query else 40.0))
    if query.startswith("bottomk"):
        return vector(({"job": "node", "instance": "a.b:9"}, 1.0))
    if query.startswith("count by (job)"):
        return vector(({"job": "node"}, 16.0))
    return vector(*(({"__name__": name}, count) for name, count in SERIES.items() if name in query))


def streamed(_: bytes) -> Answer:
    return Answer(b"", kind="application/x-streamed-protobuf")


def found(
    *, raw: bool, interval_s: int = 60, given: Callable[[str, dict[str, str]], Answer] = answer
) -> dict[str, Demand]:
    with web(given, streamed if raw else unsupported, export=not_found) as running:
        server = PrometheusServer(running.url)
        try:
            return {each.source: each for each in demands(server, ScrapeSpec("c", "", interval_s), EXPORTED, at=NOW)}
        finally:
            server.close()


def test_raw_readings_are_counted_by_scrapes() -> None:
    result = found(raw=True)
    gpus, nodes = result["prometheus.gpu"], result["prometheus.node"]
    assert (gpus.n_series, gpus.every_s, gpus.raw) == (16, {"DCGM_FI_DEV_GPU_UTIL": 15.0}, True)
    assert gpus.samples == 16 * 5760
    assert nodes.every_s == {"node_cpu_seconds_total": 15.0, "node_load1": 60.0}
    assert nodes.paces == (15.0, 60.0)
    assert nodes.samples == 192 * 5760 + 2 * 1440
    assert nodes.largest(1) == [("node_cpu_seconds_total", 192)]


@pytest.mark.parametrize(("raw", "interval_s"), [(True, 3600), (False, 60)])
def test_means_by_the_server_are_counted_by_their_intervals(raw: bool, interval_s: int) -> None:
    result = found(raw=raw, interval_s=interval_s)
    assert (result["prometheus.gpu"].paces, result["prometheus.gpu"].raw) == ((interval_s, interval_s), False)
    assert result["prometheus.node"].raw


def test_server_that_refuses_to_count_is_an_error() -> None:
    with web(lambda *_: REFUSAL, streamed) as running:
        server = PrometheusServer(running.url)
        with pytest.raises(ServerDownError, match="refuses the query"):
            list(demands(server, ScrapeSpec("c", "", 60), EXPORTED, at=NOW))
        server.close()


def test_metric_that_is_refused_has_no_pace_and_the_others_do() -> None:
    def refusing(path: str, params: dict[str, str]) -> Answer:
        query = params["query"]
        return REFUSAL if "count_over_time(node_cpu" in query else answer(path, params)

    nodes = found(raw=True, given=refusing)["prometheus.node"]
    assert (nodes.every_s, nodes.unknown) == ({"node_load1": 60.0}, ["node_cpu_seconds_total"])
    assert (nodes.n_series, nodes.samples, nodes.largest()) == (194, 2 * 1440, [("node_load1", 2)])


def test_jobs_of_a_metric_weigh_as_their_series() -> None:
    def two_jobs(path: str, params: dict[str, str]) -> Answer:
        query = params["query"]
        if query.startswith("count by (job)"):
            return vector(({"job": "many"}, 90.0), ({"job": "few"}, 10.0))
        if "count_over_time(" in query:
            return vector(({"job": "many"}, 40.0), ({"job": "few"}, 10.0))
        return answer(path, params)

    assert found(raw=True, given=two_jobs)["prometheus.gpu"].every_s == {"DCGM_FI_DEV_GPU_UTIL": 600 / 37}
