"""The bytes of a file or of standard input, unpacked, piece by piece: no input need fit into memory."""

from __future__ import annotations

import gzip
import hashlib
import io
import sys
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ingest.errors import InputError, TruncatedInputError, UnrecognisedInputError

if TYPE_CHECKING:
    from collections.abc import Iterator

GZIP: Final = b"\x1f\x8b"

PIECE: Final = 1 << 24
"""Bytes read at a time."""

HEAD: Final = 1 << 16
"""Bytes that are looked at to tell what an input is."""

STDIN: Final = "-"


class Input:
    """An input that can be looked at, and then read once.

    Attributes:
        name: File name, or `-` for standard input.
        head: The first `HEAD` bytes.
        size: Bytes on disk; 0 where that cannot be known (a pipe).
        done: So many of them have been read.

    Raises:
        InputError: It cannot be opened, or its beginning is damaged.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.size = self.done = 0
        self._sha256 = hashlib.sha256()
        self._source = self._open()
        self._stream = self._plain()
        self.head = self._read(HEAD)
        if self._source.seekable() and name != STDIN:
            self._source.close()

    def __iter__(self) -> Iterator[bytes]:
        """All pieces from the first on.

        Raises:
            InputError: It cannot be read, or is damaged.
            TruncatedInputError: The gzip stream ends too early.
        """
        piece = self.head
        if self._source.closed:
            self._source = self._open()
            self._stream = self._plain()
            piece = b""
        try:
            while piece := piece or self._read(PIECE):
                self._sha256.update(piece)
                if self.size:
                    self.done = min(self._source.tell(), self.size)
                yield piece
                piece = b""
        finally:
            if self.name != STDIN:
                self._source.close()

    def whole(self) -> bytes:
        """All of it at once."""
        return b"".join(self)

    def digest(self) -> str:
        """SHA-256 of the bytes that were read."""
        return self._sha256.hexdigest()

    def _open(self) -> io.BufferedReader:
        if self.name == STDIN:
            if sys.stdin is None:  # closed by whoever started us
                raise UnrecognisedInputError("standard input is closed; pipe a file into it")
            source = sys.stdin.buffer
            return source if isinstance(source, io.BufferedReader) else io.BufferedReader(source)  # type: ignore[arg-type]  # any reader of bytes will do
        try:
            path = Path(self.name)
            source = path.open("rb")
            self.size = path.stat().st_size
        except OSError as error:
            message = f"{self.name}: {error.strerror or error}"
            raise InputError(message) from None
        return source

    def _plain(self) -> io.BufferedIOBase:
        """The bytes themselves, or what is inside the gzip stream."""
        try:
            packed = self._source.peek(len(GZIP)).startswith(GZIP)
        except OSError as error:
            message = f"{self.name}: {error.strerror or error}"
            raise InputError(message) from None
        return gzip.GzipFile(fileobj=self._source) if packed else self._source

    def _read(self, size: int) -> bytes:
        try:
            return self._stream.read(size)
        except EOFError:
            message = f"{self.name}: the gzip stream is cut off; copy or write the file again"
            raise TruncatedInputError(message) from None
        except (gzip.BadGzipFile, zlib.error) as error:
            message = f"{self.name}: the gzip stream is damaged ({error}); copy or write the file again"
            raise InputError(message) from None
        except OSError as error:
            message = f"{self.name}: {error.strerror or error}"
            raise InputError(message) from None
