"""Job goodput from a step log, as Google's ml-goodput-measurement defines it, to compare with numbers made by it.

A step has no logged end: it lasts until the next one begins. Everything between the job's first start and its end is
productive, in a named bucket, or `other`. It is a job-level share of wall time: queueing after the first start counts,
GPUs do not. Trackside's own account is the ledger; it differs, see `job_goodput` for where.

Source: AI-Hypercomputer/ml-goodput-measurement v0.2.3, src/goodput.py and src/goodput_utils.py.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Sequence

Floats: TypeAlias = npt.NDArray[np.float64]
Longs: TypeAlias = npt.NDArray[np.int64]
Event: TypeAlias = tuple[str, float, float]
"""Kind, begin, end; seconds."""

PROGRAM_STARTUP = "program_startup"
WASTED_PROGRESS = "wasted_progress_from_disruption"
INFRASTRUCTURE_RECOVERY = "infrastructure_recovery_from_disruption"
OTHER = "other"

MIN_STEP_S = 1.0
"""Step times below count as none."""

ANOMALOUS_MADS = 3.0
"""A step slower than the median by more than this many median absolute deviations is no measure of the ideal one."""


@dataclass(frozen=True)
class JobGoodput:
    """Wall time of a job by use, in seconds. `productive_s` and the buckets add up to `total_s`.

    `max_step` is the last productive step: one that was kept, and was over. None where there is none.
    """

    total_s: float
    productive_s: float
    badput_s: dict[str, float]
    max_step: int | None
    disruptions: int
    warnings: list[str] = field(default_factory=list)

    @property
    def goodput(self) -> float | None:
        """Productive share of the total (0-1); None where there is no time."""
        return self.productive_s / self.total_s if self.total_s > 0 else None


def job_goodput(
    job_starts: Sequence[float],
    step_numbers: Sequence[int],
    step_starts: Sequence[float],
    *,
    job_end: float | None,
    now: float,
    events: Sequence[Event] = (),
) -> JobGoodput:
    """Goodput of one job run from the beginnings of its steps.

    - total: from the first job start to `job_end`, or `now` while there is none.
    - A step number that is not above the last one closes a segment (a disruption). Of the segments before, steps below
      it were kept, the others were wasted. Steps whose numbers do not follow one another contribute nothing. A restart
      that goes on exactly where the last process ended is no disruption here: its downtime is in that last step.
    - `program_startup`: what a segment's first step took longer than the mean of its other kept ones.
    - `infrastructure_recovery_from_disruption`: from the beginning of the last step to the next job start. So the step
      that was cut off is in it, and a restart within the process has none.
    - The very last step is productive only if the job has ended.
    - Events that lie within a kept step come out of it and have buckets of their own; so have those between steps.
    - `other`: the rest. After a restart from step 0 it holds the wasted steps, too: the library books none then.

    Unlike the library, blocking saves are events like others, a restart that goes back behind the segment before
    wastes steps of earlier ones, and `other` is what makes the sum exact.

    Args:
        job_starts: times at which the job's processes began, seconds on any clock.
        step_numbers: of the steps in the order of their beginnings.
        step_starts: their beginnings, on the same clock.
        job_end: when the last process ended in good order; None if it runs or was killed.
        now: up to when the log was read.
        events: what happened apart from steps, overlaps counted once.

    Returns:
        The account. With no job start, all is zero.

    Raises:
        ValueError: as many numbers as beginnings are needed.

    >>> job_goodput([0], range(5), [5, 8, 11, 14, 17], job_end=20, now=20).goodput
    0.75
    """
    if len(step_numbers) != len(step_starts):
        raise ValueError(f"{len(step_numbers)} step numbers, but {len(step_starts)} beginnings")
    if not len(job_starts):
        return JobGoodput(0.0, 0.0, {OTHER: 0.0}, None, 0)
    began, ended = min(job_starts), now if job_end is None else job_end
    order = np.argsort(np.asarray(step_starts, dtype=float), kind="stable")
    starts = np.asarray(step_starts, dtype=float)[order]
    numbers = np.asarray(step_numbers, dtype=np.int64)[order]
    inside = (starts >= began) & (starts <= ended)
    account = _JobAccount(numbers[inside], starts[inside], began, max(ended - began, 0.0))
    account.book_steps(events)
    account.book_recoveries(sorted(job_starts))
    account.book_last_step(job_end)
    account.book_between(events, ended)
    outside = int((~inside).sum())
    return account.closed([f"steps outside the job, left out: {outside}"] if outside else [])


class _JobAccount:
    """The account of one job while it is being made."""

    def __init__(self, numbers: Longs, starts: Floats, began: float, total: float) -> None:
        self._numbers, self._starts, self._began, self._total = numbers, starts, began, total
        self._productive = 0.0
        self._max_step: int | None = None
        self._buckets: dict[str, float] = {}
        back = (np.flatnonzero(np.diff(numbers) <= 0) + 1).tolist()
        self._segments = list(itertools.pairwise([0, *back, len(numbers)])) if len(numbers) else []
        """Indices of the first step of each segment, and behind its last."""
        self._taken: list[tuple[float, float]] = []
        """Intervals that are booked already, apart from the steps."""

    def book_steps(self, events: Sequence[Event]) -> None:
        """Book the steps of each segment that another step followed."""
        for at, (first, stop) in enumerate(self._segments):
            later = self._numbers[[first for first, _ in self._segments[at + 1 :]]]
            self._book_segment(first, stop, int(later.min()) if len(later) else None, events)

    def _book_segment(self, first: int, stop: int, back_to: int | None, events: Sequence[Event]) -> None:
        """Book the steps from one index to another; steps from `back_to` on were run again later."""
        numbers, starts = self._numbers[first:stop], self._starts[first:stop]
        lengths, ends_at = np.diff(starts), numbers[1:]
        steps_kept = np.ones(len(lengths), dtype=bool) if back_to is None else ends_at <= back_to
        if back_to != 0:  # the library's own: after a restart from 0 the steps are in `other`
            self._add(WASTED_PROGRESS, float(lengths[~steps_kept].sum()))
        counted = steps_kept & (np.diff(numbers) == 1)
        lengths = lengths - self._within(starts, counted, events)
        times = lengths[counted]
        others = times[1:] if counted[:1].any() else times[:0]
        startup = max(0.0, float(times[0] - others.mean())) if len(others) else 0.0
        self._add(PROGRAM_STARTUP, startup)
        self._productive += float(times.sum()) - startup
        self._reach_steps(numbers[:-1][counted])

    def _reach_steps(self, productive: Longs) -> None:
        """Note the highest productive step."""
        reached = productive.tolist() if self._max_step is None else [self._max_step, *productive.tolist()]
        self._max_step = max(reached, default=None)

    def _within(self, starts: Floats, counted: npt.NDArray[np.bool_], events: Sequence[Event]) -> Floats:
        """Seconds of events that lie within each counted step, booked under their kinds."""
        spent = np.zeros(len(counted))
        reached = -np.inf
        for kind, begin, end in sorted(events, key=lambda event: event[1:]):
            at = int(np.searchsorted(starts, begin, side="right")) - 1
            if not 0 <= at < len(counted) or end > starts[at + 1] or not counted[at]:
                continue
            new = max(0.0, end - max(begin, reached))
            reached = max(reached, end)
            spent[at] += new
            self._add(kind, new)
        return spent

    def book_recoveries(self, job_starts: Sequence[float]) -> None:
        """From the last step before a disruption to the first job start after it."""
        for first, _ in self._segments[1:]:
            last, again = self._starts[first - 1], self._starts[first]
            began = next((start for start in job_starts if last < start <= again), None)
            if began is not None:
                self._add(INFRASTRUCTURE_RECOVERY, began - float(last))
                self._taken.append((float(last), began))

    def book_last_step(self, job_end: float | None) -> None:
        """The last step has no successor; it ends with the job."""
        if job_end is not None and len(self._starts):
            self._productive += max(0.0, job_end - float(self._starts[-1]))
            self._reach_steps(self._numbers[-1:])
            self._taken.append((float(self._starts[-1]), job_end))

    def book_between(self, events: Sequence[Event], ended: float) -> None:
        """Events outside steps: before the first of a segment, or after its last."""
        free = self._gaps(ended)
        reached = -np.inf
        for kind, begin, end in sorted(events, key=lambda event: event[1:]):
            low = max(begin, reached)
            self._add(kind, sum(max(0.0, min(end, stop) - max(low, start)) for start, stop in free))
            reached = max(reached, end)

    def _gaps(self, ended: float) -> list[tuple[float, float]]:
        """Stretches of the job in which no step ran that another followed, and nothing is booked yet."""
        busy = [(float(self._starts[first]), float(self._starts[stop - 1])) for first, stop in self._segments]
        gaps, reached = [], self._began
        for low, high in sorted([*busy, *self._taken]):
            if low > reached:
                gaps.append((reached, low))
            reached = max(reached, high)
        return [*gaps, (reached, ended)] if ended > reached else gaps

    def _add(self, bucket: str, seconds: float) -> None:
        if seconds > 0:
            self._buckets[bucket] = self._buckets.get(bucket, 0.0) + seconds

    def closed(self, warnings: list[str]) -> JobGoodput:
        """The account, with the rest in `other`."""
        rest = self._total - self._productive - sum(self._buckets.values())
        badput = self._buckets | {OTHER: self._buckets.get(OTHER, 0.0) + max(0.0, rest)}
        disruptions = max(0, len(self._segments) - 1)
        return JobGoodput(self._total, self._productive, badput, self._max_step, disruptions, warnings)


# --- step times ------------------------------------------------------------------------------------------------------
