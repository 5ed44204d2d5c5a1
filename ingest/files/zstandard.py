"""A Zstandard stream as a file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

from ingest.errors import DamagedStreamError
from ingest.files.unpacked import Unpacked

if TYPE_CHECKING:
    import io

_PIECE: Final = 1 << 20
"""Bytes that are unpacked at a time."""

_UNWRITTEN: Final = b"\xff"
"""A byte that UTF-8 does not have: it fills what is not written yet."""


class ZstdFile(Unpacked):
    """The content of a Zstandard stream, unpacked while it is read."""

    def __init__(self, source: io.BufferedIOBase) -> None:
        self._stream = pa.CompressedInputStream(pa.PythonFile(source, mode="r"), "zstd")
        self._fault: Exception | None = None

    def _read_part(self, size: int) -> bytes:
        """As of `Unpacked`. Arrow does not return the number of bytes unpacked before an error: the buffer shows it."""
        if self._fault is not None:
            raise self._fault
        buffer = bytearray(_UNWRITTEN * (_PIECE if size < 0 else min(size, _PIECE)))
        try:
            return bytes(buffer[: self._stream.readinto(buffer)])
        except OSError as error:
            if error.errno is not None:  # of the disk, not of the stream
                raise
            self._fault = EOFError() if "runcated" in str(error) else DamagedStreamError(str(error))
        unpacked = bytes(buffer.rstrip(_UNWRITTEN))
        if not unpacked:
            raise self._fault
        return unpacked
