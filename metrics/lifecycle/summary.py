"""Time until capacity is back, and the duration and cost of each stage of an outage.

Outages that still last are censored: they count with the time they have lasted so far, by Kaplan-Meier. Leaving them
out would make repairs look faster than they are, most of all where the long ones are still going on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from metrics import frames
from metrics.exact import exact_sum
from metrics.failures.survival import TIMES, times
from metrics.lifecycle.outages import DRAINING, OUT
from metrics.metric import Metric

if TYPE_CHECKING:
    from datetime import datetime

ALL: Final = "all"
"""The row over everything unplanned."""

PLANNED: Final = "maintenance"
"""The row over everything planned."""

UNKNOWN: Final = "unknown"
"""A cause, or an actor, without a reason that names it."""

SUMMARY: Final[frames.Schema] = {
    "subject": frames.TEXT,
    "outages": frames.COUNT,
    **TIMES,
    "relapses": frames.COUNT,
    "lost_gpu_s": frames.NUMBER,
    "held_gpu_s": frames.NUMBER,
}
"""`outages` had time in the window; `n` of them began in it, of which `n_open` still last."""

STAGE_SUMMARY: Final[frames.Schema] = {
    "stage": frames.TEXT,
    "outages": frames.COUNT,
    **TIMES,
    "total_s": frames.NUMBER,
    "lost_gpu_s": frames.NUMBER,
    **{f"{name}_gpu_s": frames.NUMBER for name in OUT},
    "held_gpu_s": frames.NUMBER,
}

OFFENDERS: Final[frames.Schema] = {
    "node": frames.TEXT,
    "outages": frames.COUNT,
    "relapses": frames.COUNT,
    "out_s": frames.NUMBER,
    "longest_s": frames.NUMBER,
    "lost_gpu_s": frames.NUMBER,
    "cause": frames.TEXT,
    "outcome": frames.TEXT,
    "reason": frames.TEXT,
}
"""Outages that are planned count in none of it; `cause` is the most frequent, `outcome` and `reason` are the last."""

ORDER: Final = (
    "undetected",
    DRAINING,
    "down",
    "drained",
    "triage",
    "reboot",
    "replacement",
    "verification",
    "maintenance",
)
"""Stages as a repair goes through them."""


def time_to_capacity_back(found: pl.DataFrame, by: str, *, since: datetime, until: datetime) -> pl.DataFrame:
    """Time from failure to capacity back, over all unplanned outages and by what they have in common.

    The row `all` is over unplanned outages, and what is planned has a row of its own. The median and the 90th
    percentile are those of Kaplan-Meier: the age by which half (a tenth) of the outages still last; null where the
    outages were not observed that long. The interval is that of Brookmeyer and Crowley.

    Args:
        found: `metrics.lifecycle.outages.OUTAGES` of one cluster with time in the window.
        by: its column to group by: cause, by or outcome.
        since: the window: outages that began in it are those whose time counts.
        until: its end.

    Returns:
        `SUMMARY`, `all` first, then those that lost most.
    """
    of_others = pl.col(by).fill_null(UNKNOWN)
    known = found.with_columns(subject=pl.when("planned").then(pl.lit(PLANNED)).otherwise(of_others))
    total = known.filter(~pl.col("planned")).with_columns(subject=pl.lit(ALL))
    parts = pl.concat([total, known]).partition_by("subject", as_dict=True, maintain_order=True)
    rows = [
        {"subject": key[0], "outages": part.height}
        | _times(part.filter(pl.col("failed_at").is_between(since, until, closed="left")), pl.col("back_at").is_null())
        | {"relapses": part["relapse"].sum(), **_spent(part, "lost_gpu_s", "held_gpu_s")}
        for key, part in parts.items()
    ]
    return pl.DataFrame(rows, schema=SUMMARY).sort(
        pl.col("subject") != ALL, "lost_gpu_s", "subject", descending=[False, True, False]
    )


def stage_summary(stages: pl.DataFrame, *, since: datetime, until: datetime) -> pl.DataFrame:
    """Duration and cost of each stage; its GPU-time adds up to the ledger's down, drained and maintenance time.

    Args:
        stages: `metrics.lifecycle.outages.STAGE_ROWS` of one cluster with time in the window.
        since: the window: stages that began in it are those whose time counts.
        until: its end.

    Returns:
        `STAGE_SUMMARY`, in the order of a repair.
    """
    length = (pl.col("ended_at") - pl.col("started_at")).dt.total_microseconds() / 1e6
    timed = stages.with_columns(out_s=length, lost_gpu_s=pl.sum_horizontal(f"{name}_gpu_s" for name in OUT))
    costs = ("lost_gpu_s", *(f"{name}_gpu_s" for name in OUT), "held_gpu_s")
    rows = []
    for name in ORDER:
        part = timed.filter(pl.col("stage") == name)
        began = part.filter(pl.col("started_at").is_between(since, until, closed="left"))
        if not part.is_empty():
            times = {**_times(began, pl.col("open")), "total_s": began.select(exact_sum(pl.col("out_s"))).item()}
            rows.append({"stage": name, "outages": part["outage"].n_unique(), **times, **_spent(part, *costs)})
    return pl.DataFrame(rows, schema=STAGE_SUMMARY)


def repeat_offenders(found: pl.DataFrame) -> pl.DataFrame:
    """Nodes by how often they were out of service unplanned, and how often that was a relapse.

    Args:
        found: `metrics.lifecycle.outages.OUTAGES` of one cluster with time in the window.

    Returns:
        `OFFENDERS`, those with most relapses and outages first.
    """
    ordered = found.filter(~pl.col("planned")).sort("node", "failed_at")
    nodes = ordered.group_by("node", maintain_order=True).agg(
        pl.len().alias("outages"),
        pl.col("relapse").sum().alias("relapses"),
        exact_sum(pl.col("out_s")).alias("out_s"),
        pl.col("out_s").max().alias("longest_s"),
        exact_sum(pl.col("lost_gpu_s")).alias("lost_gpu_s"),
        pl.col("cause").fill_null(UNKNOWN).mode().sort().first().alias("cause"),
        pl.col("outcome").last(),
        pl.col("reason").last(),
    )
    most = ["relapses", "outages", "lost_gpu_s"]
    return frames.conform(nodes, OFFENDERS).sort(*most, "node", descending=[True, True, True, False])


def _times(began: pl.DataFrame, is_open: pl.Expr) -> dict[str, object]:
    """`TIMES` of `out_s`; those that are open are censored."""
    return {**times(began["out_s"].to_numpy(), began.select(is_open).to_series().to_numpy())}


def _spent(part: pl.DataFrame, *columns: str) -> dict[str, object]:
    return part.select(exact_sum(pl.col(name)).alias(name) for name in columns).row(0, named=True)


METRICS = (
    Metric(
        name="time_to_capacity_back",
        unit="s",
        title="Time from failure to capacity back",
        show="lifecycle",
        better="lower",
        summary="From the failure of a node until it is back in service, over unplanned outages.",
        formula="end of the outage - its beginning (with the silence before Slurm noticed); median and p90 of those "
        "that began in the window, outages that still last censored (Kaplan-Meier)",
        query="node_states",
        function=time_to_capacity_back,
        interval="Brookmeyer and Crowley, 95 %, from Greenwood's variance on the log-log scale",
        source="our definition: metrics.lifecycle.outages",
    ),
    Metric(
        name="outage_stages",
        unit="gpu_s",
        title="GPU-time by stage of an outage",
        show="lifecycle",
        better="lower",
        summary="GPU-time that nodes were down, drained or in maintenance, by stage of the repair.",
        formula="unavailable GPU-seconds of the ledger (down, drained, maintenance) within each stage",
        query="unavailable_gpu_time",
        function=stage_summary,
        interval="none: a census of the ledger",
        source="our definition: metrics.lifecycle.outages",
    ),
)
