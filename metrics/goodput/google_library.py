"""Job goodput with every rule and quirk of Google's ml-goodput-measurement, so that its printed figures can be checked.

`metrics.goodput.job` is the account that always adds up. This is the library's own: the same on a log of a job that
goes back to a checkpoint of its last segment, and different where the library counts otherwise:

- a disruption is a step number that the current segment has had already; a restart further back is none, and the steps
  it runs again count twice;
- after a restart from step 0 nothing of the segment before is booked, so its time is in `other`;
- the last step is the highest number, and ends with the last job end even where the job went on after that;
- recovery counts from the last step to the latest job start, whichever that is;
- only events within a kept step come out of it, and overlapping ones each time; initialisation, preparation and data
  loading are booked whole wherever they lie; checkpoint writes come off the productive time at the end, and those of a
  step that was saved several times count as one of average length;
- a bucket that is negative or above the total is dropped, and `other` is never below zero.

Source: AI-Hypercomputer/ml-goodput-measurement v0.2.3, src/goodput.py, `GoodputCalculator.get_job_goodput`. A test runs
the library itself on the same logs.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from metrics.goodput.job import INFRASTRUCTURE_RECOVERY, OTHER, PROGRAM_STARTUP, WASTED_PROGRESS, JobGoodput
from metrics.metric import Metric

if TYPE_CHECKING:
    from collections.abc import Sequence

    from metrics.goodput.job import Event, Floats, Longs

Checkpoint: TypeAlias = tuple[int, float]
"""Step, seconds."""

TPU_INITIALIZATION = "tpu_initialization"
TRAINING_PREP = "training_prep"
DATA_LOADING_SYNC = "data_loading_sync"
DATA_LOADING_ASYNC = "data_loading_async"
CHECKPOINT_SAVE = "unproductive_checkpoint_save_time"
CHECKPOINT_RESTORE = "unproductive_checkpoint_restore_time"

WHOLE = {"init": TPU_INITIALIZATION, "compile": TRAINING_PREP}
"""Kinds of our run log's events that the library books whole, and its names for them."""

DATA = "data"


def library_goodput(
    job_starts: Sequence[float],
    step_numbers: Sequence[int],
    step_starts: Sequence[float],
    *,
    job_end: float | None,
    now: float,
    events: Sequence[Event] = (),
    saves: Sequence[Checkpoint] = (),
    restores: Sequence[Checkpoint] = (),
) -> JobGoodput:
    """Goodput of one job run as the library prints it: arguments and account as of `metrics.goodput.job.job_goodput`.

    Events of the kinds in `WHOLE` and `data` are what the library has entries for; all others are its custom events.
    Of saves (those that training waited for) and restores it has the step and the seconds that each took. The log
    is taken in the order of time; at one moment job starts and events' ends come before steps.

    >>> library_goodput([0], range(5), [5, 8, 11, 14, 17], job_end=20, now=20).goodput
    0.75
    """
    if not len(job_starts):
        return JobGoodput(0.0, 0.0, {OTHER: 0.0}, None, 0)
    order = np.argsort(np.asarray(step_starts, dtype=float), kind="stable")
    starts = np.asarray(step_starts, dtype=float)[order]
    numbers = np.asarray(step_numbers, dtype=np.int64)[order]
    total = (now if job_end is None else job_end) - min(job_starts)
    custom = [event for event in events if event[0] not in {*WHOLE, DATA}]
    log = _LibraryAccount(numbers, starts, custom)
    breaks = _disruptions(numbers)
    log.book_segments(breaks, sorted(job_starts))
    saved = _of_steps(saves)
    if len(numbers):
        log.productive += (0.0 if job_end is None else job_end - log.last_start) - saved
        log.max_step = log.max_step if job_end is None else log.last_number
    buckets = log.buckets | {name: _length(events, kind) for kind, name in WHOLE.items()}
    buckets |= {CHECKPOINT_SAVE: saved, CHECKPOINT_RESTORE: _of_steps(restores)}
    buckets |= _data(events, starts[breaks].tolist())
    return _closed(total, log.productive, buckets, log.max_step, len(breaks))


def _disruptions(numbers: Longs) -> list[int]:
    """Places of the steps that close a segment: those whose number it has had."""
    segment_starts: list[int] = []
    falls = [*(np.flatnonzero(np.diff(numbers) <= 0) + 1).tolist(), len(numbers)]
    begin = 0
    for at, stop in itertools.pairwise(falls):
        again = np.isin(numbers[at:stop], numbers[begin:at])
        # Numbers rise from one fall to the next, so a segment from the first repeated number on has no repeats.
        if again.any():
            begin = at + int(np.argmax(again))
            segment_starts.append(begin)
    return segment_starts


class _LibraryAccount:
    """The account of one job while it is being made, as the library makes it."""

    def __init__(self, numbers: Longs, starts: Floats, custom: Sequence[Event]) -> None:
        self._numbers, self._starts, self._custom = numbers, starts, custom
        self.productive = 0.0
        self.buckets: dict[str, float] = {}
        self.last_start, self.last_number = 0.0, 0
        self.max_step: int | None = None
        """The last productive step of the last segment, as the library has it; None where it has none."""

    def book_segments(self, breaks: list[int], job_starts: list[float]) -> None:
        """Book every segment, and the recovery after each that was disrupted."""
        begin = 0
        for at in breaks:
            self._book(begin, at, int(self._numbers[at]))
            last, again = float(self._starts[at - 1]), float(self._starts[at])
            latest = max((start for start in job_starts if start <= again), default=last)
            self._add(INFRASTRUCTURE_RECOVERY, max(0.0, latest - last))
            begin = at
        if len(self._numbers):
            highest = begin + int(np.argmax(self._numbers[begin:]))
            self.last_start, self.last_number = float(self._starts[highest]), int(self._numbers[highest])
            self._book(begin, len(self._numbers), int(self._numbers[highest]))

    def _book(self, first: int, stop: int, up_to: int) -> None:
        """Book the steps from one place to another; those that end at a number above `up_to` were wasted."""
        self.max_step = None
        if up_to == 0:
            return
        numbers, starts = self._numbers[first:stop], self._starts[first:stop]
        lengths, ends_at = np.diff(starts), numbers[1:]
        steps_kept = ends_at <= up_to
        counted = steps_kept & (np.diff(numbers) == 1)
        self._add(WASTED_PROGRESS, float(lengths[~steps_kept].sum()))
        if not counted.any():
            return
        self.max_step = int(numbers[:-1][counted][-1])
        times = np.maximum(0.0, lengths - self._within(starts, counted))
        opening = counted & (numbers[:-1] == numbers.min())
        others = times[counted & ~opening]
        one = float(times[opening][-1]) if opening.any() else 0.0
        startup = max(0.0, one - float(times[counted].sum() - one) / len(others)) if len(others) else 0.0
        self._add(PROGRAM_STARTUP, startup)
        self.productive += (float(times[counted].sum()) if len(others) else one) - startup

    def _within(self, starts: Floats, counted: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> Floats:
        """Seconds of custom events that lie within each counted step: overlapping ones each time."""
        spent = np.zeros(len(counted))
        for kind, begin, end in self._custom:
            # An event of no length is none; one from a step's very begin to its very end lies within it.
            at = int(np.searchsorted(starts, begin, side="right")) - 1
            if begin < end and 0 <= at < len(counted) and end <= starts[at + 1] and counted[at]:
                spent[at] += end - begin
                self._add(kind, end - begin)
        return spent

    def _add(self, bucket: str, seconds: float) -> None:
        self.buckets[bucket] = self.buckets.get(bucket, 0.0) + seconds


def _length(events: Sequence[Event], kind: str) -> float:
    return float(sum(end - begin for name, begin, end in events if name == kind))


def _of_steps(checkpoints: Sequence[Checkpoint]) -> float:
    """Seconds of saves or restores: the average of each step's, added up."""
    by_step: dict[int, list[float]] = {}
    for step, seconds in checkpoints:
        by_step.setdefault(step, []).append(seconds)
    return sum(sum(each) / len(each) for each in by_step.values())


def _data(events: Sequence[Event], disruptions: list[float]) -> dict[str, float]:
    """Loading of data at the start and after each disruption holds training up; what comes later does not.

    After a disruption the library books the last loading before it (again) and the first one after it.
    """
    loads = sorted((end, end - begin) for kind, begin, end in events if kind == DATA)
    waits, held_up, latest = True, 0.0, None
    moments = sorted([*((end, 0, length) for end, length in loads), *((when, 1, 0.0) for when in disruptions)])
    for _, disrupted, length in moments:
        if disrupted:
            waits, held_up, latest = True, held_up + (latest or 0.0), None
            continue
        latest = length
        held_up += length if waits else 0.0
        waits = False
    return {DATA_LOADING_SYNC: held_up, DATA_LOADING_ASYNC: sum(length for _, length in loads) - held_up}


def _closed(
    total: float, productive: float, buckets: dict[str, float], max_step: int | None, disruptions: int
) -> JobGoodput:
    """The account with `other`; buckets outside 0 to `total` are dropped, and the note names them."""
    senseless = [name for name, seconds in buckets.items() if not 0 <= seconds <= total]
    positive = {name: seconds for name, seconds in buckets.items() if seconds > 0 and name not in senseless}
    booked = sum(seconds for name, seconds in positive.items() if name != DATA_LOADING_ASYNC)
    warnings = [f"{name} could not be computed" for name in senseless]
    if not 0 <= productive <= total:
        warnings.append("the productive time lies outside the job's: the library refuses such a log")
    badput = positive | {OTHER: max(0.0, total - productive - booked)}
    return JobGoodput(total, productive, badput, max_step, disruptions, warnings)


# Published metrics --------------------------------------------------------------------------------------------------


METRICS = (
    Metric(
        name="goodput_job",
        unit="ratio",
        summary="Share of logged runs' wall time that went into steps that were kept, as Google's library prints it.",
        formula=(
            "productive step seconds / (last end - first process start) of the runs; each step lasts until the "
            "next begins"
        ),
        query="steps",
        function=library_goodput,
        interval="none: a census of the logs",
        source="AI-Hypercomputer/ml-goodput-measurement 0.2.3; equal to it on the same log (tests run the library)",
    ),
)
