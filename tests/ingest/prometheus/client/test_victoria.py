"""VictoriaMetrics' export: lines of any form and cut, what is no number, damage, and when a server is asked for it."""

from __future__ import annotations

import json
import math
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.errors import ServerDownError
from ingest.prometheus.client import victoria
from ingest.prometheus.client.remote_read import GarbledError
from ingest.prometheus.client.server import PrometheusServer
from ingest.prometheus.client.victoria import KIND, Digest, LongLineError, batches
from tests.support.slurm.parsing import at
from tests.support.web import Answer, matrix, told, web

if TYPE_CHECKING:
    from collections.abc import Callable

T = 1_795_248_000
Points = list[tuple[int, str]]


def line(labels: dict[str, str], points: Points) -> bytes:
    """A series as the server writes it; times are milliseconds after T."""
    values, times = ",".join(value for _, value in points), ",".join(str(T * 1000 + ms) for ms, _ in points)
    metric = json.dumps(labels, separators=(",", ":"))
    return f'{{"metric":{metric},"values":[{values}],"timestamps":[{times}]}}\n'.encode()


def all_of(data: bytes, *, part: int = 1 << 16) -> list[tuple[dict[str, str], list[tuple[int, float]]]]:
    """Each series' labels and readings."""
    result = []
    parts = (data[begin : begin + part] for begin in range(0, len(data), part))
    for batch in batches(parts, T * 1000, T * 1000 + 10**6, Digest()):
        stops = batch.sizes.cumsum().tolist()
        points = list(zip((batch.times - T * 1000).tolist(), batch.values.tolist(), strict=True))
        for labels, size, stop in zip(batch.labels, batch.sizes.tolist(), stops, strict=True):
            result.append((labels, points[stop - size : stop]))
    return result


NUMBERS = st.floats(allow_nan=False, allow_infinity=False).map(repr)
POINTS = st.dictionaries(st.integers(0, 10**6), NUMBERS, max_size=6).map(lambda result: sorted(result.items()))
LABELS = st.dictionaries(st.sampled_from(["__name__", "values", "n"]), st.text(max_size=5) | st.just('},"values":['))


@settings(deadline=None)
@given(st.lists(st.tuples(LABELS, POINTS), max_size=6), st.sampled_from([1, 13, 1 << 16]), st.sampled_from([1, 100]))
def test_lines_are_read_however_they_are_cut(
    series: list[tuple[dict[str, str], Points]], part: int, batch: int
) -> None:
    data = b"".join(line(labels, points) for labels, points in series)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(victoria, "BATCH", batch)
        result = all_of(data, part=part)
    assert result == [(labels, [(ms, float(value)) for ms, value in points]) for labels, points in series if points]


def test_null_and_nan_are_no_readings_and_infinity_is_one() -> None:
    spelled = ["1", "null", "NaN", "+Inf", '"Infinity"', "-Inf", '"-Infinity"', "1e-300"]
    result = all_of(line({"a": "1"}, list(enumerate(spelled))) + line({"a": "2"}, [(0, "null")]))
    inf = math.inf
    assert result == [({"a": "1"}, [(0, 1.0), (3, inf), (4, inf), (5, -inf), (6, -inf), (7, 1e-300)])]


def test_larger_of_two_readings_of_one_time_counts_in_order() -> None:
    assert all_of(line({}, [(5, "1"), (0, "2"), (5, "3"), (5, "2")])) == [({}, [(0, 2.0), (5, 3.0)])]


def test_lines_that_are_written_in_another_way_are_read_too() -> None:
    other = {"timestamps": [T * 1000, T * 1000 + 1], "values": [0.5, None], "metric": {"a": "1"}}
    assert all_of(json.dumps(other).encode() + b"\n" + line({"a": "2"}, [(0, "1")])) == [
        ({"a": "1"}, [(0, 0.5)]),
        ({"a": "2"}, [(0, 1.0)]),
    ]


@pytest.mark.parametrize(
    "damage",
    [
        b'{"metric":{"a":"1"},"values":[1,2],"timestamps":[1]}\n',
        b'{"metric":{"a":1},"values":[1],"timestamps":[1]}\n',
        b'{"metric":{"a":"1"},"values":[x],"timestamps":[1]}\n',
        b'{"metric":{"a":"1"},"values":[1],"timestamps":[1.5]}\n',
        b'{"metric":{"a":"1"},"values":[1],"timestamps":[null]}\n',
        b'{"metric":{"a":"1"},"val',
        b"error when searching: timeout\n",
        b"<html>\n",
    ],
)
def test_what_is_no_line_is_an_error(damage: bytes) -> None:
    with pytest.raises(GarbledError):
        all_of(line({"a": "0"}, [(0, "1")]) + damage)


@settings(deadline=None)
@given(st.data())
def test_an_answer_that_is_cut_within_a_line_is_an_error(data: st.DataObject) -> None:
    one = line({"a": "1"}, [(0, "1.5"), (1, "2.5")]).rstrip()
    with pytest.raises(GarbledError):
        all_of(line({"a": "0"}, [(0, "1")]) + one[: data.draw(st.integers(1, len(one) - 1))])


def test_too_long_series_differs_from_damage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(victoria, "LONGEST_LINE", 100)
    monkeypatch.setattr(victoria, "BATCH", 10)
    with pytest.raises(LongLineError):
        all_of(line({"a": "1"}, [(ms, "1") for ms in range(100)]), part=16)


def test_a_digest_is_of_the_lines_in_any_order() -> None:
    result = []
    for lines in ([b"one", b"two"], [b"two", b"one"], [b"one"], [b"one", b"one"]):
        seen = Digest()
        for each in lines:
            seen.update(each)
        result.append(seen.digest())
    assert result[0] == result[1]
    assert len(set(result)) == 3


# --- a server


def exporting(body: Callable[[dict[str, str]], Answer]) -> Callable[[dict[str, str]], Answer]:
    """A server that exports: to the probe nothing."""
    return lambda params: Answer(b"", kind=KIND) if "trackside_asks" in params["match[]"] else body(params)


def values(requests_seen: PrometheusServer, seconds: int = 240) -> list[float] | None:
    result = requests_seen.samples(
        '{__name__=~"x|y"}',
        first=at(T + 60),
        last=at(T + seconds),
        step=timedelta(seconds=60),
        each=lambda batch: batch.values.tolist(),
    )
    return None if result is None else [value for batch in result for value in batch]


def server(url: str, **more: object) -> PrometheusServer:
    return PrometheusServer(url, **{"retries": 0, "timeout_s": 60.0, "sleep": lambda _: None, **more})  # type: ignore[arg-type]  # options of Server


ONE = Answer(line({"a": "1"}, [(15_000, "1"), (30_000, "2")]), kind=KIND)


def test_export_support_is_probed_once() -> None:
    with web(lambda *_: matrix(), export=exporting(lambda _: ONE)) as there:
        requests_seen = server(there.url)
        empty = requests_seen.digest()
        assert values(requests_seen) == [1.0, 2.0]
        first = requests_seen.digest()
        assert values(requests_seen) == [1.0, 2.0]
        assert requests_seen.digest() == first != empty
        assert (requests_seen.transport(), requests_seen.transport()) == ("export", "json")  # since it was last called
        assert requests_seen.describe_transport() == "VictoriaMetrics' export"
        assert len(there.exported) == 3
        assert len(there.posted) == 1  # it has no remote read
    params, _ = there.exported[1]
    assert (params["start"], params["end"]) == (f"{T}.001", f"{T + 240}")


@pytest.mark.parametrize(
    "refusal",
    [
        Answer(b"404 page not found", 404, "text/plain"),
        Answer(b"<html>welcome", 200, "text/html"),
        told([]),
        Answer(b"no", 403),
        Answer(b"unsupported path requested", 400, "text/plain"),
    ],
)
def test_without_export_the_server_is_read_as_json(refusal: Answer) -> None:
    with web(lambda *_: matrix(), export=lambda _: refusal) as there:
        requests_seen = server(there.url)
        assert values(requests_seen) is None
        assert values(requests_seen) is None
        assert len(there.exported) == 1
        assert requests_seen.describe_transport().startswith("queries in JSON")


def test_without_raw_transports_nothing_is_requested() -> None:
    with web(lambda *_: matrix(), export=exporting(lambda _: ONE)) as there:
        assert values(server(there.url, remote_read=False)) is None
        assert (there.exported, there.posted) == ([], [])


def test_unavailable_server_is_not_taken_for_one_without_export() -> None:
    with (
        web(lambda *_: matrix(), export=lambda _: Answer(b"", 503)) as there,
        pytest.raises(ServerDownError, match="status 503"),
    ):
        values(server(there.url))


def test_too_large_export_is_halved_by_time_then_by_metric() -> None:
    asked_for: list[tuple[str, str, str]] = []

    def answer(params: dict[str, str]) -> Answer:
        if float(params["end"]) - float(params["start"]) > 120 or "|" in params["match[]"]:
            output = "cannot select more than -search.maxSamplesPerQuery=10 samples; possible solutions: ..."
            return Answer(output.encode(), 422, "text/plain")
        asked_for.append((params["match[]"], params["start"], params["end"]))
        return Answer(line({"m": params["match[]"]}, [(round(float(params["end"]) - T) * 1000, "1")]), kind=KIND)

    with web(lambda *_: matrix(), export=exporting(answer)) as there:
        assert values(server(there.url)) == [1.0] * 8
    assert asked_for == [
        (f'{{__name__="{name}"}}', f"{T + low}.001", f"{T + low + 60}") for low in (0, 60, 120, 180) for name in "xy"
    ]


def test_a_truncated_export_is_requested_again() -> None:
    cut = Answer(ONE.body[:-10], kind=KIND)
    answers = iter([cut, cut, ONE])
    waits: list[float] = []
    with web(lambda *_: matrix(), export=exporting(lambda _: next(answers))) as there:
        assert values(server(there.url, retries=2, sleep=waits.append)) == [1.0, 2.0]
    assert waits == [1.0, 2.0]
    with (
        web(lambda *_: matrix(), export=exporting(lambda _: cut)) as there,
        pytest.raises(ServerDownError, match="breaks an answer off"),
    ):
        values(server(there.url))
