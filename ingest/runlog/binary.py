"""What binary logs have in common: bytes by position, protobuf's wire format, and records that cannot be used.

A decoder of our own, of the few fields that are read: the packages that define the messages are larger than Trackside,
and the newest ones no longer ship a reader.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from ingest.runlog.lines import CUT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

VARINT: Final = 0
FIXED64: Final = 1
SIZED: Final = 2
FIXED32: Final = 5
"""Wire types of protobuf."""

LARGEST_RECORD: Final = 1 << 26
"""Bytes. A record that claims more is damaged, or holds media."""

BAD_CHECKSUM: Final = "damaged record: its checksum does not match"
BAD_MESSAGE: Final = "damaged record: not the message that it should be"
TOO_LARGE: Final = f"record of more than {LARGEST_RECORD >> 20} MiB"

Value = int | bytes


class WireError(ValueError):
    """Bytes that are no protobuf message."""


class Record(NamedTuple):
    """A whole record: the positions of its first byte and of that behind it, and its bytes.

    Of one that is too large to be checked the bytes are left out.
    """

    begin: int
    end: int
    data: bytes


@dataclass(frozen=True)
class Damage:
    """Bytes of a log that cannot be used.

    Attributes:
        reason: why, the same for all of a kind.
        begin: position of the first byte.
        end: position behind the last byte.
        cut: the log ends here, within a record: its writer was killed, or is still writing.
    """

    reason: str
    begin: int
    end: int
    cut: bool = False


def rejected(damage: Damage) -> bytes:
    """The line of a run log that rejects what cannot be used, with its reason and its place."""
    reason = CUT if damage.cut else damage.reason
    reject = {"type": "rejected", "reason": reason, "raw": f"bytes {damage.begin}-{damage.end}"}
    return msgspec.json.encode(reject) + b"\n"


class ByteStream:
    """Bytes that come in chunks, read by position: `peek` looks ahead, `skip` moves on.

    Attributes:
        position: of the next byte.
    """

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self.position = 0
        self._chunks = iter(chunks)
        self._data = b""
        self._at = 0

    def peek(self, size: int) -> bytes:
        """The next `size` bytes; fewer at the end."""
        while len(self._data) - self._at < size:
            chunk = next(self._chunks, None)
            if chunk is None:
                break
            self._data = self._data[self._at :] + chunk
            self._at = 0
        return self._data[self._at : self._at + size]

    def skip(self, size: int) -> None:
        """Move on by at most `size` bytes."""
        while size > 0:
            available = len(self.peek(min(size, 1 << 16)))
            if not available:
                return
            self._at += available
            self.position += available
            size -= available


def varint(data: bytes, at: int) -> tuple[int, int]:
    """An unsigned number and the position behind it.

    >>> varint(bytes([0x96, 0x01]), 0)
    (150, 2)
    """
    number = shift = 0
    try:
        while (byte := data[at]) > 127:
            number |= (byte & 127) << shift
            shift += 7
            at += 1
            if shift > 63:
                raise WireError("a number of more than 64 bits")
    except IndexError:
        raise WireError("a message that ends within a number") from None
    return number | byte << shift, at + 1


def fields(data: bytes) -> Iterator[tuple[int, int, Value]]:
    """Number, wire type and value of each field of a message: a whole number, or the bytes of all other types.

    >>> list(fields(bytes([0x08, 0x05, 0x12, 0x02]) + b"hi"))
    [(1, 0, 5), (2, 2, b'hi')]

    Raises:
        WireError: the bytes are no message.
    """
    at, size = 0, len(data)
    while at < size:
        tag, at = varint(data, at)
        wire = tag & 7
        if wire == VARINT:
            value: Value
            value, at = varint(data, at)
            yield tag >> 3, wire, value
            continue
        if wire == SIZED:
            length, at = varint(data, at)
        elif wire in {FIXED64, FIXED32}:
            length = 8 if wire == FIXED64 else 4
        else:
            raise WireError(f"a field of wire type {wire}")
        if at + length > size:
            raise WireError("a field that is longer than its message")
        yield tag >> 3, wire, data[at : at + length]
        at += length


def number_of(value: Value, wire: int) -> float | None:
    """A field that is a number, as one; None for other types."""
    if isinstance(value, int):
        return value
    if wire == FIXED64:
        return float(struct.unpack("<d", value)[0])
    return float(struct.unpack("<f", value)[0]) if wire == FIXED32 else None


def signed(value: int) -> int:
    """An `int32` or `int64` from the unsigned number that stands for it.

    >>> signed(5), signed(2**64 - 1)
    (5, -1)
    """
    return value - (1 << 64) if value >= 1 << 63 else value


def zigzag(value: int) -> int:
    """A `sint64` from the unsigned number that stands for it.

    >>> [zigzag(number) for number in range(4)]
    [0, -1, 1, -2]
    """
    return value >> 1 ^ -(value & 1)


def text_of(value: Value) -> str:
    """A text field.

    Raises:
        WireError: the field is no text.
    """
    try:
        return value.decode() if isinstance(value, bytes) else str(value)
    except UnicodeDecodeError:
        raise WireError("a text that is no UTF-8") from None


def message_of(value: Value) -> bytes:
    """A field that is a message.

    Raises:
        WireError: the field is a number.
    """
    if isinstance(value, bytes):
        return value
    raise WireError("a number where a message should be")


def timestamp(data: bytes) -> float:
    """Protobuf's `Timestamp` as seconds since 1970."""
    parts = {number: value for number, _, value in fields(data)}
    seconds, nanos = parts.get(1, 0), parts.get(2, 0)
    if not isinstance(seconds, int) or not isinstance(nanos, int):
        raise WireError("a time that is no number")
    return signed(seconds) + nanos / 1e9
