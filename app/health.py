"""`trackside status`: what was read, how fresh it is, what was refused, and which checks warn."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from app import output

if TYPE_CHECKING:
    from datetime import datetime

    from queries.warehouse import Reader


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
    _warnings(sources)
    _computed(reader, sources)
    rejects = reader.query("status_rejects")
    if rejects.height:
        output.say()
        output.table(
            "Refused rows (all of them: trackside export rejects)",
            rejects.head(20),
            {
                "n": ("rows", "count"),
                "source": ("source", "text"),
                "reason": ("reason", "text"),
                "first_seen": ("first seen", "text"),
            },
        )
    results = reader.checks()
    if results:
        output.say()
    for result in results:
        output.say(f"{result.check.severity}: {result.check.description} ({result.count}; {result.check.name})")


def _warnings(sources: pl.DataFrame) -> None:
    for row in sources.iter_rows(named=True):
        for warning in row["last_warnings"] or []:
            output.say(f"warning: {row['cluster']} {row['source']}: {warning}")
        if row["loads"] > 1 and row["last_rows_read"] == 0 and row["rows_read"] > 0:
            output.say(f"warning: {row['cluster']} {row['source']}: the last load brought no rows, earlier ones did")


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
