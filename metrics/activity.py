"""What telemetry says that allocated GPUs did, for attempts without a log: activity decides.

A GPU is *active* by the constants of our design 4 (tensor activity, else engine activity, else utilisation). An
attempt is productive while all its GPUs that it uses at all are active: one idle GPU holds a synchronous job up. That
is the reading of GKE's proxy (`jobset/proxy_runtime_goodput`: all active accelerators have duty cycle > 10 %) and of
metric-definitions 5.3, L2. Before the first such moment it starts up, after the last it tears down, in between it is
stalled; GPUs that it never uses are stalled all the time (`idle_gpus`).

Where samples are hours (`active_share` between 0 and 1), the share of the hour takes the place of the moment. On a
node that several attempts share, nobody knows whose GPUs are the active ones: only what must be so is said, and the
rest stays unattributed.
"""

from __future__ import annotations

import polars as pl

from metrics import frames
from metrics.capacity import allocated_intervals
from metrics.intervals import merge_equal, overlaps, split_every, sweep

HANG_US = 300_000_000
"""Every GPU inactive for this long amid an attempt is a hang; microseconds."""

_MILLI = 1000
_GPU = pl.lit(_MILLI, dtype=pl.Int64)
_BASE = ("lane", "started", "ended", "category", "cause", "milli_gpus")


def active_time(
    activity: pl.DataFrame, attempt_nodes: pl.DataFrame, inventory: pl.DataFrame, covered: pl.DataFrame
) -> pl.DataFrame:
    """What the GPUs of attempts did, as far as telemetry can tell.

    Args:
        activity: `frames.ACTIVITY`; intervals of one GPU do not overlap; `active_share` is 0 or 1 for samples, and
            in between for roll-ups.
        attempt_nodes: `frames.ATTEMPT_NODES`; attempts whose GPUs on a node are only assumed are left out.
        inventory: `frames.INVENTORY`, how many GPUs each node has.
        covered: `frames.COVERAGE` of accounting.

    Returns:
        `frames.ACTIVE`: at each instant the `milli_gpus` of an attempt on a node add up to at most what it holds;
        the rest telemetry cannot tell.
    """
    there = inventory.select(
        "cluster",
        "node",
        pl.col("started_at").dt.epoch("us").alias("started"),
        pl.col("ended_at").dt.epoch("us").alias("ended"),
        pl.col("milli_gpus").alias("capacity"),
    )
    known = allocated_intervals(attempt_nodes, covered).filter(pl.col("evidence") != "assumed")
    held = (
        overlaps(known, there, on=["cluster", "node"])
        .with_row_index("holder")
        .with_columns(whole=pl.col("milli_gpus") == pl.col("capacity"))
    )
    samples = activity.select(
        "cluster",
        "node",
        "gpu",
        pl.col("started_at").dt.epoch("us").alias("started"),
        pl.col("ended_at").dt.epoch("us").alias("ended"),
        "active_share",
    )
    own = _per_gpu(held.filter("whole"), samples)
    rolled_up = ((pl.col("active_share") % 1) > 0).any().over("attempt", "hour")
    by_hour = own.with_columns(
        rolled_up=rolled_up,
        first_hour=pl.col("hour").filter("used").min().over("attempt"),
        last_hour=pl.col("hour").filter("used").max().over("attempt"),
    )
    pieces = [
        _whole_nodes(by_hour.filter(~pl.col("rolled_up")), by_hour.filter("rolled_up")),
        _whole_nodes_by_hour(by_hour.filter("rolled_up")),
        _shared_nodes(held, samples),
    ]
    full = (
        pl.concat(pieces)
        .join(held.select("holder", *frames.ATTEMPT_KEY, "node"), left_on="lane", right_on="holder")
        .with_columns(started_at=frames.from_us("started"), ended_at=frames.from_us("ended"))
    )
    return frames.conform(full, frames.ACTIVE).sort(*frames.ATTEMPT_KEY, "node", "started_at", "category", "cause")


_HOUR = 3_600_000_000


def _per_gpu(held: pl.DataFrame, samples: pl.DataFrame) -> pl.DataFrame:
    """Samples of the GPUs of each holder, clipped to it and cut at full hours.

    Returns:
        The samples with `holder`, `attempt` (a number), `hour`, `cell_from` and `cell_until` (the part of the hour
        that the holder held), `sample_s` (the whole sample's length within the hour, microseconds), and `used`: the
        attempt had that GPU active at some time.
    """
    key = list(frames.ATTEMPT_KEY)
    attempts = held.select(key).unique().sort(key).with_row_index("attempt")
    holders = held.join(attempts, on=key).select("cluster", "node", "holder", "attempt", "started", "ended")
    cells = _in_hours(holders).with_columns(cell_from="started", cell_until="ended")
    whole = _in_hours(samples).with_columns(sample_s=pl.col("ended") - pl.col("started"))
    own = overlaps(whole, cells, on=["cluster", "node", "hour"])
    return own.with_columns(used=(pl.col("active_share").max() > 0).over("holder", "gpu"))


def _in_hours(intervals: pl.DataFrame) -> pl.DataFrame:
    """Cut at full hours and numbered by hour, so that what shares time is found by an equality."""
    return split_every(intervals.filter(pl.col("started") < pl.col("ended")), _HOUR).with_columns(
        hour=pl.col("started") // _HOUR
    )


def _whole_nodes(own: pl.DataFrame, elsewhere: pl.DataFrame) -> pl.DataFrame:
    """Attempts that hold whole nodes, from samples; `elsewhere` are the hours of which only roll-ups are left."""
    used = own.filter("used")
    inactive = pl.col("active_share") == 0
    together = sweep(
        [
            used.select(
                pl.col("attempt").alias("lane"),
                "started",
                "ended",
                pl.lit(1).alias("seen"),
                inactive.cast(pl.Int64).alias("inactive"),
            )
        ]
    ).rename({"lane": "attempt"})
    judged = _judged(
        together.with_columns(productive=pl.col("inactive") == 0, idle=pl.col("inactive") == pl.col("seen"))
    )
    hours = elsewhere.group_by("attempt").agg(
        pl.col("cell_from").min().alias("rolled_from"), pl.col("cell_until").max().alias("rolled_until")
    )
    judged = _placed(judged, hours)
    on_node = [
        used.select(pl.col("holder").alias("lane"), "started", "ended", _GPU.alias("busy")),
        own.filter(~pl.col("used")).select(pl.col("holder").alias("lane"), "started", "ended", _GPU.alias("unused")),
    ]
    seen = sweep(on_node).join(own.select("holder", "attempt").unique(), left_on="lane", right_on="holder")
    idle = seen.filter(pl.col("unused") > 0).select(
        "lane",
        "started",
        "ended",
        pl.lit("stalled").alias("category"),
        pl.lit("idle_gpus").alias("cause"),
        pl.col("unused").alias("milli_gpus"),
    )
    codes = judged.select("category", "cause").unique().sort("category", "cause").with_row_index("code", offset=1)
    coded = judged.join(codes, on=["category", "cause"], nulls_equal=True)
    holders = own.select("holder", "attempt").unique()
    told = coded.join(holders, on="attempt").select(
        pl.col("holder").alias("lane"), "started", "ended", pl.col("code").cast(pl.Int64)
    )
    busy = (
        sweep([on_node[0], told])
        .filter((pl.col("busy") > 0) & (pl.col("code") > 0))
        .join(codes.with_columns(pl.col("code").cast(pl.Int64)), on="code")
        .select("lane", "started", "ended", "category", "cause", pl.col("busy").alias("milli_gpus"))
        .sort("lane", "started")
    )
    return pl.concat([merge_equal(idle.select(_BASE).sort("lane", "started")), merge_equal(busy.select(_BASE))])


def _judged(together: pl.DataFrame) -> pl.DataFrame:
    """Category of each stretch of an attempt: productive, or what being unproductive at that place means."""
    first = pl.col("started").filter("productive").min().over("attempt")
    last = pl.col("ended").filter("productive").max().over("attempt")
    ordered = merge_equal(
        together.select(pl.col("attempt").alias("lane"), "started", "ended", "productive", "idle").sort(
            "lane", "started"
        )
    ).rename({"lane": "attempt"})
    long = pl.col("ended") - pl.col("started") >= HANG_US
    place = (
        pl.when("productive")
        .then(pl.lit("productive"))
        .when(pl.col("started") < first)
        .then(pl.lit("startup"))
        .when(pl.col("started") >= last)
        .then(pl.lit("teardown"))
        .otherwise(pl.lit("stalled"))
    )
    return ordered.with_columns(category=place).with_columns(
        cause=pl.when(pl.col("category") != "stalled")
        .then(None)
        .when(pl.col("idle") & long)
        .then(pl.lit("hang"))
        .otherwise(pl.lit("inactive"))
    )


def _placed(judged: pl.DataFrame, hours: pl.DataFrame) -> pl.DataFrame:
    """What looks like start or end in the samples is amid the attempt where roll-ups tell of time before or after."""
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


def _whole_nodes_by_hour(own: pl.DataFrame) -> pl.DataFrame:
    """Attempts that hold whole nodes, from hourly shares: what must have been, within the part of the hour they held.

    Of a sample's active time as much belongs to the holder as cannot have been while it did not hold the node
    (`low`), and at most as much as it held (`high`): before and after it others may have been there, or the cluster's
    own verification of idle nodes. Productive is the least of its used GPUs' `low`; unproductive for certain is what
    exceeds the least `high`.
    """
    active = pl.col("active_share") * pl.col("sample_s")
    length = pl.col("ended") - pl.col("started")
    by_gpu = (
        own.with_columns(length=length, active=pl.min_horizontal(active, "sample_s"))
        .with_columns(
            low=pl.min_horizontal((pl.col("active") - (pl.col("sample_s") - pl.col("length"))).clip(0), "length"),
            high=pl.min_horizontal("active", "length"),
        )
        .with_columns(  # a sample without a share is wholly one or the other, wherever it is cut
            low=pl.when(pl.col("active_share") == 1).then("length").otherwise("low"),
            high=pl.when(pl.col("active_share") == 0).then(0).otherwise("high"),
        )
        .group_by("attempt", "holder", "hour", "gpu", "used", "cell_from", "cell_until", "first_hour", "last_hour")
        .agg(pl.col("low", "high", "length").sum())
    )
    cell = ["attempt", "hour"]
    span = pl.col("cell_until") - pl.col("cell_from")
    used = by_gpu.filter("used").with_columns(
        low_share=(pl.col("low") / pl.col("length")).min().over(cell),
        high_share=(pl.col("high") / pl.col("length")).min().over(cell),
        is_first=pl.col("hour") == pl.col("first_hour"),
        is_last=pl.col("hour") == pl.col("last_hour"),
        watched=pl.col("length") / span * _MILLI,
    )
    unused = by_gpu.filter(~pl.col("used")).with_columns(watched=pl.col("length") / span * _MILLI)
    inside = ~pl.col("is_first") & ~pl.col("is_last")
    place = (
        pl.when("is_first")
        .then(pl.lit("startup"))
        .when("is_last")
        .then(pl.lit("teardown"))
        .otherwise(pl.lit("stalled"))
    )
    return pl.concat(
        [
            _cells(used, pl.lit("productive"), pl.lit(None, dtype=pl.String), pl.col("watched") * pl.col("low_share")),
            _cells(
                used,
                place,
                pl.when(inside).then(pl.lit("inactive")),
                pl.col("watched") * (1 - pl.col("high_share")),
            ),
            _cells(unused, pl.lit("stalled"), pl.lit("idle_gpus"), pl.col("watched")),
        ]
    )


def _cells(by_gpu: pl.DataFrame, category: pl.Expr, cause: pl.Expr, milli: pl.Expr) -> pl.DataFrame:
    """Add up the GPUs of each holder and hour; thousandths are rounded down, so that nothing is said twice."""
    return (
        by_gpu.with_columns(category=category, cause=cause, milli=milli)
        .group_by("holder", "cell_from", "cell_until", "category", "cause")
        .agg((pl.col("milli").sum() + 1e-6).floor().cast(pl.Int64).alias("milli_gpus"))
        .filter(pl.col("milli_gpus") > 0)
        .select(
            pl.col("holder").alias("lane"),
            pl.col("cell_from").alias("started"),
            pl.col("cell_until").alias("ended"),
            "category",
            "cause",
            "milli_gpus",
        )
    )


def _shared_nodes(held: pl.DataFrame, samples: pl.DataFrame) -> pl.DataFrame:
    """Attempts that hold a part of a node: what must be so whichever GPUs are theirs.

    An attempt is productive for certain only while all GPUs of the node are active (one idle one may be its own); of
    an hour's shares, for at least 1 - the sum of what each lacks. With `active` of them active and h held, at least
    h - active of the held ones are idle. Only nodes all of whose GPUs have samples tell anything.
    """
    parts = held.filter(~pl.col("whole"))
    nodes = parts.select("cluster", "node").unique().sort("cluster", "node").with_row_index("place")
    here = samples.join(nodes, on=["cluster", "node"])
    milli = (pl.col("active_share") * _MILLI).round().cast(pl.Int64)
    # An hour in which a part changed hands cannot be divided; `steady` holders have it all to themselves.
    states = sweep(
        [here.select(pl.col("place").alias("lane"), "started", "ended", _GPU.alias("seen"), milli.alias("active"))]
    ).rename({"lane": "place"})
    own = overlaps(
        _in_hours(
            parts.join(nodes, on=["cluster", "node"]).select(
                "place", "holder", "started", "ended", "milli_gpus", "capacity"
            )
        ),
        _in_hours(states).with_columns(_from="started", _until="ended"),
        on=["place", "hour"],
    ).filter(pl.col("seen") == pl.col("capacity"))
    fractional = (pl.col("active") % _MILLI) > 0
    steady = (pl.col("started") == pl.col("_from")) & (pl.col("ended") == pl.col("_until"))
    certain = own.filter(~fractional | steady).with_columns(
        productive=(pl.col("milli_gpus") * (_MILLI - (pl.col("capacity") - pl.col("active"))).clip(0) // _MILLI).cast(
            pl.Int64
        ),
        idle=(pl.col("milli_gpus") - pl.col("active")).clip(0),
    )
    lane = pl.col("holder").alias("lane")
    busy = certain.filter(pl.col("productive") > 0).select(
        lane,
        "started",
        "ended",
        pl.lit("productive").alias("category"),
        pl.lit(None, dtype=pl.String).alias("cause"),
        pl.col("productive").alias("milli_gpus"),
    )
    idle = certain.filter(pl.col("idle") > 0).select(
        lane,
        "started",
        "ended",
        pl.lit("stalled").alias("category"),
        pl.lit("idle_gpus").alias("cause"),
        pl.col("idle").alias("milli_gpus"),
    )
    return pl.concat([merge_equal(busy.sort("lane", "started")), merge_equal(idle.sort("lane", "started"))])
