"""Array tasks and het components under one id: Slurm has two for each, raw and displayed, and a dump may use either.

A dump without JobIDRaw has displayed ids only: 29_0, 11+1. Where another load has the raw id, all attempts of the job
are stored under it, whichever load came first. Where a displayed id had several raw ids (ids are used again when a
database is lost), the second of submission decides.

Two things link the ids: a row with both, and DBIndex, where a row with JobID alone and a row with JobIDRaw alone have
it. DBIndex is the key of slurmdbd's row; the cluster and the second of submission must agree, too, for a new database
counts from 1 again. Both rows must have started: the record of a waiting array (raw id of the array) may hand its
DBIndex to the first task that starts (another raw id).

Nothing else links them. Submit, user, nodes, Start and End are often the same for several tasks of an array, and
whether they are unique depends on what was loaded before: a link by them could join two tasks into one, and the result
would depend on the order of the loads. Such jobs stay apart until a load has both ids, or DBIndex.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from ingest.slurm.accounting.merge import merge_attempts
from ingest.tables import ATTEMPT_KEY, ATTEMPTS, conform, empty

if TYPE_CHECKING:
    from datetime import datetime

    from queries.warehouse import Writer

_BY_DISPLAY: Final = pl.col("job_id").str.contains("[_+]") & (pl.col("scheduler") == "slurm")
_SECOND: Final = pl.col("submitted_at").dt.truncate("1s").alias("second")
_MATCH: Final = ("cluster", "scheduler", "job_id", "second")


class RawIds:
    """Puts attempts under their raw ids, within the transaction that is open."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._any = bool(writer.query("any_under_display_id")["any"].item())

    def linked(self, since: datetime, until: datetime) -> pl.DataFrame:
        """Attempts stored under raw ids, with the display ids that DBIndex links them to, as `ATTEMPTS`.

        Loading them again moves the rows stored under those display ids. All attempts of the input must be stored.

        Args:
            since: The first submission of the input's attempts.
            until: Their last one.
        """
        if not self._any:
            return empty(ATTEMPTS)
        return conform(self._writer.query("linked_by_db_index", since=since, until=until), ATTEMPTS)

    def split_up(self) -> pl.DataFrame:
        """Keys of waiting arrays whose tasks are all stored under displayed ids, so that none waits in the array.

        Where raw ids are known, the record of the array is that of one of its tasks, and its start is that task's.
        """
        return self._writer.query("arrays_split_up") if self._any else empty(ATTEMPTS).select(ATTEMPT_KEY)

    def resolve(self, attempts: pl.DataFrame) -> pl.DataFrame:
        """The same attempts under raw ids where they are known; merged among themselves, as they came.

        Attempts in the warehouse whose raw ids come from these are removed there, and are part of the result.
        """
        by_display = attempts.select(_BY_DISPLAY.any()).item()
        if by_display:
            attempts = self._renamed(attempts)
            self._any = True
        return self._with_existing(attempts) if self._any else attempts

    def _renamed(self, attempts: pl.DataFrame) -> pl.DataFrame:
        """Attempts with a display id only, under the raw ids of the warehouse."""
        seconds = attempts.with_columns(_SECOND)
        requested_ids = seconds.filter(_BY_DISPLAY).select(_MATCH).unique()
        raw_ids = self._writer.query_with("raw_ids", {"incoming": requested_ids})
        if raw_ids.is_empty():
            return attempts
        named = seconds.join(
            raw_ids.cast({"second": seconds["second"].dtype}), on=_MATCH, how="left", maintain_order="left"
        )
        return merge_attempts(
            named.with_columns(pl.coalesce("raw_id", "job_id").alias("job_id")).select(list(ATTEMPTS))
        )

    def _with_existing(self, attempts: pl.DataFrame) -> pl.DataFrame:
        """Attempts of the warehouse under display ids whose raw ids these have, merged with them."""
        with_raw_ids = attempts.filter(pl.col("display_id").str.contains("[_+]") & ~_BY_DISPLAY)
        requested_ids = with_raw_ids.select("cluster", "scheduler", "job_id", "display_id", _SECOND).unique()
        existing = self._writer.query_with("attempts_under_display_id", {"incoming": requested_ids})
        if existing.is_empty():
            return attempts
        gone = existing.select(ATTEMPT_KEY)
        self._writer.delete("stored.attempts", gone)
        self._writer.delete("resubmissions", gone)
        return merge_attempts(conform(existing.with_columns(pl.col("raw_id").alias("job_id")), ATTEMPTS), attempts)
