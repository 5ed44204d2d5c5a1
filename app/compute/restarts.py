"""Events of nodes, and restarts of runs: rows of the table `restarts`, of one cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from app.config.settings import joined_patterns
from metrics import frames
from metrics.corrections import beginnings
from metrics.failures.diagnosis import EVENTS
from metrics.failures.interruptions import critical_states
from metrics.restarts.restarts import restarts
from metrics.restarts.stages import attempts_for_detection, in_place_restarts, with_detection, with_log_times
from metrics.restarts.whole import begun_whole

if TYPE_CHECKING:
    from app.compute.inputs import Facts
    from app.config.settings import Rules
    from app.results.runs.run_logs import Logs
    from app.window import RowSource


def events_at_nodes(source: RowSource, cluster: str, rules: Rules, states: pl.DataFrame) -> pl.DataFrame:
    """Events of nodes, reported by exporters and the scheduler: `metrics.failures.diagnosis.EVENTS`.

    Args:
        source: where from.
        cluster: whose.
        rules: which drains indicate a fault.
        states: `frames.NODE_STATES`, as persons corrected them.
    """
    health = frames.conform(source.query("events_at_nodes", cluster=cluster), EVENTS)
    critical = critical_states(beginnings(states), critical_reasons=joined_patterns(rules.critical_reasons))
    return pl.concat([critical, health])


def restart_table(
    facts: Facts,
    logs: Logs,
    *,
    joined: pl.DataFrame,
    interrupted: pl.DataFrame,
    executed: pl.DataFrame,
    node_events: pl.DataFrame,
) -> pl.DataFrame:
    """Restarts by a new attempt and within an allocation, each with what is known of its stages: `frames.RESTARTS`.

    Args:
        facts: accounting data.
        logs: the run logs, with the runs that attempts were joined to.
        joined: `frames.RUN_ATTEMPTS`.
        interrupted: `frames.INTERRUPTIONS`.
        executed: as `metrics.runs.steps.executions_of_steps` returns it.
        node_events: as `events_at_nodes` returns it.
    """
    begun = begun_whole(facts.attempts, facts.on_nodes.every()) if facts.on_nodes.placed else facts.attempts
    again = restarts(begun, joined, interrupted)
    held = facts.on_nodes.of(attempts_for_detection(again, joined, node_events))
    noticed = with_detection(again, interrupted, joined, held, node_events)
    within = in_place_restarts(
        executed,
        logs.sessions,
        logs.events,
        attempts=facts.attempts,
        joined=joined,
        attempt_nodes=facts.on_nodes.of(executed),
        node_events=node_events,
    )
    return pl.concat([with_log_times(noticed, joined, executed, logs.sessions, logs.events), within])
