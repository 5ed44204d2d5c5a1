"""Delays: what waiting work lost to nodes that failures had taken out of service, and to runs that came back from one.

Second order in time, beside the GPU-time that `failures.second_order` counts. A job was *delayed by an outage* for as
long as it waited, did not fit the nodes of its partition that were in service and free, and would have fit with those
that were out of service and not planned to be. With segments (`--segment`), whole segments in one block have to fit: a
drained block delays such a job though as many nodes are idle elsewhere. Each job is judged by itself: several may have
waited for the same nodes, so the sum is at most what a repair at once would have saved. A job was *delayed by a
preempting restart* from its preemption for a run that came back from a failure until it ran again.

GPU-hours are those that the jobs requested; they are waiting time, and no part of the ledger.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from metrics import frames
from metrics.exact import exact_sum
from metrics.metric import Metric
from metrics.placement.spans import NodePlaces, counts_at, since_us
from metrics.wait_reasons import BY_A_RULE, NOT_WAITING

if TYPE_CHECKING:
    from datetime import datetime

    from metrics.placement.spans import Longs

OUTAGE, BLOCK, RESTART = "nodes out of service", "blocks out of service", "preempting restart"
"""Causes of a job's delay; a block where it requested segments."""

DELAYS: frames.Schema = {name: frames.ATTEMPTS[name] for name in frames.ATTEMPT_KEY} | {
    "user": frames.TEXT,
    "account": frames.TEXT,
    "partition": frames.TEXT,
    "kind": frames.TEXT,
    "began_at": frames.TIME,
    "waited_s": frames.NUMBER,
    "delayed_s": frames.NUMBER,
    "milli_gpus": frames.COUNT,
    "open": frames.FLAG,
}
"""A job and how much of its wait has this reason, within the window; `open`: it still waits at the window's end."""

_SEVERAL: Final = ","


def by_outages(
    attempts: pl.DataFrame, cluster: NodePlaces, *, since: datetime, until: datetime
) -> tuple[pl.DataFrame, int]:
    """Jobs that waited for nodes out of service.

    Args:
        attempts: `frames.ATTEMPTS`.
        cluster: the nodes, and who held them.
        since: window from.
        until: window to.

    Returns:
        `DELAYS`, and how many jobs that waited are not judged: their GPUs, nodes or one partition are unknown.
    """
    waits = _waits(attempts, since_us(since), since_us(until))
    known = waits.drop_nulls(["gpus", "nodes", "partition"]).filter(
        ~pl.col("partition").str.contains(_SEVERAL, literal=True)
    )
    each = (pl.col("gpus") + pl.col("nodes") - 1) // pl.col("nodes")
    parts = [
        queries.with_columns(pl.Series("delayed", _delayed(queries, cluster)))
        for _, queries in known.with_columns(each=each).group_by(["cluster", "partition", "each"], maintain_order=True)
    ]
    rows = pl.concat(parts).filter(pl.col("delayed") > 0) if parts else known.with_columns(delayed=pl.lit(0))
    done = rows.with_columns(
        kind=pl.when(pl.col("req_segment") > 1).then(pl.lit(BLOCK)).otherwise(pl.lit(OUTAGE)),
        began_at=frames.from_us("began"),
        waited_s=(pl.col("ended") - pl.col("began")) / 1e6,
        delayed_s=pl.col("delayed") / 1e6,
        milli_gpus="gpus",
        open=pl.col("started_at").is_null() & (pl.col("ended") == since_us(until)),
    )
    return frames.conform(done, DELAYS).sort("delayed_s", *frames.ATTEMPT_KEY, descending=[True] + [False] * 4), (
        waits.height - known.height
    )


def _waits(attempts: pl.DataFrame, low: int, high: int) -> pl.DataFrame:
    """Jobs that waited in the window: `began`, `ended` (microseconds), `gpus` (thousandths), `nodes`; null: unknown."""
    until = pl.coalesce("started_at", "ended_at").dt.epoch("us").fill_null(high)
    why = pl.col("reason").fill_null("")
    held_back = pl.col("started_at").is_null() & why.str.contains(NOT_WAITING)
    return (
        attempts.filter(~held_back & ~why.str.contains(BY_A_RULE))
        .with_columns(
            began=pl.col("eligible_at").dt.epoch("us").clip(low, high),
            ended=until.clip(low, high),
            gpus=pl.when(pl.col("milli_gpus") > 0).then("milli_gpus").otherwise("req_milli_gpus"),
            nodes=pl.when(pl.col("n_nodes") > 0).then("n_nodes").when(pl.col("req_nodes") > 0).then("req_nodes"),
        )
        .filter((pl.col("began") < pl.col("ended")) & (pl.col("gpus") > 0).fill_null(value=True))
    )


def _delayed(queries: pl.DataFrame, cluster: NodePlaces) -> Longs:
    """Microseconds of each wait in which only nodes out of service were missing; all of one partition and shape."""
    first = queries.row(0, named=True)
    partition, each = (first["cluster"], first["partition"]), int(first["each"])
    began, ended = queries["began"].to_numpy(), queries["ended"].to_numpy()
    total = np.zeros(queries.height, dtype=np.int64)
    segment = queries["req_segment"].fill_null(1).clip(1).to_numpy()
    for size in np.unique(segment):
        ready, could = (cluster.able(partition, each, broken=broken, placed=bool(size > 1)) for broken in (False, True))
        times = np.unique(
            np.concatenate([frame[end].to_numpy() for frame in (ready, could) for end in ("started", "ended")])
        )
        if not len(times):
            continue
        group_of = cluster.groups if size > 1 else {}
        now, then = (_segments(frame, times, group_of, int(size)) for frame in (ready, could))
        for nodes in np.unique(queries["nodes"].to_numpy()[segment == size]):
            which = (segment == size) & (queries["nodes"].to_numpy() == nodes)
            needed = -(-int(nodes) // int(size))
            short = (now < needed) & (then >= needed)
            total[which] = _within(short, times, ended[which]) - _within(short, times, began[which])
    return total


def _segments(able: pl.DataFrame, times: Longs, group_of: dict[int, int], size: int) -> Longs:
    """Number of segments of a size right after each moment."""
    places = [group_of.get(place, 0) for place in able["place"]]
    numbers = {group: number for number, group in enumerate(sorted(set(places)))}
    groups = pl.Series("group", [numbers[place] for place in places], dtype=pl.Int64)
    edges = able.select("started", "ended").with_columns(groups)
    parts = [(counts // size).sum(axis=1) for _, counts in counts_at(edges, times, max(1, len(numbers)))]
    return np.concatenate(parts)


def _within(holds: np.ndarray, times: Longs, at: Longs) -> Longs:
    """Time for which something held before each moment, in microseconds; `holds` from each of `times` to the next."""
    before = np.concatenate([[0], np.cumsum(np.where(holds[:-1], np.diff(times), 0))])
    place = np.clip(np.searchsorted(times, at, "right") - 1, 0, None)
    inside = np.where(holds[place], np.maximum(at - times[place], 0), 0)
    return np.where(at < times[0], 0, before[place] + inside)


def by_restarts(interruptions: pl.DataFrame, restarts: pl.DataFrame) -> pl.DataFrame:
    """Jobs preempted for a run that came back from a failure, and how long until they ran again.

    Args:
        interruptions: `frames.INTERRUPTIONS`, with `second_order`.
        restarts: `frames.RESTARTS`; `restarted_at` is null while it waits.

    Returns:
        `DELAYS`; `delayed_s` is null where no restart is known.
    """
    which = ["cluster", "run_id", "attempt_no"]
    again = (
        restarts.filter(~pl.col("in_allocation")).group_by(which).agg(pl.col("restarted_at", "interrupted_at").min())
    )
    rows = interruptions.filter(pl.col("second_order").fill_null(value=False)).join(again, on=which, how="left")
    waited = frames.seconds(pl.col("restarted_at") - pl.col("interrupted_at")).clip(0)
    done = rows.with_columns(
        kind=pl.lit(RESTART),
        began_at="ended_at",
        waited_s=waited,
        delayed_s=waited,
        open=pl.col("restarted_at").is_null(),
    )
    return frames.conform(done, DELAYS)


def summed(delays: pl.DataFrame) -> pl.DataFrame:
    """Delays by kind.

    Args:
        delays: `DELAYS`.

    Returns:
        By `kind`: `n` jobs, `n_open` (still waiting, or not seen again), `n_unknown` (of unknown GPUs or delay),
        `delayed_gpu_s` (of the others; null of none), `median_s`, `longest_s`.
    """
    gpu_s = pl.col("delayed_s") * pl.col("milli_gpus") / 1000
    kinds = pl.DataFrame({"kind": [OUTAGE, BLOCK, RESTART]})
    sums = delays.group_by("kind").agg(
        pl.len().cast(frames.COUNT).alias("n"),
        pl.col("open").sum().cast(frames.COUNT).alias("n_open"),
        gpu_s.null_count().cast(frames.COUNT).alias("n_unknown"),
        pl.when(gpu_s.count() > 0).then(exact_sum(gpu_s)).alias("delayed_gpu_s"),
        pl.col("delayed_s").median().alias("median_s"),
        pl.col("delayed_s").max().alias("longest_s"),
    )
    return kinds.join(sums, on="kind", how="left", maintain_order="left").with_columns(
        pl.col("n", "n_open", "n_unknown").fill_null(0)
    )


# Published metrics --------------------------------------------------------------------------------------------------

METRICS = (
    Metric(
        name="delayed_by_outages",
        unit="gpu_s",
        summary="GPU-seconds that jobs waited only because nodes were out of service and not planned to be.",
        formula=(
            "sum over waiting jobs of requested GPUs x time in which they did not fit the free nodes of their "
            "partition and would have with those out of service; segments within blocks"
        ),
        query="attempts",
        function=by_outages,
        interval="none: at most, since each job is judged by itself and several may have waited for the same nodes",
        source="ours; after Kokolis et al. (HPCA 2025) section III-C",
        show="interruptions",
        better="lower",
    ),
    Metric(
        name="delayed_by_restarts",
        unit="gpu_s",
        summary="GPU-seconds that jobs waited which had been preempted for a run that came back from a failure.",
        formula="sum over second-order preemptions of GPUs held x time until the job ran again",
        query="restarts",
        function=by_restarts,
        interval="none: the least it can be; jobs whose next start is unobserved are listed apart",
        source="ours; after Kokolis et al. (HPCA 2025) section III-C",
        show="interruptions",
        better="lower",
    ),
)
