"""Series of an answer in JSON as samples, without making an object of each number.

`"values":[[1793530815,"0.5"],[1793530830,"1"]]` is nearly CSV: the numbers of many series are cut out, turned into it
together, and read by polars; the rest of the answer is small, and parsed as JSON. Where the form differs in any way
(blanks between the parts are enough), the whole answer is parsed and checked as JSON instead.
"""

from __future__ import annotations

import io
import json
import re
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl
from polars.exceptions import PolarsError

from ingest.plausible import LATEST_EPOCH
from ingest.prometheus.client.remote_read import Samples
from ingest.prometheus.client.responses import Series, series_of
from ingest.tables import REAL

if TYPE_CHECKING:
    import numpy.typing as npt

BLOCK: Final = 1 << 23
"""Bytes of numbers that are parsed together: few enough to be held several times over."""

_VALUES: Final = re.compile(rb'"values":\[')
"""Within a JSON string its quotes would be escaped, so this text is unambiguous."""

_TO_CSV: Final = bytes.maketrans(b"]", b"\n")
_ROW: Final = {"before": pl.String, "time": pl.Float64, "value": pl.Float64}
"""What is left of `[time,"value"],` without brackets and quotes; before the time a comma from the row above."""


class _UnexpectedFormError(Exception):
    """The text has another form than expected; it may be valid all the same."""


def samples_of(body: bytes) -> Samples:
    """The series of an answer to a range query, unchanged.

    Raises:
        NotPrometheusError, KeyError, TypeError, ValueError: it is no such answer.
    """
    try:
        return _quickly(body)
    except (_UnexpectedFormError, PolarsError):
        result = _loaded(body)["data"]["result"]
        return checked(series_of(result, "values"))


def _loaded(text: bytes) -> Any:  # noqa: ANN401 - any JSON
    """The parsed JSON.

    Raises:
        ValueError: it is no JSON, or nested without end.
    """
    try:
        return json.loads(text)
    except RecursionError:
        message = "lists or objects within one another without end"
        raise ValueError(message) from None


def checked(series: Series) -> Samples:
    """Samples of series that were parsed as JSON; what is no number is NaN."""
    points = [point for one in series for point in one["values"]]
    times = pl.Series([point[0] for point in points], dtype=REAL)
    values = pl.Series([point[1] for point in points], dtype=pl.String).str.strip_prefix("+").cast(REAL, strict=False)
    return Samples(
        [one["metric"] for one in series],
        np.array([len(one["values"]) for one in series], np.int64),
        _milliseconds(times),
        values.fill_null(float("nan")).to_numpy(),
    )


def _quickly(body: bytes) -> Samples:
    rest: list[bytes] = []
    sizes: list[int] = []
    times: list[npt.NDArray[np.int64]] = []
    values: list[npt.NDArray[np.float64]] = []
    block: list[bytes] = []
    size = at = 0
    for match in _VALUES.finditer(body):
        begin = match.end()
        end = begin if body[begin : begin + 1] == b"]" else body.find(b"]]", begin) + 1
        if end < begin:
            raise _UnexpectedFormError
        rest.append(body[at:begin])
        at = end
        sizes.append(body.count(b"[", begin, end))
        if end > begin:
            block.append(body[begin:end])
            size += end - begin
        if size >= BLOCK:
            _parse(block, times, values)
            block, size = [], 0
    _parse(block, times, values)
    labels = _labels(b"".join([*rest, body[at:]]), len(sizes))
    count = sum(len(some) for some in times)
    if count != sum(sizes):
        raise _UnexpectedFormError
    return Samples(
        labels,
        np.array(sizes, np.int64),
        np.concatenate([np.empty(0, np.int64), *times]),
        np.concatenate([np.empty(0, np.float64), *values]),
    )


def _parse(block: list[bytes], times: list[npt.NDArray[np.int64]], values: list[npt.NDArray[np.float64]]) -> None:
    """Parse some lists of values, and append their times and values."""
    if not block:
        return
    text = b",".join(block)
    count = _pairs(np.frombuffer(text, np.uint8))
    csv = io.BytesIO(b"," + text.translate(_TO_CSV, b'["'))
    frame = pl.read_csv(csv, has_header=False, schema=_ROW, quote_char=None)
    good = frame["before"].null_count() == frame.height == count and not frame["time"].null_count()
    if not good or frame["value"].null_count() or not frame["time"].is_between(0, LATEST_EPOCH).all():
        raise _UnexpectedFormError
    times.append(_milliseconds(frame["time"]))
    values.append(frame["value"].to_numpy())


def _pairs(text: npt.NDArray[np.uint8]) -> int:
    """Number of pairs of an item and a text, if there is nothing else; the caller checks that both are numbers."""
    opens, closes, quotes, commas = (text == each for each in b'[]",')
    counts = {
        np.count_nonzero(opens),
        np.count_nonzero(closes),
        np.count_nonzero(quotes) / 2,
        (np.count_nonzero(commas) + 1) / 2,
        np.count_nonzero(commas[:-1] & quotes[1:]),
        np.count_nonzero(quotes[:-1] & closes[1:]),
        np.count_nonzero(closes[:-2] & commas[1:-1] & opens[2:]) + 1,
    }
    if len(counts) > 1:
        raise _UnexpectedFormError
    return int(counts.pop())


def _labels(rest: bytes, count: int) -> list[dict[str, str]]:
    """Labels of the series, from the answer without its numbers."""
    answer = _loaded(rest)
    series = series_of(answer["data"]["result"], "values")
    if len(series) != count or any(one["values"] for one in series):
        raise _UnexpectedFormError
    return [one["metric"] for one in series]


def _milliseconds(seconds: pl.Series) -> npt.NDArray[np.int64]:
    return (seconds * 1000).round().cast(pl.Int64).to_numpy()
