"""A Zstandard stream as a file."""

from __future__ import annotations

import io
from typing import Final

import pyarrow as pa

from ingest.errors import DamagedStreamError

_PIECE: Final = 1 << 24
"""Bytes that are unpacked at a time where all are requested."""


class ZstdFile(io.BufferedIOBase):
    """What is inside a Zstandard stream, unpacked as it is read."""

    def __init__(self, source: io.BufferedIOBase) -> None:
        self._stream = pa.CompressedInputStream(pa.PythonFile(source, mode="r"), "zstd")

    def readable(self) -> bool:
        """It is."""
        return True

    def read(self, size: int | None = -1, /) -> bytes:
        """So many bytes, or the rest.

        Raises:
            EOFError: it ends too early.
            DamagedStreamError: it is damaged.
        """
        parts = []
        left = size if size is not None and size >= 0 else None
        while left is None or left > 0:
            part = self._some(_PIECE if left is None else left)
            if not part:
                break
            parts.append(part)
            left = None if left is None else left - len(part)
        return b"".join(parts)

    def _some(self, size: int) -> bytes:
        try:
            return bytes(self._stream.read(size))
        except OSError as error:
            if "runcated" in str(error):
                raise EOFError from None
            raise DamagedStreamError(str(error)) from None
