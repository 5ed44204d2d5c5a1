r"""Endless lines: a progress bar redraws itself for hours, each time with a carriage return."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

LONG: Final = 1 << 19
"""Bytes of a line from which on a carriage return in it counts as its end."""

MOST_HELD: Final = 1 << 16
"""Carriage returns at the end of a chunk that wait for the next one."""


def with_ends(chunks: Iterable[bytes], longest: int = LONG) -> Iterator[bytes]:
    r"""The same chunks, in which longer lines end at their next carriage return.

    >>> list(with_ends([b"a\rb\rc\rd", b"\ne\rf\r\n"], 4))
    [b'a\rb\rc\nd', b'\ne\rf\r\n']
    """
    since = 0  # bytes of the line that continues in the next chunk
    for chunk in _undivided(chunks):
        data = chunk
        if b"\r" in chunk and (ends := list(_ends_lacking(chunk, since, longest))):
            mended = bytearray(chunk)
            for at in ends:
                mended[at] = 0x0A
            data = bytes(mended)
        yield data
        last = data.rfind(b"\n")
        since = since + len(data) if last < 0 else len(data) - last - 1


def _undivided(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes, in chunks none of which ends between a carriage return and what is behind it.

    A run of more than `MOST_HELD` carriage returns may be divided.
    """
    held = b""
    for chunk in chunks:
        data = held + chunk if held else chunk
        whole = len(data.rstrip(b"\r")) if data.endswith(b"\r") else len(data)
        if len(data) - whole > MOST_HELD:
            whole = len(data)
        held = data[whole:]
        if whole:
            yield data[:whole] if held else data
    if held:
        yield held


def _ends_lacking(chunk: bytes, since: int, longest: int) -> Iterator[int]:
    """Positions at which lines longer than `longest` are ended; the first line began `since` bytes before."""
    at, limit = 0, longest - since
    while (limit := max(limit, 0)) < len(chunk):
        line_end = chunk.rfind(b"\n", at, limit)
        if line_end < 0:
            over = chunk.find(b"\r", limit)
            line_end = chunk.find(b"\n", limit)
            if over >= 0 and (line_end < 0 or chunk[over:line_end].strip(b"\r")):
                yield over
                line_end = over
            elif line_end < 0:
                return
        at, limit = line_end + 1, line_end + 1 + longest
