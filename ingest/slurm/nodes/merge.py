"""Node states, inventories and topologies: newly read rows put together with those of the warehouse.

Like `ingest.slurm.accounting.merge` for attempts, these depend on contents only, never on which side a row came from:
loading twice equals loading once, and halves in any order equal the whole.

Inventories and topologies are stored as validity intervals, runs of equal observations of a node. An interval forgets
the times of observations within it, and yet another observation may have to cut it in two later. The times are not
lost, though: a command shows all nodes at once, so each load of such a text is a snapshot of the whole cluster, and an
interval continues only as long as no snapshot lacks the node. So the intervals and the snapshots (table `loads`)
determine all observations, and the stored rows always equal those of loading everything in order.
"""

from __future__ import annotations

import bisect
from typing import TYPE_CHECKING, Final

import polars as pl

from ingest.tables import NODE_STATES, NODE_TOPOLOGY, NODES, TEXT, TIME, conform

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from ingest.tables import Schema

SNAPSHOTS: Final[Schema] = {"cluster": TEXT, "ts": TIME}
"""Moments at which all nodes of a cluster were read."""


def merge_node_states(*frames: pl.DataFrame) -> pl.DataFrame:
    """One row per state of a node. A recorded end replaces "still lasts"; a later end replaces an earlier one.

    Two states that began in one second (one of them may have lasted no time) are distinguished by Slurm's own word.

    Args:
        frames: rows of `node_states`.

    Returns:
        The same columns, sorted by cluster, node and start.
    """
    key = ["cluster", "node", "started_at", "source", "state_raw"]
    rest = [name for name in NODE_STATES if name not in (*key, "ended_at")]
    every = pl.concat([conform(frame, NODE_STATES) for frame in frames])
    # The row with the latest end counts; among equals the one whose texts sort last: an arbitrary choice that does not
    # depend on the order.
    latest = every.sort(["ended_at", *rest], nulls_last=False).group_by(key).agg(pl.col("ended_at", *rest).last())
    return conform(latest, NODE_STATES).sort(key)


def merge_nodes(
    existing: pl.DataFrame, observed: pl.DataFrame, snapshots: pl.DataFrame, *, whole: bool = True
) -> pl.DataFrame:
    """Inventories as validity intervals: consecutive equal observations of a node, no snapshot between, are one row.

    Where two inventories of one moment differ, the one whose values sort last as text counts, in every order.

    Args:
        existing: rows of `nodes`, all that the warehouse has of the clusters in `observed`.
        observed: rows of `nodes` as a parser makes them, one per node and moment.
        snapshots: as `SNAPSHOTS`, the moments that `existing` covers.
        whole: `observed` has all nodes. If not, some records were refused: it is no snapshot, and ends no interval.

    Returns:
        All rows of these clusters, sorted by cluster, node and first observation.
    """
    return _merge_intervals(existing, observed, snapshots, NODES, whole=whole)


def merge_topology(
    existing: pl.DataFrame, observed: pl.DataFrame, snapshots: pl.DataFrame, *, whole: bool = True
) -> pl.DataFrame:
    """Places in the network as validity intervals, by the rules of :func:`merge_nodes`; rows of `node_topology`."""
    return _merge_intervals(existing, observed, snapshots, NODE_TOPOLOGY, whole=whole)


_NODE: Final = ["cluster", "node"]
_ENDS: Final = ["valid_from", "last_seen_at"]


def _merge_intervals(
    existing: pl.DataFrame, observed: pl.DataFrame, snapshots: pl.DataFrame, schema: Schema, *, whole: bool
) -> pl.DataFrame:
    existing, observed = conform(existing, schema), conform(observed, schema)
    values = [name for name in schema if name not in (*_NODE, *_ENDS)]
    snapshots_before = _moments(conform(snapshots, SNAPSHOTS))
    fresh = _moments(_ends(observed))
    for cluster, moment in fresh.rows():
        moments = snapshots_before.filter(pl.col("cluster") == cluster)["ts"].to_list()
        affected = existing if whole else existing.join(observed, on=_NODE, how="semi")
        rest = existing.clear() if whole else existing.join(observed, on=_NODE, how="anti")
        existing = pl.concat([rest, *_cut(affected, cluster, moment, moments)])
    as_text = pl.concat_str([_text(name, schema[name]) for name in values], separator="\x1f")
    observations = (
        pl.concat([existing, observed])
        .sort(*_NODE, *_ENDS, as_text)
        .group_by(*_NODE, *_ENDS, maintain_order=True)
        .last()
    )
    return _joined(
        observations.select(*schema), _moments(snapshots_before, fresh) if whole else snapshots_before, values, schema
    )


def _ends(intervals: pl.DataFrame) -> pl.DataFrame:
    """Both ends of an interval are observations of its node."""
    return pl.concat([intervals.select("cluster", pl.col(name).alias("ts")) for name in _ENDS])


def _moments(*frames: pl.DataFrame) -> pl.DataFrame:
    return pl.concat(frames).drop_nulls().unique().sort("cluster", "ts")


def _cut(
    intervals: pl.DataFrame, cluster: str, moment: datetime, snapshot_times: list[datetime]
) -> Iterator[pl.DataFrame]:
    """The intervals, those that span a moment in parts: before it, at it (if it has a snapshot), and after it."""
    spans = (pl.col("cluster") == cluster) & pl.lit(moment).is_between("valid_from", "last_seen_at")
    spans &= pl.col("valid_from") < pl.col("last_seen_at")
    yield intervals.filter(~spans)
    spanning = intervals.filter(spans)
    index = bisect.bisect_left(snapshot_times, moment)
    is_snapshot = index < len(snapshot_times) and snapshot_times[index] == moment
    before = pl.lit(snapshot_times[index - 1] if index else None, dtype=TIME)
    after = pl.lit(next(iter(snapshot_times[index + is_snapshot :][:1]), None), dtype=TIME)
    # The ends of an interval are observations of its node, too, and may lie nearer than any snapshot.
    at_it = spanning.filter(pl.lit(is_snapshot) | (pl.col("valid_from") == moment) | (pl.col("last_seen_at") == moment))
    yield at_it.with_columns(pl.lit(moment, dtype=TIME).alias(name) for name in _ENDS)
    yield spanning.filter(pl.col("valid_from") < moment).with_columns(
        last_seen_at=pl.max_horizontal(before, "valid_from")
    )
    yield spanning.filter(pl.col("last_seen_at") > moment).with_columns(
        valid_from=pl.min_horizontal(after, "last_seen_at")
    )


def _text(name: str, kind: pl.DataType) -> pl.Expr:
    """A value as text, null apart from empty, so that rows can be put into one order."""
    column = pl.col(name).list.join("\x1e") if isinstance(kind, pl.List) else pl.col(name).cast(pl.String)
    return pl.when(column.is_null()).then(pl.lit("")).otherwise(pl.lit("=") + column)


def _joined(intervals: pl.DataFrame, snapshots: pl.DataFrame, values: list[str], schema: Schema) -> pl.DataFrame:
    """Equal neighbours become one interval where no snapshot lies between them."""
    ends = intervals.select("cluster", "last_seen_at").unique().sort("cluster", "last_seen_at")
    next_snapshot = ends.join_asof(
        snapshots.with_columns(snapshot=pl.col("ts")),
        left_on="last_seen_at",
        right_on="ts",
        by="cluster",
        strategy="forward",
        allow_exact_matches=False,
        check_sortedness=False,
    ).select("cluster", "last_seen_at", "snapshot")
    ordered = intervals.join(next_snapshot, on=["cluster", "last_seen_at"], how="left").sort(*_NODE, "valid_from")
    same = pl.all_horizontal(pl.col(name).eq_missing(pl.col(name).shift(1)) for name in (*_NODE, *values))
    unbroken = (pl.col("snapshot").shift(1) >= pl.col("valid_from")).fill_null(value=True)  # null: no snapshot after it
    return conform(
        ordered.with_columns(interval=(~(same & unbroken)).cum_sum())
        .group_by("interval", maintain_order=True)
        .agg(
            pl.col(*_NODE, *values).first(),
            pl.col("valid_from").min(),
            pl.col("last_seen_at").max(),
        ),
        schema,
    ).sort(*_NODE, "valid_from")
