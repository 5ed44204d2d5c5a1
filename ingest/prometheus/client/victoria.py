r"""VictoriaMetrics' export of raw readings: a line of JSON for each series, its values and their times in two lists.

    {"metric":{"__name__":"up","job":"a"},"values":[1,0.5],"timestamps":[1793530815000,1793530830000]}

Lines are separated without a parser of JSON, and the numbers of many lines are parsed together. Infinite values are
written as +Inf, or as "Infinity" by newer versions; values that are no number as NaN or null, marks of series that
ended among them, so that none of those is a reading here. A reading may occur twice (two servers that scrape the
same, no deduplication); of two at one time the larger counts, as where the server itself removes one.
"""

from __future__ import annotations

import hashlib
import io
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np
import polars as pl
from polars.exceptions import PolarsError

from ingest.files.prefetch import prefetch_one
from ingest.prometheus.client.order import tidied
from ingest.prometheus.client.remote_read import GarbledError, Samples

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import numpy.typing as npt

PATH: Final = "/api/v1/export"
KIND: Final = "application/stream+json"
"""Kind of its answers; no other server has it."""

NOTHING: Final = '{__name__="trackside_asks_whether_there_is_an_export"}'
"""A selector that matches no series: a server with export answers it with an empty body of its own kind."""

BATCH: Final = 1 << 23
"""Least bytes of an answer parsed together; meanwhile the next ones arrive."""

LONGEST_LINE: Final = 1 << 27
"""Longest line in bytes. A longer series is requested in shorter segments."""

_BEGIN: Final = b'{"metric":{'
_VALUES: Final = b'},"values":['
_TIMES: Final = b'],"timestamps":['
_END: Final = b"]}"


class LongLineError(ValueError):
    """A series has more readings than can be held at once."""


class _ExportLine(msgspec.Struct):
    """A line that is written in an unusual way."""

    metric: dict[str, str]
    values: list[float | str | None]
    timestamps: list[int]


class Digest:
    """SHA-256 of an answer's lines, independent of their order, which varies."""

    def __init__(self) -> None:
        self._sum = 0

    def update(self, line: bytes) -> None:
        """Count a line."""
        self._sum = (self._sum + int.from_bytes(hashlib.sha256(line).digest())) % (1 << 256)

    def digest(self) -> bytes:
        """Of all lines so far."""
        return self._sum.to_bytes(32)


def batches(parts: Iterable[bytes], low_ms: int, high_ms: int, seen: Digest) -> Iterator[Samples]:
    """The readings of an answer that comes in parts, of both times and what lies between. No series is in two batches.

    Raises:
        GarbledError: it is none, or breaks off.
        LongLineError: one line is too long.
    """
    for lines in prefetch_one(_blocks(parts)):
        for line in lines:
            seen.update(line)
        samples = tidied(_samples(lines), low_ms, high_ms, nan=False)
        if samples.labels:
            yield samples


def _blocks(parts: Iterable[bytes]) -> Iterator[list[bytes]]:
    """Whole lines, many at a time."""
    rest: list[bytes] = []
    size, enough = 0, BATCH
    for part in parts:
        rest.append(part)
        size += len(part)
        if size < enough:
            continue
        block, newline, last = b"".join(rest).rpartition(b"\n")
        if newline:
            yield block.splitlines()
        rest, size = [last], len(last)
        enough = size + BATCH
        if size > LONGEST_LINE:
            raise LongLineError(f"a series whose readings take more than {LONGEST_LINE >> 20} MiB")
    lines = b"".join(rest).splitlines()
    if lines:
        yield lines


def _samples(lines: list[bytes]) -> Samples:
    """The readings of lines, unchanged."""
    labels: list[dict[str, str]] = []
    values: list[bytes] = []
    times: list[bytes] = []
    sizes: list[int] = []
    for line in lines:
        at = line.find(_VALUES)
        middle = line.find(_TIMES, at)
        if at < 0 or middle < 0 or not line.startswith(_BEGIN) or not line.endswith(_END):
            return _read_one_by_one(lines)
        labels.append(_labels(line[len(_BEGIN) - 1 : at + 1]))
        values_text, when = line[at + len(_VALUES) : middle], line[middle + len(_TIMES) : -len(_END)]
        count = when.count(b",") + 1 if when else 0
        if count != (values_text.count(b",") + 1 if values_text else 0):
            raise GarbledError("a series with more values than times, or fewer")
        sizes.append(count)
        if count:
            values.append(values_text)
            times.append(when)
    return Samples(
        labels,
        np.array(sizes, np.int64),
        _numbers(times, pl.Int64, sum(sizes)),
        _numbers(values, pl.Float64, sum(sizes)),
    )


def _labels(text: bytes) -> dict[str, str]:
    try:
        return msgspec.json.decode(text, type=dict[str, str])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise GarbledError(_shown(text)) from None


def _numbers(lists: list[bytes], kind: type[pl.Int64 | pl.Float64], count: int) -> npt.NDArray[Any]:
    """Numbers in lists that are separated by commas; what is null is NaN."""
    if not count:
        return np.empty(0, np.int64 if kind is pl.Int64 else np.float64)
    text = b",".join(lists).replace(b",", b"\n")
    null = "null" if kind is pl.Float64 else None
    try:
        frame = pl.read_csv(io.BytesIO(text), has_header=False, schema={"number": kind}, null_values=null)
    except PolarsError:
        raise GarbledError("a list with something that is no number") from None
    column = frame["number"]
    if column.len() != count or (kind is pl.Int64 and column.null_count()):
        raise GarbledError("a list with something that is no number")
    return (column.fill_null(float("nan")) if kind is pl.Float64 else column).to_numpy()


def _read_one_by_one(lines: list[bytes]) -> Samples:
    """The readings of lines of which some are not written as usual."""
    found = []
    for line in lines:
        try:
            one = msgspec.json.decode(line, type=_ExportLine)
            values = [float("nan") if value is None else float(value) for value in one.values]
            times = np.array(one.timestamps, np.int64)
        except (msgspec.DecodeError, ValueError, OverflowError, RecursionError):
            raise GarbledError(_shown(line)) from None
        if len(values) != times.size:
            raise GarbledError("a series with more values than times, or fewer")
        found.append((one.metric, values, times))
    return Samples(
        [metric for metric, _, _ in found],
        np.array([len(values) for _, values, _ in found], np.int64),
        np.concatenate([np.empty(0, np.int64), *(times for _, _, times in found)]),
        np.array([value for _, values, _ in found for value in values], np.float64),
    )


def _shown(line: bytes) -> str:
    """Text of a server in place of a series, if it is text."""
    text = line[:500].decode(errors="replace").strip()
    return text if text.isprintable() and text and not text.startswith("{") else "an answer that breaks off"
