"""Output of `trackside retention`: what was removed, or would be."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from app import console

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ingest.prometheus.settings import Retention
    from ingest.prometheus.store.retention import Removal


def print_report(removals: Sequence[Removal], keep: Retention, *, done: bool) -> None:
    """Print what was removed, or would be."""
    if not keep.samples_days:
        console.echo("Telemetry is stored for ever: the configuration sets no [retention] (samples_days, hours_days).")
        return
    if not removals:
        console.echo("Nothing is older than the configured retention.")
        return
    rows = pl.DataFrame(
        [
            {
                "cluster": each.cluster,
                "table": each.table,
                "before": each.before,
                "days": len(each.days) or None,
                "rows": each.rows,
                "size": None if each.bytes is None else float(each.bytes),
            }
            for each in removals
        ],
        schema_overrides={"days": pl.Int64, "size": pl.Float64},
    )
    columns = {
        "cluster": ("cluster", "text"),
        "table": ("table", "text"),
        "before": ("before", "time"),
        "days": ("days", "count"),
        "rows": ("rows", "count"),
        "size": ("size", "bytes"),
    }
    console.table("Removed" if done else "Would be removed (nothing was changed)", rows, columns)
    console.echo(
        "For the time before, the next `trackside compute` uses what is left: without samples the hourly roll-ups, "
        "which "
        "cannot attribute an hour in which a node changed hands; without both accounting alone. Export first what you "
        "want to keep."
    )
    if done and any(each.bytes for each in removals):
        console.echo(
            "The disk space is freed after two more commands that write: readers may still have the files open."
        )
