"""Records of a text log in the order of time: sessions, the steps that lines stand for, checkpoints and other events.

- A line stands for the steps since the line before it in its session. Its duration is that of each, or their mean;
  without one, they share the time since that line, less the events between. They end where the line was written, each
  where the next begins, and none lies within an event that holds training up.
- Which steps the first line of a session stands for is known if the log records where the process began: the
  checkpoint that it loaded, the step that it starts at, or (formats that never resume silently) its start. Else it
  stands for one.
- A step that a line repeats was run again: a new session. It is none if another rank wrote that line, if it is the
  same line twice, or a progress bar.
- Lines without a time lie between those with one; the first behind `begin`, or the last line that has a time.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from ingest.runlog.formats.text.sessions import StepColumns, TextEvent, TextSession

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ingest.runlog.text_format import LineKind, TextFormat

US: Final = 1_000_000

LONGEST_US: Final = 1e15
"""A step of thirty years: a longer one is no step, but garbled digits."""

MOST_STEPS: Final = 1_000
"""Steps that one line may stand for; what is further ahead is a log with lines missing."""

SAME_US: Final = US
"""Two lines of one step this close together are one step that two ranks (or one program twice) report."""

FURTHEST_BEHIND: Final = 8
"""Steps by which the first line of another rank may be late, where lines have no times: output is buffered."""

SAVE: Final = "checkpoint_save"
LOAD: Final = "checkpoint_load"
EVAL: Final = "eval"

_HOLDING: Final = {SAVE, LOAD, EVAL, "init", "compile"}
"""Events during which no step runs."""


MOST_TEXTS: Final = 10_000
"""Lines without a number of which the text is kept: a log may have millions."""


@dataclass
class Timeline:
    """What a log records, as it is read: call `take` for each record in the order of time.

    Attributes:
        form: the format.
        facts: what the caller states; what the log records goes before them.
        begin: when the log begins, in microseconds since 1970; None: unknown.
        last_lines: the last line of each writer, where there are several.
        counts: of steps without a time of their own (`reckoned`), of those in lines of several (`averaged`), and of
            lines that repeat another (`duplicates`), and of writers that begin with steps of another (`overlaps`).
        unplaced: lines of steps whose time is unknown, with their texts.
        unnumbered: lines of steps whose number is unknown, the first `MOST_TEXTS` with their texts.
        now: the last time in the log.
        pending: lines of one step that the next progress bar numbers.
        are_several: whether there were lines of several steps since the last bar: then it numbers none.
    """

    form: TextFormat
    facts: Mapping[str, Any]
    begin: int | None = None
    last_lines: Mapping[str | None, int] = field(default_factory=dict)
    sessions: list[TextSession] = field(default_factory=list)
    steps: StepColumns = field(default_factory=StepColumns)
    counts: Counter[str] = field(default_factory=Counter)
    unplaced: list[tuple[int, str]] = field(default_factory=list)
    unnumbered: list[tuple[int, str]] = field(default_factory=list)
    now: int | None = None
    pending: list[tuple[LineKind, Mapping[str, Any]]] = field(default_factory=list)
    are_several: bool = False

    def __post_init__(self) -> None:
        """Start at the stated begin of the log."""
        self.now = self.begin

    def take(self, record: Mapping[str, Any]) -> None:
        """Read one record: a row of `scan.SCHEMA` with `at` and `unit`."""
        kind = self.form.lines[record["kind"]]
        before = self.now
        self.now = before if record["at"] is None else record["at"]
        if kind.kind == "start":
            self._start(record)
        elif kind.kind == "time":
            if self.sessions:
                self.sessions[-1].begin_at(record["at"])
        else:
            session = self.sessions[-1] if self.sessions else self._first(record, before)
            session.begin_at(record["at"])
            getattr(self, f"_{kind.kind}")(kind, record, session)

    def _first(self, record: Mapping[str, Any], before: int | None) -> TextSession:
        """The first session of a log without its start: it had begun when the first line with a time was written."""
        session = self._new(record)
        session.began = session.began if before is None else before
        return session

    def _new(self, record: Mapping[str, Any]) -> TextSession:
        """Begin a session."""
        earlier = dict(self.sessions[-1].facts) if self.sessions else {}
        began = self.now if record["at"] is None and not self.sessions else record["at"]
        session = TextSession(record["line"], began, facts=earlier)
        self.sessions.append(session)
        return session

    def _start(self, record: Mapping[str, Any]) -> None:
        """A process starts; of a session without a step this is another rank's start."""
        fresh = not self.sessions or self.sessions[-1].trained
        session = self._new(record) if fresh else self.sessions[-1]
        session.begin_at(record["at"])
        session.started = True

    def _train(self, _: LineKind, record: Mapping[str, Any], session: TextSession) -> None:
        """The training loop begins."""
        first = record["first_step"]
        if session.trained and (first is None or first <= (session.last or 0)):
            session = self._new(record)
        session.cursor = record["at"] if session.cursor is None or not session.trained else session.cursor
        if first is not None and not session.trained:
            session.previous = int(first) - 1

    def _facts(self, kind: LineKind, record: Mapping[str, Any], session: TextSession) -> None:
        """Facts of the run."""
        for name, value in facts_in(kind, record["text"]).items():
            if not session.trained:
                session.facts[name] = value

    def _bar(self, _: LineKind, record: Mapping[str, Any], session: TextSession) -> None:
        """A progress bar: of those without a title, the first of a session is that of the training loop."""
        if session.bar is not None and session.trained and record["step"] < (session.bar["step"] or 0):
            if record["total"] != session.bar_total:
                return
            session = self._new(record)
        if session.bar_total is None:
            session.bar_total = record["total"]
            session.bar_began = record["at"] if record["at"] is not None else self._reached(session)
            session.cursor = session.bar_began
            if not session.trained and record["step"] and record["elapsed_s"] == 0:
                session.previous = int(record["step"])  # drawn before a step of its own: the process goes on from there
        if record["total"] == session.bar_total:
            if not session.trained and _is_first_step(record, session.bar):
                session.previous = int(record["step"]) - 1
            session.bar = record
            self._number_pending(session)

    def _begin(self, kind: LineKind, record: Mapping[str, Any], session: TextSession) -> None:
        """An event begins."""
        step = _whole_number(record["step"])
        if kind.event == LOAD and session.trained:
            session = self._new(record)
        step = session.last if step is None and kind.event == SAVE else step
        if any(one.kind == kind.event and not one.ended and one.step == step for one in session.events):
            self.counts["duplicates"] += 1  # another rank's
            return
        at = record["at"]
        begin = _first_of(at, session.cursor, self._began_by(session))
        session.events.append(TextEvent(kind.event, record["line"], step, begin, is_timed=at is not None))

    def _end(self, kind: LineKind, record: Mapping[str, Any], session: TextSession) -> None:
        """An event ends; of a save, this or a later end is when it is safe."""
        step, at = _whole_number(record["step"]), record["at"]
        if kind.event == LOAD and session.trained:
            session = self._new(record)
        event = self._open_event(kind, step, session)
        if event is None:
            event = self._whole_event(kind, record, step, session)
            if event is None:
                self.counts["duplicates"] += 1
                return
        event.is_timed = event.is_timed and at is not None
        if not event.ended:
            event.end, event.ended = at, True
            session.held_until = max(session.held_until, at or 0)
            if event.kind in {SAVE, EVAL} and not event.is_timed and at is None:
                session.untimed.append(event)
        if kind.durable and kind.event == SAVE and event.durable is None:
            event.durable = at
        if kind.event == LOAD and not session.trained:
            session.previous = session.previous if event.step is None else event.step
            session.cursor = session.cursor if at is None else at

    def _reached(self, session: TextSession) -> int | None:
        """The last time in the log, or that up to which the session before trained, where that is later.

        Without a time since then it is unknown when this one began: its steps are reckoned.
        """
        earlier = max((_end_of_bar(one) for one in self.sessions if one is not session), default=0)
        if self.now is None or earlier <= self.now:
            return self.now
        session.is_reckoned = True
        return earlier

    def _began_by(self, session: TextSession) -> int | None:
        """A time by which a session runs: not that of the session before it, whose time was the last one."""
        return self.now if session.began is not None or len(self.sessions) == 1 else None

    @staticmethod
    def _open_event(kind: LineKind, step: int | None, session: TextSession) -> TextEvent | None:
        """The event that an end belongs to: one that has not ended, or a save that is not known to be safe."""
        for event in reversed(session.events):
            same = event.kind == kind.event and (step is None or event.step in {None, step})
            unsafe = event.kind == SAVE and kind.durable and event.durable is None
            if same and (not event.ended or unsafe):
                return event
        return None

    def _whole_event(
        self, kind: LineKind, record: Mapping[str, Any], step: int | None, session: TextSession
    ) -> TextEvent | None:
        """An event of which the log only has the end; None where it is another rank's line about one that ended."""
        at, seconds = record["at"], record["seconds"]
        step = session.last if step is None and kind.event == SAVE else step
        begin = at if at is None or seconds is None else at - round(seconds * US)
        if kind.follows and seconds is None and session.cursor is not None:
            begin = max(session.cursor, session.held_until)
        same = (one for one in session.events if one.kind == kind.event)
        if any(one.step == step or (step is None and _overlaps(one, begin, at)) for one in same):
            return None
        begin = _first_of(begin, session.cursor, self._began_by(session))
        event = TextEvent(kind.event, record["line"], step, begin, is_timed=at is not None)
        session.events.append(event)
        return event

    def _step(self, kind: LineKind, record: Mapping[str, Any], session: TextSession) -> None:
        """A line of one step or several."""
        if record["step"] is None or not math.isfinite(record["step"]):
            step = session.bar["step"] if kind.behind_bar and session.bar is not None else None
            self._wait_for_bar(kind, {**record, "step": step or None})  # the bar is drawn again behind it
            return
        step = int(record["step"])
        if session.last is not None and step <= session.last:
            if self._repeats(kind, record, session, step):
                self.counts["duplicates"] += 1
                session.of_writer[record["writer"]] = step
                return
            session = self._new(record)
        self._add(record, session, step)
        self.pass_on(record, session)

    def pass_on(self, record: Mapping[str, Any], session: TextSession) -> None:
        """The steps up to that of this record are in the columns."""
        step = int(record["step"])
        self.now = self.now if record["at"] is None else record["at"]
        session.last, session.previous = step, step
        session.last_key = _key(record)
        session.of_writer[record["writer"]] = step

    def _wait_for_bar(self, kind: LineKind, record: Mapping[str, Any]) -> None:
        """Keep a line for the next bar. Two of one kind are of two steps: the bar numbers neither, nor a later one."""
        self.are_several |= any(one["kind"] == record["kind"] for _, one in self.pending)
        if self.are_several:
            self._leave_unnumbered()
        self.pending.append((kind, record))

    def _leave_unnumbered(self) -> None:
        pending, self.pending = self.pending, []
        for _, record in pending:
            text = record["text"] if len(self.unnumbered) < MOST_TEXTS else None
            self.unnumbered.append((record["line"], text or ""))

    def _number_pending(self, session: TextSession) -> None:
        """Lines without a number of their own have that of the bar behind them, if they are alone before it.

        Lines of several kinds are of one step: what the later ones do not have is as the first one has it.
        """
        are_several, self.are_several = self.are_several, False
        known = {name: value for _, record in self.pending for name, value in record.items() if value is not None}
        step = known.get("step") or (session.bar or {}).get("step")
        if self.pending and not are_several and step:
            kind, record = self.pending[-1]
            self.pending = []
            self._step(kind, {**record, **known, "step": step}, session)
        else:
            self._leave_unnumbered()

    def finish(self) -> None:
        """The log has ended: number the lines that are left; an evaluation whose end is unknown took no known time."""
        for session in self.sessions:
            session.events = [one for one in session.events if one.kind != EVAL or one not in session.untimed]
        if self.sessions:
            self._number_pending(self.sessions[-1])

    def _repeats(self, kind: LineKind, record: Mapping[str, Any], session: TextSession, step: int) -> bool:
        """Whether a line reports a step that another one has reported already, and was not run again."""
        if self._is_handed_over(record, session):
            return False
        if step == session.last:
            before = session.last_key[0]
            close = record["at"] is not None and before is not None and record["at"] - before <= SAME_US
            return kind.repeats or close or session.last_key == _key(record) or _is_other_rank(record, session)
        reported = session.of_writer.get(record["writer"])
        if reported is None:  # a rank that has not reported before is one line behind, a process that goes on further
            behind = 1 if record["at"] is not None else FURTHEST_BEHIND
            is_late = session.previous is not None and _is_other_rank(record, session)
            is_late = is_late and step >= (session.last or 0) - behind
            self.counts["overlaps"] += is_late and record["at"] is None and record["writer"] in self.last_lines
            return is_late
        return step > reported

    def _is_handed_over(self, record: Mapping[str, Any], session: TextSession) -> bool:
        """Whether a run goes on under another writer: one that is new, where the one before it prints nothing more.

        A rank that is late comes while the others still print.
        """
        over = self.last_lines.get(session.last_key[1])
        return over is not None and over < record["line"] and record["writer"] not in session.of_writer

    def _add(self, record: Mapping[str, Any], session: TextSession, step: int) -> None:
        """The steps that a line stands for."""
        end = self._end_of(record, session)
        length = _length(record)
        count = self._count(session, step, end, length)
        is_burst = record.get("burst") == []  # its line was kept back: the time since the one before has no meaning
        follows = length is None and session.previous is not None and not is_burst
        if follows and end is not None and session.cursor is not None:
            length = max(end - session.cursor - _held_up_us(session, session.cursor, end), 0) / count
        is_placed = session.is_reckoned
        if end is None and length is not None and session.cursor is not None:
            is_placed = True
            since = max(session.cursor, session.held_until)
            end = max(since + round(count * length), self.now or 0)
        if end is None:
            self.unplaced.append((record["line"], record["text"] or ""))
            return
        count = count if length is not None or is_burst else 1
        begins, end = self._begins(record, session, count, length, end)
        self._resolve(session, begins[0], is_placed=is_placed or _length(record) is None)
        self.counts["reckoned"] += count if is_placed else 0
        self.counts["averaged"] += count if count > 1 else 0
        if record["samples"] is not None:
            session.facts.setdefault("global_batch", str(record["samples"]))
        tokens = self._tokens(record, session, length, count)
        n = len(self.sessions) - 1
        session.begin_at(begins[0])
        session.began = begins[0] if session.began is None else min(session.began, begins[0])
        session.begin_before(begins[0])
        losses = {one["step"]: one["loss"] for one in record.get("burst") or ()} | {step: record["loss"]}
        for number, begin in enumerate(begins, step - count + 1):
            loss = losses.get(number)
            speed = record["tflops_per_gpu"], record["mfu_percent"]
            self.steps.append(n, number, begin, length, tokens, loss, record["line"], *speed)
        session.cursor = end

    def _end_of(self, record: Mapping[str, Any], session: TextSession) -> int | None:
        """The time at which the line was written, as far as the line records it."""
        elapsed = record["elapsed_s"] if record["elapsed_s"] is not None else (session.bar or {}).get("elapsed_s")
        if record["at"] is not None:
            if elapsed is not None and not session.trained and session.bar_began is not None:
                session.bar_began = min(session.bar_began, int(record["at"] - round(elapsed * US)))
                session.cursor = session.bar_began
            return int(record["at"])
        began = session.bar_began if session.bar_began is not None else self.now
        if elapsed is not None and began is not None:
            if elapsed < session.elapsed and session.cursor is not None:
                began, session.is_reckoned = session.cursor, True  # the bar of the next epoch
            session.bar_began, session.elapsed = began, elapsed
            return int(began + round(elapsed * US))
        if session.cursor is None:
            session.cursor = self._reached(session)
        return None

    def _count(self, session: TextSession, step: int, end: int | None, length: float | None) -> int:
        """How many steps a line stands for."""
        previous = session.previous
        if previous is None and not session.trained and self.form.resumes_aloud and session.started:
            began = None if session.began == end else session.began  # known by this line alone
            if began is None and len(self.sessions) > 1:
                began = self.sessions[-2].cursor  # the process before it ran till then
            fits = end is None or length is None or began is None or end - step * length >= began - US
            previous = 0 if fits else None
            session.previous = previous
            if session.cursor is None or length is None:
                session.cursor = session.cursor if session.cursor is not None else session.began
        count = 1 if previous is None else step - previous
        return count if 1 <= count <= MOST_STEPS else 1

    @staticmethod
    def _begins(
        record: Mapping[str, Any], session: TextSession, count: int, length: float | None, end: int
    ) -> tuple[list[int], int]:
        """When each step began, and when the last ended: backwards from the line, around the events between.

        A coarse stamp is no earlier than the step that it ends: steps follow each other where stamps leave that open.
        A step that does not fit behind an event lies before it, unless it would reach further into the step before.
        """
        if length is None:
            return [end] * count, end
        size = round(length)
        since = session.cursor
        holding = [] if since is None else list(_between(session, since, end))
        if not holding:
            first = end - round(count * length)
            if since is not None and first < since <= first + record["unit"] + length / 20:
                end += since - first
                first = since
            return [first + round(number * length) for number in range(count)], end
        begins: list[int] = []
        cursor = end
        for _ in range(count):
            begin = cursor - size
            for begun, ended in holding:
                if begin < ended and begun < cursor <= ended + size:
                    is_room = since is None or since - (begun - size) < ended - begin
                    begin = begun - size if is_room else begin
            begins.append(begin)
            cursor = begin
        return begins[::-1], end

    @staticmethod
    def _resolve(session: TextSession, begin: int, *, is_placed: bool) -> None:
        """Saves and evaluations without a time ended (and saves were safe) when the next step began.

        One behind which no time was left before the next step took none. Where steps are placed behind each other, or
        last as long as the time between their lines, pauses are unknown, and so is its end.
        """
        for event in session.untimed:
            if event.begin is None:
                continue
            over = max(begin, event.begin)
            event.durable = over if event.kind == SAVE else None
            if not is_placed:
                event.end = over
                session.held_until = max(session.held_until, over)
        session.untimed = [
            event for event in session.untimed if event.begin is None or (event.kind == EVAL and is_placed)
        ]

    def facts_of(self, session: TextSession) -> Mapping[str, Any]:
        """The facts that tokens follow from; those of a session do not change once it trains."""
        if not session.numbers:
            recorded = {name: _whole_number(value) for name, value in session.facts.items() if name in _COUNTED}
            session.numbers = {**self.facts, **recorded}
        return session.numbers

    def _tokens(
        self, record: Mapping[str, Any], session: TextSession, length: float | None, count: int
    ) -> float | None:
        """Tokens of one step over all GPUs, from what is known of them."""
        rise = session.tokens_of_step(record["total_tokens"], int(record["step"]), count)
        counted = record["tokens"] if record["tokens"] is not None else rise
        if counted is not None:
            return float(counted)
        facts = self.facts_of(session)
        samples = record["samples"] if record["samples"] is not None else facts.get("global_batch")
        if samples is None and record["samples_per_s"] is not None and length:
            samples = round(record["samples_per_s"] * length / US)
        if samples is not None and facts.get("seq_len"):
            return float(samples * facts["seq_len"])
        if length is None:
            return None
        if record["tokens_per_s"] is not None:
            return float(record["tokens_per_s"] * length / US)
        if record["tokens_per_s_per_gpu"] is not None and facts.get("n_gpus"):
            return float(record["tokens_per_s_per_gpu"] * facts["n_gpus"] * length / US)
        return None


_COUNTED: Final = {"global_batch", "seq_len", "n_gpus"}


def facts_in(kind: LineKind, text: str) -> dict[str, str]:
    r"""The facts in a line, as text.

    >>> from ingest.runlog.text_format import LineKind
    >>> facts_in(LineKind("facts", "size", fields=(("params", r"size: ([\d,]+)"),)), "size: 6,163,712 total")
    {'params': '6163712'}
    """
    import polars as pl  # noqa: PLC0415 - patterns are in Rust's syntax

    line = pl.Series([text])
    values = {name: line.str.extract(pattern)[0] for name, pattern in kind.fields}
    return {name: value.strip().replace(",", "") for name, value in values.items() if value and value.strip()}


def _first_of(*moments: int | None) -> int | None:
    """The first of these that is known."""
    return next((moment for moment in moments if moment is not None), None)


def _whole_number(value: object) -> int | None:
    """A number as a whole one; None where it is none."""
    try:
        number = float(value)  # type: ignore[arg-type]  # what is no number raises
    except (TypeError, ValueError):
        return None
    return int(number) if math.isfinite(number) else None


def _key(record: Mapping[str, Any]) -> tuple[Any, ...]:
    return record["at"], record["writer"], record["duration_s"], record["duration_ms"], record["loss"]


def _end_of_bar(session: TextSession) -> int:
    """Up to when a session is known to have trained: its last step, or where its progress bar was drawn last."""
    elapsed = (session.bar or {}).get("elapsed_s")
    drawn = 0 if elapsed is None or session.bar_began is None else session.bar_began + round(elapsed * US)
    return max(session.cursor or 0, drawn)


def _is_first_step(bar: Mapping[str, Any], before: Mapping[str, Any] | None) -> bool:
    """Whether a progress bar shows the first step of a process: it jumps to where the process goes on from.

    A bar is drawn at the first step that takes longer than an instant, so nothing lies between it and that at 0.
    """
    if bar["step"] == 1:
        return True
    if before is None or before["step"] != 0 or bar["elapsed_s"] is None or before["elapsed_s"] is None:
        return False
    return bool(bar["step"] > 0 and bar["elapsed_s"] - before["elapsed_s"] >= 1)


def _overlaps(event: TextEvent, begin: int | None, end: int | None) -> bool:
    """Whether an event with both its times lies beside these."""
    if event.begin is None or event.end is None or begin is None or end is None:
        return False
    return event.is_timed and begin <= event.end and event.begin <= end


def _is_other_rank(record: Mapping[str, Any], session: TextSession) -> bool:
    """Whether another rank wrote a line than the last one that counted."""
    return bool(record["writer"] != session.last_key[1])


def _length(record: Mapping[str, Any]) -> float | None:
    """A step's duration in microseconds."""
    if record["duration_s"] is not None:
        length = record["duration_s"] * US
    elif record["duration_ms"] is not None:
        length = record["duration_ms"] * 1_000
    else:
        return None
    return float(length) if 0 <= length < LONGEST_US else None


def _between(session: TextSession, since: int, until: int) -> Iterable[tuple[int, int]]:
    """Events that held training up between two moments."""
    for event in reversed(session.events):
        if event.end is not None and event.end < since:
            return
        if event.kind in _HOLDING and event.blocking and event.begin is not None and event.end is not None:
            begin, end = max(event.begin, since), min(event.end, until)
            if begin < end:
                yield begin, end


def _held_up_us(session: TextSession, since: int, until: int) -> int:
    """Microseconds between two moments during which events held training up."""
    return sum(end - begin for begin, end in _between(session, since, until))
