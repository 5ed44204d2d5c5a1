"""What the questions of `trackside show` about telemetry share: notes, and the text where nothing is loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

if TYPE_CHECKING:
    from app.window import Window
    from queries.warehouse import Reader


def hourly_notes(days: pl.DataFrame, change: str) -> list[str]:
    """A note where of some days only roll-ups are left.

    Args:
        days: rows of `gpu_telemetry_days` or `node_telemetry_days`.
        change: within an hour: then it has no owner.
    """
    hourly = days.filter(~pl.col("sampled")).height
    if not hourly:
        return []
    return [
        f"Of {hourly:,} of {days.height:,} days only hourly roll-ups are there: the owner of an hour within which "
        f"{change} is unknown."
    ]


NO_TELEMETRY: Final = """\
No telemetry of {what} is loaded. To add it, from a Prometheus or a compatible server (VictoriaMetrics, ...):
  trackside ingest prometheus --url http://HOST:9090
or from OpenMetrics text or Parquet:
  trackside ingest prometheus FILE...
then:
  trackside compute"""


def none_left(source: Reader, window: Window, of: str, what: str) -> str:
    """The text of an answer without any telemetry: that it was removed, or how to add it.

    Args:
        source: the warehouse.
        window: of the question.
        of: what tables of it begin with: `gpu` or `node`.
        what: the same in words.
    """
    gone = source.query("removals").filter(
        pl.col("cluster") == window.cluster, pl.col("table_name").is_in([f"{of}_samples", f"{of}_hours"])
    )
    if gone.is_empty():
        return NO_TELEMETRY.format(what=what)
    before, removed = gone.select(pl.col("before", "removed_at").max().dt.strftime("%Y-%m-%dT%H:%M:%SZ")).row(0)
    return (
        f"No telemetry of {what} is left: `trackside retention` removed what there was before {before}, last at "
        f"{removed} (config: retention; trackside status lists all removals)."
    )
