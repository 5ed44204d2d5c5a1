"""Attempts into the warehouse, block by block: new ones are appended, only those seen before are merged and replaced.

New attempts are recognised by fingerprints of job and second (`ingest.slurm.accounting.merge.fingerprints`), eight
bytes for each attempt of the input. Two attempts that share one by chance are merged needlessly, without an effect on
the result.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
import polars as pl

from ingest.load_warnings import LoadWarning
from ingest.slurm.accounting.array_ids import RawIds
from ingest.slurm.accounting.controller_jobs import merge_job_gpus
from ingest.slurm.accounting.merge import fingerprints, merge_attempts
from ingest.slurm.accounting.step_gpus import with_steps
from ingest.slurm.accounting.usage import KEY as USAGE_KEY
from ingest.slurm.accounting.usage import merge_usage
from ingest.tables import (
    ATTEMPT_KEY,
    ATTEMPTS,
    JOB_GPUS,
    STEP_USAGE,
    conform,
    earliest_time,
    latest_time,
    rows_absent_from,
)
from queries.warehouse import ROW_GROUP

if TYPE_CHECKING:
    from queries.warehouse import Writer

MANY: Final = 250_000
"""Attempts seen before in the same input that are put aside before they are merged with the existing ones."""

GROUPS: Final = 2 * ROW_GROUP
"""Rows are written in multiples of this: two row groups at once."""

_JOB: Final = ("cluster", "scheduler", "job_id")
_MARK = "#mark"
_DISPLAYED: Final = pl.when(pl.col("display_id") != pl.col("job_id")).then("display_id").alias("display_id")
_SECOND = timedelta(seconds=1)
_FIRST: Final = datetime(1970, 1, 1, tzinfo=UTC)


class AttemptWriter:
    """Writes the attempts of one input, within the transaction that is open."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._was_empty = not writer.query("any_attempts")["any"].item()
        self._raw_ids = RawIds(writer)
        self._seen = Fingerprints()
        self._jobs = Fingerprints()
        self._several: list[pl.DataFrame] = []
        self._aside: list[pl.DataFrame] = []
        self._n_aside = self._n_fetched = 0
        self._counted = DistinctAttempts()
        self._waiting: list[pl.DataFrame] = []
        self._steps: list[pl.DataFrame] = []
        self._submitted: list[datetime] = []
        self._n_earlier = 0

    def add(self, attempts: pl.DataFrame) -> None:
        """Write a block of attempts that are merged among themselves."""
        if attempts.is_empty():
            return
        n_attempts = attempts.height
        indexed = attempts.filter(pl.col("db_index").is_not_null())["submitted_at"]
        self._submitted += [time for time in (earliest_time(indexed), latest_time(indexed)) if time is not None]
        attempts = self._raw_ids.resolve(attempts)
        self._n_fetched += max(attempts.height - n_attempts, 0)
        self._note_several(attempts)
        marks = fingerprints(attempts)
        again = marks.is_in(self._seen.add(marks).implode())
        self._counted.add(marks, attempts["db_index"], again)
        if again.any():
            attempts, repeated = attempts.filter(~again), attempts.filter(again)
            self._aside.append(repeated)
            self._n_aside += repeated.height
        if self._was_empty:
            self._append(attempts)
        else:
            self._upsert(attempts)
        if self._n_aside > MANY:
            self._merge_aside()

    def add_steps(self, steps: pl.DataFrame) -> None:
        """Keep GPU steps (`step_gpus.STEP_GPUS`) whose attempts are in another block, or in the warehouse."""
        if steps.height:
            self._steps.append(steps)

    def finish(self) -> int:
        """Write what is left; the number of different attempts in the input."""
        self._write_rest()
        n_attempts = self._counted.total() - self._n_fetched
        self._link_ids()
        self._remove_split_arrays()
        self._assign_steps()
        if self._several:
            jobs = pl.concat(self._several).unique()
            self._writer.delete("resubmissions", jobs)
            self._writer.run("add_resubmissions", {"jobs": jobs})
        return n_attempts

    def warnings(self) -> list[LoadWarning]:
        """Warnings about values that contradict earlier loads and were not taken."""
        return [LoadWarning("earlier_ends", self._n_earlier)] if self._n_earlier else []

    def _write_rest(self) -> None:
        self._merge_aside()
        self._write_waiting(whole_groups=False)

    def _link_ids(self) -> None:
        """Put attempts under their raw ids that only the db_index of this input, or of another, links to them."""
        if not self._submitted:
            return
        first, last = min(self._submitted) - _SECOND, max(self._submitted) + _SECOND
        linked = self._raw_ids.linked(first, last)
        if linked.height:
            self.add(linked)
            self._write_rest()

    def _remove_split_arrays(self) -> None:
        gone = self._raw_ids.split_up()
        if gone.height:
            self._writer.delete("stored.attempts", gone)
            self._writer.delete("resubmissions", gone)

    def _assign_steps(self) -> None:
        """Give the attempts in the warehouse the GPUs of steps that were read apart from them."""
        if not self._steps:
            return
        steps = pl.concat(self._steps)
        existing = self._writer.query_with(
            "existing_attempts", {"incoming": steps.select(_JOB).unique()}, since=_FIRST, until=steps["began"].max()
        )
        placed, _ = with_steps(conform(existing, ATTEMPTS), steps)
        changed = placed.join(
            existing.select(*ATTEMPT_KEY, "gpus_steps"), on=[*ATTEMPT_KEY, "gpus_steps"], how="anti", nulls_equal=True
        )
        self._upsert(changed)
        self._write_waiting(whole_groups=False)

    def _note_several(self, attempts: pl.DataFrame) -> None:
        """Keep the jobs with more than one attempt: only their attempts may begin after the job's submission."""
        jobs = attempts.select(_JOB)
        marks = jobs.hash_rows(seed=2)
        again = marks.is_in(self._jobs.add(marks, twice=True).implode())
        if again.any():
            self._several.append(jobs.filter(again).unique())

    def _merge_aside(self) -> None:
        if self._aside:
            self._write_waiting(whole_groups=False)  # some of them may be what is merged with
            self._upsert(merge_attempts(*self._aside))
            self._aside, self._n_aside = [], 0

    def _append(self, attempts: pl.DataFrame) -> None:
        """Write as soon as there are many: a partly filled row group would be written again."""
        self._waiting.append(attempts)
        self._write_waiting(whole_groups=True)

    def _write_waiting(self, *, whole_groups: bool) -> None:
        height = sum(frame.height for frame in self._waiting)
        ready = height // GROUPS * GROUPS if whole_groups else height
        if ready:
            rows = pl.concat(self._waiting)
            self._writer.append("stored.attempts", rows.head(ready).with_columns(_DISPLAYED))
            self._waiting = [rows.tail(height - ready)]

    def _upsert(self, attempts: pl.DataFrame) -> None:
        """Merge with the existing rows, and write the changed ones."""
        if attempts.is_empty():
            return
        attempts = attempts.with_columns(fingerprints(attempts).alias(_MARK))
        existing = conform(
            self._writer.query_with(
                "existing_attempts",
                {"incoming": attempts.select("cluster", "scheduler", "job_id").unique()},
                once=True,
                since=attempts["submitted_at"].min() - _SECOND,  # type: ignore[operator]  # the least of times is a time
                until=attempts["submitted_at"].max() + _SECOND,  # type: ignore[operator]  # as above
            ),
            ATTEMPTS,
        )
        existing = existing.with_columns(fingerprints(existing).alias(_MARK)).join(attempts, on=_MARK, how="semi")
        new = attempts.join(existing, on=_MARK, how="anti").drop(_MARK)
        if new.height:
            self._several.append(self._writer.query_with("existing_jobs", {"incoming": new.select(_JOB)}, once=True))
        self._append(new)
        again = attempts.join(existing, on=_MARK, how="semi")
        merged = merge_attempts(existing, again)
        self._n_earlier += _with_earlier_ends(again, merged)
        merged = merged.with_columns(fingerprints(merged).alias(_MARK))
        changed = rows_absent_from(merged, existing)
        if changed.is_empty():
            return
        self._several.append(changed.select(_JOB))  # a newly loaded user may make it another user's job
        gone = existing.join(changed, on=_MARK, how="semi").select(ATTEMPT_KEY)
        self._writer.delete("stored.attempts", gone)
        self._append(merged.join(changed, on=_MARK, how="semi").drop(_MARK))


def _with_earlier_ends(incoming: pl.DataFrame, merged: pl.DataFrame) -> int:
    """Number of attempts in a load that end earlier than in the warehouse."""
    key = ["cluster", "scheduler", "job_id", "db_index"]
    ends = incoming.filter(pl.col("end_guessed").is_null()).select(*key, "submitted_at", came="ended_at")
    both = ends.join(merged.select(*key, "submitted_at", "ended_at"), on=[*key, "submitted_at"], nulls_equal=True)
    return both.filter(pl.col("came") < pl.col("ended_at")).height


class Fingerprints:
    """A set of 64-bit numbers: sorted arrays, each more than twice as long as the next."""

    def __init__(self) -> None:
        self._runs: list[npt.NDArray[np.uint64]] = []

    def add(self, numbers: pl.Series, *, twice: bool = False) -> pl.Series:
        """Add numbers; returns those that were added before, or (with `twice`) occur more than once in `numbers`."""
        ordered = np.sort(numbers.to_numpy())
        first = np.append(np.ones(min(len(ordered), 1), np.bool_), ordered[1:] != ordered[:-1])
        new = ordered[first]
        repeated = np.zeros(len(new), np.bool_)
        for run in self._runs:
            at = np.minimum(np.searchsorted(run, new), len(run) - 1)
            repeated |= run[at] == new
        repeats = [new[repeated], *([ordered[~first]] if twice else [])]
        self._add(new[~repeated])
        return pl.Series(np.concatenate(repeats))

    def _add(self, run: npt.NDArray[np.uint64]) -> None:
        while self._runs and len(self._runs[-1]) <= 2 * len(run):
            run = np.sort(np.concatenate([self._runs.pop(), run]), kind="stable")  # merges what is sorted
        if len(run):
            self._runs.append(run)


class DistinctAttempts:
    """Number of distinct attempts in an input whose later blocks may repeat some.

    An attempt is a job, a second and a db_index; one without db_index is the first of its second.
    """

    def __init__(self) -> None:
        self._rows = 0
        self._blocks: list[pl.DataFrame] = []
        self._again: list[pl.Series] = []

    def add(self, marks: pl.Series, indexes: pl.Series, again: pl.Series) -> None:
        """Add the attempts of a block; `again` marks those in a second that occurred before."""
        self._rows += len(marks)
        self._blocks.append(pl.DataFrame({"mark": marks, "index": indexes}))
        if again.any():
            self._again.append(marks.filter(again))

    def total(self) -> int:
        """Different attempts so far."""
        if not self._again:
            return self._rows
        repeated = pl.concat(self._again).unique().alias("mark").to_frame()
        rows = pl.concat([block.join(repeated, on="mark", how="semi") for block in self._blocks])
        different = rows.group_by("mark").agg(pl.max_horizontal(pl.col("index").drop_nulls().n_unique(), 1))
        return self._rows - rows.height + int(different["index"].sum())


def write_attempts(writer: Writer, attempts: pl.DataFrame) -> None:
    """Attempts of one input, at once."""
    attempt_writer = AttemptWriter(writer)
    attempt_writer.add(attempts)
    attempt_writer.finish()


def write_node_lists(writer: Writer, lists: pl.DataFrame) -> None:
    """Node lists that are new."""
    writer.append_new("node_lists", lists, keys=["node_list"])


def write_job_gpus(writer: Writer, jobs: pl.DataFrame) -> None:
    """GPUs of jobs as slurmctld shows them."""
    keys = ["cluster", "job_id", "submitted_at"]
    existing = writer.matching("job_gpus", jobs, keys=keys)
    writer.replace("job_gpus", merge_job_gpus(conform(existing, JOB_GPUS), jobs), keys=keys)


def write_step_usage(writer: Writer, usage: pl.DataFrame) -> None:
    """Recorded use of steps, merged with that of earlier loads."""
    if usage.is_empty():
        return
    span = {"since": usage["started_at"].min(), "until": usage["started_at"].max()}
    existing = writer.query_with("existing_step_usage", {"incoming": usage.select(USAGE_KEY)}, once=True, **span)
    existing = conform(existing, STEP_USAGE)
    merged = merge_usage(existing, usage)
    changed = rows_absent_from(merged, existing)
    writer.delete("step_usage", changed.join(existing, on=list(USAGE_KEY), how="semi").select(USAGE_KEY))
    writer.append("step_usage", changed)


def write_job_summaries(writer: Writer, summaries: pl.DataFrame) -> None:
    """Summaries of jobstats that are new."""
    writer.append_new("job_summaries", summaries, keys=["digest", "node"])
