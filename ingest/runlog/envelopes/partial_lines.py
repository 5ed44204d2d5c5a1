r"""Lines that containerd has cut at 16 KiB, put together again: those of a program's progress bar are endless.

    2026-10-01T08:00:00.5Z stdout P the beginning of a line
    2026-10-01T08:00:01.5Z stdout F and its end

What follows the last carriage return of a part goes before the part behind it, of the same stream, with whose time it
was complete. The number of lines stays, but that a part without an end comes last in its log, as a cut line.
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
    parts: dict[bytes, _Part] = {}
    rest = b""
    for chunk in chunks:
        data = rest + chunk
        whole = data.rfind(b"\n") + 1
        lines, rest = data[:whole], data[whole:]
        if parts or b" P " in lines:
            lines = b"".join(_whole(line, parts) + b"\n" for line in lines.split(b"\n")[:-1])
        if lines:
            yield lines
    cut = [_whole(rest, parts)] if rest else []
    cut += [part.before + b"F " + part.kept for part in parts.values()]
    if cut:
        yield b"\n".join(cut)


class _Part(NamedTuple):
    """What is kept of the parts of a line whose end has not come yet, and the stamp and stream of the last of them."""

    before: bytes
    kept: bytes


_NOTHING: Final = _Part(b"", b"")


def _whole(line: bytes, parts: dict[bytes, _Part]) -> bytes:
    """A line behind what is kept of the parts before it; what is to be kept of it is taken out.

    Args:
        line: without its end.
        parts: by the stream, what is kept.
    """
    match = _LINE.match(line)
    if match is None:
        return line
    before, stream, kind, text = match.groups()
    text = parts.pop(stream, _NOTHING).kept + text
    if kind == b"P":
        done, _, kept = text.rpartition(b"\r")
        if len(kept) <= LARGEST:
            parts[stream] = _Part(before, kept)
            text = done
    return before + b"F " + text
