"""Remote read with streamed chunks: what is asked, what an answer holds, and what is done where it is none."""

from __future__ import annotations

import base64
import time
from datetime import timedelta
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.errors import ServerDownError
from ingest.prometheus.client import remote_read
from ingest.prometheus.client.remote_read import (
    GarbledError,
    Matcher,
    Samples,
    UnknownChunksError,
    batches,
    matchers,
    request,
)
from ingest.prometheus.client.server import PrometheusServer
from ingest.prometheus.client.xor_chunks import STALE
from ingest.prometheus.gpu.server import RAW_UP_TO_S, cell_means, read
from ingest.prometheus.reader import ScrapeSpec
from tests.support.slurm.parsing import at
from tests.support.telemetry.xor import bits_of, crc32c, frame, series, sized, uvarint, write_chunk
from tests.support.web import Answer, matrix, told, unsupported, web

if TYPE_CHECKING:
    from collections.abc import Callable

T = 1_795_248_000
TENSOR, XID = "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "DCGM_FI_DEV_XID_ERRORS"
NAMES = ("__name__", "Hostname", "gpu", "hpc_job")
LABELS = {"__name__": TENSOR, "Hostname": "n1.example", "gpu": "0"}
STREAM = "application/x-streamed-protobuf; proto=prometheus.ChunkedReadResponse"


def chunk(*samples: tuple[int, float]) -> bytes:
    """A chunk of samples so many milliseconds after T."""
    return write_chunk([(T * 1000 + ms, bits_of(value)) for ms, value in samples])


def all_of(data: bytes, *, part: int = 1 << 16, low: int = 0, high: int = 10**7) -> list[tuple[dict[str, str], object]]:
    """Each series' labels and samples (milliseconds after T)."""
    actual: list[tuple[dict[str, str], object]] = []
    parts = (data[begin : begin + part] for begin in range(0, len(data), part))
    for batch in batches(parts, T * 1000 + low, T * 1000 + high, NAMES):
        ends = np.cumsum(batch.sizes)
        points = list(zip((batch.times - T * 1000).tolist(), batch.values.tolist(), strict=True))
        actual += [
            (labels, points[end - size : end])
            for labels, size, end in zip(batch.labels, batch.sizes.tolist(), ends.tolist(), strict=True)
        ]
    return actual


# --- the question


@pytest.mark.parametrize(
    ("selector", "actual"),
    [
        ("up", None),
        ("up{}", [("__name__", "=", "up")]),
        ('{a="b"}', [("a", "=", "b")]),
        ('up{a="b",}', [("__name__", "=", "up"), ("a", "=", "b")]),
        (" up { a != 'x\"y' , b=~`n\\d` } ", [("__name__", "=", "up"), ("a", "!=", 'x"y'), ("b", "=~", "n\\d")]),
        ('up{a="b\\\\c\\n\\"",b!~"}"}', [("__name__", "=", "up"), ("a", "=", 'b\\c\n"'), ("b", "!~", "}")]),
        ('up{a="\\x41"}', None),
        ('up{a="b" b="c"}', None),
        ("up{a=b}", None),
        ('up{"utf8.name"="b"}', None),
        ('up{a="b"} offset 1h', None),
    ],
)
def test_a_selector_is_parsed_or_left_to_the_server(selector: str, actual: list[tuple[str, str, str]]) -> None:
    assert matchers(selector) == (actual and [Matcher(*each) for each in actual])


ESCAPES = {ord("\\"): "\\\\", ord('"'): '\\"', ord("\n"): "\\n"}


@given(st.lists(st.tuples(st.sampled_from(["a", "le_x"]), st.sampled_from(["=", "!="]), st.text(max_size=9))))
def test_what_is_quoted_as_promql_has_it_comes_back(conditions: list[tuple[str, str, str]]) -> None:
    quoted = [f'{name}{kind}"{value.translate(ESCAPES)}"' for name, kind, value in conditions]
    assert matchers("m{" + ",".join(quoted) + "}") == [
        Matcher("__name__", "=", "m"),
        *(Matcher(*c) for c in conditions),
    ]


def test_request_is_a_snappy_block_of_matchers_and_time() -> None:
    body = request([Matcher("__name__", "=", "up"), Matcher("a", "!~", "x|y")], T * 1000, T * 1000 + 300)
    size, begin = _uvarint(body)
    message = pa.decompress(body, decompressed_size=size, codec="snappy", asbytes=True)
    conditions = [
        b"\x08\x00" + sized(2, b"__name__") + sized(3, b"up"),
        b"\x08\x03" + sized(2, b"a") + sized(3, b"x|y"),
    ]
    query = b"\x08" + uvarint(T * 1000) + b"\x10" + uvarint(T * 1000 + 300) + b"".join(sized(3, c) for c in conditions)
    assert message == sized(1, query) + b"\x12\x01\x01"
    assert begin < len(body)


def test_equality_is_sent_as_a_regular_expression() -> None:
    """A server takes equality with its own external label for that label."""
    body = request([Matcher("cluster", "=", "a.b|c")], 0, 1)
    assert b"\x08\x02" + sized(2, b"cluster") + sized(3, b"a\\.b\\|c") in body


def test_a_long_request_is_a_block_too() -> None:
    names = "|".join(f"node{number}" for number in range(20_000))
    body = request([Matcher("node", "=~", names)], 0, 1)
    size, _ = _uvarint(body)
    message = pa.decompress(body, decompressed_size=size, codec="snappy", asbytes=True)
    assert names.encode() in message


def _uvarint(data: bytes) -> tuple[int, int]:
    end = next(number for number, byte in enumerate(data) if byte < 128) + 1
    return sum((byte & 127) << 7 * number for number, byte in enumerate(data[:end])), end


# --- the answer


@pytest.mark.parametrize("part", [1, 7, 1 << 16])
@pytest.mark.parametrize("batch", [1, 100, 1 << 23])
def test_series_come_whole_however_the_answer_is_cut(part: int, batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_read, "BATCH", batch)
    other = LABELS | {"gpu": "1"}
    data = b"".join(
        [
            frame(series(LABELS, chunk((0, 1.0), (15_000, 2.0)), chunk((30_000, 3.0)))),
            frame(series(LABELS, chunk((45_000, 4.0)))),
            frame(series(other, chunk((0, 5.0)))),
            frame(series(other, chunk((15_000, 6.0))), series(LABELS | {"gpu": "2"}, chunk((0, 7.0)))),
        ]
    )
    assert all_of(data, part=part) == [
        (LABELS, [(0, 1.0), (15_000, 2.0), (30_000, 3.0), (45_000, 4.0)]),
        (other, [(0, 5.0), (15_000, 6.0)]),
        (LABELS | {"gpu": "2"}, [(0, 7.0)]),
    ]


def test_an_answer_without_series_is_empty() -> None:
    assert all_of(b"") == []
    assert all_of(frame()) == []


def test_stale_markers_and_samples_outside_the_time_are_left_out() -> None:
    ended = write_chunk([(T * 1000, bits_of(1.0)), (T * 1000 + 1, STALE)])
    gone = write_chunk([(T * 1000 + 5, STALE)])
    data = frame(series(LABELS, ended, chunk((10, 2.0), (20, 3.0)))) + frame(series(LABELS | {"gpu": "1"}, gone))
    assert all_of(data) == [(LABELS, [(0, 1.0), (10, 2.0), (20, 3.0)])]
    assert all_of(data, low=10, high=10) == [(LABELS, [(10, 2.0)])]


def test_chunks_that_overlap_give_each_sample_once_in_order() -> None:
    data = frame(series(LABELS, chunk((0, 1.0), (20, 3.0)), chunk((0, 1.0), (10, 2.0), (30, 4.0))))
    data += frame(series(LABELS | {"gpu": "1"}, chunk((20, 6.0)), chunk((0, 5.0))))
    assert [points for _, points in all_of(data)] == [
        [(0, 1.0), (10, 2.0), (20, 3.0), (30, 4.0)],
        [(0, 5.0), (20, 6.0)],
    ]


def test_labels_that_promql_does_not_show_are_left_out() -> None:
    assert all_of(frame(series(LABELS | {"replica": "a"}, chunk((0, 1.0))))) == [(LABELS, [(0, 1.0)])]


def test_long_labels_empty_ones_and_unknown_fields_are_read_over() -> None:
    labels = LABELS | {"hpc_job": "j" * 300, "gpu": ""}
    one = series(labels, chunk((0, 1.0))) + sized(9, b"more") + bytes([10 << 3]) + uvarint(77)
    message = sized(1, one) + bytes([2 << 3]) + b"\x00"
    data = uvarint(len(message)) + crc32c(message).to_bytes(4, "big") + message
    assert all_of(data) == [(labels, [(0, 1.0)])]


@pytest.mark.parametrize("kind", [0, 2, 3, 9])
def test_chunks_of_another_encoding_differ_from_damage(kind: int) -> None:
    with pytest.raises(UnknownChunksError):
        all_of(frame(series(LABELS, chunk((0, 1.0)), kind=kind)))


def test_what_a_server_writes_behind_the_last_frame_is_an_error() -> None:
    good = frame(series(LABELS, chunk((0, 1.0))))
    for output in ("expanding series: context deadline exceeded", "x" * 120 + " what a long story", "a b"):
        with pytest.raises(GarbledError):
            all_of(good + output.encode() + b"\n")


@given(st.data())
def test_answer_cut_within_a_frame_is_an_error(data: st.DataObject) -> None:
    one = frame(series(LABELS, chunk((0, 1.0), (1, 2.0))))
    cut = data.draw(st.integers(1, len(one) - 1))
    with pytest.raises(GarbledError):
        all_of(one + one[:cut])


@given(st.binary(max_size=80))
def test_bytes_that_are_no_answer_are_an_error_or_empty(data: bytes) -> None:
    try:
        assert all_of(data) == []
    except (GarbledError, UnknownChunksError):
        return


@given(st.data())
def test_changed_byte_is_an_error_by_the_checksum(data: st.DataObject) -> None:
    one = frame(series(LABELS, chunk((0, 1.0), (15_000, 2.0), (30_000, 0.1))))
    changed = bytearray(one)
    changed[data.draw(st.integers(0, len(one) - 1))] ^= data.draw(st.integers(1, 255))
    with pytest.raises((GarbledError, UnknownChunksError)):
        all_of(bytes(changed))


# --- means


def samples_of(*points: tuple[int, float]) -> Samples:
    times = np.array([T * 1000 + ms for ms, _ in points], np.int64)
    return Samples([{"gpu": "0"}], np.array([len(points)]), times, np.array([value for _, value in points]))


def test_interval_has_readings_after_its_beginning_up_to_its_end() -> None:
    means = cell_means(samples_of((-1, 1.0), (0, 3.0), (1, 5.0), (60_000, 6.0), (180_000, 9.0)), 60_000)
    assert (means.times - T * 1000).tolist() == [0, 60_000, 180_000]
    assert means.values.tolist() == [2.0, 5.5, 9.0]
    assert means.sizes.tolist() == [3]


def test_blank_values_are_no_part_of_a_mean() -> None:
    means = cell_means(samples_of((1, 0.5), (2, 2.0**47), (3, 2147483632.0), (4, float("nan")), (5, 1.5)), 60_000)
    assert means.values.tolist() == [1.0]
    assert cell_means(samples_of((1, float("nan"))), 60_000).times.tolist() == []


def test_means_are_those_of_each_series_by_itself() -> None:
    two = Samples(
        [{"gpu": "0"}, {"gpu": "1"}, {"gpu": "2"}],
        np.array([2, 1, 2]),
        np.array([1, 2, 1, 1, 60_001]) + T * 1000,
        np.array([1.0, 3.0, float("inf"), 4.0, 8.0]),
    )
    means = cell_means(two, 60_000)
    assert (means.sizes.tolist(), means.values.tolist()) == ([1, 0, 2], [2.0, 4.0, 8.0])


# --- a server


def server(url: str, **more: object) -> PrometheusServer:
    options = {"retries": 0, "timeout_s": 60.0, "sleep": lambda _: None} | more
    return PrometheusServer(url, **options)  # type: ignore[arg-type]  # options of Server


GAUGE = [(1_000 + 15_000 * n, n / 8) for n in range(8)]


def streaming(
    body: Callable[[int], bytes] = lambda _: frame(series(LABELS, chunk(*GAUGE))), status: int = 200
) -> Callable[[bytes], Answer]:
    """A server that streams: to the probe nothing, to the nth question after it a body."""
    count = iter(range(1000))

    def answer(_: bytes) -> Answer:
        number = next(count)
        return Answer(body(number) if number else b"", status if number else 200, STREAM)

    return answer


def names_of(path: str, _: dict[str, str]) -> Answer:
    assert path.endswith("/labels")
    return told([*NAMES])


def values(requested: PrometheusServer, selector: str = TENSOR + "{}", *, seconds: int = 120) -> list[float] | None:
    actual = requested.samples(
        selector,
        first=at(T + 60),
        last=at(T + seconds),
        step=timedelta(seconds=60),
        each=lambda batch: batch.values.tolist(),
    )
    return None if actual is None else [value for batch in actual for value in batch]


def test_raw_readings_stream_with_login_and_enter_the_digest() -> None:
    with web(names_of, streaming()) as there:
        requested = server(there.url.replace("//", "//me:secret@"))
        empty = server(there.url).digest()
        assert values(requested) == [value for _, value in GAUGE]
        assert requested.digest() != empty
        assert values(requested) == [value for _, value in GAUGE]
        assert len(there.posted) == 3  # the probe, and twice the question
    login = "Basic " + base64.b64encode(b"me:secret").decode()
    assert all(headers["Authorization"] == login for _, headers in there.posted)
    assert {headers["Content-Encoding"] for _, headers in there.posted} == {"snappy"}


@pytest.mark.parametrize(
    "refusal",
    [
        unsupported(b""),
        Answer(b"not found", 404, "text/plain"),
        Answer(b"<html>log in", 403, "text/html"),
        Answer(b"", 501),
        Answer(b"\x08\x01", 200, "application/x-protobuf"),
        told([]),
    ],
)
def test_a_server_without_streams_gets_no_other_request(refusal: Answer) -> None:
    with web(names_of, lambda _: refusal) as there:
        requested = server(there.url)
        assert values(requested) is None
        assert values(requested) is None
        assert (len(there.posted), there.questions) == (1, [])


def test_unsupported_selector_is_left_to_the_server() -> None:
    with web(names_of, streaming()) as there:
        assert values(server(there.url), 'up{"utf8.name"="b"}') is None
        assert there.posted == []


def test_refused_remote_read_falls_back_to_json() -> None:
    with web(names_of, streaming(lambda _: b"no such thing", status=400)) as there:
        requested = server(there.url)
        assert values(requested) is None
        assert requested.streams() is False


def test_histograms_are_left_to_json() -> None:
    with web(names_of, streaming(lambda _: frame(series(LABELS, chunk((0, 1.0)), kind=2)))) as there:
        assert values(server(there.url)) is None


def test_unavailable_server_is_not_taken_for_one_without_streams() -> None:
    busy = iter([Answer(b"", 503), Answer(b"", 503), Answer(b"", 200, STREAM)])
    with web(names_of, lambda _: next(busy)) as there:
        requested = server(there.url)
        with pytest.raises(ServerDownError, match="status 503"):
            requested.streams()
        assert server(there.url, retries=1).streams()


def test_a_truncated_response_is_requested_again() -> None:
    whole = frame(series(LABELS, chunk(*GAUGE)))
    waits: list[float] = []
    with web(names_of, streaming(lambda number: whole + (b"oh no" if number < 2 else b""))) as there:
        assert values(server(there.url, retries=2, sleep=waits.append)) == [value for _, value in GAUGE]
        assert waits == [1.0]
    with (
        web(names_of, streaming(lambda _: whole + b"disk on fire")) as there,
        pytest.raises(ServerDownError, match="breaks an answer off"),
    ):
        values(server(there.url))


def test_too_large_read_is_requested_in_disjoint_halves() -> None:
    windows: list[tuple[int, int]] = []

    def answer(body: bytes) -> Answer:
        low, high = _window(body)
        if low == high == 0:
            return Answer(b"", 200, STREAM)
        if high - low > 60_000:
            return Answer(b"the query exceeded the maximum number of chunks", 422, "text/plain")
        windows.append((low - T * 1000, high - T * 1000))
        inside = [(ms, value) for ms, value in GAUGE if low <= T * 1000 + ms <= high]
        return Answer(frame(series(LABELS, chunk(*inside))), 200, STREAM)

    with web(names_of, answer) as there:
        assert values(server(there.url)) == [value for _, value in GAUGE]
    assert windows == [(1, 60_000), (60_001, 120_000)]


def _window(body: bytes) -> tuple[int, int]:
    size, _ = _uvarint(body)
    message = pa.decompress(body, decompressed_size=size, codec="snappy", asbytes=True)
    at_query = _uvarint(message[1:])[1] + 2
    low, behind = _uvarint(message[at_query:])
    high, _ = _uvarint(message[at_query + behind + 1 :])
    return low, high


def test_a_stream_that_never_ends_is_not_waited_for() -> None:
    began = time.monotonic()
    drip = Answer(frame(series(LABELS, chunk(*GAUGE))), 200, STREAM, drip_s=0.2)
    answers = iter([Answer(b"", 200, STREAM), drip])
    with web(names_of, lambda _: next(answers)) as there, pytest.raises(ServerDownError, match="not answer in time"):
        values(server(there.url, timeout_s=-1.5))
    assert time.monotonic() - began < 10


def test_samples_are_the_same_by_both_transports() -> None:
    def json(path: str, params: dict[str, str]) -> Answer:
        if path.endswith("/labels"):
            return told([*NAMES])
        if path.endswith("/query_range"):
            return matrix(({"Hostname": "n1.example", "gpu": "0"}, [(T + 60, "0.1875"), (T + 120, "0.6875")]))
        return told({"resultType": "vector", "result": []})

    def rows(requested: PrometheusServer) -> list[tuple[object, ...]]:
        parsed = read(requested, ScrapeSpec("c", "", 60), [TENSOR], since=at(T), until=at(T + 120))
        return parsed.frames["gpu_samples"].select("node", "gpu", "ts", "interval_s", "tensor_active").rows()

    with web(json, streaming()) as there:
        raw = rows(server(there.url))
        assert [path for path, _, _ in there.questions] == ["/api/v1/labels"]
    with web(json) as there:
        assert raw == rows(server(there.url))
    assert raw == [("n1", "0", at(T), 60.0, 0.1875), ("n1", "0", at(T + 60), 60.0, 0.6875)]


def test_all_metrics_share_a_stream_except_over_long_intervals() -> None:
    """Over long intervals the server computes the means."""
    other = LABELS | {"__name__": "DCGM_FI_DEV_GPU_UTIL"}
    body = frame(series(LABELS, chunk((1, 0.5)))) + frame(series(other, chunk((1, 50.0))))
    for interval_s, posts in ((60, 2), (RAW_UP_TO_S, 2), (RAW_UP_TO_S + 1, 0)):
        with web(lambda path, _: told([*NAMES]) if "labels" in path else matrix(), streaming(lambda _: body)) as there:
            wanted = ScrapeSpec("c", "", interval_s)
            begin = T // interval_s * interval_s
            parsed = read(
                server(there.url),
                wanted,
                [TENSOR, "DCGM_FI_DEV_GPU_UTIL"],
                since=at(begin),
                until=at(begin + interval_s),
            )
            assert len(there.posted) == posts
        actual = parsed.frames["gpu_samples"].select("node", "gpu", "gpu_util", "tensor_active").rows()
        assert actual == ([("n1", "0", 0.5, 0.5)] if posts else [])


def test_readings_of_xids_come_by_remote_read() -> None:
    labels = {"__name__": XID, "Hostname": "n1.example", "gpu": "0"}
    gauge = [(15_000 * n, 0.0 if n < 4 else 79.0) for n in range(-4, 8)]

    def json(path: str, params: dict[str, str]) -> Answer:
        if path.endswith("/labels"):
            return told([*NAMES])
        assert params["query"].startswith("max by")
        return told({"resultType": "vector", "result": [{"metric": {"Hostname": "n1.example"}, "value": [T, "79"]}]})

    with web(json, streaming(lambda _: frame(series(labels, chunk(*gauge))))) as there:
        parsed = read(server(there.url), ScrapeSpec("c", "", 60), [XID], since=at(T), until=at(T + 120))
    events = parsed.frames["health_events"].select("node", "gpu", "ts", "code").rows()
    assert events == [("n1", "0", at(T + 60), "79")]


def test_series_without_a_gpu_are_refused_by_both_transports() -> None:
    nameless = {"__name__": TENSOR, "Hostname": "n1.example", "hpc_job": "7"}

    def json(path: str, params: dict[str, str]) -> Answer:
        if path.endswith("/labels"):
            return told([*NAMES])
        return matrix(({"Hostname": "n1.example"}, [(T + 60, "1")])) if path.endswith("range") else told(
            {"resultType": "vector", "result": []}
        )  # fmt: skip

    body = frame(series(nameless, chunk((1, 1.0)))) + frame(series(LABELS, chunk((1, 0.5))))
    with web(json, streaming(lambda _: body)) as there:
        raw = read(server(there.url), ScrapeSpec("c", "", 60), [TENSOR], since=at(T), until=at(T + 60))
    with web(json) as there:
        means = read(server(there.url), ScrapeSpec("c", "", 60), [TENSOR], since=at(T), until=at(T + 60))
    columns = pl.exclude("origin")
    assert raw.rejects.select(columns).equals(means.rejects.select(columns))
    assert raw.frames["gpu_samples"].select("node", "gpu", "tensor_active").rows() == [("n1", "0", 0.5)]
