"""The question of `trackside show` about waste."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from app.results.waste import limit_rows, state_rows, waste_flags, waste_rows
from app.show.answer import MOST_EXPLAINED, Answer, Question
from app.show.recorded_use import UNUSED, unused_rows, use_note
from app.show.registry import question
from app.show.sentences import bounded, gpu_hours, percent, row_of
from ingest.counted import counted
from metrics.waste import waste as rules

if TYPE_CHECKING:
    from app.window import Window
    from queries.warehouse import Reader


TITLES_OF_KINDS: Final = {
    "idle": "allocated, standing still",
    "unused_gpus": "of that: GPUs never used",
    "never_stepped": "attempts that never stepped",
    "failed_at_once": "failed at once, again and again",
    "short_of_limit": f"done in less than {percent(rules.SHORT, digits=0)} of the time limit",
    "at_maximum": "of that: had requested the partition's maximum",
    UNUSED: "GPUs never busy, by jobstats",
}

_EMPTY = "No attempt is known to have held GPUs in this window: is it within what `trackside status` covers?"
_OVERLAP = "Kinds overlap and are no sum. at least: what was seen; at most: with all unobserved time."


@question(
    "waste",
    "allocated GPU-time that shows no work",
    help="allocated GPU-time that shows no work: idle, GPUs never used, loops of failures, time limits\n"
    "--by kind, state, user, account, partition, run",
    by=("kind", "state", "user", "account", "partition", "run"),
    position=12,
    of_some_runs=("run",),
)
def waste(source: Reader, window: Window, question: Question) -> Answer:
    """Allocated GPU-time that shows no work, by kind or by whose it was; or how GPU-time ended."""
    by = question.dimension
    flags = waste_flags(source, window)
    if by == "state":
        return _by_state(flags)
    return _by_kind(flags, source, window) if by == "kind" else _by_subject(flags, window, by)


def _by_kind(flags: pl.DataFrame, source: Reader, window: Window) -> Answer:
    unused = unused_rows(source, window, flags)
    rows = pl.concat([waste_rows(flags), unused]).with_columns(
        pl.lit("waste").alias("metric"), title=pl.col("kind").replace_strict(TITLES_OF_KINDS)
    )
    return Answer(
        "Allocated GPU-time that shows no work",
        rows,
        {
            "title": ("kind", "text"),
            "gpu_s": ("at least GPU-h", "gpu_h"),
            "high_gpu_s": ("at most GPU-h", "gpu_h"),
            "share": ("of allocated, at least", "ratio"),
            "share_high": ("at most", "ratio"),
            "n": ("attempts", "count"),
            "n_attempts": ("of attempts", "count"),
            "evidence_log": ("seen by logs", "ratio"),
            "evidence_telemetry": ("by telemetry", "ratio"),
        },
        headline=_headline(rows),
        ranked=("gpu_s", "high_gpu_s", "share", "share_high", "n", "n_attempts"),
        metrics=("waste", "time_limit_used"),
        queries=("attempt_spending", "attempt_activity", "usage_of_attempts", "summaries_of_attempts"),
        notes=(
            _OVERLAP,
            *_blind(rows),
            *_inactive(source, window, rows),
            *([] if unused.is_empty() else [_BY_JOBSTATS]),
            *_limits(flags),
            use_note(source, window, flags) or _UNMEASURED,
        ),
        parts=_PARTS | {"subject": "kind"},
        when_empty=_EMPTY,
    )


def _headline(rows: pl.DataFrame) -> str:
    """How much of the allocated GPU-time stood still."""
    row = row_of(rows, "kind", "idle")
    if row is None:
        return ""
    share = bounded(None, row["share"], row["share_high"])
    return f"GPUs stood still in {share} of the allocated time, at least {gpu_hours(row['gpu_s'])}."


def _most_idle(rows: pl.DataFrame, by: str) -> str:
    """The subject whose GPUs stood still most."""
    if rows.is_empty():
        return ""
    if not rows["gpu_s_idle"].item(0):
        return f"No GPU-time of {counted(rows.height, by)} is known to have stood still."
    first = rows.row(0, named=True)
    share = bounded(None, first["share"], first["share_high"])
    amount = gpu_hours(first["gpu_s_idle"])
    return f"Most time standing still: {by} {first['subject']}, {amount}, {share} of what it held."


def _by_subject(flags: pl.DataFrame, window: Window, by: str) -> Answer:
    """One row per subject, a column per kind."""
    long = waste_rows(flags, by)
    key = ["cluster", "subject", "allocated_gpu_s", "n_attempts"]
    shares = ["evidence_log", "evidence_telemetry", "evidence_accounting", "evidence_assumed"]
    wide = long.pivot("kind", index=key + shares, values=["gpu_s", "high_gpu_s"])
    limits = limit_rows(flags, by)
    whole = pl.when(pl.col("allocated_gpu_s") > 0).then(pl.col("allocated_gpu_s"))
    rows = (
        (
            wide.join(limits, on=["cluster", "subject"], how="left")
            .with_columns(
                pl.lit("waste").alias("metric"),
                share=pl.col("gpu_s_idle") / whole,
                share_high=pl.min_horizontal(pl.col("high_gpu_s_idle") / whole, 1.0),
            )
            .sort("gpu_s_idle", "high_gpu_s_idle", "subject", descending=[True, True, False])
        )
        if long.height
        else long
    )
    return Answer(
        f"Allocated GPU-time that shows no work, by {by}",
        rows,
        {
            "subject": (by, "text"),
            "allocated_gpu_s": ("allocated GPU-h", "gpu_h"),
            "gpu_s_idle": ("standing still, GPU-h", "gpu_h"),
            "share": ("of allocated, at least", "ratio"),
            "share_high": ("at most", "ratio"),
            "gpu_s_unused_gpus": ("GPUs never used, GPU-h", "gpu_h"),
            "gpu_s_never_stepped": ("never stepped, GPU-h", "gpu_h"),
            "gpu_s_failed_at_once": ("failed at once, GPU-h", "gpu_h"),
            "gpu_s_short_of_limit": ("far short of limit, GPU-h", "gpu_h"),
            "used_median": ("of limit, median", "ratio"),
            "n_attempts": ("attempts", "count"),
        },
        headline=_most_idle(rows, by),
        ranked=("allocated_gpu_s", "gpu_s_idle", "share", "share_high", "gpu_s_never_stepped", "gpu_s_failed_at_once"),
        metrics=("waste", "time_limit_used"),
        queries=("attempt_spending",),
        notes=(_OVERLAP, *_blind(waste_rows(flags))),
        parameters=window.parameters | {"dimension": by},
        worth_explaining=pl.int_range(pl.len()) < MOST_EXPLAINED,
        parts=_PARTS
        | {
            "numerator": "gpu_s_idle",
            "numerator_high": "high_gpu_s_idle",
            "n": "n_attempts",
            "unused_gpus_gpu_s": "gpu_s_unused_gpus",
            "never_stepped_gpu_s": "gpu_s_never_stepped",
            "failed_at_once_gpu_s": "gpu_s_failed_at_once",
            "short_of_limit_gpu_s": "gpu_s_short_of_limit",
            "time_limit_used": "used_median",
            "time_limit_n": "n_limited",
        },
        when_empty=_EMPTY,
    )


_PARTS: Final = {
    "metric": "metric",
    "subject": "subject",
    "value": "share",
    "numerator": "gpu_s",
    "numerator_high": "high_gpu_s",
    "denominator": "allocated_gpu_s",
    "n": "n",
    "n_attempts": "n_attempts",
    "bound_low": "share",
    "bound_high": "share_high",
    "evidence_log": "evidence_log",
    "evidence_telemetry": "evidence_telemetry",
    "evidence_accounting": "evidence_accounting",
    "evidence_assumed": "evidence_assumed",
}


def _by_state(flags: pl.DataFrame) -> Answer:
    rows = state_rows(flags)
    return Answer(
        "GPU-time by how it ended",
        rows.with_columns(pl.lit("gpu_time_by_state").alias("metric")),
        {
            "ending": ("ended", "text"),
            "gpu_s": ("GPU-h", "gpu_h"),
            "share": ("share of what ended", "ratio"),
            "n": ("attempts", "count"),
        },
        headline=_endings(rows),
        metrics=("gpu_time_by_state",),
        queries=("attempt_spending",),
        notes=(
            "fail: FAILED, TIMEOUT, NODE_FAIL, OUT_OF_MEMORY and all other ends but complete, cancel and preempt "
            "(preempted or requeued); open: still running, or its end is unknown.",
            "GPU-time of the window, whenever the attempt ended.",
        ),
        parts={
            "metric": "metric",
            "subject": "ending",
            "value": "share",
            "numerator": "gpu_s",
            "denominator": "of_gpu_s",
            "n": "n",
        },
        when_empty=_EMPTY,
    )


def _endings(rows: pl.DataFrame) -> str:
    """How much of the GPU-time that ended did so how, the largest share first."""
    ended = rows.filter(pl.col("share").is_not_null()).sort("share", descending=True, maintain_order=True)
    if ended.is_empty():
        return "No attempt of this window has ended." if rows.height else ""
    named = ", ".join(f"{row['ending']} {percent(row['share'])}" for row in ended.iter_rows(named=True))
    return f"Of the GPU-time that ended: {named}."


def _blind(rows: pl.DataFrame) -> tuple[str, ...]:
    """How much of the allocated time was unobserved, and what would show it."""
    if rows.is_empty():
        return ()
    hidden = rows.filter(pl.col("kind") == "idle").select(pl.col("share_high") - pl.col("share")).to_series().max()
    if not isinstance(hidden, float) or hidden < 0.01:
        return ()
    return (
        f"What {percent(hidden)} of the allocated GPU-time was spent on is unobserved: load telemetry (trackside "
        "ingest prometheus) or run logs (trackside ingest runlog) to narrow the bounds.",
    )


def _inactive(source: Reader, window: Window, rows: pl.DataFrame) -> tuple[str, ...]:
    """What samples show of all allocated GPUs, startup and other work included; stored of all computed time only."""
    if rows.is_empty():
        return ()
    activity = source.query("attempt_activity", cluster=window.cluster).filter(~pl.col("verification"))
    judged, idle = float(activity["judged_s"].sum()), float(activity["idle_s"].sum())
    if not judged:
        return ()
    return (
        "Samples, over all of the computed time and whatever the GPUs were doing: inactive in "
        f"{percent(idle / judged)} of {judged / 3600:,.0f} GPU-h seen (trackside show utilisation --by user).",
    )


def _limits(flags: pl.DataFrame) -> tuple[str, ...]:
    limits = limit_rows(flags)
    if limits.is_empty() or not limits["n_limited"].item(0):
        return ("No first attempt of a run that was done, or out of time, had a time limit.",)
    row = limits.row(0, named=True)
    return (
        f"Time limits: {row['n_limited']:,} first attempts of runs that were done, or out of time, ran "
        f"{percent(row['used_median'])} of what they had requested (median; quartiles {percent(row['used_p25'])} and "
        f"{percent(row['used_p75'])}). What was requested and not run, "
        f"{row['not_run_gpu_s'] / 3600:,.0f} GPU-h, is not lost, but the scheduler planned around it. GPU-time of "
        "attempts that ran far short of their limit is no waste in itself: it shows where less could be requested.",
    )


_UNMEASURED: Final = "Memory and CPUs requested and not used: cannot tell, accounting here has no usage of them."

_BY_JOBSTATS: Final = (
    "by jobstats: attempts that neither telemetry nor a log covers, by the summaries in AdminComment; shares are of "
    "these attempts. At least: GPUs that were never busy; at most: all time without a kernel, by the mean of each GPU."
)
