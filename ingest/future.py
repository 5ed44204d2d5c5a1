"""Refusal of rows with times later than now: a wrong clock, or a wrong digit.

One row of the year 2033 would make a ledger of seven years, most of them without a job. Parsers with line numbers
refuse such rows themselves; this module is for the rows of all sources. Planned times may be later than now: the
eligibility of a waiting job, and the beginning and end of a reservation.
"""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final

import polars as pl

from ingest.tables import RAW_LIMIT, REJECTS, TIME, columns_of, conform

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from ingest.tables import Parsed

AHEAD: Final = "lies in the future"
"""Part of the reason for the refusal of such a row, which may be right when it is read again."""

TOLERANCE: Final = timedelta(minutes=10)
"""Tolerance for another machine's clock ahead of this one's."""

PLANNED: Final[Mapping[str, tuple[str, ...]]] = {
    "attempts": ("eligible_at",),
    "reservations": ("started_at", "ended_at"),
    "run_sessions": ("read_at",),
}
"""Columns of times that may lie ahead, or are of this machine; all other times of a table are past."""


def happened(table: str) -> tuple[str, ...]:
    """The columns of a table with past times.

    >>> happened("reservations")
    ('last_seen_at',)
    """
    planned = PLANNED.get(table, ())
    return tuple(name for name, dtype in columns_of(table).items() if dtype == TIME and name not in planned)


def latest(now: datetime) -> datetime:
    """The latest accepted time."""
    return now + TOLERANCE


def reason(column: str, shown: str) -> pl.Expr:
    """Reason for the refusal of a row whose `column`, named `shown`, lies in the future. The same in every load."""
    return pl.format(f"{{}} {AHEAD}: {{}}", pl.lit(shown), pl.col(column).dt.strftime("%Y-%m-%dT%H:%M:%SZ"))


def without_future(parsed: Parsed, *, origin: str, now: datetime) -> Parsed:
    """The input without rows of future times, which are refused. Its covered time ends now at the latest.

    Args:
        parsed: One input.
        origin: Its name in the refused rows.
        now: The time.
    """
    frames, refused = dict(parsed.frames), [parsed.rejects]
    for table in [name for name in frames if happened(name)]:
        frame = frames[table]
        late = [pl.col(name) > latest(now) for name in happened(table)]
        ahead = frame.filter(pl.any_horizontal(late).fill_null(value=False))
        if ahead.is_empty():
            continue
        frames[table] = frame.filter(~pl.any_horizontal(late).fill_null(value=False))
        refused.append(_refused(ahead, table, parsed, origin, now))
    rejects = pl.concat(refused)
    loaded = max(parsed.rows_loaded - (rejects.height - parsed.rejects.height), 0)
    others = parsed.rows_duplicate + parsed.rows_skipped
    return replace(
        within(parsed, now),
        frames=frames,
        rejects=rejects,
        rows_loaded=loaded,
        rows_rejected=rejects.height,
        rows_read=loaded + others + rejects.height,
    )


def within(parsed: Parsed, now: datetime) -> Parsed:
    """The input with its covered time cut at `now`."""
    since, until = parsed.covers_from, parsed.covers_until
    if until is not None and until > now:
        until = now
    if since is not None and since > now:
        since = until = None
    return replace(parsed, covers_from=since, covers_until=until)


def as_json(rows: pl.DataFrame) -> pl.Series:
    """Rows of a table as JSON, for the refused rows."""
    texts = [json.dumps(row, default=str, ensure_ascii=False)[:RAW_LIMIT] for row in rows.iter_rows(named=True)]
    return pl.Series(texts, dtype=pl.String)


def _refused(ahead: pl.DataFrame, table: str, parsed: Parsed, origin: str, now: datetime) -> pl.DataFrame:
    why = [pl.when(pl.col(name) > latest(now)).then(reason(name, name)) for name in happened(table)]
    refused = ahead.select(
        "cluster",
        pl.lit(parsed.source).alias("source"),
        pl.lit(origin).alias("origin"),
        pl.lit(None, dtype=pl.Int64).alias("line"),
        pl.coalesce(why).alias("reason"),
        as_json(ahead).alias("raw"),
    )
    return conform(refused, REJECTS)
