r"""Lines of a log that a container runtime or a collector has put into JSON objects, as the lines with their times.

Docker's `json-file`, journald (`-o json`), Cloud Logging, Loki (`logcli -o jsonl`), Fluent Bit, Splunk and programs
that log JSON all write an object a line that has a text and a time. The time goes before the text, where every reader
of text finds it; a line that is no such object stays as it is. Documents that hold many of them: `exported`.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import msgspec

from ingest.runlog.envelopes.partial_lines import Pieces, is_of_containerd, joined

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

TEXTS: Final = ("log", "textPayload", "MESSAGE", "line", "message", "msg", "@message", "_raw")
"""Keys of the text."""

TIMES: Final = ("time", "timestamp", "__REALTIME_TIMESTAMP", "@timestamp", "asctime", "date", "ts", "_time")
"""Keys of the time: ISO 8601, or a number since 1970 in seconds or something finer."""

PAYLOADS: Final = ("jsonPayload", "_source", "result", "attributes")
"""Keys of an object within, which has the text and maybe the time: of Cloud Logging, Elasticsearch, Splunk, Datadog."""

DOCKERS_PIECE: Final = 1 << 14
"""Bytes of text at which Docker cuts a line; only the last piece ends in a line end."""

_FINER: Final = 1e11
"""A larger number counts milliseconds, or something a thousand times finer, and so on."""

_OF_CLOUDWATCH: Final = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}")

_Value = str | int | float | None
_FIELDS: Final = {
    f"{kind}_{n}": key
    for kind, keys in (("text", TEXTS), ("time", TIMES), ("payload", PAYLOADS))
    for n, key in enumerate(keys)
}
_Object = msgspec.defstruct(
    "_Object",
    [(field, msgspec.Raw, msgspec.field(name=key, default=msgspec.Raw())) for field, key in _FIELDS.items()],
)


class _OfDocker(msgspec.Struct):
    """An object of Docker with a piece of a line."""

    log: str
    stream: str


def unwrapping(head: bytes) -> Callable[[Iterable[bytes]], Iterator[bytes]] | None:
    r"""The function that unwraps a log that begins like this; None if its lines are no such objects.

    >>> unwrapping(b'{"log":"iteration 1/ 9\\n","stream":"stdout","time":"2026-10-01T08:00:00Z"}\n') is unwrapped
    True
    >>> unwrapping(b'{"type":"step","t":1,"step":2}\n')
    """
    first = next((line for line in head.split(b"\n") if line.strip()), b"")
    if is_of_containerd(first):
        return joined
    return None if _line(first, Pieces()) is None else unwrapped


def unwrapped(chunks: Iterable[bytes]) -> Iterator[bytes]:
    r"""The lines, each with its time before it; their number stays.

    >>> list(unwrapped([b'{"log":"step 1\\n","time":"2026-10-01T08:00:00Z"}\n{"lo', b'g":"cut']))
    [b'2026-10-01T08:00:00Z step 1\n', b'{"log":"cut']
    """
    rest = b""
    pieces = Pieces()
    for chunk in chunks:
        data = rest + chunk
        whole = data.rfind(b"\n") + 1
        rest = data[whole:]
        if whole:
            yield b"".join((_line(line, pieces) or line) + b"\n" for line in data[:whole].split(b"\n")[:-1])
    cut = [_line(rest, pieces) or rest] if rest else []
    cut += pieces.left()
    if cut:
        yield b"\n".join(cut)


def _line(line: bytes, pieces: Pieces) -> bytes | None:
    """The text in an object with its time, put together where Docker cut it; None if one of them is missing."""
    if not line.startswith(b"{"):
        return None
    found = text_and_time(line)
    if found is None:
        return None
    if pieces.are_open or len(line) > DOCKERS_PIECE:
        return _whole(line, found[1], pieces) or stamped(*found)
    return stamped(*found)


def _whole(line: bytes, time: str, pieces: Pieces) -> bytes | None:
    """A line of Docker behind the pieces before it, with the time of this one; None: it is none."""
    try:
        entry = _OF_DOCKER.decode(line)
    except msgspec.DecodeError:
        return None
    text = entry.log.encode(errors="replace")
    continues = _is_piece(entry.log, len(text)) and not text.endswith(b"\n")
    text = text if continues else text.rstrip()
    return pieces.whole(entry.stream.encode(), time.encode() + b" ", text.replace(b"\n", b"\r"), continues=continues)


def _is_piece(text: str, size: int) -> bool:
    """Whether a text has the length of a piece, in bytes: each byte of a cut character became a replacement of three.

    A longer text was put together by a collector, which removes line ends: the next line is a new one.

    >>> _is_piece("x" * DOCKERS_PIECE, DOCKERS_PIECE), _is_piece("x" * 20_000, 20_000)
    (True, False)
    """
    return size - 2 * text.count("\N{REPLACEMENT CHARACTER}") <= DOCKERS_PIECE <= size


def stamped(text: str, time: str) -> bytes:
    r"""A text behind its time, as one line.

    >>> stamped("a\nb\n", "2026-10-01T08:00:00Z")
    b'2026-10-01T08:00:00Z a\rb'
    """
    return f"{time} {text.rstrip()}".replace("\n", "\r").encode(errors="replace")


def text_and_time(entry: bytes | msgspec.Raw) -> tuple[str, str] | None:
    """The text and the time of an object, or of the object within it; None if one of them is missing."""
    try:
        text, time = _parts(entry)
    except (msgspec.DecodeError, RecursionError):
        return None
    return None if text is None or time is None else (text, time)


def _parts(entry: bytes | msgspec.Raw) -> tuple[str | None, str | None]:
    found = _DECODER.decode(entry)
    texts = (_text(getattr(found, f"text_{n}")) for n in range(len(TEXTS)))
    text = next((each for each in texts if each is not None), None)
    times = (_time(_value(getattr(found, f"time_{n}")), key) for n, key in enumerate(TIMES))
    time = next((each for each in times if each is not None), None)
    payload = next((raw for n in range(len(PAYLOADS)) if (raw := getattr(found, f"payload_{n}"))), None)
    if payload is None or (text is not None and time is not None):
        return text, time
    inner_text, inner_time = _parts(payload)
    return text if text is not None else inner_text, time if time is not None else inner_time


_DECODER: Final = msgspec.json.Decoder(_Object)
_OF_DOCKER: Final = msgspec.json.Decoder(_OfDocker)


def _text(raw: msgspec.Raw) -> str | None:
    """A text; journald writes a text with colours as an array of byte values."""
    value = msgspec.json.decode(raw) if raw else None
    if isinstance(value, list) and value and all(isinstance(each, int) and 0 <= each <= 255 for each in value):
        return bytes(value).decode(errors="replace")
    return value if isinstance(value, str) else None


def _value(raw: msgspec.Raw) -> _Value:
    """A text or a number; None for anything else."""
    value = msgspec.json.decode(raw) if raw else None
    return value if isinstance(value, (str, int, float)) else None


def _time(value: _Value, key: str = "time") -> str | None:
    """A time as a log writes it; in a table of CloudWatch it has no zone, and is in UTC.

    >>> _time("2026-10-01T08:00:00Z"), _time(1790841600.5), _time("1790841600500000"), _time("soon")
    ('2026-10-01T08:00:00Z', '2026-10-01T08:00:00.500000Z', '2026-10-01T08:00:00.500000Z', None)
    >>> _time("2026-10-01 08:00:00.500", "@timestamp"), _time("2026-10-01 08:00:00.500")
    ('2026-10-01 08:00:00.500Z', '2026-10-01 08:00:00.500')
    """
    if isinstance(value, str) and value[:2] == "20" and value[4:5] in {"-", "/"}:
        return f"{value}Z" if key == "@timestamp" and _OF_CLOUDWATCH.fullmatch(value) else value
    try:
        number = float(value)  # type: ignore[arg-type]  # what is no number raises
        while number > _FINER:
            number /= 1_000
        return f"{datetime.fromtimestamp(number, UTC):%Y-%m-%dT%H:%M:%S.%fZ}"
    except (TypeError, ValueError, OverflowError, OSError):
        return None
