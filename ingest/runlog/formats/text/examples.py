"""Examples of a text format: the values of its lines are compared with those of the example."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from ingest.errors import shorten
from ingest.runlog.formats.text.scan import scan_lines
from ingest.runlog.formats.text.timeline import facts_in
from ingest.runlog.formats.text.times import EPOCH

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ingest.runlog.formats.text.scan import FormatScan
    from ingest.runlog.text_format import Example, TextFormat

_DIGITS: Final = 1e-9
"""Numbers that differ by less than this part of them are the same: 2000 ms are 2.0 s."""


class ExampleError(ValueError):
    """A text is not read as one line of its format; the message says why."""


def given(form: TextFormat, text: str) -> dict[str, Any]:
    """The values of a line under the keys of an example: fields, facts, its `kind` and `event`.

    Raises:
        ExampleError: no line kind reads it, it is damaged, or it is more than one line that is read.
    """
    scanned = scan_lines(form, text + "\n")
    if scanned.refused:
        raise ExampleError(scanned.refused[0].reason)
    records = scanned.records()
    if records.height != 1:
        raise ExampleError(_why_not_one_line(scanned, records.height))
    record = records.row(0, named=True)
    kind = form.lines[record.pop("kind")]
    values = {name: value for name, value in record.items() if value is not None}
    if "duration_ms" in values:
        values.setdefault("duration_s", round(values["duration_ms"] / 1000, 9))
    if "naive" in values:
        stamp = EPOCH + timedelta(microseconds=values["naive"])
        values |= {"date": f"{stamp:%Y-%m-%d}", "time": f"{stamp:%H:%M:%S}"}
    facts = facts_in(kind, record["text"]) if kind.kind == "facts" else {}
    return values | facts | {"kind": kind.kind} | ({"event": kind.event} if kind.event else {})


def _why_not_one_line(scanned: FormatScan, count: int) -> str:
    """Why a text that is to be one line of a format is none."""
    if count:
        return f"{count} lines of it are read; an example has one"
    kinds = ", ".join(f"{number} ({one.kind})" for number, one in enumerate(scanned.form.lines, 1))
    return f"no line reads it: `starts` of none of the lines {kinds} matches"


def mistakes(form: TextFormat) -> Iterator[str]:
    """Each example of a format that has another result: its number, the expected result, and the actual one."""
    for number, example in enumerate(form.examples, 1):
        for wrong in _mistakes(form, example):
            yield f"example {number}: {wrong}"


def _mistakes(form: TextFormat, example: Example) -> Iterator[str]:
    if form.words and not any(word in example.text for word in form.words):
        words = ", ".join(form.words)
        yield f"none of the words ({words}) is in it, so it would be passed over: {_shown(example.text)}"
        return
    try:
        came = given(form, example.text)
    except ExampleError as error:
        expected = _fields(example.gives) or "a line that is read"
        yield f"expected {expected}, but {error}: {_shown(example.text)}"
        return
    differing = {name: value for name, value in example.gives.items() if not _is_same(value, came.get(name))}
    if differing:
        got = _fields({name: came.get(name) for name in differing})
        yield f"expected {_fields(differing)}, but {got} came of it: {_shown(example.text)}"


def _is_same(expected: object, came: object) -> bool:
    """Whether two values are the same; a fact is text, and may be a number."""
    try:
        numbers = float(expected), float(came)  # type: ignore[arg-type]  # what is no number raises
    except (TypeError, ValueError):
        return expected == came
    return math.isclose(*numbers, rel_tol=_DIGITS) or (math.isnan(numbers[0]) and math.isnan(numbers[1]))


def _fields(values: Mapping[str, Any]) -> str:
    """Values as an example writes them.

    >>> _fields({"step": 7.0, "event": "eval", "loss": None})
    "step = 7, event = 'eval', no loss"
    """
    return ", ".join(f"no {name}" if value is None else f"{name} = {_value(value)}" for name, value in values.items())


def _value(value: object) -> str:
    return f"{value:.10g}" if isinstance(value, float) else shorten(repr(value))


def _shown(text: str) -> str:
    return repr(shorten(text, 100))
