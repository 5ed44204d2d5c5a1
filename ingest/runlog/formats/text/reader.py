"""A log of a text format as a run log: scanned in blocks, put in the order of time, written a slice of steps at a time.

Memory goes with the steps that a log has, not with its length: 2 GB of other output leave nothing behind.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import msgspec
import polars as pl

from ingest.errors import FormatMistakeError, OptionError, UntimedError
from ingest.load_warnings import LoadWarning
from ingest.runlog.facts import converted
from ingest.runlog.formats.text.bars import drawn_runs, take_drawn
from ingest.runlog.formats.text.order import in_order, without_copies
from ingest.runlog.formats.text.plain import take_all
from ingest.runlog.formats.text.ranks import commands_for, of_one_rank, of_one_run
from ingest.runlog.formats.text.scan import US, Sample, Scan, scan
from ingest.runlog.formats.text.sessions import Event
from ingest.runlog.formats.text.timeline import SAVE, Timeline
from ingest.runlog.formats.text.times import with_times
from ingest.runlog.formats.text.unknown import unknown_text
from ingest.runlog.formats.untimed import begin_of_several, guessed_begin
from ingest.runlog.text_format import with_builtin
from ingest.runlog.translation import Account, Refused

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from ingest.runlog.formats.text.sessions import Session
    from ingest.runlog.translation import LogRequest

SLICE: Final = 100_000
"""Steps that are written at a time."""

_SHOWN: Final = 3
"""Facts of a log without times that a message shows."""


def read_text(chunks: Iterable[bytes], request: LogRequest, account: Account) -> Iterator[bytes | pl.DataFrame] | None:
    """A log of a text format as chunks of a run log, steps as columns (`ingest.runlog.columns`); None if it is blank.

    Args:
        chunks: the log.
        request: what it does not record.
        account: gets the damaged lines, the number of repeated ones, and warnings.

    Raises:
        UnrecognisedInputError: no format has a step in it.
        FormatMistakeError: the first format that has one has a mistake.
        TimeZoneError: its times have no zone, and none is stated.
        UntimedError: none of its steps can be placed in time, or several logs would lie over each other.
    """
    name = request.file
    sample = Sample()
    scans = scan(chunks, name, with_builtin(request.formats), sample)
    found = scans[0]
    if not found.has_steps:
        if sample.first is None:
            return None
        raise unknown_text(name, scans, sample.first, sample.candidate)
    if found.form.mistake:
        raise FormatMistakeError(
            f"{name}: a log of {found.form.title}, whose format has a mistake: {found.form.mistake}"
        )
    request = _near(found, request)
    records = _counted(found, request, account)
    if request.several and request.begin is not None and records["at"].is_null().all():
        raise UntimedError(begin_of_several(f"{name}: a log of {found.form.title}"))
    timeline = _timeline(found, _in_time(records), request, name)
    _add_driver(timeline, found.driver)
    steps = timeline.steps.frame()
    _report(found, timeline, steps, account)
    if steps.is_empty():
        if timeline.unnumbered and not timeline.unplaced:
            raise UntimedError(_unnumbered(name, found, records))
        raise UntimedError(_untimed(name, found, records) + guessed_begin(request, _took(found, request)))
    return _written(timeline.sessions, steps, request, _printed(steps, records))


def _counted(found: Scan, request: LogRequest, account: Account) -> pl.DataFrame:
    """The records that count, with their times; the account gets how many of the others there are."""
    every = found.records()
    single = without_copies(every, found.form)
    own, apart = of_one_run(single, found.form)
    ours = with_times(of_one_rank(own, found.form), request, request.file)
    records = in_order(ours, found.form)
    account.n_duplicates += every.height - records.height
    if single.height < every.height:
        account.warnings.append(LoadWarning("log_repeated", every.height - single.height))
    if apart:
        account.warnings.append(
            LoadWarning("runs_in_turn", sum(apart.values()), commands_for(sorted(apart), request.file))
        )
    if records is not ours:
        account.warnings.append(LoadWarning("order_unknown"))
    return records


_NO_CLOCK: Final = {name: pl.lit(None, dtype=pl.String) for name in ("month_day", "clock", "clock_fraction")}


def _near(found: Scan, request: LogRequest) -> LogRequest:
    """The request with the first whole date of the log, from which stamps without a year have theirs."""
    stamp = None if found.first_stamp is None else found.first_stamp["date"][0].replace("/", "-")
    try:
        return request if stamp is None else replace(request, around=datetime.fromisoformat(stamp))
    except ValueError:
        return request


def _in_time(records: pl.DataFrame) -> pl.DataFrame:
    """Records in the order of their times; those without one stay behind the line before them."""
    if records["at"].is_null().all() or records["at"].drop_nulls().is_sorted():
        return records
    return records.sort(pl.col("at").forward_fill(), "line", "part", nulls_last=False)


def _timeline(found: Scan, records: pl.DataFrame, request: LogRequest, name: str) -> Timeline:
    begin = None if request.begin is None else round(request.begin.timestamp() * US)
    timeline = Timeline(found.form, request.facts, begin)
    if begin is None and found.first_stamp is not None:
        first = found.first_stamp.with_columns(line=pl.lit(1, dtype=pl.Int64), **_NO_CLOCK)
        timeline.now = with_times(first, request, name)["at"][0]
    for part in records.iter_slices(SLICE):
        for run, is_drawn in drawn_runs(part, found.form):
            take_drawn(timeline, run) if is_drawn else take_all(timeline, run)
    timeline.finish()
    return timeline


def _add_driver(timeline: Timeline, version: str | None) -> None:
    """The driver that a log shows before it trains is that of its first process."""
    if version is not None and timeline.sessions and timeline.sessions[0].began is not None:
        first = timeline.sessions[0]
        first.events.append(Event("driver", first.line, begin=first.began, end=first.began, ended=True, detail=version))


def _report(found: Scan, timeline: Timeline, steps: pl.DataFrame, account: Account) -> None:
    """Everything that a person should know."""
    title, counts = found.form.title, timeline.counts
    account.refused += found.refused
    account.refused += [
        Refused(line, f"step of {title} without a time: {_WITHOUT_TIME}", "") for line in timeline.unplaced
    ]
    account.refused += [
        Refused(line, f"step of {title} without a number: no progress bar alone behind it has one", "")
        for line in timeline.unnumbered
    ]
    account.n_duplicates += counts["duplicates"]
    if counts["averaged"]:
        account.warnings.append(LoadWarning("steps_averaged", counts["averaged"]))
    if counts["reckoned"]:
        account.warnings.append(LoadWarning("times_reckoned", counts["reckoned"]))
    if steps.height and steps["tokens"].is_null().all():
        account.warnings.append(LoadWarning("tokens_unknown", None, title))


_WITHOUT_TIME: Final = "neither its line nor a line before it has one"


def _untimed(name: str, found: Scan, records: pl.DataFrame) -> str:
    steps = records.select(pl.col("step").min().alias("least"), pl.col("step").max().alias("most")).row(0)
    reach = "" if steps[0] is None else f" ({steps[0]:.0f} to {steps[1]:.0f})"
    return (
        f"{name}: a log of {found.form.title} whose steps{reach} have no times, so it is unknown when they were.\n"
        "State when the log begins, if its lines have durations or a progress bar: --begin 2026-10-01T08:00:00Z"
    )


def _took(found: Scan, request: LogRequest) -> float | None:
    """Seconds to the end of the last step of a log without times, as it is placed from any begin on.

    None where it does not say how long steps took, or has times of day: those need the date alone.
    """
    if request.begin is not None:
        return None
    supposed = replace(request, begin=_ANY_BEGIN)
    records = _counted(found, supposed, Account())
    if records["at"].is_not_null().any():
        return None
    steps = _timeline(found, records, supposed, request.file).steps.frame()
    ends = steps.select((pl.col("begin") + pl.col("length")).max())
    return None if ends.item() is None else ends.item() / US - _ANY_BEGIN.timestamp()


_ANY_BEGIN: Final = datetime(2026, 1, 1, tzinfo=UTC)


def _unnumbered(name: str, found: Scan, records: pl.DataFrame) -> str:
    first = records.filter(pl.col("step").is_null())["line"][0]
    return (
        f"{name}: a log of {found.form.title} in which no step has a number (the first without is in line {first}).\n"
        "If the format is one of yours: the first group of its pattern of `step` is to be a number and nothing else"
    )


def _printed(steps: pl.DataFrame, records: pl.DataFrame) -> dict[int, dict[str, Any]]:
    """The speed that a log itself prints, by session: means over the time of its steps; empty where it prints none."""
    names = ["tflops_per_gpu", "mfu_percent"]
    lines = records.filter(pl.any_horizontal(pl.col(names).is_finite() & (pl.col(names) > 0)))
    if lines.is_empty():
        return {}
    weight = pl.col("length").fill_null(0) + 1  # microseconds; alike where no line has a duration
    printed = (
        steps.select("session", "line", "length")
        .join(lines.select("line", *names).unique("line", keep="last"), on="line")
        .group_by("session")
        .agg(
            *((pl.col(each) * weight).sum() / weight.filter(pl.col(each).is_not_null()).sum() for each in names),
            printed_steps=pl.len(),
        )
    )
    facts = {"printed_tflops": pl.col("tflops_per_gpu"), "printed_mfu": pl.col("mfu_percent") / 100}
    known = [pl.when(value.is_finite() & (value > 0)).then(value).alias(name) for name, value in facts.items()]
    return {row.pop("session"): row for row in printed.select("session", *known, "printed_steps").to_dicts()}


def _written(
    sessions: Iterable[Session], steps: pl.DataFrame, request: LogRequest, printed: Mapping[int, dict[str, Any]]
) -> Iterator[bytes | pl.DataFrame]:
    """The run log, session by session; its steps as columns."""
    table = steps.select(
        "session",
        "step",
        t=pl.col("begin") / US,
        duration_s=pl.col("length") / US,
        tokens="tokens",
        loss=pl.when(pl.col("loss").is_finite()).then("loss"),
        line="line",
    )
    for number, session in enumerate(sessions):
        if session.began is None:
            continue
        yield msgspec.json.encode(_run_line(session, request.run_facts()) | printed.get(number, {})) + b"\n"
        own = table.filter(pl.col("session") == number).drop("session")
        yield from own.iter_slices(SLICE)
        for event in session.events:
            line = _event_line(event)
            if line is not None:
                yield msgspec.json.encode(line) + b"\n"


def _run_line(session: Session, stated: Mapping[str, Any]) -> dict[str, Any]:
    """The `run` line: what the log records goes before what is stated, unless it is no such fact."""
    recorded: dict[str, Any] = {}
    for name, value in session.facts.items():
        try:
            recorded |= converted({name: value})
        except OptionError:
            continue
    began = 0 if session.began is None else session.began
    return {"type": "run", "v": 1, "t": began / US, **stated, **recorded, "line": session.line}


def _event_line(event: Event) -> dict[str, Any] | None:
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
