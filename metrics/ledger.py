"""The ledger: every GPU-second of capacity in exactly one category.

An allocation beats a node state, and a node state beats idle: only GPUs that no attempt holds can be unavailable or
idle. Within an allocation, what accounting alone can tell is carved out (`stalled`: GPUs of a dead node, suspended
time); of the rest a run log says what it was, else telemetry does, and what neither speaks for is `unattributed`.

All of it is whole numbers, microseconds and thousandths of a GPU, so the categories add up to capacity exactly, in
any window and any grouping. The construction is three sweeps (see `metrics.intervals`): one over nodes, which yields
what is left beside the allocations; one over attempts on nodes, only for those that something cuts; one at midnight.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from metrics import frames
from metrics.capacity import allocated_intervals
from metrics.intervals import merge_equal, overlaps, split_days, sweep

if TYPE_CHECKING:
    from collections.abc import Mapping

UNAVAILABLE = ("maintenance", "down", "drained", "unknown")
"""Categories of the state `unavailable`, the strongest first: planned work covers what breaks meanwhile."""

IDLE = ("no_demand", "pending_demand")
ALLOCATED = (
    "productive",
    "lost",
    "startup",
    "checkpoint",
    "stalled",
    "teardown",
    "other_work",
    "unattributed",
)
CATEGORIES = (*UNAVAILABLE, *IDLE, *ALLOCATED)

_US = 1_000_000


def gpu_time(
    *,
    inventory: pl.DataFrame,
    attempt_nodes: pl.DataFrame,
    node_states: pl.DataFrame,
    demand: pl.DataFrame,
    states_known: pl.DataFrame,
    covered: pl.DataFrame,
    logged: pl.DataFrame | None = None,
    active: pl.DataFrame | None = None,
    other_work: pl.DataFrame | None = None,
) -> pl.DataFrame:
    """Build the ledger.

    Args:
        inventory: `frames.INVENTORY`, what the ledger adds up to.
        attempt_nodes: `frames.ATTEMPT_NODES`; null `ended_at` means it still runs.
        node_states: `frames.NODE_STATES`; null `ended_at` means it still lasts. Apply `with_silence` first.
        demand: `frames.DEMAND`: times at which eligible work waited that could run there.
        states_known: `frames.COVERAGE` of node events; outside it a node without allocation is `unknown`.
        covered: `frames.COVERAGE` of accounting.
        logged: `frames.LOGGED`, what run logs say of attempts; it beats telemetry.
        active: `frames.ACTIVE`, what telemetry says of attempts on nodes.
        other_work: as `other_work` returns it: attempts that do not train. What they did with their GPUs is
            `other_work`, but GPUs that they left idle, lost to a dead node or had suspended stay `stalled`.

    Returns:
        `frames.LEDGER`; each row lies within one UTC day, and at each instant the rows of a node add up to its
        inventory. Allocation above inventory is scaled down pro rata (largest remainder, to a thousandth of a GPU),
        first where the split over an attempt's nodes is only assumed, so that what is known stays as it is.
    """
    lanes = inventory.select("cluster", "node").unique().sort("cluster", "node").with_row_index("lane")
    capacity = _in_lanes(inventory, lanes).select(
        "lane",
        "started",
        "ended",
        pl.col("milli_gpus").alias("capacity"),
        (pl.col("evidence") == "assumed").cast(pl.Int64).alias("guessed"),
    )
    held = allocated_intervals(attempt_nodes, covered).join(lanes, on=["cluster", "node"]).with_row_index("holder")
    states = _in_lanes(node_states, lanes, open_end=True)
    segments = sweep(
        [
            capacity,
            held.select("lane", "started", "ended", pl.col("milli_gpus").alias("held")),
            *(_one_state(states, name) for name in UNAVAILABLE),
            _cluster_wide(states_known, lanes).with_columns(pl.lit(1).alias("known")),
            _in_lanes(demand, lanes).select("lane", "started", "ended", pl.lit(1).alias("waiting")),
        ]
    ).filter(pl.col("capacity") > 0)
    allocated = _allocated(held, segments, states)
    seen = [
        evidence
        for evidence in (_logged_layers(logged, held), _active_layers(active, held))
        if not evidence.found.is_empty()
    ]
    for evidence in seen:
        allocated = _refined(allocated, evidence)
    allocated = _not_training(allocated, held, other_work)
    rows = pl.concat([_left_over(segments), allocated])
    return _named(split_days(rows), lanes, held)


def with_silence(node_states: pl.DataFrame, slurmd_timeout_s: pl.DataFrame) -> pl.DataFrame:
    """Add the time that a node had been silent for before Slurm called it down.

    Slurm marks a node DOWN, "Not responding", only after it has not heard from it for SlurmdTimeout. Its jobs end at
    that same moment, so without this the time that a dead node held GPUs would be zero. What is added is certain
    silence; the node may have died up to a few pings earlier still.

    Args:
        node_states: `frames.NODE_STATES`.
        slurmd_timeout_s: `cluster`, `slurmd_timeout_s`; clusters that are not in it get nothing.

    Returns:
        `frames.NODE_STATES` with one more row, ending where the state starts, for each such state.

    Source: slurm.conf(5), SlurmdTimeout.
    """
    silent = (pl.col("state") == "down") & pl.col("reason").fill_null("").str.starts_with("Not responding")
    before = (
        node_states.filter(silent)
        .join(slurmd_timeout_s, on="cluster")
        .with_columns(
            ended_at=pl.col("started_at"),
            started_at=pl.col("started_at") - pl.duration(microseconds=pl.col("slurmd_timeout_s") * _US),
        )
        .filter(pl.col("started_at") < pl.col("ended_at"))
    )
    return pl.concat([node_states, before.select(node_states.columns)])


def _in_lanes(found: pl.DataFrame, lanes: pl.DataFrame, *, open_end: bool = False) -> pl.DataFrame:
    ended = pl.col("ended_at").dt.epoch("us")
    return found.join(lanes, on=["cluster", "node"]).with_columns(
        started=pl.col("started_at").dt.epoch("us"), ended=ended.fill_null(2**62) if open_end else ended
    )


def _cluster_wide(found: pl.DataFrame, lanes: pl.DataFrame) -> pl.DataFrame:
    return found.join(lanes, on="cluster").select(
        "lane", pl.col("started_at").dt.epoch("us").alias("started"), pl.col("ended_at").dt.epoch("us").alias("ended")
    )


def _one_state(states: pl.DataFrame, name: str) -> pl.DataFrame:
    return states.filter(pl.col("state") == name).select("lane", "started", "ended", pl.lit(1).alias(name))


def _left_over(segments: pl.DataFrame) -> pl.DataFrame:
    """GPUs that no attempt holds: unavailable if the node was out of service or its state is not known, else idle."""
    category = pl.coalesce(
        *(pl.when(pl.col(name) > 0).then(pl.lit(name)) for name in UNAVAILABLE[:-1]),
        pl.when((pl.col("unknown") > 0) | (pl.col("known") == 0)).then(pl.lit("unknown")),
        pl.when(pl.col("waiting") > 0).then(pl.lit("pending_demand")),
        pl.lit("no_demand"),
    )
    assumed = (pl.col("guessed") > 0) | (pl.col("category") == "unknown")
    pieces = (
        segments.with_columns(milli_gpus=pl.col("capacity") - pl.min_horizontal("capacity", "held"), category=category)
        .filter(pl.col("milli_gpus") > 0)
        .select(
            "lane",
            "started",
            "ended",
            pl.lit(None, dtype=pl.UInt32).alias("holder"),
            pl.when(pl.col("category").is_in(IDLE))
            .then(pl.lit("idle"))
            .otherwise(pl.lit("unavailable"))
            .alias("state"),
            "category",
            pl.lit(None, dtype=pl.String).alias("cause"),
            pl.when(assumed).then(pl.lit("assumed")).otherwise(pl.lit("accounting")).alias("evidence"),
            "milli_gpus",
        )
    )
    return merge_equal(pieces)


def _allocated(held: pl.DataFrame, segments: pl.DataFrame, states: pl.DataFrame) -> pl.DataFrame:
    """Attempts on nodes, within capacity, cut where something is known about a part of them.

    Each attempt on a node is a lane of its own here (`holder`).
    """
    exists = merge_equal(segments.select("lane", "started", "ended"))
    guessed = (pl.col("evidence") == "assumed").fill_null(value=False).cast(pl.Int64).alias("guessed")
    base = overlaps(held.select("lane", "holder", "started", "ended", "milli_gpus", guessed), exists)
    own_lane = pl.col("holder").alias("lane")
    marks = [
        overlaps(base, _one_state(states, "down")).select(own_lane, "started", "ended", "down"),
        _suspended(held).select(own_lane, "started", "ended", "suspended"),
        _scaled_down(base, segments).select(own_lane, "started", "ended", "correction"),
    ]
    marked = pl.concat([mark.select("lane") for mark in marks]).unique()
    whole = base.join(marked, left_on="holder", right_on="lane", how="anti").with_columns(
        pl.lit(0).alias("down"), pl.lit(0).alias("suspended")
    )
    cut = base.join(marked, left_on="holder", right_on="lane", how="semi")
    holders = cut.select("holder", pl.col("lane").alias("node_lane")).unique()
    layers = [cut.select(own_lane, "started", "ended", "milli_gpus", "guessed"), *marks]
    pieces = (
        sweep(layers)
        .filter(pl.col("milli_gpus") > 0)  # marks may reach beyond the time that is covered
        .with_columns(milli_gpus=pl.col("milli_gpus") + pl.col("correction"))
        .filter(pl.col("milli_gpus") > 0)
        .join(holders, left_on="lane", right_on="holder")
        .select(pl.col("node_lane").alias("lane"), pl.col("lane").alias("holder"), *_PIECE)
    )
    cause = (
        pl.when(pl.col("down") > 0)
        .then(pl.lit("node_down"))
        .when(pl.col("suspended") > 0)
        .then(pl.lit("suspended"))
        .alias("cause")
    )
    return pl.concat([whole.select("lane", "holder", *_PIECE), pieces]).select(
        "lane",
        "started",
        "ended",
        "holder",
        pl.lit("allocated").alias("state"),
        pl.when(cause.is_null()).then(pl.lit("unattributed")).otherwise(pl.lit("stalled")).alias("category"),
        cause,
        pl.when(pl.col("guessed") > 0).then(pl.lit("assumed")).otherwise(pl.lit("accounting")).alias("evidence"),
        "milli_gpus",
    )


_PIECE = ("started", "ended", "milli_gpus", "down", "suspended", "guessed")


def _suspended(held: pl.DataFrame) -> pl.DataFrame:
    """Suspended time of each attempt. Accounting tells how long, not when: it is put at the attempt's end."""
    length = (pl.col("suspended_s").fill_null(0) * _US).round().cast(pl.Int64)
    return held.filter(length > 0).select(
        "holder",
        pl.max_horizontal(pl.col("started"), pl.col("ended") - length).alias("started"),
        "ended",
        pl.lit(1).alias("suspended"),
    )


def _scaled_down(base: pl.DataFrame, segments: pl.DataFrame) -> pl.DataFrame:
    """Where attempts hold more than the node has: what to add to (that is, take from) each, per segment.

    Attempts whose GPUs on the node are known come first, and those whose split is assumed share what is left. Within
    each of the two an attempt's share is its GPUs x room / held, rounded down to a thousandth; the thousandths left
    over go to the largest remainders, ties to the attempt that comes first.
    """
    over = segments.filter(pl.col("held") > pl.col("capacity")).select("lane", "started", "ended", "capacity")
    segment, tier = ["lane", "started"], ["lane", "started", "guessed"]
    known = pl.col("milli_gpus").filter(pl.col("guessed") == 0).sum().over(segment)
    taken = pl.min_horizontal(known, "capacity")
    room = pl.when(pl.col("guessed") > 0).then(pl.col("capacity") - taken).otherwise(taken)
    held = pl.col("milli_gpus").sum().over(tier)
    exact = pl.col("milli_gpus") * pl.col("room")
    shares = (
        overlaps(base, over)
        .with_columns(room=room, held=held)
        .with_columns(room=pl.min_horizontal("room", "held"))
        .with_columns(share=exact // pl.col("held"), remainder=exact % pl.col("held"))
        .with_columns(missing=pl.col("room") - pl.col("share").sum().over(tier))
        .sort(*tier, pl.col("remainder"), "holder", descending=[False, False, False, True, False])
        .with_columns(place=pl.int_range(pl.len()).over(tier))
        .with_columns(share=pl.col("share") + (pl.col("place") < pl.col("missing")).cast(pl.Int64))
    )
    return shares.with_columns(correction=pl.col("share") - pl.col("milli_gpus"))


def other_work(attempts: pl.DataFrame, kinds: Mapping[str, str]) -> pl.DataFrame:
    """Attempts that do something else than train, by their names or partitions.

    Args:
        attempts: `frames.ATTEMPTS`.
        kinds: what to call it -> regular expression; the first that matches the job's name or its partition counts.

    Returns:
        Attempt key and `kind`.
    """
    kind = pl.coalesce(
        pl.lit(None, dtype=pl.String),
        *(
            pl.when(
                pl.col("name").fill_null("").str.contains(pattern)
                | pl.col("partition").fill_null("").str.contains(pattern)
            ).then(pl.lit(name))
            for name, pattern in kinds.items()
        ),
    )
    return attempts.select(*frames.ATTEMPT_KEY, kind.alias("kind")).drop_nulls("kind")


_STILL_STALLED = ("idle_gpus", "node_down", "suspended")


def _not_training(allocated: pl.DataFrame, held: pl.DataFrame, other: pl.DataFrame | None) -> pl.DataFrame:
    """Call what attempts of another kind did by its name."""
    if other is None or other.is_empty():
        return allocated
    kinds = held.join(other, on=list(frames.ATTEMPT_KEY)).select("holder", "kind")
    theirs = allocated.join(kinds, on="holder")
    kept = (pl.col("category") == "stalled") & pl.col("cause").is_in(_STILL_STALLED).fill_null(value=False)
    renamed = theirs.filter(~kept).with_columns(category=pl.lit("other_work"), cause="kind")
    rest = allocated.join(kinds, on="holder", how="anti")
    return pl.concat([rest, theirs.filter(kept).select(allocated.columns), renamed.select(allocated.columns)])


@dataclass(frozen=True)
class _Evidence:
    """What one kind of evidence says: `lane` (a holder), `started`, `ended`, `category`, `cause`, `milli_gpus`."""

    kind: str
    found: pl.DataFrame


def _logged_layers(logged: pl.DataFrame | None, held: pl.DataFrame) -> _Evidence:
    """A log speaks for all nodes of its attempt alike."""
    said = frames.empty(frames.LOGGED) if logged is None else logged
    holders = held.select("holder", pl.col("milli_gpus").alias("held"), *frames.ATTEMPT_KEY)
    share = (pl.col("held") * pl.col("milli_share")) // _THOUSAND
    return _Evidence("log", _in_holders(said, holders, list(frames.ATTEMPT_KEY)).with_columns(milli_gpus=share))


def _active_layers(active: pl.DataFrame | None, held: pl.DataFrame) -> _Evidence:
    said = frames.empty(frames.ACTIVE) if active is None else active
    key = [*frames.ATTEMPT_KEY, "node"]
    return _Evidence("telemetry", _in_holders(said, held.select("holder", *key), key))


_THOUSAND = 1000


def _in_holders(said: pl.DataFrame, holders: pl.DataFrame, key: list[str]) -> pl.DataFrame:
    return said.join(holders, on=key).with_columns(
        lane="holder", started=pl.col("started_at").dt.epoch("us"), ended=pl.col("ended_at").dt.epoch("us")
    )


def _refined(allocated: pl.DataFrame, evidence: _Evidence) -> pl.DataFrame:
    """Put what evidence says in the place of `unattributed`; what it does not speak for stays as it was.

    Each pair of category and cause is a layer of the sweep. Where they claim more GPUs than are left (a log that
    speaks for a part of them, a GPU with two names, an over-allocated node), what was not productive comes first.
    """
    mine = evidence.found.select(pl.col("lane").alias("holder")).unique()
    open_ = pl.col("category") == "unattributed"
    spoken_for = allocated.filter(open_).join(mine, on="holder", how="semi")
    rest = pl.concat([allocated.filter(~open_), allocated.filter(open_).join(mine, on="holder", how="anti")])
    productive = pl.col("category") == "productive"
    kinds = evidence.found.select("category", "cause").unique().sort(productive, "category", "cause", nulls_last=False)
    said = evidence.found.join(kinds.with_row_index("kind"), on=["category", "cause"], nulls_equal=True)
    layers = [
        rows.select("lane", "started", "ended", pl.col("milli_gpus").alias(f"kind_{number}"))
        for number, rows in ((n, said.filter(pl.col("kind") == n)) for n in range(kinds.height))
    ]
    whole = spoken_for.select(
        pl.col("holder").alias("lane"),
        "started",
        "ended",
        "milli_gpus",
        (pl.col("evidence") == "assumed").cast(pl.Int64).alias("guessed"),
    )
    names = [f"kind_{number}" for number in range(kinds.height)]
    pieces = sweep([whole, *layers]).filter(pl.col("milli_gpus") > 0)
    pieces = pieces.with_columns(left=pl.col("milli_gpus"))
    for name in names:
        pieces = pieces.with_columns(pl.min_horizontal(name, "left").alias(f"served_{name}")).with_columns(
            left=pl.col("left") - pl.col(f"served_{name}")
        )
    parts = [
        pieces.filter(pl.col(f"served_{name}") > 0).select(
            "lane",
            "started",
            "ended",
            "guessed",
            pl.lit(category).alias("category"),
            pl.lit(cause, dtype=pl.String).alias("cause"),
            pl.lit(evidence.kind).alias("evidence"),
            pl.col(f"served_{name}").alias("milli_gpus"),
        )
        for name, (category, cause) in zip(names, kinds.iter_rows(), strict=True)
    ]
    unseen = pieces.filter(pl.col("left") > 0).select(
        "lane",
        "started",
        "ended",
        "guessed",
        pl.lit("unattributed").alias("category"),
        pl.lit(None, dtype=pl.String).alias("cause"),
        pl.when(pl.col("guessed") > 0).then(pl.lit("assumed")).otherwise(pl.lit("accounting")).alias("evidence"),
        pl.col("left").alias("milli_gpus"),
    )
    merged = pl.concat([merge_equal(part) for part in (*parts, unseen)])
    homes = spoken_for.select("holder", pl.col("lane").alias("node_lane")).unique()
    return pl.concat(
        [
            rest,
            merged.rename({"lane": "holder"})
            .join(homes, on="holder")
            .with_columns(lane="node_lane", state=pl.lit("allocated"))
            .select(rest.columns),
        ]
    )


def _named(rows: pl.DataFrame, lanes: pl.DataFrame, held: pl.DataFrame) -> pl.DataFrame:
    """Back from lanes and holders to nodes and attempts."""
    full = (
        rows.join(lanes, on="lane")
        .join(held.select("holder", "scheduler", "job_id", "submitted_at"), on="holder", how="left")
        .with_columns(started_at=frames.from_us("started"), ended_at=frames.from_us("ended"))
    )
    order = ["cluster", "node", "started_at", "job_id", "submitted_at", "category"]
    return frames.conform(full, frames.LEDGER).sort(order, nulls_last=True)
