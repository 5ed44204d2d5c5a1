"""The sweeps that make the ledger: every GPU-second of capacity in exactly one category, all in numbers.

An allocation beats a node state, and a node state beats idle: only GPUs that no attempt holds can be unavailable or
idle. Within an allocation, what accounting alone shows is carved out (`stalled`: GPUs of a dead node, suspended
time); the rest is by the evidence of a run log, else of telemetry, and what neither covers is `unattributed`.

An attempt whose GPUs are unknown (accounting without gres/gpu, and no other source) held between none and all GPUs of
its node that no other attempt is known to hold. So what is left there while it runs is neither idle nor anybody's: it
is one row of the node without an attempt, however many such attempts share it, with the cause `gpus_unknown` and the
evidence `assumed`. Where it would be idle it is `allocated`, `unattributed`; where the node is out of service it stays
`unavailable` with that category. The categories add up to capacity as ever, no attempt is charged with GPUs that it may
not have held, and ratios over capacity take their bounds from these rows: `metrics.goodput.goodput`.

All of it is whole numbers, microseconds and thousandths of a GPU, so the categories add up to capacity exactly, in
any window and any grouping. The construction is three sweeps (see `metrics.intervals`): one over nodes, which yields
what the allocations leave; one over attempts on nodes, only for those that something cuts; one at midnight.
Pieces are as long as they can be within a day, whichever other days are computed with them: a day alone yields the same
rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from metrics import frames
from metrics.categories import GPUS_UNKNOWN, IDLE, UNAVAILABLE
from metrics.intervals import merge_equal, overlaps, split_days, sweep
from metrics.ledger.column_types import CATEGORY, STATE, category, evidence, state

if TYPE_CHECKING:
    from metrics.ledger.inputs import Inputs

_NO_CAUSE = pl.lit(None, dtype=pl.String)


def sweep_ledger(inputs: Inputs) -> pl.DataFrame:
    """The rows of the ledger, in no particular order.

    Returns:
        `lane`, `attempt` (null where none held the GPUs), `started`, `ended`, `state`, `category`, `cause`,
        `evidence`, `milli_gpus`.
    """
    held = inputs.held.with_row_index("holder")
    waiting = _by_cause(inputs.demand)
    segments = sweep(
        [
            inputs.capacity,
            held.select("lane", "started", "ended", pl.col("milli_gpus").alias("held")),
            *(_one_state(inputs.states, name) for name in UNAVAILABLE),
            _cluster_wide(inputs).with_columns(pl.lit(1).alias("known")),
            inputs.unclear.with_columns(pl.lit(1).alias("unclear")),
            *(layer for _, layer in waiting),
        ]
    ).filter(pl.col("capacity") > 0)
    allocated = _allocated(held, segments, inputs)
    for source in (_logged_layers(inputs.logged, held), _active_layers(inputs.active, held)):
        if not source.rows.is_empty():
            allocated = _refined(allocated, source)
    allocated = _not_training(allocated, held, inputs.other)
    rows = split_days(pl.concat([_left_over(segments, [cause for cause, _ in waiting]), allocated]))
    return rows.with_columns(held["attempt"].gather(rows["holder"]).alias("attempt")).drop("holder")


def _cluster_wide(inputs: Inputs) -> pl.DataFrame:
    lanes = inputs.lanes.with_row_index("lane")
    return lanes.join(inputs.known, on="cluster").select("lane", "started", "ended")


def _one_state(states: pl.DataFrame, name: str) -> pl.DataFrame:
    return states.filter(pl.col("state") == name).select("lane", "started", "ended", pl.lit(1).alias(name))


def _by_cause(demand: pl.DataFrame) -> list[tuple[str | None, pl.DataFrame]]:
    """A layer for each cause of waiting, called `waiting_0` and so on; the one without a cause last."""
    causes = demand["cause"].unique().sort(nulls_last=True).to_list()
    return [
        (
            cause,
            demand.filter(pl.col("cause").eq_missing(cause)).select(
                "lane", "started", "ended", pl.lit(1).alias(f"waiting_{number}")
            ),
        )
        for number, cause in enumerate(causes)
    ]


def _left_over(segments: pl.DataFrame, causes: list[str | None]) -> pl.DataFrame:
    """GPUs that no attempt is known to hold.

    They are unavailable if the node was out of service or its state is not known, else idle, or unclear where an
    attempt with unknown GPUs ran.
    """
    waits = [pl.col(f"waiting_{number}") > 0 for number in range(len(causes))]
    what = pl.coalesce(
        *(pl.when(pl.col(name) > 0).then(category(name)) for name in UNAVAILABLE[:-1]),
        pl.when((pl.col("unknown") > 0) | (pl.col("known") == 0)).then(category("unknown")),
        *(pl.when(waits_so).then(category("pending_demand")) for waits_so in waits),
        category("no_demand"),
    )
    # A wait without a cause is an empty text for the time being, so that the first that waits decides.
    why = pl.coalesce(
        *(pl.when(so).then(pl.lit(cause or "")) for so, cause in zip(waits, causes, strict=True)), pl.lit("")
    )
    unclear = pl.col("unclear") > 0
    assumed = (pl.col("guessed") > 0) | (pl.col("category") == "unknown") | unclear
    pending = pl.col("category") == "pending_demand"
    in_service = pl.col("category").is_in(IDLE)
    result = (
        segments.with_columns(milli_gpus=pl.col("capacity") - pl.min_horizontal("capacity", "held"), category=what)
        .filter(pl.col("milli_gpus") > 0)
        .select(
            "lane",
            "started",
            "ended",
            pl.lit(None, dtype=pl.UInt32).alias("holder"),
            pl.when(in_service & unclear)
            .then(state("allocated"))
            .when(in_service)
            .then(state("idle"))
            .otherwise(state("unavailable"))
            .alias("state"),
            pl.when(in_service & unclear).then(category("unattributed")).otherwise("category").alias("category"),
            pl.when(unclear)
            .then(pl.lit(GPUS_UNKNOWN))
            .when(pending & (why != ""))
            .then(why)
            .otherwise(_NO_CAUSE)
            .alias("cause"),
            pl.when(assumed).then(evidence("assumed")).otherwise(evidence("accounting")).alias("evidence"),
            "milli_gpus",
        )
    )
    return merge_equal(result)


def _allocated(held: pl.DataFrame, segments: pl.DataFrame, inputs: Inputs) -> pl.DataFrame:
    """Attempts on nodes, within capacity, cut where something is known about a part of them.

    Each attempt on a node is a lane of its own here (`holder`).
    """
    exists = merge_equal(segments.select("lane", "started", "ended"))
    base = overlaps(held.select("lane", "holder", "started", "ended", "milli_gpus", "guessed"), exists)
    own_lane = pl.col("holder").alias("lane")
    suspended = held.filter(pl.col("suspended_from") < pl.col("ended"))
    marks = [
        overlaps(base, _one_state(inputs.states, "down")).select(own_lane, "started", "ended", "down"),
        suspended.select(own_lane, pl.col("suspended_from").alias("started"), "ended", pl.lit(1).alias("suspended")),
        _scaled_down(base, segments, held, inputs.attempts).select(own_lane, "started", "ended", "correction"),
    ]
    marked = pl.concat([mark.select("lane") for mark in marks]).unique()
    whole = base.join(marked, left_on="holder", right_on="lane", how="anti").with_columns(
        pl.lit(value=False).alias("down"), pl.lit(value=False).alias("suspended")
    )
    cut = base.join(marked, left_on="holder", right_on="lane", how="semi")
    holders = cut.select("holder", pl.col("lane").alias("node_lane")).unique()
    layers = [cut.select(own_lane, "started", "ended", "milli_gpus", "guessed"), *marks]
    parts = (
        sweep(layers)
        .filter(pl.col("milli_gpus") > 0)  # marks may reach beyond the time that is covered
        .with_columns(
            pl.col("down") > 0, pl.col("suspended") > 0, milli_gpus=pl.col("milli_gpus") + pl.col("correction")
        )
        .filter(pl.col("milli_gpus") > 0)
        .select("lane", *_PIECE)
    )
    parts = (
        merge_equal(parts)
        .join(holders, left_on="lane", right_on="holder")
        .select(pl.col("node_lane").alias("lane"), pl.col("lane").alias("holder"), *_PIECE)
    )
    stalled = pl.col("down") | pl.col("suspended")
    cause = pl.when("down").then(pl.lit("node_down")).when("suspended").then(pl.lit("suspended")).otherwise(_NO_CAUSE)
    return pl.concat([whole.select("lane", "holder", *_PIECE), parts]).select(
        "lane",
        "started",
        "ended",
        "holder",
        state("allocated").alias("state"),
        pl.when(stalled).then(category("stalled")).otherwise(category("unattributed")).alias("category"),
        cause.alias("cause"),
        _by_accounting().alias("evidence"),
        "milli_gpus",
    )


_PIECE = ("started", "ended", "milli_gpus", "down", "suspended", "guessed")


def _by_accounting() -> pl.Expr:
    return pl.when(pl.col("guessed") > 0).then(evidence("assumed")).otherwise(evidence("accounting"))


def _scaled_down(
    base: pl.DataFrame, segments: pl.DataFrame, held: pl.DataFrame, attempts: pl.DataFrame
) -> pl.DataFrame:
    """Corrections where attempts hold more than the node has: amount to add to (that is, take from) each, per segment.

    Attempts whose GPUs on the node are known come first, and those whose split is assumed share what is left. Within
    each of the two an attempt's share is its GPUs x room / held, rounded down to a thousandth; the thousandths left
    over go to the largest remainders, ties to the attempt whose key comes first.
    """
    over = segments.filter(pl.col("held") > pl.col("capacity")).select("lane", "started", "ended", "capacity")
    segment, tier = ["lane", "started"], ["lane", "started", "guessed"]
    known = pl.col("milli_gpus").filter(pl.col("guessed") == 0).sum().over(segment)
    taken = pl.min_horizontal(known, "capacity")
    room = pl.when(pl.col("guessed") > 0).then(pl.col("capacity") - taken).otherwise(taken)
    held_in_tier = pl.col("milli_gpus").sum().over(tier)
    exact = pl.col("milli_gpus") * pl.col("room")
    crowded = overlaps(base, over)
    keys = attempts[held["attempt"].gather(crowded["holder"])]
    first = [pl.col(name) for name in keys.columns]
    shares = (
        pl.concat([crowded, keys], how="horizontal")
        .with_columns(room=room, held=held_in_tier)
        .with_columns(room=pl.min_horizontal("room", "held"))
        .with_columns(share=exact // pl.col("held"), remainder=exact % pl.col("held"))
        .with_columns(missing=pl.col("room") - pl.col("share").sum().over(tier))
        .sort(*tier, -pl.col("remainder"), *first, "holder")
        .with_columns(place=pl.int_range(pl.len()).over(tier))
        .with_columns(share=pl.col("share") + (pl.col("place") < pl.col("missing")).cast(pl.Int64))
    )
    return shares.with_columns(correction=pl.col("share") - pl.col("milli_gpus"))


_STILL_STALLED = ("idle_gpus", "node_down", "suspended")


def _not_training(allocated: pl.DataFrame, held: pl.DataFrame, other: pl.DataFrame) -> pl.DataFrame:
    """Call what attempts of another kind did by its name."""
    kinds = held.join(other, on="attempt").select("holder", "kind")
    if kinds.is_empty():
        return allocated
    theirs = allocated.join(kinds, on="holder", how="left", maintain_order="left")
    kept = (pl.col("category") == "stalled") & pl.col("cause").is_in(_STILL_STALLED).fill_null(value=False)
    renamed = pl.col("kind").is_not_null() & ~kept
    return theirs.with_columns(
        category=pl.when(renamed).then(category("other_work")).otherwise("category"),
        cause=pl.when(renamed).then("kind").otherwise("cause"),
    ).drop("kind")


@dataclass(frozen=True)
class _Evidence:
    """Rows of one kind of evidence: `lane` (a holder), `started`, `ended`, `category`, `cause`, `milli_gpus`."""

    kind: str
    rows: pl.DataFrame


_THOUSAND = 1000


def _logged_layers(logged: pl.DataFrame, held: pl.DataFrame) -> _Evidence:
    """A log covers all nodes of its attempt equally."""
    holders = held.select("holder", "attempt", pl.col("milli_gpus").alias("held"))
    share = (pl.col("held") * pl.col("milli_share")) // _THOUSAND
    return _Evidence("log", logged.join(holders, on="attempt").with_columns(lane="holder", milli_gpus=share))


def _active_layers(active: pl.DataFrame, held: pl.DataFrame) -> _Evidence:
    holders = held.select("holder", "attempt", "lane")
    return _Evidence("telemetry", active.join(holders, on=["attempt", "lane"]).with_columns(lane="holder"))


def _refined(allocated: pl.DataFrame, source: _Evidence) -> pl.DataFrame:
    """Replace `unattributed` by the category of the evidence; time that it does not cover stays as it was.

    Each pair of category and cause is a layer of the sweep. Where they claim more GPUs than are left (a log that
    covers a part of them, a GPU with two names, an over-allocated node), what was not productive comes first.
    """
    mine = source.rows.select(pl.col("lane").alias("holder")).unique()
    open_ = pl.col("category") == "unattributed"
    covered = allocated.filter(open_).join(mine, on="holder", how="semi")
    rest = pl.concat([allocated.filter(~open_), allocated.filter(open_).join(mine, on="holder", how="anti")])
    productive = pl.col("category") == "productive"
    kinds = source.rows.select("category", "cause").unique().sort(productive, "category", "cause", nulls_last=False)
    numbered = source.rows.join(kinds.with_row_index("kind"), on=["category", "cause"], nulls_equal=True)
    names = [f"kind_{number}" for number in range(kinds.height)]
    layers = [
        numbered.filter(pl.col("kind") == number).select("lane", "started", "ended", pl.col("milli_gpus").alias(name))
        for number, name in enumerate(names)
    ]
    assumed = (pl.col("evidence") == "assumed").cast(pl.Int64).alias("guessed")
    whole = covered.select(pl.col("holder").alias("lane"), "started", "ended", "milli_gpus", assumed)
    shared = sweep([whole, *layers]).filter(pl.col("milli_gpus") > 0).with_columns(left=pl.col("milli_gpus"))
    for name in names:
        shared = shared.with_columns(pl.min_horizontal(name, "left").alias(f"served_{name}")).with_columns(
            left=pl.col("left") - pl.col(f"served_{name}")
        )
    parts = [
        shared.filter(pl.col(f"served_{name}") > 0).select(
            "lane",
            "started",
            "ended",
            pl.lit(what, dtype=CATEGORY).alias("category"),
            pl.lit(cause, dtype=pl.String).alias("cause"),
            evidence(source.kind).alias("evidence"),
            pl.col(f"served_{name}").alias("milli_gpus"),
        )
        for name, (what, cause) in zip(names, kinds.iter_rows(), strict=True)
    ]
    unobserved = shared.filter(pl.col("left") > 0).select(
        "lane",
        "started",
        "ended",
        category("unattributed").alias("category"),
        _NO_CAUSE.alias("cause"),
        _by_accounting().alias("evidence"),
        pl.col("left").alias("milli_gpus"),
    )
    merged = pl.concat([merge_equal(part) for part in (*parts, unobserved)])
    homes = covered.select("holder", pl.col("lane").alias("node_lane")).unique()
    return pl.concat(
        [
            rest,
            merged.rename({"lane": "holder"})
            .join(homes, on="holder")
            .with_columns(lane="node_lane", state=pl.lit("allocated", dtype=STATE))
            .select(rest.columns),
        ]
    )


def with_names(rows: pl.DataFrame, inputs: Inputs) -> pl.DataFrame:
    """Rows of `sweep_ledger` with the names of their numbers: the columns of `frames.LEDGER`, some as enums."""
    keys = inputs.attempts
    nodes = pl.Series(inputs.lanes["node"], dtype=pl.Enum(inputs.lanes["node"].unique(maintain_order=True)))
    clusters = pl.Series(inputs.lanes["cluster"], dtype=pl.Enum(inputs.lanes["cluster"].unique(maintain_order=True)))
    return rows.select(
        clusters.gather(rows["lane"]).alias("cluster"),
        nodes.gather(rows["lane"]).alias("node"),
        *(keys[name].gather(rows["attempt"]).alias(name) for name in ("scheduler", "job_id", "submitted_at")),
        frames.from_us("started").alias("started_at"),
        frames.from_us("ended").alias("ended_at"),
        "state",
        "category",
        "cause",
        "evidence",
        "milli_gpus",
    )
