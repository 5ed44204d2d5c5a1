"""Limits of servers and ours: what is asked at the same time, in smaller pieces, again, or taken for a part only.

The texts are those of Thanos, Mimir and VictoriaMetrics.
"""

from __future__ import annotations

import json
import re
import time
from dataclasses import replace
from datetime import timedelta
from threading import Event, Lock
from typing import TYPE_CHECKING

import numpy as np
import pytest

from ingest.errors import ServerDownError
from ingest.load_warnings import messages
from ingest.prometheus.client.raw import ServerReader
from ingest.prometheus.client.responses import AnsweredError
from ingest.prometheus.client.server import BOTH_ENDS, PrometheusServer
from tests.support.slurm.parsing import at
from tests.support.web import Answer, matrix, told, web

if TYPE_CHECKING:
    from collections.abc import Callable

    from ingest.prometheus.client.remote_read import Samples

T = 1_795_248_000
MINUTE = timedelta(minutes=1)
MIMIR_SERIES = (
    "expanding series: the query exceeded the maximum number of series (limit: 3 series) "
    "(err-mimir-max-series-per-query). To adjust the related per-tenant limit, configure "
    "-querier.max-fetched-series-per-query, or contact your service administrator."
)
MIMIR_CHUNKS = "the query exceeded the maximum number of chunks (limit: 7 chunks) (err-mimir-max-chunks-per-query)"
MIMIR_LENGTH = (
    "the query time range exceeds the limit (query length: 2h0m0s, limit: 1h0m0s) (err-mimir-max-query-length)"
)
MIMIR_RATE = (
    "the request has been rejected because the tenant exceeded the request rate limit, set to 10 requests/s across all "
    "distributors with a maximum allowed burst of 5 (err-mimir-tenant-max-request-rate)"
)
VICTORIA_SERIES = (
    'error when executing query="x" on the time range: the number of matching unique timeseries exceeds 9; either '
    "narrow down the search or increase -search.maxUniqueTimeseries"
)
THANOS_PART = (
    'receive series from Addr: 10.96.192.138:10901 LabelSets: {replica="a"} Mint: 1 Maxt: 2: rpc error: code = '
    "Unavailable desc = connection refused"
)


def server(url: str, **more: object) -> PrometheusServer:
    return PrometheusServer(url, **{"retries": 0, "timeout_s": 90.0, "sleep": lambda _: None, **more})  # type: ignore[arg-type]  # options of Server


def refusal(output: str, status: int = 422) -> Answer:
    return Answer(json.dumps({"status": "error", "errorType": "execution", "error": output}).encode(), status=status)


class Busy:
    """A server that takes its time, and counts how many questions it has at once.

    Args:
        answer: what it answers.
        until: the first questions are kept waiting until there are so many at once.
    """

    def __init__(self, answer: Callable[[dict[str, str]], Answer], until: int = 1) -> None:
        self._answer = answer
        self._now, self._lock = 0, Lock()
        self._until, self._enough = until, Event()
        self.most = 0

    def __call__(self, _: str, params: dict[str, str]) -> Answer:
        with self._lock:
            self._now += 1
            self.most = max(self.most, self._now)
        if self._now >= self._until:
            self._enough.set()
        self._enough.wait(60)
        time.sleep(0.03)
        with self._lock:
            self._now -= 1
        return self._answer(params)


def numbered(params: dict[str, str]) -> Answer:
    """For query qN the value N at each of its minutes."""
    low, high = int(params["start"]), int(params["end"])
    return matrix(({"q": params["query"]}, [(moment, params["query"][1:]) for moment in range(low, high + 1, 60)]))


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_queries_run_concurrently_within_the_limit_and_in_order(limit: int) -> None:
    busy = Busy(numbered, until=limit)
    with web(busy) as there:
        requested = server(there.url, concurrency=limit)
        queries = [f"q{number}" for number in range(8)]
        actual = list(requested.points_of(queries, first=at(T), last=at(T + 120), step=MINUTE))
        digest = requested.digest()
    assert busy.most == limit
    assert [samples.labels for samples in actual] == [[{"q": query}] for query in queries]
    assert [samples.values.tolist() for samples in actual] == [[float(number)] * 3 for number in range(8)]
    with web(numbered_path) as there:
        alone = server(there.url, concurrency=1)
        list(alone.points_of(queries, first=at(T), last=at(T + 120), step=MINUTE))
    assert alone.digest() == digest


def numbered_path(_: str, params: dict[str, str]) -> Answer:
    return numbered(params)


@pytest.mark.parametrize("limit", [1, 2, 4])
@pytest.mark.parametrize("most", [1, 2, 3, 60])
def test_segments_are_ordered_at_any_concurrency(limit: int, most: int) -> None:
    """Some queries are too much, some are not."""

    def answer(_: str, params: dict[str, str]) -> Answer:
        points = (int(params["end"]) - int(params["start"])) // 60 + 1
        return refusal(MIMIR_CHUNKS) if points > most and params["query"] != "q1" else numbered(params)

    busy = Busy(lambda params: answer("", params))
    with web(busy) as there:
        actual = list(
            server(there.url, concurrency=limit).points_of(
                ["q0", "q1", "q2"], first=at(T), last=at(T + 660), step=MINUTE
            )
        )
    assert busy.most <= limit
    for number, samples in enumerate(actual):
        assert samples.times.tolist() == [(T + 60 * minute) * 1000 for minute in range(12)]
        assert set(samples.values.tolist()) == {float(number)}


def test_what_goes_wrong_with_one_of_several_ends_them_all() -> None:
    def answer(_: str, params: dict[str, str]) -> Answer:
        return Answer(b"", 400) if params["query"] == "q2" else numbered(params)

    queries = [f"q{n}" for n in range(60)]
    with web(answer) as there, pytest.raises(ServerDownError, match="status 400") as caught:
        list(server(there.url, concurrency=3).points_of(queries, first=at(T), last=at(T), step=MINUTE))
    assert len(there.questions) < 10
    assert not caught.value.unreachable


class Metrics:
    """A server with a reading of each metric every ten seconds, which looks at so many metrics and seconds at once."""

    def __init__(self, output: str, *, metrics: int = 99, seconds: int = 9999, status: int = 422) -> None:
        self.refusal = refusal(output, status)
        self.metrics, self.seconds = metrics, seconds

    def __call__(self, path: str, params: dict[str, str]) -> Answer:
        if "label" in path:
            return self._names(params["match[]"])
        if params["query"] == BOTH_ENDS:
            return told({"resultType": "vector", "result": [{"metric": {}, "value": [T, "2"]}]})
        names, width = self._asked(params["query"])
        if len(names) > self.metrics or width > self.seconds * 1000:
            return self.refusal
        end = float(params["time"])
        times = [T + 10 * n for n in range(100) if end - width / 1000 <= T + 10 * n <= end]
        return matrix(
            *[({"__name__": name}, [(float(moment), str(moment - T)) for moment in times]) for name in names if times]
        )

    def _names(self, matcher: str) -> Answer:
        names, _ = self._asked(matcher + "[1ms]")
        return told(sorted(names)) if len(names) <= self.metrics else self.refusal

    @staticmethod
    def _asked(query: str) -> tuple[list[str], int]:
        matcher = re.fullmatch(r'\{__name__=~?"([a-z|]+)"(?:,e="p")?\}\[(\d+)ms\]', query)
        assert matcher is not None, query
        return matcher[1].split("|"), int(matcher[2])


@pytest.mark.parametrize("limit", [1, 3])
@pytest.mark.parametrize(
    ("output", "metrics", "seconds"),
    [(MIMIR_SERIES, 1, 9999), (VICTORIA_SERIES, 1, 120), (MIMIR_LENGTH, 9, 100), (MIMIR_CHUNKS, 1, 60)],
)
def test_raw_readings_are_complete_whatever_the_server_may_scan(
    output: str, metrics: int, seconds: int, limit: int
) -> None:
    """After the beginning, up to and with the end, each once and in order, although windows have both ends here."""
    actual: dict[str, list[float]] = {}

    def keep(samples: Samples) -> None:
        stops = np.cumsum(samples.sizes).tolist()
        for labels, size, stop in zip(samples.labels, samples.sizes.tolist(), stops, strict=True):
            actual.setdefault(labels["__name__"], []).extend(samples.values[stop - size : stop].tolist())

    with web(Metrics(output, metrics=metrics, seconds=seconds)) as there:
        transport = ServerReader(server(there.url, concurrency=limit), 'e="p"')
        transport.raw(["a", "b", "c"], since=at(T + 20), until=at(T + 620), each=keep)
    assert actual == {name: [10.0 * n for n in range(3, 63)] for name in "abc"}


def test_names_are_requested_in_halves_when_series_are_too_many() -> None:
    with web(Metrics(MIMIR_SERIES, metrics=2)) as there:
        actual = server(there.url).names('{__name__=~"a|b|c|d|e"}', since=at(T), until=at(T + 60))
        assert actual == ["a", "b", "c", "d", "e"]
    with (
        web(Metrics(MIMIR_SERIES, metrics=0)) as there,
        pytest.raises(ServerDownError, match="refuses the query: expanding series"),
    ):
        server(there.url).names('{__name__=~"a|b"}', since=at(T), until=at(T + 60))


def test_metric_too_large_even_for_a_minute_is_reported() -> None:
    with (
        web(Metrics(VICTORIA_SERIES, metrics=0)) as there,
        pytest.raises(ServerDownError, match="Even the smallest segment") as caught,
    ):
        server(there.url).readings('{__name__=~"a|b"}', since=at(T), until=at(T + 600), step=MINUTE)
    assert "increase -search.maxUniqueTimeseries" in str(caught.value)  # the reason stands behind the query


@pytest.mark.parametrize(
    ("status", "output", "too_much"),
    [
        (422, MIMIR_SERIES, True),
        (422, MIMIR_CHUNKS, True),
        (422, MIMIR_LENGTH, True),
        (400, MIMIR_LENGTH, True),
        (400, "exceeded maximum resolution of 11,000 points per timeseries", True),
        (503, "query timed out in expression evaluation", True),
        (500, "rpc error: code = ResourceExhausted desc = exceeded series limit: limit 10 violated (got 20)", True),
        (413, "", True),
        (429, MIMIR_RATE, False),
        (429, "too many outstanding requests", False),
        (500, "rpc error: code = Unavailable desc = connection refused", False),
        (400, "parse error: unexpected character", False),
    ],
)
def test_an_error_of_size_differs_from_others(status: int, output: str, too_much: bool) -> None:
    assert AnsweredError(status, output, "").smaller_may_succeed is too_much


@pytest.mark.parametrize("output", [MIMIR_RATE, "too many outstanding requests"])
def test_rate_limited_query_is_repeated_later_and_not_split(output: str) -> None:
    answers = iter([Answer(output.encode(), 429, "text/plain", headers={"Retry-After": "3"}), matrix()])
    waits: list[float] = []
    with web(lambda *_: next(answers)) as there:
        requested = server(there.url, retries=1, sleep=waits.append)
        assert requested.points("x", first=at(T), last=at(T + 600), step=MINUTE).labels == []
        assert len(there.questions) == 2
    assert waits == [3.0]


def test_slow_server_is_queried_in_intervals_that_answer_in_time() -> None:
    """A piece that is too long for one answer would be too long the next time, too, and nobody would get on."""

    def answer(_: str, params: dict[str, str]) -> Answer:
        low, high = int(params["start"]), int(params["end"])
        whole = matrix(({"x": "y" * 600_000}, [(float(moment), "1") for moment in range(low, high + 1, 600)]))
        return whole if high - low <= 600 else replace(whole, drip_s=0.2, drip=40_000)

    with web(answer) as there:
        slow = server(there.url, timeout_s=-1, concurrency=1)
        actual = slow.points("x", first=at(T), last=at(T + 1800), step=10 * MINUTE)
    assert actual.times.tolist() == [1000 * (T + 600 * n) for n in range(4)]
    assert len(there.questions) == 3


# --- answers that are a part only


def warned(*warnings: str, **more: object) -> Answer:
    actual = {"status": "success", "data": {"resultType": "matrix", "result": []}, "warnings": [*warnings], **more}
    return Answer(json.dumps(actual).encode())


@pytest.mark.parametrize(
    ("part", "output"),
    [
        (warned(THANOS_PART), "receive series from Addr"),
        (warned("No StoreAPIs matched for this query", THANOS_PART), "receive series from Addr"),
        (warned("results truncated due to limit"), "results truncated"),
        (Answer(b'{"status":"success","isPartial":true,"data":{"resultType":"matrix","result":[]}}'), "isPartial"),
    ],
)
def test_a_part_of_an_answer_is_not_taken_for_the_whole(part: Answer, output: str) -> None:
    waits: list[float] = []
    with web(lambda *_: part) as there:
        requested = server(there.url, retries=1, sleep=waits.append)
        with pytest.raises(ServerDownError, match=f"answers only a part: {output}") as caught:
            requested.points("x", first=at(T), last=at(T), step=MINUTE)
        with pytest.raises(ServerDownError, match="answers only a part"):
            requested.ever("x", "node", since=at(T), until=at(T + 60), step=MINUTE)
    assert waits == [1.0, 1.0]
    assert "Nothing of that answer was used" in str(caught.value)


def test_a_part_that_comes_back_is_waited_for() -> None:
    answers = iter([warned(THANOS_PART), matrix(({}, [(T, "1")]))])
    with web(lambda *_: next(answers)) as there:
        actual = server(there.url, retries=1).points("x", first=at(T), last=at(T), step=MINUTE)
    assert actual.values.tolist() == [1.0]


def test_warnings_of_a_whole_answer_are_reported_once() -> None:
    output = "PromQL warning: metric might not be a counter (1:6)"
    with web(lambda *_: warned(output, "No StoreAPIs matched for this query")) as there:
        requested = server(there.url)
        for _ in range(2):
            requested.points("x", first=at(T), last=at(T), step=MINUTE)
        assert messages(requested.warnings()) == [output, "No StoreAPIs matched for this query"]
        assert requested.warnings() == []


@pytest.mark.parametrize("more", [{"warnings": None}, {"isPartial": False}, {"infos": ["PromQL info: x"]}])
def test_a_response_that_only_mentions_warnings_is_complete(more: dict[str, object]) -> None:
    with web(lambda *_: warned(**more)) as there:
        assert server(there.url).points("x", first=at(T), last=at(T), step=MINUTE).labels == []


def test_partial_responses_are_never_requested() -> None:
    with web(lambda path, _: told([]) if "label" in path else matrix()) as there:
        requested = server(there.url)
        requested.names(since=at(T), until=at(T + 60))
        requested.points("x", first=at(T), last=at(T), step=MINUTE)
        requested.readings("x", since=at(T), until=at(T + 60), step=MINUTE)
    for _, params, _ in there.questions:
        assert (params["partial_response"], params["deny_partial_response"]) == ("false", "1")
