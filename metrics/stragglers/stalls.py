"""Stalls: a session made no step for many times the usual, on what it waited, and which rank was last.

A stall is a step that begins at least so many usual steps before the next one (10, and at least 5 minutes), as the
ledger's hang. Events of its run log in that time explain it: reading data, saving or loading a checkpoint. Otherwise
dumps of the NCCL flight recorder do, or
times of ranks, if there are any: in a collective all ranks wait but the one that the others wait for; where even
that one waits, the collective itself is stuck. Else its kind is unknown.

The usual step is the median one of its session, which a stall does not move.
"""

from __future__ import annotations

from typing import Final

import polars as pl

from metrics import frames
from metrics.stragglers.collectives import HANGS

EXPLAINED: Final = 0.5
"""Share of a stall that an event, or waiting, must take to explain it."""

LEAST_RANKS: Final = 3
"""With fewer ranks that record waiting none is called the last."""

KINDS: Final = {"data": "data", "checkpoint_save": "checkpoint", "checkpoint_load": "checkpoint"}
"""Of stalls, by the kind of event."""

PLANNED: Final = ("eval", "custom", "init", "compile", "restart")
"""Kinds of events that are no stall."""

STEP_GAPS: frames.Schema = {
    "cluster": frames.TEXT,
    "run_id": frames.TEXT,
    "job_id": frames.TEXT,
    "step": frames.COUNT,
    "began_at": frames.TIME,
    "resumed_at": frames.TIME,
    "usual_s": frames.NUMBER,
    "n_gpus": frames.COUNT,
}
"""A step whose next one (`resumed_at`) is late: `usual_s` is the median of its session, `n_gpus` its GPUs."""

RANK_LINES: frames.Schema = {
    **{name: kind for name, kind in frames.RANK_STEPS.items() if name != "session"},
    "job_id": frames.TEXT,
    "started_at": frames.TIME,
    "ended_at": frames.TIME,
}
"""Rank times with their own times."""

STALLS: frames.Schema = {
    **STEP_GAPS,
    "seconds": frames.NUMBER,
    "times": frames.NUMBER,
    "kind": frames.TEXT,
    "last_rank": frames.COUNT,
    "last_node": frames.TEXT,
    "lost_gpu_s": frames.NUMBER,
    "reason": frames.TEXT,
}
"""A stall: `seconds` beyond the usual step, which lasted `times` it; `kind` is data, checkpoint, collective or
unknown; `last_rank` and `last_node` are of the rank that the others waited for, where that is known."""

_KEY: Final = ("cluster", "run_id", "job_id", "began_at")
_OF_RANKS: Final = ("rank_kind", "rank_reason", "last_rank", "last_node")

FEW: Final = 0.25
"""Of the ranks: more than so many that stopped early are no single place."""

LINES_BEHIND: Final = 2
"""A rank that is killed loses the line that it was about to write, so one line less is no evidence."""


def stalls(
    gaps: pl.DataFrame, events: pl.DataFrame, ranks: pl.DataFrame, dumps: pl.DataFrame | None = None
) -> pl.DataFrame:
    """Cause of the wait of each late step.

    Args:
        gaps: `STEP_GAPS`, without those in which a process started: that is a restart.
        events: `frames.RUN_EVENTS` of these runs.
        ranks: `RANK_LINES` of these runs; may be empty.
        dumps: `metrics.stragglers.collectives.HANGS` of these runs, better evidence than times of ranks; None: none.

    Returns:
        `STALLS`, the costliest first; a pause that evaluation or start-up explains is none.
    """
    gaps = frames.conform(gaps, STEP_GAPS)
    seconds = (pl.col("resumed_at") - pl.col("began_at")).dt.total_microseconds() / 1e6
    late = gaps.with_columns(times=seconds / pl.col("usual_s"), seconds=seconds - pl.col("usual_s"))
    explained = (
        _by_events(late, events)
        .join(_by_ranks(late, ranks), on=_KEY, how="left", nulls_equal=True)
        .join(_by_last_steps(late, ranks), on=_KEY, how="left", nulls_equal=True)
        .join(_by_dumps(late, dumps), on=_KEY, how="left", nulls_equal=True)
        .with_columns(
            pl.when("dumped").then(f"dump_{name}").otherwise(_of_lines(name)).alias(name) for name in _OF_RANKS
        )
    )
    kind = pl.coalesce("event_kind", "rank_kind", pl.lit("unknown"))
    answer = explained.filter(pl.col("event_kind").ne_missing("planned")).with_columns(
        kind=kind,
        reason=pl.coalesce("event_reason", "rank_reason", pl.lit(_CANNOT_TELL)),
        last_rank=pl.when(pl.col("event_kind").is_null()).then("last_rank"),
        last_node=pl.when(pl.col("event_kind").is_null()).then("last_node"),
        lost_gpu_s=pl.col("seconds") * pl.col("n_gpus"),
    )
    return frames.conform(answer, STALLS).sort(
        "lost_gpu_s", "seconds", *_KEY, descending=[True, True, *[False] * len(_KEY)], nulls_last=True
    )


def _of_lines(name: str) -> pl.Expr:
    return pl.coalesce(name, f"step_{name}")


def _by_dumps(late: pl.DataFrame, dumps: pl.DataFrame | None) -> pl.DataFrame:
    """Columns from dumps of collectives for each stall: `dumped`, and `_OF_RANKS` with `dump_` before their names."""
    of_hang = frames.conform(frames.empty(HANGS) if dumps is None else dumps, HANGS).rename({"job_id": "job"})
    pairs = (
        late.select(*_KEY, "resumed_at")
        .join(of_hang, on="run_id")
        .filter(
            pl.col("job").eq_missing(pl.col("job_id")) | pl.col("job").is_null(),
            (pl.col("until") >= pl.col("began_at")) & (pl.col("until") <= pl.col("resumed_at")),
        )
    )
    last = pairs.sort("until").unique(_KEY, keep="last", maintain_order=True)
    in_collective = (pl.col("waiting") > 0) | (pl.col("absent") > 0)
    return last.select(
        *_KEY,
        dumped=pl.lit(value=True),
        dump_rank_kind=pl.when(in_collective).then(pl.lit("collective")),
        dump_rank_reason="reason",
        dump_last_rank="last_rank",
        dump_last_node="last_node",
    )


_CANNOT_TELL: Final = "cannot tell: its log has no event, and no times of ranks, of that time"


def _by_events(late: pl.DataFrame, events: pl.DataFrame) -> pl.DataFrame:
    """Add the kind of the events that took most of a stall: `event_kind` and `event_reason`; null without."""
    known = pl.col("kind").replace_strict({**KINDS, **dict.fromkeys(PLANNED, "planned")}, default=None)
    during = events.select("cluster", "run_id", "job_id", "kind", "ts", "ended_at", "blocking", event=known)
    during = during.filter(pl.col("event").is_not_null() & pl.col("blocking").fill_null(value=True)).drop("blocking")
    pairs = late.join(during, on=["cluster", "run_id", "job_id"], nulls_equal=True)
    begin = pl.max_horizontal("ts", "began_at")
    end = pl.min_horizontal(pl.coalesce("ended_at", "resumed_at"), "resumed_at")
    inside = (end - begin).dt.total_microseconds() / 1e6
    most = (
        pairs.with_columns(inside=inside)
        .filter(pl.col("inside") > 0)
        .group_by(*_KEY, "event")
        .agg(pl.col("inside").sum(), pl.col("seconds").first(), pl.col("kind").mode().sort().first())
        .filter(pl.col("inside") >= EXPLAINED * pl.col("seconds"))
        .sort(*_KEY, "inside", "event", descending=[*[False] * len(_KEY), True, False])
        .unique(_KEY, keep="first", maintain_order=True)
    )
    share = (pl.min_horizontal(pl.col("inside") / pl.col("seconds"), 1.0) * 100).round(0).cast(pl.Int64)
    reasons = most.select(
        *_KEY, event_kind="event", event_reason=pl.format("its log records {} events during {} % of it", "kind", share)
    )
    return late.join(reasons, on=_KEY, how="left", nulls_equal=True)


def _by_ranks(late: pl.DataFrame, ranks: pl.DataFrame) -> pl.DataFrame:
    """Ranks' records of the time of each stall: `rank_kind`, `rank_reason`, `last_rank`, `last_node`."""
    lines = frames.conform(ranks, RANK_LINES).drop("step", strict=False)
    pairs = late.select(*_KEY, "resumed_at", "seconds", "usual_s").join(
        lines, on=["cluster", "run_id", "job_id"], nulls_equal=True
    )
    spanning = pairs.filter(
        (pl.col("started_at") < pl.col("resumed_at")) & (pl.col("ended_at") > pl.col("began_at")),
        pl.col("wait_s").is_not_null(),
    )
    waited = (
        spanning.group_by(*_KEY, "rank")
        .agg(pl.col("wait_s").max(), pl.col("node").last(), pl.col("seconds").first())
        .sort(*_KEY, "wait_s", "rank")
        .group_by(_KEY, maintain_order=True)
        .agg(
            least=pl.col("wait_s").first(),
            usual=pl.col("wait_s").median(),
            seconds=pl.col("seconds").first(),
            last_rank=pl.col("rank").first(),
            last_node=pl.col("node").first(),
            ranks=pl.len(),
        )
        .filter(pl.col("ranks") >= LEAST_RANKS)
    )
    many = pl.col("usual") >= EXPLAINED * pl.col("seconds")
    everyone = many & (pl.col("least") >= EXPLAINED * pl.col("seconds"))
    one = many & ~everyone & (pl.col("usual") - pl.col("least") >= EXPLAINED * pl.col("seconds"))
    named = pl.format("the other ranks wait for rank {} on {}", "last_rank", "last_node")
    return waited.select(
        *_KEY,
        rank_kind=pl.when(everyone | one).then(pl.lit("collective")),
        rank_reason=pl.when(one)
        .then(named)
        .when(everyone)
        .then(pl.lit("all ranks wait: the collective itself, or the network under it, is stuck"))
        .when(~many)
        .then(pl.lit("cannot tell: ranks did not wait for each other, and the log has no event of that time")),
        last_rank=pl.when(one).then("last_rank"),
        last_node=pl.when(one).then("last_node"),
    )


def _by_last_steps(late: pl.DataFrame, ranks: pl.DataFrame) -> pl.DataFrame:
    """Ranks that stopped early in a stall that no line spans, as when a run never went on: their last step is earlier.

    Returns:
        `_OF_RANKS` with `step_` before their names, of stalls where few ranks stopped, two lines or more behind.
    """
    lines = frames.conform(ranks, RANK_LINES)
    pairs = late.select(*_KEY, "resumed_at").join(lines, on=["cluster", "run_id", "job_id"], nulls_equal=True)
    before = pairs.filter(pl.col("started_at") < pl.col("resumed_at")).filter(
        (pl.col("ended_at") <= pl.col("began_at")).all().over(_KEY)
    )
    last = before.group_by(*_KEY, "rank").agg(
        pl.col("node").sort_by("started_at").last(),
        pl.col("steps").max(),
        reached=(pl.col("first_step") + pl.col("steps") - 1).max(),
    )
    middle = pl.col("reached").median().over(_KEY)
    behind = pl.col("reached") + LINES_BEHIND * pl.col("steps") <= middle
    stopped = last.with_columns(middle=middle, ranks=pl.len().over(_KEY), behind=behind).filter("behind")
    first = stopped.sort(*_KEY, "reached", "rank").group_by(_KEY, maintain_order=True)
    named = first.agg(pl.col("rank", "node", "reached", "middle", "ranks").first(), n=pl.len()).filter(
        (pl.col("ranks") >= LEAST_RANKS) & (pl.col("n") <= FEW * pl.col("ranks"))
    )
    more = pl.when(pl.col("n") > 1).then(pl.format(" (and {} more)", pl.col("n") - 1)).otherwise(pl.lit(""))
    text = "rank {} on {}{} recorded no step after {}; the middle rank reached {}"
    reason = pl.format(text, "rank", "node", more, "reached", pl.col("middle").cast(pl.Int64))
    return named.select(
        *_KEY,
        step_rank_kind=pl.lit("collective"),
        step_rank_reason=reason,
        step_last_rank="rank",
        step_last_node="node",
    )
