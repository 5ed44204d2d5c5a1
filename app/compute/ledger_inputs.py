"""Inputs of a cluster's ledger, by day: fingerprints first, then the inputs of changed days."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import polars as pl

from metrics import frames
from metrics.ledger.fingerprints import fingerprints
from metrics.ledger.inputs import Inputs, day_of, days_in_inventory, index_inputs, spans

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from app.compute.attempt_nodes import AttemptNodes
    from metrics.ledger.demand import Waiting


@dataclass(frozen=True)
class LedgerInputs:
    """Inputs of a cluster's ledger. Attempts are put on their nodes only for the days that are computed.

    Attributes:
        on_nodes: attempts on nodes.
        held: `metrics.ledger.fingerprints.HELD`: when attempts held GPUs.
        inventory: this and the following: as `metrics.ledger.inputs.index_inputs` has them.
        node_states: see there.
        states_known: see there.
        covered: see there.
        logged: see there.
        active: see there.
        other_work: see there.
        straggling: see there.
        waiting: what demand is made of, without attempts on nodes.
    """

    on_nodes: AttemptNodes
    held: pl.DataFrame
    inventory: pl.DataFrame
    node_states: pl.DataFrame
    states_known: pl.DataFrame
    covered: pl.DataFrame
    logged: pl.DataFrame
    active: pl.DataFrame | None
    other_work: pl.DataFrame
    straggling: pl.DataFrame
    waiting: Waiting

    def fingerprints(self) -> dict[int, str]:
        """Of each day of the ledger: `metrics.ledger.fingerprints.fingerprints`."""
        return fingerprints(
            inventory=self.inventory,
            held=self.held,
            node_states=self.node_states,
            states_known=self.states_known,
            covered=self.covered,
            logged=self.logged,
            active=self.active,
            straggling=self.straggling,
            demand=self.waiting.by_time(),
            lasting=self.waiting.lasting(),
        )

    def spans(self) -> Iterator[tuple[int, int]]:
        """Days (from, to) to be worked on at a time."""
        return spans(*days_in_inventory(self.inventory), int(self.held["n_nodes"].sum()))

    def of_days(self, first: int, last: int) -> tuple[Inputs, Waiting]:
        """The inputs of the days from `first` to before `last` at least, but demand; and what that is made of."""
        since, until = day_of(first), day_of(last)
        on_nodes = self.on_nodes.holding(since, until)
        inputs = index_inputs(
            inventory=self.inventory,
            attempt_nodes=on_nodes,
            node_states=self.node_states,
            demand=frames.empty(frames.DEMAND),
            states_known=self.states_known,
            covered=self.covered,
            logged=_during(self.logged, since, until),
            active=None if self.active is None else _during(self.active, since, until),
            other_work=self.other_work,
            straggling=self.straggling,
        )
        return inputs, replace(self.waiting, attempt_nodes=on_nodes)


def _during(rows: pl.DataFrame, since: datetime, until: datetime) -> pl.DataFrame:
    return rows.filter(pl.col("started_at") < frames.instant(until), pl.col("ended_at") > frames.instant(since))
