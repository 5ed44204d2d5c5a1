"""The formats that are installed: modules of this package with a `FORMAT`, and the text formats (`text/*.toml`)."""

from __future__ import annotations

import pkgutil
import re
from collections import deque
from dataclasses import replace
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Final

import ingest.runlog.formats as package
from ingest.delimited.reader import as_utf_8, decoded, utf_16
from ingest.runlog.envelopes.exported import lines_of_export
from ingest.runlog.envelopes.wrapped import unwrapping
from ingest.runlog.translation import HEAD, SEARCHED, Findings, LogRequest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import polars as pl

from ingest.runlog.translation import LogFormat

_RUN_LOG: Final = re.compile(rb'"type"\s*:\s*"(run|step|ckpt|event)"|"run_id"')
"""Pattern that the beginning of a run log matches."""

_FIRST_KEY: Final = re.compile(rb'\{\s*"(\w*)("?)')
_OWN_KEYS: Final = {b"type", b"v", b"t", b"run_id", b"cluster", b"step", b"kind", b"begin"}
"""Keys with which lines of a run log begin."""


@cache
def formats() -> tuple[LogFormat, ...]:
    """All formats that are modules, by name."""
    modules = (import_module(f"{package.__name__}.{one.name}") for one in pkgutil.iter_modules(package.__path__))
    return tuple(module.FORMAT for module in modules if hasattr(module, "FORMAT"))


def recognised(head: bytes) -> LogFormat | None:
    """The format of a log that begins like this, also in UTF-16; None: it is a run log, a text, or nothing known."""
    return _recognised(head) or (None if utf_16(head) is None else _recognised(as_utf_8(head)))


def _recognised(head: bytes) -> LogFormat | None:
    return next((one for one in formats() if one.recognise(head)), None)


def marked(data: bytes) -> LogFormat | None:
    """The format of which a line may be in a part of a log, between any other output."""
    return next((one for one in formats() if one.mark and one.mark in data), None)


def is_binary(head: bytes) -> bool:
    """Whether a log that begins like this is no text: nothing in it is a line."""
    form = recognised(head)
    return form is not None and form.is_binary


def chunks_of_run_log(
    chunks: Iterable[bytes], name: str, request: LogRequest, findings: Findings
) -> Iterator[bytes | pl.DataFrame]:
    """A log of any format as a run log, of which many steps may come as columns (`ingest.runlog.columns`).

    Args:
        chunks: the log; a run log is passed on as it comes.
        name: of its file; a log that names no run gets it, without its endings, as run id.
        request: what the log does not record.
        findings: gets what is to be reported besides the run log.

    Raises:
        InputError: the log cannot be placed in time.
    """
    head, rest = _beginning(chunks)
    form = recognised(head[:HEAD])
    if utf_16(head) is not None and (form is None or not form.is_binary):
        head, rest = _beginning(decoded(_chained(head, rest)))
    is_text = form is None or form.mark != b""
    unwrapped = unwrapping(head[:HEAD]) or lines_of_export(head[:HEAD]) if is_text else None
    if unwrapped is not None:
        head, rest = _beginning(unwrapped(_chained(head, rest)))
        form = recognised(head[:HEAD])
    named = replace(request, file=name)
    if form is None and not is_run_log(head[:HEAD]):
        form, rest = _further(head, rest, named)
    if form is not None:
        yield from form.read(_chained(head, rest), named, findings)
    elif is_run_log(head[:HEAD]):
        yield from _own(head, rest, request, findings)
    else:
        yield from _text(head, rest, named, findings)


def _beginning(chunks: Iterable[bytes]) -> tuple[bytes, Iterator[bytes]]:
    """The beginning of a log, enough to recognise its format, and the rest."""
    rest = iter(chunks)
    head = b""
    for chunk in rest:
        head += chunk
        if len(head) >= HEAD:
            break
    return head, rest


def _further(head: bytes, rest: Iterator[bytes], request: LogRequest) -> tuple[LogFormat | None, Iterator[bytes]]:
    """The format whose lines begin behind other output in the first `SEARCHED` bytes, and the log behind its `head`.

    One that has steps of a text format there, too, is a log of that.
    """
    form, taken, size = marked(head), [head], len(head)
    while size < SEARCHED and (chunk := next(rest, b"")):
        form = form or marked(taken[-1][-_LONGEST_MARK:] + chunk)
        taken.append(chunk)
        size += len(chunk)
    if form is not None and _has_steps(b"".join(taken), request):
        form = None
    return form, _popped(deque(taken[1:]), rest)


_LONGEST_MARK: Final = 64
"""Bytes of a chunk that are searched once more with the next one."""


def _has_steps(text: bytes, request: LogRequest) -> bool:
    """Whether a text format has a step in a part of a log."""
    from ingest.runlog.formats.text.scan import scan  # noqa: PLC0415 - run logs need none of it
    from ingest.runlog.text_format import with_builtin  # noqa: PLC0415 - likewise

    return scan([text], request.file, with_builtin(request.formats))[0].has_steps


def _popped(taken: deque[bytes], rest: Iterator[bytes]) -> Iterator[bytes]:
    """Chunks that were taken already, none of which is kept, and the rest."""
    while taken:
        yield taken.popleft()
    yield from rest


def is_run_log(head: bytes) -> bool:
    """Whether a log begins like a run log; one that was damaged by a power failure begins with NULs, or is cut by them.

    >>> [is_run_log(bytes(9) + rest) for rest in (b'{"ty', b'{"t":1', b'{"current_steps": 1', b"iteration 1/ 9 |")]
    [True, True, False, False]
    """
    if _RUN_LOG.search(head):
        return True
    if b"\0" not in head:
        return False
    rest = head.replace(b"\0", b"").lstrip()
    key = _FIRST_KEY.match(rest)
    return rest in {b"", b"{"} if key is None else key[2] == b"" or key[1] in _OWN_KEYS


def may_be_run_log(head: bytes) -> bool:
    """Whether a file called like a run log may be one: an empty or damaged one, too, but no data of another kind.

    >>> [may_be_run_log(head) for head in (b'{"type":"ru', b"", b"{broken", b'{"text": "a sample of a data set"}')]
    [True, True, True, False]
    """
    key = _FIRST_KEY.match(head.lstrip())
    return is_run_log(head) or key is None or key[2] == b"" or key[1] in _OWN_KEYS


def _own(head: bytes, rest: Iterator[bytes], request: LogRequest, findings: Findings) -> Iterator[bytes]:
    """A run log, as it comes; what it lacks is taken from the facts that are stated."""
    findings.stated = dict(request.facts)
    yield head
    yield from rest


def _text(
    head: bytes, rest: Iterator[bytes], request: LogRequest, findings: Findings
) -> Iterator[bytes | pl.DataFrame]:
    """A log of one of the text formats; of any other only the beginning is passed on, which no reader accepts."""
    from ingest.runlog.formats.text.reader import read_text  # noqa: PLC0415 - run logs need none of it

    made = read_text(_chained(head, rest), request, findings)
    yield from [head] if made is None else made


def _chained(head: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    yield head
    yield from rest
