"""`trackside status`: what was read, how fresh it is, what was refused, and which checks warn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from app import output
from app.times import iso
from ingest.catalog import source

if TYPE_CHECKING:
    from datetime import datetime

    from queries.warehouse import Reader


REASONS: Final = 20
"""Reasons of refused rows that are shown."""

GAPS: Final = 10
"""Gaps that are shown."""


def status(reader: Reader, *, now: datetime) -> None:
    """Print the state of the warehouse."""
    output.say(f"warehouse {reader.root}, data version {reader.data_version}, seen at {now:%Y-%m-%dT%H:%M:%SZ}\n")
    sources = reader.query("status_sources")
    age = (pl.lit(now) - pl.col("covers_until")).dt.total_seconds().cast(pl.Float64)
    output.table(
        "What was read",
        sources.with_columns(age_s=age),
        {
            "cluster": ("cluster", "text"),
            "source": ("source", "text"),
            "loads": ("loads", "count"),
            "last_loaded_at": ("last read", "time"),
            "covers_from": ("covers from", "time"),
            "covers_until": ("to", "time"),
            "age_s": ("age", "seconds"),
            "rows_read": ("rows read", "count"),
            "rows_loaded": ("loaded", "count"),
            "rows_duplicate": ("duplicate", "count"),
            "rows_skipped": ("skipped", "count"),
            "rows_rejected": ("rejected", "count"),
        },
    )
    _warnings(reader, sources)
    _gaps(reader)
    _computed(reader, sources)
    rejects = reader.query("status_rejects")
    if rejects.height:
        output.say()
        output.table(
            "Refused rows by reason, the most frequent first (all of them: trackside export rejects -o rejects.csv)",
            rejects.head(REASONS),
            {
                "n": ("rows", "count"),
                "source": ("source", "text"),
                "reason": ("reason", "text"),
                "first_seen": ("first seen", "text"),
            },
        )
        if rejects.height > REASONS:
            output.say(f"... and {rejects.height - REASONS} more reasons")
    results = reader.checks()
    if results:
        output.say()
    for result in results:
        output.say(f"{result.check.severity}: {result.check.description} ({result.count}; {result.check.name})")


def _warnings(reader: Reader, sources: pl.DataFrame) -> None:
    """What the last loads warned of, and what looks wrong beside earlier ones."""
    for row in sources.iter_rows(named=True):
        for warning in row["last_warnings"] or []:
            output.say(f"warning: {row['cluster']} {row['source']}: {warning}")
    for row in reader.query("source_warnings").iter_rows(named=True):
        output.say(f"warning: {row['cluster']} {row['source']}: {row['says']}")


def _gaps(reader: Reader) -> None:
    """Time between loads that none of them speaks for, with the command that reads it."""
    gaps = reader.query("load_gaps")
    for row in gaps.head(GAPS).iter_rows(named=True):
        title = source(row["source"]).title
        since, until = iso(row["started_at"]), iso(row["ended_at"])
        output.say(
            f"gap: {row['cluster']}: {title} of {since} to {until} is missing; read it where Slurm is, or load a"
        )
        output.say(f"     dump of that time: trackside ingest slurm --since {since} --until {until}")
    if gaps.height > GAPS:
        output.say(f"... and {gaps.height - GAPS} more gaps (trackside export load_gaps)")


def _computed(reader: Reader, sources: pl.DataFrame) -> None:
    output.say()
    for cluster in sources["cluster"].unique().sort():
        computed = reader.query("computed", cluster=cluster)
        if computed.is_empty():
            output.say(f"{cluster}: nothing computed yet; run: trackside compute")
            continue
        row = computed.row(0, named=True)
        newer = reader.query("loads_since_computed", cluster=cluster)["loads"].item()
        behind = f"; {newer} load(s) since: run trackside compute" if newer else ""
        output.say(
            f"{cluster}: ledger covers {row['since']:%Y-%m-%dT%H:%M:%SZ} to {row['until']:%Y-%m-%dT%H:%M:%SZ}, "
            f"computed {row['computed_at']:%Y-%m-%dT%H:%M:%SZ}{behind}"
        )
