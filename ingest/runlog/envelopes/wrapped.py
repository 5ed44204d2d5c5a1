r"""Lines of a log that a container runtime or a collector has put into JSON objects, as the lines with their times.

Docker's `json-file`, journald (`-o json`), Cloud Logging, Loki (`logcli -o jsonl`), Fluent Bit and programs that log
JSON all write an object a line that has a text and a time. The time goes before the text, where every reader of text
finds it; a line that is no such object stays as it is. Documents that hold many of them: `exported`.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import msgspec

from ingest.runlog.envelopes.partial_lines import is_of_containerd, joined

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

TEXTS: Final = ("log", "textPayload", "MESSAGE", "line", "message", "msg")
"""Keys of the text."""

TIMES: Final = ("time", "timestamp", "__REALTIME_TIMESTAMP", "@timestamp", "asctime", "date", "ts")
"""Keys of the time: ISO 8601, or a number since 1970 in seconds or something finer."""

PAYLOADS: Final = ("jsonPayload", "_source")
"""Keys of an object within, which has the text and maybe the time: of Cloud Logging, of Elasticsearch."""

_FINER: Final = 1e11
"""A larger number counts milliseconds, or something a thousand times finer, and so on."""

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


def unwrapping(head: bytes) -> Callable[[Iterable[bytes]], Iterator[bytes]] | None:
    r"""What takes a log that begins like this out of its objects; None where its lines are none.

    >>> unwrapping(b'{"log":"iteration 1/ 9\\n","stream":"stdout","time":"2026-10-01T08:00:00Z"}\n') is unwrapped
    True
    >>> unwrapping(b'{"type":"step","t":1,"step":2}\n')
    """
    first = next((line for line in head.split(b"\n") if line.strip()), b"")
    if is_of_containerd(first):
        return joined
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
    found = text_and_time(line) if line.startswith(b"{") else None
    return None if found is None else stamped(*found)


def stamped(text: str, time: str) -> bytes:
    r"""A text behind its time, as one line.

    >>> stamped("a\nb\n", "2026-10-01T08:00:00Z")
    b'2026-10-01T08:00:00Z a\rb'
    """
    return f"{time} {text.rstrip()}".replace("\n", "\r").encode(errors="replace")


def text_and_time(entry: bytes | msgspec.Raw) -> tuple[str, str] | None:
    """The text and the time of an object, or of the object within it; None where it has none of both."""
    try:
        text, time = _parts(entry)
    except (msgspec.DecodeError, RecursionError):
        return None
    return None if text is None or time is None else (text, time)


def _parts(entry: bytes | msgspec.Raw) -> tuple[str | None, str | None]:
    found = _DECODER.decode(entry)
    texts = (_text(getattr(found, f"text_{n}")) for n in range(len(TEXTS)))
    text = next((each for each in texts if each is not None), None)
    times = (_time(_value(getattr(found, f"time_{n}"))) for n in range(len(TIMES)))
    time = next((each for each in times if each is not None), None)
    payload = next((raw for n in range(len(PAYLOADS)) if (raw := getattr(found, f"payload_{n}"))), None)
    if payload is None or (text is not None and time is not None):
        return text, time
    inner_text, inner_time = _parts(payload)
    return text if text is not None else inner_text, time if time is not None else inner_time


_DECODER: Final = msgspec.json.Decoder(_Object)


def _text(raw: msgspec.Raw) -> str | None:
    """A text; journald writes one with colours in it as the numbers of its bytes."""
    value = msgspec.json.decode(raw) if raw else None
    if isinstance(value, list) and value and all(isinstance(each, int) and 0 <= each <= 255 for each in value):
        return bytes(value).decode(errors="replace")
    return value if isinstance(value, str) else None


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
