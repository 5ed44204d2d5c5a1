"""The lines of a run log, one by one: what each kind holds, and what is refused (`runlog.parse` describes them)."""

from __future__ import annotations

import math
import re
from datetime import datetime
from typing import Annotated, Any, Final

import msgspec

from ingest.errors import shorten
from ingest.plausible import EARLIEST_S, LATEST_S, LONGEST_NAME, RUN_LOG

VERSION: Final = 1
"""Version of the format."""

CUT: Final = "cut line (the process was killed while writing)"
"""Reason for a line that ends too early."""

UNCONFIRMED: Final = "line at the end of the log (step): its number is too far ahead, and no line behind it confirms it"
"""Reason for a last line whose step the time since the line before it does not hold."""

AT_END: Final = (CUT, UNCONFIRMED)
"""Reasons for which a last line is refused until the log has grown."""

SAVE: Final = "checkpoint_save"
"""Kind under which a `ckpt` line is stored."""

MILLISECONDS: Final = 1e11
"""A larger number counts milliseconds, or something finer."""

US: Final = 1_000_000
"""Microseconds in a second."""

_Time = float | str
_Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
_StepNumber = Annotated[int, msgspec.Meta(ge=0, le=int(RUN_LOG["step"].most))]
_Amount = Annotated[float, msgspec.Meta(ge=0)]


class Run(msgspec.Struct, tag_field="type", tag="run"):
    """The beginning of a session."""

    run_id: str | int
    t: _Time
    v: int = VERSION
    cluster: str | None = None
    scheduler: str | None = None
    job_id: str | int | None = None
    restart_count: int | None = None
    node: str | None = None
    rank: _Count | None = None
    world: int | None = None
    gpu_model: str | None = None
    n_gpus: int | None = None
    dtype: str | None = None
    params: float | None = None
    params_active: float | None = None
    layers: int | None = None
    heads: int | None = None
    head_dim: int | None = None
    seq_len: int | None = None
    flops_per_token: float | None = None
    flop_convention: str | None = None
    hidden: int | None = None
    ffn_hidden: int | None = None
    kv_heads: int | None = None
    vocab: int | None = None
    gated: bool | None = None
    tied: bool | None = None
    attention_layers: int | None = None
    experts: int | None = None
    top_k: int | None = None
    shared_experts: int | None = None
    expert_ffn_hidden: int | None = None
    expert_layers: int | None = None
    expert_params: float | None = None
    recompute: str | None = None
    recipe: str | None = None
    global_batch: float | None = None
    learning_rate: float | None = None
    time_factor: float | None = None
    tensor_parallel: int | None = None
    pipeline_parallel: int | None = None
    data_parallel: int | None = None
    context_parallel: int | None = None
    expert_parallel: int | None = None
    wandb_run_id: str | int | None = None
    pod: str | None = None
    pod_namespace: str | None = None
    pod_uid: str | None = None
    printed_tflops: float | None = None
    printed_mfu: float | None = None
    printed_steps: int | None = None


class LoggedStep(msgspec.Struct, tag_field="type", tag="step", gc=False):
    """A training step that was finished. It refers to no containers: millions of them need no garbage collection."""

    step: _StepNumber
    t: _Time
    duration_s: _Amount | None = None
    tokens: _Amount | None = None
    loss: float | None = None


class Ckpt(msgspec.Struct, tag_field="type", tag="ckpt"):
    """A checkpoint being saved."""

    step: _StepNumber
    begin: _Time
    end: _Time | None = None
    durable: bool | float | str | None = None
    blocking: bool | None = None


class TimedEvent(msgspec.Struct, tag_field="type", tag="event"):
    """Anything else that takes time."""

    kind: str
    begin: _Time
    end: _Time | None = None
    step: _StepNumber | None = None
    detail: str | None = None


class RejectedLine(msgspec.Struct, tag_field="type", tag="rejected"):
    """Content of another format's log at this place, and why it cannot be used; no program writes such a line."""

    reason: str
    raw: str = ""


Line = Run | LoggedStep | Ckpt | TimedEvent | RejectedLine

STRICT: Final = msgspec.json.Decoder(Line)
"""Reads a line that is plainly right."""

PARALLEL: Final = (
    "tensor_parallel",
    "pipeline_parallel",
    "data_parallel",
    "context_parallel",
    "expert_parallel",
)
"""Sizes of the parallel groups."""

IDS: Final = ("wandb_run_id", "pod", "pod_namespace", "pod_uid")
"""Ids of a process in other systems."""

SIZES: Final = (
    "world",
    "n_gpus",
    "params",
    "params_active",
    "layers",
    "heads",
    "head_dim",
    "seq_len",
    "flops_per_token",
    "hidden",
    "ffn_hidden",
    "kv_heads",
    "vocab",
    "attention_layers",
    "experts",
    "top_k",
    "shared_experts",
    "expert_ffn_hidden",
    "expert_layers",
    "expert_params",
    "global_batch",
    "learning_rate",
    "time_factor",
    *PARALLEL,
    "printed_tflops",
    "printed_mfu",
    "printed_steps",
)
"""Facts that are above zero where they are known, those of `MAY_BE_ZERO` at least zero."""

MAY_BE_ZERO: Final = {"attention_layers", "experts", "shared_experts"}
"""Facts that may be zero: a model may have none of these."""

RECOMPUTED: Final = ("none", "selective", "full")
"""How much of the activations is computed again in the backward pass."""

_TYPE_RUN: Final = re.compile(rb'"type"\s*:\s*"run"')


class RefusedLineError(Exception):
    """A line cannot be used; the text is the reason."""


def convert(fields: object) -> Line:
    """A decoded object as one of the four kinds; text that is a number counts as one here."""
    if not isinstance(fields, dict):
        raise RefusedLineError("not a JSON object")
    if "type" not in fields:
        fields = fields | {"type": _kind(fields)}
    if str(fields["type"]) not in {"run", "step", "ckpt", "event"}:
        raise RefusedLineError(f"type is {shorten(str(fields['type']))!r}, not one of run, step, ckpt and event")
    try:
        line: Line = msgspec.convert(fields, Line, strict=False)
    except msgspec.ValidationError as error:
        raise RefusedLineError(_spelled(error)) from None
    for name, value in msgspec.structs.asdict(line).items():
        if isinstance(value, float) and not math.isfinite(value):
            raise RefusedLineError(f"{name} is {value}, which is no number")
    return line


def _kind(fields: dict[str, Any]) -> str:
    """The kind of an object without a `type`."""
    names = fields.keys()
    if {"v", "run_id"} <= names:
        return "run"
    if {"kind", "begin"} <= names:
        return "event"
    if {"begin", "step"} <= names and "kind" not in names:
        return "ckpt"
    if {"step", "t"} <= names:
        return "step"
    raise RefusedLineError("no `type`, and its fields fit none (run, step, ckpt or event)")


def _spelled(error: msgspec.ValidationError) -> str:
    """Msgspec's complaint with the field in front.

    >>> _spelled(msgspec.ValidationError("Expected `int`, got `str` - at `$.step`"))
    'step: expected int, got str'
    """
    message, _, path = str(error).replace("`", "").partition(" - at $.")
    message = message[0].lower() + message[1:]
    return f"{path}: {message}" if path else message


def is_of_run(line: bytes) -> bool:
    """Whether a line that could not be used was meant to begin a session."""
    return bool(_TYPE_RUN.search(line)) or (b'"type"' not in line and b'"run_id"' in line)


def microseconds(name: str, value: float | str) -> int:
    """Microseconds since 1970.

    >>> microseconds("t", 1790812800.5), microseconds("t", "2026-10-01T02:00:00+02:00")
    (1790812800500000, 1790812800000000)
    """
    if isinstance(value, str):
        value = _seconds_of_text(name, value)
    if value > MILLISECONDS:
        raise RefusedLineError(f"{name} is {value:.0f}: milliseconds? Times are in seconds since 1970; divide by 1000")
    if not EARLIEST_S <= value <= LATEST_S:
        raise RefusedLineError(f"{name} is {value:g}, not a time between 2000 and 2100 (seconds since 1970)")
    return round(value * US)


def _seconds_of_text(name: str, text: str) -> float:
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise RefusedLineError(f"{name}: not a time: {shorten(text, 60)!r}") from None
    if moment.tzinfo is None:
        raise RefusedLineError(f"{name}: {text!r} has no zone; end it with Z or an offset such as +02:00")
    return moment.timestamp()


def text_or_none(value: str | int | None) -> str | None:
    """A name or an id as text; blank is none."""
    return None if value is None else str(value).strip() or None


def save_row(save: Ckpt) -> dict[str, Any]:
    """A `ckpt` line as a row of `run_events`, times in microseconds."""
    begin, end = _span(save.begin, save.end)
    durable = None
    if save.durable is True:
        if end is None:
            raise RefusedLineError("durable is true, which means from its end on, but there is no end")
        durable = end
    elif save.durable is not None and save.durable is not False:
        durable = microseconds("durable", save.durable)
        if durable < begin:
            raise RefusedLineError("durable is before begin")
    return {
        "ts": begin,
        "kind": SAVE,
        "ended_at": end,
        "step": save.step,
        "durable_at": durable,
        "blocking": save.blocking is not False,
        "detail": None,
    }


def event_row(event: TimedEvent) -> dict[str, Any]:
    """An `event` line as a row of `run_events`, times in microseconds."""
    begin, end = _span(event.begin, event.end)
    kind = event.kind.strip()
    if not kind:
        raise RefusedLineError("kind is empty")
    if len(kind) > LONGEST_NAME:
        raise RefusedLineError(f"kind is longer than {LONGEST_NAME} characters")
    if kind == SAVE:
        raise RefusedLineError(
            'a save is a line of its own type: {"type":"ckpt","step":..,"begin":..,"end":..,"durable":..}'
        )
    return {
        "ts": begin,
        "kind": kind,
        "ended_at": end,
        "step": event.step,
        "durable_at": None,
        "blocking": None,
        "detail": text_or_none(event.detail),
    }


def _span(begin: float | str, end: float | str | None) -> tuple[int, int | None]:
    first = microseconds("begin", begin)
    last = None if end is None else microseconds("end", end)
    if last is not None and last < first:
        raise RefusedLineError(f"end is {(first - last) / US:g} s before begin")
    if last is not None and last - first > RUN_LOG["event_s"].most * US:
        days = (last - first) / US / 86_400
        raise RefusedLineError(f"end is {days:,.0f} days after begin, which is impossible: {RUN_LOG['event_s'].why}")
    return first, last
