"""What `trackside retention` prints: what went, or what would."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from app import console

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ingest.prometheus.settings import Retention
    from ingest.prometheus.store.retention import Removal


def say(removals: Sequence[Removal], keep: Retention, *, done: bool) -> None:
    """Print what went, or what would."""
    if not keep.samples_days:
        console.say(
            "Everything is kept: [retention] in the configuration says nothing else (samples_days, hours_days)."
        )
        return
    if not removals:
        console.say("Nothing is older than it is to be kept.")
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
    console.table("Taken out" if done else "Would be taken out (this was only a look)", rows, columns)
    console.say(
        "Of the time before, the next `trackside compute` goes by what is left: without samples by hours, which do not "
        "tell whose an hour was that changed hands; without both by accounting alone. Export first what is to stay."
    )
    if done and any(each.bytes for each in removals):
        console.say(
            "The room on disk is free after two more commands that write: readers may have the files open still."
        )
