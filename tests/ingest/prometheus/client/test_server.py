"""Reading a server: captured answers beside the rows they make, and what is done when it does not answer as it should.

The answers in tests/data/prometheus are those of a real Prometheus 2.42.
"""

from __future__ import annotations

import base64
import json
import re
import time
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import pytest

from ingest.errors import ServerDownError
from ingest.load_warnings import messages
from ingest.prometheus.client import http as prometheus_http
from ingest.prometheus.client.auth import Login
from ingest.prometheus.client.http import LONGEST_WAIT_S
from ingest.prometheus.client.server import BOTH_ENDS, PrometheusServer
from ingest.prometheus.files.openmetrics import parse_openmetrics
from ingest.prometheus.gpu.server import READER, no_metrics, read
from ingest.prometheus.mapping.mapping import builtin
from ingest.prometheus.reader import ScrapeSpec
from tests.support.slurm.parsing import at
from tests.support.web import Answer, matrix, told, web

if TYPE_CHECKING:
    from collections.abc import Callable

DATA = Path(__file__).parents[3] / "data" / "prometheus"
T = 1_795_248_000
TENSOR, XID = "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "DCGM_FI_DEV_XID_ERRORS"
WANTED = ScrapeSpec("c", 'env="prod"', 60)
NAMES = told([TENSOR])
EMPTY = matrix()


def number(value: int) -> Answer:
    """The answer to a question for one number."""
    return told({"resultType": "vector", "result": [{"metric": {}, "value": [T, str(value)]}]})


def server(
    url: str, *, retries: int = 2, waits: list[float] | None = None, timeout_s: float = 60.0
) -> PrometheusServer:
    return PrometheusServer(
        url, retries=retries, timeout_s=timeout_s, sleep=(waits if waits is not None else []).append
    )


def never(_: float) -> None:
    pytest.fail("nobody should wait here")


def captured(path: str, params: dict[str, str]) -> Answer:
    """The real server's answers, by what was asked."""
    query = params.get("query", "")
    if query == BOTH_ENDS:
        return number(2)
    if path.endswith("/query_range"):
        return Answer((DATA / "tensor-averages.json").read_bytes())
    if query.startswith("max by"):
        return told({"resultType": "vector", "result": [{"metric": {"Hostname": "n1.example"}, "value": [T, "79"]}]})
    return Answer((DATA / "xid-readings.json").read_bytes())


def names(url: str, **more: object) -> list[str]:
    return server(url, **more).names("", since=at(T), until=at(T + 60))  # type: ignore[arg-type]  # options of `server`


def points(url: str, seconds: int, **more: object) -> list[float]:
    """Times (seconds after T) of the points that a grid of minutes gives."""
    actual = server(url, **more).points(  # type: ignore[arg-type]  # as above
        "up", first=at(T + 60), last=at(T + seconds), step=timedelta(seconds=60)
    )
    return [(moment - T * 1000) / 1000 for moment in actual.times.tolist()]


def test_captured_averages_are_samples_of_the_time_before_them() -> None:
    with web(captured) as there:
        parsed = read(server(there.url), WANTED, [TENSOR], since=at(T), until=at(T + 360))
    rows = parsed.frames["gpu_samples"].select(
        "node", "gpu", (pl.col("ts").dt.epoch("s") - T).alias("second"), pl.col("tensor_active").round(4)
    )
    # n1 gpu 1 was blank in the first minute and not scraped in minutes 4 and 5; n2 has two MIG instances.
    assert rows.rows() == [
        *[("n1", "0", 60 * n, 0.25 if n < 2 else 0.75) for n in range(6)],
        *[("n1", "1", second, 0.0) for second in (60, 120, 240, 300)],
        *[("n2", "0", 60 * n, 0.5) for n in range(6)],
    ]
    assert set(parsed.frames["gpu_samples"]["interval_s"]) == {60.0}
    assert (parsed.covers_from, parsed.covers_until) == (at(T), at(T + 360))
    assert parsed.rejects["reason"].to_list() == ["no label names the node and the GPU"]


def test_captured_sticky_gauge_gives_events_at_its_edges() -> None:
    with web(captured) as there:
        parsed = read(server(there.url), WANTED, [XID], since=at(T), until=at(T + 360))
    events = parsed.frames["health_events"].select("node", "gpu", "ts", "code", "severity").rows()
    assert events == [("n1", "0", at(T + 105), "79", "critical"), ("n1", "0", at(T + 210), "45", "info")]


def test_raw_xids_are_requested_only_of_nodes_that_have_one() -> None:
    with web(captured) as there:
        read(server(there.url), WANTED, [XID], since=at(T), until=at(T + 360))
    raw = [params["query"] for _, params, _ in there.questions if not params["query"].startswith("max")]
    assert raw == [f'{XID}{{env="prod",Hostname=~"n1\\\\.example"}}[3960000ms]']


def test_averages_are_requested_on_the_grid_with_the_selector() -> None:
    with web(lambda *_: EMPTY) as there:
        read(server(there.url), WANTED, [TENSOR], since=at(T), until=at(T + 360))
    _, (_, params, _) = there.questions
    assert f'avg_over_time({TENSOR}{{env="prod"}}[59999ms])' in params["query"]
    assert (params["start"], params["end"], params["step"]) == (str(T + 60), str(T + 360), "60")


class Engine:
    """A server of a gauge that is its reading's number, as Prometheus 2 (closed windows) or 3 (left end left out)."""

    def __init__(self, *milliseconds: int, closed: bool) -> None:
        self.readings = [(T * 1000 + each, number) for number, each in enumerate(milliseconds)]
        self.closed = closed

    def within(self, end_s: float, width_ms: int) -> list[tuple[int, int]]:
        end = round(end_s * 1000)
        low = end - width_ms if self.closed else end - width_ms + 1
        return [(moment, value) for moment, value in self.readings if low <= moment <= end]

    def __call__(self, path: str, params: dict[str, str]) -> Answer:
        if params["query"] == BOTH_ENDS:
            return number(2 if self.closed else 1)
        (width,) = re.findall(r"\[(\d+)ms\]", params["query"])
        labels = {"gpu": "0", "Hostname": "n1"}
        if path.endswith("/query"):
            actual = self.within(float(params["time"]), int(width))
            return matrix((labels, [(moment / 1000, str(value)) for moment, value in actual]))
        ends = range(int(params["start"]), int(params["end"]) + 1, int(params["step"]))
        inside = [(end, [value for _, value in self.within(end, int(width))]) for end in ends]
        return matrix((labels, [(end, str(sum(values) / len(values))) for end, values in inside if values]))


@pytest.mark.parametrize("closed", [True, False])
@pytest.mark.parametrize("offset_ms", [0, 1, 59_999])
def test_each_reading_counts_once_at_any_offset_and_window_kind(closed: bool, offset_ms: int) -> None:
    """A target is scraped at the same moment of each minute: one that is in no window would have no telemetry."""
    readings = [offset_ms + 60_000 * minute for minute in range(-1, 7)]
    with web(Engine(*readings, closed=closed)) as there:
        actual = server(there.url).points(
            f"avg_over_time(x{server(there.url).window(timedelta(minutes=1), at=at(T))})",
            first=at(T + 60), last=at(T + 360), step=timedelta(minutes=1),
        )  # fmt: skip
    first = 2 if offset_ms == 0 else 1  # at the end of the first minute, or within it
    assert actual.values.tolist() == [float(first + minute) for minute in range(6)]


def test_available_windows_are_requested_once() -> None:
    with web(Engine(1, closed=False)) as there:
        one = server(there.url)
        assert [one.window(timedelta(seconds=60), at=at(T)) for _ in range(3)] == ["[60000ms]"] * 3
        assert len(there.questions) == 1


@pytest.mark.parametrize("answer", [EMPTY, number(3), Answer(b"no subqueries", 400), Answer(b"no", 403)])
def test_server_of_unknown_window_kind_is_taken_for_the_older(answer: Answer) -> None:
    with web(lambda *_: answer) as there:
        assert server(there.url).window(timedelta(seconds=60), at=at(T)) == "[59999ms]"


def test_unavailable_server_is_not_taken_for_one_of_unknown_kind() -> None:
    with web(lambda *_: Answer(b"", 503)) as there, pytest.raises(ServerDownError, match="status 503"):
        server(there.url).window(timedelta(seconds=60), at=at(T))


@pytest.mark.parametrize("closed", [True, False])
def test_raw_readings_requested_in_intervals_are_complete(closed: bool) -> None:
    """Pieces may end within a millisecond; here they do after 93.75 ms."""
    engine = Engine(*range(1, 1501), closed=closed)

    def answer(path: str, params: dict[str, str]) -> Answer:
        (width,) = re.findall(r"\[(\d+)ms\]", params["query"])
        return engine(path, params) if int(width) < 100 else Answer(b"", status=413)

    with web(answer) as there:
        actual = server(there.url).readings("x", since=at(T), until=at(T + 2), step=timedelta(milliseconds=50))
    assert actual.values.tolist() == list(range(1500))  # nor does one come twice


def test_a_ratio_in_percent_is_left_out_whole() -> None:
    name, labels = "DCGM_FI_DEV_GPU_UTIL_RATIO", {"gpu": "0", "Hostname": "n1"}

    def answer(_: str, params: dict[str, str]) -> Answer:
        points = [(T + 60.0, "1"), (T + 120.0, "0.25"), (T + 180.0, "97")]
        return number(2) if params["query"] == BOTH_ENDS else matrix((labels, points))

    with web(answer) as there:
        parsed = read(server(there.url), WANTED, [name], since=at(T), until=at(T + 180))
    assert parsed.frames["gpu_samples"].is_empty()
    assert (parsed.rows_read, parsed.rows_loaded, parsed.rows_skipped) == (3, 0, 3)
    (warning,) = messages(parsed.warnings)
    assert "all 3 were left out" in warning


def test_gpu_by_index_and_by_uuid_of_two_exporters_is_one() -> None:
    """DCGM has both labels, nvidia-smi's exporter only the UUID, without the GPU- before it."""
    answers = {
        "DCGM_FI_DEV_POWER_USAGE": {"gpu": "3", "UUID": "GPU-6A", "Hostname": "n1"},
        "nvidia_smi_utilization_gpu_ratio": {"uuid": "6a", "instance": "n1:9835"},
    }

    def answer(_: str, params: dict[str, str]) -> Answer:
        if params["query"] == BOTH_ENDS:
            return number(2)
        (labels,) = (labels for name, labels in answers.items() if name in params["query"])
        return matrix((labels, [(T + 60.0, "1")]))

    with web(answer) as there:
        parsed = read(server(there.url), WANTED, [*answers], since=at(T), until=at(T + 60))
    rows = parsed.frames["gpu_samples"].select("node", "gpu", "power_w", "gpu_util").rows()
    assert rows == [("n1", "3", 1.0, 1.0)]
    assert (parsed.rows_read, parsed.rows_loaded, parsed.rows_rejected) == (2, 2, 0)


def test_own_metrics_are_requested_with_their_label_matchers() -> None:
    entry = {"name": "my_power", "fills": "gpu_samples.power_w", "where": {"rail": "12v|gpu"}}
    wanted = replace(WANTED, mapping=builtin().and_more([entry], origin="mine"))
    labels = {"gpu": "0", "Hostname": "n1"}
    with web(
        lambda _, params: number(2) if params["query"] == BOTH_ENDS else matrix((labels, [(T + 60.0, "70")]))
    ) as there:
        parsed = read(server(there.url), wanted, ["my_power"], since=at(T), until=at(T + 60))
    _, (_, params, _) = there.questions
    assert 'avg_over_time(my_power{env="prod",rail=~"12v|gpu"}[59999ms])' in params["query"]
    assert parsed.frames["gpu_samples"].select("node", "gpu", "power_w").rows() == [("n1", "0", 70.0)]
    assert "my_power" in READER.names(wanted)
    assert "my_power" not in READER.names(WANTED)


def gauge(**values: list[tuple[int, int]]) -> tuple[list[tuple[dict[str, str], list[tuple[float, str]]]], list[str]]:
    """One GPU's XIDs as several series, seconds after T: as a server answers, and as lines of a file."""
    labels = {pod: {"Hostname": "n1", "gpu": "0", "pod": pod} for pod in values}
    answered = [(labels[pod], [(float(T + s), str(code)) for s, code in told_by]) for pod, told_by in values.items()]
    lines = [
        f'{XID}{{gpu="0",pod="{pod}",Hostname="n1"}} {code} {T + s}'
        for pod, told_by in values.items()
        for s, code in told_by
    ]
    return answered, lines


@pytest.mark.parametrize(
    ("values", "events"),
    [
        # Two exporters that disagree, scraped 8 s apart.
        (
            {"one": [(s, 79 if s else 0) for s in range(0, 600, 15)], "late": [(s, 0) for s in range(98, 600, 15)]},
            [(15, "79", "critical")],
        ),
        # Two MIG instances.
        (
            {"one": [(0, 0), (15, 79), (30, 79), (45, 79)], "two": [(0, 0), (15, 0), (30, 31), (45, 31)]},
            [(15, "79", "critical"), (30, "31", "info")],
        ),
        # A job that dies of it, and the series after it.
        ({"job": [(0, 0), (15, 0)], "none": [(30, 79), (45, 79)]}, [(30, "79", "critical")]),
        # It was there before.
        ({"one": [(0, 79), (15, 79)]}, [(0, "79", "info")]),
    ],
)
def test_server_and_file_give_the_same_xids(
    values: dict[str, list[tuple[int, int]]], events: list[tuple[int, str, str]]
) -> None:
    answered, lines = gauge(**values)

    def answer(_: str, params: dict[str, str]) -> Answer:
        if params["query"].startswith("max by"):
            return told({"resultType": "vector", "result": [{"metric": {"Hostname": "n1"}, "value": [T, "79"]}]})
        return matrix(*answered)

    with web(answer) as there:
        requested = read(server(there.url), WANTED, [XID], since=at(T - 60), until=at(T + 600))
    text = "\n".join([*lines, "# EOF\n"]).encode()
    filed, *_ = parse_openmetrics([text], origin="x", cluster="c", interval_s=60, now=at(T + 3600))
    actual = requested.frames["health_events"]
    assert actual.equals(filed.frames["health_events"])
    assert actual.select(pl.col("ts").dt.epoch("s") - T, "code", "severity").rows() == events


def test_event_of_an_earlier_interval_is_not_repeated_by_another() -> None:
    """The hour that is looked back at begins between the scrapes of two exporters, of which the first saw it before."""
    begin = -3600
    answered, _ = gauge(
        first=[(begin + s, 79) for s in range(4, 300, 15)],
        second=[(begin + s, 0 if s < 12 else 79) for s in range(8, 300, 15)],
    )

    def answer(_: str, params: dict[str, str]) -> Answer:
        if params["query"].startswith("max by"):
            return told({"resultType": "vector", "result": [{"metric": {"Hostname": "n1"}, "value": [T, "79"]}]})
        return matrix(*answered)

    with web(answer) as there:
        parsed = read(server(there.url), WANTED, [XID], since=at(T), until=at(T + 600))
    events = parsed.frames["health_events"].select(pl.col("ts").dt.epoch("s") - T, "severity").rows()
    assert events == [(begin + 4, "info")]


@pytest.mark.parametrize(
    ("second", "there", "events"),
    [
        (20, True, [(20, "79", "critical")]),  # in the first minute of the piece, of a GPU that was there before
        (20, False, [(20, "79", "info")]),
        (80, False, [(80, "79", "critical")]),
    ],
)
def test_xid_at_the_start_of_a_series_is_an_event_at_any_cut(
    second: int, *, there: bool, events: list[tuple[int, str, str]]
) -> None:
    labels = {"Hostname": "n1", "gpu": "0"}

    def answer(path: str, params: dict[str, str]) -> Answer:
        if params["query"] == BOTH_ENDS:
            return number(2)
        if path.endswith("/query_range") and params["start"] == params["end"]:
            return matrix((labels, [(float(T), "0.5")])) if there else EMPTY
        if path.endswith("/query_range"):
            return matrix((labels, [(T + 60.0 * n, "0.5") for n in range(1, 6)]))
        if params["query"].startswith("max by"):
            return told({"resultType": "vector", "result": [{"metric": labels, "value": [T, "79"]}]})
        return matrix((labels, [(float(T + s), "79") for s in range(second, 300, 15)]))

    with web(answer) as there_is:
        parsed = read(server(there_is.url), WANTED, [TENSOR, XID], since=at(T), until=at(T + 300))
    actual = parsed.frames["health_events"].select(pl.col("ts").dt.epoch("s") - T, "code", "severity").rows()
    assert actual == events
    assert (parsed.rows_read, parsed.rejects.height) == (5 + len(range(second, 300, 15)), 0)


def test_a_response_without_series_covers_no_time() -> None:
    with web(lambda *_: EMPTY) as there:
        parsed = read(server(there.url), WANTED, [TENSOR, XID], since=at(T), until=at(T + 360))
    assert (parsed.rows_read, parsed.covers_from, parsed.covers_until) == (0, None, None)


def test_a_query_that_is_too_large_is_split_in_halves() -> None:
    too_many = Answer((DATA / "too-many-points.json").read_bytes(), status=400)

    def answer(_: str, params: dict[str, str]) -> Answer:
        low, high = int(params["start"]), int(params["end"])
        if high - low > 120:
            return too_many
        return matrix(({}, [(second, "1") for second in range(low, high + 1, 60)]))

    with web(answer) as there:
        assert points(there.url, 600) == [60.0 * n for n in range(1, 11)]


@pytest.mark.parametrize(
    ("status", "output"),
    [
        (422, "query processing would load too many samples into memory in query execution"),
        (503, "query timed out in expression evaluation"),
        (422, "expanding series: context deadline exceeded"),
        (413, ""),
    ],
)
def test_query_too_large_for_a_single_point_is_a_clear_error(status: int, output: str) -> None:
    body = json.dumps({"status": "error", "errorType": "execution", "error": output}).encode()
    with web(lambda *_: Answer(body, status=status)) as there:
        with pytest.raises(ServerDownError, match="Even the smallest segment is too large"):
            points(there.url, 600)
        assert len(there.questions) < 12


def test_transient_errors_are_retried_after_growing_pauses() -> None:
    answers = iter([Answer(b"", status=503), Answer(b"busy", status=500), NAMES])
    waits: list[float] = []
    with web(lambda *_: next(answers)) as there:
        assert names(there.url, waits=waits) == [TENSOR]
    assert waits == [1.0, 2.0]


def test_a_requested_pause_is_kept_within_bounds() -> None:
    slow = Answer(b"", status=429, headers={"Retry-After": "7"})
    slower = Answer(b"", status=429, headers={"Retry-After": "86400"})
    answers = iter([slow, slower, NAMES])
    waits: list[float] = []
    with web(lambda *_: next(answers)) as there:
        assert names(there.url, waits=waits) == [TENSOR]
    assert waits == [7.0, LONGEST_WAIT_S]


HTML = Answer(b"<!doctype html><p>Welcome", kind="text/html")


@pytest.mark.parametrize(
    ("answer", "output"),
    [
        (HTML, "answers, but not as Prometheus does.*Give the base address"),
        (Answer(b'{"hello": "world"}'), "answers, but not as Prometheus does"),
        (Answer(b"[]"), "answers, but not as Prometheus does"),
        (Answer(b"404 page not found", 404, "text/plain"), "status 404: 404 page not found.*Give the base address"),
        (Answer(b"<html>no", 401, "text/html"), "status 401\n.*prometheus.token_env"),
        (Answer(b'{"status":"error","error":"no tenant"}', 403), "status 403: no tenant.*prometheus.token_env"),
        (Answer(b'{"status":"success","data":["a', 200), "cuts its answer off"),
        (Answer(b'{"status":"succ', promised=1000), "closed the connection in the middle of an answer"),
        (Answer(b"", 502), "status 502\nLoaded data stays"),
        (Answer(b"slow down", 429), "status 429: slow down.*limits the rate of requests"),
        (Answer(b'{"status":"error","error":"parse error"}', 400), "status 400: parse error"),
        (Answer(b"", 302, headers={"Location": "/"}), "cannot be queried: Exceeded 30 redirects"),
    ],
)
def test_misbehaving_server_is_an_error_and_not_an_empty_result(answer: Answer, output: str) -> None:
    with web(lambda *_: answer) as there, pytest.raises(ServerDownError) as caught:
        names(there.url)
    assert re.search(output, str(caught.value), re.DOTALL)
    assert str(caught.value).startswith(there.url)


def test_after_interruption_nothing_is_requested() -> None:
    """A thread that asks ahead may be in the middle of many pieces when somebody stops the ingest."""
    with web(lambda *_: NAMES) as there:
        one = server(there.url)
        ask = partial(one.names, since=at(T), until=at(T + 60))
        assert ask() == [TENSOR]
        one.close()
        with pytest.raises(ServerDownError, match="was disconnected from"):
            ask()
        assert len(there.questions) == 1


def test_every_wait_is_limited() -> None:
    with web(lambda *_: Answer(b"{}", after_s=3)) as there:
        late = PrometheusServer(there.url, retries=0, timeout_s=-1, sleep=never)
        with pytest.raises(ServerDownError, match="does not answer in time"):
            late.names("", since=at(T), until=at(T + 60))


def test_refused_connection_is_retried_only_after_a_success() -> None:
    waits: list[float] = []
    with web(lambda *_: NAMES) as there:
        gone = there.url
    with pytest.raises(ServerDownError, match="cannot be reached: Connection refused"):
        names(gone, waits=waits)
    assert waits == []
    with pytest.raises(ServerDownError, match="cannot be reached: Connection refused"):
        points(gone, 600, waits=waits)
    assert waits == [1.0, 2.0]


def test_a_host_that_does_not_exist_is_named() -> None:
    with pytest.raises(ServerDownError, match=r"^http://nowhere\.invalid:9090 cannot be reached: .*(known|resolution)"):
        names("http://nowhere.invalid:9090")


def secret_in(url: Callable[[str], str], token: str | None, answer: Answer) -> tuple[str, str]:
    """What the server was shown, and all that we say."""
    with web(lambda *_: answer) as there:
        requested = PrometheusServer(url(there.url), login=Login(token=token), retries=0, sleep=never)
        with pytest.raises(ServerDownError) as caught:
            requested.names("", since=at(T), until=at(T + 60))
    return there.questions[0][2]["Authorization"], f"{caught.value} {caught.value.args} {requested.url}"


@pytest.mark.parametrize("answer", [HTML, Answer(b"no", 401), Answer(b'{"data"'), Answer(b"", 502)])
def test_secrets_reach_the_server_and_no_message(answer: Answer) -> None:
    shown, output = secret_in(lambda url: url.replace("http://", "http://me:s3cr3t%40@"), None, answer)
    assert base64.b64decode(shown.removeprefix("Basic ")) == b"me:s3cr3t@"
    assert "s3cr3t" not in output
    assert "me:" not in output
    shown, output = secret_in(lambda url: url, "t0k3n", answer)
    assert shown == "Bearer t0k3n"
    assert "t0k3n" not in output


def series(*actual: object) -> Answer:
    return told({"resultType": "matrix", "result": list(actual)})


PAIR = [T + 60, "1"]


@pytest.mark.parametrize(
    "answer",
    [
        told(None),
        told([]),
        told("no"),
        told({"result": None}),
        told({"result": "no"}),
        told({"result": {"metric": {}}}),
        series(None),
        series({"values": [PAIR]}),
        series({"metric": {"gpu": 1}, "values": [PAIR]}),
        series({"metric": [], "values": [PAIR]}),
        series({"metric": {}}),
        series({"metric": {}, "values": None}),
        series({"metric": {}, "values": [[T + 60, 1]]}),
        series({"metric": {}, "values": [[str(T + 60), "1"]]}),
        series({"metric": {}, "values": [[True, "1"]]}),
        series({"metric": {}, "values": [[1e300, "1"]]}),
        series({"metric": {}, "values": [[float("nan"), "1"]]}),
        series({"metric": {}, "values": [[T + 60]]}),
        series({"metric": {}, "values": [T + 60]}),
        Answer(b'{"data": ' + b"[" * 100_000),
        Answer(b'{"status": "success", "data": ' + b"1" * 5000 + b"}"),
    ],
)
def test_impossible_json_is_an_error_that_names_the_server(answer: Answer) -> None:
    with web(lambda *_: answer) as there, pytest.raises(ServerDownError) as caught:
        points(there.url, 600, retries=0)
    assert str(caught.value).startswith(f"{there.url} answers, but not as Prometheus does")


@pytest.mark.parametrize("actual", [[1, None], "up", {"up": 1}])
def test_names_that_are_none_are_an_error_that_names_the_server(actual: object) -> None:
    with web(lambda *_: told(actual)) as there, pytest.raises(ServerDownError, match="names that are no list of text"):
        names(there.url)


@pytest.mark.parametrize("value", [[T, 1], [T, "new"], None, [T]])
def test_non_numeric_latest_reading_is_an_error_with_the_server(value: object) -> None:
    answer = told({"resultType": "vector", "result": [{"metric": {}, "value": value}]})
    with web(lambda *_: answer) as there, pytest.raises(ServerDownError, match="not as Prometheus does"):
        server(there.url).latest("up", at=at(T))


@pytest.mark.parametrize("promised", [100_000, None])
def test_server_that_drips_bytes_times_out(promised: int | None) -> None:
    dripping = Answer(b'{"status"' + b" " * 600, promised=promised, drip_s=0.1)  # a minute
    with web(lambda *_: dripping) as there:
        late = PrometheusServer(there.url, retries=0, timeout_s=-1, sleep=never)
        began = time.monotonic()
        with pytest.raises(ServerDownError, match="does not answer in time"):
            late.names("", since=at(T), until=at(T + 60))
        assert time.monotonic() - began < 40


def test_an_endless_response_is_split_in_halves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prometheus_http, "LARGEST_ANSWER", 3000)
    with web(lambda *_: matrix(*[({"gpu": str(n)}, [(T + 60.0, "1")]) for n in range(100)])) as there:
        with pytest.raises(ServerDownError, match="Even the smallest segment is too large"):
            points(there.url, 600)
        assert len(there.questions) > 1


def test_the_digest_is_of_the_responses_since_the_last_one() -> None:
    with web(lambda *_: NAMES) as there:
        one = server(there.url)
        nothing = one.digest()
        one.names("", since=at(T), until=at(T + 60))
        assert one.digest() != nothing
        assert one.digest() == nothing


def test_server_with_other_metrics_differs_from_an_empty_one() -> None:
    output = no_metrics("http://p", WANTED, ["up", "node_load1"]).message
    assert 'no DCGM series that match {env="prod"}' in output
    assert "2 metrics (up, node_load1)" in output
    assert "none at all" in no_metrics("http://p", WANTED, []).message
