"""Prometheus' remote read with streamed chunks: requests and answers.

A request is a protobuf message (`prompb/remote.proto`) in a snappy block. The answer is a stream of frames: a varint
with the length of the message, its CRC-32C in four bytes, and the message with chunks
(`ingest.prometheus.client.xor_chunks`) of a series; a series that is long has several, one after the other.

Only the last frame's checksum is examined: TCP and TLS protect the transfer, but a server that fails in the middle of
an answer writes the error behind the last frame, and ends the answer normally.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from ingest.files.prefetch import prefetch_one
from ingest.prometheus.client.xor_chunks import STALE, DamagedChunkError, DecodedChunks, decode, uvarints

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    import numpy.typing as npt

    from ingest.prometheus.client.xor_chunks import Bytes, Whole

PATH: Final = "/api/v1/read"
HEADERS: Final = {
    "Content-Type": "application/x-protobuf",
    "Content-Encoding": "snappy",
    "X-Prometheus-Remote-Read-Version": "0.1.0",
}
STREAMED: Final = "application/x-streamed-protobuf"
"""Kind of an answer in frames. No other is requested: a server that cannot stream refuses, and is queried in JSON."""

BATCH: Final = 1 << 22
"""Least bytes of an answer decoded together; meanwhile the next ones arrive."""

LARGEST_FRAME: Final = 1 << 28
"""Longest frame in bytes. Servers cut frames at about a MiB."""

LONGEST_TEXT: Final = 1 << 16
"""Longest error text in bytes that a failing server writes behind the last frame."""

MOST_FIELDS: Final = 16
"""Of a chunk's message, which has four."""

XOR: Final = 1
"""Encoding of chunks of numbers; those of histograms have others."""


class GarbledError(ValueError):
    """The data is not an answer to a remote read, or incomplete."""


class UnknownChunksError(ValueError):
    """Chunks in an encoding that we cannot read."""


class Matcher(NamedTuple):
    """One condition on a label: its kind is = or != or =~ or !~."""

    name: str
    kind: str
    value: str


class Samples(NamedTuple):
    """Readings series by series, in order of time: `sizes` of them belong to each of `labels`; epoch milliseconds."""

    labels: list[dict[str, str]]
    sizes: Whole
    times: Whole
    values: npt.NDArray[np.float64]


# --- the request


_METRIC: Final = re.compile(r"\s*([a-zA-Z_:][a-zA-Z0-9_:]*)?\s*\{(.*)\}\s*", re.DOTALL)
_MATCHER: Final = re.compile(
    r"""\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*(=~|!~|!=|=)\s*("(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|`[^`]*`)\s*(?:,|$)\s*"""
)
_ESCAPE: Final = re.compile(r"\\(.)")
_ESCAPES: Final = {"\\": "\\", '"': '"', "'": "'", "n": "\n", "t": "\t", "r": "\r"}
_KINDS: Final = {"=": 0, "!=": 1, "=~": 2, "!~": 3}


def matchers(selector: str) -> list[Matcher] | None:
    r"""The conditions of a PromQL selector; None where it has an unsupported part.

    >>> matchers(r'up{job="dcgm",node=~"n1\\.x|n2"}')[1:]
    [Matcher(name='job', kind='=', value='dcgm'), Matcher(name='node', kind='=~', value='n1\\.x|n2')]
    >>> matchers('up{job="dcgm"} offset 5m') is None
    True
    """
    whole = _METRIC.fullmatch(selector)
    if whole is None:
        return None
    parsed = [Matcher("__name__", "=", whole[1])] if whole[1] else []
    at = 0
    while at < len(whole[2].rstrip()):
        match = _MATCHER.match(whole[2], at)
        value = _unquoted(match[3]) if match else None
        if match is None or value is None:
            return None
        parsed.append(Matcher(match[1], match[2], value))
        at = match.end()
    return parsed


def _unquoted(text: str) -> str | None:
    """Text without its quotes and escapes; None where an escape is of a rare kind."""
    inside = text[1:-1]
    if text[0] == "`":
        return inside
    if not all(letter in _ESCAPES for letter in _ESCAPE.findall(inside)):
        return None
    return _ESCAPE.sub(lambda match: _ESCAPES[match[1]], inside)


def request(conditions: Iterable[Matcher], low_ms: int, high_ms: int) -> bytes:
    """The body of a request for all samples of series from one time to another, both included."""
    query = b"\x08" + _varint(low_ms) + b"\x10" + _varint(high_ms)
    query += b"".join(_sized(b"\x1a", _condition(each)) for each in conditions)
    streamed_chunks = b"\x12\x01\x01"
    return _block(_sized(b"\x0a", query) + streamed_chunks)


def _condition(matcher: Matcher) -> bytes:
    """One condition. Equality is requested as a regular expression, but for the metric's name.

    A server adds external labels to series only when they leave it; remote read changes a condition of equality with
    such a label, which PromQL does not.
    """
    name, kind, value = matcher
    if kind == "=" and name != "__name__":
        kind, value = "=~", re.escape(value)
    return b"\x08" + bytes([_KINDS[kind]]) + _sized(b"\x12", name.encode()) + _sized(b"\x1a", value.encode())


def _sized(tag: bytes, content: bytes) -> bytes:
    return tag + _varint(len(content)) + content


def _varint(number: int) -> bytes:
    """A whole number as protobuf writes it; negative ones as of 64 bits."""
    number &= (1 << 64) - 1
    encoded = bytearray()
    while number > 127:
        encoded.append(number & 127 | 128)
        number >>= 7
    return bytes([*encoded, number])


def _block(data: bytes) -> bytes:
    """A snappy block that only holds literals: it is not smaller, but as good."""
    parts = (data[at : at + 65536] for at in range(0, len(data), 65536))
    return _varint(len(data)) + b"".join(b"\xf4" + (len(part) - 1).to_bytes(2, "little") + part for part in parts)


# --- the answer


def batches(
    parts: Iterable[bytes],
    low_ms: int,
    high_ms: int,
    names: Collection[str],
    label_cache: dict[bytes, tuple[str, str]] | None = None,
) -> Iterator[Samples]:
    """The samples of an answer that comes in parts, of both times and what lies between.

    Marks of series that ended are no samples. No series is in two batches. Labels with other names than these are left
    out: they are the server's own (external labels), and PromQL does not show them. In `known` the labels that were
    read are kept, so that they need not be read again.

    Raises:
        GarbledError: it is none, or breaks off.
        UnknownChunksError: it has chunks of another encoding.
    """
    label_cache = {} if label_cache is None else label_cache
    for scan in prefetch_one(_scans(parts)):
        yield from scan.samples(low_ms, high_ms, names, label_cache)


def _scans(parts: Iterable[bytes]) -> Iterator[_AnswerScan]:
    """The content of an answer, part by part; no series is in two parts."""
    rest, enough = bytearray(), BATCH
    for part in parts:
        rest += part
        if len(rest) >= enough:
            scan = _AnswerScan(bytes(rest))
            del rest[: scan.all_but_the_last_series()]
            yield scan
            enough = len(rest) + BATCH
    scan = _AnswerScan(bytes(rest))
    scan.all()
    yield scan


class _AnswerScan:
    """Where the series and chunks are in a part of an answer."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.labels: list[tuple[int, int]] = []
        self.chunks: list[int] = []  # begin and end of each
        self.counts: list[int] = []  # chunks of each series
        self._frame_at = self._message_at = 0  # of the last frame

    def all(self) -> None:
        """Find all: it is the answer's end."""
        self._walk(self._data, until_end=True)
        message = self._data[self._message_at :]
        checksum = self._data[self._message_at - 4 : self._message_at]
        if 0 < len(message) <= LONGEST_TEXT and _crc32c(message) != int.from_bytes(checksum):
            raise GarbledError(_text(self._data[self._frame_at :]))

    def all_but_the_last_series(self) -> int:
        """Find all but the last series, of which more may come; returns where that begins."""
        frame, series, chunks = self._walk(self._data, until_end=False)
        del self.labels[series:], self.counts[series:], self.chunks[chunks:]
        return frame

    def samples(
        self, low_ms: int, high_ms: int, names: Collection[str], label_cache: dict[bytes, tuple[str, str]]
    ) -> Iterator[Samples]:
        """The samples, in a single batch; none at all where there are none."""
        if not self.chunks:
            return
        data = self._data
        limits = np.array(self.chunks, np.int64).reshape(-1, 2)
        labels = [_labels(data, begin, end, names, label_cache) for begin, end in self.labels]
        array = np.frombuffer(data + bytes(16), np.uint8)
        try:
            decoded = decode(array, *_contents(array, limits[:, 0], limits[:, 1]))
        except DamagedChunkError as error:
            raise GarbledError(str(error)) from None
        owners = np.repeat(np.arange(len(labels)), self.counts)
        yield _cleaned(labels, owners, decoded, low_ms, high_ms)

    def _walk(self, data: bytes, *, until_end: bool) -> tuple[int, int, int]:
        """Find all; returns the last frame that begins a series, and how many series and chunks come before it."""
        at, size, cut = 0, len(data), (0, 0, 0)
        try:
            while at < size:
                if not until_end and at + 10 > size:
                    break
                length, begin = _uvarint(data, at)
                end = begin + 4 + length
                if end > size and not until_end and length <= LARGEST_FRAME:
                    break
                if end > size:
                    raise GarbledError(_text(data[at:]))
                before = len(self.labels), len(self.chunks)
                if self._frame(data, begin + 4, end):
                    cut = (at, *before)
                self._frame_at, self._message_at, at = at, begin + 4, end
        except IndexError:
            raise GarbledError("an answer that ends in the middle of a frame") from None
        return cut

    def _frame(self, data: bytes, at: int, end: int) -> bool:
        """Find all in one message; returns whether it begins with a series that is not the one before."""
        begins, first = False, True
        while at < end:
            if data[at] != 0x0A:
                at = _end_of_field(data, at)
                continue
            length, at = _uvarint(data, at + 1)
            is_new = self._series(data, at, at + length)
            begins, first, at = is_new if first else begins, False, at + length
        if at != end:
            raise GarbledError("a frame that is shorter than its content")
        return begins

    def _series(self, data: bytes, at: int, end: int) -> bool:
        """Find labels and chunks of one series; returns whether it is not the one before."""
        labels_from = at
        while at < end and data[at] == 0x0A:
            size = data[at + 1]
            at = at + 2 + size if size < 128 else _end_of_field(data, at)
        is_new = True
        if self.labels:
            begin, until = self.labels[-1]
            is_new = data[begin:until] != data[labels_from:at]
        if is_new:
            self.labels.append((labels_from, at))
            self.counts.append(0)
        chunks = self.chunks
        while at < end:
            if data[at] != 0x12:
                at = _end_of_field(data, at)
                continue
            low, high = data[at + 1], data[at + 2]
            if low < 128:
                at, length = at + 2, low
            elif high < 128:
                at, length = at + 3, low & 127 | high << 7
            else:
                length, at = _uvarint(data, at + 1)
            chunks += (at, at + length)
            self.counts[-1] += 1
            at += length
        if at != end:
            raise GarbledError("a series that is shorter than its content")
        return is_new


def _uvarint(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while (byte := data[at]) > 127:
        number |= (byte & 127) << shift
        shift += 7
        at += 1
        if shift > 63:
            raise GarbledError("a number of more than 64 bits")
    return number | byte << shift, at + 1


def _end_of_field(data: bytes, at: int) -> int:
    """Where an unused field ends."""
    tag, at = _uvarint(data, at)
    if tag & 7 == 0:
        return _uvarint(data, at)[1]
    if tag & 7 == 2:
        length, at = _uvarint(data, at)
        return at + length
    if tag & 7 in {1, 5}:
        return at + (8 if tag & 7 == 1 else 4)
    raise GarbledError("a field of an unknown kind")


def _labels(
    data: bytes, at: int, end: int, names: Collection[str], label_cache: dict[bytes, tuple[str, str]]
) -> dict[str, str]:
    """The labels of a series; `known` are those that others have had."""
    labels = {}
    while at < end:
        begin, size = at, data[at + 1]
        at = at + 2 + size if size < 128 else _end_of_field(data, at)
        field = data[begin:at]
        if field not in label_cache:
            label_cache[field] = _label(field)
        name, value = label_cache[field]
        if name in names:
            labels[name] = value
    return labels


def _label(field: bytes) -> tuple[str, str]:
    fields = {1: b"", 2: b""}
    try:
        _, at = _uvarint(field, 1)
        while at < len(field):
            begin, at = at, _end_of_field(field, at)
            if field[begin] & 7 == 2:
                fields[field[begin] >> 3] = field[_uvarint(field, begin + 1)[1] : at]
        return fields[1].decode(), fields[2].decode()
    except (IndexError, UnicodeDecodeError):
        raise GarbledError("a label that is no text") from None


def _contents(data: Bytes, at: Whole, end: Whole) -> tuple[Whole, Whole]:
    """Where in the messages of chunks their data begin, and how long they are."""
    at = at.copy()
    kind, begin, length = np.zeros(at.size, np.int64), at.copy(), np.zeros(at.size, np.int64)
    live = np.arange(at.size)
    for _ in range(MOST_FIELDS):
        live = live[at[live] < end[live]]
        if not live.size:
            break
        tag = data.take(at[live], mode="clip")
        number, behind = uvarints(data, at[live] + 1)
        numbers, sized = number.view(np.int64), tag & 7 == 2
        if np.any(sized & ((numbers < 0) | (numbers > LARGEST_FRAME))) or not np.all(sized | (tag & 7 == 0)):
            raise GarbledError("a chunk with a field of a kind that it cannot have")
        is_kind, is_data = tag == 0x18, tag == 0x22
        kind[live[is_kind]] = numbers[is_kind]
        begin[live[is_data]], length[live[is_data]] = behind[is_data], numbers[is_data]
        at[live] = behind + sized * numbers
    if np.any(at != end):
        raise GarbledError("a chunk that is shorter than its content")
    if np.any(kind != XOR):
        raise UnknownChunksError("chunks of histograms, or in an unsupported encoding")
    return begin, length


def _cleaned(labels: list[dict[str, str]], owners: Whole, decoded: DecodedChunks, low_ms: int, high_ms: int) -> Samples:
    """Samples without marks of ends, within the time, in order, each once. Chunks may overlap or reach further."""
    counts, times, bits = decoded
    sizes = np.bincount(owners, weights=counts, minlength=len(labels)).astype(np.int64)
    begins = np.cumsum(sizes) - sizes
    back = np.flatnonzero(times[1:] <= times[:-1]) + 1
    if back.size and not np.all(np.isin(back, begins)):
        series = np.repeat(np.arange(len(labels)), sizes)
        order = np.lexsort((times, series))
        times, bits, series = times[order], bits[order], series[order]
        once = np.concatenate([[True], (times[1:] != times[:-1]) | (series[1:] != series[:-1])])
        times, bits, sizes = times[once], bits[once], np.bincount(series[once], minlength=len(labels))
    keep = bits != STALE
    if times.size and (times.min() < low_ms or times.max() > high_ms):
        keep &= (times >= low_ms) & (times <= high_ms)
    if not keep.all():
        series = np.repeat(np.arange(len(labels)), sizes)[keep]
        times, bits, sizes = times[keep], bits[keep], np.bincount(series, minlength=len(labels))
    some = sizes > 0
    if not some.all():
        labels = [each for each, has in zip(labels, some.tolist(), strict=True) if has]
    return Samples(labels, sizes[some], times, bits.view(np.float64))


def _text(data: bytes) -> str:
    """Text of a server in place of a frame, if it is text."""
    text = data[:500].decode(errors="replace").strip()
    return text if text.isprintable() and text else "an answer that breaks off"


def _crc32c_table() -> list[int]:
    table = []
    for number in range(256):
        for _ in range(8):
            number = number >> 1 ^ (0x82F63B78 if number & 1 else 0)  # noqa: PLW2901 - the polynomial's remainder
        table.append(number)
    return table


_TABLE: Final = _crc32c_table()


def _crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 255] ^ crc >> 8
    return crc ^ 0xFFFFFFFF
