"""Runs, interruptions and restarts of a cluster: found in accounting and logs, and written into the warehouse."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from app.compute.inputs import with_gpus
from app.compute.restarts import events_at_nodes, restart_table
from app.results.runs.run_logs import keep_logs, read_logs
from metrics import frames
from metrics.corrections import corrected_runs
from metrics.failures.interruptions import in_question as causes_in_question
from metrics.failures.interruptions import interruptions
from metrics.failures.second_order import in_question as room_in_question
from metrics.failures.second_order import with_second_order
from metrics.few_keys import sort_by
from metrics.ledger.ledger import other_work
from metrics.runs.heuristic import join_similar
from metrics.runs.naming import RunRules, named_runs
from metrics.runs.runs import run_attempts, runs
from metrics.runs.steps import Rules as StepRules

if TYPE_CHECKING:
    from app.compute.inputs import Facts
    from app.config.settings import Rules
    from app.corrections.records import Fixes
    from app.results.runs.run_logs import Logs
    from app.results.source import CachedSource
    from queries.warehouse import Writer


@dataclass(frozen=True)
class Found:
    """What was found of a cluster.

    Attributes:
        logs: what runs logged, with the runs that attempts were joined to.
        executed: as `metrics.runs.steps.executions_of_steps` returns it.
        joined: `frames.RUN_ATTEMPTS`.
        interrupted: `frames.INTERRUPTIONS`.
        again: `frames.RESTARTS`.
    """

    logs: Logs
    executed: pl.DataFrame
    joined: pl.DataFrame
    interrupted: pl.DataFrame
    again: pl.DataFrame


def write_runs(
    writer: Writer,
    source: CachedSource,
    cluster: str,
    rules: Rules,
    facts: Facts,
    *,
    fixes: Fixes,
    has_objects: bool,
) -> Found:
    """Find the runs of a cluster, what interrupted them and how they went on, and write all of that.

    Args:
        writer: the warehouse.
        source: the same with a cache: it keeps logs and runs for who needs them later.
        cluster: whose.
        rules: that they depend on.
        facts: accounting data.
        fixes: corrections in force.
        has_objects: whether the cluster has objects of Kubernetes.
    """
    logs = read_logs(source, cluster, facts.attempts, clock_skew_s=rules.clock_skew_s)
    joined = corrected_runs(_joined(writer, cluster, rules, facts.attempts, logs), facts.attempts, fixes.runs)
    logs = logs.in_runs(joined)
    executed = logs.executions(StepRules(rules.hang_steps, rules.hang_min_s))
    keep_logs(source, cluster, logs, executed)
    at_nodes = events_at_nodes(writer, cluster, rules, facts.states)
    interrupted = _without_outlived(writer, cluster, facts.attempts) if has_objects else facts.attempts
    looked_at = facts.on_nodes.of(causes_in_question(interrupted, joined, at_nodes))
    direct = fixes.of_causes(interruptions(interrupted, joined, looked_at, at_nodes))
    looked_at = facts.on_nodes.of(room_in_question(direct, facts.attempts))
    interrupted = with_second_order(direct, facts.attempts, joined, looked_at)
    again = restart_table(facts, logs, joined=joined, interrupted=interrupted, executed=executed, node_events=at_nodes)
    found = Found(logs, executed, joined, interrupted, again)
    _write(writer, cluster, facts.attempts, found)
    source.keep("run_attempts", sort_by(joined, ["job_id", "submitted_at"]), cluster=cluster)
    return found


def _without_outlived(writer: Writer, cluster: str, attempts: pl.DataFrame) -> pl.DataFrame:
    """Attempts without those that Slurm lost while their pods lived on: nothing failed, so nothing was interrupted."""
    outlived = writer.query("outlived_jobs", cluster=cluster).with_columns(state=pl.lit("NODE_FAIL"))
    return attempts.join(outlived, on=outlived.columns, how="anti")


def _joined(writer: Writer, cluster: str, rules: Rules, attempts: pl.DataFrame, logs: Logs) -> pl.DataFrame:
    """Which run each attempt belongs to: by its log, what was written at it, requeues, or a guess."""
    by_rule = RunRules(rules.run_env, rules.run_comment_key, wckey=rules.run_wckey, names=rules.run_names)
    labels = _labels(writer, cluster, by_rule, every=rules.join_by_name)
    named = named_runs(attempts, labels, by_rule, logs.names())
    max_gap_s = rules.run_gap_hours * 3600
    joined = run_attempts(attempts, max_gap_s=max_gap_s, explicit=named)
    if not rules.join_by_name:
        return joined
    return join_similar(
        joined,
        attempts,
        labels,
        max_gap_s=max_gap_s,
        gpu_factor=rules.join_gpu_factor,
        not_training=other_work(attempts, rules.other_work),
    )


def _labels(writer: Writer, cluster: str, rules: RunRules, *, every: bool) -> pl.DataFrame:
    """What was written at attempts: at every one, or at those whose runs it may name. Most jobs have none of it."""
    by = {"env": rules.env, "comment_key": rules.comment_key, "by_wckey": rules.wckey}
    rows = writer.query("attempt_labels", cluster=cluster, every=every, **by)
    return frames.conform(rows, frames.ATTEMPT_LABELS)


def _write(writer: Writer, cluster: str, attempts: pl.DataFrame, found: Found) -> None:
    key = pl.DataFrame({"cluster": [cluster]})
    writer.bring_in_line("run_attempts", found.joined, key=key)
    writer.bring_in_line("runs", with_gpus(runs(attempts, found.joined), "n_gpus"), key=key)
    writer.bring_in_line("interruptions", with_gpus(found.interrupted, "n_gpus"), key=key)
    writer.bring_in_line("restarts", with_gpus(found.again, "n_gpus"), key=key)
