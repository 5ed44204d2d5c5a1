"""Fingerprints from attempts on nodes, each row an attempt that held GPUs; the product reads one row an attempt."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from metrics import frames
from metrics.ledger.fingerprints import HELD
from metrics.ledger.fingerprints import fingerprints as of_held

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def fingerprints(
    known: Mapping[str, pl.DataFrame], by_time: Sequence[pl.DataFrame] = (), lasting: str = ""
) -> dict[int, str]:
    """Of each day.

    Args:
        known: arguments of `metrics.ledger.inputs.index_inputs`.
        by_time: what demand is made of: `metrics.ledger.demand.Waiting`.
        lasting: see there.
    """
    wanted = known["demand"].with_columns(pl.col(f"{end}_at").dt.epoch("us").alias(end) for end in ("started", "ended"))
    return of_held(
        inventory=known["inventory"],
        held=held(known["attempt_nodes"], known.get("other_work")),
        node_states=known["node_states"],
        states_known=known["states_known"],
        covered=known["covered"],
        logged=known.get("logged"),
        active=known.get("active"),
        demand=[wanted.drop("started_at", "ended_at"), *by_time],
        lasting=lasting,
    )


def held(attempt_nodes: pl.DataFrame, other_work: pl.DataFrame | None) -> pl.DataFrame:
    """`metrics.ledger.fingerprints.HELD`."""
    key = list(frames.ATTEMPT_KEY)
    rows = attempt_nodes.filter(pl.col("milli_gpus").ne_missing(0)).with_columns(kind=pl.lit(None, dtype=pl.String))
    if other_work is not None:
        rows = rows.drop("kind").join(other_work, on=key, how="left", maintain_order="left")
    said = rows.select(*key, "node", "milli_gpus", "evidence", "kind")
    return frames.conform(rows.with_columns(said.hash_rows().alias("digest"), n_nodes=1), HELD)
