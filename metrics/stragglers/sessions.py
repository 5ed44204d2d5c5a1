"""Why the steps of a session take longer than its computation needs: a node, the shape of the job, or unknown.

All ranks wait for the slowest in each step, so a session lasts as long as its slowest ranks compute. That is compared
with the middle rank: what lies between is GPU time that other ranks spent waiting. A node is suspected where few nodes
have slow ranks, and those explain most of it; it is confirmed where another run was slow on the same node. Many slow
nodes, or a slowest rank that changes from one interval to the next, are the shape of the job (stages, lengths of
sequences).
"""

from __future__ import annotations

from typing import Final

import polars as pl

from metrics import frames
from metrics.stragglers.slow_ranks import measured, of_measured
from metrics.stragglers.verdict import FEW, MAJORITY, STRAGGLING

_SESSION: Final = ("cluster", "run_id", "session")

SESSION_STRAGGLERS: frames.Schema = {
    "cluster": frames.TEXT,
    "run_id": frames.TEXT,
    "session": frames.TEXT,
    "cause": frames.TEXT,
    "nodes": pl.List(frames.TEXT),
    "confirmed": frames.FLAG,
    "slowdown": frames.NUMBER,
    "slowest_s": frames.NUMBER,
    "middle_s": frames.NUMBER,
    "explained": frames.NUMBER,
    "lost_gpu_s": frames.NUMBER,
    "measured_gpu_s": frames.NUMBER,
    "ranks": frames.COUNT,
    "intervals": frames.COUNT,
    "detectable": frames.NUMBER,
    "reason": frames.TEXT,
}
"""A session: `slowdown` is `slowest_s` over `middle_s`, the seconds of computation of the slowest and of the middle
rank of each interval; `explained` is the share of the difference that slow ranks of the named nodes explain, and
`lost_gpu_s` of `measured_gpu_s` what all ranks together waited for the slowest."""


def session_stragglers(sums: pl.DataFrame) -> pl.DataFrame:
    """The cause of each session's slowness, with the nodes that are suspected and what it cost.

    Args:
        sums: `frames.RANK_STEPS`; each row a rank, which is one GPU.

    Returns:
        `SESSION_STRAGGLERS`, the costliest first. `cause` is `none` (a slowdown of less than 1.1 and no slow rank),
        `node`, `job_shape` or `unknown`.
    """
    times = measured(frames.conform(sums, frames.RANK_STEPS))
    sessions = _sessions(times).join(_suspects(of_measured(times)), on=_SESSION, how="left")
    return frames.conform(_confirmed(_causes(sessions)), SESSION_STRAGGLERS).sort(
        "lost_gpu_s", "cluster", "run_id", "session", descending=[True, False, False, False]
    )


def _sessions(times: pl.DataFrame) -> pl.DataFrame:
    """Seconds of the slowest and of the middle rank, added up over the intervals."""
    intervals = times.group_by(*_SESSION, "first_step").agg(
        longest=pl.col("compute_s").max(),
        middle=pl.col("compute_s").median(),
        total=pl.col("compute_s").sum(),
        ranks=pl.len().cast(pl.Int64),
    )
    wasted = (pl.col("longest") - pl.col("middle")) * pl.col("ranks")
    return intervals.group_by(_SESSION).agg(
        slowdown=pl.col("longest").sum() / pl.col("middle").sum(),
        slowest_s=pl.col("longest").sum(),
        middle_s=pl.col("middle").sum(),
        lost_gpu_s=wasted.sum(),
        measured_gpu_s=(pl.col("longest") * pl.col("ranks")).sum(),
        ranks=pl.col("ranks").max(),
        intervals=pl.len().cast(pl.Int64),
    )


def _suspects(ranks: pl.DataFrame) -> pl.DataFrame:
    """Nodes with slow ranks, how many there are in all, and how slow the slowest of them is."""
    slow = pl.col("slow").fill_null(value=False)
    return ranks.group_by(_SESSION).agg(
        nodes=pl.col("node").filter(slow).unique().sort(),
        all_nodes=pl.col("node").n_unique(),
        slow_ratio=pl.col("ratio").filter(slow).max(),
        tested=pl.col("p_value").is_not_null().any(),
        detectable=pl.col("detectable").median(),
    )


def _causes(sessions: pl.DataFrame) -> pl.DataFrame:
    n_slow = pl.col("nodes").list.len()
    few = n_slow <= pl.max_horizontal(pl.lit(1), (FEW * pl.col("all_nodes")).floor())
    explained = ((pl.col("slow_ratio") - 1) / (pl.col("slowdown") - 1)).clip(0, 1)
    straggling = pl.col("slowdown") >= STRAGGLING
    cause = (
        pl.when((n_slow == 0) & ~straggling)
        .then(pl.when("tested").then(pl.lit("none")).otherwise(pl.lit("unknown")))
        .when((n_slow > 0) & few & (pl.col("explained") >= MAJORITY))
        .then(pl.lit("node"))
        .when(pl.col("tested") & straggling)
        .then(pl.lit("job_shape"))
        .otherwise(pl.lit("unknown"))
    )
    return (
        sessions.with_columns(explained=pl.when(n_slow > 0).then(explained))
        .with_columns(cause=cause)
        .with_columns(
            reason=_reason(n_slow), nodes=pl.when(pl.col("cause") == "node").then("nodes").otherwise(pl.lit([]))
        )
    )


def _reason(n_slow: pl.Expr) -> pl.Expr:
    slower = ((pl.col("slow_ratio") - 1) * 100).round(1)
    return (
        pl.when(pl.col("cause") == "node")
        .then(pl.format("its slowest rank computes {} % longer than the middle one", slower))
        .when(pl.col("cause") == "none")
        .then(pl.lit("no rank computes longer than its peers by what matters"))
        .when(~pl.col("tested"))
        .then(pl.lit("too few intervals, ranks or nodes to compare"))
        .when((pl.col("cause") == "job_shape") & (n_slow > 0))
        .then(pl.format("ranks on {} of {} nodes are slow", n_slow, pl.col("all_nodes")))
        .when(pl.col("cause") == "job_shape")
        .then(pl.lit("the slowest rank is another one from interval to interval"))
        .otherwise(pl.lit("slow ranks explain less than half of it"))
    )


def _confirmed(sessions: pl.DataFrame) -> pl.DataFrame:
    """Whether another run was slow on one of the named nodes."""
    named = sessions.filter(pl.col("cause") == "node").select(*_SESSION, node="nodes").explode("node")
    runs = pl.col("run_id").n_unique().over("cluster", "node")
    confirmed = named.with_columns(confirmed=runs > 1).group_by(_SESSION).agg(pl.col("confirmed").any())
    return sessions.join(confirmed, on=_SESSION, how="left")
