"""Incidents: health events of one node within 15 minutes of each other, and the attempts that they touch.

The windows are Meta's: an event explains an attempt's end from 10 minutes before it to 5 minutes after (Kokolis et al.,
"Revisiting Reliability in Large-Scale Machine Learning Research Clusters", section III), clipped to the attempt's life.
Events after a person cancelled an attempt do not touch it. An attempt that is only touched (the
event is somewhere within the attempt) may have been slowed down.
"""

from __future__ import annotations

import polars as pl

from metrics import frames
from metrics.failures.diagnosis import cancelled_by_person
from metrics.failures.interruptions import AFTER_END_S, BEFORE_END_S, MERGE_S

SEVERITIES = ("critical", "warning", "info")
"""The worst first. An event without any counts as information."""

HEALTH_EVENTS: frames.Schema = {
    "cluster": frames.TEXT,
    "node": frames.TEXT,
    "ts": frames.TIME,
    "gpu": frames.TEXT,
    "kind": frames.TEXT,
    "code": frames.TEXT,
    "severity": frames.TEXT,
    "action": frames.TEXT,
}

INCIDENTS: frames.Schema = {
    "cluster": frames.TEXT,
    "node": frames.TEXT,
    "started_at": frames.TIME,
    "ended_at": frames.TIME,
    "severity": frames.TEXT,
    "n_events": frames.COUNT,
    "kinds": frames.TEXT,
    "gpus": frames.TEXT,
    "action": frames.TEXT,
    "n_attempts": frames.COUNT,
}

ATTEMPT_HEALTH: frames.Schema = {
    "cluster": frames.TEXT,
    "node": frames.TEXT,
    "started_at": frames.TIME,
    "scheduler": frames.TEXT,
    "job_id": frames.TEXT,
    "submitted_at": frames.TIME,
    "n_events": frames.COUNT,
    "severity": frames.TEXT,
    "at_end": frames.FLAG,
}

_US = 1_000_000
_PLACE = ["cluster", "node"]


def incidents(
    events: pl.DataFrame, attempts: pl.DataFrame, attempt_nodes: pl.DataFrame
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Incidents, and the attempts that they touch.

    Args:
        events: HEALTH_EVENTS.
        attempts: `frames.ATTEMPTS`; whether one ended, and when, is known.
        attempt_nodes: `frames.ATTEMPT_NODES`: which nodes each attempt held, and when.

    Returns:
        INCIDENTS and ATTEMPT_HEALTH, sorted. An incident that touches no attempt is one all the same, and so is one
        of information only.
    """
    if events.is_empty():
        return frames.empty(INCIDENTS), frames.empty(ATTEMPT_HEALTH)
    numbered = _numbered(events)
    concerned = attempt_nodes.join(numbered.select(_PLACE).unique(), on=_PLACE, how="semi")
    touched = _touched(numbered, _occupancy(attempts, concerned))
    n_attempts = touched.group_by("incident").agg(pl.len().alias("n_attempts"))
    incidents = (
        numbered.group_by("incident", maintain_order=True)
        .agg(
            *(pl.col(name).first() for name in _PLACE),
            pl.col("ts").min().alias("started_at"),
            pl.col("ts").max().alias("ended_at"),
            pl.col("rank").min(),
            pl.len().alias("n_events"),
            _joined(pl.concat_str("kind", "code", separator=" "), ", ", by="rank").alias("kinds"),
            _joined(pl.col("gpu").filter(pl.col("gpu").fill_null("") != ""), ",").alias("gpus"),
            pl.col("action").filter(pl.col("rank") == pl.col("rank").min()).drop_nulls().alias("actions"),
        )
        .join(n_attempts, on="incident", how="left", maintain_order="left")
        .with_columns(_severity(), _joined_words("actions").alias("action"), pl.col("n_attempts").fill_null(0))
    )
    begins = incidents.select("incident", *_PLACE, "started_at")
    of_attempts = touched.join(begins, on="incident").with_columns(_severity())
    ordered = frames.conform(of_attempts, ATTEMPT_HEALTH).sort(*_PLACE, "started_at", "job_id", "submitted_at")
    return frames.conform(incidents, INCIDENTS).sort(*_PLACE, "started_at"), ordered


def attempts_for_incidents(events: pl.DataFrame, attempts: pl.DataFrame) -> pl.DataFrame:
    """Keys of the attempts whose nodes `incidents` reads: those that ran when an event happened somewhere."""
    moments = events["ts"].drop_nulls().dt.epoch("us").unique().sort()
    begun = attempts.filter(pl.col("started_at").is_not_null())
    begin = begun["started_at"].dt.epoch("us")
    end = (begun["ended_at"].dt.epoch("us") + round(AFTER_END_S * _US)).fill_null(2**62)
    touched = moments.search_sorted(begin, side="left") < moments.search_sorted(end, side="right")
    return begun.filter(touched).select(frames.ATTEMPT_KEY)


def _numbered(events: pl.DataFrame) -> pl.DataFrame:
    """Events, sorted, with the number of their incident, how bad they are (0: the worst), and their own number."""
    ranks = {severity: rank for rank, severity in enumerate(SEVERITIES)}
    rank = pl.col("severity").replace_strict(ranks, default=len(SEVERITIES) - 1, return_dtype=pl.Int64())
    gap = frames.seconds(pl.col("ts") - pl.col("ts").shift(1).over(_PLACE))
    fresh = gap.is_null() | (gap > MERGE_S)
    return (
        frames.conform(events, HEALTH_EVENTS)
        .sort(*_PLACE, "ts", "kind", "code", "gpu")
        .with_columns(incident=fresh.cum_sum().cast(pl.Int64), rank=rank)
        .with_row_index("event")
        .with_columns(pl.col("event").cast(pl.Int64))
    )


def _occupancy(attempts: pl.DataFrame, attempt_nodes: pl.DataFrame) -> pl.DataFrame:
    """Nodes that each attempt held, from when to when, and the attempt's end; null: it goes on.

    `by_person`: what happened after its end has nothing to do with it.
    """
    key = list(frames.ATTEMPT_KEY)
    ends = attempts.select(*key, pl.col("ended_at").alias("attempt_ended_at"), cancelled_by_person().alias("by_person"))
    held = attempt_nodes.join(ends, on=key)
    return held.select(*key, "node", "started_at", "ended_at", "attempt_ended_at", "by_person")


def _touched(numbered: pl.DataFrame, held: pl.DataFrame) -> pl.DataFrame:
    """Incidents and attempts: `n_events` of the incident that touch the attempt, `rank` of the worst, and `at_end`.

    Events of a node are in order, so those that touch an attempt are a range: two searches give its ends, and
    nothing is paired that does not belong together.
    """
    key = list(frames.ATTEMPT_KEY)
    after = pl.duration(microseconds=pl.when("by_person").then(0).otherwise(round(AFTER_END_S * _US)))
    before = pl.duration(microseconds=round(BEFORE_END_S * _US))
    moments = numbered.select(*_PLACE, "ts", "event").sort("ts", "event")
    spans = held.with_columns(
        until=pl.coalesce(pl.col("ended_at") + after, pl.lit(numbered["ts"].max(), dtype=frames.TIME))
    )
    first = _searched(spans, moments, "started_at", "forward", "first")
    last = _searched(first, moments, "until", "backward", "last")
    pairs = (
        last.filter(pl.col("first") <= pl.col("last"))
        .with_columns(event=pl.int_ranges("first", pl.col("last") + 1))
        .explode("event")
        .join(numbered.select("event", "incident", "ts", "rank"), on="event")
    )
    end = pl.col("attempt_ended_at")
    near = (pl.col("ts") >= end - before) & (pl.col("ts") <= end + after)
    return (
        pairs.with_columns(near=near.fill_null(value=False))
        .group_by("incident", *key)
        .agg(pl.col("event").n_unique().alias("n_events"), pl.col("rank").min(), pl.col("near").any().alias("at_end"))
    )


def _searched(spans: pl.DataFrame, moments: pl.DataFrame, by: str, strategy: str, name: str) -> pl.DataFrame:
    """Spans with the number of the node's first event from a moment on (forward), or of its last up to it."""
    once = moments.unique([*_PLACE, "ts"], keep="first" if strategy == "forward" else "last", maintain_order=True)
    return (
        spans.sort(by)
        .join_asof(
            once.rename({"ts": "moment", "event": name}),
            left_on=by,
            right_on="moment",
            by=_PLACE,
            strategy="forward" if strategy == "forward" else "backward",
            check_sortedness=False,
        )
        .drop("moment")
    )


def _joined(words: pl.Expr, between: str, *, by: str | None = None) -> pl.Expr:
    """Different words of a group, in order of a column and then of the alphabet."""
    ordered = words.sort_by(by, words) if by else words.sort()
    return ordered.unique(maintain_order=True).str.join(between)


def _joined_words(actions: str) -> pl.Expr:
    """The requested actions, each once; null where there are none."""
    once = pl.col(actions).list.unique().list.sort()
    return pl.when(once.list.len() > 0).then(once.list.join("; "))


def _severity() -> pl.Expr:
    return pl.col("rank").replace_strict(dict(enumerate(SEVERITIES)), return_dtype=frames.TEXT).alias("severity")
