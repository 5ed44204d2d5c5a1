"""Interruptions: attempts that ended without completing, each with a class, a cause and the evidence.

Classes follow Meta's differential diagnosis: an ending is infrastructure only with evidence for it.
Kokolis et al., "Revisiting Reliability in Large-Scale Machine Learning Research Clusters", section III and Table I.
The event that explains an ending, and its possible domains: `metrics.failures.diagnosis`.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

import polars as pl

from metrics import frames
from metrics.failures.diagnosis import (
    EVENTS,
    class_of_reason,
    domains,
    events_around,
    in_words,
    kind_of_state,
    likeliest_cause,
    on_their_nodes,
)
from metrics.time_join import prefiltered

BEFORE_END_S = 600.0
AFTER_END_S = 300.0
"""A critical event on one of an attempt's nodes explains its end from 10 minutes before it to 5 minutes after.

Events that were over before the attempt began do not explain its end, nor do those after a person cancelled it.
"""

MERGE_S = 900.0
"""Infrastructure interruptions on one node within 15 minutes of each other are one incident."""

_BY_STATE = {
    "NODE_FAIL": ("infrastructure", "node_fail"),
    "BOOT_FAIL": ("infrastructure", "boot_fail"),
    "LAUNCH_FAILED": ("infrastructure", "launch_failed"),
    "RECONFIG_FAIL": ("infrastructure", "reconfig_fail"),
    "PREEMPTED": ("preemption", "preempted"),
    "TIMEOUT": ("timeout", "timeout"),
    "DEADLINE": ("timeout", "deadline"),
    "OUT_OF_MEMORY": ("user", "out_of_memory"),
    "CANCELLED": ("user", "cancelled"),
    "FAILED": ("user", "failed"),
    "REQUEUED": ("planned", "requeued"),
}
"""The class of a final state by itself. A job requeued with a failing exit status, to make room, or with critical
evidence, is judged further below; unknown states are assumed to be `user`, under their own name."""

_EXPLAINABLE = ("FAILED", "REQUEUED", "CANCELLED")
"""States that a critical event turns into infrastructure. Those that are it already only get their node."""

_BY_ITSELF = tuple(state for state, (kind, _) in _BY_STATE.items() if kind == "infrastructure")

NOT_AN_INTERRUPTION = (
    "COMPLETED",
    "RESIZING",
    "RUNNING",
    "PENDING",
    "SUSPENDED",
    "COMPLETING",
    "CONFIGURING",
    "RUNAWAY",
    "REVOKED",
)
"""`RUNAWAY` is our word for an attempt that accounting never closed: it ended, but when and why is unknown.
`REVOKED` is the shadow of a federated job on the clusters that did not run it."""


STILL_LASTS: Final = datetime(9999, 1, 1, tzinfo=UTC)
"""End of node states that last."""

_KEY = list(frames.ATTEMPT_KEY)
_EXECUTION = ["cluster", "run_id", "attempt_no"]


def critical_states(node_states: pl.DataFrame, *, critical_reasons: str) -> pl.DataFrame:
    """Node states that can explain an attempt's end: unplanned DOWN, and drains whose reason names a fault.

    Args:
        node_states: `frames.NODE_STATES`.
        critical_reasons: regular expression; drains by hand for other reasons explain nothing.

    Returns:
        `metrics.failures.diagnosis.EVENTS`, all of them critical; the class is that of the reason.
    """
    reason = pl.col("reason").fill_null("")
    drained = (pl.col("state") == "drained") & reason.str.contains(critical_reasons)
    down = pl.col("state") == "down"
    states = node_states.filter((down | drained) & ~pl.col("planned").fill_null(value=False))
    return frames.conform(
        states.with_columns(
            class_of_reason(reason).alias("class"),
            ts=pl.col("started_at"),
            lasts_until=pl.coalesce("ended_at", frames.instant(STILL_LASTS)),
            kind=kind_of_state(pl.col("state"), reason),
            detail=pl.format("{}: {}", "state", reason),
            severity=pl.lit("critical"),
            evidence=pl.lit("accounting"),
        ),
        EVENTS,
    )


def interruptions(
    attempts: pl.DataFrame,
    joined: pl.DataFrame,
    attempt_nodes: pl.DataFrame,
    events: pl.DataFrame,
    *,
    before_s: float = BEFORE_END_S,
    after_s: float = AFTER_END_S,
) -> pl.DataFrame:
    """Every attempt that had nodes and ended without completing.

    Args:
        attempts: `frames.ATTEMPTS`.
        joined: `frames.RUN_ATTEMPTS`.
        attempt_nodes: `frames.ATTEMPT_NODES`, which nodes each attempt held.
        events: `metrics.failures.diagnosis.EVENTS` of any severity; only critical ones make an ending one of the
            infrastructure.
        before_s: how long before the end an event may explain it, in seconds.
        after_s: how long after.

    Returns:
        `frames.INTERRUPTIONS`. `class` is infrastructure, user, preemption, planned or timeout; `node` is the one to
        blame: the one that accounting names (FailedNode), else one that an event names, else the only one that the
        whole job held, with all its heterogeneous components; `incident` is shared by infrastructure interruptions on
        one node within 15 minutes, and is the attempt's own where no node can be blamed. `evidence` is where the
        class was read. `domains` and `events`: see `metrics.failures.diagnosis`. Whom a preemption made room for is
        null here: see `metrics.failures.second_order`.
    """
    ended = _ended(attempts)
    events_near = events_around(ended, attempt_nodes, events, before_s=before_s, after_s=after_s)
    diagnosed = (
        ended.join(joined, on=_KEY)
        .join(_explanations(ended, events_near), on=_KEY, how="left")
        .join(_only_nodes(ended, attempt_nodes, joined), on=_EXECUTION, how="left")
        .join(_most_informative(events_near), on=_KEY, how="left")
        .join(in_words(events_near), on=_KEY, how="left")
    )
    alone = (pl.col("class") == "infrastructure") & pl.col("node").is_null()
    judged = _judged(diagnosed).with_columns(
        node=pl.coalesce(
            pl.when(pl.col("class") == "infrastructure").then("failed_node"), pl.when(alone).then("only_node"), "node"
        ),
        runtime_s=frames.seconds(pl.col("ended_at") - pl.col("started_at")) - pl.col("suspended_s").fill_null(0),
        domains=_domains(),
    )
    return frames.conform(with_incidents(judged), frames.INTERRUPTIONS).sort(
        "cluster", "ended_at", "job_id", "submitted_at"
    )


def attempts_for_interruptions(
    attempts: pl.DataFrame,
    joined: pl.DataFrame,
    events: pl.DataFrame,
    *,
    before_s: float = BEFORE_END_S,
    after_s: float = AFTER_END_S,
) -> pl.DataFrame:
    """Keys of the attempts whose nodes `interruptions` reads; its arguments. Where few events are, they are few."""
    ended = _ended(attempts)
    near = prefiltered(ended, events, of="ended_at", at="ts", before_s=before_s, after_s=after_s)
    return pl.concat([near.select(_KEY), _parts_of_broken(ended, joined).select(_KEY)]).unique()


def _ended(attempts: pl.DataFrame) -> pl.DataFrame:
    """Attempts that had nodes and ended without completing."""
    return attempts.filter(
        (pl.col("n_nodes") > 0)
        & pl.col("started_at").is_not_null()
        & pl.col("ended_at").is_not_null()
        & ~pl.col("state").is_in(NOT_AN_INTERRUPTION)
    )


def _parts_of_broken(ended: pl.DataFrame, joined: pl.DataFrame) -> pl.DataFrame:
    """Attempts of the executions that infrastructure ended: key, `run_id`, `attempt_no`."""
    broken = joined.join(ended.filter(pl.col("state").is_in(_BY_ITSELF)), on=_KEY, how="semi").select(_EXECUTION)
    return joined.join(broken, on=_EXECUTION, how="semi").select(*_KEY, "run_id", "attempt_no")


def _only_nodes(ended: pl.DataFrame, attempt_nodes: pl.DataFrame, joined: pl.DataFrame) -> pl.DataFrame:
    """The node of each execution that infrastructure ended and that held just one: it needs no event to be the one."""
    nodes = (
        on_their_nodes(_parts_of_broken(ended, joined), attempt_nodes)
        .group_by(_EXECUTION)
        .agg(pl.col("node").first().alias("only_node"), pl.col("node").n_unique().alias("n"))
    )
    return nodes.filter(pl.col("n") == 1).drop("n")


def _explanations(ended: pl.DataFrame, events_near: pl.DataFrame) -> pl.DataFrame:
    """For each attempt whose end an event can explain, the likeliest."""
    candidates = ended.filter(pl.col("state").is_in([*_EXPLAINABLE, *_BY_ITSELF]))
    return likeliest_cause(events_near, candidates, node_first=_BY_ITSELF)


def _most_informative(events_near: pl.DataFrame) -> pl.DataFrame:
    """The worst event around each end that rules domains out: `hint_kind`, `hint_class`, `hint_code`."""
    hints = events_near.filter("informative").sort(*_KEY, "place").unique(_KEY, keep="first", maintain_order=True)
    return hints.select(*_KEY, *(pl.col(name).alias(f"hint_{name}") for name in ("kind", "class", "code")))


def _domains() -> pl.Expr:
    """Domains of endings: by the event that explains them, else a milder one (an XID of the user's program)."""
    explained = pl.col("kind").is_not_null()
    explainable = pl.col("state").is_in([*_EXPLAINABLE, *_BY_ITSELF]) | ~pl.col("state").is_in(list(_BY_STATE))
    parts = [
        pl.when(explainable).then(pl.when(explained).then(strong).otherwise(f"hint_{weak}"))
        for strong, weak in (("kind", "kind"), ("event_class", "class"), ("event_code", "code"))
    ]
    nothing_failed = pl.col("class").is_in(["planned", "preemption"])
    return pl.when(~nothing_failed).then(domains(pl.col("state"), *parts))


def _judged(ended: pl.DataFrame) -> pl.DataFrame:
    by_state = pl.DataFrame(
        [(state, kind, cause) for state, (kind, cause) in _BY_STATE.items()],
        schema=["state", "state_class", "state_cause"],
        orient="row",
    )
    explained = pl.col("kind").is_not_null() & pl.col("state").is_in(_EXPLAINABLE)
    # RequeueExit: the job's own exit status requested the requeue.
    requeued_by_job = (pl.col("state") == "REQUEUED") & (pl.col("exit_code") > 0)
    to_make_room = (pl.col("state") == "REQUEUED") & pl.col("reason").str.contains("(?i)preempt")
    return (
        ended.join(by_state, on="state", how="left")
        .with_columns(
            pl.when(explained)
            .then(pl.lit("infrastructure"))
            .when(to_make_room)
            .then(pl.lit("preemption"))
            .when(requeued_by_job)
            .then(pl.lit("user"))
            .otherwise(pl.col("state_class").fill_null("user"))
            .alias("class"),
            pl.when(explained)
            .then(pl.col("kind"))
            .when(to_make_room)
            .then(pl.lit("preempted"))
            .when(requeued_by_job)
            .then(pl.lit("requeue_exit"))
            .when((pl.col("state") == "NODE_FAIL") & (pl.col("kind") == "pod_terminated"))
            .then(pl.lit("pod_terminated"))
            .otherwise(pl.coalesce("state_cause", pl.col("state").str.to_lowercase()))
            .alias("cause"),
            pl.when(explained)
            .then(pl.col("event_evidence").fill_null("accounting"))
            .when(pl.col("state_class").is_null())
            .then(pl.lit("assumed"))
            .otherwise(pl.lit("accounting"))
            .alias("evidence"),
        )
        .with_columns(
            detail=pl.when(pl.col("kind").is_not_null())
            .then(
                pl.format(
                    "{} on {} at {}",
                    pl.coalesce("detail", "kind"),
                    "node",
                    pl.col("event_at").dt.strftime("%Y-%m-%dT%H:%M:%SZ"),
                )
            )
            .when((pl.col("state_class") == "infrastructure") & pl.col("failed_node").is_not_null())
            .then(pl.format("state {}, failed node {}", "state", "failed_node"))
            .otherwise(pl.format("state {}", "state"))
        )
    )


def with_incidents(judged: pl.DataFrame) -> pl.DataFrame:
    """Interruptions with the incident that each infrastructure one is part of, whatever `incident` was before."""
    place = ["cluster", "node"]
    blamed = (pl.col("class") == "infrastructure") & pl.col("node").is_not_null()
    gap = frames.seconds(pl.col("ended_at") - pl.col("ended_at").shift(1).over(place))
    with_incident = (
        judged.filter(blamed)
        .sort(*place, "ended_at", "job_id")
        .with_columns(number=(gap.is_null() | (gap > MERGE_S)).cum_sum().over(place))
        .with_columns(
            incident=pl.col("node") + pl.col("ended_at").min().over([*place, "number"]).dt.strftime("@%Y%m%dT%H%M%SZ")
        )
        .drop("number")
    )
    alone = pl.col("job_id") + pl.col("submitted_at").dt.strftime("@%Y%m%dT%H%M%SZ")
    infrastructure = pl.col("class") == "infrastructure"
    rest = judged.filter(~blamed).with_columns(incident=pl.when(infrastructure).then(alone))
    return pl.concat([with_incident, rest])
