"""Attempts without an end that the newest windows did not show: requested by id, those first that waited longest."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import polars as pl

from ingest.tables import ATTEMPT_KEY

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from ingest.tables import Parsed
    from queries.warehouse import Reader, Writer

BATCH: Final = 200
"""Jobs in one request."""


def batches(source: Reader | Writer, cluster: str, loaded: Sequence[pl.DataFrame], most: int) -> Iterator[pl.DataFrame]:
    """The open attempts of a cluster (`ATTEMPT_KEY`) that are not among those just seen, `BATCH` at a time."""
    missed = source.query("open_attempts", cluster=cluster)
    for frame in loaded:
        missed = missed.join(frame.select(ATTEMPT_KEY), on=ATTEMPT_KEY, how="anti", maintain_order="left")
    numbered = missed.filter(pl.col("job_id").str.contains(r"^\d+$"))
    yield from numbered.head(most).iter_slices(BATCH)


def still_open(attempts: pl.DataFrame) -> pl.DataFrame:
    """The keys of those without an end."""
    return attempts.filter(pl.col("ended_at").is_null() | pl.col("end_guessed")).select(ATTEMPT_KEY)


def without_time(parsed: Parsed) -> Parsed:
    """An answer about single jobs covers no time."""
    return replace(parsed, covers_from=None, covers_until=None)


def note(writer: Writer, requested: pl.DataFrame, answered: pl.DataFrame, *, now: datetime) -> int:
    """Store the requested attempts and whether accounting has them; returns the number that it lacks."""
    answered_keys = answered.select(ATTEMPT_KEY).unique().with_columns(known=pl.lit(value=True))
    rows = requested.join(answered_keys, on=ATTEMPT_KEY, how="left", maintain_order="left").with_columns(
        pl.lit(now).alias("checked_at"), pl.col("known").fill_null(value=False)
    )
    with writer.transaction():
        writer.replace("rechecks", rows.select(*ATTEMPT_KEY, "checked_at", "known"), keys=ATTEMPT_KEY)
    return int((~rows["known"]).sum())
