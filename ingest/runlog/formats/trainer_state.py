"""Hugging Face's `trainer_state.json`: the steps of a Trainer with their losses, and no times.

`log_history` has an entry every `logging_steps`: step, epoch, loss. What it records of time is how long the whole
training took (`train_runtime`, in the last entry of a process that ended by itself) and each evaluation
(`eval_runtime`). With `--begin` steps share what is left, as if one process had run them all. Where tokens are counted
(`include_num_input_tokens_seen`), every entry has the seconds since its process began to train: steps have those.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any, Final

from ingest.errors import InputError
from ingest.load_warnings import LoadWarning
from ingest.runlog.formats.untimed import Logged, placed
from ingest.runlog.translation import HEAD, Account, LogFormat, LogRequest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_LARGEST: Final = 1 << 30


def read(chunks: Iterable[bytes], request: LogRequest, account: Account) -> Iterator[bytes]:
    """The state as a run log."""
    history = _history(chunks)
    losses = [(n, entry) for n, entry in enumerate(history, 1) if "loss" in entry and _step(entry) is not None]
    if not losses:
        raise InputError("trainer_state.json without a step in its log_history")
    last = max(step for entry in history if (step := _step(entry)) is not None)
    own = _own_lengths(history, [number for number, _ in losses])
    total = _total(history) if own is None else None
    length = None if total is None or last == 0 else total / last
    rows: list[Logged] = []
    before: dict[str, Any] = {}
    for place, (number, entry) in enumerate(losses):
        step = _step(entry) or 0
        rows.append(Logged(step, own[place] if own else length, _tokens(before, entry), _number(entry["loss"]), number))
        before = entry
    if length is not None and request.begin is not None:
        account.warnings.append(LoadWarning("time_shared", last, f"{total:.0f}"))
    known = f"it records {len(losses)} losses up to step {last}"
    yield from placed(_from_first(rows), request, account, title="trainer_state.json", known=known)


def _total(history: list[dict[str, Any]]) -> float | None:
    """Seconds that all steps took together, by the entry at the end; None: unknown."""
    runtime = [_number(entry.get("train_runtime")) for entry in history if "train_runtime" in entry]
    if len(runtime) != 1 or runtime[0] is None:
        return None
    return max(runtime[0] - sum(_number(entry.get("eval_runtime")) or 0 for entry in history), 0.0)


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
    step = entry.get("step")
    return step if type(step) is int and step >= 0 else None


def _tokens(before: dict[str, Any], entry: dict[str, Any]) -> float | None:
    """Tokens of a step since the entry before, by the total that `include_num_input_tokens_seen` adds."""
    name = "num_input_tokens_seen"
    now, then = _number(entry.get(name)), _number(before.get(name, 0))
    steps = (_step(entry) or 0) - (_step(before) or 0)
    return None if now is None or then is None or steps <= 0 or now < then else (now - then) / steps


def _number(value: object) -> float | None:
    plain = isinstance(value, (int, float)) and not isinstance(value, bool)
    return float(value) if plain and math.isfinite(value) else None  # type: ignore[arg-type]  # it is a number


FORMAT: Final = LogFormat(
    "trainer-state", "Hugging Face trainer_state.json", lambda head: b'"log_history"' in head[:HEAD], read=read
)
