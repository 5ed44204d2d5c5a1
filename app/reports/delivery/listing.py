"""Deliveries as rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from app.reports.delivery.outbox import Outbox

SCHEMA = {
    "report": pl.String,
    "period": pl.String,
    "target": pl.String,
    "outcome": pl.String,
    "tries": pl.Int64,
    "at": pl.String,
    "reason": pl.String,
    "summary": pl.String,
    "key": pl.String,
}


def listed(outbox: Outbox, *, dead: bool = False) -> pl.DataFrame:
    """Every delivery, the newest report first, and what was not made.

    Args:
        outbox: of a warehouse.
        dead: only what was given up.

    Returns:
        `SCHEMA`. `outcome` is delivered, pending, dead; kept where a report goes nowhere, left out where it was missed
        for too long, not made where it could not be.
    """
    outcomes = outbox.deliveries()
    rows: list[tuple[object, ...]] = [
        (made.report, made.period, each.target, each.outcome, each.tries, each.at, each.reason, made.summary, made.key)
        for made in reversed(outbox.made())
        for each in outcomes
        if each.key == made.key and (each.outcome == "dead" or not dead)
    ]
    if not dead:
        sent = {each.key for each in outcomes}
        rows += [
            (made.report, made.period, None, "kept" if made.sha256 else "left out", None, made.made_at,
             None if made.sha256 else made.summary, made.summary if made.sha256 else None, made.key)
            for made in reversed(outbox.made())
            if made.key not in sent
        ]  # fmt: skip
        rows += [
            (each.report, each.period, None, "not made", None, each.at, each.reason, None, None)
            for each in outbox.failures()
        ]
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")
