"""Records in the order of their times, some at a time: they wait in a temporary file by stretches of time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from ingest.runlog.spool import Spool

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROWS: Final = 100_000
"""Records of a stretch of time, which are sorted in memory; more if they all have one time."""

_FIRST: Final = -(1 << 62)
"""Stands for the time of records before the first one with a time."""


class InTime:
    """Records with `at`, sorted by it; those without a time stay behind the line before them.

    Args:
        parts: the records in the order of the log; they are read twice.
    """

    def __init__(self, parts: Callable[[], Iterator[pl.DataFrame]]) -> None:
        times = pl.concat([pl.Series("at", [], dtype=pl.Int64), *(part["at"] for part in parts())])
        ends = times.forward_fill().sort(nulls_last=False)[ROWS::ROWS].drop_nulls().unique(maintain_order=True)
        self._spool = Spool({})
        last: int | None = None
        for part in parts():
            at = pl.concat([pl.Series("at", [last], dtype=pl.Int64), part["at"]]).forward_fill()[1:]
            last = at[-1] if at.len() else last
            self._put(part.with_columns(_at=at.fill_null(_FIRST)), ends)

    def _put(self, records: pl.DataFrame, ends: pl.Series) -> None:
        self._spool.schema = self._spool.schema or records.schema
        stretch = ends.search_sorted(records["_at"], side="right").alias("_stretch")
        for (number,), rows in records.with_columns(stretch).partition_by("_stretch", as_dict=True).items():
            self._spool.add(rows.drop("_stretch"), int(number))

    def frames(self, rows: int) -> Iterator[pl.DataFrame]:
        """The records in frames of at most so many; they can be read any number of times."""
        for number in self._spool.numbers():
            yield from self._spool.whole(number).sort("_at", "line", "part").drop("_at").iter_slices(rows)
