"""Hugging Face's `trainer_state.json`: the steps of a Trainer with their losses, and no times.

`log_history` has an entry every `logging_steps`: step, epoch, loss. What it records of time is how long the whole
training took (`train_runtime`, in the last entry of a process that ended by itself) and each evaluation
(`eval_runtime`). With `--begin` the steps up to such an entry share what is left, as if one process had run them. Where
tokens are counted (`include_num_input_tokens_seen`), every entry has the seconds since its process began to train:
steps have those.
"""

from __future__ import annotations

import itertools
import json
import math
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ingest.errors import InputError
from ingest.load_warnings import LoadWarning
from ingest.runlog.formats.untimed import Logged, place_rows
from ingest.runlog.translation import HEAD, Findings, LogFormat, LogRequest, RefusedLine
from ingest.tables import RAW_LIMIT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_LARGEST: Final = 1 << 30


def read(chunks: Iterable[bytes], request: LogRequest, findings: Findings) -> Iterator[bytes]:
    """The state as a run log."""
    history = _history(chunks)
    losses = [(n, entry) for n, entry in enumerate(history, 1) if "loss" in entry and _step(entry) is not None]
    if not losses:
        raise InputError("trainer_state.json without a step in its log_history")
    findings.refused += [
        RefusedLine(n, "entry of a loss without the number of its step", json.dumps(entry)[:RAW_LIMIT])
        for n, entry in enumerate(history, 1)
        if "loss" in entry and _step(entry) is None
    ]
    last = max(step for entry in history if (step := _step(entry)) is not None)
    back = next(
        (pair for pair in itertools.pairwise(_step(entry) or 0 for _, entry in losses) if pair[1] < pair[0]), None
    )
    own = None if back else _own_lengths(history, [number for number, _ in losses])
    shares = [] if back or own else _shares(history)
    rows: list[Logged] = []
    before: dict[str, Any] = {}
    for place, (number, entry) in enumerate(losses):
        step = _step(entry) or 0
        length = own[place] if own else _length(shares, step)
        rows.append(Logged(step, length, _tokens(before, entry), _number(entry["loss"]), number))
        before = entry
    rows = _with_ends(_from_first(rows), shares)
    if shares and request.begin is not None:
        findings.warnings.append(LoadWarning("time_shared", rows[-1].step, f"{sum(one.seconds for one in shares):.0f}"))
    known = f"it records {len(losses)} losses up to step {last}"
    if back:
        known += f", and goes back from step {back[0]} to {back[1]}, so it has entries of several processes"
    yield from place_rows(rows, request, findings, title="trainer_state.json", known=known)


class _Share(NamedTuple):
    """Steps that share the time of a process: those behind the step `since` up to `until`; the line of its end."""

    since: int
    until: int
    seconds: float
    line: int


def _shares(history: list[dict[str, Any]]) -> list[_Share]:
    """The time of each process that ended by itself, less that of its evaluations."""
    shares: list[_Share] = []
    since, evaluated = 0, 0.0
    for number, entry in enumerate(history, 1):
        evaluated += _number(entry.get("eval_runtime")) or 0
        runtime, step = _number(entry.get("train_runtime")), _step(entry)
        if runtime is not None and step is not None and step > since:
            shares.append(_Share(since, step, max(runtime - evaluated, 0.0), number))
            since, evaluated = step, 0.0
    return shares


def _length(shares: list[_Share], step: int) -> float | None:
    """Seconds of a step; None where the process that ran it did not end by itself."""
    own = next((one for one in shares if one.since < step <= one.until), None)
    return None if own is None else own.seconds / (own.until - own.since)


def _with_ends(rows: list[Logged], shares: list[_Share]) -> list[Logged]:
    """The rows, and one at each end of a process behind whose last loss it ran further steps."""
    logged = {row.step for row in rows}
    ends = (Logged(one.until, _length(shares, one.until), None, None, one.line) for one in shares)
    return sorted([*rows, *(end for end in ends if end.step not in logged)], key=attrgetter("step")) if shares else rows


def _own_lengths(history: list[dict[str, Any]], losses: list[int]) -> list[float] | None:
    """Seconds of each step since the entry of a loss before; None where an entry lacks its own time.

    The seconds of a process begin at zero, so those of one that goes on from a checkpoint are fewer than those before.
    """
    lengths: list[float] = []
    since, before, previous = 0.0, 0, 0
    for number in losses:
        entry = history[number - 1]
        runtime, step = _number(entry.get("train_runtime")), _step(entry) or 0
        if runtime is None:
            return None
        since = since if since <= runtime else 0.0
        held = sum(_number(each.get("eval_runtime")) or 0 for each in history[before : number - 1])
        lengths.append(max(runtime - since - held, 0.0) / max(step - previous, 1))
        since, before, previous = runtime, number, step
    return lengths


def _from_first(rows: list[Logged]) -> list[Logged]:
    """The rows behind one of step 1, so that the first entry stands for all steps up to it."""
    return [rows[0]._replace(step=1, loss=None), *rows] if rows[0].step > 1 else rows


def _history(chunks: Iterable[bytes]) -> list[dict[str, Any]]:
    data = b"".join(chunks)
    if len(data) > _LARGEST:
        raise InputError("trainer_state.json of more than 1 GiB")
    try:
        content = json.loads(data)
        history = content["log_history"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(f"trainer_state.json that is cut or damaged: {error}") from None
    return [entry for entry in history if isinstance(entry, dict)] if isinstance(history, list) else []


def _step(entry: dict[str, Any]) -> int | None:
    step = _number(entry.get("step"))
    return int(step) if step is not None and step >= 0 and step == int(step) else None


def _tokens(before: dict[str, Any], entry: dict[str, Any]) -> float | None:
    """Tokens of a step since the entry before, by the total that `include_num_input_tokens_seen` adds."""
    name = "num_input_tokens_seen"
    now, then = _number(entry.get(name)), _number(before.get(name, 0))
    steps = (_step(entry) or 0) - (_step(before) or 0)
    return None if now is None or then is None or steps <= 0 or now < then else (now - then) / steps


def _number(value: object) -> float | None:
    """A finite number, which may be written as text; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


FORMAT: Final = LogFormat(
    "trainer-state", "Hugging Face trainer_state.json", lambda head: b'"log_history"' in head[:HEAD], read=read
)
