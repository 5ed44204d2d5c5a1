"""The ledger in the warehouse, day by day: a day whose inputs are what they were keeps its rows.

What a day's rows depend on is in `metrics.ledger.inputs`; its digest is kept beside them, in the table `ledger_days`,
and what they add up to in `day_sums`.
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
    from collections.abc import Collection, Iterator, Sequence
    from datetime import datetime

    from app.compute.outcome import Progress
    from metrics.ledger.demand import Waiting
    from metrics.ledger.inputs import Inputs
    from queries.warehouse import Writer


def write_days(
    writer: Writer,
    cluster: str,
    inputs: Inputs,
    waiting: Waiting,
    straggling: pl.DataFrame,
    *,
    now: datetime,
    full: bool,
    progress: Progress,
) -> Days:
    """Bring the ledger of a cluster in line with its inputs, within the open transaction.

    Args:
        writer: the warehouse.
        cluster: whose ledger.
        inputs: everything that it depends on but demand.
        waiting: what demand is made of: it is made of the days that are computed.
        straggling: `frames.STRAGGLING`.
        now: kept as `computed_at` of the days that are computed.
        full: compute every day, also those whose inputs are unchanged.
        progress: receives which days are being computed, and the share of them that is done.
    """
    before = {} if full else _stored_days(writer, cluster)
    prints: dict[int, str] = {}
    by_time, lasting = waiting.by_time(), waiting.lasting()
    for first, last in inputs.spans():
        prints |= inputs.within(first, last).fingerprints(by_time, lasting)
    kept = [number for number, digest in prints.items() if before.get(_date(number), ("", now))[0] == digest]
    gaps = list(_gaps(kept))
    for since, until in gaps:
        for statement in ("delete_ledger_days", "delete_day_sums"):
            writer.run(statement, cluster=cluster, since=since, until=until)
    changed = prints.keys() - set(kept)
    done = 0
    for first, last in _together(changed, inputs):
        progress(f"day {done + 1:,} of {len(changed):,}", done / len(changed))
        done += last - first
        demand = waiting.demand(first * DAY_US, last * DAY_US)
        some = inputs.within(first, last).with_demand(demand)
        rows = with_names(sweep_ledger(some), some)
        of_these = straggling.filter(pl.col("day").is_between(_date(first), _date(last), closed="left"))
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


def _together(days: Collection[int], inputs: Inputs) -> Iterator[tuple[int, int]]:
    """Days in a row (from, to), as many as are worked on at a time."""
    for first, last in inputs.spans():
        begin = None
        for day in range(first, last + 1):
            if day < last and day in days:
                begin = day if begin is None else begin
            elif begin is not None:
                yield begin, day
                begin = None
