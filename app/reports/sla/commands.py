"""Commands that reproduce every number of the SLA report."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from queries.sql_files import literal

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from app.window import Window
    from metrics.claims.verdict import Claim


def reproduce(
    requested: Window, window: Window, period_text: str, claims: Sequence[Claim], file: str | None
) -> list[dict[str, Any]]:
    """Commands that reproduce every number of the report.

    They name the requested period: a verdict is on the whole of it, whatever part the data cover.
    """
    where = (
        f"--cluster {_quoted(requested.cluster)} --since {precise(requested.since)} --until {precise(requested.until)}"
    )
    own = f" --claims {_quoted(file)}" if file else ""
    sizes = sorted({claim.gpus for claim in claims if claim.metric == "mttf" and claim.gpus})
    period = f"--period {_quoted(period_text)} --cluster {_quoted(requested.cluster)}"
    commands = [
        ("this report", f"trackside report sla {period}{own}"),
        ("the verdicts", f"trackside verify {where}{own}"),
        ("goodput, occupancy, availability", f"trackside show goodput {where} --explain"),
        ("the same by day", f"trackside show goodput --by day {where}"),
        ("ETTR", f"trackside show ettr {where} --explain"),
        ("MFU", f"trackside show mfu {where} --explain"),
        *((f"MTTF at {size:,.10g} GPUs", f"trackside show mttf --at {size:g} {where} --explain") for size in sizes),
        ("restarts, each", f"trackside show restarts --by event {where}"),
        ("where the GPU-time went", f"trackside show lost {where} --explain"),
        ("interruptions, each", f"trackside show interruptions {where}"),
        ("the ledger by category, in SQL", f"trackside sql {_in_shell(ledger_sql(window))}"),
        ("all the rows of the ledger", "trackside export gpu_time -o gpu_time.parquet"),
        ("rejected input rows", "trackside export rejects"),
    ]
    with_mfu = any(claim.metric == "mfu" for claim in claims)
    return [{"what": what, "command": command} for what, command in commands if what != "MFU" or with_mfu]


def ledger_sql(window: Window) -> str:
    """SQL that sums the ledger by category within the window, for readers to run and check."""
    low, high = (f"TIMESTAMPTZ '{moment.isoformat()}'" for moment in (window.since, window.until))
    return (
        "SELECT state, category, SUM(gpus * (epoch_us(LEAST(ended_at, "  # noqa: S608 - printed, never run by us
        f"{high})) - epoch_us(GREATEST(started_at, {low}))) / 1e6) AS gpu_seconds FROM gpu_time "
        f"WHERE cluster = {literal(window.cluster)} AND ended_at > {low} AND started_at < {high} "
        "GROUP BY ALL ORDER BY ALL"
    )


def _in_shell(sql: str) -> str:
    """SQL as an argument that people can still read, unless a cluster's name forbids it."""
    return _quoted(sql) if re.search(r'["$`\\!]', sql) else f'"{sql}"'


def precise(moment: datetime) -> str:
    """A moment with all its digits: windows may begin within a second."""
    return moment.isoformat().replace("+00:00", "Z")


def _quoted(text: str) -> str:
    import shlex  # noqa: PLC0415 - only here

    return shlex.quote(text)
