"""Why the steps of a session take longer than its computation needs: a node, the shape of the job, or unknown.

All ranks wait for the slowest in each step, so a session lasts as long as its slowest ranks compute. That is compared
with the middle rank: what lies between is GPU time that other ranks spent waiting. A node is suspected where few nodes
have slow ranks, and those explain most of it; it is confirmed where another run was slow on the same node. Many slow
nodes, a stage with more work, a rank that is slow wherever it runs, one that is slow on all of its stages, or a slowest
rank that changes from one interval to the next, are the shape of the job (stages, lengths of sequences).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from metrics import frames
from metrics.stragglers.actions import ACTIONS
from metrics.stragglers.outside_computation import against_other_runs, time_outside_computation
from metrics.stragglers.reasons import reason, share_explained
from metrics.stragglers.slow_ranks import judged, measured, tested
from metrics.stragglers.verdict import FEW, MAJORITY, STRAGGLING

if TYPE_CHECKING:
    from collections.abc import Iterable

UNSURE_OF_NETWORK: Final = 0.25
"""Share of the time that transfers take, from which on the network is in doubt unless another run confirms it."""

_SESSION: Final = ("cluster", "run_id", "session")

_CAUSE_OF: Final = {
    "network": "network",
    "launch": "launch",
    "now and then": "job_shape",
    "late host": "launch",
    "late hosts": "job_shape",
}
"""Parts of the time beside computation, and the cause that each means."""

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
    "confidence": frames.NUMBER,
    "action": frames.TEXT,
}
"""A session: `slowdown` is `slowest_s` over `middle_s`, the seconds of computation of the slowest and of the middle
rank of each interval; `explained` is the share of the difference that slow ranks of the named nodes explain, and
`lost_gpu_s` of `measured_gpu_s` what all ranks together waited for the slowest (`network`, `launch`: for transfers or
the host beyond the usual); `confidence` is 1 less the false
discovery rate at which the named nodes would just be named; `action` is for a person, null for `none`."""


def session_stragglers(parts: Iterable[pl.DataFrame]) -> pl.DataFrame:
    """The cause of each session's slowness, with the nodes that are suspected and what it cost.

    Args:
        parts: `frames.RANK_STEPS`, each row a rank, which is one GPU; each session in one part: memory is that of the
            largest part.

    Returns:
        `SESSION_STRAGGLERS`, the costliest first. `cause` is `none` (a slowdown of less than 1.1 and no slow rank),
        `node`, `job_shape`, `network`, `launch` or `unknown`.
    """
    ranks, sessions = [], []
    for part in parts:
        times = measured(frames.conform(part, frames.RANK_STEPS))
        ranks.append(tested(times))
        sessions.append(_sessions(times))
    totals = pl.concat([_sessions(measured(frames.empty(frames.RANK_STEPS))), *sessions])
    every = against_other_runs(totals).join(_suspects(judged(ranks)), on=_SESSION, how="left")
    return frames.conform(_confirmed(_causes(every)), SESSION_STRAGGLERS).sort(
        "lost_gpu_s", "cluster", "run_id", "session", descending=[True, False, False, False]
    )


def _sessions(times: pl.DataFrame) -> pl.DataFrame:
    """Seconds of the slowest and of the middle rank, added up over the intervals, and what lasts of the difference."""
    intervals = times.group_by(*_SESSION, "first_step").agg(
        longest=pl.col("compute_s").max(),
        middle=pl.col("compute_s").median(),
        ranks=pl.len().cast(pl.Int64),
    )
    wasted = (pl.col("longest") - pl.col("middle")) * pl.col("ranks")
    sums = intervals.group_by(_SESSION).agg(
        slowdown=pl.col("longest").sum() / pl.col("middle").sum(),
        slowest_s=pl.col("longest").sum(),
        middle_s=pl.col("middle").sum(),
        lost_gpu_s=wasted.sum(),
        measured_gpu_s=(pl.col("longest") * pl.col("ranks")).sum(),
        ranks=pl.col("ranks").max(),
        intervals=pl.len().cast(pl.Int64),
    )
    in_intervals = times.join(intervals, on=[*_SESSION, "first_step"], how="left")
    for part in (_lasting(in_intervals), _slowest_stage(in_intervals), time_outside_computation(times)):
        sums = sums.join(part, on=_SESSION, how="left")
    return sums


def _lasting(in_intervals: pl.DataFrame) -> pl.DataFrame:
    """Computation time of a session's slowest rank relative to the middle rank, over all its intervals together."""
    ranks = in_intervals.group_by(*_SESSION, "rank").agg(pl.col("compute_s").sum() / pl.col("middle").sum())
    return ranks.group_by(_SESSION).agg(lasting=pl.col("compute_s").max())


def _slowest_stage(in_intervals: pl.DataFrame) -> pl.DataFrame:
    """The pipeline stage with most work, and how many times the middle rank's seconds its middle rank computes."""
    seconds = pl.col("compute_s").median(), pl.col("middle").first()
    stages = in_intervals.filter(pl.col("stage").is_not_null()).group_by(*_SESSION, "stage", "first_step").agg(*seconds)
    of_stage = stages.group_by(*_SESSION, "stage").agg(stage_ratio=pl.col("compute_s").sum() / pl.col("middle").sum())
    slowest = of_stage.sort("stage_ratio", "stage", descending=[True, False])
    return slowest.unique(_SESSION, keep="first", maintain_order=True).rename({"stage": "slowest_stage"})


def _suspects(ranks: pl.DataFrame) -> pl.DataFrame:
    """Nodes with slow ranks, how many there are in all, and how slow the slowest of them is.

    Blocks are left out, and so are ranks that are slow on whichever node they run, or whose data are more work.
    """
    slow = pl.col("slow").fill_null(value=False)
    by_node = (
        ranks.with_columns(slow=slow)
        .with_columns(roams=_roams())
        .sort(*_SESSION, "stage", "rank", "node")
        .with_columns(place=pl.int_range(pl.len()).over(*_SESSION, "stage"))
        .with_columns(loaded=_slow_on_all_stages())
        .with_columns(slow=pl.col("slow") & ~pl.col("roams") & ~pl.col("loaded"))
        .sort(*_SESSION, "rank", "node")
        .with_columns(in_block=_in_block())
        .group_by(*_SESSION, "node")
        .agg(
            slow=pl.col("slow").any(),
            whole=pl.col("slow").all(),
            in_block=pl.col("in_block").filter("slow").all(),
            slow_ratio=pl.col("ratio").filter("slow").max(),
            q_value=pl.col("q_value").filter("slow").min(),
            tested=pl.col("p_value").is_not_null().any(),
            detectable=pl.col("detectable").median(),
            roaming=pl.col("rank").filter("roams").min(),
            loaded=pl.col("place").filter("loaded").min(),
        )
    )
    of_node, runs = ["cluster", "node"], pl.col("run_id")
    whole = runs.filter("whole").n_unique().over(of_node)
    often = pl.col("whole") & (whole > 1) & (whole >= MAJORITY * runs.n_unique().over(of_node))
    in_block = pl.col("slow") & pl.col("in_block") & ~often
    suspect = pl.col("slow") & ~in_block
    return (
        by_node.with_columns(suspect=suspect, in_block=in_block)
        .group_by(_SESSION)
        .agg(
            nodes=pl.col("node").filter("suspect").unique().sort(),
            all_nodes=pl.col("node").n_unique(),
            slow_ratio=pl.col("slow_ratio").filter("suspect").max(),
            q_value=pl.col("q_value").filter("suspect").max(),
            tested=pl.col("tested").any(),
            detectable=pl.col("detectable").median(),
            block=pl.col("in_block").any(),
            roaming=pl.col("roaming").min(),
            loaded=pl.col("loaded").min(),
        )
    )


def _roams() -> pl.Expr:
    """Whether a slow rank was slow on several nodes, in most restarts of its run: its work is more, and no node slow.

    Rank 0 has duties in any run (it logs and saves), so it is compared over all runs.
    """
    return pl.col("slow") & (
        _on_any_node("cluster", "run_id", "rank") | ((pl.col("rank") == 0) & _on_any_node("cluster", "rank"))
    )


def _on_any_node(*of_rank: str) -> pl.Expr:
    nodes = pl.col("node").filter("slow").n_unique().over(of_rank)
    return (nodes > 1) & (pl.col("slow").sum().over(of_rank) >= MAJORITY * pl.len().over(of_rank))


def _slow_on_all_stages() -> pl.Expr:
    """Whether the ranks at a place of all pipeline stages are slow, on several nodes: these share their data.

    Of each stage the ranks in the same place, by number, are of one data-parallel rank.
    """
    of_place = (*_SESSION, "place")
    stages = pl.col("stage").n_unique().over(_SESSION)
    everywhere = pl.col("slow").sum().over(of_place) == stages
    return (stages > 1) & everywhere & (pl.col("node").n_unique().over(of_place) > 1)


def _in_block() -> pl.Expr:
    """Whether a slow rank is one of several in a row, as many as a pipeline stage would have; rows sorted by rank.

    A stage with more work that the lines do not name looks like that, and so does a slow node or rack. One run
    does not decide; a node that is slow in most of its runs does, and one that was not slow from the beginning.
    """
    came_later = pl.col("ratio_before").log() < pl.col("ratio_since").log() / 2
    in_a_row = [*_SESSION, pl.col("slow").rle_id().over(_SESSION)]
    n, first = pl.len().over(in_a_row), pl.col("rank").min().over(in_a_row)
    without_gap = pl.col("rank").max().over(in_a_row) - first + 1 == n
    aligned = (pl.len().over(_SESSION) % n == 0) & (first % n == 0)
    unnamed = pl.col("stage").is_null().all().over(_SESSION)
    return pl.col("slow") & (n > 1) & without_gap & aligned & unnamed & ~came_later.fill_null(value=False)


def _causes(sessions: pl.DataFrame) -> pl.DataFrame:
    n_slow = pl.col("nodes").list.len()
    few = n_slow <= pl.max_horizontal(pl.lit(1), (FEW * pl.col("all_nodes")).floor())
    explained = ((pl.col("slow_ratio") - 1) / (pl.col("slowdown") - 1)).clip(0, 1)
    straggling = pl.col("slowdown") >= STRAGGLING
    heavier = pl.col("roaming").is_not_null() | pl.col("loaded").is_not_null()
    shaped = (n_slow > 0) | heavier | (share_explained("stage_ratio") >= MAJORITY)
    cause = (
        pl.when((n_slow == 0) & pl.col("block"))
        .then(pl.lit("unknown"))
        .when((n_slow == 0) & ~straggling)
        .then(pl.when("tested").then(pl.lit("none")).otherwise(pl.lit("unknown")))
        .when((n_slow > 0) & few & (pl.col("explained") >= MAJORITY))
        .then(pl.lit("node"))
        .when(pl.col("tested") & straggling & (shaped | (share_explained("lasting") < MAJORITY)))
        .then(pl.lit("job_shape"))
        .otherwise(pl.lit("unknown"))
    )
    no_rank = pl.col("cause").is_in(["none", "unknown"]) & (n_slow == 0) & ~pl.col("block").fill_null(value=False)
    return (
        sessions.with_columns(explained=pl.when(n_slow > 0).then(explained))
        .with_columns(cause=cause)
        .with_columns(outside_cause=pl.when(no_rank).then(_cause_outside_computation()))
        .with_columns(cause=pl.coalesce(pl.col("outside_cause").replace_strict(_CAUSE_OF, default=None), "cause"))
        .with_columns(cause=pl.when(_unsure_of_network()).then(pl.lit("unknown")).otherwise("cause"))
        .with_columns(
            reason=reason(n_slow),
            lost_gpu_s=_lost(),
            confidence=pl.when(pl.col("cause") == "node").then(1 - pl.col("q_value")),
            action=pl.col("cause").replace_strict(ACTIONS, default=None, return_dtype=pl.String()),
            nodes=pl.when(pl.col("cause") == "node").then("nodes").otherwise(pl.lit([])),
        )
    )


def _cause_outside_computation() -> pl.Expr:
    """Kind of time beside computation that made a session straggle, one of `_CAUSE_OF`, or null.

    Transfers, the host of all ranks, and the host of the rank that the others wait for: the longest of the three. Time
    that is long from the first step on is found by its share alone, or by other runs.
    """
    parts = {
        "network": pl.max_horizontal("network_s", "others_s", _most("network")),
        "launch": pl.max_horizontal("launch_s", _most("launch")),
        "late": pl.col("late_s"),
    }
    seconds = {name: each.fill_null(0.0) for name, each in parts.items()}
    longest = pl.max_horizontal(seconds.values())
    same = pl.col("late_rank_share") >= MAJORITY
    return (
        pl.when((longest < (STRAGGLING - 1) * pl.col("wall_s")).fill_null(value=True))
        .then(None)
        .when(seconds["network"] == longest)
        .then(pl.lit("network"))
        .when(seconds["late"] == longest)
        .then(pl.when(same).then(pl.lit("late host")).otherwise(pl.lit("late hosts")))
        .when(_is_intermittent())
        .then(pl.lit("now and then"))
        .otherwise(pl.lit("launch"))
    )


def _most(part: str) -> pl.Expr:
    """Its seconds where they are most of the wall time; the part of transfers in a pipeline's waiting is unknown."""
    share = pl.col(f"{part}_share")
    decided = (share >= MAJORITY) & ((pl.col("stages") <= 1) if part == "network" else True)
    return pl.when(decided).then(share * pl.col("wall_s"))


def _is_intermittent() -> pl.Expr:
    """Whether the host is slow now and then, as saving and loading data are: that is the shape of the job."""
    return (pl.col("launch_share_of_lines") < MAJORITY) & (pl.col("launch_share") < MAJORITY)


def _unsure_of_network() -> pl.Expr:
    """Whether transfers take so large a share throughout that a link may be slow, without another run to compare."""
    alone = pl.col("others").is_null()
    return (pl.col("cause") == "none") & alone & (pl.col("network_share") >= UNSURE_OF_NETWORK)


def _lost() -> pl.Expr:
    """Time that all ranks waited for the slowest, or for transfers or a host beyond the usual."""
    network = pl.coalesce(pl.max_horizontal("network_s", "others_s"), _most("network"))
    host = pl.max_horizontal("launch_s", _most("launch"))
    seconds = (
        pl.when(pl.col("outside_cause") == "network")
        .then(network)
        .when(pl.col("outside_cause").is_in(["launch", "now and then"]))
        .then(host)
        .when(pl.col("outside_cause").is_not_null())
        .then("late_s")
    )
    return pl.coalesce(seconds * pl.col("ranks"), "lost_gpu_s")


def _confirmed(sessions: pl.DataFrame) -> pl.DataFrame:
    """Whether another run was slow on one of the named nodes."""
    named = sessions.filter(pl.col("cause") == "node").select(*_SESSION, node="nodes").explode("node")
    runs = pl.col("run_id").n_unique().over("cluster", "node")
    confirmed = named.with_columns(confirmed=runs > 1).group_by(_SESSION).agg(pl.col("confirmed").any())
    return sessions.join(confirmed, on=_SESSION, how="left")
