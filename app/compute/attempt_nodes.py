"""Attempts of a cluster on nodes, read where they are needed: there are millions, and most of them changed nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from metrics import frames
from metrics.ledger.fingerprints import HELD

if TYPE_CHECKING:
    from datetime import datetime

    from queries.warehouse import Writer

_KEY: Final = list(frames.ATTEMPT_KEY)
_NODE: Final = ["cluster", "node"]
_ANY_GPUS: Final = 1000
"""Thousandths of GPUs of a node of which it is only known that an attempt held some, or may have."""


class AttemptNodes:
    """Attempts of a cluster on nodes. Rows that were read are kept for later requests.

    Args:
        writer: the warehouse, with its views computed once.
        cluster: whose.
        attempts: `frames.ATTEMPTS`, all of them.

    Attributes:
        placed: whether placements are known: attempts were on nodes at times of their own.
    """

    def __init__(self, writer: Writer, cluster: str, attempts: pl.DataFrame) -> None:
        self._writer = writer
        self._cluster = cluster
        self._attempts = attempts
        # Placements have times of their own: whether one is in a period does not follow from its attempt's times.
        self.placed = bool(writer.query("any_placements", cluster=cluster).item())
        self._keys = attempts.clear().select(_KEY)
        self._rows = frames.empty(frames.ATTEMPT_NODES)
        self._all: pl.DataFrame | None = None

    def every(self) -> pl.DataFrame:
        """All of them: `frames.ATTEMPT_NODES`."""
        if self._all is None:
            rows = self._writer.query("attempt_nodes", cluster=self._cluster)
            self._all = frames.conform(rows, frames.ATTEMPT_NODES)
            self._keys, self._rows = self._keys.clear(), self._rows.clear()
        return self._all

    def of(self, some: pl.DataFrame) -> pl.DataFrame:
        """Those of some attempts, of which the key is given, at least: `frames.ATTEMPT_NODES`."""
        if self.placed or self._all is not None:
            return self.every()
        missing = some.select(_KEY).unique().join(self._keys, on=_KEY, how="anti")
        if not missing.is_empty():
            self._keys = pl.concat([self._keys, missing])
            self._rows = pl.concat([self._rows, self._read(missing)])
        return self._rows

    def holding(self, since: datetime, until: datetime) -> pl.DataFrame:
        """Those that may have held GPUs between two moments, and others of the same attempts."""
        over = pl.col("ended_at") <= frames.instant(since)
        begun = pl.col("started_at") < frames.instant(until)
        held = begun & ~over.fill_null(value=False) & pl.col("milli_gpus").ne_missing(0)
        if self.placed or self._all is not None:
            held_then = self.every().filter(held)
            return self.every().join(held_then.select(_KEY).unique(), on=_KEY, how="semi", maintain_order="left")
        some = self._attempts.filter(held)
        return self.every() if some.height == self._attempts.height else self._read(some)

    def presence(self, nodes: pl.DataFrame) -> pl.DataFrame:
        """The rows that show which nodes existed when: the input of `metrics.ledger.capacity.inventory`.

        Of a node that each inventory has since it is known, that is from when to when it was held.

        Args:
            nodes: `frames.NODES`.
        """
        used = self._writer.query("node_use_periods", cluster=self._cluster)
        steady = nodes.group_by(_NODE).agg(pl.col("gone_at").null_count() == pl.len()).filter("gone_at")
        of_steady = used.join(steady, on=_NODE, how="semi").with_columns(milli_gpus=_ANY_GPUS)
        others = used.join(steady, on=_NODE, how="anti")["node"].to_list()
        rows = [frames.conform(of_steady, frames.ATTEMPT_NODES)]
        if others:
            on_others = self._writer.query("attempt_nodes_on", cluster=self._cluster, nodes=others)
            rows.append(frames.conform(on_others, frames.ATTEMPT_NODES))
        return pl.concat(rows)

    def held_times(self, other_work: pl.DataFrame) -> pl.DataFrame:
        """When each attempt held GPUs, or may have, as fingerprints read it: `metrics.ledger.fingerprints.HELD`.

        Args:
            other_work: as `metrics.ledger.ledger.other_work` returns it.
        """
        rows = self._writer.query_with("held_times", {"other_work": other_work}, cluster=self._cluster)
        return frames.conform(rows, HELD)

    def _read(self, some: pl.DataFrame) -> pl.DataFrame:
        rows = self._writer.query_of_attempts("attempt_nodes", some.select(_KEY), cluster=self._cluster)
        return frames.conform(rows, frames.ATTEMPT_NODES)
