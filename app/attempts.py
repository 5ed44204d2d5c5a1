"""Attempts into the warehouse, block by block: new ones are appended, only those seen before are merged and replaced.

Which are new is told by fingerprints of job and second (`ingest.merge.fingerprints`), eight bytes for each attempt of
the input. Where two attempts share one by chance they are merged needlessly, and nothing else happens.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
import polars as pl

from app.raw_ids import RawIds
from ingest.frames import ATTEMPT_KEY, ATTEMPTS, conform
from ingest.merge import attempt_nodes, fingerprints, merge_attempts
from queries.warehouse import ROW_GROUP

if TYPE_CHECKING:
    from queries.warehouse import Writer

MANY: Final = 250_000
"""Attempts seen before in the same input that are put aside before they are merged with what is there."""

GROUPS: Final = 2 * ROW_GROUP
"""Rows are written in multiples of this: two row groups at once."""

_JOB: Final = ("cluster", "scheduler", "job_id")
_MARK = "#mark"
_SECOND = timedelta(seconds=1)


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
        self._n_aside = 0
        self._counted = Counted()
        self._waiting: dict[str, list[pl.DataFrame]] = {"attempts": [], "attempt_nodes": []}

    def add(self, attempts: pl.DataFrame, lists: pl.DataFrame | None = None) -> None:
        """Write a block of attempts that are merged among themselves; `lists` as for `attempt_nodes`."""
        if attempts.is_empty():
            return
        settled = self._raw_ids.settle(attempts)
        lists = lists if settled is attempts else None
        attempts = settled.with_columns(pl.coalesce("first_submitted_at", "submitted_at").alias("first_submitted_at"))
        self._note_several(attempts)
        marks = fingerprints(attempts)
        again = self._seen.known(marks.to_numpy())
        self._counted.add(marks, attempts["db_index"], again)
        self._seen.add(marks.filter(pl.Series(~again)).to_numpy())
        if again.any():
            attempts, repeated = attempts.filter(pl.Series(~again)), attempts.filter(pl.Series(again))
            self._aside.append(repeated)
            self._n_aside += repeated.height
        if self._was_empty:
            self._append(attempts, lists)
        else:
            self._upsert(attempts, lists)
        if self._n_aside > MANY:
            self._merge_aside()

    def finish(self) -> int:
        """Write what is left; the number of different attempts that the input told of."""
        self._merge_aside()
        self._write_waiting(whole_groups=False)
        if self._several:
            self._writer.run("set_first_submitted", {"jobs": pl.concat(self._several).unique()})
        return self._counted.total()

    def _note_several(self, attempts: pl.DataFrame) -> None:
        """Keep which jobs have more than one attempt: only those do not begin with their own submission."""
        jobs = attempts.select(_JOB)
        marks = jobs.hash_rows(seed=2)
        known = pl.Series(self._jobs.known(marks.to_numpy()))
        again = known | marks.is_duplicated()
        self._jobs.add(marks.filter(~known).unique().to_numpy())
        if again.any():
            self._several.append(jobs.filter(again).unique())

    def _merge_aside(self) -> None:
        if self._aside:
            self._write_waiting(whole_groups=False)  # some of them may be what is merged with
            self._upsert(merge_attempts(*self._aside), None)
            self._aside, self._n_aside = [], 0

    def _append(self, attempts: pl.DataFrame, lists: pl.DataFrame | None) -> None:
        """Have them written as soon as there are many: a row group that is written in part is written again."""
        self._waiting["attempts"].append(attempts)
        self._waiting["attempt_nodes"].append(attempt_nodes(attempts, lists=lists))
        self._write_waiting(whole_groups=True)

    def _write_waiting(self, *, whole_groups: bool) -> None:
        for table, frames in self._waiting.items():
            height = sum(frame.height for frame in frames)
            ready = height // GROUPS * GROUPS if whole_groups else height
            if not ready:
                continue
            rows = pl.concat(frames, rechunk=True)
            self._writer.append(table, rows.head(ready))
            self._waiting[table] = [rows.tail(height - ready)]

    def _upsert(self, attempts: pl.DataFrame, lists: pl.DataFrame | None) -> None:
        """Merge with what is there, and write what that changes."""
        if attempts.is_empty():
            return
        attempts = attempts.with_columns(fingerprints(attempts).alias(_MARK))
        there = conform(
            self._writer.query_with(
                "existing_attempts",
                {"incoming": attempts.select("cluster", "scheduler", "job_id").unique()},
                since=attempts["submitted_at"].min() - _SECOND,  # type: ignore[operator]  # the least of times is a time
                until=attempts["submitted_at"].max() + _SECOND,  # type: ignore[operator]  # as above
            ),
            ATTEMPTS,
        )
        there = there.with_columns(fingerprints(there).alias(_MARK)).join(attempts, on=_MARK, how="semi")
        new = attempts.join(there, on=_MARK, how="anti").drop(_MARK)
        if new.height:
            self._several.append(self._writer.query_with("jobs_there", {"incoming": new.select(_JOB)}))
        self._append(new, lists)
        merged = merge_attempts(there, attempts.join(there, on=_MARK, how="semi"))
        merged = merged.with_columns(fingerprints(merged).alias(_MARK))
        changed = merged.join(there, on=merged.columns, how="anti", nulls_equal=True)
        if changed.is_empty():
            return
        self._several.append(changed.select(_JOB))  # a user told only now may make it another's job
        gone = there.join(changed, on=_MARK, how="semi").select(ATTEMPT_KEY)
        self._writer.delete("attempts", gone)
        self._writer.delete("attempt_nodes", gone)
        self._append(merged.join(changed, on=_MARK, how="semi").drop(_MARK), None)


class Fingerprints:
    """A set of 64-bit numbers: sorted arrays, each more than twice as long as the next."""

    def __init__(self) -> None:
        self._runs: list[npt.NDArray[np.uint64]] = []

    def add(self, numbers: npt.NDArray[np.uint64]) -> None:
        """Take in numbers."""
        run = np.sort(numbers)
        while self._runs and len(self._runs[-1]) <= 2 * len(run):
            run = np.sort(np.concatenate([self._runs.pop(), run]), kind="stable")  # merges what is sorted
        self._runs.append(run)

    def known(self, numbers: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
        """Which of the numbers were taken in before."""
        found = np.zeros(len(numbers), np.bool_)
        order = np.argsort(numbers)
        ordered = numbers[order]
        for run in self._runs:
            if len(run):
                at = np.minimum(np.searchsorted(run, ordered), len(run) - 1)
                found[order] |= run[at] == ordered
        return found


class Counted:
    """How many different attempts an input tells of, where later blocks may tell of the same again.

    An attempt is a job, a second and a db_index; one without db_index is the first of its second.
    """

    def __init__(self) -> None:
        self._rows = 0
        self._blocks: list[pl.DataFrame] = []
        self._again: list[pl.Series] = []

    def add(self, marks: pl.Series, indexes: pl.Series, again: npt.NDArray[np.bool_]) -> None:
        """Take in the attempts of a block, and which of them lie in a second that was there before."""
        self._rows += len(marks)
        self._blocks.append(pl.DataFrame({"mark": marks, "index": indexes}))
        if again.any():
            self._again.append(marks.filter(pl.Series(again)))

    def total(self) -> int:
        """Different attempts so far."""
        if not self._again:
            return self._rows
        repeated = pl.concat(self._again).unique().alias("mark").to_frame()
        rows = pl.concat([block.join(repeated, on="mark", how="semi") for block in self._blocks])
        different = rows.group_by("mark").agg(pl.max_horizontal(pl.col("index").drop_nulls().n_unique(), 1))
        return self._rows - rows.height + int(different["index"].sum())
