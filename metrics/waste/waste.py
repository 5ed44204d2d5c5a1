"""Waste: allocated GPU-time that shows no work, what attempts requested and did not use, and how their GPU-time ended.

Numbers with definitions, about attempts and not about people. The kinds overlap (an attempt that never stepped may have
failed at once, too), so they do not add up. Each has two ends: what was seen, and that with all that was not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from metrics import frames
from metrics.categories import EVIDENCE_KINDS
from metrics.exact import exact_sum
from metrics.goodput.goodput import KNOWN_ENOUGH
from metrics.metric import Metric

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

FAST_S: Final = 600.0
"""An attempt that breaks off within 10 minutes of its start failed at once."""

LOOP: Final = 3
"""So many of one user's attempts of one name in a row that failed at once are a loop."""

LOOP_GAP_S: Final = 86_400.0
"""An attempt that begins more than this many seconds after the one before is not part of a loop: one day."""

SHORT: Final = 0.25
"""An attempt that ran for less than this share of its time limit requested far more than it used."""

MIN_AT_MAXIMUM: Final = 3
"""A partition's largest time limit is its maximum if so many attempts requested it."""

SPENDING: frames.Schema = {
    **{name: frames.ATTEMPTS[name] for name in frames.ATTEMPT_KEY},
    "run_id": frames.TEXT,
    "attempt_no": frames.COUNT,
    "user": frames.TEXT,
    "account": frames.TEXT,
    "partition": frames.TEXT,
    "name": frames.TEXT,
    "state": frames.TEXT,
    "started_at": frames.TIME,
    "ended_at": frames.TIME,
    "time_limit_s": frames.NUMBER,
    "suspended_s": frames.NUMBER,
    "n_gpus": frames.NUMBER,
    "allocated_s": frames.NUMBER,
    "idle_s": frames.NUMBER,
    "unused_s": frames.NUMBER,
    "worked_s": frames.NUMBER,
    "productive_s": frames.NUMBER,
    "lost_s": frames.NUMBER,
    "unseen_s": frames.NUMBER,
    "log_s": frames.NUMBER,
    "telemetry_s": frames.NUMBER,
    "accounting_s": frames.NUMBER,
    "assumed_s": frames.NUMBER,
}
"""An attempt within a window: the named query `attempt_spending`. `..._s` from `allocated_s` on are GPU-seconds."""

KINDS: Final = ("idle", "unused_gpus", "never_stepped", "failed_at_once", "short_of_limit", "at_maximum")
"""Kinds of waste; the last two compare with what was requested, not with what was held."""

COMPLETE, CANCEL, FAIL, PREEMPT, OPEN = "complete", "cancel", "fail", "preempt", "open"
"""Ways in which GPU-time ends."""

_ENDINGS: Final = {
    "COMPLETED": COMPLETE,
    "CANCELLED": CANCEL,
    "REVOKED": CANCEL,
    "PREEMPTED": PREEMPT,
    "REQUEUED": PREEMPT,
    "RUNNING": OPEN,
    "SUSPENDED": OPEN,
    "COMPLETING": OPEN,
    "CONFIGURING": OPEN,
    "RESIZING": OPEN,
    "PENDING": OPEN,
    "RUNAWAY": OPEN,
}
"""Final states; what is not here (FAILED, TIMEOUT, NODE_FAIL, OUT_OF_MEMORY, ...) failed, as in AcmeTrace."""

_BROKE_OFF: Final = ("FAILED", "NODE_FAIL", "BOOT_FAIL", "LAUNCH_FAILED", "OUT_OF_MEMORY", "REQUEUED")

WASTE: frames.Schema = {
    "cluster": frames.TEXT,
    "subject": frames.TEXT,
    "kind": frames.TEXT,
    "gpu_s": frames.NUMBER,
    "high_gpu_s": frames.NUMBER,
    "allocated_gpu_s": frames.NUMBER,
    "share": frames.NUMBER,
    "share_high": frames.NUMBER,
    "n": frames.COUNT,
    "n_attempts": frames.COUNT,
    "evidence_log": frames.NUMBER,
    "evidence_telemetry": frames.NUMBER,
    "evidence_accounting": frames.NUMBER,
    "evidence_assumed": frames.NUMBER,
}


def flagged(spending: pl.DataFrame, *, since: datetime, until: datetime) -> pl.DataFrame:
    """With what each attempt shows of each kind of waste.

    Args:
        spending: `SPENDING`.
        since: window from.
        until: window to.

    Returns:
        `spending` with, for each of `KINDS`, GPU-seconds `<kind>` (seen) and `<kind>_high` (if all that was not seen
        was of the kind, too), and `used`: run time over time limit of attempts that in the window were done, or out of
        time; what failed or was cancelled would have run on.

        idle: standing still that no failure explains (`stalled`: inactive, hang, waiting for data, suspended, GPUs
        never used). unused_gpus: the last of these alone. never_stepped: all of an attempt that lies in the window and
        was seen (a tenth may be missing), of which no second was a step, a checkpoint or other work. failed_at_once:
        in a loop, as `_loops` has it. short_of_limit: all of an attempt that was done within a quarter of its time
        limit, if it went on from no other, whose time it would have needed, too; at_maximum: those of them that had
        requested the most that their partition allows.
    """
    held, unseen = pl.col("allocated_s"), pl.col("unseen_s")
    is_observed = (held > 0) & ((held - unseen) / held >= KNOWN_ENOUGH)
    idler = pl.col("worked_s") <= 0
    over = frames.ended_in(since, until).fill_null(value=False)
    whole = over & (pl.col("started_at") >= frames.instant(since))
    ran = frames.seconds(pl.col("ended_at") - pl.col("started_at")) - pl.col("suspended_s").fill_null(0.0)
    limit = pl.when(pl.col("time_limit_s") > 0).then("time_limit_s")
    timely = over & pl.col("state").is_in(["COMPLETED", "TIMEOUT"])
    short = (timely & _is_first_of_run() & (ran / limit < SHORT)).fill_null(value=False)
    none = pl.lit(0.0)
    timed = _loops(spending).join(maxima(spending), on=["cluster", "partition"], how="left").with_columns(
        used=pl.when(timely).then(ran / limit)
    )  # fmt: skip
    at_most = short & (limit >= pl.col("max_limit_s")).fill_null(value=False)
    measured = {
        "idle": (pl.col("idle_s"), pl.col("idle_s") + unseen),
        "unused_gpus": (pl.col("unused_s"), pl.col("unused_s") + unseen),
        "never_stepped": (
            pl.when(whole & idler & is_observed).then(held).otherwise(none),
            pl.when(whole & idler).then(held).otherwise(none),
        ),
        "failed_at_once": (pl.when(over & pl.col("loop")).then(held).otherwise(none),) * 2,
        "short_of_limit": (pl.when(short).then(held).otherwise(none),) * 2,
        "at_maximum": (pl.when(at_most).then(held).otherwise(none),) * 2,
    }
    lower_bounds = {kind: ends[0] for kind, ends in measured.items()}
    return timed.with_columns(**lower_bounds, **{f"{kind}_high": ends[1] for kind, ends in measured.items()})


def maxima(spending: pl.DataFrame) -> pl.DataFrame:
    """The largest time limit of each partition that several attempts requested: `cluster`, `partition`, `max_limit_s`.

    Accounting does not record a partition's own maximum. A largest limit that hardly anybody requested is none.
    """
    return (
        spending.filter(pl.col("time_limit_s") > 0)
        .group_by("cluster", "partition", "time_limit_s")
        .len()
        .sort("time_limit_s")
        .group_by("cluster", "partition", maintain_order=True)
        .last()
        .filter(pl.col("len") >= MIN_AT_MAXIMUM)
        .select("cluster", "partition", max_limit_s="time_limit_s")
    )


def _loops(spending: pl.DataFrame) -> pl.DataFrame:
    """With `loop`: one of at least three attempts in a row of one user and name that broke off within ten minutes.

    Only attempts of users and names with so many that broke off are put into order.
    """
    key = ["cluster", "user", "name"]
    begun = pl.col("started_at")
    fast = pl.col("state").is_in(_BROKE_OFF) & (frames.seconds(pl.col("ended_at") - begun) <= FAST_S)
    marked = spending.with_row_index("_row").with_columns(_fast=fast.fill_null(value=False))
    often = marked.filter("_fast").group_by(key).len().filter(pl.col("len") >= LOOP)
    ordered = marked.join(often, on=key, how="semi", nulls_equal=True).sort(
        *key, "started_at", "job_id", "submitted_at"
    )
    since = frames.seconds(begun - pl.col("ended_at").shift(1).over(key))
    continues = pl.col("_fast") & pl.col("_fast").shift(1).over(key).fill_null(value=False) & (since <= LOOP_GAP_S)
    looped = ordered.with_columns(_streak=(~continues.fill_null(value=False)).cum_sum()).filter(
        pl.col("_fast") & (pl.len().over("_streak") >= LOOP)
    )
    return marked.with_columns(loop=pl.col("_row").is_in(looped["_row"].implode())).drop("_row", "_fast")


def waste(flags: pl.DataFrame, dimension: str | None = None) -> pl.DataFrame:
    """GPU-seconds of each kind of waste, by subject.

    Args:
        flags: as `flagged` returns it.
        dimension: user, account, partition or run_id; None: the cluster as a whole.

    Returns:
        `WASTE`, one row per subject and kind, `n` being the attempts of the kind and `n_attempts` all of the subject;
        the evidence shares are of all its allocated time. Kinds overlap.
    """
    subject = pl.col("cluster") if dimension is None else pl.col(dimension).fill_null("(unknown)")
    allocated = exact_sum(pl.col("allocated_s"))
    sums = (
        flags.with_columns(subject=subject)
        .group_by("cluster", "subject")
        .agg(
            allocated.alias("allocated_gpu_s"),
            pl.len().cast(pl.Int64).alias("n_attempts"),
            *(
                pl.when(allocated > 0).then(exact_sum(pl.col(f"{kind}_s")) / allocated).alias(f"evidence_{kind}")
                for kind in EVIDENCE_KINDS
            ),
            *(exact_sum(pl.col(kind)).alias(f"{kind}_gpu_s") for kind in KINDS),
            *(exact_sum(pl.col(f"{kind}_high")).alias(f"{kind}_high_gpu_s") for kind in KINDS),
            *((pl.col(kind) > 0).sum().cast(pl.Int64).alias(f"{kind}_n") for kind in KINDS),
        )
    )
    parts = [
        sums.with_columns(
            pl.lit(kind).alias("kind"),
            *(pl.col(f"{kind}_{each}").alias(each) for each in ("gpu_s", "high_gpu_s", "n")),
        )
        for kind in KINDS
    ]
    whole = pl.when(pl.col("allocated_gpu_s") > 0).then(pl.col("allocated_gpu_s"))
    table = pl.concat(parts).with_columns(
        share=pl.col("gpu_s") / whole, share_high=pl.min_horizontal(pl.col("high_gpu_s") / whole, pl.lit(1.0))
    )
    order = {kind: place for place, kind in enumerate(KINDS)}
    return frames.conform(table, WASTE).sort(
        "cluster", "subject", pl.col("kind").replace_strict(order, return_dtype=pl.Int64)
    )


def time_limits(flags: pl.DataFrame, by: Sequence[str] = ("cluster",)) -> pl.DataFrame:
    """Time that attempts ran, relative to the time that they had requested.

    Args:
        flags: as `flagged` returns it.
        by: columns to group by.

    Returns:
        The columns `by`, `n_limited` (attempts that were done, or out of time, and went on from no other, whose work
        they would have had to do, too), `used_p25`, `used_median`, `used_p75` (run time over limit of these),
        `not_run_gpu_s` (requested and not run, by all: what backfill planned around).
    """
    labelled = flags.filter(pl.col("used").is_not_null())
    used = pl.col("used").filter(_is_first_of_run())
    left = exact_sum(pl.col("time_limit_s") * (1 - pl.col("used")).clip(0) * pl.col("n_gpus"))
    return labelled.group_by(by).agg(
        n_limited=used.len().cast(pl.Int64),
        used_p25=used.quantile(0.25, "linear"),
        used_median=used.median(),
        used_p75=used.quantile(0.75, "linear"),
        not_run_gpu_s=left,
    )


def _is_first_of_run() -> pl.Expr:
    """Whether an attempt is the first of its run: a later one needs only what is left of the run's time."""
    return pl.col("attempt_no").fill_null(1) == 1


def ending(state: str) -> pl.Expr:
    """Ending of the GPU-time of attempts with this final state."""
    return pl.col(state).replace_strict(_ENDINGS, default=FAIL)


def state_shares(gpu_time: pl.DataFrame) -> pl.DataFrame:
    """Shares of GPU-time by how it ended, of what ended: completed, cancelled, failed (any other end), preempted.

    Args:
        gpu_time: `subject`, `ending`, `gpu_s`, `n` (attempts); several rows of one ending are added up.

    Returns:
        `subject`, `ending`, `gpu_s`, `of_gpu_s` (what it is a share of), `share`, `n`; what has not ended is listed
        without a share.
    """
    order = {name: place for place, name in enumerate((COMPLETE, CANCEL, FAIL, PREEMPT, OPEN))}
    over = pl.col("ending") != OPEN
    return (
        gpu_time.group_by("subject", "ending")
        .agg(exact_sum(pl.col("gpu_s")), pl.col("n").sum())
        .with_columns(of_gpu_s=exact_sum(pl.col("gpu_s").filter(over)).over("subject"))
        .with_columns(share=pl.when(over & (pl.col("of_gpu_s") > 0)).then(pl.col("gpu_s") / pl.col("of_gpu_s")))
        .sort("subject", pl.col("ending").replace_strict(order, return_dtype=pl.Int64))
    )


# Published metrics --------------------------------------------------------------------------------------------------


METRICS = (
    Metric(
        name="waste",
        unit="gpu_s",
        summary="Allocated GPU-time that shows no work, by kind; kinds overlap, so they do not add up.",
        formula=(
            "GPU-seconds of the kind / GPU-seconds allocated. idle: seen inactive or standing still with no failure to "
            "explain it; unused GPUs: of that, GPUs never active; never stepped: attempts that were seen and never "
            "got to "
            "work; failed at once: broke off within 10 minutes, three times in a row or more; far short: done within "
            "a quarter of the time limit, by the first attempt of a run"
        ),
        query="attempt_spending",
        function=waste,
        interval="none: a census; at least / at most bound what was unobserved",
        source="our definitions 5.2",
    ),
    Metric(
        name="gpu_time_by_state",
        unit="ratio",
        summary="Shares of GPU-time by how the attempts that held it ended.",
        formula=(
            "GPU-seconds of attempts that completed, were cancelled, failed, ... / GPU-seconds of attempts that ended"
        ),
        query="attempt_spending",
        function=state_shares,
        interval="exact (a census)",
        source="Hu et al. (NSDI 2024, Acme), cluster summary; our definitions 9.9",
    ),
    Metric(
        name="time_limit_used",
        unit="ratio",
        summary="Of the time that attempts requested, the share that they ran.",
        formula=(
            "run time / time limit per first attempt of a run that completed or ran out of time in the window; median "
            "and quartiles. A later attempt requests the whole run's time again and needs only what is left of it"
        ),
        query="attempt_spending",
        function=time_limits,
        interval="none: a census",
        source="ours",
    ),
)
