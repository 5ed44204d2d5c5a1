"""The content of a packed stream as a file: one loop for all packings, and their decoders."""

from __future__ import annotations

import io
import zlib
from typing import TYPE_CHECKING, Final, Protocol

from ingest.errors import DamagedStreamError

if TYPE_CHECKING:
    from collections.abc import Callable

_PIECE: Final = 1 << 16
"""Packed bytes that are read at a time."""


class Unpacked(io.BufferedIOBase):
    """The content of a packed stream, unpacked while it is read; a packing implements `_read_part`.

    Where the stream ends too early, all that could be unpacked before is returned first; where it is damaged, nearly
    all: a decoder may keep the end of its input.
    """

    def readable(self) -> bool:
        """It is."""
        return True

    def read(self, size: int | None = -1, /) -> bytes:
        """So many bytes, or the rest; fewer before the place where it ends too early or is damaged.

        Raises:
            EOFError: it ends too early, here.
            DamagedStreamError: it is damaged here, or needs too much memory.
        """
        left = -1 if size is None else size
        parts: list[bytes] = []
        try:
            while left and (part := self._read_part(left)):
                parts.append(part)
                left -= len(part) if left > 0 else 0
        except (EOFError, DamagedStreamError):
            if not parts:
                raise
        return b"".join(parts)

    def _read_part(self, size: int) -> bytes:
        """Some bytes, at most `size` (-1: no limit); none at the end. After an error it fails again.

        Raises:
            EOFError: it ends too early.
            DamagedStreamError: it is damaged, or needs too much memory.
        """
        raise NotImplementedError


class Decoder(Protocol):
    """As of `bz2` and `lzma`: of one stream."""

    @property
    def eof(self) -> bool:
        """Whether the stream has ended."""

    @property
    def needs_input(self) -> bool:
        """Whether there is nothing more in what it has got."""

    @property
    def unused_data(self) -> bytes:
        """What came behind the end of the stream."""

    def decompress(self, data: bytes, max_length: int = -1) -> bytes:
        """At most so many bytes."""


class GzipDecoder:
    """The decoder of a gzip stream, checksum and all."""

    def __init__(self) -> None:
        self._inner = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
        self._is_full = False

    @property
    def eof(self) -> bool:
        """Whether the stream has ended."""
        return self._inner.eof

    @property
    def needs_input(self) -> bool:
        """Whether there is nothing more in what it has got."""
        return not self._is_full and not self._inner.unconsumed_tail

    @property
    def unused_data(self) -> bytes:
        """What came behind the end of the stream."""
        return self._inner.unused_data

    def decompress(self, data: bytes, max_length: int = -1) -> bytes:
        """At most so many bytes; what is left of the packed ones goes before new ones."""
        part = self._inner.decompress(self._inner.unconsumed_tail + data, max(max_length, 0))
        self._is_full = len(part) == max_length
        return part


class DecompressedStream(Unpacked):
    """The content of successive gzip, xz or bzip2 streams, as in files of pbzip2 and joined files.

    The standard library's own files lose unpacked data where a stream ends too early; those of xz and bzip2 take a
    damaged later stream for trailing data, and skip it silently.
    """

    def __init__(
        self, source: io.BufferedReader, new: Callable[[], Decoder], damage: tuple[type[Exception], ...]
    ) -> None:
        self._source, self._new, self._damage = source, new, damage
        self._decoder = new()
        self._fault: DamagedStreamError | None = None

    def _read_part(self, size: int) -> bytes:
        if self._fault is not None:
            raise self._fault
        while True:
            packed = self._next_stream() if self._decoder.eof else self._needed()
            if packed is None:
                return b""
            try:
                part = self._decoder.decompress(packed, size)
            except self._damage as error:
                self._fault = DamagedStreamError(str(error) or type(error).__name__)
                raise self._fault from None
            if part:
                return part

    def _needed(self) -> bytes:
        """The next input of the decoder."""
        if not self._decoder.needs_input:
            return b""
        packed = self._source.read(_PIECE)
        if not packed:
            raise EOFError
        return packed

    def _next_stream(self) -> bytes | None:
        """The beginning of the stream behind the one that has ended, NULs between them left out; None: it was the last.

        A new decoder waits for it.
        """
        packed = self._decoder.unused_data.lstrip(b"\0")
        while not packed:
            piece = self._source.read(_PIECE)
            if not piece:
                return None
            packed = piece.lstrip(b"\0")
        self._decoder = self._new()
        return packed
