"""Logs that have steps and no times: where `--begin` says when they begin, and lengths are known, steps are placed."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from ingest.errors import UntimedError
from ingest.load_warnings import LoadWarning

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ingest.runlog.translation import Account, LogRequest

MOST_STEPS = 10_000
"""Steps that a row may stand for; if there are more, its number is not one of steps."""


class Logged(NamedTuple):
    """A row of a log: the number of the step, seconds and tokens of each step since the row before, and the loss."""

    step: int
    length: float | None
    tokens: float | None
    loss: float | None
    line: int


def placed(rows: Sequence[Logged], request: LogRequest, account: Account, *, title: str, known: str) -> Iterator[bytes]:
    """The run log of rows without times: one behind the other from `--begin` on.

    Args:
        rows: in the order of their steps.
        request: when the log begins.
        account: gets the warnings.
        title: what the log is, for messages.
        known: what the log records, for the message that it has no times.

    Raises:
        UntimedError: it is unknown when the log begins, how long its steps took, or which of several logs begins then.
    """
    title = f"{request.file}: {title}" if request.file else title
    if request.begin is None or any(row.length is None for row in rows):
        lacking = "when it begins" if request.begin is None else "how long its steps took"
        raise UntimedError(
            f"{title} has no times: {known}. It is unknown {lacking}, so its steps cannot be placed.\n"
            "If it records how long steps took, state when it begins: --begin 2026-10-01T08:00:00Z; "
            "the stdout of the same run, or its W&B or TensorBoard log, has times"
        )
    if request.several:
        raise UntimedError(begin_of_several(title))
    cursor = request.begin.timestamp()
    yield _line({"type": "run", "v": 1, "t": cursor, **request.run_facts()})
    before, total = None, 0
    for row in rows:
        ahead = 1 if before is None else row.step - before
        n = ahead if 1 <= ahead <= MOST_STEPS else 1
        length = row.length or 0.0
        for number in range(row.step - n + 1, row.step + 1):
            step = {"type": "step", "step": number, "t": cursor, "duration_s": length, "tokens": row.tokens}
            yield _line(step | {"loss": row.loss if number == row.step else None, "line": row.line})
            cursor += length
        before, total = row.step, total + n
    account.warnings.append(LoadWarning("times_reckoned", total))


def begin_of_several(title: str) -> str:
    """The message for a log without times among others, with which `--begin` was stated."""
    return (
        f"{title} has no times, and --begin says when one log begins: several would lie over each other.\n"
        "Load it by itself, with the time when it begins"
    )


def _line(fields: dict[str, object]) -> bytes:
    return msgspec.json.encode({name: value for name, value in fields.items() if value is not None}) + b"\n"
