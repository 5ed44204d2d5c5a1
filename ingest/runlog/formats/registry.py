"""The formats that are installed: every module of this package with a `FORMAT`."""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module
from itertools import chain
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import ingest.runlog.formats as package
from ingest.errors import InputError
from ingest.runlog.formats.translation import HEAD

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from ingest.runlog.formats.translation import LogFormat


@cache
def formats() -> tuple[LogFormat, ...]:
    """All formats, by name."""
    modules = (import_module(f"{package.__name__}.{one.name}") for one in pkgutil.iter_modules(package.__path__))
    return tuple(module.FORMAT for module in modules if hasattr(module, "FORMAT"))


def recognised(head: bytes) -> LogFormat | None:
    """The format of a log that begins like this; None where it is a run log, or nothing known."""
    return next((one for one in formats() if one.recognise(head)), None)


def is_binary(head: bytes) -> bool:
    """Whether a log that begins like this is no text: nothing in it is a line."""
    form = recognised(head)
    return form is not None and form.stream is not None


def as_run_log(data: bytes, name: str, facts: Mapping[str, Any]) -> bytes:
    """A log of any format as a run log.

    Args:
        data: the log.
        name: of its file; a log that names no run gets it, without its endings, as run id.
        facts: of the `run` line, where the log does not record them.

    Raises:
        InputError: there are facts for a run log, which records its own.
    """
    form = recognised(data[:HEAD])
    if form is not None and form.stream is not None:
        return b"".join(form.stream([data], name, facts))
    if form is not None and form.translate is not None:
        return form.translate(data, {"run_id": PurePath(name).name.partition(".")[0], **facts}).data
    if facts:
        raise InputError(f"{name}: a run log records its own facts; leave out --set and --model")
    return data


def chunks_of_run_log(chunks: Iterable[bytes], name: str, facts: Mapping[str, Any]) -> Iterator[bytes]:
    """As `as_run_log`, of a log that comes in chunks: a run log is passed on as it comes, others as a whole."""
    rest = iter(chunks)
    head = b""
    for chunk in rest:
        head += chunk
        if len(head) >= HEAD:
            break
    form = recognised(head[:HEAD])
    if form is not None and form.stream is not None:
        yield from form.stream(chain([head], rest), name, facts)
        return
    if form is not None:
        yield as_run_log(b"".join([head, *rest]), name, facts)
        return
    yield as_run_log(head, name, facts)
    yield from rest
