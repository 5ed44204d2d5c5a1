"""The ledger of a cluster, and what telemetry says of its attempts, into the warehouse."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.attempt_activity import VERIFICATION, attempt_activity
from app.facts import spoken_for, with_gpus
from app.node_activity import attempt_node_activity
from metrics import frames
from metrics.activity import active_time
from metrics.capacity import inventory
from metrics.demand import waiting_demand
from metrics.holders import holders
from metrics.ledger import gpu_time, other_work, with_silence

if TYPE_CHECKING:
    import polars as pl

    from app.config import Rules
    from app.facts import Facts
    from app.results import Window
    from queries.warehouse import Writer


def write_ledger(writer: Writer, window: Window, rules: Rules, facts: Facts, logged: pl.DataFrame) -> None:
    """Write the ledger and inventory of a cluster that has none, and what telemetry tells of its attempts."""
    cluster = window.cluster
    nodes = frames.conform(writer.query("nodes", cluster=cluster), frames.NODES)
    there = inventory(nodes, facts.on_nodes, facts.states, facts.covered)
    activity = writer.query(
        "activity",
        cluster=cluster,
        since=window.since,
        until=window.until,
        active_tensor=rules.active_tensor,
        active_gr_engine=rules.active_gr_engine,
        active_gpu_util=rules.active_gpu_util,
    )
    ledger = gpu_time(
        inventory=there,
        attempt_nodes=facts.on_nodes,
        node_states=with_silence(facts.states, writer.query("slurmd_timeout", cluster=cluster)),
        demand=waiting_demand(facts.attempts, nodes, there, facts.covered),
        states_known=spoken_for(writer, cluster, "slurm.events", rules),
        covered=facts.covered,
        logged=logged,
        active=active_time(frames.conform(activity, frames.ACTIVITY), facts.on_nodes, there, facts.covered),
        other_work=other_work(facts.attempts, rules.other_work),
    )
    writer.append("inventory", with_gpus(there, "gpus"))
    writer.run("insert_gpu_time", {"ledger": ledger})
    checks = rules.other_work.get(VERIFICATION)
    held = holders(facts.on_nodes, facts.attempts, there, facts.covered, verification=checks)
    told = attempt_activity(writer, window, rules, held)
    if told is not None:
        writer.append("attempt_activity", told)
    of_nodes = attempt_node_activity(writer, window, held.attempts, facts.on_nodes, facts.covered)
    if of_nodes is not None:
        writer.append("attempt_node_activity", of_nodes)
