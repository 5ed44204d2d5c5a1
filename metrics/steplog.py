"""What a run's log says that its GPUs did: every moment of a logged attempt in one category of the ledger.

A log begins a *session* for each process start, and then has steps, checkpoints and events. Sessions are matched to
the scheduler's attempts by job id and time. Within an attempt:

- `startup` until the first step: launch before the first log line, then what the log's events name, else init;
- a step lasts until the next one begins, unless that takes longer than a hang: then the rest is `stalled`;
- what events name is carved out: `checkpoint`, evaluation (`other_work`), waiting for data (`stalled`);
- a step is `lost` if the run later went back to it or before it, else `productive`; what took it is `restart_in_place`
  if the same attempt went back, else what ended the attempt;
- after the last step of an attempt that did not complete, one median step is `lost` (the unfinished one); what is
  left is `stalled` if infrastructure ended the attempt (its GPUs waited for a dead one to be noticed) or if it was
  long enough for a hang, else `teardown`;
- the same after the last step of a session that another one of the attempt followed, only that a restart in place took
  it; a session that never stepped is `startup`, unless the attempt completed with it.

Definitions: our design 4 and metric-definitions 5.2. That a repeated step number closes what came before it is
Google's rule (ml-goodput-measurement).
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from metrics import frames
from metrics.intervals import merge_equal, overlaps, sweep, union

HANG_STEPS = 10.0
HANG_MIN_S = 300.0
"""No step for max(10 median steps, 5 minutes) is a hang."""

CLOCK_SKEW_S = 60.0
"""A log that lies further than this outside its attempt was written by a clock that cannot be trusted."""

_US = 1_000_000
_JOB = ["cluster", "scheduler", "job_id"]
_SESSION = ["cluster", "run_id", "scheduler", "job_id"]

_EVENTS = (
    ("checkpoint_save", "checkpoint", None),
    ("eval", "other_work", "eval"),
    ("checkpoint_load", "startup", "checkpoint_load"),
    ("compile", "startup", "compile"),
    ("init", "startup", "init"),
)
"""What an event's kind means: kind, category, cause. The earlier wins where two overlap. `data` depends on when it
was, and a kind that is not here is `other_work` under its own name."""


@dataclass(frozen=True)
class Rules:
    """Constants, as the configuration has them; seconds."""

    hang_steps: float = HANG_STEPS
    hang_min_s: float = HANG_MIN_S


def match_sessions(
    sessions: pl.DataFrame, attempts: pl.DataFrame, *, clock_skew_s: float = CLOCK_SKEW_S
) -> pl.DataFrame:
    """Find the attempt that each session was part of.

    It is the attempt of the same job id that ran when the session began, give or take the skew; where none did, but
    the log knows how often the job had been restarted, the attempt with that number.

    Args:
        sessions: `frames.SESSIONS`.
        attempts: `frames.ATTEMPTS`.
        clock_skew_s: how far outside its attempt a log may lie, in seconds.

    Returns:
        `frames.SESSIONS` with `submitted_at` (of the attempt; null if there is none), `usable` (the log lies within
        the attempt), and `session` (a number).
    """
    numbered = sessions.sort(*_SESSION, "started_at").with_row_index("session")
    started = attempts.filter(pl.col("started_at").is_not_null())
    ran = started.select(
        *_JOB,
        "submitted_at",
        pl.col("started_at").alias("_from"),
        pl.col("ended_at").alias("_until"),
        pl.col("submitted_at").rank("ordinal").over(_JOB).cast(pl.Int64).alias("_number"),
    )
    skew = pl.duration(microseconds=round(clock_skew_s * _US))
    pairs = numbered.join(ran, on=_JOB)
    began, over = pl.col("started_at"), pl.col("_until")
    inside = (began >= pl.col("_from")) & (over.is_null() | (began <= over))
    near = (began >= pl.col("_from") - skew) & (over.is_null() | (began <= over + skew))
    counted = pl.col("restart_count") + 1 == pl.col("_number")
    fits = near & (over.is_null() | (pl.col("ended_at") <= over + skew))
    best = (
        pairs.with_columns(_inside=inside, _near=near, _counted=counted.fill_null(value=False), usable=fits)
        .filter(pl.col("_near") | pl.col("_counted"))
        .sort("session", "_inside", "_near", "_counted", "_from", descending=[False, True, True, True, True])
        .unique("session", keep="first", maintain_order=True)
        .select("session", "submitted_at", "usable")
    )
    return numbered.join(best, on="session", how="left").with_columns(pl.col("usable").fill_null(value=False))


def with_runs(matched: pl.DataFrame, joined: pl.DataFrame) -> pl.DataFrame:
    """Add `run`: the run that the session's attempt was joined to, else the name that the log gives; and `stream`.

    Several programs in one job may log under names of their own. Their steps are counted apart: `stream` is the name
    where it is not the one that the attempt's first session gave.

    Args:
        matched: as `match_sessions` returns it.
        joined: `frames.RUN_ATTEMPTS`.
    """
    key = list(frames.ATTEMPT_KEY)
    runs = joined.select(*key, pl.col("run_id").alias("run"))
    main = explicit_runs(matched).rename({"run_id": "_main"})
    named = matched.join(runs, on=key, how="left").join(main, on=key, how="left")
    own = pl.when(pl.col("run_id") != pl.col("_main")).then("run_id").otherwise(pl.lit(""))
    return named.with_columns(pl.coalesce("run", "run_id"), stream=own.fill_null("")).drop("_main").sort("session")


def explicit_runs(matched: pl.DataFrame) -> pl.DataFrame:
    """The run id that an attempt's own log gives it: `cluster`, `scheduler`, `job_id`, `submitted_at`, `run_id`.

    Args:
        matched: as `match_sessions` returns it. Where an attempt logged under several ids, the first counts.
    """
    key = list(frames.ATTEMPT_KEY)
    found = matched.filter(pl.col("submitted_at").is_not_null()).sort("started_at", "session")
    return found.unique(key, keep="first", maintain_order=True).select(*key, "run_id")


def executions_of_steps(
    steps: pl.DataFrame, matched: pl.DataFrame, events: pl.DataFrame, rules: Rules | None = None
) -> pl.DataFrame:
    """Each execution of a step, the time it took, and whether it was kept.

    Args:
        steps: `frames.STEPS`.
        matched: as `with_runs` returns it; only usable sessions count.
        events: `frames.RUN_EVENTS`.
        rules: when a pause is a hang.

    Returns:
        `frames.STEPS` with the attempt's `submitted_at`, `run`, `session`, `begin`, `end` and `reach` (microseconds:
        when the step began, ended, and what it lasted to, which is the next step's begin unless a hang lies between),
        `wall_s` (from begin to reach less what events carve out), `hang_us` (the hang threshold), `kept` and
        `in_place`; sorted by run and time. A step is kept unless the run later executed it, or an earlier one, again;
        `in_place` says that the same attempt did.
    """
    rules = rules or Rules()
    own = (
        _in_sessions(steps, matched)
        .sort("cluster", "run", "stream", "ts", "step")
        .with_columns(begin=pl.col("ts").dt.epoch("us"))
        .with_columns(end=pl.col("begin") + (pl.col("duration_s").fill_null(0.0) * _US).round().cast(pl.Int64))
    )
    run = ["cluster", "run", "stream"]
    lowest_after = pl.col("step").reverse().cum_min().shift(1).reverse()
    later = lowest_after.over(run)
    later_here = lowest_after.over([*run, "scheduler", "job_id", "submitted_at"])
    period = pl.coalesce(pl.col("duration_s"), (pl.col("begin").diff() / _US)).median().over("session")
    threshold = pl.max_horizontal(period * rules.hang_steps, pl.lit(rules.hang_min_s)) * _US
    timed = own.with_columns(
        kept=(later > pl.col("step")).fill_null(value=True),
        in_place=(later_here <= pl.col("step")).fill_null(value=False),
        hang_us=threshold.fill_null(rules.hang_min_s * _US).cast(pl.Int64),
        period_us=(period.fill_null(0.0) * _US).cast(pl.Int64),
    )
    # What an unusable session ran again was run again all the same; its own time is not told.
    return _reaching(timed.filter("usable"), _carved(events, matched))


def _in_sessions(logged: pl.DataFrame, matched: pl.DataFrame) -> pl.DataFrame:
    """Steps or events with the session that they belong to: the last one that had begun."""
    facts = ["session", "run", "stream", "submitted_at", "usable"]
    sessions = matched.select(*_SESSION, *facts, _at=pl.col("started_at")).sort("_at")
    return (
        logged.sort("ts")
        .join_asof(sessions, left_on="ts", right_on="_at", by=_SESSION, strategy="backward", check_sortedness=False)
        .filter(pl.col("session").is_not_null())
    )


def _carved(events: pl.DataFrame, matched: pl.DataFrame) -> pl.DataFrame:
    """Events that hold training up, of usable sessions: `session`, `kind`, `started`, `ended` (microseconds)."""
    holding = events.filter(pl.col("ended_at") > pl.col("ts")).filter(
        (pl.col("kind") != "checkpoint_save") | pl.col("blocking").fill_null(value=True)
    )
    return (
        _in_sessions(holding, matched)
        .filter("usable")
        .select(
            "session",
            "kind",
            pl.col("ts").dt.epoch("us").alias("started"),
            pl.col("ended_at").dt.epoch("us").alias("ended"),
        )
    )


def _reaching(timed: pl.DataFrame, carved: pl.DataFrame) -> pl.DataFrame:
    """How far each step reaches: to the next one, or the end of the event after it, if no hang lies between.

    What events explain is no hang. Of a step's own time (`wall_s`) waiting for data is a part: metric-definitions 6.1.
    """
    lane = pl.col("session").alias("lane")
    busy = union(carved.select(lane, "started", "ended"))
    elsewhere = union(carved.filter(pl.col("kind") != "data").select(lane, "started", "ended"))
    last_event = busy.group_by(pl.col("lane").alias("session")).agg(pl.col("ended").max().alias("_last_event"))
    following = pl.col("begin").shift(-1).over("session")
    ordered = (
        timed.sort("session", "begin")
        .join(last_event, on="session", how="left")
        .with_columns(_next=pl.coalesce(following, pl.max_horizontal("_last_event", "end")))
        .with_columns(end=pl.min_horizontal("end", pl.max_horizontal("_next", "begin")))
        .with_row_index("_execution")
    )
    explained = _behind(ordered, busy, pl.max_horizontal("started", "end")).rename({"_length": "_explained"})
    carved_out = _behind(ordered, elsewhere, pl.col("started")).rename({"_length": "_carved"})
    pause = pl.col("_next") - pl.col("end") - pl.col("_explained")
    return (
        ordered.join(explained, on="_execution", how="left")
        .join(carved_out, on="_execution", how="left")
        .with_columns(pl.col("_explained", "_carved").fill_null(0))
        .with_columns(reach=pl.when(pause <= pl.col("hang_us")).then(pl.col("_next")).otherwise(pl.col("end")))
        .with_columns(
            wall_s=pl.when(pl.col("reach") == pl.col("_next"))
            .then(pl.col("reach") - pl.col("begin") - pl.col("_carved"))
            .otherwise(pl.col("end") - pl.col("begin"))
            .clip(0)
            / _US
        )
        .drop("_execution", "_next", "_carved", "_explained", "_last_event")
        .sort("cluster", "run", "begin", "step")
    )


def _behind(ordered: pl.DataFrame, busy: pl.DataFrame, since: pl.Expr) -> pl.DataFrame:
    """How much of the time until the next step events take; those between two steps stand behind the earlier one."""
    return (
        busy.rename({"lane": "session"})
        .sort("started")
        .join_asof(
            ordered.select("session", "begin", "end", "_execution", "_next").rename({"end": "_end"}).sort("begin"),
            left_on="started",
            right_on="begin",
            by="session",
            strategy="backward",
            check_sortedness=False,
        )
        .rename({"ended": "_until", "_end": "end"})
        .with_columns(_length=(pl.min_horizontal("_until", "_next") - since).clip(0))
        .group_by("_execution")
        .agg(pl.col("_length").sum())
    )


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
        that the log speaks for, in thousandths (1000 unless it names fewer GPUs than the attempt held). Time that
        the log had not been read for yet is left out.
    """
    usable = matched.filter("usable")
    lanes = _lanes(usable, attempts, interruptions)
    if lanes.is_empty():
        return frames.empty(frames.LOGGED)
    own = usable.join(lanes.select(*frames.ATTEMPT_KEY, "lane"), on=list(frames.ATTEMPT_KEY))
    in_session = own.select("session", "lane", pl.col("started_at").dt.epoch("us").alias("session_from"))
    steps = executed.join(in_session, on="session").join(_causes(lanes), on="lane")
    carved = _carved(events, matched).join(in_session, on="session")
    base = _exclusive(
        pl.concat(
            [
                _step_time(steps, _last_durable(events, executed)),
                _hangs(steps, carved),
                _startups(lanes, in_session, steps, carved),
                _tails(lanes, in_session, steps, carved),
            ]
        )
    )
    return _named(_with_events(base, carved, steps), lanes)


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


def _hangs(steps: pl.DataFrame, carved: pl.DataFrame) -> pl.DataFrame:
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
    """What follows the last thing that a session logged: until the next session of the attempt, or its end."""
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
        )
        # A log that was read before its attempt ended says nothing of the end.
        .filter(
            pl.col("until").is_not_null() & (~pl.col("final") | (pl.col("read").fill_null(2**62) >= pl.col("until")))
        )
        .filter(pl.col("until") > pl.col("last"))
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
    long = pl.col("until") - pl.col("last") > pl.col("hang_us").fill_null(round(HANG_MIN_S * _US))
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
    """Cut what would overlap: in a lane each interval ends at the latest where the next one begins."""
    following = pl.col("started").shift(-1).over("lane")
    return (
        base.select(_BASE)
        .filter(pl.col("started") < pl.col("ended"))
        .sort("lane", "started", "ended", "category", "cause")
        .with_columns(ended=pl.min_horizontal("ended", following))
        .filter(pl.col("started") < pl.col("ended"))
    )


def _with_events(base: pl.DataFrame, carved: pl.DataFrame, steps: pl.DataFrame) -> pl.DataFrame:
    """Put what events name over the base, the strongest first."""
    first = steps.group_by("lane").agg(pl.col("begin").min().alias("first"))
    known = {kind: (category, cause) for kind, category, cause in _EVENTS}
    told = carved.join(first, on="lane", how="left").with_columns(
        early=pl.col("first").is_null() | (pl.col("started") < pl.col("first"))
    )
    names = [kind for kind, _, _ in _EVENTS if kind in told["kind"]]
    others = sorted(set(told["kind"]) - set(names) - {"data"})
    layers: list[tuple[str, str | None, pl.DataFrame]] = [
        (*known[kind], told.filter(pl.col("kind") == kind)) for kind in names
    ]
    layers.append(("startup", "data", told.filter((pl.col("kind") == "data") & pl.col("early"))))
    layers.append(("stalled", "data_stall", told.filter((pl.col("kind") == "data") & ~pl.col("early"))))
    layers += [("other_work", kind, told.filter(pl.col("kind") == kind)) for kind in others]
    codes = base.select("category", "cause").unique().sort("category", "cause").with_row_index("code", offset=1)
    coded = base.join(codes, on=["category", "cause"], nulls_equal=True)
    marked = [
        union(rows.select("lane", "started", "ended")).with_columns(pl.lit(1).alias(f"event_{number}"))
        for number, (_, _, rows) in enumerate(layers)
    ]
    pieces = sweep([coded.select("lane", "started", "ended", pl.col("code").cast(pl.Int64)), *marked]).filter(
        pl.col("code") > 0
    )
    decided = pieces.join(codes.with_columns(pl.col("code").cast(pl.Int64)), on="code", how="left")
    category, cause = pl.col("category"), pl.col("cause")
    for number in reversed(range(len(layers))):
        name, why, _ = layers[number]
        here = pl.col(f"event_{number}") > 0
        category = pl.when(here).then(pl.lit(name)).otherwise(category)
        cause = pl.when(here).then(pl.lit(why, dtype=pl.String)).otherwise(cause)
    found = decided.with_columns(category=category, cause=cause).select(_BASE).sort("lane", "started")
    return merge_equal(found)


def _named(pieces: pl.DataFrame, lanes: pl.DataFrame) -> pl.DataFrame:
    """Back from lanes to attempts, within their own time."""
    limits = lanes.select("lane", "started", pl.col("ended").fill_null(2**62))
    inside = overlaps(pieces, limits)
    full = inside.join(lanes.select("lane", *frames.ATTEMPT_KEY, "milli_share"), on="lane").with_columns(
        started_at=frames.from_us("started"), ended_at=frames.from_us("ended")
    )
    return frames.conform(full, frames.LOGGED).sort(*frames.ATTEMPT_KEY, "started_at")
