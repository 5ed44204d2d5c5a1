"""Answers in JSON, read quickly: what comes out is what a parser of JSON finds, and what is none is refused alike."""

from __future__ import annotations

import json
import math
import struct
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.prometheus.client import json_samples
from ingest.prometheus.client.json_samples import checked, samples_of
from ingest.prometheus.client.order import merged, tidied
from ingest.prometheus.client.responses import NotPrometheusError, series_of

if TYPE_CHECKING:
    from ingest.prometheus.client.remote_read import Samples

T = 1_795_248_000
LABELS = st.dictionaries(
    st.sampled_from(["__name__", "gpu", "values", "Hostname"]), st.text(max_size=6) | st.just('},"values":[[1,"2"]]')
)
NUMBERS = st.floats(width=64).map(repr) | st.sampled_from(["NaN", "+Inf", "-Inf", "0", "1e+06", "5e-324", "-0"])
TIMES = st.integers(0, 2**32).map(lambda ms: ms / 1000) | st.integers(0, 2**31)
SERIES = st.lists(st.tuples(LABELS, st.lists(st.tuples(TIMES, NUMBERS), max_size=5)), max_size=5)


def body(series: list[tuple[dict[str, str], list[tuple[float, str]]]], *, blanks: bool = False) -> bytes:
    """An answer as Prometheus writes it, or with blanks as a proxy may."""
    result = [{"metric": labels, "values": [list(point) for point in points]} for labels, points in series]
    actual = {"status": "success", "data": {"resultType": "matrix", "result": result}}
    return json.dumps(actual, separators=None if blanks else (",", ":")).encode()


def bits(samples: Samples) -> tuple[list[dict[str, str]], list[int], list[int], list[bytes]]:
    """All of samples; NaN is like NaN."""
    values = [b"nan" if math.isnan(value) else struct.pack("d", value) for value in samples.values.tolist()]
    return samples.labels, samples.sizes.tolist(), samples.times.tolist(), values


@settings(deadline=None)
@given(SERIES, st.booleans(), st.sampled_from([1, 40, 1 << 23]))
def test_what_is_read_is_what_a_parser_of_json_finds(
    series: list[tuple[dict[str, str], list[tuple[float, str]]]], blanks: bool, block: int
) -> None:
    """In blocks of whatever size; numbers to the last bit."""
    text = body(series, blanks=blanks)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_samples, "BLOCK", block)
        actual = bits(samples_of(text))
    assert actual == bits(checked(series_of(json.loads(text)["data"]["result"], "values")))
    assert actual[0] == [labels for labels, _ in series]
    expected = [float(value) for _, points in series for _, value in points]
    assert actual[3] == [b"nan" if math.isnan(value) else struct.pack("d", value) for value in expected]
    assert actual[2] == [round(moment * 1000) for _, points in series for moment, _ in points]


def test_the_quick_way_is_the_one_that_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """As servers write it, no parser of JSON sees the numbers."""
    monkeypatch.setattr(json_samples, "checked", lambda _: pytest.fail("parsed as JSON"))
    points = [(T + 15.001, "0.5"), (T + 30, "NaN"), (T + 45, "+Inf"), (T + 60, "-Inf"), (T + 75, "1e+06")]
    assert samples_of(body([({"gpu": "0"}, points), ({"gpu": "1"}, [])])).sizes.tolist() == [5, 0]


GOOD = '[1795248000,"1"]'


@pytest.mark.parametrize(
    "values",
    [
        "[1795248000,1]",
        '["1795248000","1"]',
        '[true,"1"]',
        "[1795248000]",
        "1795248000",
        '[1795248000,"1","2"]',
        '[NaN,"1"]',
        '[1e300,"1"]',
        '[-1,"1"]',
        f"[{GOOD}]",
        f"{GOOD},null",
        f'{GOOD},{{"1":"2"}}',
        '[1795248000,["1"]]',
        '[null,"1"]',
    ],
)
@pytest.mark.parametrize("before", ["", GOOD + ","])
def test_values_that_prometheus_never_writes_are_refused(values: str, before: str) -> None:
    text = f'{{"status":"success","data":{{"result":[{{"metric":{{}},"values":[{before}{values}]}}]}}}}'
    with pytest.raises(NotPrometheusError):
        samples_of(text.encode())


def test_a_value_that_is_no_number_is_nan() -> None:
    assert math.isnan(samples_of(body([({}, [(T, "n/a")])])).values[0])


@settings(deadline=None)
@given(SERIES.filter(bool), st.data())
def test_an_answer_that_is_cut_anywhere_is_refused(
    series: list[tuple[dict[str, str], list[tuple[float, str]]]], data: st.DataObject
) -> None:
    text = body(series)
    cut = data.draw(st.integers(0, len(text) - 1))
    with pytest.raises((ValueError, NotPrometheusError)):
        samples_of(text[:cut])


POINTS = st.lists(st.tuples(st.integers(0, 6), st.sampled_from([0.5, 1.0, -math.inf, math.nan])), max_size=12)


@settings(deadline=None)
@given(st.lists(POINTS, max_size=4), st.integers(0, 6), st.integers(0, 6), st.booleans())
def test_tidied_samples_are_ordered_bounded_and_the_largest(
    series: list[list[tuple[int, float]]], low: int, high: int, nan: bool
) -> None:
    """Of several values for one time, the largest counts."""
    text = body([({"n": str(n)}, [(moment, repr(value)) for moment, value in each]) for n, each in enumerate(series)])
    actual = tidied(samples_of(text), low * 1000, high * 1000, nan=nan)
    expected: dict[str, dict[int, float]] = {}
    for number, points in enumerate(series):
        for moment, value in points:
            if low <= moment <= high and (nan or not math.isnan(value)):
                kept = expected.setdefault(str(number), {})
                before = kept.get(moment * 1000, -math.inf)
                kept[moment * 1000] = math.nan if math.isnan(value) or math.isnan(before) else max(value, before)
    stops = actual.sizes.cumsum().tolist()
    reported = {}
    for labels, size, stop in zip(actual.labels, actual.sizes.tolist(), stops, strict=True):
        times, values = (each[stop - size : stop].tolist() for each in (actual.times, actual.values))
        reported[labels["n"]] = dict(zip(times, values, strict=True))
    assert {key: list(points) for key, points in reported.items()} == {
        key: sorted(kept) for key, kept in expected.items()
    }
    for key, found_there in reported.items():
        there = [expected[key][moment] for moment in found_there]
        assert list(found_there.values()) == pytest.approx(there, nan_ok=True)


def test_merged_samples_are_all_of_them() -> None:
    one, other = (
        samples_of(body([({"a": "1"}, [(T, "1")])])),
        samples_of(body([({"a": "2"}, [(T, "2"), (T + 1, "3")])])),
    )
    both = merged([one, other])
    assert (both.labels, both.sizes.tolist(), both.values.tolist()) == ([{"a": "1"}, {"a": "2"}], [1, 2], [1, 2, 3])
    assert merged([]).labels == []
