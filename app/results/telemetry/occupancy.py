"""What questions about telemetry need beside samples: who held what and was where, by the rules of the computation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

from app.config.settings import Rules
from app.results.constants import constants_of
from app.results.telemetry.gpu_activity import VERIFICATION
from app.window import Window
from metrics import frames
from metrics.ledger.capacity import coverage, inventory
from metrics.telemetry.occupancy import Holders, holders

if TYPE_CHECKING:
    from app.window import RowSource

NO_SUBJECT = "(unknown)"
"""What a user, account or partition that accounting does not name is called."""


@dataclass(frozen=True)
class Known:
    """What is known of a cluster.

    Attributes:
        rules: those of its last computation.
        attempts: `frames.ATTEMPT_KEY`, `user`, `account`, `partition`, `run`, `name`, `verification`, and its number
            `attempt`.
        on_nodes: `frames.ATTEMPT_NODES`.
        covered: `frames.COVERAGE` of accounting, within the computation.
        held: who held GPUs.
    """

    rules: Rules
    attempts: pl.DataFrame
    on_nodes: pl.DataFrame
    covered: pl.DataFrame
    held: Holders


def known(source: RowSource, cluster: str, *, observed: bool = True) -> Known:
    """What is known of a cluster that was computed: as `app.compute.pipeline` has it.

    Args:
        source: where rows are read.
        cluster: which one.
        observed: whether there are observations of anything that an attempt may have held; else no attempt is read.
    """
    computed = source.query("computed", cluster=cluster).row(0, named=True)
    rules = rules_of(computed)
    attempts, on_nodes = frames.empty(frames.ATTEMPTS), frames.empty(frames.ATTEMPT_NODES)
    if observed:
        attempts = frames.conform(source.query("attempts", cluster=cluster), frames.ATTEMPTS)
        on_nodes = frames.conform(source.query("attempt_nodes", cluster=cluster), frames.ATTEMPT_NODES)
    states = frames.conform(source.query("node_states", cluster=cluster), frames.NODE_STATES)
    nodes = frames.conform(source.query("nodes", cluster=cluster), frames.NODES)
    loads = frames.conform(source.query("coverage", cluster=cluster, source="accounting"), frames.COVERAGE)
    low, high = (pl.lit(computed[name], dtype=frames.TIME) for name in ("since", "until"))
    covered = (
        coverage(loads, gap_s=rules.coverage_gap_hours * 3600)
        .with_columns(started_at=pl.max_horizontal("started_at", low), ended_at=pl.min_horizontal("ended_at", high))
        .filter(pl.col("started_at") < pl.col("ended_at"))
    )
    inventoried = inventory(nodes, on_nodes, states, covered)
    held = holders(on_nodes, attempts, inventoried, covered, verification=rules.other_work.get(VERIFICATION))
    return Known(rules, _named(source, cluster, attempts, held), on_nodes, covered, held)


def rules_of(computed: dict[str, Any]) -> Rules:
    """The rules of a computation: a row of the named query `computed`."""
    constants = constants_of(computed["constants"])
    return Rules.model_validate({name: constants[name] for name in Rules.model_fields if name in constants})


def _named(source: RowSource, cluster: str, attempts: pl.DataFrame, held: Holders) -> pl.DataFrame:
    key = list(frames.ATTEMPT_KEY)
    runs = source.query("run_attempts", cluster=cluster).select(*key, pl.col("run_id").alias("run"))
    return (
        held.attempts.select(*key, "attempt", "user", "partition", VERIFICATION)
        .join(attempts.select(*key, "account", "name"), on=key, how="left")
        .join(runs, on=key, how="left")
    )


def whole(source: RowSource, window: Window) -> bool:
    """Whether a window is all of what was computed, of which sums are stored."""
    return window == computed_window(source, window.cluster)


def computed_window(source: RowSource, cluster: str) -> Window:
    """All of what was computed of a cluster."""
    computed = source.query("computed", cluster=cluster).row(0, named=True)
    return Window(cluster, computed["since"], computed["until"])
