"""Records of an event file (TFRecord): length (64 bits), its checksum, the bytes, their checksum; little-endian.

Checksums are CRC-32C, masked: rotated right by 15 bits, plus a constant (tensorflow/core/lib/io/record_writer.h).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ingest.runlog.binary import BAD_CHECKSUM, LARGEST_RECORD, TOO_LARGE, ByteStream, Damage, Record

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

HEAD: Final = 12
_FOOT: Final = 4
_MASK: Final = 0xA282EAD8
_WORD: Final = 0xFFFFFFFF

_SEARCHED: Final = 1 << 20
"""Bytes that are searched at a time for the next record behind damage."""

CHECKED: Final = 1 << 18
"""Bytes. Larger records hold graphs, images and histograms, of which nothing is read: they are skipped unchecked."""

_LENGTH: Final = re.compile(rb"(?=(?!\x00{4})[\x00-\xff]{4}\x00{4})")
"""Places where a length may be: one below 4 GiB, and not 0."""


def _table() -> list[int]:
    table = []
    for number in range(256):
        crc = number
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
        table.append(crc)
    return table


_TABLE: Final = _table()


def masked_crc32c(data: bytes) -> int:
    """The masked CRC-32C.

    >>> hex(masked_crc32c(b"123456789"))  # CRC-32C is 0xe3069283
    '0xc78ab0e5'
    """
    crc, table = _WORD, _TABLE
    for byte in data:
        crc = table[(crc ^ byte) & 255] ^ crc >> 8
    crc ^= _WORD
    return ((crc >> 15 | crc << 17) + _MASK) & _WORD


def length_of(head: bytes) -> int | None:
    """The length in the head of a record; None where its checksum does not match, or it is none."""
    if len(head) < HEAD or masked_crc32c(head[:8]) != int.from_bytes(head[8:12], "little"):
        return None
    return int.from_bytes(head[:8], "little")


def records(chunks: Iterable[bytes]) -> Iterator[Record | Damage]:
    """The records of a file, and the parts that cannot be read."""
    stream = ByteStream(chunks)
    while head := stream.peek(HEAD):
        begin = stream.position
        length = length_of(head)
        if length is None:
            yield _skip_damage(stream)
            continue
        end = begin + HEAD + length + _FOOT
        if length > CHECKED:
            stream.skip(end - begin)
            if length > LARGEST_RECORD or stream.position < end:
                yield Damage(TOO_LARGE, begin, stream.position, cut=stream.position < end)
            continue
        data = stream.peek(end - begin)
        stream.skip(end - begin)
        if len(data) < end - begin:
            yield Damage(BAD_CHECKSUM, begin, stream.position, cut=True)
        elif masked_crc32c(data[HEAD:-_FOOT]) != int.from_bytes(data[-_FOOT:], "little"):
            yield Damage(BAD_CHECKSUM, begin, end)
        else:
            yield Record(begin, end, data[HEAD:-_FOOT])


def _skip_damage(stream: ByteStream) -> Damage:
    """Skip to the next record whose length has its checksum, else to the end."""
    begin = stream.position
    cut = len(stream.peek(HEAD)) < HEAD
    stream.skip(1)
    while data := stream.peek(_SEARCHED):
        place = next((at for at in _candidates(data) if length_of(data[at : at + HEAD]) is not None), None)
        if place is not None:
            stream.skip(place)
            break
        stream.skip(len(data) if len(data) < _SEARCHED else _SEARCHED - HEAD)
    return Damage(BAD_CHECKSUM, begin, stream.position, cut=cut)


def _candidates(data: bytes) -> Iterator[int]:
    return (match.start() for match in _LENGTH.finditer(data))
