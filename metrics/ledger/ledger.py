"""The ledger: every GPU-second of capacity in exactly one category.

`metrics.ledger.inputs` puts what it is made of into numbers, `metrics.ledger.sweep` makes it; here is the whole, and
what goes before it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from metrics import frames
from metrics.categories import ALLOCATED, CATEGORIES, IDLE, UNAVAILABLE
from metrics.ledger.inputs import place
from metrics.ledger.sweep import named, pieces

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["ALLOCATED", "CATEGORIES", "IDLE", "UNAVAILABLE", "gpu_time", "other_work", "with_silence"]

_US = 1_000_000


def gpu_time(
    *,
    inventory: pl.DataFrame,
    attempt_nodes: pl.DataFrame,
    node_states: pl.DataFrame,
    demand: pl.DataFrame,
    states_known: pl.DataFrame,
    covered: pl.DataFrame,
    logged: pl.DataFrame | None = None,
    active: pl.DataFrame | None = None,
    other_work: pl.DataFrame | None = None,
) -> pl.DataFrame:
    """Build the ledger. The arguments are those of `metrics.ledger.inputs.place`.

    Returns:
        `frames.LEDGER`; each row lies within one UTC day, and at each instant the rows of a node add up to its
        inventory. Allocation above inventory is scaled down pro rata (largest remainder, to a thousandth of a GPU),
        first where the split over an attempt's nodes is only assumed, so that what is known stays as it is.
    """
    inputs = place(
        inventory=inventory,
        attempt_nodes=attempt_nodes,
        node_states=node_states,
        demand=demand,
        states_known=states_known,
        covered=covered,
        logged=logged,
        active=active,
        other_work=other_work,
    )
    found = [frames.empty(frames.LEDGER)]
    for first, last in inputs.spans():
        some = inputs.within(first, last)
        found.append(frames.conform(named(pieces(some), some), frames.LEDGER))
    order = ["cluster", "node", "started_at", "job_id", "submitted_at", "category", "cause", "milli_gpus"]
    return pl.concat(found).sort(order, nulls_last=True)


def with_silence(node_states: pl.DataFrame, slurmd_timeout_s: pl.DataFrame) -> pl.DataFrame:
    """Add the time that a node had been silent for before Slurm called it down.

    Slurm marks a node DOWN, "Not responding", only after it has not heard from it for SlurmdTimeout. Its jobs end at
    that same moment, so without this the time that a dead node held GPUs would be zero. What is added is certain
    silence; the node may have died up to a few pings earlier still.

    Args:
        node_states: `frames.NODE_STATES`.
        slurmd_timeout_s: `cluster`, `slurmd_timeout_s`; clusters that are not in it get nothing.

    Returns:
        `frames.NODE_STATES` with one more row, ending where the state starts, for each such state.

    Source: slurm.conf(5), SlurmdTimeout.
    """
    silent = (pl.col("state") == "down") & pl.col("reason").fill_null("").str.starts_with("Not responding")
    before = (
        node_states.filter(silent)
        .join(slurmd_timeout_s, on="cluster")
        .with_columns(
            ended_at=pl.col("started_at"),
            started_at=pl.col("started_at") - pl.duration(microseconds=pl.col("slurmd_timeout_s") * _US),
        )
        .filter(pl.col("started_at") < pl.col("ended_at"))
    )
    return pl.concat([node_states, before.select(node_states.columns)])


def other_work(attempts: pl.DataFrame, kinds: Mapping[str, str]) -> pl.DataFrame:
    """Attempts that do something else than train, by their names or partitions.

    Args:
        attempts: `frames.ATTEMPTS`.
        kinds: what to call it -> regular expression; the first that matches the job's name or its partition counts.

    Returns:
        Attempt key and `kind`.
    """
    kind = pl.coalesce(
        pl.lit(None, dtype=pl.String),
        *(
            pl.when(
                pl.col("name").fill_null("").str.contains(pattern)
                | pl.col("partition").fill_null("").str.contains(pattern)
            ).then(pl.lit(name))
            for name, pattern in kinds.items()
        ),
    )
    return attempts.select(*frames.ATTEMPT_KEY, kind.alias("kind")).drop_nulls("kind")
