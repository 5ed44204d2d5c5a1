"""What lies later than now: a clock that was wrong, or a slip of a digit. Nothing of it may enter a table.

One row of the year 2033 would make a ledger of seven years, most of them without a job. Readers that have the line of
the input refuse it themselves; here is what holds for the rows of all sources. A time may be later than now where it is
a plan: when a waiting job becomes eligible, and when a reservation begins and ends.
"""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final

import polars as pl

from ingest.tables import RAW_LIMIT, REJECTS, TIME, columns_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from ingest.tables import Parsed

AHEAD: Final = "lies in the future"
"""In the reason for which such a row is refused: it may be right when it is read again."""

TOLERANCE: Final = timedelta(minutes=10)
"""How far another machine's clock may be ahead of this one's."""

PLANNED: Final[Mapping[str, tuple[str, ...]]] = {
    "attempts": ("eligible_at",),
    "reservations": ("started_at", "ended_at"),
    "run_sessions": ("read_at",),
}
"""Columns of times that may lie ahead, or are of this machine; all other times of a table have happened."""


def happened(table: str) -> tuple[str, ...]:
    """The columns of a table that hold when something happened.

    >>> happened("reservations")
    ('last_seen_at',)
    """
    planned = PLANNED.get(table, ())
    return tuple(name for name, dtype in columns_of(table).items() if dtype == TIME and name not in planned)


def latest(now: datetime) -> datetime:
    """The latest time that is believed."""
    return now + TOLERANCE


def reason(column: str, shown: str) -> pl.Expr:
    """Why a row is refused whose `column`, shown to people as `shown`, lies in the future. The same in every load."""
    return pl.format(f"{{}} {AHEAD}: {{}}", pl.lit(shown), pl.col(column).dt.strftime("%Y-%m-%dT%H:%M:%SZ"))


def without_future(parsed: Parsed, *, origin: str, now: datetime) -> Parsed:
    """The input without rows of times that have not come yet: they are refused. What it covers ends now at the latest.

    Args:
        parsed: One input.
        origin: What to call it in its refused rows.
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
    """The input, of which nothing that is still to come is covered."""
    since, until = parsed.covers_from, parsed.covers_until
    if until is not None and until > now:
        until = now
    if since is not None and since > now:
        since = until = None
    return replace(parsed, covers_from=since, covers_until=until)


def as_json(rows: pl.DataFrame) -> pl.Series:
    """Rows of a table as they are kept among the refused."""
    texts = [json.dumps(row, default=str, ensure_ascii=False)[:RAW_LIMIT] for row in rows.iter_rows(named=True)]
    return pl.Series(texts, dtype=pl.String)


def _refused(ahead: pl.DataFrame, table: str, parsed: Parsed, origin: str, now: datetime) -> pl.DataFrame:
    why = [pl.when(pl.col(name) > latest(now)).then(reason(name, name)) for name in happened(table)]
    return ahead.select(
        "cluster",
        pl.lit(parsed.source).alias("source"),
        pl.lit(origin).alias("origin"),
        pl.lit(None, dtype=pl.Int64).alias("line"),
        pl.coalesce(why).alias("reason"),
        as_json(ahead).alias("raw"),
    ).cast(REJECTS)  # type: ignore[arg-type]  # a schema is a mapping of names to types
