"""Node states, inventories and topologies: newly read rows put together with those of the warehouse.

Like `ingest.slurm.accounting.merge` for attempts, these look at contents only, never at which side a row came from:
loading twice equals loading once, and halves in any order equal the whole.

Inventories and topologies are kept as spells, runs of equal observations of a node. A spell forgets when within it the
node was seen, and yet another observation may have to cut it in two later. The moments are not lost, though: a command
shows all nodes at once, so each load of such a text is a look at the whole cluster, and a spell goes on only as long as
no look misses the node. So a spell and the looks (table `loads`) tell all observations, and what is kept is always what
loading all of them in order would have given.
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

LOOKS: Final[Schema] = {"cluster": TEXT, "ts": TIME}
"""Moments at which all nodes of a cluster were read."""


def merge_node_states(*frames: pl.DataFrame) -> pl.DataFrame:
    """One row per state of a node. An end, once known, replaces "still lasts"; a later end replaces an earlier one.

    Two states that began in one second (one of them may have lasted no time) are told apart by Slurm's own word.

    Args:
        frames: rows of `node_states`.

    Returns:
        The same columns, sorted by cluster, node and start.
    """
    key = ["cluster", "node", "started_at", "source", "state_raw"]
    rest = [name for name in NODE_STATES if name not in (*key, "ended_at")]
    every = pl.concat([conform(frame, NODE_STATES) for frame in frames])
    # The row with the latest end speaks; among equals the one whose texts sort last, which is as good as any and
    # the same in every order.
    spoken = every.sort(["ended_at", *rest], nulls_last=False).group_by(key).agg(pl.col("ended_at", *rest).last())
    return conform(spoken, NODE_STATES).sort(key)


def merge_nodes(there: pl.DataFrame, seen: pl.DataFrame, looks: pl.DataFrame, *, whole: bool = True) -> pl.DataFrame:
    """Inventories as spells: equal observations of a node that follow each other, no look between, are one row.

    Where two inventories of one moment differ, the one whose values sort last as text counts, in every order.

    Args:
        there: rows of `nodes`, all that the warehouse has of the clusters in `seen`.
        seen: rows of `nodes` as a parser makes them, one per node and moment.
        looks: as `LOOKS`, the moments of which `there` tells.
        whole: `seen` has all nodes. If not, some records were refused: it is no look, and ends nothing that it lacks.

    Returns:
        All rows of these clusters, sorted by cluster, node and first observation.
    """
    return _merge_spells(there, seen, looks, NODES, whole=whole)


def merge_topology(there: pl.DataFrame, seen: pl.DataFrame, looks: pl.DataFrame, *, whole: bool = True) -> pl.DataFrame:
    """Places in the network as spells, by the same rules as :func:`merge_nodes`; rows of `node_topology`."""
    return _merge_spells(there, seen, looks, NODE_TOPOLOGY, whole=whole)


_NODE: Final = ["cluster", "node"]
_ENDS: Final = ["valid_from", "last_seen_at"]


def _merge_spells(
    there: pl.DataFrame, seen: pl.DataFrame, looks: pl.DataFrame, schema: Schema, *, whole: bool
) -> pl.DataFrame:
    there, seen = conform(there, schema), conform(seen, schema)
    values = [name for name in schema if name not in (*_NODE, *_ENDS)]
    known = _moments(conform(looks, LOOKS))
    fresh = _moments(_ends(seen))
    for cluster, moment in fresh.rows():
        moments = known.filter(pl.col("cluster") == cluster)["ts"].to_list()
        told = there if whole else there.join(seen, on=_NODE, how="semi")
        rest = there.clear() if whole else there.join(seen, on=_NODE, how="anti")
        there = pl.concat([rest, *_cut(told, cluster, moment, moments)])
    as_text = pl.concat_str([_text(name, schema[name]) for name in values], separator="\x1f")
    each = pl.concat([there, seen]).sort(*_NODE, *_ENDS, as_text).group_by(*_NODE, *_ENDS, maintain_order=True).last()
    return _joined(each.select(*schema), _moments(known, fresh) if whole else known, values, schema)


def _ends(spells: pl.DataFrame) -> pl.DataFrame:
    """Both ends of a spell are observations of its node."""
    return pl.concat([spells.select("cluster", pl.col(name).alias("ts")) for name in _ENDS])


def _moments(*frames: pl.DataFrame) -> pl.DataFrame:
    return pl.concat(frames).drop_nulls().unique().sort("cluster", "ts")


def _cut(spells: pl.DataFrame, cluster: str, moment: datetime, known: list[datetime]) -> Iterator[pl.DataFrame]:
    """The spells, those that span a moment in parts: what was seen before it, at it (if looked then), and after it."""
    spans = (pl.col("cluster") == cluster) & pl.lit(moment).is_between("valid_from", "last_seen_at")
    spans &= pl.col("valid_from") < pl.col("last_seen_at")
    yield spells.filter(~spans)
    spanning = spells.filter(spans)
    place = bisect.bisect_left(known, moment)
    looked = place < len(known) and known[place] == moment
    before = pl.lit(known[place - 1] if place else None, dtype=TIME)
    after = pl.lit(next(iter(known[place + looked :][:1]), None), dtype=TIME)
    # The ends of a spell are observations of its node, too, and may lie nearer than any look.
    at_it = spanning.filter(pl.lit(looked) | (pl.col("valid_from") == moment) | (pl.col("last_seen_at") == moment))
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


def _joined(spells: pl.DataFrame, looks: pl.DataFrame, values: list[str], schema: Schema) -> pl.DataFrame:
    """Equal neighbours become one spell where the cluster was not looked at between them."""
    ends = spells.select("cluster", "last_seen_at").unique().sort("cluster", "last_seen_at")
    next_look = ends.join_asof(
        looks.with_columns(look=pl.col("ts")),
        left_on="last_seen_at",
        right_on="ts",
        by="cluster",
        strategy="forward",
        allow_exact_matches=False,
        check_sortedness=False,
    ).select("cluster", "last_seen_at", "look")
    ordered = spells.join(next_look, on=["cluster", "last_seen_at"], how="left").sort(*_NODE, "valid_from")
    same = pl.all_horizontal(pl.col(name).eq_missing(pl.col(name).shift(1)) for name in (*_NODE, *values))
    unbroken = (pl.col("look").shift(1) >= pl.col("valid_from")).fill_null(value=True)  # null: no look after it
    return conform(
        ordered.with_columns(spell=(~(same & unbroken)).cum_sum())
        .group_by("spell", maintain_order=True)
        .agg(
            pl.col(*_NODE, *values).first(),
            pl.col("valid_from").min(),
            pl.col("last_seen_at").max(),
        ),
        schema,
    ).sort(*_NODE, "valid_from")
