"""Blocks of a Zstandard stream, decompressed as they come. Gzip is unpacked where files are opened (`files.input`)."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from ingest.errors import InputError, TruncatedInputError
from ingest.files.input import CHUNK

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ZSTD: Final = b"\x28\xb5\x2f\xfd"
"""How a Zstandard frame begins."""


class _Chunks(io.RawIOBase):
    """Blocks as a file."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = iter(chunks)
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]  # any buffer that can be written
        """As much as is left of a chunk."""
        while not self._rest:
            chunk = next(self._chunks, None)
            if chunk is None:
                return 0
            self._rest = memoryview(chunk)
        size = min(len(buffer), len(self._rest))
        buffer[:size] = self._rest[:size]
        self._rest = self._rest[size:]
        return size


def decompressed(chunks: Iterable[bytes], *, origin: str) -> Iterator[bytes]:
    """What is inside a Zstandard stream.

    Raises:
        TruncatedInputError: it ends too early.
        InputError: it is damaged.
    """
    source = pa.PythonFile(io.BufferedReader(_Chunks(chunks), CHUNK), mode="r")
    try:
        with pa.CompressedInputStream(source, "zstd") as stream:
            while chunk := stream.read(CHUNK):
                yield chunk
    except OSError as error:
        reason = str(error)
        if "runcated" in reason:
            message = f"{origin}: the zstd stream is cut off; copy or write the file again"
            raise TruncatedInputError(message) from None
        message = f"{origin}: the zstd stream is damaged ({reason}); copy or write the file again"
        raise InputError(message) from None
