"""Number of blocks (or leaf switches) that an attempt spanned, and the least that was possible when it started.

A node belongs to a *group*, the innermost block or switch of its place in the network, and to an *upper* group, what is
above that. An attempt could have had, at the moment it started, every node of its partition that was in service and on
which as many GPUs were free as it held on its fullest node, and its own nodes. The least number of groups that hold
enough of those follows by taking the largest groups first: no choice of as many groups holds more nodes. Where it
requested segments (`--segment`), a group holds whole segments only. Each level is judged by itself. Where its partition
is not recorded, or none of the nodes is listed in it, the least number is unknown.

Nodes that others got at the same moment count as taken; reservations, CPUs and memory are ignored.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from metrics import frames
from metrics.exact import exact_sum
from metrics.intervals import sweep
from metrics.metric import Metric
from metrics.unknown import known_sum

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

Longs: TypeAlias = npt.NDArray[np.int64]

PLACES: frames.Schema = {
    "cluster": frames.TEXT,
    "node": frames.TEXT,
    "valid_from": frames.TIME,
    "path": pl.List(pl.String()),
}
"""A node's place in the network from a time on: `path` from the outermost switch or block to the innermost; empty: it
has none that is known any more."""

SPANS: frames.Schema = {name: frames.ATTEMPTS[name] for name in frames.ATTEMPT_KEY} | {
    "user": frames.TEXT,
    "account": frames.TEXT,
    "partition": frames.TEXT,
    "state": frames.TEXT,
    "started_at": frames.TIME,
    "ended_at": frames.TIME,
    "waited_s": frames.NUMBER,
    "n_nodes": frames.COUNT,
    "milli_gpus": frames.COUNT,
    "gpu_s": frames.NUMBER,
    "segment": frames.COUNT,
    "spanned": frames.COUNT,
    "least": frames.COUNT,
    "least_empty": frames.COUNT,
    "upper_spanned": frames.COUNT,
    "upper_least": frames.COUNT,
    "assumed": frames.FLAG,
}
"""An attempt on several nodes. `spanned` groups, the `least` possible at its start, and `least_empty` with all nodes in
service and free; null: a node's place, or which nodes its partition has, is unknown. `assumed`: its places were only
reported later. `gpu_s`: to the window's end."""

LEVELS: Final = ("group", "upper")
_CELLS: Final = 20_000_000
"""Counts (attempts x groups) that are held at once."""

_KEY: Final = list(frames.ATTEMPT_KEY)
_NODE: Final = ["cluster", "node"]
_EVER: Final = 2**62


def spans(
    attempts: pl.DataFrame,
    attempt_nodes: pl.DataFrame,
    places: pl.DataFrame,
    *,
    nodes: pl.DataFrame,
    inventory: pl.DataFrame,
    node_states: pl.DataFrame,
    since: datetime,
    until: datetime,
) -> pl.DataFrame:
    """Number of groups that each attempt on several nodes spanned, and the least that was possible.

    Args:
        attempts: `frames.ATTEMPTS`.
        attempt_nodes: `frames.ATTEMPT_NODES`.
        places: `PLACES`.
        nodes: `frames.NODES`, for their partitions.
        inventory: `frames.INVENTORY`.
        node_states: `frames.NODE_STATES`: out of service.
        since: attempts that began from then on ...
        until: ... and before then.

    Returns:
        `SPANS`, by start.
    """
    cluster = NodePlaces(attempt_nodes, places, nodes, inventory, node_states)
    held = cluster.held.filter(pl.col("gpus") > 0)
    first, last = since_us(since), since_us(until)
    shape = held.group_by(_KEY).agg(
        pl.col("home").n_unique().cast(frames.COUNT).alias("held_nodes"),
        pl.col("gpus").max().alias("each"),
        pl.col("gpus").sum().alias("held_gpus"),
    )
    begun = attempts.filter(pl.col("started_at").is_not_null()).with_columns(at=pl.col("started_at").dt.epoch("us"))
    starts = (
        begun.filter((pl.col("at") >= first) & (pl.col("at") < last))
        .join(shape.filter(pl.col("held_nodes") > 1), on=_KEY)
        .sort("at", *_KEY)
        .with_row_index("query")
    )
    placed = starts if places.height else starts.clear()  # else the place of every node is unknown
    own = (
        placed.select("query", "at", *_KEY).join(held, on=_KEY).unique(["query", "home"]).select("query", "at", "home")
    )
    standing = cluster.standing(own)
    known = standing.group_by("query").agg(pl.col("place").is_not_null().all().alias("known"), pl.col("assumed").any())
    counted = cluster.counted(starts.join(known, on="query").filter("known"), standing)
    over = pl.coalesce("ended_at", frames.instant(until)).clip(upper_bound=until)
    rows = starts.join(counted, on="query", how="left").join(known, on="query", how="left").sort("query")
    return frames.conform(
        rows.with_columns(
            assumed=pl.col("assumed").fill_null(value=False),
            n_nodes=pl.col("held_nodes"),
            milli_gpus=pl.col("held_gpus"),
            segment=pl.col("req_segment"),
            waited_s=frames.seconds(pl.col("started_at") - pl.coalesce("eligible_at", "submitted_at")).clip(0),
            gpu_s=pl.col("held_gpus") / 1000 * frames.seconds(over - pl.col("started_at")),
        ),
        SPANS,
    )


def since_us(moment: datetime) -> int:
    """A moment as microseconds since 1970."""
    return int(pl.Series([moment]).cast(frames.TIME).dt.epoch("us").item())


def since_known(places: pl.DataFrame) -> pl.DataFrame:
    """Places of nodes in their order, without what was reported before the first one that is known."""
    known = (pl.col("path").list.len() > 0).cum_max().over(_NODE)
    return places.sort(*_NODE, "valid_from").filter(known)


def least_groups(counts: Longs, needed: Longs, segment: Longs) -> Longs:
    """The least number of groups that hold the nodes needed, for each row; 0 where all together do not.

    Args:
        counts: nodes that a group has to give, rows x groups.
        needed: nodes, a number for each row.
        segment: nodes that must be in one group together, for each row; 1: any.

    >>> least_groups(np.array([[3, 5, 4], [3, 5, 4]]), np.array([8, 8]), np.array([1, 4]))
    array([2, 2])
    >>> least_groups(np.array([[3, 5, 3], [3, 3, 3]]), np.array([8, 8]), np.array([4, 4]))
    array([0, 0])
    """
    segments = np.sort(counts // segment[:, None], axis=1)[:, ::-1]
    enough = np.cumsum(segments, axis=1) >= -(-needed // segment)[:, None]
    return np.where(enough.any(axis=1), enough.argmax(axis=1) + 1, 0).astype(np.int64)


class NodePlaces:
    """Nodes by number: their places, partitions, and when how many of their GPUs were free."""

    def __init__(
        self,
        attempt_nodes: pl.DataFrame,
        places: pl.DataFrame,
        nodes: pl.DataFrame,
        inventory: pl.DataFrame,
        node_states: pl.DataFrame,
    ) -> None:
        named = (frame.select(_NODE) for frame in (attempt_nodes, places, inventory))
        self._homes = pl.concat(named).unique().sort(_NODE).with_row_index("home").cast({"home": pl.Int64})
        self.held = _intervals(attempt_nodes).join(self._homes, on=_NODE).rename({"milli_gpus": "gpus"})
        self._places = self._numbered(places)
        self._serving = self._partitions(nodes)
        self._inventory = _intervals(inventory).join(self._homes, on=_NODE)
        self._out = _intervals(node_states).join(self._homes, on=_NODE)

    @functools.cached_property
    def _states(self) -> pl.DataFrame:
        """GPUs and holders of each node over time: swept at the first request, since there are millions."""
        stands = self._places.select(pl.col("home").alias("lane"), "started", "ended", place=pl.col("place") + 1)
        lanes = ("started", "ended")
        return sweep(
            [
                self._inventory.select(pl.col("home").alias("lane"), *lanes, pl.col("milli_gpus").alias("gpus")),
                self.held.select(
                    pl.col("home").alias("lane"), *lanes, pl.col("gpus").fill_null(_EVER >> 20).alias("taken")
                ),
                self._out.select(
                    pl.col("home").alias("lane"),
                    *lanes,
                    pl.lit(1, dtype=pl.Int64).alias("out"),
                    pl.col("planned").fill_null(value=False).cast(pl.Int64).alias("planned"),
                ),
                stands,
            ]
        ).filter(pl.col("gpus") > 0)

    def _numbered(self, places: pl.DataFrame) -> pl.DataFrame:
        """Places with numbers, from when to when; the first one reaches back, as assumed."""
        inner, outer = pl.col("path").list.join("\x1f"), pl.col("path").list.head(pl.col("path").list.len() - 1)
        ordered = since_known(places).join(self._homes, on=_NODE).sort("home", "valid_from")
        begins = pl.col("valid_from").dt.epoch("us")
        first = pl.col("home") != pl.col("home").shift(1).fill_null(-1)
        lasting = ordered.with_columns(
            started=pl.when(first).then(pl.lit(-_EVER)).otherwise(begins),
            ended=pl.when(pl.col("home") == pl.col("home").shift(-1)).then(begins.shift(-1)).fill_null(_EVER),
            reported=begins,
        ).filter(pl.col("path").list.len() > 0)
        return lasting.with_columns(
            group=pl.struct("cluster", inner).rank("dense").cast(pl.Int64) - 1,
            upper=pl.struct("cluster", outer.list.join("\x1f")).rank("dense").cast(pl.Int64) - 1,
        ).with_row_index("place").cast({"place": pl.Int64})  # fmt: skip

    def _partitions(self, nodes: pl.DataFrame) -> pl.DataFrame:
        """`home`, `partitions` by the last report; null: unknown, which serves all."""
        newest = nodes.sort("valid_from").group_by(_NODE).agg(pl.col("partitions").last())
        return self._homes.join(newest, on=_NODE, how="left")

    def standing(self, own: pl.DataFrame) -> pl.DataFrame:
        """With the `place` of each node at `at` (null: unknown) and whether it was `assumed`."""
        stands = self._places.select("home", "started", "ended", "reported", "place", "group", "upper").sort("started")
        joined = own.sort("at").join_asof(
            stands, left_on="at", right_on="started", by="home", strategy="backward", check_sortedness=False
        )
        left = (pl.col("ended") <= pl.col("at")).fill_null(value=False)
        now = joined.with_columns(
            pl.when(~left).then(pl.col(name)).alias(name) for name in ("place", "group", "upper", "reported")
        ).drop("ended")
        return now.with_columns(assumed=(pl.col("reported") > pl.col("at")).fill_null(value=False))

    def counted(self, starts: pl.DataFrame, standing: pl.DataFrame) -> pl.DataFrame:
        """`query` with `SPANS`' counts of groups, for attempts with all of their places known."""
        own = standing.join(starts.select("query", "cluster", "partition", "each"), on="query")
        level_of = {level: dict(zip(*self._places.select("place", level), strict=True)) for level in LEVELS}
        parts = [pl.DataFrame(schema=dict.fromkeys(_COUNTED, pl.Int64))]
        for (cluster, partition, each), queries in starts.group_by(
            ["cluster", "partition", "each"], maintain_order=True
        ):
            theirs = own.join(queries.select("query"), on="query", how="semi")
            if not self._is_listed(cluster, partition):
                continue
            of = (str(cluster), str(partition))
            able, empty = self.able(of, int(each)), self.able(of, int(each), empty=True)
            columns: dict[str, pl.Series] = {"query": queries["query"].cast(pl.Int64)}
            for level, prefix in (("group", ""), ("upper", "upper_")):
                columns[f"{prefix}spanned"] = _spanned(queries, theirs, level)
                columns[f"{prefix}least"] = self._least(queries, theirs, able, level_of[level], level)
                if not prefix:
                    columns["least_empty"] = self._least(queries, theirs, empty, level_of[level], level)
            parts.append(pl.DataFrame(columns).select(_COUNTED))
        return pl.concat(parts).with_columns(pl.col("query").cast(pl.UInt32))

    def _is_listed(self, cluster: object, partition: object) -> bool:
        """Whether the nodes of a partition are known: it is that of some, or no node's partitions are recorded."""
        names = self._serving.filter(pl.col("cluster") == cluster)["partitions"].explode().drop_nulls()
        return names.is_empty() or (partition is not None and partition in names)

    def able(
        self, partition: tuple[str, str], each: int, *, empty: bool = False, broken: bool = False, placed: bool = True
    ) -> pl.DataFrame:
        """Times in which each node of a partition had so many GPUs free.

        Args:
            partition: cluster and name.
            each: GPUs, in thousandths.
            empty: whether they had them at all, free or not, in service or not.
            broken: count nodes that are out of service and not planned to be, too.
            placed: only while their place is known.

        Returns:
            `home`, `started`, `ended`, `place` (-1: unknown).
        """
        cluster, name = partition
        own = pl.col("partitions").list.contains(pl.lit(name)) | (pl.col("partitions").list.len().fill_null(0) == 0)
        homes = self._serving.filter((pl.col("cluster") == cluster) & own.fill_null(value=True))
        free = pl.col("gpus") - (0 if empty else pl.col("taken"))
        fit = pl.lit(value=True) if empty else pl.col("planned" if broken else "out") == 0
        known = pl.col("place") > 0 if placed else pl.lit(value=True)
        return (
            self._states.filter((free >= each) & fit & known)
            .join(homes.select(pl.col("home").alias("lane")), on="lane", how="semi")
            .select(pl.col("lane").alias("home"), "started", "ended", place=pl.col("place") - 1)
        )

    @property
    def groups(self) -> dict[int, int]:
        """The innermost group of each place, by number."""
        return dict(self._places.select("place", "group").rows())

    def _least(
        self, queries: pl.DataFrame, own: pl.DataFrame, able: pl.DataFrame, group_of: dict[int, int], level: str
    ) -> pl.Series:
        """The least number of groups at each start."""
        # Its own nodes count, too, where others could not have had them at that moment.
        candidates = able.sort("started").rename({"started": "from"}).select("home", "from", "ended")
        held = own.sort("at").join_asof(
            candidates, left_on="at", right_on="from", by="home", strategy="backward", check_sortedness=False
        )
        added = held.filter((pl.col("ended") <= pl.col("at")).fill_null(value=True))
        numbers = {group: place for place, group in enumerate(sorted({*own[level], *map(group_of.get, able["place"])}))}
        groups = pl.Series([numbers[group_of[place]] for place in able["place"]], dtype=pl.Int64)
        edges = able.select("started", "ended").with_columns(groups.alias("group"))
        row_of = {query: row for row, query in enumerate(queries["query"])}
        extra_row = np.array([row_of[query] for query in added["query"]], dtype=np.int64)
        extra_group = np.array([numbers[group] for group in added[level]], dtype=np.int64)
        needed = queries["held_nodes"].to_numpy()
        segment = queries["req_segment"].fill_null(1).clip(1).to_numpy()
        results = []
        for part, counts in counts_at(edges, queries["at"].to_numpy(), len(numbers)):
            inside = (extra_row >= part.start) & (extra_row < part.stop)
            np.add.at(counts, (extra_row[inside] - part.start, extra_group[inside]), 1)
            plain = least_groups(counts, needed[part], np.ones_like(needed[part]))
            aligned = least_groups(counts, needed[part], segment[part])
            results.append(np.where(aligned > 0, aligned, plain))
        return pl.Series(np.concatenate(results) if results else [], dtype=pl.Int64)


_COUNTED: Final = ("query", "spanned", "least", "least_empty", "upper_spanned", "upper_least")


def _spanned(queries: pl.DataFrame, own: pl.DataFrame, level: str) -> pl.Series:
    counts = own.group_by("query").agg(pl.col(level).n_unique().cast(pl.Int64))
    return queries.select("query").join(counts, on="query", how="left", maintain_order="left")[level]


def counts_at(edges: pl.DataFrame, at: Longs, n_groups: int) -> Iterator[tuple[slice, Longs]]:
    """Number of nodes of each group right after each moment: pieces of rows x groups."""
    ends = {
        int(group[0]): (np.sort(one["started"].to_numpy()), np.sort(one["ended"].to_numpy()))
        for group, one in edges.partition_by("group", as_dict=True).items()
    }
    step = max(1, _CELLS // max(1, n_groups))
    for low in range(0, len(at), step):
        part = slice(low, min(low + step, len(at)))
        counts = np.zeros((part.stop - low, n_groups), dtype=np.int64)
        for group, (begins, over) in ends.items():
            counts[:, group] = np.searchsorted(begins, at[part], "right") - np.searchsorted(over, at[part], "right")
        yield part, counts


def _intervals(rows: pl.DataFrame) -> pl.DataFrame:
    """With `started` and `ended` in microseconds; what has no end goes on for ever."""
    return rows.with_columns(
        started=pl.col("started_at").dt.epoch("us"), ended=pl.col("ended_at").dt.epoch("us").fill_null(_EVER)
    )


def by_size(rows: pl.DataFrame, size: pl.Expr) -> pl.DataFrame:
    """Placement of attempts by a size: how many had the least, how many groups in excess, and how long they waited.

    Args:
        rows: `SPANS`.
        size: what to group by.

    Returns:
        By `cluster` and `subject`: `n` attempts on several nodes; `n_known` with all places known, `n_assumed` of them
        with places that were only reported later, `n_least` at the least possible, `share` of those (null of none);
        `spanned`, `least` and `least_empty` added up, `excess` (spanned - least), `gpu_s` and `excess_gpu_s`, of
        attempts that spanned more than the least (null where no place is known); `waited_s`, the median.
    """
    known = pl.col("least").is_not_null()
    more = known & (pl.col("spanned") > pl.col("least"))
    at_least = known & ~more

    def count(which: pl.Expr) -> pl.Expr:
        return which.fill_null(value=False).sum().cast(frames.COUNT)

    sums = rows.with_columns(subject=size).group_by("cluster", "subject").agg(
        pl.len().cast(frames.COUNT).alias("n"),
        count(known).alias("n_known"),
        count(known & pl.col("assumed")).alias("n_assumed"),
        count(at_least).alias("n_least"),
        *(known_sum(pl.col(name).filter(known)) for name in _COUNTED[1:]),
        exact_sum(pl.col("gpu_s")).alias("gpu_s"),
        pl.when(known.any()).then(exact_sum(pl.col("gpu_s").filter(more))).alias("excess_gpu_s"),
        pl.col("waited_s").median(),
    )  # fmt: skip
    return sums.with_columns(
        excess=pl.col("spanned") - pl.col("least"),
        share=pl.when(pl.col("n_known") > 0).then(pl.col("n_least") / pl.col("n_known")),
    )


# Published metrics --------------------------------------------------------------------------------------------------

METRICS = (
    Metric(
        name="least_placement_share",
        unit="ratio",
        summary="Share of attempts on several nodes that spanned no more blocks or leaf switches than they had to.",
        formula=(
            "attempts that spanned the least number of innermost groups possible with the nodes that were in service "
            "and free when they started, and their own / attempts on several nodes with all places known"
        ),
        query="node_places",
        function=by_size,
        interval="none: a census; attempts with nodes of unknown place are listed apart",
        source="ours",
        show="placement",
    ),
)
