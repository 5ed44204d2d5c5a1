"""Which days of a stored table depend on who held what when: a text for each day, which changes with any of it."""

from __future__ import annotations

from datetime import date, timedelta
from typing import TYPE_CHECKING, Final

import polars as pl

if TYPE_CHECKING:
    from collections.abc import Sequence

_EPOCH: Final = date(1970, 1, 1)


def held_digests(spans: pl.DataFrame, subject: Sequence[str], *, day: int, after: int = 0) -> dict[date, str]:
    """A text for each UTC day that depends on the spans on it; days without any have none.

    Args:
        spans: whole numbers `begin` and `end` since 1970, of any unit, and the columns of `subject`.
        subject: what a span is of.
        day: a day in that unit.
        after: how long after its end a day still depends on spans, in that unit.

    >>> spans = pl.DataFrame({"node": ["n1", "n1"], "begin": [20, 50], "end": [30, 60]})
    >>> [f"{each:%m-%d}" for each in sorted(held_digests(spans, ["node"], day=24))]
    ['01-01', '01-02', '01-03']
    """
    days = pl.int_ranges((pl.col("begin") - after) // day, (pl.col("end") - 1) // day + 1)
    low = pl.col("day") * day
    parts = spans.with_columns(day=days).explode("day").select(
        "day",
        part=pl.struct(
            *subject,
            pl.max_horizontal("begin", low) - low,
            (pl.min_horizontal("end", low + day + after) - low).alias("stop"),
        ).hash(),
    )  # fmt: skip
    sums = parts.group_by("day").agg(n=pl.len(), of=pl.col("part").sum())
    return {_EPOCH + timedelta(days=number): f"{n}:{of}" for number, n, of in sums.iter_rows()}
