"""A packed stream as a file: gzip, Zstandard, xz, bzip2. A module is imported when a file first needs it."""

from __future__ import annotations

import gzip
import io
import re
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from ingest.errors import DamagedStreamError

if TYPE_CHECKING:
    from collections.abc import Callable

_PACKINGS: Final = {
    "gzip": re.compile(rb"\x1f\x8b"),
    "zstd": re.compile(rb"\x28\xb5\x2f\xfd"),
    "xz": re.compile(rb"\xfd7zXZ\0"),
    "bzip2": re.compile(rb"BZh[1-9](?:1AY&SY|\x17rE8P\x90)"),  # a block, or the end of an empty one: BZh alone is text
}
"""The name of a packing, and how what is packed so begins."""

LONGEST_MARK: Final = 10
"""Bytes of a beginning that tell."""

_PIECE: Final = 1 << 16
"""Packed bytes that are read at a time."""

_MEMORY: Final = 256 << 20
"""Bytes that a stream may request to be unpacked: `xz -9` needs a quarter of it, a hostile one requests 4 GiB."""


def packing_of(begin: bytes) -> str | None:
    """How a file that begins like this is packed; None where it is not.

    >>> packing_of(b"BZh91AY&SY"), packing_of(b"BZhang|gpu"), packing_of(b"step 1")
    ('bzip2', None, None)
    """
    return next((name for name, mark in _PACKINGS.items() if mark.match(begin)), None)


def unpacked_stream(packing: str, source: io.BufferedReader) -> io.BufferedIOBase:
    """What is inside a packed stream, unpacked as it is read."""
    if packing == "gzip":
        return gzip.GzipFile(fileobj=source)
    if packing == "zstd":
        from ingest.files.zstandard import ZstdFile  # noqa: PLC0415 - needs pyarrow, which most inputs do not

        return ZstdFile(source)
    if packing == "xz":
        import lzma  # noqa: PLC0415 - a Python may have been built without

        decoder = partial(lzma.LZMADecompressor, format=lzma.FORMAT_XZ, memlimit=_MEMORY)
        return _Unpacked(source, decoder, (lzma.LZMAError, MemoryError))
    import bz2  # noqa: PLC0415 - likewise

    return _Unpacked(source, bz2.BZ2Decompressor, (OSError, MemoryError))


class _Decoder(Protocol):
    """As of `bz2` and `lzma`: of one stream."""

    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int = -1) -> bytes: ...


class _Unpacked(io.BufferedIOBase):
    """What is inside xz or bzip2 streams, one behind the other, as pbzip2 and joined files have them.

    The standard library's own files take a damaged later stream for what may stand behind the last, and leave it out
    without a word.
    """

    def __init__(
        self, source: io.BufferedReader, new: Callable[[], _Decoder], damage: tuple[type[Exception], ...]
    ) -> None:
        self._source, self._new, self._damage = source, new, damage
        self._decoder = new()

    def readable(self) -> bool:
        """It is."""
        return True

    def read(self, size: int | None = -1, /) -> bytes:
        """So many bytes, or the rest.

        Raises:
            EOFError: it ends too early.
            DamagedStreamError: it is damaged, or needs too much memory.
        """
        left = -1 if size is None else size
        parts = []
        while left and (part := self._some(left)):
            parts.append(part)
            left -= len(part) if left > 0 else 0
        return b"".join(parts)

    def _some(self, size: int) -> bytes:
        """Some bytes; none at the end."""
        while True:
            packed = self._next_stream() if self._decoder.eof else self._needed()
            if packed is None:
                return b""
            try:
                part = self._decoder.decompress(packed, size)
            except self._damage as error:
                raise DamagedStreamError(str(error) or type(error).__name__) from None
            if part:
                return part

    def _needed(self) -> bytes:
        """What the decoder needs to go on."""
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
