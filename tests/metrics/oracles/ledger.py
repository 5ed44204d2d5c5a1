"""The ledger of all time at once; the product makes it span by span (`app.compute.ledger`)."""

from __future__ import annotations

import polars as pl

from metrics import frames
from metrics.ledger.inputs import index_inputs
from metrics.ledger.sweep import sweep_ledger, with_names


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
    """Build the ledger. The arguments are those of `metrics.ledger.inputs.index_inputs`.

    Returns:
        `frames.LEDGER`; each row lies within one UTC day, and at each instant the rows of a node add up to its
        inventory. Allocation above inventory is scaled down pro rata (largest remainder, to a thousandth of a GPU),
        first where the split over an attempt's nodes is only assumed, so that what is known stays as it is.
    """
    inputs = index_inputs(
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
    result = [frames.empty(frames.LEDGER)]
    for first, last in inputs.spans():
        some = inputs.within(first, last)
        result.append(frames.conform(with_names(sweep_ledger(some), some), frames.LEDGER))
    order = ["cluster", "node", "started_at", "job_id", "submitted_at", "category", "cause", "milli_gpus"]
    return pl.concat(result).sort(order, nulls_last=True)
