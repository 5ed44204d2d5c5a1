"""Logs that have steps and no times: steps are placed if `--begin` states when they begin and their lengths are known.

Without `--begin` they are refused. The message then shows when the file was last written, and the begin that follows
from that. It is never used: a file that was copied, or written to after its last step, has a later time.
"""

from __future__ import annotations

import shlex
from datetime import timedelta
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from ingest.errors import UntimedError
from ingest.iso_time import iso
from ingest.load_warnings import LoadWarning
from ingest.runlog.translation import RefusedLine

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ingest.runlog.translation import Findings, LogRequest

MOST_STEPS: Final = 1_000_000
"""Steps that a row may stand for (one of an epoch: all of its); if there are more, its number is not one of steps."""

MOST_FILLED: Final = 10_000_000
"""Steps that all rows of a log may stand for."""

LONGEST_S: Final = 10 * 366 * 86_400.0
"""A log that took longer is not one run's: no begin is guessed."""


class Logged(NamedTuple):
    """A row of a log: the number of the step, seconds and tokens of each step since the row before, and the loss."""

    step: int
    length: float | None
    tokens: float | None
    loss: float | None
    line: int


def place_rows(
    rows: Sequence[Logged], request: LogRequest, findings: Findings, *, title: str, known: str
) -> Iterator[bytes]:
    """The run log of rows without times: one behind the other from `--begin` on.

    Args:
        rows: in the order of their steps.
        request: when the log begins.
        findings: gets the warnings.
        title: what the log is, for messages.
        known: what the log records, for the message that it has no times.

    Raises:
        UntimedError: it is unknown when the log begins, how long its steps took, or which of several logs begins then.
    """
    title = f"{request.file}: {title}" if request.file else title
    if request.begin is None or any(row.length is None for row in rows):
        lacking = "when it begins" if request.begin is None else "how long its steps took"
        advice = "If it records how long steps took, state when it begins: --begin 2026-10-01T08:00:00Z; the"
        raise UntimedError(
            f"{title} has no times: {known}. It is unknown {lacking}, so its steps cannot be placed.\n"
            f"{advice if request.begin is None else 'The'} stdout of the same run, or its W&B or TensorBoard log, has "
            f"times{guessed_begin(request, _took(rows))}"
        )
    if request.several:
        raise UntimedError(begin_of_several(title))
    rows = _without_garbled(rows, findings)
    cursor = request.begin.timestamp()
    yield _line({"type": "run", "v": 1, "t": cursor, **request.run_facts()})
    total = 0
    n_far = 0
    for row, n in _with_steps(rows):
        length = row.length or 0.0
        n_far += n is None
        n = 1 if n is None else n  # noqa: PLW2901 - it counts as one
        for number in range(row.step - n + 1, row.step + 1):
            step = {"type": "step", "step": number, "t": cursor, "duration_s": length, "tokens": row.tokens}
            yield _line(step | {"loss": row.loss if number == row.step else None, "line": row.line})
            cursor += length
        total += n
    findings.warnings.append(LoadWarning("times_reckoned", total))
    if n_far:
        findings.warnings.append(LoadWarning("steps_far_apart", n_far))


def _without_garbled(rows: Sequence[Logged], findings: Findings) -> list[Logged]:
    """Rows without those whose number is too high for the two rows before and the two behind (299, 30000, 301).

    A lower one may be a restart. Without it the others go on evenly, with room for just one row.
    """
    kept = []
    for at, row in enumerate(rows):
        around = [each.step for each in rows[max(at - _REACH, 0) : at + _REACH + 1]]
        if at >= _REACH and len(around) == 2 * _REACH + 1 and _is_too_high(*around):
            raw = f"step {row.step} between {around[1]} and {around[3]}"
            findings.refused.append(RefusedLine(row.line, "damaged row: the rows around it contradict its number", raw))
        else:
            kept.append(row)
    return kept


_REACH: Final = 2
"""Rows on both sides with which a number is compared."""


def _is_too_high(first: int, before: int, step: int, behind: int, last: int) -> bool:
    """Whether a number is above those around it, between which there is room for one.

    >>> _is_too_high(298, 299, 30000, 301, 302), _is_too_high(298, 299, 300, 301, 302), _is_too_high(1, 2, 9, 3, 4)
    (True, False, False)
    """
    intervals = {each for each in (before - first, last - behind) if each > 0}
    return step > behind and any(behind - before == 2 * each for each in intervals)


def _with_steps(rows: Iterable[Logged]) -> Iterator[tuple[Logged, int | None]]:
    """Each row with how many steps it stands for: one where the number goes back; None where it is too far ahead."""
    before, total = None, 0
    for row in rows:
        ahead = 1 if before is None else max(row.step - before, 1)
        total += ahead if ahead <= MOST_STEPS else 1
        yield row, ahead if ahead <= MOST_STEPS and total <= MOST_FILLED else None
        before = row.step


def _took(rows: Sequence[Logged]) -> float | None:
    """Seconds that all steps took together; None where one's are unknown."""
    spans = [None if row.length is None else row.length * (n or 1) for row, n in _with_steps(rows)]
    return None if None in spans else sum(span for span in spans if span is not None)


def guessed_begin(request: LogRequest, took_s: float | None) -> str:
    """The begin of a log without times that follows from the file's own time, as lines of a message; "" if unknown.

    Args:
        request: of that log; "" if it states the begin.
        took_s: seconds from the begin of the log to the end of its last step; None: unknown.
    """
    if request.written_at is None or request.begin is not None:
        return ""
    written = f"\nThe file was last written at {iso(request.written_at)}"
    if took_s is None or not 0 < took_s <= LONGEST_S:
        return f"{written}, or copied then: the log begins before that"
    begin = iso(request.written_at - timedelta(seconds=took_s))
    options = [part for name, value in request.facts.items() for part in ("--set", f"{name}={_text(value)}")]
    command = shlex.join(["trackside", "ingest", "runlog", request.file, "--begin", begin, *options])
    return (
        f"{written}, and what it records took {took_s:,.0f} s. If its last step ended then, it began at {begin}.\n"
        "That is a guess: a copy has a later time, and pauses between steps are not in it. Check it before you run\n"
        f"  {command}"
    )


def _text(value: object) -> str:
    """A fact as `--set` takes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def begin_of_several(title: str) -> str:
    """The message for a log without times among others, with which `--begin` was stated."""
    return (
        f"{title} has no times, and --begin is the begin of one log: several would overlap.\n"
        "Load it by itself, with the time when it begins"
    )


def _line(fields: dict[str, object]) -> bytes:
    return msgspec.json.encode({name: value for name, value in fields.items() if value is not None}) + b"\n"
