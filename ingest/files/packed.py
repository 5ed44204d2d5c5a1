"""A packed stream as a file: gzip, Zstandard, xz, bzip2. A module is imported when a file first needs it."""

from __future__ import annotations

import gzip
import io
from typing import Final, Protocol

from ingest.errors import DamagedStreamError

PACKINGS: Final = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"\xfd7zXZ\0": "xz", b"BZh": "bzip2"}
"""How a packed file begins, and the name of its packing."""

LONGEST_MARK: Final = max(map(len, PACKINGS))
"""Bytes of a beginning that tell."""


class _Stream(Protocol):
    def read(self, size: int = -1, /) -> bytes: ...


def packing_of(begin: bytes) -> str | None:
    """How a file that begins like this is packed; None where it is not.

    >>> packing_of(b"BZh91AY&SY"), packing_of(b"step 1")
    ('bzip2', None)
    """
    return next((name for mark, name in PACKINGS.items() if begin.startswith(mark)), None)


def unpacked_stream(packing: str, source: io.BufferedReader) -> io.BufferedIOBase:
    """What is inside a packed stream, unpacked as it is read."""
    if packing == "gzip":
        return gzip.GzipFile(fileobj=source)
    if packing == "zstd":
        from ingest.files.zstandard import ZstdFile  # noqa: PLC0415 - needs pyarrow, which most inputs do not

        return ZstdFile(source)
    if packing == "xz":
        import lzma  # noqa: PLC0415 - a Python may have been built without

        return _Unpacked(lzma.LZMAFile(source), lzma.LZMAError)
    import bz2  # noqa: PLC0415 - likewise

    return _Unpacked(bz2.BZ2File(source), OSError)


class _Unpacked(io.BufferedIOBase):
    """What is inside an xz or bzip2 stream; its damage is told from that of the disk."""

    def __init__(self, stream: _Stream, damage: type[Exception]) -> None:
        self._stream, self._damage = stream, damage

    def readable(self) -> bool:
        """It is."""
        return True

    def read(self, size: int | None = -1, /) -> bytes:
        """So many bytes, or the rest.

        Raises:
            EOFError: it ends too early.
            DamagedStreamError: it is damaged.
        """
        left = -1 if size is None else size
        parts = []
        while left and (part := self._some(left)):
            parts.append(part)
            left -= len(part) if left > 0 else 0
        return b"".join(parts)

    def _some(self, size: int) -> bytes:
        try:
            return self._stream.read(size)
        except EOFError:
            raise
        except self._damage as error:
            if getattr(error, "errno", None) is not None:  # of the disk
                raise
            raise DamagedStreamError(str(error)) from None
