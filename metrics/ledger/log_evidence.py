"""Evidence of run logs: every moment of a logged attempt in one category of the ledger.

Of an attempt whose sessions and steps `metrics.runs.steps` found:

- `startup` until the first step: launch before the first log line, then what the log's events name, else init;
- a step lasts until the next one begins, unless that takes longer than a hang: then the rest is `stalled`;
- what an attempt's first step took beyond the run's ideal one is `startup` (`first_step`: compilation, warm-up);
- what events name is carved out: `checkpoint`, evaluation (`other_work`), waiting for data (`stalled`);
- a step is `lost` if the run later went back to it or before it, else `productive`; what took it is `restart_in_place`
  if the same attempt went back, else what ended the attempt;
- after the last step of an attempt that did not complete, one median step is `lost` (the unfinished one); what is
  left is `stalled` if infrastructure ended the attempt (its GPUs waited for a dead one to be noticed) or if it was
  long enough for a hang, else `teardown`;
- the same after the last step of a session that another one of the attempt followed, only that a restart in place took
  it; a session that never stepped is `startup`, unless the attempt completed with it: then what follows its last
  event is `teardown`, and nothing where the log of the whole attempt has neither step nor event, since it is unknown
  whether the attempt trained (it is left to telemetry, or `unattributed`).

That a repeated step number closes what came before it is Google's rule (ml-goodput-measurement).
"""

from __future__ import annotations

import polars as pl

from metrics import frames
from metrics.exact import exact_mean
from metrics.goodput.job import ANOMALOUS_MADS, MIN_STEP_S
from metrics.intervals import merge_equal, overlaps, sweep, union
from metrics.runs.steps import carved_events

_US = 1_000_000

_EVENTS = (
    ("checkpoint_save", "checkpoint", None),
    ("eval", "other_work", "evaluation"),
    ("checkpoint_load", "startup", "checkpoint_load"),
    ("compile", "startup", "compile"),
    ("init", "startup", "init"),
)
"""Meaning of an event's kind: kind, category, cause. The earlier wins where two overlap. `data` depends on when it
was, and a kind that is not here is `other_work` under its own name."""


def logged_time(
    executed: pl.DataFrame,
    matched: pl.DataFrame,
    events: pl.DataFrame,
    attempts: pl.DataFrame,
    interruptions: pl.DataFrame,
) -> pl.DataFrame:
    """Every moment of the logged attempts in one category.

    Args:
        executed: as `executions_of_steps` returns it.
        matched: as `match_sessions` returns it.
        events: `frames.RUN_EVENTS`.
        attempts: `frames.ATTEMPTS`.
        interruptions: `frames.INTERRUPTIONS`, for the cause of what was lost.

    Returns:
        `frames.LOGGED`; the intervals of an attempt do not overlap. `milli_share` is the share of the attempt's GPUs
        that the log covers, in thousandths (1000 unless it names fewer GPUs than the attempt held). Time that
        the log had not been read for yet is left out.
    """
    usable = matched.filter("usable")
    lanes = _lanes(usable, attempts, interruptions)
    if lanes.is_empty():
        return frames.empty(frames.LOGGED)
    own = usable.join(lanes.select(*frames.ATTEMPT_KEY, "lane"), on=list(frames.ATTEMPT_KEY))
    in_session = own.select("session", "lane", pl.col("started_at").dt.epoch("us").alias("session_from"))
    steps = executed.join(in_session, on="session").join(_causes(lanes), on="lane")
    carved = carved_events(events, matched).join(in_session, on="session")
    base = _exclusive(
        pl.concat(
            [
                _step_time(steps, _last_durable(events, executed)),
                _hung_time(steps, carved),
                _startups(lanes, in_session, steps, carved),
                _tails(lanes, in_session, steps, carved),
            ]
        )
    )
    return _with_attempts(_with_events(base, carved, steps, first_step_extra(steps)), lanes)


def _lanes(usable: pl.DataFrame, attempts: pl.DataFrame, interruptions: pl.DataFrame) -> pl.DataFrame:
    """The logged attempts: where they begin and end, how far their logs had been read, why they ended."""
    key = list(frames.ATTEMPT_KEY)
    logs = usable.group_by(key).agg(pl.col("read_at").max(), pl.col("n_gpus").max().alias("logged_gpus"))
    why = interruptions.select(
        *key, pl.col("cause").alias("end_cause"), (pl.col("class") == "infrastructure").alias("broken")
    )
    held = pl.when(pl.col("milli_gpus") > 0).then("milli_gpus")
    share = (pl.col("logged_gpus") * 1_000_000 / held).round().cast(pl.Int64)
    return (
        attempts.join(logs, on=key)
        .join(why, on=key, how="left")
        .sort(key)
        .with_row_index("lane")
        .with_columns(
            started=pl.col("started_at").dt.epoch("us"),
            ended=pl.col("ended_at").dt.epoch("us"),
            read=pl.col("read_at").dt.epoch("us"),
            milli_share=pl.when(share < 950).then(share).otherwise(1000).fill_null(1000),
            live=pl.col("ended_at").is_null(),
            completed=pl.col("state") == "COMPLETED",
        )
    )


def _causes(lanes: pl.DataFrame) -> pl.DataFrame:
    return lanes.select("lane", pl.coalesce("end_cause", pl.lit("rerun")).alias("lost_to"), "live")


_BASE = ("lane", "started", "ended", "category", "cause")

FIRST_STEP = "first_step"
"""Cause of startup: what an attempt's first step took beyond the ideal one."""

_IN_PLACE = "restart_in_place"
"""Cause of what a new process in the same allocation took: no attempt ended, so nothing that ends one is to blame."""


def _last_durable(events: pl.DataFrame, executed: pl.DataFrame) -> pl.DataFrame:
    """Highest step of each run that is in a durable checkpoint."""
    runs = executed.select("cluster", "run_id").unique()
    safe = events.filter((pl.col("kind") == "checkpoint_save") & pl.col("durable_at").is_not_null())
    return runs.join(
        safe.group_by("cluster", "run_id").agg(pl.col("step").max().alias("safe_step")),
        on=["cluster", "run_id"],
        how="left",
    )


def _step_time(steps: pl.DataFrame, durable: pl.DataFrame) -> pl.DataFrame:
    at_risk = pl.col("live") & (pl.col("step") > pl.col("safe_step").fill_null(-1))
    return steps.join(durable, on=["cluster", "run_id"], how="left").select(
        "lane",
        pl.col("begin").alias("started"),
        pl.col("reach").alias("ended"),
        pl.when("kept").then(pl.lit("productive")).otherwise(pl.lit("lost")).alias("category"),
        pl.when("in_place")
        .then(pl.lit(_IN_PLACE))
        .when(~pl.col("kept"))
        .then("lost_to")
        .when(at_risk)
        .then(pl.lit("provisional"))
        .alias("cause"),
    )


def _hung_time(steps: pl.DataFrame, carved: pl.DataFrame) -> pl.DataFrame:
    """Between two steps of a session (or the last one and the last event), what neither step nor event explains."""
    following = pl.col("begin").shift(-1).over("session")
    last_event = carved.group_by("session").agg(pl.col("ended").max().alias("last_event"))
    return (
        steps.sort("session", "begin")
        .join(last_event, on="session", how="left", maintain_order="left")
        .with_columns(next=pl.coalesce(following, "last_event"))
        .filter(pl.col("next") > pl.col("reach"))
        .select(
            "lane",
            pl.col("reach").alias("started"),
            pl.col("next").alias("ended"),
            pl.lit("stalled").alias("category"),
            pl.lit("hang").alias("cause"),
        )
    )


def _startups(lanes: pl.DataFrame, in_session: pl.DataFrame, steps: pl.DataFrame, carved: pl.DataFrame) -> pl.DataFrame:
    """From the attempt's start to its first log line, and from each session's first line to its first step."""
    first = steps.group_by("session").agg(pl.col("begin").min().alias("first_step"))
    events = carved.group_by("session").agg(pl.col("ended").max().alias("last_event"))
    sessions = (
        in_session.join(first, on="session", how="left")
        .join(events, on="session", how="left")
        .with_columns(first=pl.coalesce("first_step", "last_event"))
        .join(lanes.select("lane", pl.col("started").alias("_from")), on="lane")
    )
    head = sessions.group_by("lane").agg(pl.col("session_from").min().alias("ended"), pl.col("_from").first())
    launch = head.select(
        "lane",
        pl.col("_from").alias("started"),
        "ended",
        pl.lit("startup").alias("category"),
        pl.lit("launch").alias("cause"),
    )
    init = sessions.filter(pl.col("first").is_not_null()).select(
        "lane",
        pl.col("session_from").alias("started"),
        pl.col("first").alias("ended"),
        pl.lit("startup").alias("category"),
        pl.lit("init").alias("cause"),
    )
    return pl.concat([launch, init]).filter(pl.col("started") < pl.col("ended"))


def _tails(lanes: pl.DataFrame, in_session: pl.DataFrame, steps: pl.DataFrame, carved: pl.DataFrame) -> pl.DataFrame:
    """Time after the last entry of a session's log: until the next session of the attempt, or its end."""
    stepped = steps.group_by("session").agg(
        pl.col("reach").max().alias("last_step"), pl.col("hang_us").first(), pl.col("period_us").first()
    )
    happened = carved.group_by("session").agg(pl.col("ended").max().alias("last_event"))
    ends = (
        in_session.sort("lane", "session_from")
        .join(stepped, on="session", how="left")
        .join(happened, on="session", how="left")
        .join(
            lanes.select("lane", pl.col("ended").alias("_end"), "read", "completed", "end_cause", "broken"), on="lane"
        )
        .sort("lane", "session_from")
        .with_columns(next=pl.col("session_from").shift(-1).over("lane"))
        .with_columns(
            last=pl.max_horizontal("last_step", "last_event", "session_from"),
            until=pl.coalesce("next", "_end"),
            final=pl.col("next").is_null(),
            is_silent=pl.coalesce("last_step", "last_event").is_null().all().over("lane"),
        )
        # A log that was read before its attempt ended has no evidence of the end.
        .filter(
            pl.col("until").is_not_null() & (~pl.col("final") | (pl.col("read").fill_null(2**62) >= pl.col("until")))
        )
        .filter(pl.col("until") > pl.col("last"))
        .filter(~(pl.col("final") & pl.col("completed") & pl.col("is_silent")))
    )
    unfinished = pl.min_horizontal(pl.col("last") + pl.col("period_us"), pl.col("until"))
    cut_short = ~(pl.col("final") & pl.col("completed"))
    broke_off = cut_short & pl.col("last_step").is_not_null()
    never_stepped = cut_short & pl.col("last_step").is_null()
    lost = ends.filter(broke_off).select(
        "lane",
        pl.col("last").alias("started"),
        unfinished.alias("ended"),
        pl.lit("lost").alias("category"),
        pl.when("final").then(pl.coalesce("end_cause", pl.lit("rerun"))).otherwise(pl.lit(_IN_PLACE)).alias("cause"),
    )
    long = pl.col("until") - pl.col("last") > pl.col("hang_us")
    failed = pl.col("final") & pl.col("broken").fill_null(value=False)
    rest = ends.select(
        "lane",
        pl.when(broke_off).then(unfinished).otherwise("last").alias("started"),
        pl.col("until").alias("ended"),
        pl.when(never_stepped)
        .then(pl.lit("startup"))
        .when(broke_off & (long | failed | ~pl.col("final")))
        .then(pl.lit("stalled"))
        .otherwise(pl.lit("teardown"))
        .alias("category"),
        pl.when(never_stepped)
        .then(pl.lit("never_stepped"))
        .when(broke_off & failed)
        .then("end_cause")
        .when(broke_off & long)
        .then(pl.lit("hang"))
        .when(broke_off & ~pl.col("final"))
        .then(pl.lit(_IN_PLACE))
        .alias("cause"),
    )
    return pl.concat([lost, rest]).filter(pl.col("started") < pl.col("ended"))


def _exclusive(base: pl.DataFrame) -> pl.DataFrame:
    """Cut what would overlap: of several programs that log at once, the one that logged last decides.

    In a lane each interval ends at the latest where the next one begins. The rest of a longer one behind a shorter
    one that began later is the longest's again.
    """
    following = pl.col("started").shift(-1).over("lane")
    reached = pl.col("ended").cum_max().over("lane")
    longest = pl.col("ended") > reached.shift(1).over("lane").fill_null(-1)
    ordered = (
        base.select(_BASE)
        .filter(pl.col("started") < pl.col("ended"))
        .sort("lane", "started", "ended", "category", "cause")
        .with_columns(following=following, reached=reached, longest=longest)
        .with_columns(owner=pl.col("longest").cum_sum())
        .with_columns(pl.col("category", "cause").first().over("owner").name.prefix("_"))
    )
    cut = ordered.with_columns(ended=pl.min_horizontal("ended", "following")).select(_BASE)
    behind = ordered.select(
        "lane",
        pl.col("ended").alias("started"),
        pl.min_horizontal("reached", "following").alias("ended"),
        pl.col("_category").alias("category"),
        pl.col("_cause").alias("cause"),
    )
    both = pl.concat([cut, behind]).filter(pl.col("started") < pl.col("ended"))
    return both.sort("lane", "started")


def first_step_extra(steps: pl.DataFrame) -> pl.DataFrame:
    """Time of each attempt's first step beyond the ideal step of its run: compilation, caches, warm-up.

    The ideal is Google's (ml-goodput-measurement) over the run's other steps: the mean of those that are not anomalous.
    A run with no other step has none. First steps that were run again later are lost, and stay so.

    Args:
        steps: executions as `executions_of_steps` returns them, with `lane`.

    Returns:
        `lane`, `started`, `ended` (the step), `extra` (microseconds, above 0).
    """
    run = ["cluster", "run", "stream"]
    is_first = pl.int_range(pl.len()).over("lane") == 0
    ordered = steps.sort("lane", "begin", "step").with_columns(is_first=is_first)
    others = ordered.filter(~pl.col("is_first") & (pl.col("own_s") >= MIN_STEP_S))
    median = pl.col("own_s").median().over(run)
    off = (pl.col("own_s") - median).abs().median().over(run)
    usual = others.filter(pl.col("own_s") <= median + ANOMALOUS_MADS * off)
    ideal = usual.group_by(run).agg(exact_mean(pl.col("own_s")).alias("ideal"))
    return (
        ordered.filter("is_first", "kept")
        .join(ideal, on=run)
        .with_columns(extra=((pl.col("own_s") - pl.col("ideal")) * _US).round().cast(pl.Int64))
        .filter(pl.col("extra") > 0)
        .select("lane", pl.col("begin").alias("started"), pl.col("reach").alias("ended"), "extra")
    )


def _opened(pieces: pl.DataFrame) -> pl.DataFrame:
    """Call the first `extra` microseconds of each lane's first step what they are; `extra` is 0 in other pieces."""
    opening = (pl.col("extra") > 0) & (pl.col("category") == "productive")
    length = pl.col("ended") - pl.col("started")
    first = pieces.filter(opening).with_columns(before=length.cum_sum().over("lane") - length)
    cut = first.with_columns(
        cut=pl.col("started") + pl.min_horizontal((pl.col("extra") - pl.col("before")).clip(0), length)
    )
    startup = cut.with_columns(ended="cut", category=pl.lit("startup"), cause=pl.lit(FIRST_STEP))
    rest = cut.with_columns(started="cut")
    parts = pl.concat([part.select(_BASE) for part in (pieces.filter(~opening), startup, rest)])
    return parts.filter(pl.col("started") < pl.col("ended")).sort("lane", "started")


def _with_events(base: pl.DataFrame, carved: pl.DataFrame, steps: pl.DataFrame, extra: pl.DataFrame) -> pl.DataFrame:
    """Put what events name over the base, the strongest first; what a first step took too long is startup."""
    first = steps.group_by("lane").agg(pl.col("begin").min().alias("first"))
    known = {kind: (category, cause) for kind, category, cause in _EVENTS}
    timed = carved.join(first, on="lane", how="left").with_columns(
        early=pl.col("first").is_null() | (pl.col("started") < pl.col("first"))
    )
    names = [kind for kind, _, _ in _EVENTS if kind in timed["kind"]]
    others = sorted(set(timed["kind"]) - set(names) - {"data"})
    layers: list[tuple[str, str | None, pl.DataFrame]] = [
        (*known[kind], timed.filter(pl.col("kind") == kind)) for kind in names
    ]
    layers.append(("startup", "data", timed.filter((pl.col("kind") == "data") & pl.col("early"))))
    layers.append(("stalled", "data_stall", timed.filter((pl.col("kind") == "data") & ~pl.col("early"))))
    layers += [("other_work", kind, timed.filter(pl.col("kind") == kind)) for kind in others]
    codes = base.select("category", "cause").unique().sort("category", "cause").with_row_index("code", offset=1)
    coded = base.join(codes, on=["category", "cause"], nulls_equal=True)
    marked = [
        union(rows.select("lane", "started", "ended")).with_columns(pl.lit(1).alias(f"event_{number}"))
        for number, (_, _, rows) in enumerate(layers)
    ]
    pieces = sweep([coded.select("lane", "started", "ended", pl.col("code").cast(pl.Int64)), *marked, extra]).filter(
        pl.col("code") > 0
    )
    decided = pieces.join(codes.with_columns(pl.col("code").cast(pl.Int64)), on="code", how="left")
    category, cause = pl.col("category"), pl.col("cause")
    for number in reversed(range(len(layers))):
        name, why, _ = layers[number]
        here = pl.col(f"event_{number}") > 0
        category = pl.when(here).then(pl.lit(name)).otherwise(category)
        cause = pl.when(here).then(pl.lit(why, dtype=pl.String)).otherwise(cause)
    result = decided.with_columns(category=category, cause=cause).select(*_BASE, "extra").sort("lane", "started")
    return merge_equal(_opened(result))


def _with_attempts(pieces: pl.DataFrame, lanes: pl.DataFrame) -> pl.DataFrame:
    """Back from lanes to attempts, within their own time."""
    limits = lanes.select("lane", "started", pl.col("ended").fill_null(2**62))
    inside = overlaps(pieces, limits)
    full = inside.join(lanes.select("lane", *frames.ATTEMPT_KEY, "milli_share"), on="lane").with_columns(
        started_at=frames.from_us("started"), ended_at=frames.from_us("ended")
    )
    return frames.conform(full, frames.LOGGED).sort(*frames.ATTEMPT_KEY, "started_at")
