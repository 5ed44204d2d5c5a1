r"""Traces of PyTorch's profiler (Kineto, Chrome's trace format) as rank times: a line for each profiled step.

    {"schemaVersion": 1, "distributedInfo": {"backend": "nccl", "rank": 3, "world_size": 8},
     "baseTimeNanoseconds": 1767189312000000000, "traceEvents": [
       {"ph": "X", "cat": "gpu_user_annotation", "name": "ProfilerStep#12", "ts": 100.0, "dur": 900.5},
       {"ph": "X", "cat": "kernel", "name": "ampere_bf16_gemm", "ts": 110.0, "dur": 300.0}, ...]}

`ts` and `dur` are microseconds, from `baseTimeNanoseconds` on, in older versions since 1970. Kernels of collectives
have `nccl` in their names. Within a step seconds of computation are those in which any other kernel runs, and seconds
of waiting those in which only collectives do: their transfers are part of it. A step is that of the GPU where the trace
has it, else the host's. The host's name is `host_name` or begins the file's name (`HOST_PID.TIME.pt.trace.json`); a
run is the folder of its traces, as in TensorBoard.

Traces are read event by event; of a large one only kernels and steps are in memory.
"""

from __future__ import annotations

import codecs
import json
import math
import re
from array import array
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ingest.errors import InputError, TruncatedInputError
from ingest.plausible import EARLIEST_S

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]

_EVENTS: Final = re.compile(r'"traceEvents"\s*:\s*\[')
_RANK: Final = re.compile(r'"distributedInfo"\s*:\s*\{[^{}]*?"rank"\s*:\s*(\d{1,9})\b')
_BASE: Final = re.compile(r'"baseTimeNanoseconds"\s*:\s*(\d{1,20})\b')
_HOST: Final = re.compile(r'"host_name"\s*:\s*"([^"\\]{1,255})"')
_STEP: Final = re.compile(r"ProfilerStep#(\d{1,15})")
_FILE: Final = re.compile(r"(.+)_\d+\.\d+\.pt\.trace\.json(?:\.gz)?")

LONGEST: Final = 1 << 22
"""Characters before the events, behind them, or of one event."""

_STEPS: Final = {"gpu_user_annotation": 1, "user_annotation": 0}
"""Kinds of events that mark a step; the higher one is preferred."""


def is_kineto(head: bytes) -> bool:
    """Whether bytes begin such a trace.

    >>> is_kineto(b'{"schemaVersion": 1, "traceEvents": ['), is_kineto(b'{"type":"rank_steps"}')
    (True, False)
    """
    start = head.lstrip()
    return start[:1] == b"{" and (b'"traceEvents"' in start or b'"schemaVersion"' in start[:200])


@dataclass
class _KinetoTrace:
    """Kernels and steps of a trace; times are microseconds."""

    text: str = ""
    steps: dict[tuple[int, int], tuple[float, float]] = field(default_factory=dict)
    computing: array[float] = field(default_factory=lambda: array("d"))
    collectives: array[float] = field(default_factory=lambda: array("d"))

    def add(self, event: Any) -> None:  # noqa: ANN401 - whatever JSON has
        """Keep a kernel or a step."""
        if not isinstance(event, dict) or event.get("ph") != "X":
            return
        kind, name, span = event.get("cat"), event.get("name"), _span(event.get("ts"), event.get("dur"))
        if not isinstance(name, str) or not isinstance(kind, str) or span is None:
            return
        if kind == "kernel":
            (self.collectives if "nccl" in name.lower() else self.computing).extend(span)
        elif kind in _STEPS and (step := _STEP.fullmatch(name)):
            self.steps[_STEPS[kind], int(step[1])] = span


def _span(begin: object, length: object) -> tuple[float, float] | None:
    """Begin and end of an event; None where these are no times."""
    if not isinstance(begin, int | float) or not isinstance(length, int | float):
        return None
    try:
        span = float(begin), float(begin) + max(float(length), 0.0)
    except OverflowError:
        return None
    return span if all(map(math.isfinite, span)) else None


def rank_lines(chunks: Iterable[bytes], name: str) -> Iterator[bytes]:
    """The trace as lines of rank times.

    Args:
        chunks: of the trace, decompressed.
        name: of the file.

    Raises:
        InputError: it is damaged, or lacks a part that rank times need; the message names it.
        TruncatedInputError: it ends too early. Events are not in order of time, so no step of it can be trusted.
    """
    trace = _read(chunks, name)
    rank, host = _RANK.search(trace.text), _HOST.search(trace.text)
    in_name = _FILE.fullmatch(PurePath(name).name)
    if rank is None:
        raise InputError(f"{name}: the trace has no distributedInfo with a rank: it is of a single process")
    if host is None and in_name is None:
        raise InputError(f"{name}: the trace names no host: its name is none of HOST_PID.TIME.pt.trace.json")
    if not trace.computing:
        raise InputError(f"{name}: the trace has no GPU kernels besides collectives")
    best = max((kind for kind, _ in trace.steps), default=0)
    steps = {step: span for (kind, step), span in trace.steps.items() if kind == best}
    if not steps:
        raise InputError(f"{name}: the trace has no step (ProfilerStep#N): call profiler.step() in the training loop")
    base_s = _base_s(trace, steps, name)
    facts = {
        "type": "rank_steps",
        "run_id": PurePath(name).parent.name or PurePath(name).name,
        "node": host[1] if host is not None else in_name[1] if in_name is not None else "",
        "rank": int(rank[1]),
    }
    yield from _lines(trace, steps, base_s, facts)


def _lines(
    trace: _KinetoTrace, steps: dict[int, tuple[float, float]], base_s: float, facts: dict[str, object]
) -> Iterator[bytes]:
    computing = _union(trace.computing)
    busy = _union(array("d", [*trace.computing, *trace.collectives]))
    for step, (begin, end) in sorted(steps.items()):
        computed_us = _within(computing, begin, end)
        line = {
            **facts,
            "t": base_s + begin / 1e6,
            "end": base_s + end / 1e6,
            "step": step,
            "steps": 1,
            "compute_s": computed_us / 1e6,
            "wait_s": max(0.0, _within(busy, begin, end) - computed_us) / 1e6,
        }
        yield json.dumps(line).encode() + b"\n"


def _base_s(trace: _KinetoTrace, steps: dict[int, tuple[float, float]], name: str) -> float:
    """Seconds since 1970 that times of the trace count from.

    Raises:
        InputError: unknown.
    """
    base = _BASE.search(trace.text)
    base_s = int(base[1]) / 1e9 if base is not None else 0.0
    if base_s + min(begin for begin, _ in steps.values()) / 1e6 < EARLIEST_S:
        raise InputError(f"{name}: the trace has no time of day (baseTimeNanoseconds)")
    return base_s


def _union(ends: array[float]) -> Floats:
    """Intervals that do not overlap, in order, of shape (intervals, 2); ends come in pairs."""
    spans = np.frombuffer(ends, dtype=np.float64).reshape(-1, 2) if ends else np.empty((0, 2))
    spans = spans[np.argsort(spans[:, 0], kind="stable")]
    if not len(spans):
        return spans
    reach = np.maximum.accumulate(spans[:, 1])
    first = np.flatnonzero(np.r_[True, spans[1:, 0] > reach[:-1]])
    return np.column_stack([spans[first, 0], reach[np.r_[first[1:] - 1, len(spans) - 1]]])


def _within(spans: Floats, begin: float, end: float) -> float:
    """The length of the intervals between two times."""
    return float(np.clip(np.minimum(spans[:, 1], end) - np.maximum(spans[:, 0], begin), 0, None).sum())


def _read(chunks: Iterable[bytes], name: str) -> _KinetoTrace:
    trace, decoder = _KinetoTrace(), codecs.getincrementaldecoder("utf-8")("replace")
    texts = (decoder.decode(chunk) for chunk in chunks)
    before = _before_events(texts, name)
    trace.text, rest = before[0], _events(before[1], texts, trace, name)
    for text in texts:
        rest += text
        if len(rest) > LONGEST:
            raise InputError(f"{name}: more than {LONGEST:,} characters behind the events of the trace")
    if not rest.rstrip().endswith("}"):
        raise TruncatedInputError(f"{name}: the trace ends too early; was the process killed while it wrote it?")
    trace.text += rest
    return trace


def _before_events(texts: Iterator[str], name: str) -> tuple[str, str]:
    """The text before the list of events, and what has been read of the list."""
    text = ""
    for more in texts:
        text += more
        if (events := _EVENTS.search(text)) is not None:
            return text[: events.start()], text[events.end() :]
        if len(text) > LONGEST:
            break
    raise InputError(f"{name}: the trace has no list of events (traceEvents)")


def _events(text: str, texts: Iterator[str], trace: _KinetoTrace, name: str) -> str:
    """Pass each event to the trace; returns the text behind the list that has been read."""
    decode, at = json.JSONDecoder().raw_decode, 0
    while True:
        while at < len(text) and text[at] in " \t\r\n,":
            at += 1
        if text[at : at + 1] == "]":
            return text[at + 1 :]
        try:
            event, at = decode(text, at)
            trace.add(event)
        except (ValueError, RecursionError):
            text, at = text[at:], 0
            if len(text) > LONGEST:
                raise InputError(f"{name}: an event of the trace is no JSON, or longer than {LONGEST:,}") from None
            more = next(texts, None)
            if more is None:
                raise TruncatedInputError(
                    f"{name}: the trace ends within its events; was the process killed?"
                ) from None
            text += more
