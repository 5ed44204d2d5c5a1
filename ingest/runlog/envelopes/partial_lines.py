r"""Lines that containerd or Docker cut at 16 KiB, put together again: a redrawn progress bar is one long line.

    2026-10-01T08:00:00.5Z stdout P the beginning of a line
    2026-10-01T08:00:01.5Z stdout F and its end

Docker's `json-file` marks a piece only by its length and the missing line end of its text. The text behind the last
carriage return of a part is joined to the next part of the same stream, and has the time of that part. The
number of lines stays the same, but a part without an end comes last in its log, as a cut line.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

LARGEST: Final = 1 << 20
"""Bytes of a line that are put together; a longer one stays cut."""

_LINE: Final = re.compile(rb"(\d{4}-\d\d-\d\dT\S+ (std(?:out|err)) )([FP]) (.*)", re.DOTALL)


def is_of_containerd(line: bytes) -> bool:
    """Whether a line has containerd's stamp and stream.

    >>> is_of_containerd(b"2026-10-01T08:00:00.5Z stdout F step 1"), is_of_containerd(b"2026-10-01T08:00:00Z step 1")
    (True, False)
    """
    return _LINE.match(line) is not None


def joined(chunks: Iterable[bytes]) -> Iterator[bytes]:
    r"""The lines, each whole.

    >>> day = b"2026-10-01T08:00:0"
    >>> list(joined([day + b"1Z stdout P 10%\r20", b"%\n" + day + b"2Z stderr F x\n" + day + b"3Z stdout F 5%\n"]))
    [b'2026-10-01T08:00:01Z stdout F 10%\n2026-10-01T08:00:02Z stderr F x\n2026-10-01T08:00:03Z stdout F 20%5%\n']
    >>> list(joined([day + b"1Z stdout P 10%\r20"]))
    [b'2026-10-01T08:00:01Z stdout F 10%\n2026-10-01T08:00:01Z stdout F 20']
    """
    pieces = Pieces()
    rest = b""
    for chunk in chunks:
        data = rest + chunk
        whole = data.rfind(b"\n") + 1
        lines, rest = data[:whole], data[whole:]
        if pieces.are_open or b" P " in lines:
            lines = b"".join(_whole(line, pieces) + b"\n" for line in lines.split(b"\n")[:-1])
        if lines:
            yield lines
    cut = [_whole(rest, pieces)] if rest else []
    cut += pieces.left()
    if cut:
        yield b"\n".join(cut)


class _Piece(NamedTuple):
    """Text kept of the pieces of an unfinished line, and the prefix of the last piece."""

    before: bytes
    kept: bytes


_NOTHING: Final = _Piece(b"", b"")


class Pieces:
    """The unfinished lines of a log, one per stream."""

    def __init__(self) -> None:
        self._open: dict[bytes, _Piece] = {}

    @property
    def are_open(self) -> bool:
        """Whether a line waits for its end."""
        return bool(self._open)

    def whole(self, stream: bytes, before: bytes, text: bytes, *, continues: bool) -> bytes:
        """A line joined to the pieces before it; if it goes on, the text behind its last carriage return is kept back.

        Args:
            stream: the output stream of the line.
            before: the prefix of the text.
            text: the piece, without a line end.
            continues: whether it is not the last one of its line.
        """
        text = self._open.pop(stream, _NOTHING).kept + text
        if continues:
            done, _, kept = text.rpartition(b"\r")
            if len(kept) <= LARGEST:
                self._open[stream] = _Piece(before, kept)
                text = done
        return before + text

    def left(self) -> list[bytes]:
        """The lines whose end has not come."""
        return [piece.before + piece.kept for piece in self._open.values()]


def _whole(line: bytes, pieces: Pieces) -> bytes:
    """A line of containerd, put together; any other as it is.

    Args:
        line: without its end.
        pieces: receives the text that is kept back.
    """
    match = _LINE.match(line)
    if match is None:
        return line
    before, stream, kind, text = match.groups()
    return pieces.whole(stream, before + b"F ", text, continues=kind == b"P")
