"""Entries of Google's goodput log (ml-goodput-measurement): an export of Cloud Logging, or one dictionary a line.

Cloud Logging exports a JSON array or an object a line, each with the entry as `jsonPayload`; programs that print what
they record write the entry itself, as JSON or as Python prints it. Entries come in any order (`gcloud logging read`
prints the newest first): their own times decide.

A `job_start_time` begins a session; a `step_start_time` is the event `step_start`, and a step that lasts until the next
one begins. Of the last step of a process only the begin is known. `tpu_init`, `training_prep` and `data_loading` are
the events `init`, `compile` and `data`; custom badput events keep their type; Orbax's entries are checkpoints.
"""

from __future__ import annotations

import ast
import json
import re
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import msgspec

from ingest.delimited.reader import clean_blocks
from ingest.errors import InputError
from ingest.plausible import EARLIEST_S, LATEST_S
from ingest.runlog.lines import CUT
from ingest.runlog.translation import HEAD, Findings, LogFormat, LogRequest, RefusedLine
from ingest.tables import RAW_LIMIT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

STEP: Final = "step_start_time"
ENTRY: Final = re.compile(
    rb"""["'](job|step|tpu_init|training_prep|data_loading|custom_badput_event)_(start|end)_time["']"""
)
"""A key of an entry."""

SPANS: Final = {"tpu_init": "init", "training_prep": "compile", "data_loading": "data"}
"""Kinds of events by the beginnings of their keys."""

CUSTOM: Final = "custom_badput_event"

_BLOCK: Final = 1 << 23
_LARGEST_ARRAY: Final = 1 << 30


@dataclass(frozen=True)
class _GoodputEntry:
    """An entry with its kind of time and its moment."""

    at: float
    name: str
    line: int
    fields: dict[str, Any]


@dataclass
class _Job:
    """The run log as it is made; lines by their order."""

    facts: dict[str, Any]
    lines: list[dict[str, Any]] = field(default_factory=list)
    step: _GoodputEntry | None = None
    open: dict[str, _GoodputEntry] = field(default_factory=dict)
    started: bool = False

    def take(self, entry: _GoodputEntry) -> None:
        """Read the next entry."""
        if entry.name == "job_start_time" or not self.started:
            self.step, self.open, self.started = None, {}, True
            self._put(entry, {"type": "run", "v": 1, "t": entry.at, **self.facts})
        if entry.name == STEP:
            self._step(entry)
        elif entry.name == "job_end_time":
            self._close_step(entry.at)
            self._put(entry, {"type": "event", "kind": "job_end", "begin": entry.at})
        elif entry.name == "event_type":
            self._checkpoint(entry)
        elif entry.name.endswith("_start_time"):
            self.open[self._kind(entry)] = entry
        elif entry.name.endswith("_end_time"):
            self._span(entry)

    def _step(self, entry: _GoodputEntry) -> None:
        self._close_step(entry.at)
        number = entry.fields.get("step_count")
        if isinstance(number, int) and number >= 0:
            self.step = entry
            self._put(entry, {"type": "event", "kind": "step_start", "begin": entry.at, "step": number})

    def _close_step(self, at: float) -> None:
        """The step under way lasts until now."""
        step, self.step = self.step, None
        if step is not None:
            line = {"type": "step", "step": step.fields["step_count"], "t": step.at, "duration_s": at - step.at}
            self._put(step, line)

    def _span(self, entry: _GoodputEntry) -> None:
        kind = self._kind(entry)
        begun = self.open.pop(kind, None)
        if begun is not None and begun.at <= entry.at:
            self._put(begun, {"type": "event", "kind": kind, "begin": begun.at, "end": entry.at})

    @staticmethod
    def _kind(entry: _GoodputEntry) -> str:
        name = entry.name.removesuffix("_start_time").removesuffix("_end_time")
        if name == CUSTOM:
            return str(entry.fields.get(f"{CUSTOM}_type") or "unknown")
        return SPANS.get(name, name)

    def _checkpoint(self, entry: _GoodputEntry) -> None:
        """A save or a restore of Orbax: its begin and its length."""
        fields, what = entry.fields, str(entry.fields["event_type"])
        seconds = _number(fields.get("checkpoint_manager_blocking_duration_secs"))
        seconds = seconds if seconds is not None else _number(fields.get("checkpoint_manager_duration_secs"))
        end = None if seconds is None else entry.at + seconds
        step = fields.get("step") if isinstance(fields.get("step"), int) else None
        if "restore" in what:
            self._put(entry, {"type": "event", "kind": "checkpoint_load", "begin": entry.at, "end": end, "step": step})
        elif step is not None:
            self._put(entry, {"type": "ckpt", "step": step, "begin": entry.at, "end": end})

    def _put(self, entry: _GoodputEntry, line: dict[str, Any]) -> None:
        self.lines.append(line | {"line": entry.line})


def read(chunks: Iterable[bytes], request: LogRequest, findings: Findings) -> Iterator[bytes]:
    """The entries as a run log; what is no entry is refused."""
    entries = sorted(_entries(chunks, findings), key=lambda entry: entry.at)
    named = next((str(entry.fields["job_name"]) for entry in entries if entry.fields.get("job_name")), None)
    job = _Job(request.run_facts(run_id=named))
    for entry in _distinct(entries, findings):
        job.take(entry)
    yield from (msgspec.json.encode(line) + b"\n" for line in job.lines)


def _distinct(entries: list[_GoodputEntry], findings: Findings) -> Iterator[_GoodputEntry]:
    """Entries without those that repeat one: a log that was exported twice."""
    now: list[dict[str, Any]] = []
    at = None
    for entry in entries:
        now = now if entry.at == at else []
        at = entry.at
        if entry.fields in now:
            findings.n_duplicates += 1
            continue
        now.append(entry.fields)
        yield entry


def _entries(chunks: Iterable[bytes], findings: Findings) -> list[_GoodputEntry]:
    """All entries with a time; the others are refused, unless they are other output."""
    entries = []
    for number, line, content in _objects(chunks, findings):
        fields = content.get("jsonPayload", content) if isinstance(content, dict) else None
        entry = _entry(fields, number) if isinstance(fields, dict) else None
        if entry is not None:
            entries.append(entry)
        elif ENTRY.search(line):
            findings.refused.append(RefusedLine(number, "goodput entry without a time", line.decode()[:RAW_LIMIT]))
    return entries


def _entry(fields: dict[str, Any], number: int) -> _GoodputEntry | None:
    names = [name for name in fields if name.endswith(("_start_time", "_end_time"))]
    at = _number(fields[names[0]]) if names else None
    if at is not None and EARLIEST_S <= at <= LATEST_S:
        name = "event_type" if "event_type" in fields else names[0]
        return _GoodputEntry(at, name, number, fields)
    return None


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _objects(chunks: Iterable[bytes], findings: Findings) -> Iterator[tuple[int, bytes, object]]:
    """Objects with the number of their line and its text: of an array (read as a whole), or one a line."""
    rest = iter(chunks)
    head = next(rest, b"")
    if head.lstrip()[:1] == b"[":
        yield from _array(head, rest)
        return
    first = 1
    for block, _ in clean_blocks(chain([head], rest), "log", _BLOCK):
        lines = block.removesuffix(b"\n").split(b"\n")
        for number, line in enumerate(lines, first):
            content = _object(line)
            if content is None and ENTRY.search(line):
                is_cut = number == first + len(lines) - 1 and not block.endswith(b"\n")
                reason = CUT if is_cut else "damaged goodput entry"
                findings.refused.append(RefusedLine(number, reason, line.decode()[:RAW_LIMIT]))
            elif content is not None:
                yield number, line, content
        first += len(lines)


def _array(head: bytes, rest: Iterator[bytes]) -> Iterator[tuple[int, bytes, object]]:
    parts = [head]
    for chunk in rest:
        parts.append(chunk)
        if sum(map(len, parts)) > _LARGEST_ARRAY:
            raise InputError("an export of more than 1 GiB as one array; export it as one object a line")
    try:
        content = json.loads(b"".join(parts))
    except (ValueError, RecursionError) as error:
        raise InputError(f"an export of Cloud Logging that is cut or damaged: {error}") from None
    for number, entry in enumerate(content if isinstance(content, list) else [content], 1):
        yield number, json.dumps(entry).encode(), entry


def _object(line: bytes) -> object:
    """The dictionary in a line, as JSON or as Python prints it; None where there is none."""
    begin, end = line.find(b"{"), line.rfind(b"}")
    if begin < 0 or end < begin:
        return None
    text = line[begin : end + 1]
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        pass
    try:
        return ast.literal_eval(text.decode(errors="replace")) if b"_time'" in text else None
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None


FORMAT: Final = LogFormat(
    "google-goodput", "Google goodput log", lambda head: bool(ENTRY.search(head[:HEAD])), read=read
)
