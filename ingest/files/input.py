"""The bytes of a file or of standard input, decompressed, chunk by chunk: no input need fit into memory."""

from __future__ import annotations

import hashlib
import io
import os
import re
import sys
import zlib
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from ingest.errors import DamagedStreamError, InputError, TruncatedInputError, UnrecognisedInputError
from ingest.files.long_lines import with_ends
from ingest.files.safe_open import open_input
from ingest.files.unpacked import DecompressedStream, GzipDecoder, Unpacked

if TYPE_CHECKING:
    from collections.abc import Iterator

CHUNK: Final = 1 << 24
"""Bytes read at a time."""

HEAD: Final = 1 << 16
"""Bytes that are read to detect what an input is."""

LONGEST_LINE: Final = 1 << 20
"""Bytes. Text without an end of line for longer is not a supported format."""

_LINE_END: Final = 1 << 16

_BLANK: Final = b"\xef\xbb\xbf\xff\xfe\x00 \t\r\n"
"""Blanks and byte order marks before the first character."""

STDIN: Final = "-"

_PACKINGS: Final = {
    "gzip": re.compile(rb"\x1f\x8b"),
    "zstd": re.compile(rb"\x28\xb5\x2f\xfd"),
    "xz": re.compile(rb"\xfd7zXZ\0"),
    "bzip2": re.compile(rb"BZh[1-9](?:1AY&SY|\x17rE8P\x90)"),  # a block, or the end of an empty one: BZh alone is text
}
"""Packings, with the beginning of a stream of each."""

_LONGEST_MARK: Final = 10
"""Bytes of a beginning that identify the packing."""

_MEMORY: Final = 256 << 20
"""Bytes that a stream may request to be unpacked: `xz -9` needs a quarter of it, a hostile one requests 4 GiB."""


def as_text(name: str) -> str:
    r"""A file's name as text that can be stored: bytes of it that are no UTF-8 are written out.

    >>> as_text("job.txt"), as_text("job\udcff.txt")
    ('job.txt', 'job\\xff.txt')
    """
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


class Input:
    """An input that can be examined, and then read once; a context of its own closes it, however far it was read.

    Attributes:
        name: File name as text (or the name to show), or `-` for standard input.
        head: The first `HEAD` bytes.
        size: Bytes on disk; 0 where that is unknown (a pipe).
        done: Bytes read so far.
        cut: The packing of a stream that turned out to be cut off, where that `may_be_cut`; else None.
        n_unpacked: Bytes that have been read, unpacked.

    Raises:
        InputError: It cannot be opened, or its beginning is damaged.
    """

    def __init__(self, name: str, *, shown: str | None = None, may_be_cut: bool = False) -> None:
        """Open it.

        Args:
            name: Of the file.
            shown: Its name in messages.
            may_be_cut: A packed stream that is cut off ends where it was cut, unless nothing of it can be unpacked.
        """
        self.name = as_text(name if shown is None else shown)
        self._path = name
        self._may_be_cut = may_be_cut
        self.cut: str | None = None
        self.size = self.done = self.n_unpacked = 0
        self._sha256 = hashlib.sha256()
        self._source = self._open()
        try:
            self._stream = self._plain()
            self.head = self._read(HEAD)
        except InputError:
            self._close()
            raise
        if self._source.seekable() and name != STDIN:
            self._source.close()

    def __iter__(self) -> Iterator[bytes]:
        """All chunks from the first on.

        Raises:
            InputError: It cannot be read, or is damaged.
            TruncatedInputError: The packed stream is cut off, and that is not expected.
        """
        for chunk in self._chunks():
            self._sha256.update(chunk)
            yield chunk

    def _chunks(self) -> Iterator[bytes]:
        """All chunks; the caller adds to the digest what it passes on."""
        chunk = self.head
        if self._source.closed:
            self._source = self._open()
            self._stream = self._plain()
            chunk = b""
        try:
            while chunk := chunk or self._read(CHUNK):
                if self.size:
                    self.done = min(self._source.tell(), self.size)
                yield chunk
                chunk = b""
        finally:
            self._close()

    def whole(self) -> bytes:
        """All of it at once."""
        return b"".join(self)

    def whole_text(self) -> bytes:
        """All of it at once, if no line is too long: a small file may unpack to an endless one.

        Raises:
            InputError: as `in_lines`.
        """
        return b"".join(self.in_lines())

    def in_lines(self) -> Iterator[bytes]:
        """All chunks of a text without too long lines (in JSON: texts, and separators between them).

        Raises:
            InputError: as for all chunks; or a line is longer than `LONGEST_LINE` bytes: 2 GB without an end fit
                into 9 MB of gzip.
        """
        mark, what = (b'"', "text") if self.head.lstrip(_BLANK)[:1] in {b"{", b"["} else (b"\n", "line")
        since = 0
        for chunk in self:
            at = chunk.rfind(mark)
            since = since + len(chunk) if at < 0 else len(chunk) - at - 1
            if since > LONGEST_LINE:
                self._close()
                message = f"{self.name}: a {what} in it is longer than {LONGEST_LINE:,} bytes; is the file damaged?"
                raise InputError(message)
            yield chunk

    def with_short_lines(self) -> Iterator[bytes]:
        """All chunks, but of a line that is far too long only its beginning and its end; the others are as they were.

        A long line with carriage returns, as of a progress bar, ends at these (`with_ends`).

        A machine that loses power leaves megabytes of NULs in an open file; the text behind them is sound.

        Raises:
            InputError: as for all chunks.
        """
        open_line = 0  # bytes of the line that continues in the next chunk
        for chunk in with_ends(self._chunks()):
            part = chunk
            if open_line > LONGEST_LINE:
                end = chunk.find(b"\n")
                if end < 0:
                    continue
                part = chunk[max(0, end - _LINE_END) :]
            last = part.rfind(b"\n")
            open_line = open_line + len(part) if last < 0 else len(part) - last - 1
            surplus = open_line - LONGEST_LINE - 1
            part = part[:-surplus] if surplus > 0 else part
            self._sha256.update(part)
            yield part

    def digest(self) -> str:
        """SHA-256 of the bytes that were passed on."""
        return self._sha256.hexdigest()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Close it, also where the reader stopped in the middle."""
        self._close()

    def _close(self) -> None:
        if self.name != STDIN:
            self._source.close()

    def _open(self) -> io.BufferedReader:
        if self.name == STDIN:
            if sys.stdin is None:  # closed by the parent process
                raise UnrecognisedInputError("standard input is closed; pipe a file into it")
            source = sys.stdin.buffer
            return source if isinstance(source, io.BufferedReader) else io.BufferedReader(source)  # type: ignore[arg-type]  # any reader of bytes will do
        self.n_unpacked = 0
        source = open_input(Path(self._path))
        self.size = os.fstat(source.fileno()).st_size
        return source

    def _plain(self) -> io.BufferedIOBase:
        """The bytes themselves, or the unpacked ones."""
        try:
            begin = self._source.peek(_LONGEST_MARK)
        except OSError as error:
            message = f"{self.name}: {error.strerror or error}"
            raise InputError(message) from None
        self._packing = packing_of(begin)
        return self._source if self._packing is None else _unpacked_stream(self._packing, self._source)

    def _read(self, size: int) -> bytes:
        data = self._read_some(size)
        self.n_unpacked += len(data)
        return data

    def _read_some(self, size: int) -> bytes:
        try:
            return self._stream.read(size)
        except EOFError:
            if self._may_be_cut and self.n_unpacked:
                self.cut = self._packing
                return b""
            message = f"{self.name}: the {self._packing} stream is cut off; copy or write the file again"
            raise TruncatedInputError(message) from None
        except DamagedStreamError as error:
            message = f"{self.name}: the {self._packing} stream is damaged ({error}); copy or write the file again"
            raise DamagedStreamError(message) from None
        except OSError as error:
            message = f"{self.name}: {error.strerror or error}"
            raise InputError(message) from None


def packing_of(begin: bytes) -> str | None:
    """The packing of a file with this beginning; None where it has none.

    >>> packing_of(b"BZh91AY&SY"), packing_of(b"BZhang|gpu"), packing_of(b"step 1")
    ('bzip2', None, None)
    """
    return next((name for name, mark in _PACKINGS.items() if mark.match(begin)), None)


def _unpacked_stream(packing: str, source: io.BufferedReader) -> Unpacked:
    """The content of a packed stream, unpacked while it is read. A module is imported when a file first needs it."""
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
