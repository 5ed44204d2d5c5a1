"""Array tasks and het components under one id, whichever of the two that Slurm has for them a dump told.

A dump without JobIDRaw knows them only as people see them: 29_0, 11+1. Where another load tells the raw id, they are
under that one, all attempts of the job together, whichever load came first. Where an id that people see had several raw
ones (ids are given again when a database is lost), the second of submission decides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from ingest.slurm.accounting.merge import merge_attempts
from ingest.tables import ATTEMPT_KEY, ATTEMPTS, conform

if TYPE_CHECKING:
    from queries.warehouse import Writer

_BY_DISPLAY: Final = pl.col("job_id").str.contains("[_+]") & (pl.col("scheduler") == "slurm")
_SECOND: Final = pl.col("submitted_at").dt.truncate("1s").alias("second")
_MATCH: Final = ("cluster", "scheduler", "job_id", "second")


class RawIds:
    """Puts attempts under their raw ids, within the transaction that is open."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._any = bool(writer.query("any_under_display_id")["any"].item())

    def settle(self, attempts: pl.DataFrame) -> pl.DataFrame:
        """The same attempts under raw ids where they are known; merged among themselves, as they came.

        Attempts of the warehouse that these tell the raw ids of are taken out of it, and are among the result.
        """
        by_display = attempts.select(_BY_DISPLAY.any()).item()
        if by_display:
            attempts = self._renamed(attempts)
            self._any = True
        return self._with_known(attempts) if self._any else attempts

    def _renamed(self, attempts: pl.DataFrame) -> pl.DataFrame:
        """Attempts told by display id only, under the raw ids that the warehouse knows."""
        told = attempts.with_columns(_SECOND)
        asked = told.filter(_BY_DISPLAY).select(_MATCH).unique()
        known = self._writer.query_with("raw_ids", {"incoming": asked})
        if known.is_empty():
            return attempts
        named = told.join(known.cast({"second": told["second"].dtype}), on=_MATCH, how="left", maintain_order="left")
        return merge_attempts(
            named.with_columns(pl.coalesce("raw_id", "job_id").alias("job_id")).select(list(ATTEMPTS))
        )

    def _with_known(self, attempts: pl.DataFrame) -> pl.DataFrame:
        """Attempts of the warehouse under display ids whose raw ids these tell, merged with them."""
        telling = attempts.filter(pl.col("display_id").str.contains("[_+]") & ~_BY_DISPLAY)
        asked = telling.select("cluster", "scheduler", "job_id", "display_id", _SECOND).unique()
        there = self._writer.query_with("attempts_under_display_id", {"incoming": asked})
        if there.is_empty():
            return attempts
        gone = there.select(ATTEMPT_KEY)
        self._writer.delete("stored.attempts", gone)
        self._writer.delete("resubmissions", gone)
        return merge_attempts(conform(there.with_columns(pl.col("raw_id").alias("job_id")), ATTEMPTS), attempts)
