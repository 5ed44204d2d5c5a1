"""Attempts on each node, and the GPUs they held, by time: numbers and milliseconds, as attribution looks them up."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

import polars as pl

from metrics import frames
from metrics.intervals import union
from metrics.ledger.capacity import allocated_intervals

if TYPE_CHECKING:
    from datetime import datetime

FAR: Final = 1 << 42
"""Milliseconds since 1970 beyond all data; also the room between lanes in a sort key."""


def _no_changes() -> pl.Series:
    return pl.Series("change", [], dtype=pl.Int64)


@dataclass(frozen=True)
class Holders:
    """GPUs that attempts held on each node of a cluster.

    Attributes:
        attempts: `frames.ATTEMPT_KEY`, `attempt` (the row's number, from 0), `user`, `partition`, `user_no`,
            `partition_no` (equal for equal ones; an unknown one equals no other, nor does the user of a check),
            `verification` (it checks the node rather than uses it).
        places: `node`, `place` (the row's number, from 0).
        held: `attempt`, `place`, `started`, `ended` (milliseconds since 1970), `milli_gpus`, `unsure` (1: how many
            GPUs, or how long, is only assumed).
        eras: `place`, `era`, `started`, `ended`, `capacity` (thousandths of GPUs, null where unknown): all time, cut
            where a node's inventory changes.
        changes: `place` x `FAR` + moment, sorted: whenever an attempt comes or goes. Those outside of a window too: an
            hour that a window cuts is one attempt's only if that attempt was there all of it.
    """

    attempts: pl.DataFrame
    places: pl.DataFrame
    held: pl.DataFrame
    eras: pl.DataFrame
    changes: pl.Series = field(default_factory=_no_changes)

    def within(self, since: datetime, until: datetime) -> Holders:
        """GPUs held between two moments."""
        return replace(self, held=_within(self.held, since, until))


@dataclass(frozen=True)
class Occupants:
    """Attempts on each node of a cluster, with GPUs or without.

    Attributes:
        places: `node`, `place` (the row's number, from 0).
        stays: `owner`, `place`, `started`, `ended` (milliseconds since 1970); those of an owner do not overlap.
        checks: numbers of owners that check nodes rather than use them.
        since: milliseconds since 1970 from which on the period is ...
        until: ... and before which.
        changes: whenever an owner comes or goes, as in `Holders`.
    """

    places: pl.DataFrame
    stays: pl.DataFrame
    checks: pl.Series
    since: int = -FAR
    until: int = FAR
    changes: pl.Series = field(default_factory=_no_changes)

    def within(self, since: datetime, until: datetime) -> Occupants:
        """Attempts on nodes between two moments."""
        low, high = _ms(since), _ms(until)
        return replace(self, stays=_within(self.stays, since, until), since=low, until=high)


def _ms(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)


def _within(held: pl.DataFrame, since: datetime, until: datetime) -> pl.DataFrame:
    low, high = (pl.lit(_ms(moment), dtype=pl.Int64) for moment in (since, until))
    return held.with_columns(started=pl.max_horizontal("started", low), ended=pl.min_horizontal("ended", high)).filter(
        pl.col("started") < pl.col("ended")
    )


def occupants(attempt_nodes: pl.DataFrame, owners: pl.DataFrame, covered: pl.DataFrame) -> Occupants:
    """Number nodes, and put the stays of each owner together. All frames are of one cluster.

    Args:
        attempt_nodes: `frames.ATTEMPT_NODES`, those without GPUs too; running attempts last to the end of the data.
        owners: `frames.ATTEMPT_KEY`, `owner` (a number from 0: of the attempt, or of its user, account, ...) and
            `verification` (it checks nodes; all or none of an owner's attempts do).
        covered: `frames.COVERAGE` of accounting.
    """
    known = allocated_intervals(attempt_nodes.with_columns(milli_gpus=pl.lit(1)), covered)  # who has none is there, too
    places = known.select("node").unique().sort("node").with_columns(place=pl.int_range(pl.len(), dtype=pl.Int64))
    many = max(places.height, 1)
    stays = (
        known.join(owners, on=list(frames.ATTEMPT_KEY))
        .join(places, on="node")
        .select(pl.col("owner") * many + pl.col("place"), pl.col("started") // 1000, pl.col("ended") // 1000)
        .rename({"owner": "lane"})
    )
    owner, place = pl.col("lane") // many, pl.col("lane") % many
    together = union(stays).select(owner.alias("owner"), place.alias("place"), "started", "ended")
    checks = owners.filter("verification")["owner"].unique().sort()
    return Occupants(places, together, checks, changes=_changes(together, "owner", pl.lit(1)))


def _changes(stays: pl.DataFrame, holder: str, how_many: pl.Expr) -> pl.Series:
    """`Holders.changes`; where one stay follows the other without a change of who or how many, there is none."""
    ends = [
        stays.select((pl.col("place") * FAR + pl.col(end)).alias("change"), holder, (how_many * sign).alias("n"))
        for end, sign in (("started", 1), ("ended", -1))
    ]
    net = pl.concat(ends).group_by("change", holder).agg(pl.col("n").sum())
    return net.filter(pl.col("n") != 0)["change"].unique().sort()


def holders(
    attempt_nodes: pl.DataFrame,
    attempts: pl.DataFrame,
    inventory: pl.DataFrame,
    covered: pl.DataFrame,
    *,
    verification: str | None = None,
) -> Holders:
    """Number attempts and nodes, once for all days. All frames are of one cluster.

    Args:
        attempt_nodes: `frames.ATTEMPT_NODES`; running attempts last to the end of the data.
        attempts: `frames.ATTEMPTS`.
        inventory: `frames.INVENTORY`.
        covered: `frames.COVERAGE` of accounting.
        verification: regular expression of names or partitions of jobs that check nodes, such as SUNK's hourly ones.
    """
    key = list(frames.ATTEMPT_KEY)
    checks = pl.lit(value=False)
    if verification is not None:
        checks = pl.any_horizontal(pl.col(name).str.contains(verification) for name in ("name", "partition"))
    numbered = (
        attempts.select(*key, "user", "partition", checks.fill_null(value=False).alias("verification"))
        .sort(key)
        .with_columns(attempt=pl.int_range(pl.len(), dtype=pl.Int64))
    )
    user = _codes(pl.when(~pl.col("verification")).then("user"), "user_no")
    numbered = numbered.with_columns(user, _codes(pl.col("partition"), "partition_no"))
    known = allocated_intervals(attempt_nodes, covered)
    places = known.select("node").unique().sort("node").with_columns(place=pl.int_range(pl.len(), dtype=pl.Int64))
    held = (
        known.with_columns(
            started=pl.col("started") // 1000,
            ended=pl.col("ended") // 1000,
            unsure=(pl.col("evidence") == "assumed").fill_null(value=False).cast(pl.Int64),
        )
        .filter(pl.col("started") < pl.col("ended"))
        .join(numbered.select(*key, "attempt"), on=key)
        .join(places, on="node")
        .select("attempt", "place", "started", "ended", "milli_gpus", "unsure")
    )
    changes = _changes(held, "attempt", pl.col("milli_gpus"))
    return Holders(numbered, places, held, eras(inventory, places), changes)


def _codes(text: pl.Expr, name: str) -> pl.Expr:
    """A number for each different text; a missing one is like no other."""
    return pl.coalesce(text.rank("dense").cast(pl.Int64) - 1, text.n_unique() + pl.col("attempt")).alias(name)


def eras(inventory: pl.DataFrame, places: pl.DataFrame) -> pl.DataFrame:
    """All time of each place, cut where its inventory changes: `Holders.eras`."""
    known = (
        inventory.join(places, on="node")
        .select(
            "place",
            (pl.col("started_at").dt.epoch("us") // 1000).alias("started"),
            (pl.col("ended_at").dt.epoch("us") // 1000).alias("ended"),
            pl.col("milli_gpus").alias("capacity"),
        )
        .filter(pl.col("started") < pl.col("ended"))
        .sort("place", "started")
    )
    unknown = pl.lit(None, dtype=pl.Int64).alias("capacity")
    before = known.select(
        "place",
        pl.col("ended").shift(1).over("place").fill_null(-FAR).alias("started"),
        pl.col("started").alias("ended"),
        unknown,
    )
    last = places.join(known.group_by("place").agg(pl.col("ended").max().alias("started")), on="place", how="left")
    behind = last.select("place", pl.col("started").fill_null(-FAR), pl.lit(FAR).alias("ended"), unknown)
    return (
        pl.concat([known, before, behind], how="vertical_relaxed")
        .filter(pl.col("started") < pl.col("ended"))
        .sort("place", "started")
        .with_columns(era=pl.int_range(pl.len(), dtype=pl.Int64))
    )
