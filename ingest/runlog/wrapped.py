r"""Lines of a log that a container runtime or a collector has put into JSON objects, as the lines with their times.

Docker's `json-file`, journald (`-o json`), Cloud Logging, Loki (`logcli -o jsonl`), Fluent Bit and programs that log
JSON all write an object a line that has a text and a time. The time goes before the text, where every reader of text
finds it; a line that is no such object stays as it is.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

TEXTS: Final = ("log", "textPayload", "MESSAGE", "line", "message", "msg")
"""Keys of the text."""

TIMES: Final = ("time", "timestamp", "__REALTIME_TIMESTAMP", "@timestamp", "asctime", "date", "ts")
"""Keys of the time: ISO 8601, or a number since 1970 in seconds or something finer."""

_FINER: Final = 1e11
"""A larger number counts milliseconds, or something a thousand times finer, and so on."""

_Value = str | int | float | None
_Object = msgspec.defstruct(
    "_Object",
    [
        *((f"text_{n}", msgspec.Raw, msgspec.field(name=key, default=msgspec.Raw())) for n, key in enumerate(TEXTS)),
        *((f"time_{n}", msgspec.Raw, msgspec.field(name=key, default=msgspec.Raw())) for n, key in enumerate(TIMES)),
    ],
)


def unwrapping(head: bytes) -> Callable[[Iterable[bytes]], Iterator[bytes]] | None:
    r"""What takes a log that begins like this out of its objects; None where its lines are none.

    >>> unwrapping(b'{"log":"iteration 1/ 9\\n","stream":"stdout","time":"2026-10-01T08:00:00Z"}\n') is unwrapped
    True
    >>> unwrapping(b'{"type":"step","t":1,"step":2}\n')
    """
    first = next((line for line in head.split(b"\n") if line.strip()), b"")
    return None if _line(first) is None else unwrapped


def unwrapped(chunks: Iterable[bytes]) -> Iterator[bytes]:
    r"""The lines, each with its time before it; their number stays.

    >>> list(unwrapped([b'{"log":"step 1\\n","time":"2026-10-01T08:00:00Z"}\n{"lo', b'g":"cut']))
    [b'2026-10-01T08:00:00Z step 1\n', b'{"log":"cut']
    """
    rest = b""
    for chunk in chunks:
        data = rest + chunk
        whole = data.rfind(b"\n") + 1
        rest = data[whole:]
        if whole:
            yield b"".join((_line(line) or line) + b"\n" for line in data[:whole].split(b"\n")[:-1])
    if rest:
        yield _line(rest) or rest


def _line(line: bytes) -> bytes | None:
    """The text in an object with its time; None where it has none of both."""
    if not line.startswith(b"{"):
        return None
    try:
        found = _DECODER.decode(line)
    except (msgspec.DecodeError, RecursionError):
        return None
    texts = (_value(getattr(found, f"text_{n}")) for n in range(len(TEXTS)))
    text = next((each for each in texts if isinstance(each, str)), None)
    times = (_time(_value(getattr(found, f"time_{n}"))) for n in range(len(TIMES)))
    time = next((each for each in times if each is not None), None)
    if text is None or time is None:
        return None
    return f"{time} {text.rstrip()}".replace("\n", "\r").encode(errors="replace")


_DECODER: Final = msgspec.json.Decoder(_Object)


def _value(raw: msgspec.Raw) -> _Value:
    """A text or a number; None for anything else."""
    value = msgspec.json.decode(raw) if raw else None
    return value if isinstance(value, (str, int, float)) else None


def _time(value: _Value) -> str | None:
    """A time as a log writes it.

    >>> _time("2026-10-01T08:00:00Z"), _time(1790841600.5), _time("1790841600500000"), _time("soon")
    ('2026-10-01T08:00:00Z', '2026-10-01T08:00:00.500000Z', '2026-10-01T08:00:00.500000Z', None)
    """
    if isinstance(value, str) and value[:2] == "20" and value[4:5] in {"-", "/"}:
        return value
    try:
        number = float(value)  # type: ignore[arg-type]  # what is no number raises
        while number > _FINER:
            number /= 1_000
        return f"{datetime.fromtimestamp(number, UTC):%Y-%m-%dT%H:%M:%S.%fZ}"
    except (TypeError, ValueError, OverflowError, OSError):
        return None
