r"""Logs that were exported as one JSON document, as lines with their times.

`gcloud logging read --format json` and `jq -s` write an array of entries; the interfaces of Cloud Logging (`entries`),
CloudWatch Logs (`events`; `results` of its Insights), Elasticsearch and OpenSearch (`hits`), Datadog (`data`) and Loki
(`data.result`) answer with an object that holds them. Whatever their order, the lines are in order of time.
"""

from __future__ import annotations

import re
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import msgspec

from ingest.errors import InputError
from ingest.runlog.envelopes.wrapped import TEXTS, TIMES, stamped, text_and_time

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

_ARRAY: Final = re.compile(rb"\s*\[\s*\{")
_ANSWER: Final = re.compile(rb'\s*\{(?s:.*?)"(?:entries|events|hits|results?|data)"\s*:\s*[\[{]')
_HAS_TEXT: Final = re.compile(rb'"(?:' + "|".join(TEXTS).encode() + rb')"\s*:\s*["\[]|"field"\s*:\s*"@message"')
_HAS_TIME: Final = re.compile(
    rb'"(?:' + "|".join(map(re.escape, TIMES)).encode() + rb')"\s*:\s*["\d]|"field"\s*:\s*"@timestamp"'
)
_LOKI: Final = re.compile(rb'"values"\s*:\s*\[\s*\[\s*"\d+"\s*,\s*"')

LARGEST: Final = 1 << 30
"""Bytes of the largest document that is read."""


class _LokiStream(msgspec.Struct):
    """A stream of Loki's answer: its values are pairs (or more) of nanoseconds and text."""

    values: list[list[msgspec.Raw]] = []


class _Result(msgspec.Struct):
    result: list[_LokiStream] = []


class _Hits(msgspec.Struct):
    hits: list[msgspec.Raw] = []


class _LogField(msgspec.Struct):
    """One value of a row of CloudWatch Logs Insights."""

    field: str
    value: str


class _LogApiResponse(msgspec.Struct):
    """Answers of the interfaces; each has its entries under its own key."""

    entries: list[msgspec.Raw] = []
    events: list[msgspec.Raw] = []
    hits: _Hits = msgspec.field(default_factory=_Hits)
    results: list[list[_LogField]] = []
    data: list[msgspec.Raw] | _Result = []


def lines_of_export(head: bytes) -> Callable[[Iterable[bytes]], Iterator[bytes]] | None:
    r"""The reader of a document of entries that begins like this; None if it is no such document.

    >>> lines_of_export(b'[\n {"textPayload": "step 1", "timestamp": "2026-10-01T08:00:00Z"}') is _lines
    True
    >>> lines_of_export(b'{"events": [{"timestamp": 1790841600000, "message": "step 1"}') is _lines
    True
    >>> lines_of_export(b"[rank0]: step 1")
    >>> lines_of_export(b'{"log_history": [{"loss": 1.0}]}')
    """
    if not (_ARRAY.match(head) or _ANSWER.match(head)):
        return None
    is_known = (_HAS_TEXT.search(head) and _HAS_TIME.search(head)) or _LOKI.search(head)
    return _lines if is_known else None


def _lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The entries in order of time; one without a text or a time stays as it is, behind the others."""
    found: list[tuple[str, bytes]] = []
    others = []
    for entry in _entries(_whole(chunks)):
        known = entry if isinstance(entry, tuple) else text_and_time(entry)
        if known is None:
            others.append(bytes(entry).replace(b"\n", b" "))
        else:
            found.append((known[1], stamped(*known)))
    if found and found[0][0] > found[-1][0]:
        found.reverse()  # the newest came first, also among equal times
    found.sort(key=lambda each: each[0].removesuffix("Z"))  # 08:00:00Z is before 08:00:00.5Z
    yield from (line + b"\n" for line in chain((line for _, line in found), others))


def _whole(chunks: Iterable[bytes]) -> bytes:
    parts, size = [], 0
    for chunk in chunks:
        parts.append(chunk)
        size += len(chunk)
        if size > LARGEST:
            raise InputError("an export of more than 1 GiB as one document; export it as one object a line")
    return b"".join(parts)


def _entries(text: bytes) -> Iterator[Any]:
    """Entries as they are written; those of Loki as text and time."""
    try:
        if text.lstrip()[:1] == b"[":
            yield from msgspec.json.decode(text, type=list[msgspec.Raw])
            return
        answer = msgspec.json.decode(text, type=_LogApiResponse)
        yield from chain(answer.entries, answer.events, answer.hits.hits)
        yield from (msgspec.json.encode({one.field: one.value for one in row}) for row in answer.results)
        if isinstance(answer.data, list):
            yield from answer.data
            return
        for stream in answer.data.result:
            for nanoseconds, line, *_ in stream.values:
                yield text_and_time(b'{"ts":%s,"line":%s}' % (bytes(nanoseconds), bytes(line))) or line
    except (msgspec.DecodeError, RecursionError, ValueError) as error:
        raise InputError(f"an export of a log as one document that is cut or damaged: {error}") from None
