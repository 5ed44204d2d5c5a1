"""Evidence of telemetry: what allocated GPUs did, for attempts without a log. Activity decides.

A GPU is *active* by the rules computed with (tensor activity, else engine activity, else utilisation). An attempt is
productive while all its GPUs that it uses at all are active: one idle GPU holds a synchronous job up. That is the
reading of GKE's proxy (`jobset/proxy_runtime_goodput`: all active accelerators have duty cycle > 10 %). While all of
them are idle before the first activity it starts up, and after the last it tears down; any other time is stalled, and
GPUs that it never uses are stalled all the time (`idle_gpus`).

This lockstep rule decides the value, never the bounds: an inference service, a sweep or a rank that ends early does not
wait for its idle GPU. Of a stalled attempt only the idle GPUs are known to be idle (`inactive`, `hang`); those that are
active themselves have the cause `lockstep`, and may be productive.

A sample is an average over some time (`interval_s`), and attempts do not begin and end where samples do. Whose
activity an active sample across such a moment shows is decided by the neighbouring samples; where they do not decide,
it counts for neither attempt. An inactive one counts for both.

Where samples are hours (`active_share` between 0 and 1), the share of the hour takes the place of the moment. On a
node of which attempts hold parts, the owner of the active GPUs is unknown: only what follows for certain is attributed,
and the rest stays unattributed. GPUs that no attempt holds are taken to be inactive.

That GPUs worked does not mean that the work was kept: the last productive hour of an attempt that did not complete is
marked (`metrics.ledger.provisional`).
"""

from __future__ import annotations

import polars as pl

from metrics import frames
from metrics.categories import LOCKSTEP
from metrics.ettr.ettr import IMPUTED_CHECKPOINT_S
from metrics.intervals import merge_equal, overlaps, split_every, sweep
from metrics.ledger.capacity import allocated_intervals, unknown_intervals
from metrics.ledger.provisional import SURE, with_provisional
from metrics.ledger.sharing import with_whole
from metrics.ledger.telemetry_hours import whole_nodes_by_hour

HANG_US = 300_000_000
"""Every GPU inactive for this long amid an attempt has the cause `hang`; microseconds. The rules `hang_steps` and
`hang_min_s` are of logs, and do not change it."""

_MILLI = 1000
_GPU = pl.lit(_MILLI, dtype=pl.Int64)
_HAS_PART = pl.col("milli_gpus") % _MILLI > 0
"""The attempt holds a part of a GPU, such as a slice (MIG)."""

_NO_WEIGHT = pl.lit(0, dtype=pl.Int64).alias("weight")
_BASE = ("lane", "started", "ended", "category", "cause", "milli_gpus", "weight")


def active_time(
    activity: pl.DataFrame,
    attempt_nodes: pl.DataFrame,
    inventory: pl.DataFrame,
    covered: pl.DataFrame,
    attempts: pl.DataFrame,
    *,
    provisional_s: float = IMPUTED_CHECKPOINT_S,
) -> pl.DataFrame:
    """Activity of the GPUs of attempts, as far as telemetry shows it.

    Args:
        activity: `frames.ACTIVITY`; intervals of one GPU do not overlap. Intervals of samples have an `active_share`
            of 0 or 1 and as `interval_s` the longest sample among them; those without are roll-ups of hours, which
            may show a part of the hour.
        attempt_nodes: `frames.ATTEMPT_NODES`; attempts whose GPUs on a node are only assumed are left out.
        inventory: `frames.INVENTORY`, how many GPUs each node has.
        covered: `frames.COVERAGE` of accounting.
        attempts: `frames.ATTEMPTS`, for how they ended.
        provisional_s: of an attempt that did not complete, so many seconds of productive time, the last ones, may
            have been lost: their cause is `provisional` (`metrics.ledger.provisional`).

    Returns:
        `frames.ACTIVE`: at each instant the `milli_gpus` of an attempt on a node add up to at most what it holds;
        the rest is unknown to telemetry.
    """
    capacity = inventory.select(
        "cluster",
        "node",
        pl.col("started_at").dt.epoch("us").alias("started"),
        pl.col("ended_at").dt.epoch("us").alias("ended"),
        pl.col("milli_gpus").alias("capacity"),
    )
    samples = _joined_samples(activity)
    every = allocated_intervals(attempt_nodes, covered)
    held = (
        # An attempt keeps the node across a change of the inventory or a gap of accounting: `begun`, `over`.
        with_whole(
            overlaps(every.with_columns(begun="started", over="ended"), capacity, on=["cluster", "node"]), samples
        )
        .filter(pl.col("evidence") != "assumed")
        .with_row_index("holder")
    )
    own = _per_gpu(held.filter("whole"), samples)
    rolled_up = ((pl.col("active_share") % 1) > 0).any().over("attempt", "hour")
    by_hour = own.with_columns(
        rolled_up=rolled_up,
        first_hour=pl.col("hour").filter("used").min().over("attempt"),
        last_hour=pl.col("hour").filter("used").max().over("attempt"),
    )
    whole = _whole_nodes(by_hour.filter(~pl.col("rolled_up")), by_hour.filter("rolled_up"))
    pieces = [
        whole,
        whole_nodes_by_hour(by_hour.filter("rolled_up")),
        _shared_nodes(held, samples, pl.concat([every, unknown_intervals(attempt_nodes, covered)]), whole),
    ]
    full = (
        with_provisional(pl.concat(pieces), held, attempts, last_us=round(provisional_s * 1e6))
        .join(held.select("holder", *frames.ATTEMPT_KEY, "node"), left_on="lane", right_on="holder")
        .with_columns(started_at=frames.from_us("started"), ended_at=frames.from_us("ended"))
    )
    return frames.conform(full, frames.ACTIVE).sort(*frames.ATTEMPT_KEY, "node", "started_at", "category", "cause")


_HOUR = 3_600_000_000
_GPU_KEY = ("cluster", "node", "gpu")


def _joined_samples(activity: pl.DataFrame) -> pl.DataFrame:
    """Activity in microseconds, neighbours of one share joined.

    Returns:
        `cluster`, `node`, `gpu`, `started`, `ended`, `active_share`, `interval` (the longest sample, microseconds; null
        for roll-ups), `stretch_from` and `stretch_until` (the same as `started` and `ended`, to stay when they are
        cut), `idle_before` and `idle_after` (an inactive interval touches it there).
    """
    ordered = activity.select(
        *_GPU_KEY,
        pl.col("started_at").dt.epoch("us").alias("started"),
        pl.col("ended_at").dt.epoch("us").alias("ended"),
        "active_share",
        (pl.col("interval_s") * 1e6).round().cast(pl.Int64).alias("interval"),
    ).sort(*_GPU_KEY, "started")
    joined = (
        ordered.with_columns(_piece=(~(_touches(1) & _is_equal("active_share", 1))).cum_sum())
        .group_by("_piece", maintain_order=True)
        .agg(
            *(pl.col(name).first() for name in (*_GPU_KEY, "started")),
            pl.col("ended").last(),
            pl.col("active_share").first(),
            pl.col("interval").max(),
        )
        .drop("_piece")
    )
    idle = pl.col("active_share") == 0
    return joined.with_columns(
        stretch_from="started",
        stretch_until="ended",
        idle_before=_touches(1) & idle.shift(1, fill_value=False),
        idle_after=_touches(-1) & idle.shift(-1, fill_value=False),
    )


def _touches(step: int) -> pl.Expr:
    """The row before (1) or after (-1) is of the same GPU and meets this one without a gap."""
    mine, other = ("started", "ended") if step == 1 else ("ended", "started")
    meets = (pl.col(mine) == pl.col(other).shift(step)).fill_null(value=False)
    return pl.all_horizontal(meets, *(_is_equal(name, step) for name in _GPU_KEY))


def _is_equal(name: str, step: int) -> pl.Expr:
    return (pl.col(name) == pl.col(name).shift(step)).fill_null(value=False)


def _per_gpu(held: pl.DataFrame, samples: pl.DataFrame) -> pl.DataFrame:
    """Samples of the GPUs of each holder, clipped to it and cut at full hours.

    Returns:
        The samples with `holder`, `attempt` (a number), `begun` and `over` (when it came to the node and left), `hour`,
        `cell_from` and `cell_until` (the part of the hour that the holder held), `sample_s` (the whole sample's length
        within the hour, microseconds), and `used`: the attempt had that GPU active at some time.
    """
    key = list(frames.ATTEMPT_KEY)
    attempts = held.select(key).unique().sort(key).with_row_index("attempt")
    holders = held.join(attempts, on=key).select(
        "cluster", "node", "holder", "attempt", "begun", "over", "started", "ended"
    )
    cells = _in_hours(holders).with_columns(cell_from="started", cell_until="ended")
    length = pl.col("ended") - pl.col("started")
    whole = _in_hours(samples).with_columns(
        # A roll-up's share is the whole hour's, also where the window shows a part.
        sample_s=pl.when(pl.col("interval").is_null()).then(_HOUR).otherwise(length)
    )
    own = _without_neighbours(overlaps(whole, cells, on=["cluster", "node", "hour"]))
    return own.with_columns(used=(pl.col("active_share").max() > 0).over("holder", "gpu"))


def _without_neighbours(own: pl.DataFrame) -> pl.DataFrame:
    """Without activity that may be the one's who held the node before or after.

    A sample across the holder's beginning or end is active if either of them was. If the interval lasts for at least
    one sample within the holder (two, across both ends), one of its samples is certainly within, so the holder was
    active. Otherwise that sample counts as inactive if its neighbour in the holder's time is, and without one it is
    left out.
    """
    early, late = _crosses_begin(), _crosses_end()
    within = pl.min_horizontal("stretch_until", "over") - pl.max_horizontal("stretch_from", "begun")
    needed = pl.col("interval") * (early.cast(pl.Int64) + late.cast(pl.Int64))
    unclear = ((pl.col("active_share") > 0) & (within < needed)).fill_null(value=False)
    idle_neighbour = (early & ~late & pl.col("idle_after") & (pl.col("stretch_until") < pl.col("over"))) | (
        late & ~early & pl.col("idle_before") & (pl.col("stretch_from") > pl.col("begun"))
    )
    return own.filter(~unclear | idle_neighbour).with_columns(
        active_share=pl.when(unclear).then(0.0).otherwise("active_share")
    )


def _crosses_begin() -> pl.Expr:
    return (pl.col("stretch_from") < pl.col("begun")) & (pl.col("begun") < pl.col("stretch_until"))


def _crosses_end() -> pl.Expr:
    return (pl.col("stretch_from") < pl.col("over")) & (pl.col("over") < pl.col("stretch_until"))


def _in_hours(intervals: pl.DataFrame) -> pl.DataFrame:
    """Cut at full hours and numbered by hour, so that what shares time is found by an equality."""
    return split_every(intervals.filter(pl.col("started") < pl.col("ended")), _HOUR).with_columns(
        hour=pl.col("started") // _HOUR
    )


def _whole_nodes(own: pl.DataFrame, elsewhere: pl.DataFrame) -> pl.DataFrame:
    """Attempts that hold whole nodes, from samples; `elsewhere` are the hours of which only roll-ups are left."""
    used = own.filter("used")
    active = pl.col("active_share") > 0
    span = ("started", "ended")
    together = sweep(
        [
            used.select(
                pl.col("attempt").alias("lane"), *span, pl.lit(1).alias("seen"), active.cast(pl.Int64).alias("active")
            ),
            _firm(used.filter(active)).select(pl.col("attempt").alias("lane"), *span, pl.lit(1).alias("firm")),
        ]
    ).rename({"lane": "attempt"})
    hours = elsewhere.group_by("attempt").agg(
        pl.col("cell_from").min().alias("rolled_from"), pl.col("cell_until").max().alias("rolled_until")
    )
    judged = _within_attempt(_judged(together), hours)
    lane = pl.col("holder").alias("lane")
    unused = sweep([own.filter(~pl.col("used")).select(lane, *span, _GPU.alias("milli_gpus"))]).select(
        "lane",
        *span,
        pl.lit("stalled").alias("category"),
        pl.lit("idle_gpus").alias("cause"),
        "milli_gpus",
        _NO_WEIGHT,
    )
    on_node = used.select(lane, *span, *(pl.when(so).then(_GPU).otherwise(0).alias(name) for name, so in
                                         (("busy", active), ("idle", ~active))))  # fmt: skip
    codes = judged.select("category", "cause").unique().sort("category", "cause").with_row_index("code", offset=1)
    codes = codes.with_columns(pl.col("code").cast(pl.Int64))
    coded = judged.join(codes, on=["category", "cause"], nulls_equal=True)
    holders = own.select("holder", "attempt").unique()
    coded_holders = coded.join(holders, on="attempt").select(lane, *span, "code")
    by_node = sweep([on_node, coded_holders]).filter(pl.col("code") > 0).join(codes, on="code", maintain_order="left")
    return pl.concat([merge_equal(unused.select(_BASE)), *(merge_equal(part) for part in _by_gpus(by_node))])


def _by_gpus(by_node: pl.DataFrame) -> list[pl.DataFrame]:
    """Of what an attempt did on a node, what its active GPUs did and what its idle ones."""
    productive = pl.col("category") == "productive"
    weight = pl.when(productive).then(SURE).otherwise(0).cast(pl.Int64).alias("weight")
    return [
        part.with_columns(weight, cause=cause).select(_BASE)
        for part, cause in (
            (
                by_node.with_columns(milli_gpus="busy").filter(pl.col("busy") > 0),
                pl.when(~productive).then(pl.lit(LOCKSTEP)),
            ),
            (by_node.with_columns(milli_gpus="idle").filter(pl.col("idle") > 0), pl.col("cause")),
        )
    ]


def _firm(active: pl.DataFrame) -> pl.DataFrame:
    """Activity without what may be that of who held the node before or after.

    A sample across the holder's beginning ends less than its length after it; likewise at the end.
    """
    most = pl.col("interval") - 1
    early = _crosses_begin() & pl.col("interval").is_not_null()
    late = _crosses_end() & pl.col("interval").is_not_null()
    return active.with_columns(
        started=pl.when(early).then(pl.max_horizontal("started", pl.col("begun") + most)).otherwise("started"),
        ended=pl.when(late).then(pl.min_horizontal("ended", pl.col("over") - most)).otherwise("ended"),
    ).filter(pl.col("started") < pl.col("ended"))


def _judged(together: pl.DataFrame) -> pl.DataFrame:
    """Category of each stretch of an attempt: productive, or what being unproductive at that place means.

    Startup ends with the first activity of any GPU, and teardown begins with the last: what is `firm` decides.
    """
    productive, idle = pl.col("active") == pl.col("seen"), pl.col("active") == 0
    firm = pl.col("firm") > 0
    first = pl.col("started").filter(firm).min().over("attempt")
    last = pl.col("ended").filter(firm).max().over("attempt")
    place = (
        pl.when(productive)
        .then(pl.lit("productive"))
        .when(idle & (pl.col("ended") <= first))
        .then(pl.lit("startup"))
        .when(idle & (pl.col("started") >= last))
        .then(pl.lit("teardown"))
        .otherwise(pl.lit("stalled"))
    )
    ordered = merge_equal(
        together.sort("attempt", "started")
        .with_columns(category=place, idle=idle)
        .select(pl.col("attempt").alias("lane"), "started", "ended", "category", "idle")
    ).rename({"lane": "attempt"})
    long = pl.col("ended") - pl.col("started") >= HANG_US
    return ordered.with_columns(
        cause=pl.when(pl.col("category") != "stalled")
        .then(None)
        .when(pl.col("idle") & long)
        .then(pl.lit("hang"))
        .otherwise(pl.lit("inactive"))
    )


def _within_attempt(judged: pl.DataFrame, hours: pl.DataFrame) -> pl.DataFrame:
    """Apparent starts and ends in the samples are within the attempt where roll-ups cover time before or after."""
    before = (pl.col("rolled_from") < pl.col("started")).fill_null(value=False)
    after = (pl.col("rolled_until") > pl.col("started")).fill_null(value=False)
    amid = ((pl.col("category") == "startup") & before) | ((pl.col("category") == "teardown") & after)
    return (
        judged.join(hours, on="attempt", how="left", maintain_order="left")
        .with_columns(
            category=pl.when(amid).then(pl.lit("stalled")).otherwise("category"),
            cause=pl.when(amid).then(pl.lit("inactive")).otherwise("cause"),
        )
        .drop("rolled_from", "rolled_until")
    )


def _shared_nodes(
    held: pl.DataFrame, samples: pl.DataFrame, present: pl.DataFrame, whole: pl.DataFrame
) -> pl.DataFrame:
    """Attempts that hold a part of a node: what must be so whichever GPUs are theirs.

    An attempt is productive for certain while all GPUs of the node are active, or as many as all attempts on the node
    hold: of fewer an idle one may be its own. It is not while an idle one on another of its nodes is, or may be, its
    own. An attempt with a part of a GPU (MIG) is so only while it is alone on the node: a GPU is active while any of
    its parts is, and several parts may be of more GPUs than they add up to. Of an hour's shares it is for at least 1 -
    the sum of what each lacks. With `active` of them active and h held, at least h - active of the held ones are idle.
    Only nodes all of whose GPUs have samples are evidence; and active samples across the attempt's own beginning or end
    may be the neighbours' there.

    Args:
        held: attempts on nodes, as `active_time` cuts them.
        samples: as `_joined_samples` returns them.
        present: all attempts on nodes, also those of which the GPUs are assumed or unknown.
        whole: what attempts did on nodes that they held whole, as `_whole_nodes` returns it.
    """
    parts = held.filter(~pl.col("whole"))
    nodes = parts.select("cluster", "node").unique().sort("cluster", "node").with_row_index("place")
    here = samples.join(nodes, on=["cluster", "node"])
    milli = (pl.col("active_share") * _MILLI).round().cast(pl.Int64)
    states = sweep(
        [
            here.select(
                pl.col("place").alias("lane"),
                "started",
                "ended",
                _GPU.alias("seen"),
                milli.alias("active"),
                ((milli % _MILLI) > 0).cast(pl.Int64).alias("fractional"),
            )
        ]
    ).rename({"lane": "place"})
    holders = _in_hours(
        parts.join(nodes, on=["cluster", "node"]).select(
            "place", "holder", "begun", "over", "started", "ended", "milli_gpus", "capacity"
        )
    )
    own = (
        overlaps(holders, _in_hours(states), on=["place", "hour"])
        .filter(pl.col("seen") == pl.col("capacity"))
        .join(_sure(holders, here), on="holder")
    )
    # The time within the hour of a GPU's share is unknown: the share holds for all of the hour or for none.
    steady = pl.col("ended") - pl.col("started") == _HOUR
    certain = own.filter((pl.col("fractional") == 0) | steady).with_columns(
        productive=(pl.col("milli_gpus") * (_MILLI - (pl.col("capacity") - pl.col("active"))).clip(0) // _MILLI).cast(
            pl.Int64
        ),
        idle=(pl.col("milli_gpus") - pl.col("active")).clip(0),
    )
    lane = pl.col("holder").alias("lane")
    from_, until = pl.max_horizontal("started", "sure_from"), pl.min_horizontal("ended", "sure_until")
    turns = _turns(present, nodes, here)
    owned = pl.concat([certain.filter(~_HAS_PART), _while_alone(certain.filter(_HAS_PART), turns)])
    busy = owned.filter(pl.col("productive") > 0, from_ < until).select(
        lane,
        from_.alias("started"),
        until.alias("ended"),
        pl.lit("productive").alias("category"),
        pl.lit(None, dtype=pl.String).alias("cause"),
        pl.col("productive").alias("milli_gpus"),
        (pl.col("productive") * SURE // pl.col("milli_gpus")).alias("weight"),
    )
    idle = certain.filter(pl.col("idle") > 0).select(
        lane,
        "started",
        "ended",
        pl.lit("stalled").alias("category"),
        pl.lit("idle_gpus").alias("cause"),
        pl.col("idle").alias("milli_gpus"),
        _NO_WEIGHT,
    )
    busy = pl.concat([busy, _all_held_busy(own, turns)])
    judged = own.filter(pl.col("fractional") == 0, from_ < until).select(
        lane, from_.alias("started"), until.alias("ended")
    )
    every = (_busy_everywhere(busy, judged, held, whole), idle)
    return pl.concat([merge_equal(each.sort("lane", "started")) for each in every])


def _while_alone(parts: pl.DataFrame, turns: pl.DataFrame) -> pl.DataFrame:
    """Attempts with a part of a GPU, in the time in which no other holds any of the node."""
    alone = overlaps(parts, turns, on=["place", "hour"]).filter(pl.col("all") == pl.col("milli_gpus"))
    return alone.with_columns(
        sure_from=pl.max_horizontal("sure_from", "own_from"), sure_until=pl.min_horizontal("sure_until", "own_until")
    ).select(parts.columns)


def _busy_everywhere(busy: pl.DataFrame, judged: pl.DataFrame, held: pl.DataFrame, whole: pl.DataFrame) -> pl.DataFrame:
    """Productive time on parts of nodes while no GPU of the attempt on another node is, or may be, idle.

    An idle GPU holds up all of an attempt. Of an hour's shares the time within the hour is unknown: they stay.

    Args:
        busy: productive time on parts of nodes, by holder.
        judged: when samples are evidence of what a holder of a part of a node did.
        held: holders: attempts on nodes.
        whole: as in `_shared_nodes`.
    """
    key = list(frames.ATTEMPT_KEY)
    on_several = held.group_by(key).agg(pl.col("node").n_unique().alias("nodes")).filter(pl.col("nodes") > 1)
    several = on_several.sort(key).with_row_index("attempt").join(held.select(*key, lane="holder"), on=key)
    several = several.select("attempt", "lane")
    own, sure = pl.col("lane").is_in(several["lane"].implode()), pl.col("weight") == SURE
    some = busy.filter(own, sure)
    if some.is_empty():
        return busy
    span = ("lane", "started", "ended")
    not_working = (pl.col("category") != "productive") & (pl.col("cause") != "idle_gpus").fill_null(value=True)
    waited = pl.concat([_apart(judged.filter(own), some).select(span), whole.filter(own, not_working).select(span)])
    held_up = waited.join(several, on="lane").select("attempt", "started", "ended").join(several, on="attempt")
    return pl.concat([busy.filter(~(own & sure)), _apart(some, held_up)])


def _apart(rows: pl.DataFrame, others: pl.DataFrame) -> pl.DataFrame:
    """Rows without the time in which others of the same `lane` are: `lane`, `started`, `ended`, and the rest as it was.

    Rows of one lane do not overlap.
    """
    numbered = rows.with_row_index("row")
    own = numbered.select("lane", "started", "ended", (pl.col("row").cast(pl.Int64) + 1).alias("row"))
    there = others.select("lane", "started", "ended", pl.lit(1, dtype=pl.Int64).alias("other"))
    left = sweep([own, there]).filter(pl.col("row") > 0, pl.col("other") == 0)
    rest = numbered.drop("lane", "started", "ended")
    return (
        left.with_columns(row=(pl.col("row") - 1).cast(pl.UInt32))
        .join(rest, on="row", maintain_order="left")
        .select(rows.columns)
    )


def _turns(present: pl.DataFrame, nodes: pl.DataFrame, here: pl.DataFrame) -> pl.DataFrame:
    """Times in which the same attempts hold GPUs of a node, and how many: `place`, `hour`, `started`, `ended`, `all`.

    `with_parts` is the number of them that hold a part of a GPU.
    From `own_from` to `own_until` no sample is of those who held GPUs before or after. Times with attempts whose GPUs
    on the node are unknown or assumed are left out.
    """
    unsure = pl.col("milli_gpus").is_null() | (pl.col("evidence") == "assumed")
    lanes = present.join(nodes, on=["cluster", "node"]).select(
        "started",
        "ended",
        pl.col("place").alias("lane"),
        pl.col("milli_gpus").fill_null(0).alias("all"),
        unsure.cast(pl.Int64).alias("unsure"),
        _HAS_PART.fill_null(value=False).cast(pl.Int64).alias("with_parts"),
    )
    turns = sweep([lanes]).rename({"lane": "place"}).filter(pl.col("unsure") == 0).drop("unsure")
    numbered = _in_hours(turns.with_row_index("holder").with_columns(begun="started", over="ended"))
    sure = _sure(numbered, here).rename({"sure_from": "own_from", "sure_until": "own_until"})
    return numbered.join(sure, on="holder").select(
        "place", "hour", "started", "ended", "all", "with_parts", "own_from", "own_until"
    )


def _all_held_busy(own: pl.DataFrame, turns: pl.DataFrame) -> pl.DataFrame:
    """Attempts on nodes of which as many GPUs are active as are held: those are the active ones, and none is idle."""
    from_, until = pl.max_horizontal("started", "own_from"), pl.min_horizontal("ended", "own_until")
    as_many = (pl.col("active") == pl.col("all")) & (pl.col("active") < pl.col("capacity"))
    return (
        overlaps(own, turns, on=["place", "hour"])
        .filter(as_many, pl.col("with_parts") == 0, pl.col("fractional") == 0, from_ < until)
        .select(
            pl.col("holder").alias("lane"),
            from_.alias("started"),
            until.alias("ended"),
            pl.lit("productive").alias("category"),
            pl.lit(None, dtype=pl.String).alias("cause"),
            "milli_gpus",
            pl.lit(SURE, dtype=pl.Int64).alias("weight"),
        )
    )


def _sure(holders: pl.DataFrame, here: pl.DataFrame) -> pl.DataFrame:
    """From when to when each holder's activity is its own: a sample after its beginning and before its end.

    Where no active sample lies across them, these are its beginning and end.
    """
    samples = _in_hours(here.filter(pl.col("active_share") > 0, pl.col("interval").is_not_null()))
    across = overlaps(holders, samples, on=["place", "hour"])
    longest = across.group_by("holder").agg(
        pl.col("interval").filter(_crosses_begin()).max().alias("early"),
        pl.col("interval").filter(_crosses_end()).max().alias("late"),
    )
    return (
        holders.select("holder", "begun", "over")
        .unique()
        .join(longest, on="holder", how="left")
        .select(
            "holder",
            (pl.col("begun") + pl.col("early").fill_null(0)).alias("sure_from"),
            (pl.col("over") - pl.col("late").fill_null(0)).alias("sure_until"),
        )
    )
