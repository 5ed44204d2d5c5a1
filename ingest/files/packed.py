"""A packed stream as a file: gzip, Zstandard, xz, bzip2. A module is imported when a file first needs it."""

from __future__ import annotations

import re
import zlib
from functools import partial
from typing import TYPE_CHECKING, Final

from ingest.files.unpacked import DecompressedStream, GzipDecoder, Unpacked

if TYPE_CHECKING:
    import io

_PACKINGS: Final = {
    "gzip": re.compile(rb"\x1f\x8b"),
    "zstd": re.compile(rb"\x28\xb5\x2f\xfd"),
    "xz": re.compile(rb"\xfd7zXZ\0"),
    "bzip2": re.compile(rb"BZh[1-9](?:1AY&SY|\x17rE8P\x90)"),  # a block, or the end of an empty one: BZh alone is text
}
"""Packings, with the beginning of a stream of each."""

LONGEST_MARK: Final = 10
"""Bytes of a beginning that identify the packing."""

_MEMORY: Final = 256 << 20
"""Bytes that a stream may request to be unpacked: `xz -9` needs a quarter of it, a hostile one requests 4 GiB."""


def packing_of(begin: bytes) -> str | None:
    """The packing of a file with this beginning; None where it has none.

    >>> packing_of(b"BZh91AY&SY"), packing_of(b"BZhang|gpu"), packing_of(b"step 1")
    ('bzip2', None, None)
    """
    return next((name for name, mark in _PACKINGS.items() if mark.match(begin)), None)


def unpacked_stream(packing: str, source: io.BufferedReader) -> Unpacked:
    """The content of a packed stream, unpacked while it is read."""
    if packing == "gzip":
        return DecompressedStream(source, GzipDecoder, (zlib.error,))
    if packing == "zstd":
        from ingest.files.zstandard import ZstdFile  # noqa: PLC0415 - needs pyarrow, which most inputs do not

        return ZstdFile(source)
    if packing == "xz":
        import lzma  # noqa: PLC0415 - a Python may have been built without

        decoder = partial(lzma.LZMADecompressor, format=lzma.FORMAT_XZ, memlimit=_MEMORY)
        return DecompressedStream(source, decoder, (lzma.LZMAError, MemoryError))
    import bz2  # noqa: PLC0415 - likewise

    return DecompressedStream(source, bz2.BZ2Decompressor, (OSError, MemoryError))
