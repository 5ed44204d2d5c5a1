"""No bytes from a server break the readers of its answers."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ingest.prometheus.client import json_samples
from ingest.prometheus.client.json_samples import checked, samples_of
from ingest.prometheus.client.remote_read import GarbledError
from ingest.prometheus.client.responses import NotPrometheusError, PartialError, series_of, warnings
from ingest.prometheus.client.victoria import LongLineError
from tests.ingest.prometheus.client.test_json_samples import bits, body
from tests.ingest.prometheus.client.test_victoria import all_of, line

if TYPE_CHECKING:
    from ingest.prometheus.client.remote_read import Samples

T = 1_795_248_000
PIECES = (
    *(b"", b"[", b"]", b"{", b"}", b'"', b",", b":", b"\\", b"\n", b" ", b"\x00", b"\xff", b"\xc3", b"null", b"true"),
    *(b"-1", b"1e400", b"NaN", b"9" * 30, b"0" * 20, b'"values":[', b'"metric":{', b'[1,"2"]', b"\\ud800", b"1.5"),
)
NOT_AN_ANSWER = (NotPrometheusError, KeyError, TypeError, ValueError)
ANSWER = body([({"gpu": "0", "a": "b"}, [(T, "1"), (T + 15, "NaN")]), ({}, []), ({"gpu": "1"}, [(T, "0.5")])])
LINES = line({"a": "1"}, [(0, "1.5"), (15_000, "2")]) + line({"a": "2"}, [(0, "1")])


@st.composite
def damaged(draw: st.DrawFn, good: bytes) -> bytes:
    """Good bytes with pieces cut out, doubled, moved or replaced; or just any bytes."""
    if draw(st.integers(0, 9)) == 0:
        return draw(st.binary(max_size=100))
    data = good
    for _ in range(draw(st.integers(1, 4))):
        first, last = sorted((draw(st.integers(0, len(data))), draw(st.integers(0, len(data)))))
        piece = draw(st.sampled_from([data[first:last], *PIECES]))
        data = data[:first] + piece + data[draw(st.sampled_from([first, last])) :]
    return data


def plainly(data: bytes) -> Samples | None:
    """What a parser of JSON makes of an answer; None if it is none."""
    try:
        return checked(series_of(json.loads(data)["data"]["result"], "values"))
    except NOT_AN_ANSWER:
        return None


@given(damaged(ANSWER), st.sampled_from([1, 40, 1 << 23]))
@example(b"[" * 100_000, 40)
@example(ANSWER.replace(b'"1"', b"9" * 5000), 40)
def test_json_answer_is_refused_or_read_as_by_a_json_parser(data: bytes, block: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_samples, "BLOCK", block)
        try:
            actual = samples_of(data)
        except NOT_AN_ANSWER:
            return
    expected = plainly(data)
    assert expected is not None
    assert bits(actual) == bits(expected)


@given(damaged(ANSWER[:-1] + b',"warnings":["some series are left out"],"isPartial":false}'))
@example(b'{"warnings":["\xff"]}')
@example(b'{"warnings":' + b"[" * 100_000)
def test_warnings_of_any_answer_are_a_list_or_a_partial_error(data: bytes) -> None:
    try:
        actual = warnings(data)
    except PartialError:
        return
    assert all(isinstance(text, str) for text in actual)


@given(damaged(LINES), st.sampled_from([1, 13, 1 << 16]))
@example(b"[" * 100_000 + b"\n", 1 << 16)
@example(LINES.replace(b"1.5", b"9" * 5000), 1 << 16)
@example(LINES.replace(b'{"a"', b'{"\xffa"'), 1)
@example(LINES.replace(b"{", b"{ ").replace(b"1795248000000", b"9" * 30), 1)
def test_export_is_refused_or_has_series_in_order_of_time(data: bytes, part: int) -> None:
    try:
        actual = all_of(data, part=part)
    except (GarbledError, LongLineError):
        return
    for labels, points in actual:
        assert all(isinstance(text, str) for pair in labels.items() for text in pair)
        assert all(before < after for (before, _), (after, _) in pairwise(points))
        assert all(0 <= ms <= 10**6 for ms, _ in points)
