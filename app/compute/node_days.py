"""Sums of what nodes did in the warehouse, day by day: a day of which nothing changed is not read again."""

from __future__ import annotations

import hashlib
from datetime import timedelta
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Final

import polars as pl

from app.results.telemetry.gpu_activity import DAY, day_begin, read_of_day
from app.results.telemetry.held_days import held_digests
from app.results.telemetry.node_activity import samples_of_days
from app.results.telemetry.node_days import ATTEMPTS, NODES, StoredDays, parts_of_days, segments, stored_rows
from ingest.tables import columns_of, conform
from metrics import frames
from metrics.telemetry.node_attribution import SERIES, in_order
from metrics.telemetry.rollup_fallback import LONGEST_S
from metrics.units import DAY_US

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import date

    from app.window import Window
    from metrics.telemetry.occupancy import Occupants
    from queries.warehouse import Writer

VERSION: Final = "1"
"""Part of every digest. To be raised whenever the same telemetry comes to mean other sums."""

_DAY_MS: Final = DAY_US // 1000
_HOUR_MS: Final = round(LONGEST_S * 1000)


def write_node_days(
    writer: Writer, window: Window, occupancy: Occupants, owners: pl.DataFrame, *, full: bool
) -> StoredDays:
    """Bring the stored sums of a cluster in line with its telemetry and attempts, within the open transaction.

    Args:
        writer: the warehouse.
        window: what is computed.
        occupancy: which attempts were on which nodes.
        owners: those attempts, as `metrics.telemetry.occupancy.occupants` reads them.
        full: make every day, also those of which nothing changed.

    Returns:
        The days as they are stored now.
    """
    cluster = window.cluster
    before = {row["day"]: row for row in writer.query("node_activity_days", cluster=cluster).iter_rows(named=True)}
    made_of = dict(writer.query("node_activity_inputs", cluster=cluster).iter_rows())
    rows = {
        day: n for day, n in writer.query("node_sample_days", cluster=cluster).iter_rows() if read_of_day(day, window)
    }
    held = _occupancy_by_day(occupancy, owners)
    account: dict[date, dict[str, object]] = {}
    changed: set[date] = set()
    for day in rows:
        after = _digest(made_of.get(day + DAY, "") if day + DAY in rows else "")
        same = not full and day in before and before[day]["after"] == after
        firsts = before[day]["firsts"] if same else _firsts(writer, window, day + DAY, rows)
        own = (VERSION, made_of[day], held.get(day, ""), str(read_of_day(day, window)), str(_cut(window, day)), firsts)
        account[day] = {"cluster": cluster, "day": day, "inputs": _digest(*own), "after": after, "firsts": firsts,
                        "n_series": 0, "n_attempts": 0}  # fmt: skip
        if full or day not in before or before[day]["inputs"] != account[day]["inputs"]:
            changed.add(day)
        else:
            account[day] |= {name: before[day][name] for name in ("n_series", "n_attempts")}
    for segment in segments(rows.items(), rows.keys() - changed):
        if not segment.stored:
            _make(writer, window, segment.days, segment.after, occupancy, owners, account)
    _forget(writer, cluster, account)
    writer.delete("node_activity_days", pl.DataFrame({"cluster": [cluster]}))
    writer.append("node_activity_days", pl.DataFrame(list(account.values()), schema=columns_of("node_activity_days")))
    return StoredDays(writer, window, {day: (row["n_series"], row["n_attempts"]) for day, row in account.items()})  # type: ignore[misc]  # numbers


def forget_node_days(writer: Writer, cluster: str) -> None:
    """Take out what is stored of a cluster that has no telemetry of nodes any more."""
    _forget(writer, cluster, {})
    writer.delete("node_activity_days", pl.DataFrame({"cluster": [cluster]}))


def _make(  # noqa: PLR0917 - private, and every one of them is needed
    writer: Writer,
    window: Window,
    days: Iterable[tuple[date, int]],
    after: tuple[date, int] | None,
    occupancy: Occupants,
    owners: pl.DataFrame,
    account: Mapping[date, dict[str, object]],
) -> None:
    """Make the sums of days in a row, the last one first, and note how many they are."""
    made = parts_of_days(writer, window, days, occupancy, after=after)
    for day, parts in groupby(made, key=itemgetter(0)):
        sums = stored_rows(day, [part for _, part in parts], window.cluster, occupancy, owners)
        for table, rows in sums.items():
            writer.write_partition(table, window.cluster, day, conform(rows, columns_of(table)))
        account[day].update(n_series=sums[NODES].height, n_attempts=sums[ATTEMPTS].height)


def _forget(writer: Writer, cluster: str, account: Mapping[date, object]) -> None:
    """Take out files of days that are no more."""
    for table in (NODES, ATTEMPTS):
        for day in writer.query("sample_partition_days", cluster=cluster, table=table)["day"]:
            if day not in account:
                writer.remove_partition(table, cluster, day)


def _occupancy_by_day(occupancy: Occupants, owners: pl.DataFrame) -> dict[date, str]:
    """A text for each day that depends on which attempts were on which nodes on it, and in the hour after it."""
    owner = owners.sort("owner").select(pl.struct(*frames.ATTEMPT_KEY, "verification").hash().alias("hash"))["hash"]
    spans = occupancy.stays.select(
        owner.gather(occupancy.stays["owner"]).alias("owner"),
        occupancy.places.sort("place")["node"].gather(occupancy.stays["place"]).alias("node"),
        begin="started",
        end="ended",
    )
    return held_digests(spans, ["owner", "node"], day=_DAY_MS, after=_HOUR_MS)


def _cut(window: Window, day: date) -> tuple[object, object]:
    """The moment at which a window cuts the time that samples of a day may be valid for; None if it does not."""
    begin, end = day_begin(day), day_begin(day) + DAY + timedelta(seconds=LONGEST_S)
    return window.since if window.since > begin else None, window.until if window.until < end else None


def _firsts(writer: Writer, window: Window, day: date, rows: Mapping[date, int]) -> str:
    """A digest of when the first sample of each series begins in the first hour of a day."""
    if day not in rows:
        return ""
    found = [in_order(some).firsts for _, some in samples_of_days(writer, window, [(day, rows[day])], hours=1)]
    first = pl.concat(found).select(pl.struct(*SERIES, "first").hash().alias("hash"))["hash"]
    return f"{first.len()}:{first.sum()}"


def _digest(*texts: str) -> str:
    return hashlib.blake2b("\n".join(texts).encode(), digest_size=16).hexdigest()
