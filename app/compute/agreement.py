"""Disagreements of Slurm and Kubernetes about nodes: rows of `sync_intervals` of one cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from app.compute.inputs import covered_time
from metrics import frames
from metrics.agreement.agreement import HELD, PAIRS, SIDES, SYNC_INTERVALS, sync_intervals
from metrics.intervals import overlaps
from metrics.lifecycle.drains import whole_drains

if TYPE_CHECKING:
    from app.compute.inputs import Facts
    from app.config.settings import Rules
    from queries.warehouse import Writer

TABLES: Final = ("sync_intervals",)
_KEY = list(frames.ATTEMPT_KEY)


def write_agreement(writer: Writer, cluster: str, rules: Rules, facts: Facts, *, has_objects: bool) -> None:
    """Write where the two disagree; nothing in a cluster of which no Kubernetes objects are known (`has_objects`)."""
    key = pl.DataFrame({"cluster": [cluster]})
    found = _disagreements(writer, cluster, rules, facts) if has_objects else frames.empty(SYNC_INTERVALS)
    writer.bring_in_line("sync_intervals", found, key=key)


def _disagreements(writer: Writer, cluster: str, rules: Rules, facts: Facts) -> pl.DataFrame:
    observed = writer.query("kubernetes_nodes_observed", cluster=cluster)
    pairs = frames.conform(writer.query("kubernetes_node_names", cluster=cluster), PAIRS)
    known = _observed_by_slurm(writer, cluster, rules, facts)
    if pairs.is_empty() or known.is_empty() or observed["started_at"].null_count():
        return frames.empty(SYNC_INTERVALS)
    first, last, pods_listed_at = observed.row(0)
    reported = writer.query("node_states", cluster=cluster)
    of_slurm = whole_drains(reported.filter(pl.col("source").str.starts_with("slurm.")), facts.on_nodes.every())
    return sync_intervals(
        pairs,
        frames.conform(of_slurm, SIDES),
        _of_kubernetes(writer, cluster),
        _attempts_on_nodes(facts),
        frames.conform(_inventory(writer, cluster), frames.INVENTORY),
        slurm_known=known,
        kubernetes_known=(first, last),
        pods_listed_at=pods_listed_at,
    )


def _observed_by_slurm(writer: Writer, cluster: str, rules: Rules, facts: Facts) -> pl.DataFrame:
    """When Slurm's node events and its accounting are both known: outside accounting no node is in the inventory."""
    ends = {"started_at": "started", "ended_at": "ended"}
    events, jobs = (each.rename(ends) for each in (covered_time(writer, cluster, "node_states", rules), facts.covered))
    return overlaps(events, jobs, on=["cluster"]).rename({name: stored for stored, name in ends.items()})


def _of_kubernetes(writer: Writer, cluster: str) -> pl.DataFrame:
    """States of Kubernetes' nodes, hosts of slurmd among them; a cordon is known until it was last seen."""
    from ingest.kubernetes.nodes import UNSCHEDULABLE, states_of  # noqa: PLC0415 - few clusters have objects

    key = pl.DataFrame({"cluster": [cluster]})
    conditions, lists = (writer.matching(name, key, keys=["cluster"]) for name in ("node_conditions", "object_lists"))
    joined = conditions.group_by("cluster", "node").agg(pl.col("since").min().alias("valid_from"))
    states = states_of(conditions, joined, lists)
    cordoned = conditions.filter(pl.col("condition") == UNSCHEDULABLE).select(
        "cluster", "node", started_at="since", cordoned_until="last_seen_at"
    )
    at = ["cluster", "node", "started_at"]
    cordons = states.filter(pl.col("state") == "drained").join(cordoned, on=at, how="left")
    sure = cordons.with_columns(ended_at=pl.when(pl.col("ended_at").is_not_null()).then("cordoned_until"))
    unsure = cordons.filter(pl.col("ended_at").is_not_null()).with_columns(
        started_at="cordoned_until", state=pl.lit("unknown"), reason=pl.lit(None, dtype=pl.String)
    )
    others = states.filter(pl.col("state") != "drained")
    return pl.concat([frames.conform(each, SIDES) for each in (others, sure, unsure)])


def _attempts_on_nodes(facts: Facts) -> pl.DataFrame:
    """Slurm's attempts on nodes with their final states."""
    ended = facts.attempts.filter(pl.col("scheduler") == "slurm").select(*_KEY, "state")
    return frames.conform(facts.on_nodes.every().join(ended, on=_KEY), HELD)


def _inventory(writer: Writer, cluster: str) -> pl.DataFrame:
    stored = writer.matching("inventory", pl.DataFrame({"cluster": [cluster]}), keys=["cluster"])
    return stored.with_columns(milli_gpus=(pl.col("gpus") * 1000).cast(pl.Int64))
