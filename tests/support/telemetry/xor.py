"""Prometheus' XOR chunks bit by bit in plain Python: written, and read again; and an answer to a remote read."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

Sample = tuple[int, int]
"""Milliseconds, and the 64 bits of a value."""

WHOLE = (1 << 64) - 1


def bits_of(value: float) -> int:
    """The 64 bits of a number."""
    (result,) = struct.unpack(">Q", struct.pack(">d", value))
    return int(result)


def _signed(bits: int, width: int = 64) -> int:
    return bits - (1 << width) if bits >> (width - 1) else bits


# --- writing


def uvarint(number: int) -> bytes:
    result = bytearray()
    while number > 127:
        result.append(number & 127 | 128)
        number >>= 7
    return bytes([*result, number])


def _bits(number: int, width: int) -> str:
    return f"{number & ((1 << width) - 1):0{width}b}"


def _bytes(data: bytes) -> str:
    return "".join(_bits(byte, 8) for byte in data)


def write_chunk(samples: Sequence[Sample]) -> bytes:
    """The chunk that Prometheus makes of these samples, in its own choice of widths."""
    stream, delta, window = "", 0, None
    for number, (time, bits) in enumerate(samples):
        if number == 0:
            stream += _bytes(uvarint((time << 1 ^ time >> 63) & WHOLE)) + _bits(bits, 64)
            continue
        now = time - samples[number - 1][0]
        stream += _bytes(uvarint(now & WHOLE)) if number == 1 else _change(_signed((now - delta) & WHOLE))
        delta = now
        changed, window = _difference(bits ^ samples[number - 1][1], window)
        stream += changed
    stream += "0" * (-len(stream) % 8)
    return len(samples).to_bytes(2, "big") + bytes(int(stream[i : i + 8], 2) for i in range(0, len(stream), 8))


def _change(change: int) -> str:
    if change == 0:
        return "0"
    for prefix, width in (("10", 14), ("110", 17), ("1110", 20)):
        if -(1 << width - 1) < change <= 1 << width - 1:
            return prefix + _bits(change, width)
    return "1111" + _bits(change, 64)


def _difference(xor: int, window: tuple[int, int] | None) -> tuple[str, tuple[int, int] | None]:
    if xor == 0:
        return "0", window
    above, below = min(64 - xor.bit_length(), 31), (xor & -xor).bit_length() - 1
    if window is not None and above >= window[0] and below >= window[1]:
        return "10" + _bits(xor >> window[1], 64 - sum(window)), window
    width = 64 - above - below
    return "11" + _bits(above, 5) + _bits(width, 6) + _bits(xor >> below, width), (above, below)


# --- reading


class _Cursor:
    def __init__(self, data: bytes) -> None:
        self.stream, self.at = _bytes(data), 0

    def take(self, width: int) -> int:
        part = self.stream[self.at : self.at + width]
        if len(part) < width:
            raise ValueError("ends too early")
        self.at += width
        return int(part, 2)

    def uvarint(self) -> int:
        result = 0
        for number in range(10):
            byte = self.take(8)
            if number == 9 and byte > 1:
                break
            result |= (byte & 127) << 7 * number
            if byte < 128:
                return result
        raise ValueError("more than 64 bits")


def read_chunk(data: bytes) -> list[Sample]:
    """The samples of a chunk.

    Raises:
        ValueError: it is damaged.
    """
    if len(data) < 2:
        raise ValueError("no count")
    cursor, result = _Cursor(data[2:]), list[Sample]()
    delta, above, below = 0, 0, 0
    for number in range(int.from_bytes(data[:2], "big")):
        if number == 0:
            zigzag = cursor.uvarint()
            result.append((zigzag >> 1 ^ -(zigzag & 1), cursor.take(64)))
            continue
        delta = cursor.uvarint() if number == 1 else delta + _read_change(cursor)
        time, bits = result[-1]
        if cursor.take(1):
            if cursor.take(1):
                above, width = cursor.take(5), cursor.take(6) or 64
                below = 64 - above - width
                if below < 0:
                    raise ValueError("more than 64 bits")
            bits ^= cursor.take(64 - above - below) << below
        result.append((_signed((time + delta) & WHOLE), bits))
    return result


def _read_change(cursor: _Cursor) -> int:
    for width in (0, 14, 17, 20):
        if cursor.take(1) == 0:
            reported = cursor.take(width) if width else 0
            return reported - (1 << width) if width and reported > 1 << width - 1 else reported
    return _signed(cursor.take(64))


# --- an answer


def sized(number: int, content: bytes) -> bytes:
    """A field of protobuf that has a length."""
    return bytes([number << 3 | 2]) + uvarint(len(content)) + content


def series(labels: dict[str, str], *chunks: bytes, kind: int = 1) -> bytes:
    """A ChunkedSeries."""
    reported = b"".join(sized(1, sized(1, name.encode()) + sized(2, value.encode())) for name, value in labels.items())
    times = b"\x08" + uvarint(1_795_248_000_000) + b"\x10" + uvarint(1_795_248_060_000)
    return reported + b"".join(sized(2, times + b"\x18" + bytes([kind]) + sized(4, chunk)) for chunk in chunks)


def frame(*of: bytes) -> bytes:
    """A frame with these series."""
    message = b"".join(sized(1, each) for each in of)
    return uvarint(len(message)) + crc32c(message).to_bytes(4, "big") + message


def crc32c(data: bytes) -> int:
    crc = WHOLE >> 32
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ (WHOLE >> 32)
