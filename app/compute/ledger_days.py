"""The ledger in the warehouse, day by day: a day whose inputs are what they were keeps its rows.

What a day's rows depend on is in `metrics.ledger.fingerprints`; its digest is kept beside them, in the table
`ledger_days`, and what they add up to in `day_sums`.
Late data change the inputs of the days that they cover, and so do rules, corrections and runs joined otherwise.
"""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Final

import polars as pl

from app.compute.outcome import Days
from ingest.tables import columns_of
from metrics.ledger.inputs import day_of
from metrics.ledger.sweep import sweep_ledger, with_names
from metrics.units import DAY_US

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from app.compute.ledger_inputs import LedgerInputs
    from app.compute.outcome import Progress
    from queries.warehouse import Writer


def write_days(
    writer: Writer,
    cluster: str,
    inputs: LedgerInputs,
    *,
    now: datetime,
    full: bool,
    progress: Progress,
) -> Days:
    """Bring the ledger of a cluster in line with its inputs, within the open transaction.

    Args:
        writer: the warehouse.
        cluster: whose ledger.
        inputs: everything that it depends on.
        now: kept as `computed_at` of the days that are computed.
        full: compute every day, also those whose inputs are unchanged.
        progress: receives which days are being computed, and the share of them that is done.
    """
    before = {} if full else _stored_days(writer, cluster)
    prints = inputs.fingerprints()
    kept = [number for number, digest in prints.items() if before.get(_date(number), ("", now))[0] == digest]
    gaps = list(_gaps(kept))
    for since, until in gaps:
        for statement in ("delete_ledger_days", "delete_day_sums"):
            writer.run(statement, cluster=cluster, since=since, until=until)
    changed = prints.keys() - set(kept)
    done = 0
    for span in inputs.spans():
        days = sorted(day for day in changed if span[0] <= day < span[1])
        if not days:
            continue
        of_span, waiting = inputs.of_days(days[0], days[-1] + 1)
        for first, last in _in_a_row(days):
            progress(f"day {done + 1:,} of {len(changed):,}", done / len(changed))
            done += last - first
            demand = waiting.demand(first * DAY_US, last * DAY_US)
            some = of_span.within(first, last).with_demand(demand)
            rows = with_names(sweep_ledger(some), some)
            of_these = inputs.straggling.filter(pl.col("day").is_between(_date(first), _date(last), closed="left"))
            writer.run("insert_gpu_time", {"ledger": rows, "straggling": of_these}, once=True)
    for since, until in gaps:
        writer.run("insert_day_sums", cluster=cluster, since=since, until=until)
    writer.delete("ledger_days", pl.DataFrame({"cluster": [cluster]}))
    account = [
        (cluster, _date(number), digest, now if number in changed else before[_date(number)][1])
        for number, digest in sorted(prints.items())
    ]
    writer.append("ledger_days", pl.DataFrame(account, schema=columns_of("ledger_days"), orient="row"))
    gone = {day.toordinal() - _EPOCH for day in before} - prints.keys()
    touched = sorted(changed | gone)
    return Days(len(changed), len(prints), day_of(touched[0]) if touched else None)


_EPOCH: Final = date(1970, 1, 1).toordinal()


def _stored_days(writer: Writer, cluster: str) -> dict[date, tuple[str, datetime]]:
    rows = writer.query("ledger_days", cluster=cluster).iter_rows()
    return {day: (inputs, computed_at) for day, inputs, computed_at in rows}


def _date(number: int) -> date:
    return day_of(number).date()


def _gaps(kept: Sequence[int]) -> Iterator[tuple[datetime | None, datetime | None]]:
    """The time that is not in one of these days, in order: from one midnight to another, None where it has no end."""
    since: int | None = None
    for day in sorted(kept):
        if since is None or since < day:
            yield None if since is None else day_of(since), day_of(day)
        since = day + 1
    yield None if since is None else day_of(since), None


def _in_a_row(days: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Days that follow each other (from, to), of sorted ones."""
    begin = 0
    for place, day in enumerate(days):
        if place + 1 == len(days) or days[place + 1] > day + 1:
            yield days[begin], day + 1
            begin = place + 1
