"""Logs of MLPerf Training: lines `:::MLLOG {json}` between other output (github.com/mlcommons/logging).

What is read: `tracked_stats` with a `train_step_time` and a `reduced_train_loss` are steps, stamped when they end;
means over a block of steps carry a `train_step_time` as well and are none. The number of a step follows from the
samples so far: `samples_count`, or, where there is none, `step`. In logs of v4 and v5 these are the samples at the end
of the step, in those of v6.0 the ones before it: the first entry has 0, and the one behind an evaluation the number of
the block before it. An entry whose step is there already (another rank's, or a line that is written twice) repeats it:
no step is executed again without a new start. Where only every n-th step is logged, an entry stands for those since the
one before, and the end of a block for those that follow. Where no step is logged, those of a block (`block_start` to
`block_stop`) share its time, if both edges record their number. `init_start` to `init_stop` is the event `init`,
`eval_start` to `eval_stop` `eval`; `run_start` and `run_stop` are events without a length, between which lies the
official time. `global_batch_size` x `max_sequence_length` are the tokens of a step. The model follows from the
benchmark's name, as the rules of MLPerf fix it, the GPUs' model from the platform where it names one; what no line
records (the number of GPUs, the data type) is left to the caller. Losses and throughputs without the time of a step
(`train_loss`, as other benchmarks log them) give no steps and are counted for a warning.

A second `cache_clear` or `init_start` after training has begun is a restart: a new session. Behind a `run_stop` of
status `success` it is another trial of the benchmark, which begins at its first step: another run, whose id ends in -2.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter, deque
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from ingest.load_warnings import LoadWarning
from ingest.plausible import RUN_LOG
from ingest.runlog.envelopes.escapes import without_escapes
from ingest.runlog.lines import CUT, RefusedLineError, microseconds
from ingest.runlog.series import MOST_BETWEEN
from ingest.runlog.translation import HEAD, Fields, Findings, LogFormat, LogRequest, RefusedLine, Translation
from ingest.tables import RAW_LIMIT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

MARK: Final = b":::MLLOG "

MODELS: Final[Mapping[str, Mapping[str, Any]]] = {
    "llama31_405b": {
        "params": 405_849_533_440,
        "layers": 126,
        "heads": 128,
        "head_dim": 128,
        "hidden": 16_384,
        "ffn_hidden": 53_248,
        "kv_heads": 8,
        "vocab": 128_256,
        "gated": True,
        "tied": False,
    },
    "llama31_8b": {
        "params": 8_030_261_248,
        "layers": 32,
        "heads": 32,
        "head_dim": 128,
        "hidden": 4_096,
        "ffn_hidden": 14_336,
        "kv_heads": 8,
        "vocab": 128_256,
        "gated": True,
        "tied": False,
    },
    "llama2_70b_lora": {},
}
"""Sizes of a benchmark's model, as the rules of MLPerf Training fix it (Llama 3.1: arXiv 2407.21783, table 3).

The parameters are those of all its matrices and norms; the length of a sequence comes from the log.

A benchmark without sizes is known, and its MFU is not: a LoRA trains few of its parameters."""

RUN_START: Final = "mlperf_run_start"
RUN_STOP: Final = "mlperf_run_stop"
"""Kinds of the events at which the official time begins and ends; the detail of the latter is the run's status."""

_SEVERAL: Final = range(1, MOST_BETWEEN + 1)
"""Steps that an entry may stand for."""

MOST_FILLED: Final = 1_000_000
"""Steps of a log that entries may stand for which are not logged themselves: no run of MLPerf has as many."""

_ROUGHLY: Final = 1.1
"""Factor by which steps may seem longer than the time available: theirs is a mean, or the time of one of them."""

_BEGINNINGS: Final = {"cache_clear", "init_start"}
"""Keys that a program logs when it starts."""

_TRAIN_LOSS: Final = "train_loss"
_LOSSES: Final = {_TRAIN_LOSS, "reduced_train_loss"}
_SPEEDS: Final = {"throughput", "train_step_time"}
"""Values of training entries that are no steps: benchmarks log these every so many steps."""

_GPU: Final = re.compile(
    r"(?i)(?<![a-z0-9])(?:[abhv]100|[bh][23]00|[ah]800|g[bh][23]00|[ahl]\d0s?|[lt]4|rtx|mi\d{3}[ax]?|gaudi\d?|tpu)"
    "(?![a-z0-9])"
)
"""Names of GPUs, and of what other submitters use instead; a platform may also have the name of its chassis,
or be a placeholder."""

_KEY: Final = re.compile(r"(init|eval|run|block)_(start|stop)")


class _MlperfEntry(msgspec.Struct):
    """The JSON of a line."""

    time_ms: float
    key: str
    value: Any = None
    metadata: dict[str, Any] = {}


class _Origin(NamedTuple):
    """An entry with the place that it takes and the number of its own line."""

    place: int
    number: int
    entry: _MlperfEntry

    def refused(self, reason: str) -> RefusedLine:
        """Its line as one that cannot be used."""
        text = MARK + msgspec.json.encode(self.entry)
        return RefusedLine(self.number, reason, text.decode(errors="replace")[:RAW_LIMIT])


class _TrainingBlock(NamedTuple):
    """A stretch of training between two evaluations: its end, its times and its steps."""

    end: _Origin
    begin_ms: float
    end_ms: float
    steps: range


@dataclass
class _MlperfSession:
    """From one start of the program to the next."""

    at: int
    began_ms: float
    facts: Fields = field(default_factory=dict)
    open: dict[str, float] = field(default_factory=dict)
    trains: bool = False
    steps: int = 0
    last: int | None = None
    length: float = 0.0
    counts_before: bool = False
    trial: int = 1
    succeeded_ms: float | None = None
    ended_ms: float | None = None
    block: _MlperfEntry | None = None
    blocks: list[_TrainingBlock] = field(default_factory=list)
    uncounted: int = 0
    losses: dict[int | None, float | None] = field(default_factory=dict)

    @property
    def batch(self) -> float | None:
        """Samples of a step."""
        return _number(self.facts.get("global_batch_size"))

    def step_at(self, entry: _MlperfEntry) -> int | None:
        """The number of the step that an entry is of, from the samples so far."""
        samples = _samples(entry)
        if self.batch is None or not (samples or self.counts_before):
            return None
        return round((samples or 0) / self.batch) + self.counts_before

    def was_logged(self, step: int | None) -> bool:
        """Whether a step was logged before: another rank's entry repeats it, or one that is written twice."""
        return step is not None and self.last is not None and step <= self.last

    def check_ahead(self, step: int | None) -> None:
        """Refuse a step that is too far ahead: the ones behind it would look like repeated ones.

        Raises:
            ValueError: it is.
        """
        most = int(RUN_LOG["step"].most) if self.last is None else self.last + MOST_BETWEEN
        if step is not None and step > most:
            raise ValueError(f"step {step:,}" if self.last is None else f"step {step:,} behind step {self.last:,}")

    def count(self, step: int, end_ms: float, length: float) -> int:
        """How many steps an entry stands for: those since the one before; of the first, all where they fit."""
        if self.last is not None:
            return step - self.last if step - self.last in _SEVERAL else 1
        fits = self.ended_ms is not None and step * length * 1000 <= (end_ms - self.ended_ms) * _ROUGHLY
        return step if step in _SEVERAL and fits else 1

    def tokens(self) -> float | None:
        """Tokens of a step."""
        length = _number(self.facts.get("max_sequence_length"))
        return None if self.batch is None or length is None else self.batch * length


def read(chunks: Iterable[bytes], request: LogRequest, findings: Findings) -> Iterator[bytes]:
    """An MLPerf log, as it comes, as a run log; of its other output nothing is kept."""
    yield from _translated(chunks, request.run_facts(), findings, prevails=request.facts_prevail).chunks()


def _translated(
    chunks: Iterable[bytes], facts: Mapping[str, Any], findings: Findings, *, prevails: bool
) -> Translation:
    log = _MlperfLog(Translation())
    for origin in _in_time(_without_wrong_clocks(_entries(chunks, findings), findings)):
        try:
            log.take(origin)
        except (ValueError, OverflowError) as error:
            findings.refused.append(origin.refused(f"a number that cannot be used: {error}"))
    log.close(facts, prevails=prevails)
    findings.refused += log.refused
    findings.n_duplicates += log.repeated
    if log.averaged:
        findings.warnings.append(LoadWarning("steps_averaged", log.averaged))
    if log.not_taken:
        findings.warnings.append(LoadWarning("stated_not_taken", None, ", ".join(sorted(log.not_taken))))
    untimed = log.untimed()
    if untimed:
        findings.warnings.append(LoadWarning("step_times_unknown", untimed.total(), ", ".join(sorted(untimed))))
    return log.out


def _entries(chunks: Iterable[bytes], findings: Findings) -> Iterator[tuple[int, _MlperfEntry]]:
    """The entries of a log with the numbers of their lines; the findings get the lines that cannot be read."""
    for number, line in _marked(chunks):
        try:
            entry = _entry(line[line.find(MARK) + len(MARK) :])
            microseconds("time_ms / 1000", entry.time_ms / 1000)
        except RefusedLineError as error:
            findings.refused.append(RefusedLine(number, str(error), line.decode(errors="replace")[:RAW_LIMIT]))
        except (msgspec.DecodeError, ValueError, OverflowError, RecursionError) as error:
            reason = CUT if "truncated" in str(error) else f"not JSON: {error}"
            findings.refused.append(RefusedLine(number, reason, line.decode(errors="replace")[:RAW_LIMIT]))
        else:
            yield number, entry


FAR_MS: Final = 86_400_000
NEAR_MS: Final = 3_600_000
"""An entry a day from those beside it, which lie within an hour, has a wrong clock: logs grow in the order of time."""


def _without_wrong_clocks(
    entries: Iterable[tuple[int, _MlperfEntry]], findings: Findings
) -> Iterator[tuple[int, _MlperfEntry]]:
    """Entries without those of a wrong clock: each is compared with the last one that counts and the next one.

    The first and the last stay: a process may log one line and start again days later.
    """
    before: _MlperfEntry | None = None
    waiting: tuple[int, _MlperfEntry] | None = None
    for number, entry in entries:
        if waiting is not None:
            if before is not None and _is_far(waiting[1], before, entry):
                findings.refused.append(_Origin(0, *waiting).refused(_WRONG_CLOCK))
            else:
                before = waiting[1]
                yield waiting
        waiting = number, entry
    if waiting is not None:
        yield waiting


def _is_far(entry: _MlperfEntry, before: _MlperfEntry, behind: _MlperfEntry) -> bool:
    """Whether an entry lies far from two others that lie near each other."""
    others = before.time_ms, behind.time_ms
    return abs(others[0] - others[1]) <= NEAR_MS and all(abs(entry.time_ms - one) > FAR_MS for one in others)


_WRONG_CLOCK: Final = (
    "its time is more than a day from those of the lines before and behind it, which are within an hour"
)

OUT_OF_ORDER: Final = 100_000
"""Entries among which the order is that of their times: ranks and collectors mix lines."""


def _in_time(entries: Iterable[tuple[int, _MlperfEntry]]) -> Iterator[_Origin]:
    """Entries in the order of their times, which every one has; those of one time in that of the log.

    The place that each takes is the number of a line: the first entry takes that of the first line.
    """
    waiting: list[tuple[float, int, _MlperfEntry]] = []
    numbers: deque[int] = deque()
    for number, entry in entries:
        heappush(waiting, (entry.time_ms, number, entry))
        numbers.append(number)
        if len(waiting) > OUT_OF_ORDER:
            yield _Origin(numbers.popleft(), *heappop(waiting)[1:])
    while waiting:
        yield _Origin(numbers.popleft(), *heappop(waiting)[1:])


def _marked(chunks: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    """Lines with a mark and their numbers."""
    rest, number = b"", 1
    for chunk in chunks:
        data = rest + chunk
        whole = data.rfind(b"\n") + 1
        yield from _marked_lines(data[:whole], number)
        number += data.count(b"\n", 0, whole)
        rest = data[whole:]
    yield from _marked_lines(rest, number)


def _marked_lines(data: bytes, first: int) -> Iterator[tuple[int, bytes]]:
    begin, at = 0, data.find(MARK)
    while at >= 0:
        first += data.count(b"\n", begin, at)
        begin, end = data.rfind(b"\n", 0, at) + 1, data.find(b"\n", at)
        end = len(data) if end < 0 else end
        line = data[begin:end]
        yield first, without_escapes(line)
        begin, at = end, data.find(MARK, end)


def has_entry(data: bytes) -> bool:
    """Whether a line of a log can be read."""
    for _, line in _marked_lines(data, 1):
        try:
            _entry(line[line.find(MARK) + len(MARK) :])
        except (msgspec.DecodeError, ValueError, OverflowError, RecursionError):
            continue
        return True
    return False


def _entry(text: bytes) -> _MlperfEntry:
    """The entry of a line. Python's json module writes a loss of NaN, which is not JSON."""
    try:
        return msgspec.json.decode(text, type=_MlperfEntry)
    except msgspec.DecodeError:
        if b"NaN" not in text and b"Infinity" not in text:
            raise
        return msgspec.convert(json.loads(text), _MlperfEntry)


@dataclass
class _MlperfLog:
    """An MLPerf log while it is read. Line 0 is one before the first of the log."""

    out: Translation
    sessions: list[_MlperfSession] = field(default_factory=list)
    averaged: int = 0
    repeated: int = 0
    not_taken: set[str] = field(default_factory=set)
    refused: list[RefusedLine] = field(default_factory=list)
    _losses: Counter[str] = field(default_factory=Counter)
    _speeds: Counter[str] = field(default_factory=Counter)

    def take(self, origin: _Origin) -> None:
        """Read one entry."""
        at, entry = origin.place, origin.entry
        if not self.sessions or (entry.key in _BEGINNINGS and self.sessions[-1].trains):
            self._begin(at - 1 if self._is_written(entry) else at, entry)
        session = self.sessions[-1]
        if not session.trains:  # ranks report in any order
            session.began_ms = min(session.began_ms, entry.time_ms)
        if match := _KEY.fullmatch(entry.key):
            self._interval(origin, session, *match.groups())
        elif entry.key == "tracked_stats":
            self._step(origin, session)
        elif entry.key == _TRAIN_LOSS:
            self._untimed(session, entry, {_TRAIN_LOSS: entry.value})
        else:
            session.facts[entry.key] = entry.value

    def _begin(self, at: int, entry: _MlperfEntry) -> None:
        """The program starts; its own facts, and its way of counting, stay as before."""
        before = self.sessions[-1] if self.sessions else _MlperfSession(at, entry.time_ms)
        is_next = before.succeeded_ms is not None and entry.time_ms >= before.succeeded_ms  # else the log is repeated
        trial = before.trial + is_next
        session = _MlperfSession(at, entry.time_ms, dict(before.facts), counts_before=before.counts_before, trial=trial)
        self.sessions.append(session)

    def untimed(self) -> Counter[str]:
        """Entries of training of which no step is made, by what they have.

        Without any step, these are also the throughputs, which are else means over the steps beside them, and the
        blocks whose steps are not counted.
        """
        if any(one.steps for one in self.sessions):
            return self._losses
        if any(one.blocks for one in self.sessions):
            return Counter()
        blocks = Counter(block_stop=sum(one.uncounted for one in self.sessions))
        return self._losses + self._speeds + blocks

    def close(self, facts: Mapping[str, Any], *, prevails: bool = False) -> None:
        """Write the `run` lines, now that all facts are known; those that are given may go before the log's own."""
        for session in self.sessions:
            self._put_blocks(session)
            named = session.facts.get("submission_benchmark")
            benchmark = named if isinstance(named, str) else None
            model = MODELS.get(benchmark or "", {})
            recorded = {
                "gpu_model": gpu_model_of(session.facts.get("submission_platform")),
                "seq_len": _number(session.facts.get("max_sequence_length")),
                "global_batch": session.batch,
                "learning_rate": _number(session.facts.get("opt_base_learning_rate")),
                "recipe": benchmark,
                **model,
            }
            prevailing = facts if prevails else {}
            known = {name: value for name, value in recorded.items() if value is not None and name not in prevailing}
            self.not_taken |= {name for name, value in known.items() if facts.get(name, value) != value}
            run_id = facts["run_id"] if session.trial == 1 else f"{facts['run_id']}-{session.trial}"
            began = {"t": session.began_ms / 1000, **facts, "run_id": run_id}
            self.out.put(session.at, {"type": "run", "v": 1, **began, **known})

    @staticmethod
    def _is_written(entry: _MlperfEntry) -> bool:
        """Whether the entry may become a line itself, which leaves no place for that of the session."""
        return entry.key in {"tracked_stats", "run_start"} or entry.key.endswith("_stop")

    def _interval(self, origin: _Origin, session: _MlperfSession, name: str, edge: str) -> None:
        at, entry = origin.place, origin.entry
        if name == "block":
            self._block(origin, session, edge)
        elif name == "run":
            session.trains, session.ended_ms = True, entry.time_ms
            status = entry.metadata.get("status")
            detail = status if isinstance(status, str) else None
            kind = RUN_START if edge == "start" else RUN_STOP
            session.succeeded_ms = entry.time_ms if edge == "stop" and detail == "success" else session.succeeded_ms
            self.out.put(at, {"type": "event", "kind": kind, "begin": entry.time_ms / 1000, "detail": detail})
        elif edge == "start":
            session.open.setdefault(name, entry.time_ms)  # each rank reports init_start: the first counts
        elif name in session.open:
            begin, end = session.open.pop(name) / 1000, entry.time_ms / 1000
            self.out.put(at, {"type": "event", "kind": name, "begin": begin, "end": end})

    def _step(self, origin: _Origin, session: _MlperfSession) -> None:
        entry = origin.entry
        values = entry.value if isinstance(entry.value, dict) else {}
        duration = _number(values.get("train_step_time"))
        if duration is None or "reduced_train_loss" not in values:
            self._untimed(session, entry, values)
            return
        session.counts_before = session.counts_before or (not session.steps and _samples(entry) == 0)
        step = session.step_at(entry)
        if session.was_logged(step):
            self.repeated += 1
            return
        session.check_ahead(step)
        session.trains, session.steps, session.length = True, session.steps + 1, duration
        self._steps_to(origin, session, session.steps if step is None else step, _loss(values["reduced_train_loss"]))

    def _untimed(self, session: _MlperfSession, entry: _MlperfEntry, values: Mapping[str, Any]) -> None:
        """An entry of training that is no step."""
        self._losses.update(_LOSSES & values.keys())
        self._speeds.update(_SPEEDS & values.keys())
        if _TRAIN_LOSS in values:
            session.losses[session.step_at(entry)] = _loss(values[_TRAIN_LOSS])

    def _steps_to(self, origin: _Origin, session: _MlperfSession, step: int, loss: float | None = None) -> None:
        """The steps since the last one up to this one, which ended with an entry."""
        entry = origin.entry
        count = session.count(step, entry.time_ms, session.length)
        room = math.inf if session.ended_ms is None else (entry.time_ms - session.ended_ms) / 1000
        length = session.length if count == 1 else min(session.length, max(room, 0.0) / count)
        self._put_steps(origin, session, range(step - count + 1, step + 1), length, {step: loss})
        session.last, session.ended_ms = step, entry.time_ms

    def _put_steps(
        self,
        origin: _Origin,
        session: _MlperfSession,
        steps: range,
        length: float,
        losses: Mapping[int | None, float | None],
    ) -> None:
        """Steps of one length, of which the last ends with an entry."""
        several = len(steps) if len(steps) > 1 else 0
        if self.averaged + several > MOST_FILLED:
            self.refused.append(origin.refused(f"it stands for {several:,} steps, {_TOO_MANY}"))
            return
        self.averaged += several
        end = origin.entry.time_ms / 1000
        self.out.put_all(origin.place, _lines_of(steps, end, length, session.tokens(), losses))

    def _block(self, origin: _Origin, session: _MlperfSession, edge: str) -> None:
        """An edge of a block of training: its begin, or its end, up to which there may be steps without an entry."""
        entry = origin.entry
        began, session.block = session.block, entry if edge == "start" else None
        if edge == "stop" and began is not None:
            before, last = _edges(began.metadata, entry.metadata, session.batch)
            block = _TrainingBlock(origin, began.time_ms, entry.time_ms, range(before + 1, last + 1))
            if session.last is not None and block.end_ms > (session.ended_ms or 0) and last > session.last >= before:
                session.check_ahead(last)
                self._steps_to(origin, session, last)
            elif len(block.steps) in _SEVERAL and block.begin_ms < block.end_ms:
                session.blocks.append(block)
            else:
                session.uncounted += 1
        session.ended_ms = entry.time_ms

    def _put_blocks(self, session: _MlperfSession) -> None:
        """The steps of a session's blocks, where no entry is a step."""
        for block in session.blocks if not session.steps else ():
            length = (block.end_ms - block.begin_ms) / 1000 / len(block.steps)
            self._put_steps(block.end, session, block.steps, length, session.losses)


_TOO_MANY: Final = f"and the log has {MOST_FILLED:,} already that entries only stand for: no run of MLPerf is so long"


def _lines_of(
    steps: range, end: float, length: float, tokens: float | None, losses: Mapping[int | None, float | None]
) -> Iterator[Fields]:
    """Lines of steps of one length, of which the last ends at `end`."""
    for ahead, number in zip(range(len(steps), 0, -1), steps, strict=True):
        begin = end - length * ahead
        line = {"type": "step", "step": number, "t": begin, "duration_s": length, "tokens": tokens}
        yield line | {"loss": losses.get(number)}


def _edges(start: Mapping[str, Any], stop: Mapping[str, Any], batch: float | None) -> tuple[int, int]:
    """The numbers of the steps before a block and at its end; (0, 0) where the log does not count them.

    >>> _edges({"samples_count": 0}, {"samples_count": 320}, 32), _edges({"step": 10}, {"step": 20}, None)
    ((0, 10), (10, 20))
    >>> _edges({"first_epoch_num": 0}, {"first_epoch_num": 0}, 32)
    (0, 0)
    """
    counted = stop.get("step") != stop.get("samples_count")  # else it is a number of samples, too
    for name, size in (("step", 1.0 if counted else None), ("samples_count", batch)):
        first, last = start.get(name, -1), _number(stop.get(name))
        if size and last and (first == 0 or _number(first)):
            return round(first / size), round(last / size)
    return 0, 0


def _samples(entry: _MlperfEntry) -> float | None:
    """The samples so far, as an entry counts them; None where it does not."""
    value = entry.metadata.get("samples_count", entry.metadata.get("step"))
    return 0.0 if value == 0 and not isinstance(value, bool) else _number(value)


def _number(value: object) -> float | None:
    """A number above zero; None for anything else."""
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return None
    return value if 0 < value < math.inf else None


def _loss(value: object) -> float | None:
    return value if isinstance(value, float) and math.isfinite(value) else None


def gpu_model_of(platform: object) -> str | None:
    """The GPU that a platform names.

    >>> gpu_model_of("128xNVIDIA GB200"), gpu_model_of("MI355X"), gpu_model_of("2xNVIDIA H100-SXM5-80GB")
    ('NVIDIA GB200', 'MI355X', 'NVIDIA H100-SXM5-80GB')
    >>> gpu_model_of("1xSUBMISSION_PLATFORM_PLACEHOLDER"), gpu_model_of("1xESC_N8A-E12"), gpu_model_of(None)
    (None, None, None)
    """
    name = re.sub(r"^\d+\s*x\s*", "", platform) if isinstance(platform, str) else ""
    return name if _GPU.search(name) else None


FORMAT: Final = LogFormat("mlperf", "MLPerf Training log", lambda head: MARK in head[:HEAD], read=read, mark=MARK)
