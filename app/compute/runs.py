"""Runs, interruptions and restarts of a cluster: found in accounting and logs, and written into the warehouse."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import polars as pl

from app.compute import settled
from app.compute.inputs import with_gpus
from app.compute.restarts import events_at_nodes, restart_table
from app.results.runs.run_logs import keep_logs, read_logs
from metrics import frames
from metrics.corrections import corrected_runs
from metrics.failures.interruptions import attempts_for_interruptions, interruptions, with_incidents
from metrics.failures.second_order import ROOM_S, attempts_for_second_order, with_second_order
from metrics.ledger.ledger import other_work
from metrics.runs.heuristic import join_similar
from metrics.runs.naming import RunRules, named_runs
from metrics.runs.runs import run_attempts, runs
from metrics.runs.steps import StepRules
from metrics.sorting import sort_by

if TYPE_CHECKING:
    from app.compute.inputs import Facts
    from app.config.settings import Rules
    from app.corrections.records import Fixes
    from app.results.runs.run_logs import Logs
    from app.results.source import CachedSource
    from queries.warehouse import Writer


@dataclass(frozen=True)
class ClusterRuns:
    """Runs, interruptions and steps of a cluster, as they were found.

    Attributes:
        logs: the run logs, with the runs that attempts were joined to.
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
    rules: Rules,
    facts: Facts,
    *,
    cluster: str,
    fixes: Fixes,
    has_objects: bool,
    full: bool,
) -> ClusterRuns:
    """Find the runs of a cluster, what interrupted them and how they went on, and write all of that.

    Settled runs (`app.compute.settled`) are not found again, unless runs are joined because they are alike, or a source
    other than accounting records the nodes and the end of attempts.

    Args:
        writer: the warehouse.
        source: the same with a cache: it keeps logs and runs for who needs them later.
        rules: that they depend on.
        facts: accounting data.
        cluster: whose.
        fixes: corrections in force.
        has_objects: whether the cluster has objects of Kubernetes.
        full: find all of them. What is written is the same.
    """
    logs = read_logs(source, cluster, facts.attempts, clock_skew_s=rules.clock_skew_s)
    at_nodes = events_at_nodes(writer, cluster, rules, facts.states)
    by_rule = RunRules(rules.run_env, rules.run_comment_key, wckey=rules.run_wckey, names=rules.run_names)
    labels = _labels(writer, cluster, by_rule, every=rules.join_by_name)
    named = named_runs(facts.attempts, labels, by_rule, logs.names())
    now = some = None
    if not (rules.join_by_name or facts.on_nodes.placed or has_objects):
        logged = logs.sessions.drop_nulls("submitted_at").select(_KEY)
        decided = settled.Decided(named, pl.concat([logged, fixes.attempts(cluster)]))
        now = settled.digests(writer, cluster, rules, attempts=facts.attempts, events=at_nodes, decided=decided)
        if not full:
            some = settled.unsettled(writer, cluster, attempts=facts.attempts, now=now, decided=decided)
    settled.keep(writer, cluster, now)
    if some is not None:
        found = _write_some(
            writer, facts, logs, some, rules=rules, cluster=cluster, at_nodes=at_nodes, fixes=fixes, named=named
        )
    else:
        joined = corrected_runs(_joined(rules, facts.attempts, labels, named), facts.attempts, fixes.runs)
        found = _write_all(
            writer,
            facts,
            logs,
            joined,
            rules=rules,
            cluster=cluster,
            at_nodes=at_nodes,
            fixes=fixes,
            has_objects=has_objects,
        )
        source.keep("run_attempts", sort_by(joined, ["job_id", "submitted_at"]), cluster=cluster)
    keep_logs(source, cluster, found.logs, found.executed)
    return found


def _without_outlived(writer: Writer, cluster: str, attempts: pl.DataFrame) -> pl.DataFrame:
    """Attempts without those that Slurm lost while their pods lived on: nothing failed, so nothing was interrupted."""
    outlived = writer.query("outlived_jobs", cluster=cluster).with_columns(state=pl.lit("NODE_FAIL"))
    return attempts.join(outlived, on=outlived.columns, how="anti")


def _joined(rules: Rules, attempts: pl.DataFrame, labels: pl.DataFrame, named: pl.DataFrame) -> pl.DataFrame:
    """The run of each attempt: by its log, its labels, requeues, or a guess."""
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
    """Labels of attempts: of every attempt, or of those whose runs a label may name. Most jobs have no labels."""
    by = {"env": rules.env, "comment_key": rules.comment_key, "by_wckey": rules.wckey}
    rows = writer.query("attempt_labels", cluster=cluster, every=every, **by)
    return frames.conform(rows, frames.ATTEMPT_LABELS)


# All of them --------------------------------------------------------------------------------------------------------


def _write_all(
    writer: Writer,
    facts: Facts,
    logs: Logs,
    joined: pl.DataFrame,
    *,
    rules: Rules,
    cluster: str,
    at_nodes: pl.DataFrame,
    fixes: Fixes,
    has_objects: bool,
) -> ClusterRuns:
    """Find what interrupted all runs and how they went on, and write it in the place of what was found before."""
    logs = logs.in_runs(joined)
    executed = logs.executions(StepRules(rules.hang_steps, rules.hang_min_s))
    counting = _without_outlived(writer, cluster, facts.attempts) if has_objects else facts.attempts
    on_nodes = facts.on_nodes.of(attempts_for_interruptions(counting, joined, at_nodes))
    direct = fixes.of_causes(interruptions(counting, joined, on_nodes, at_nodes))
    on_nodes = facts.on_nodes.of(attempts_for_second_order(direct, facts.attempts))
    interrupted = with_second_order(direct, facts.attempts, joined, on_nodes)
    again = restart_table(facts, logs, joined=joined, interrupted=interrupted, executed=executed, node_events=at_nodes)
    found = ClusterRuns(logs, executed, joined, interrupted, again)
    key = pl.DataFrame({"cluster": [cluster]})
    for table, rows in _tables(facts.attempts, found).items():
        writer.bring_in_line(table, rows, key=key)
    return found


def _tables(attempts: pl.DataFrame, found: ClusterRuns) -> dict[str, pl.DataFrame]:
    return {
        "run_attempts": found.joined,
        "runs": with_gpus(runs(attempts, found.joined), "n_gpus"),
        "interruptions": with_gpus(found.interrupted, "n_gpus"),
        "restarts": with_gpus(found.again, "n_gpus"),
    }


# What is not settled ------------------------------------------------------------------------------------------------


def _write_some(
    writer: Writer,
    facts: Facts,
    logs: Logs,
    some: settled.Unsettled,
    *,
    rules: Rules,
    cluster: str,
    at_nodes: pl.DataFrame,
    fixes: Fixes,
    named: pl.DataFrame,
) -> ClusterRuns:
    """Find what is not settled, and write it in the place of what was found of it before."""
    derived = run_attempts(some.attempts, max_gap_s=rules.run_gap_hours * 3600, explicit=named)
    joined = corrected_runs(derived, some.attempts, fixes.runs)
    logs = logs.in_runs(joined)
    executed = logs.executions(StepRules(rules.hang_steps, rules.hang_min_s))
    replaced = pl.concat([some.runs, joined.select("run_id")]).unique()
    on_nodes = facts.on_nodes.of(attempts_for_interruptions(some.attempts, joined, at_nodes))
    direct = fixes.of_causes(interruptions(some.attempts, joined, on_nodes, at_nodes))
    affected = _affected_by_replaced(writer, cluster, replaced, some.attempts)
    both = _with_room(writer, cluster, facts, with_incidents(pl.concat([direct, affected])), joined)
    interrupted = both.join(replaced, on="run_id", how="semi")
    own = replace(facts, attempts=some.attempts)
    again = restart_table(own, logs, joined=joined, interrupted=interrupted, executed=executed, node_events=at_nodes)
    found = ClusterRuns(logs, executed, joined, interrupted, again)
    key = pl.DataFrame({"cluster": [cluster]})
    for table, rows in _tables(some.attempts, found).items():
        writer.bring_in_line(table, rows, key=key, among=replaced)
    changed = both.join(replaced, on="run_id", how="anti").join(
        affected, on=[*_KEY, *_OF_OTHERS], how="anti", nulls_equal=True
    )
    writer.replace("interruptions", with_gpus(changed, "n_gpus"), keys=_KEY)
    return found


_KEY: Final = list(frames.ATTEMPT_KEY)
_OF_OTHERS: Final = ("incident", "made_room_for", "made_room_for_attempt", "second_order")
"""Columns of an interruption that depend on attempts of other runs."""


def _affected_by_replaced(writer: Writer, cluster: str, replaced: pl.DataFrame, attempts: pl.DataFrame) -> pl.DataFrame:
    """`frames.INTERRUPTIONS` of settled attempts that may change because of other attempts.

    Args:
        writer: the warehouse.
        cluster: whose.
        replaced: the runs that are not settled.
        attempts: those of them.
    """
    began = attempts["started_at"].drop_nulls().dt.epoch("us") // round(ROOM_S * 1e6)
    begun = pl.DataFrame({"slot": pl.concat([began, began - 1]).unique()})
    rows = writer.query_with(
        "affected_interruptions", {"replaced_runs": replaced, "begun": begun}, cluster=cluster, room_s=ROOM_S
    )
    return frames.conform(rows, frames.INTERRUPTIONS)


def _with_room(
    writer: Writer, cluster: str, facts: Facts, interrupted: pl.DataFrame, joined: pl.DataFrame
) -> pl.DataFrame:
    """Interruptions with whom each preemption made room for.

    Args:
        writer: the warehouse, with runs as they were found last.
        cluster: whose.
        facts: accounting data.
        interrupted: `frames.INTERRUPTIONS`, those that infrastructure ended all of them.
        joined: `frames.RUN_ATTEMPTS` of attempts that are not settled.
    """
    affected = attempts_for_second_order(interrupted, facts.attempts)
    attempts = facts.attempts.join(affected, on=_KEY, how="semi")
    previous = settled.members_of_runs(writer, cluster, affected.join(joined, on=_KEY, how="anti"))
    in_runs = pl.concat([joined, previous.join(joined, on=_KEY, how="anti")])
    return with_second_order(interrupted, attempts, in_runs, facts.on_nodes.of(affected))
