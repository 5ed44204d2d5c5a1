"""Owner of a node's samples at each time: an attempt, one user, or unclear.

The one place that decides it, with `metrics.ledger.sharing` (when a node is one attempt's alone and whole), which the
ledger's evidence reads, too. Accounting records how many GPUs of a node an attempt holds, not which. So time of a node
is cut wherever the holders of its GPUs change, and each segment has a kind:

- `WHOLE`: its owner holds all GPUs of the node, so all samples of the node are the owner's.
- `CHOSEN`: its owner holds a part of them and no other attempt holds any. Which GPUs they are is chosen by activity.
- `UNCLEAR`: several users hold GPUs of the node, or parts of GPUs (MIG devices, shards) are held, or how many is only
  assumed. The samples have no known owner.

The owner is an attempt, or the user (and partition) of several attempts that are all of one user.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from metrics.intervals import merge_equal, overlaps, sweep
from metrics.ledger.sharing import is_met, room
from metrics.telemetry.occupancy import FAR, Holders
from metrics.telemetry.sample_grid import series
from metrics.units import HOUR_S

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from metrics.telemetry.sample_grid import SampleGrid

    Ints = NDArray[np.int64]

UNCLEAR, WHOLE, CHOSEN = 0, 1, 2
"""Kinds of segments."""

HOUR_MS: Final = HOUR_S * 1000


@dataclass(frozen=True)
class Ownership:
    """Owners of the nodes with samples.

    Attributes:
        nodes: `node`, `place`: those of `Holders`, and after them the nodes that only samples name.
        place: number of the node, by lane of the samples.
        members: who holds GPUs there: rows of `Holders.held` cut at eras, with `era` and `room` (what the node has,
            in thousandths of GPUs).
        segments: sorted by `era` and `started`: `place`, `ended`, `room`, `n` (attempts there), `milli_gpus` held by
            them, `owner` (the attempt, or below 0 for a user and partition: `Ownership.users`) and `kind`.
    """

    nodes: pl.DataFrame
    place: Ints
    members: pl.DataFrame
    segments: pl.DataFrame


def ownership(day: SampleGrid, held: Holders, low: int, high: int) -> Ownership:
    """Owners of the samples of a day.

    Args:
        day: the samples, by `node` and `gpu`.
        held: who held what.
        low: begin of the time that samples are valid for, milliseconds since 1970.
        high: its end.
    """
    nodes = _nodes(day, held.places)
    place = day.lanes.join(nodes, on="node", how="left", maintain_order="left")["place"].to_numpy()
    members, segments = _segments(held, np.bincount(place, minlength=nodes.height), low, high)
    return Ownership(nodes, place, members, segments)


def node_owners(stays: pl.DataFrame) -> pl.DataFrame:
    """Owners of the samples of nodes themselves (traffic, not GPUs): one owner while no other is on the node.

    Args:
        stays: of `Occupants`.

    Returns:
        Segments: `place`, `started`, `ended`, `owner` and `kind`: `WHOLE`, or `UNCLEAR` where several owners are there
        (then `owner` means nothing).
    """
    layer = stays.rename({"place": "lane"}).with_columns(n=pl.lit(1, dtype=pl.Int64))
    kind = pl.when(pl.col("n") == 1).then(WHOLE).otherwise(UNCLEAR)
    return sweep([layer]).rename({"lane": "place"}).with_columns(kind=kind).drop("n")


def attempt_hours(hours: pl.DataFrame, held: Holders) -> pl.DataFrame:
    """Hours of GPUs by the attempt that alone held the whole node for all of the hour; other hours are left out.

    Args:
        hours: of one day: `node`, `gpu`, `ts` (the beginning of an hour) and values.
        held: who held what.

    Returns:
        The rows of `hours` with `attempt` (its number in `Holders.attempts`).
    """
    if hours.is_empty():
        return hours.with_columns(attempt=pl.lit(None, dtype=pl.Int64))
    day = series(hours)
    begin = day.moments // 1000
    owned = ownership(day, held, int(begin.min()), int(begin.max()) + HOUR_MS)
    mine = owned.segments.filter(pl.col("kind") == WHOLE, pl.col("owner") >= 0)
    # An inventory that was read again cuts a segment, and changes no owner.
    merged = merge_equal(mine.select(pl.col("place").alias("lane"), "started", "ended", "owner"))
    starts = (merged["lane"] * FAR + merged["started"]).to_numpy()
    positions = np.repeat(owned.place, np.diff(day.offset)) * FAR + begin
    row = np.searchsorted(starts, positions, side="right") - 1
    ends = (merged["lane"] * FAR + merged["ended"]).to_numpy()
    within = row >= 0
    within[within] = positions[within] + HOUR_MS <= ends[row[within]]
    return day.samples.filter(pl.Series(within)).with_columns(attempt=merged["owner"].gather(row[within]))


def _nodes(day: SampleGrid, places: pl.DataFrame) -> pl.DataFrame:
    """The places, and after them the nodes that only samples name: `node`, `place`."""
    more = day.lanes.select("node").unique().join(places, on="node", how="anti").sort("node")
    numbered = more.with_columns(pl.int_range(places.height, places.height + pl.len(), dtype=pl.Int64).alias("place"))
    return pl.concat([places.select("node", "place"), numbered])


def _segments(held: Holders, gpus: Ints, low: int, high: int) -> tuple[pl.DataFrame, pl.DataFrame]:
    """`Ownership.members` and `Ownership.segments`; `gpus` is how many GPUs of each place have samples."""
    near = (pl.col("started") < high) & (pl.col("ended") > low)
    sampled = pl.DataFrame({"place": np.arange(len(gpus)), "series": gpus}).filter(pl.col("series") > 0)
    members = (
        overlaps(held.held.filter(near).join(sampled, on="place"), held.eras.filter(near), on=["place"])
        .with_columns(room=room(pl.col("capacity"), pl.col("series")))
        .sort("era", "started")
    )
    begin, end = (pl.col("era") * FAR + pl.col(name) for name in ("started", "ended"))
    met = members.select(is_met(begin, end).alias("met"))["met"]
    about = members.select("era", "place", "room", "series").unique("era")
    columns = ["era", "place", "started", "ended", "n", "milli_gpus", "room", "owner", "kind"]
    alone = members.filter(~met).with_columns(
        _kind(pl.col("unsure") == 0), n=pl.lit(1, dtype=pl.Int64), owner="attempt"
    )
    if not met.any():
        return members, alone.select(columns)
    together = sweep([_layer(members.filter(met), held)]).rename({"lane": "era"}).join(about, on="era")
    sure = (pl.col("unsure") == 0) & _same("user")
    both = [alone.select(columns), together.with_columns(_kind(sure), _owner(partitions(held))).select(columns)]
    return members, pl.concat(both).sort("era", "started")


def _layer(members: pl.DataFrame, held: Holders) -> pl.DataFrame:
    """Attempts as a layer of the sweep: sums of their numbers and of their squares show whether all are the same."""
    rows = members["attempt"]
    codes = {name: held.attempts[f"{name}_no"].gather(rows) for name in ("user", "partition")}
    return members.select(
        pl.col("era").alias("lane"),
        "started",
        "ended",
        pl.lit(1, dtype=pl.Int64).alias("n"),
        "milli_gpus",
        "attempt",
        "unsure",
        *(code.pow(power).alias(f"{name}_{power}") for name, code in codes.items() for power in (1, 2)),
    )


def partitions(held: Holders) -> int:
    """More than any number of a partition."""
    most = held.attempts["partition_no"].max()
    return most + 1 if isinstance(most, int) else 0


def user_and_partition(owner: pl.Expr, held: Holders) -> dict[str, pl.Expr]:
    """`user_no` and `partition_no` (-1: of several) of an owner below 0."""
    width = partitions(held) + 1
    code = -1 - owner
    return {"user_no": code // width, "partition_no": code % width - 1}


def _same(name: str) -> pl.Expr:
    """All attempts of a segment have one number: n times the sum of squares is the square of the sum only then."""
    return pl.col("n") * pl.col(f"{name}_2") == pl.col(f"{name}_1") ** 2


def _kind(sure: pl.Expr) -> pl.Expr:
    """The kind of a segment of which it is `sure` how many GPUs are held, and by one owner."""
    gpus = pl.col("milli_gpus")
    countable = (gpus % 1000 == 0) & (pl.col("room") == pl.col("series") * 1000)
    return (
        pl.when(~sure)
        .then(UNCLEAR)
        .when(gpus >= pl.col("room"))
        .then(WHOLE)
        .when(countable)
        .then(CHOSEN)
        .otherwise(UNCLEAR)
        .cast(pl.Int64)
        .alias("kind")
    )


def _owner(n_partitions: int) -> pl.Expr:
    """The attempt, or a number below 0 for a user and partition: `user_and_partition` is the inverse."""
    n = pl.col("n")
    partition = pl.when(_same("partition")).then(pl.col("partition_1") // n).otherwise(-1)
    user = pl.col("user_1") // n
    return pl.when(n == 1).then("attempt").otherwise(-1 - (user * (n_partitions + 1) + partition + 1)).alias("owner")
