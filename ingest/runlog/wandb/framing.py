"""Records of a `.wandb` file: a header of 7 bytes, then the records of a LevelDB log in blocks of 32 KiB.

A record is a fragment, or several: first, middle and last. A fragment has its checksum (CRC-32 of its type and its
bytes, which is not LevelDB's CRC-32C), its length (16 bits) and its type (8 bits), little-endian. What is left of a
block that cannot hold a fragment's head is filled with zeros. Blocks are counted from the beginning of the file.
(wandb 0.16: `sdk/internal/datastore.py`; since 0.30 the package has no reader of its own.)
"""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING, Final

from ingest.errors import InputError
from ingest.runlog.binary import BAD_CHECKSUM, LARGEST_RECORD, TOO_LARGE, ByteStream, Damage, Record

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

IDENT: Final = b":W&B\xe1\xbe"
VERSION: Final = 0
HEADER: Final = IDENT + bytes([VERSION])

BLOCK: Final = 32_768
_HEAD: Final = 7
_FULL, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4
_CRC_OF_TYPE: Final = [zlib.crc32(bytes([kind])) for kind in range(256)]

INCOMPLETE: Final = "damaged record: a part of it is missing"


def records(chunks: Iterable[bytes], name: str) -> Iterator[Record | Damage]:
    """The records of a file, and the parts that cannot be read. Files written one behind the other are read, too.

    Raises:
        InputError: its version is unknown.
    """
    stream = ByteStream(chunks)
    _read_header(stream, name)
    yield from _FragmentReader(stream)


def _read_header(stream: ByteStream, name: str) -> None:
    header = stream.peek(len(HEADER))
    if header[len(IDENT) :] != HEADER[len(IDENT) :]:
        raise InputError(f"{name}: a .wandb file of version {header[-1]}; only {VERSION} is known")
    stream.skip(len(HEADER))


class _FragmentReader:
    """Puts fragments together."""

    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream
        self._base = 0  # where the file begins that is being read
        self._parts: list[bytes] = []
        self._begin = 0
        self._size = 0
        self._damage: Damage | None = None

    def __iter__(self) -> Iterator[Record | Damage]:
        while self._stream.peek(1):
            self._skip_padding()
            at = self._stream.position
            head = self._stream.peek(_HEAD)
            if not head:
                break
            if head == HEADER:
                yield from self._drop_parts()
                self._base = at
                self._stream.skip(_HEAD)
                continue
            fragment = self._fragment()
            if fragment is None:
                self._skip_damage()
                continue
            yield from self._flush_damage()
            yield from self._take(at, *fragment)
            self._stream.skip(_HEAD + len(fragment[1]))
        yield from self._flush_damage()
        if self._parts or self._size:
            yield Damage(INCOMPLETE, self._begin, self._stream.position, cut=True)

    def _left(self) -> int:
        """Bytes until the block ends."""
        return BLOCK - (self._stream.position - self._base) % BLOCK

    def _skip_padding(self) -> None:
        left = self._left()
        if left < _HEAD and self._stream.peek(left).count(0) == left:
            self._stream.skip(left)

    def _fragment(self, ahead: int = 0) -> tuple[int, bytes] | None:
        """Type and bytes of the fragment that begins `ahead` bytes from here; None where none does."""
        head = self._stream.peek(ahead + _HEAD)[ahead:]
        if len(head) < _HEAD:
            return None
        checksum, length, kind = struct.unpack("<IHB", head)
        if not _FULL <= kind <= _LAST or _HEAD + length > self._left() - ahead:
            return None
        data = self._stream.peek(ahead + _HEAD + length)[ahead + _HEAD :]
        whole = len(data) == length and zlib.crc32(data, _CRC_OF_TYPE[kind]) == checksum
        return (kind, data) if whole else None

    def _take(self, at: int, kind: int, data: bytes) -> Iterator[Record | Damage]:
        """Add a fragment; yields the record that it completes."""
        end = at + _HEAD + len(data)
        if kind in {_FULL, _FIRST}:
            yield from self._drop_parts()
            self._begin = at
        elif not self._parts and not self._size:
            yield Damage(INCOMPLETE, at, end)
            return
        self._size += len(data)
        self._parts = [*self._parts, data] if self._size <= LARGEST_RECORD else []
        if kind in {_FULL, _LAST}:
            if self._size > LARGEST_RECORD:
                yield Damage(TOO_LARGE, self._begin, end)
            else:
                yield Record(self._begin, end, b"".join(self._parts))
            self._parts, self._size = [], 0

    def _drop_parts(self) -> Iterator[Damage]:
        """Give up a record of which no more follows."""
        if self._parts or self._size:
            yield Damage(INCOMPLETE, self._begin, self._stream.position)
        self._parts, self._size = [], 0

    def _skip_damage(self) -> None:
        """Skip what is no fragment: to the next one where its length is right, else to the end of the block."""
        block = self._stream.peek(self._left())
        length = int.from_bytes(block[4:6], "little")
        cut = len(block) < min(self._left(), _HEAD + length) and self._damage is None
        begin = self._begin if self._parts or self._size else self._stream.position
        self._parts, self._size = [], 0
        self._stream.skip(self._step(block, _HEAD + length))
        first = begin if self._damage is None else self._damage.begin
        self._damage = Damage(BAD_CHECKSUM, first, self._stream.position, cut)

    def _step(self, block: bytes, behind: int) -> int:
        """Bytes to skip: to another file that begins within the block, else behind this fragment, else all."""
        again = block.find(HEADER, 1)
        if again > 0:
            return again
        left = self._left()
        follows = len(block) >= _HEAD and (behind == left or (behind < left and self._fragment(behind) is not None))
        return behind if follows else left

    def _flush_damage(self) -> Iterator[Damage]:
        if self._damage is not None:
            yield self._damage
            self._damage = None
