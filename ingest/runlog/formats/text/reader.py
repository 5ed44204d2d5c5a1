"""A log of a text format as a run log: scanned in blocks, put in the order of time, written a slice of steps at a time.

Memory goes with neither the length of a log nor its steps: these wait in temporary files (`ingest.runlog.spool`).
"""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
import polars as pl

from ingest.errors import FormatMistakeError, OptionError, UntimedError
from ingest.load_warnings import LoadWarning
from ingest.runlog.facts import converted
from ingest.runlog.formats.text.bars import drawn_runs, take_drawn
from ingest.runlog.formats.text.bursts import Bursts
from ingest.runlog.formats.text.garbled import GarbledSteps
from ingest.runlog.formats.text.in_time import InTime
from ingest.runlog.formats.text.order import Copies, LineOrder, in_order, without_copies
from ingest.runlog.formats.text.plain import take_all
from ingest.runlog.formats.text.ranks import (
    RankTally,
    commands_for,
    without_other_runs,
    without_repeats_of_ranks,
    writers,
)
from ingest.runlog.formats.text.scan import US, FormatScan, Sample, scan
from ingest.runlog.formats.text.sessions import TextEvent
from ingest.runlog.formats.text.timeline import SAVE, Timeline
from ingest.runlog.formats.text.times import EPOCH, Stamps, Times
from ingest.runlog.formats.text.unknown import unknown_text
from ingest.runlog.formats.text.unusual_times import with_usual_times
from ingest.runlog.formats.untimed import begin_of_several, guessed_begin
from ingest.runlog.text_format import with_builtin
from ingest.runlog.translation import Findings, RefusedLine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from ingest.runlog.formats.text.sessions import StepColumns, TextSession
    from ingest.runlog.translation import LogRequest

    _Parts = Callable[[], Iterator[pl.DataFrame]]
    """Records in the order of the log, some at a time, as often as they are needed."""

SLICE: Final = 100_000
"""Steps that are written at a time."""


def read_text(
    chunks: Iterable[bytes], request: LogRequest, findings: Findings
) -> Iterator[bytes | pl.DataFrame] | None:
    """A log of a text format as chunks of a run log, steps as columns (`ingest.runlog.columns`); None if it is blank.

    Args:
        chunks: the log.
        request: what it does not record.
        findings: gets the damaged lines, the number of repeated ones, and warnings.

    Raises:
        UnrecognisedInputError: no format has a step in it.
        FormatMistakeError: the first format that has one has a mistake.
        TimeZoneError: its times have no zone, and none is stated.
        UntimedError: none of its steps can be placed in time, or several logs would lie over each other.
    """
    name = request.file
    sample = Sample()
    formats = with_builtin(request.formats)
    scans = scan(with_usual_times(chunks, name, formats), name, formats, sample)
    found = scans[0]
    if not found.has_steps:
        if sample.first is None:
            return None
        raise unknown_text(name, scans, sample)
    if found.form.mistake:
        raise FormatMistakeError(
            f"{name}: a log of {found.form.title}, whose format has a mistake: {found.form.mistake}"
        )
    request = _with_first_date(found, request)
    records = _counted(found, request, findings)
    if request.several and request.begin is not None and not records.is_timed:
        raise UntimedError(begin_of_several(f"{name}: a log of {found.form.title}"))
    timeline = _timeline(found, records, request, name)
    _add_driver(timeline, found.driver)
    steps = timeline.steps
    _report(found, timeline, findings)
    if records.bursts.is_often:
        findings.warnings.append(LoadWarning("steps_in_bursts", records.bursts.n_steps))
    if not steps.height:
        if timeline.unnumbered and not timeline.unplaced:
            raise UntimedError(_unnumbered(name, found, min(timeline.unnumbered)[0]))
        advice = _unread_time(timeline) or guessed_begin(request, _took(found, request))
        raise UntimedError(_untimed(name, found, records) + advice)
    return _written(timeline, request)


class _Records(NamedTuple):
    """The records that count, with their times, in the order in which they are read.

    Attributes:
        parts: these records; they can be read any number of times.
        is_timed: whether any has a time.
        last_lines: the last line of each writer, where there are several.
        bursts: counts the steps that were stamped at one instant, as the parts are read.
    """

    parts: Callable[[], Iterator[pl.DataFrame]]
    is_timed: bool
    last_lines: Mapping[str | None, int]
    bursts: Bursts


def _counted(found: FormatScan, request: LogRequest, findings: Findings) -> _Records:
    """The records that count, with their times; the findings get how many of the others there are.

    All records are in memory at once only where a copy of the log may be in it, several runs print into it, or lines
    without times are out of order.
    """
    parts: _Parts = lambda: found.parts(SLICE)  # noqa: E731 - one of several ways to get them
    copies, order, garbled, authors = Copies(), LineOrder(found.form), GarbledSteps(found.form), set[str]()
    last_lines: dict[str | None, int] = {}
    times = Times(request, request.file, found.stamps)
    for part in parts():
        copies.take(part)
        authors |= writers(part, found.form)
        timed = times.of(part)
        order.take(timed)
        garbled.take(timed)
    if copies.possible or len(authors) > 1:
        parts = _without_copies(found, request, findings, copied=copies.possible)
        order, garbled = LineOrder(found.form), GarbledSteps(found.form)
        for part in _timed(found, request, parts):
            order.take(part)
            garbled.take(part)
            last_lines |= _last_lines(part) if len(authors) > 1 else {}
    garbled.finish(found.last_steps)
    if not garbled.found.is_empty():
        for part in _timed(found, request, parts):
            garbled.compare(part)
        parts, order = _without(garbled.found, parts), LineOrder(found.form)
        for part in _timed(found, request, parts):
            order.take(part)
    findings.refused += garbled.refused()
    bursts = Bursts(found.form)
    if order.is_plain:
        return _Records(lambda: bursts.spread(_timed(found, request, parts)), order.is_timed, last_lines, bursts)
    if not order.is_mixed:
        placed = _in_best_order(lambda: _timed(found, request, parts), order)
        return _Records(lambda: bursts.spread(placed()), order.is_timed, last_lines, bursts)
    own = pl.concat(_timed(found, request, parts))
    records = in_order(own, found.form)
    findings.n_duplicates += own.height - records.height
    findings.warnings.append(LoadWarning("order_unknown"))
    last_lines = _last_lines(records) if last_lines else {}
    return _Records(lambda: bursts.spread(records.iter_slices(SLICE)), order.is_timed, last_lines, bursts)


def _without(lines: pl.DataFrame, parts: _Parts) -> _Parts:
    """The records without these lines (`line`, `part`)."""
    return lambda: (part.join(lines, on=["line", "part"], how="anti", maintain_order="left") for part in parts())


def _timed(found: FormatScan, request: LogRequest, parts: _Parts) -> Iterator[pl.DataFrame]:
    """Records with their times."""
    times = Times(request, request.file, found.stamps)
    return map(times.of, parts())


def _in_best_order(parts: _Parts, order: LineOrder) -> _Parts:
    """Records whose times go back: in the order of time, or of the log if the clock was set back.

    Args:
        parts: the records in the order of the log.
        order: of these.
    """
    by_time, sorted_ = LineOrder(order.form), InTime(parts)
    for part in sorted_.frames(SLICE):
        by_time.take(part)
    return parts if order.is_set_back(by_time) else lambda: sorted_.frames(SLICE)


def _last_lines(records: pl.DataFrame) -> dict[str | None, int]:
    return dict(records.group_by("writer").agg(pl.col("line").max()).iter_rows())


def _without_copies(found: FormatScan, request: LogRequest, findings: Findings, *, copied: bool) -> _Parts:
    """The records without copies, those of other runs, and those that repeat another rank's.

    The findings get how many were left out.
    """
    if not copied:
        tally = RankTally(found.form)
        for part in found.parts(SLICE):
            tally.take(part)
        if tally.agree_on_steps:
            findings.n_duplicates += tally.n_repeated
            return lambda: map(tally.without_repeated, found.parts(SLICE))
    every = found.records()
    single = without_copies(every, found.form)
    own, apart = without_other_runs(single, found.form)
    ours = without_repeats_of_ranks(own, found.form)
    findings.n_duplicates += every.height - ours.height
    if single.height < every.height:
        findings.warnings.append(LoadWarning("log_repeated", every.height - single.height))
    if apart:
        findings.warnings.append(
            LoadWarning("runs_in_turn", sum(apart.values()), commands_for(sorted(apart), request.file))
        )
    return lambda: ours.iter_slices(SLICE)


def _with_first_date(found: FormatScan, request: LogRequest) -> LogRequest:
    """The request with the first whole date of the log, from which stamps without a year have theirs."""
    if found.first_stamp is None:
        return request
    return replace(request, around=EPOCH + timedelta(microseconds=found.first_stamp["naive"][0]))


def _timeline(found: FormatScan, records: _Records, request: LogRequest, name: str) -> Timeline:
    begin = None if request.begin is None else round(request.begin.timestamp() * US)
    timeline = Timeline(found.form, request.facts, begin, records.last_lines)
    if begin is None and found.first_stamp is not None and not found.stamps.collected.is_late:
        stamps = Stamps(is_dated=True)
        timeline.now = Times(request, name, stamps).of(found.first_stamp.with_columns(line=1))["at"][0]
    for part in records.parts():
        for run, is_drawn in drawn_runs(part, found.form):
            take_drawn(timeline, run) if is_drawn else take_all(timeline, run)
    timeline.finish()
    return timeline


def _add_driver(timeline: Timeline, version: str | None) -> None:
    """The driver that a log shows before it trains is that of its first process."""
    if version is not None and timeline.sessions and timeline.sessions[0].began is not None:
        first = timeline.sessions[0]
        first.events.append(
            TextEvent("driver", first.line, begin=first.began, end=first.began, ended=True, detail=version)
        )


def _report(found: FormatScan, timeline: Timeline, findings: Findings) -> None:
    """Add all warnings about the log."""
    title, counts = found.form.title, timeline.counts
    findings.refused += found.refused
    findings.refused += [
        RefusedLine(line, f"step of {title} without a time: {_WITHOUT_TIME}", text) for line, text in timeline.unplaced
    ]
    findings.refused += [
        RefusedLine(line, f"step of {title} without a number: no progress bar alone behind it has one", text)
        for line, text in timeline.unnumbered
    ]
    findings.n_duplicates += counts["duplicates"]
    if counts["averaged"]:
        findings.warnings.append(LoadWarning("steps_averaged", counts["averaged"]))
    if found.step_lines is not None and found.step_lines.n_estimated:
        findings.warnings.append(LoadWarning("durations_of_micro_batches", found.step_lines.n_estimated))
    if counts["reckoned"]:
        findings.warnings.append(LoadWarning("times_reckoned", counts["reckoned"]))
    if counts["overlaps"]:
        findings.warnings.append(LoadWarning("writers_overlap", counts["overlaps"]))
    if timeline.steps.height and not timeline.steps.has_tokens:
        findings.warnings.append(LoadWarning("tokens_to_state", None, _stating(timeline)))


def _stating(timeline: Timeline) -> str:
    """The options that state what the tokens of a step follow from and what is unknown of the last process."""
    known = timeline.facts_of(timeline.sessions[-1])
    return " ".join(f"--set {name}={value}" for name, value in _TOKENS_FROM.items() if not known.get(name))


_TOKENS_FROM: Final = {"seq_len": 8192, "global_batch": 512, "n_gpus": 64}
"""Facts that the tokens of a step follow from, with values as examples: the first two, or tokens/s/GPU and the last."""


_WITHOUT_TIME: Final = "neither its line nor a line before it has one"


def _untimed(name: str, found: FormatScan, records: _Records) -> str:
    numbers = [part["step"].drop_nulls() for part in records.parts()]
    ends = ((part.min(), part.max()) for part in numbers if part.len())
    known = [float(number) for pair in ends for number in pair]  # type: ignore[arg-type]  # polars types them broadly
    reach = f" ({min(known):.0f} to {max(known):.0f})" if known else ""
    return (
        f"{name}: a log of {found.form.title} whose steps{reach} have no times, so it is unknown when they were.\n"
        "State when the log begins, if its lines have durations or a progress bar: --begin 2026-10-01T08:00:00Z"
    )


def _unread_time(timeline: Timeline) -> str:
    """What to do about lines that begin with a date of an ambiguous form; empty if the first one does not."""
    line, text = min(timeline.unplaced, default=(0, ""))
    match = re.match(r"\W{0,3}\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}\b[ T]*[\d:]*(?: ?[AP]M)?", text)
    if match is None:
        return ""
    lacks_order = re.search(r"\d\d/\d\d/20\d\d \d\d:\d\d:\d\d$", match[0]) is not None
    return _UNREAD.format(line=line, time=match[0].strip()) + _WITH_SED * lacks_order


_UNREAD: Final = """
The time in line {line} is not read: {time}
Read are times of 24 hours with seconds, behind a date with the year first, or with the name of the month."""
_WITH_SED: Final = """
Write them so, if the month is first: sed -E 's|([0-9]{2})/([0-9]{2})/(20[0-9]{2}) |\\3-\\1-\\2 |' FILE"""


def _took(found: FormatScan, request: LogRequest) -> float | None:
    """Seconds to the end of the last step of a log without times, as it is placed from any begin on.

    None if it does not record how long steps took, or has times of day: those need the date alone.
    """
    if request.begin is not None:
        return None
    supposed = replace(request, begin=_ANY_BEGIN)
    records = _counted(found, supposed, Findings())
    if records.is_timed:
        return None
    steps = _timeline(found, records, supposed, request.file).steps
    if not steps.height:
        return None
    ends = pl.concat([part.select(end=pl.col("begin") + pl.col("length")) for part in steps.frames(SLICE)])
    latest = ends.select(pl.col("end").max()).item()
    return None if latest is None else latest / US - _ANY_BEGIN.timestamp()


_ANY_BEGIN: Final = datetime(2026, 1, 1, tzinfo=UTC)


def _unnumbered(name: str, found: FormatScan, first: int) -> str:
    advice = _BAR_IS_ELSEWHERE if any(line.kind == "bar" for line in found.form.lines) else _NO_NUMBER
    return (
        f"{name}: a log of {found.form.title} in which no step has a number (the first without is in line {first}).\n"
        + advice
    )


_NO_NUMBER: Final = (
    "If the format is one of yours: the first group of its pattern of `step` is to be a number and nothing else"
)
_BAR_IS_ELSEWHERE: Final = (
    "The progress bar numbers its steps, and goes to stderr: keep both in one file, in the order in which they are\n"
    "printed (python -u train.py > train.log 2>&1), or load the trainer_state.json of a checkpoint instead, or\n"
    "LLaMA-Factory's trainer_log.jsonl"
)
"""A process whose stdout is a file keeps its lines back: without `-u` a bar is not beside the step that it numbers."""


def _written(timeline: Timeline, request: LogRequest) -> Iterator[bytes | pl.DataFrame]:
    """The run log, session by session; its steps as columns."""
    printed = timeline.steps.printed()
    steps = itertools.groupby(_by_session(timeline.steps), key=itemgetter(0))
    at, own = next(steps, (None, ()))
    for number, session in enumerate(timeline.sessions):
        if session.began is None:
            continue
        yield msgspec.json.encode(_run_line(session, request.run_facts()) | printed.get(number, {})) + b"\n"
        if at == number:
            yield from (part for _, part in own)
            at, own = next(steps, (None, ()))
        for event in session.events:
            line = _event_line(event)
            if line is not None:
                yield msgspec.json.encode(line) + b"\n"


def _by_session(steps: StepColumns) -> Iterator[tuple[int, pl.DataFrame]]:
    """Each session's steps as columns of a run log, one session after the other."""
    for part in steps.frames(SLICE):
        table = part.select(
            "session",
            "step",
            t=pl.col("begin") / US,
            duration_s=pl.col("length") / US,
            tokens="tokens",
            loss=pl.when(pl.col("loss").is_finite()).then("loss"),
            line="line",
        )
        for own in table.partition_by("session", maintain_order=True):
            yield own["session"][0], own.drop("session")


def _run_line(session: TextSession, stated: Mapping[str, Any]) -> dict[str, Any]:
    """The `run` line: what the log records goes before what is stated, unless it is no such fact."""
    recorded: dict[str, Any] = {}
    for name, value in session.facts.items():
        try:
            recorded |= converted({name: value})
        except OptionError:
            continue
    began = 0 if session.began is None else session.began
    return {"type": "run", "v": 1, "t": began / US, **stated, **recorded, "line": session.line}


def _event_line(event: TextEvent) -> dict[str, Any] | None:
    """A line of a checkpoint or another event; None where it is unknown when it began."""
    if event.begin is None:
        return None
    end = None if event.end is None else max(event.end, event.begin) / US
    begin = event.begin / US
    if event.kind == SAVE:
        if event.step is None:
            return None
        durable = None if event.durable is None else max(event.durable, event.begin) / US
        return {"type": "ckpt", "step": event.step, "begin": begin, "end": end, "durable": durable, "line": event.line}
    event_line = {"type": "event", "kind": event.kind, "begin": begin, "end": end, "step": event.step}
    return event_line | {"detail": event.detail, "line": event.line}
