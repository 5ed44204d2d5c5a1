"""Interruptions: attempts that ended otherwise than by completing, each with a class, a cause and the evidence.

Classes follow Meta's differential diagnosis: an ending is infrastructure only with evidence for it.
Kokolis et al., "Revisiting Reliability in Large-Scale Machine Learning Research Clusters", section III and Table I.
"""

from __future__ import annotations

import polars as pl

from metrics import frames

BEFORE_END_S = 600.0
AFTER_END_S = 300.0
"""A critical event on one of an attempt's nodes explains its end from 10 minutes before it to 5 minutes after."""

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
"""What a final state says by itself. A job requeued with a failing exit status, or with critical evidence, is judged
further below; states that nobody knows yet count as `user` under their own name."""

_EXPLAINABLE = ("FAILED", "REQUEUED", "CANCELLED")
"""States that a critical event turns into infrastructure. Those that are it already only get their node."""

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
"""`RUNAWAY` is our word for an attempt that accounting never closed: it ended, but nobody knows when or why.
`REVOKED` is the shadow of a federated job on the clusters that did not run it."""


def critical_states(node_states: pl.DataFrame, *, critical_reasons: str) -> pl.DataFrame:
    """Node states that can explain an attempt's end: unplanned DOWN, and drains whose reason speaks of a fault.

    Args:
        node_states: `frames.NODE_STATES`.
        critical_reasons: regular expression; drains by hand for other reasons explain nothing.

    Returns:
        `frames.EVENTS`.
    """
    reason = pl.col("reason").fill_null("")
    drained = (pl.col("state") == "drained") & reason.str.contains(critical_reasons)
    down = pl.col("state") == "down"
    cause = (
        pl.when(reason.str.contains("(?i)^prolog error"))
        .then(pl.lit("prolog"))
        .when(down)
        .then(pl.lit("node_down"))
        .otherwise(pl.lit("node_drained"))
    )
    found = node_states.filter((down | drained) & ~pl.col("planned").fill_null(value=False))
    return frames.conform(
        found.with_columns(ts=pl.col("started_at"), kind=cause, detail=pl.format("{}: {}", "state", reason)),
        frames.EVENTS,
    )


def interruptions(
    attempts: pl.DataFrame, joined: pl.DataFrame, attempt_nodes: pl.DataFrame, events: pl.DataFrame
) -> pl.DataFrame:
    """Every attempt that had nodes and ended otherwise than by completing.

    Args:
        attempts: `frames.ATTEMPTS`.
        joined: `frames.RUN_ATTEMPTS`.
        attempt_nodes: `frames.ATTEMPT_NODES`, which nodes each attempt held.
        events: `frames.EVENTS`, critical ones.

    Returns:
        `frames.INTERRUPTIONS`. `class` is infrastructure, user, preemption, planned or timeout; `node` is the one to
        blame: the one that accounting names (FailedNode), else one that an event names, else the only one that the
        whole job held, with all its heterogeneous components; `incident` is shared by infrastructure interruptions on
        one node within 15 minutes, and is the attempt's own where no node can be blamed.
    """
    ended = (
        attempts.filter(
            (pl.col("n_nodes") > 0)
            & pl.col("started_at").is_not_null()
            & pl.col("ended_at").is_not_null()
            & ~pl.col("state").is_in(NOT_AN_INTERRUPTION)
        )
        .join(joined, on=list(frames.ATTEMPT_KEY))
        .join(_explanations(attempts, attempt_nodes, events), on=list(frames.ATTEMPT_KEY), how="left")
        .join(_only_nodes(attempt_nodes, joined), on=["cluster", "run_id", "attempt_no"], how="left")
    )
    alone = (pl.col("class") == "infrastructure") & pl.col("node").is_null()
    judged = _judged(ended).with_columns(
        node=pl.coalesce(
            pl.when(pl.col("class") == "infrastructure").then("failed_node"), pl.when(alone).then("only_node"), "node"
        ),
        runtime_s=frames.seconds(pl.col("ended_at") - pl.col("started_at")) - pl.col("suspended_s").fill_null(0),
    )
    return frames.conform(_with_incidents(judged), frames.INTERRUPTIONS).sort(
        "cluster", "ended_at", "job_id", "submitted_at"
    )


def _only_nodes(attempt_nodes: pl.DataFrame, joined: pl.DataFrame) -> pl.DataFrame:
    """The node of each execution that held just one: it needs no event to be the one."""
    execution = ["cluster", "run_id", "attempt_no"]
    held = attempt_nodes.join(joined.select(*frames.ATTEMPT_KEY, "run_id", "attempt_no"), on=list(frames.ATTEMPT_KEY))
    nodes = held.group_by(execution).agg(
        pl.col("node").first().alias("only_node"), pl.col("node").n_unique().alias("n")
    )
    return nodes.filter(pl.col("n") == 1).drop("n")


def _explanations(attempts: pl.DataFrame, attempt_nodes: pl.DataFrame, events: pl.DataFrame) -> pl.DataFrame:
    """For each attempt the critical event on one of its nodes that lies nearest to its end.

    Where accounting names the node whose failure ended the attempt, only what happened there explains it.
    """
    key = list(frames.ATTEMPT_KEY)
    by_itself = [state for state, (kind, _) in _BY_STATE.items() if kind == "infrastructure"]
    candidates = attempts.filter(pl.col("state").is_in([*_EXPLAINABLE, *by_itself])).select(*key, "failed_node")
    offset = frames.seconds(pl.col("ts") - pl.col("ended_at"))
    return (
        attempt_nodes.join(candidates, on=key)
        .filter(pl.col("node") == pl.coalesce("failed_node", "node"))
        .join(events, on=["cluster", "node"])
        .filter((offset >= -BEFORE_END_S) & (offset <= AFTER_END_S))
        .with_columns(distance=offset.abs())
        .sort("distance", "ts", "node", "kind", "detail")
        .group_by(key, maintain_order=True)
        .agg(pl.col("node", "kind", "detail", "ts").first())
        .rename({"ts": "event_at"})
    )


def _judged(ended: pl.DataFrame) -> pl.DataFrame:
    by_state = pl.DataFrame(
        [(state, kind, cause) for state, (kind, cause) in _BY_STATE.items()],
        schema=["state", "state_class", "state_cause"],
        orient="row",
    )
    explained = pl.col("kind").is_not_null() & pl.col("state").is_in(_EXPLAINABLE)
    # RequeueExit: the job's own exit status asked for the requeue.
    asked_by_job = (pl.col("state") == "REQUEUED") & (pl.col("exit_code") > 0)
    return (
        ended.join(by_state, on="state", how="left")
        .with_columns(
            pl.when(explained)
            .then(pl.lit("infrastructure"))
            .when(asked_by_job)
            .then(pl.lit("user"))
            .otherwise(pl.col("state_class").fill_null("user"))
            .alias("class"),
            pl.when(explained)
            .then(pl.col("kind"))
            .when(asked_by_job)
            .then(pl.lit("requeue_exit"))
            .otherwise(pl.coalesce("state_cause", pl.col("state").str.to_lowercase()))
            .alias("cause"),
            pl.lit("accounting").alias("evidence"),
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


def _with_incidents(judged: pl.DataFrame) -> pl.DataFrame:
    place = ["cluster", "node"]
    blamed = (pl.col("class") == "infrastructure") & pl.col("node").is_not_null()
    gap = frames.seconds(pl.col("ended_at") - pl.col("ended_at").shift(1).over(place))
    known = (
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
    return pl.concat([known, rest])
