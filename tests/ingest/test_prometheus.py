"""Reading a server: captured answers beside the rows they make, and what is done when it does not answer as it should.

The answers in tests/data/prometheus are those of a real Prometheus 2.42.
"""

from __future__ import annotations

import base64
import json
import re
import time
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import pytest

from ingest import prometheus_server
from ingest.errors import ServerDownError
from ingest.prometheus import Wanted, nothing_there, read
from ingest.prometheus_server import LONGEST_WAIT_S, Server, is_address, without_secrets
from tests.ingest.helpers import at
from tests.ingest.web import Answer, matrix, told, web

if TYPE_CHECKING:
    from collections.abc import Callable

DATA = Path(__file__).parent.parent / "data" / "prometheus"
T = 1_795_248_000
TENSOR, XID = "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "DCGM_FI_DEV_XID_ERRORS"
WANTED = Wanted("c", 'env="prod"', 60)
NAMES = told([TENSOR])
EMPTY = matrix()


def server(url: str, *, retries: int = 2, waits: list[float] | None = None, timeout_s: float = 5.0) -> Server:
    return Server(url, retries=retries, timeout_s=timeout_s, sleep=(waits if waits is not None else []).append)


def never(_: float) -> None:
    pytest.fail("nobody should wait here")


def captured(path: str, params: dict[str, str]) -> Answer:
    """The real server's answers, by what was asked."""
    query = params.get("query", "")
    if path.endswith("/query_range"):
        return Answer((DATA / "tensor-averages.json").read_bytes())
    if query.startswith("max by"):
        return told({"resultType": "vector", "result": [{"metric": {"Hostname": "n1.example"}, "value": [T, "79"]}]})
    return Answer((DATA / "xid-readings.json").read_bytes())


def names(url: str, **more: object) -> list[str]:
    return server(url, **more).names("", since=at(T), until=at(T + 60))  # type: ignore[arg-type]


def points(url: str, seconds: int, **more: object) -> list[float]:
    """Times (seconds after T) of the points that a grid of minutes gives."""
    found = server(url, **more).points(  # type: ignore[arg-type]
        "up", first=at(T + 60), last=at(T + seconds), step=timedelta(seconds=60)
    )
    return [value[0] - T for one in found for value in one["values"]]


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


def test_captured_readings_of_a_sticky_gauge_are_events_at_its_edges() -> None:
    with web(captured) as there:
        parsed = read(server(there.url), WANTED, [XID], since=at(T), until=at(T + 360))
    events = parsed.frames["health_events"].select("node", "gpu", "ts", "code", "severity").rows()
    assert events == [("n1", "0", at(T + 105), "79", "critical"), ("n1", "0", at(T + 210), "45", "info")]


def test_raw_xids_are_asked_for_of_those_nodes_only_that_have_one() -> None:
    with web(captured) as there:
        read(server(there.url), WANTED, [XID], since=at(T), until=at(T + 360))
    raw = [params["query"] for _, params, _ in there.questions if not params["query"].startswith("max")]
    assert raw == [f'{XID}{{env="prod",Hostname=~"n1\\\\.example"}}[3960000ms]']


def test_averages_look_at_no_reading_twice_and_say_the_selector() -> None:
    with web(lambda *_: EMPTY) as there:
        read(server(there.url), WANTED, [TENSOR], since=at(T), until=at(T + 360))
    ((_, params, _),) = there.questions
    assert f'avg_over_time({TENSOR}{{env="prod"}}[59999ms])' in params["query"]
    assert (params["start"], params["end"], params["step"]) == (str(T + 60), str(T + 360), "60")


def test_an_answer_without_series_speaks_for_no_time() -> None:
    with web(lambda *_: EMPTY) as there:
        parsed = read(server(there.url), WANTED, [TENSOR, XID], since=at(T), until=at(T + 360))
    assert (parsed.rows_read, parsed.covers_from, parsed.covers_until) == (0, None, None)


def test_a_question_that_is_too_much_is_asked_in_halves() -> None:
    too_many = Answer((DATA / "too-many-points.json").read_bytes(), status=400)

    def answer(_: str, params: dict[str, str]) -> Answer:
        low, high = int(params["start"]), int(params["end"])
        if high - low > 120:
            return too_many
        return matrix(({}, [(second, "1") for second in range(low, high + 1, 60)]))

    with web(answer) as there:
        assert points(there.url, 600) == [60.0 * n for n in range(1, 11)]


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (422, "query processing would load too many samples into memory in query execution"),
        (503, "query timed out in expression evaluation"),
        (422, "expanding series: context deadline exceeded"),
        (413, ""),
    ],
)
def test_a_question_that_is_too_much_even_for_one_point_is_an_error_that_says_so(status: int, said: str) -> None:
    body = json.dumps({"status": "error", "errorType": "execution", "error": said}).encode()
    with web(lambda *_: Answer(body, status=status)) as there:
        with pytest.raises(ServerDownError, match="Even the smallest piece is too much"):
            points(there.url, 600)
        assert len(there.questions) < 8


def test_what_may_be_gone_a_moment_later_is_asked_again_after_growing_pauses() -> None:
    answers = iter([Answer(b"", status=503), Answer(b"busy", status=500), NAMES])
    waits: list[float] = []
    with web(lambda *_: next(answers)) as there:
        assert names(there.url, waits=waits) == [TENSOR]
    assert waits == [1.0, 2.0]


def test_a_server_that_asks_for_a_pause_gets_it_within_bounds() -> None:
    slow = Answer(b"", status=429, headers={"Retry-After": "7"})
    slower = Answer(b"", status=429, headers={"Retry-After": "86400"})
    answers = iter([slow, slower, NAMES])
    waits: list[float] = []
    with web(lambda *_: next(answers)) as there:
        assert names(there.url, waits=waits) == [TENSOR]
    assert waits == [7.0, LONGEST_WAIT_S]


HTML = Answer(b"<!doctype html><p>Welcome", kind="text/html")


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (HTML, "answers, but not as Prometheus does.*Give the base address"),
        (Answer(b'{"hello": "world"}'), "answers, but not as Prometheus does"),
        (Answer(b"[]"), "answers, but not as Prometheus does"),
        (Answer(b"404 page not found", 404, "text/plain"), "status 404: 404 page not found.*Give the base address"),
        (Answer(b"<html>no", 401, "text/html"), "status 401\n.*prometheus.token_env"),
        (Answer(b'{"status":"error","error":"no tenant"}', 403), "status 403: no tenant.*prometheus.token_env"),
        (Answer(b'{"status":"success","data":["a', 200), "cuts its answer off"),
        (Answer(b'{"status":"succ', promised=1000), "hung up in the middle of an answer"),
        (Answer(b"", 502), "status 502\nWhat was loaded before stays"),
        (Answer(b"slow down", 429), "status 429: slow down.*come less often"),
        (Answer(b'{"status":"error","error":"parse error"}', 400), "status 400: parse error"),
        (Answer(b"", 302, headers={"Location": "/"}), "cannot be asked: Exceeded 30 redirects"),
    ],
)
def test_a_server_that_does_not_do_as_it_should_is_told_from_one_that_has_nothing(answer: Answer, said: str) -> None:
    with web(lambda *_: answer) as there, pytest.raises(ServerDownError) as caught:
        names(there.url)
    assert re.search(said, str(caught.value), re.DOTALL)
    assert str(caught.value).startswith(there.url)


def test_nobody_waits_for_ever() -> None:
    with web(lambda *_: Answer(b"{}", after_s=3)) as there:
        late = Server(there.url, retries=0, timeout_s=-1, sleep=never)
        with pytest.raises(ServerDownError, match="does not answer in time"):
            late.names("", since=at(T), until=at(T + 60))


def test_a_refused_connection_is_not_waited_for_at_first_but_later_is() -> None:
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
        asked = Server(url(there.url), token=token, retries=0, sleep=never)
        with pytest.raises(ServerDownError) as caught:
            asked.names("", since=at(T), until=at(T + 60))
    return there.questions[0][2]["Authorization"], f"{caught.value} {caught.value.args} {asked.url}"


@pytest.mark.parametrize("answer", [HTML, Answer(b"no", 401), Answer(b'{"data"'), Answer(b"", 502)])
def test_secrets_reach_the_server_and_no_message(answer: Answer) -> None:
    shown, said = secret_in(lambda url: url.replace("http://", "http://me:s3cr3t%40@"), None, answer)
    assert base64.b64decode(shown.removeprefix("Basic ")) == b"me:s3cr3t@"
    assert "s3cr3t" not in said
    assert "me:" not in said
    shown, said = secret_in(lambda url: url, "t0k3n", answer)
    assert shown == "Bearer t0k3n"
    assert "t0k3n" not in said


ODD_ADDRESSES = (
    "http://[me:s3cret@",
    "http://me:s3cret/4@h:9090",
    "http://me:1/s3cret@h:9090",
    "http://me:1?s3cret@h:9090",
    "http://me:1#s3cret@h:9090",
    "me:s3cret@h:9090",
    "http:/me:s3cret@h",
    "http:///me:s3cret@h",
    "http://me:s3cret\u2100@h",
)
"""Addresses with a password in them, each a little wrong."""


@pytest.mark.parametrize(
    ("url", "good"),
    [
        ("http://prometheus:9090", True),
        ("https://h/base", True),
        ("prometheus:9090", False),
        ("ftp://h", False),
        ("http://", False),
        ("http://h:port", False),
        *[(odd, False) for odd in ODD_ADDRESSES],
    ],
)
def test_what_is_an_address(url: str, good: bool) -> None:
    assert is_address(url) is good


def test_an_address_in_a_message_has_no_secrets() -> None:
    assert without_secrets("https://u:p@h:9090/base/?key=1#x") == "https://h:9090/base"


@pytest.mark.parametrize("url", ODD_ADDRESSES)
def test_of_what_is_no_address_nothing_is_told(url: str) -> None:
    assert without_secrets(url) == "an address that cannot be used"


def series(*found: object) -> Answer:
    return told({"resultType": "matrix", "result": list(found)})


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
def test_json_that_prometheus_never_writes_is_an_error_that_names_the_server(answer: Answer) -> None:
    with web(lambda *_: answer) as there, pytest.raises(ServerDownError) as caught:
        points(there.url, 600, retries=0)
    assert str(caught.value).startswith(f"{there.url} answers, but not as Prometheus does")


@pytest.mark.parametrize("found", [[1, None], "up", {"up": 1}])
def test_names_that_are_none_are_an_error_that_names_the_server(found: object) -> None:
    with web(lambda *_: told(found)) as there, pytest.raises(ServerDownError, match="names that are no list of text"):
        names(there.url)


@pytest.mark.parametrize("value", [[T, 1], [T, "new"], None, [T]])
def test_a_newest_reading_that_is_no_number_is_an_error_that_names_the_server(value: object) -> None:
    answer = told({"resultType": "vector", "result": [{"metric": {}, "value": value}]})
    with web(lambda *_: answer) as there, pytest.raises(ServerDownError, match="not as Prometheus does"):
        server(there.url).latest("up", at=at(T))


@pytest.mark.parametrize("promised", [100_000, None])
def test_a_server_that_sends_a_byte_now_and_then_is_not_waited_for(promised: int | None) -> None:
    dripping = Answer(b'{"status"' + b" " * 60, promised=promised, drip_s=0.1)
    with web(lambda *_: dripping) as there:
        late = Server(there.url, retries=0, timeout_s=-1, sleep=never)
        began = time.monotonic()
        with pytest.raises(ServerDownError, match="does not answer in time"):
            late.names("", since=at(T), until=at(T + 60))
        assert time.monotonic() - began < 4


def test_an_answer_without_end_is_asked_for_in_halves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prometheus_server, "LARGEST_ANSWER", 3000)
    with web(lambda *_: matrix(*[({"gpu": str(n)}, [(T + 60.0, "1")]) for n in range(100)])) as there:
        with pytest.raises(ServerDownError, match="Even the smallest piece is too much"):
            points(there.url, 600)
        assert len(there.questions) > 1


def test_the_digest_is_of_the_answers_since_it_was_last_asked() -> None:
    with web(lambda *_: NAMES) as there:
        one = server(there.url)
        nothing = one.digest()
        one.names("", since=at(T), until=at(T + 60))
        assert one.digest() != nothing
        assert one.digest() == nothing


def test_a_server_with_other_metrics_is_told_from_an_empty_one() -> None:
    said = nothing_there("http://p", WANTED, ["up", "node_load1"])
    assert 'no DCGM series that match {env="prod"}' in said
    assert "2 metrics (up, node_load1)" in said
    assert "none at all" in nothing_there("http://p", WANTED, [])
