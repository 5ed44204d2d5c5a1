"""Writes the ledger of a cluster, and the activity of its attempts by telemetry, into the warehouse."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from app.compute.inputs import covered_time, with_gpus
from app.compute.ledger_days import write_days
from app.compute.ledger_inputs import LedgerInputs
from app.compute.node_days import forget_node_days, write_node_days
from app.results.telemetry import activity_days
from app.results.telemetry.gpu_activity import (
    VERIFICATION,
    attempt_rows,
    gpu_activity,
    summed,
    sums_of_days,
    user_rows,
)
from app.results.telemetry.node_activity import attempt_rows as attempt_rows_of_nodes
from metrics import frames
from metrics.ledger.capacity import inventory
from metrics.ledger.demand import waiting
from metrics.ledger.ledger import other_work, with_silence
from metrics.ledger.telemetry_evidence import active_time
from metrics.telemetry.occupancy import holders, occupants
from queries.errors import CorruptWarehouseError

if TYPE_CHECKING:
    from datetime import datetime

    from app.compute.inputs import Facts
    from app.compute.outcome import Days, Progress
    from app.config.settings import Rules
    from app.window import Window
    from metrics.telemetry.occupancy import Holders
    from queries.warehouse import Writer


def write_ledger(
    writer: Writer,
    window: Window,
    rules: Rules,
    facts: Facts,
    *,
    logged: pl.DataFrame,
    straggling: pl.DataFrame,
    now: datetime,
    full: bool,
    progress: Progress,
) -> Days:
    """Bring the ledger of a cluster up to date, and write its inventory and the activity of its attempts."""
    cluster = window.cluster
    nodes = frames.conform(writer.query("nodes", cluster=cluster), frames.NODES)
    # A correction is no observation.
    inventoried = inventory(nodes, facts.on_nodes.presence(nodes), facts.reported_states, facts.covered)
    others = other_work(facts.attempts, rules.other_work)
    inputs = LedgerInputs(
        facts.on_nodes,
        facts.on_nodes.held_times(others),
        inventory=inventoried,
        node_states=with_silence(facts.states, writer.query("slurmd_timeout", cluster=cluster)),
        states_known=covered_time(writer, cluster, "node_states", rules),
        covered=facts.covered,
        logged=logged,
        active=_active(writer, window, rules, facts, inventoried, progress),
        other_work=others,
        straggling=straggling,
        waiting=waiting(
            facts.attempts,
            nodes,
            inventoried,
            facts.covered,
            attempt_nodes=frames.empty(frames.ATTEMPT_NODES),  # those of the days that are computed
            node_states=facts.states,
            blocks=writer.query("blocks", cluster=cluster),
        ),
    )
    writer.bring_in_line("inventory", with_gpus(inventoried, "gpus"), key=pl.DataFrame({"cluster": [cluster]}))
    days = write_days(
        writer, cluster, inputs, now=now, full=full, progress=lambda part, share: progress(part, 0.5 + 0.2 * share)
    )
    progress("activity of attempts", 0.7)
    _write_activity(writer, window, rules, facts, inventoried, full=full)
    return days


def _active(  # noqa: PLR0917 - private, and every one of them is needed
    writer: Writer, window: Window, rules: Rules, facts: Facts, inventoried: pl.DataFrame, progress: Progress
) -> pl.DataFrame | None:
    """Activity of attempts by GPU samples; None without samples."""

    def report(done: int, days: int) -> None:
        progress(f"GPU activity, day {done + 1:,} of {days:,}", 0.5 * done / days)

    active = gpu_activity(writer, window, rules, report=report)
    if active.is_empty():
        return None
    return active_time(active, facts.on_nodes.every(), inventoried, facts.covered, facts.attempts)


def _write_activity(
    writer: Writer, window: Window, rules: Rules, facts: Facts, inventoried: pl.DataFrame, *, full: bool
) -> None:
    """Write the activity of attempts by samples of GPUs and of nodes, where any exist."""
    of_gpus, of_nodes = (
        not writer.query(name, cluster=window.cluster).is_empty() for name in ("gpu_sample_days", "node_sample_days")
    )
    if not of_nodes:
        forget_node_days(writer, window.cluster)
    if not of_gpus and not of_nodes:
        return
    checks = rules.other_work.get(VERIFICATION)
    on_nodes = facts.on_nodes.every()
    held = holders(on_nodes, facts.attempts, inventoried, facts.covered, verification=checks)
    if of_gpus:
        _write_gpu_activity(writer, window, rules, held)
    if of_nodes:
        _write_node_activity(writer, window, held.attempts, on_nodes, facts.covered, full=full)


def _write_node_activity(
    writer: Writer,
    window: Window,
    attempts: pl.DataFrame,
    on_nodes: pl.DataFrame,
    covered: pl.DataFrame,
    *,
    full: bool,
) -> None:
    """Write what nodes did, by day, and of attempts in all of the time."""
    owners = attempts.select(*frames.ATTEMPT_KEY, pl.col("attempt").alias("owner"), VERIFICATION)
    occupancy = occupants(on_nodes, owners, covered)
    days = write_node_days(writer, window, occupancy, owners, full=full)
    try:
        sums, _ = days.attempts(occupancy, owners)
    except CorruptWarehouseError:  # what was computed can be computed again
        sums, _ = write_node_days(writer, window, occupancy, owners, full=True).attempts(occupancy, owners)
    rows = attempt_rows_of_nodes(sums, owners)
    if rows is not None:
        writer.append("attempt_node_activity", rows)


def _write_gpu_activity(writer: Writer, window: Window, rules: Rules, held: Holders) -> None:
    """Write what GPUs did, by day and in all of the time."""
    cluster = window.cluster
    made_of = dict(writer.query("gpu_sample_days", cluster=cluster).iter_rows())
    sums = sums_of_days(writer, window, rules, held, list(made_of))
    for day in sums:
        for table, rows in activity_days.rows(day, made_of[day.day], cluster, held).items():
            writer.append(table, rows)
    by_gpu = summed(sums, rules, held)
    if by_gpu is not None:
        writer.append("attempt_activity", attempt_rows(by_gpu))
        writer.append("user_activity", user_rows(by_gpu, cluster))
