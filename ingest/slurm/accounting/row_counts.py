"""The account of an accounting dump that is read block by block: the same as if it had been read at once."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Final

import polars as pl

from ingest.cluster_names import foreign
from ingest.delimited.reader import LINE, damaged
from ingest.delimited.repair import doubted
from ingest.load_warnings import LoadWarning, summed
from ingest.slurm.accounting.attempts import MOST_GPUS, no_gpus
from ingest.tables import REJECTS, Parsed, empty

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ingest.delimited.reader import DumpRows
    from ingest.slurm.accounting.attempts import AttemptRows
    from ingest.tables import SourceName

SOURCE: Final[SourceName] = "slurm.accounting"


@dataclass
class RowCounts:
    """The counts of a dump's rows so far: every row of it is accounted for.

    Attributes:
        origin: File name or command.
        cluster: Cluster of rows that do not name one.
        since: Start of the requested window, if known.
        until: End of the requested window, if known.
        now: The time, if known: rows of later are refused.
        rows_read: Rows of all blocks.
        rows_believed: Accepted rows of attempts; several may be of the same attempt.
        rows_skipped: Job steps and repeated headers.
        steps: Job steps alone.
        clusters: Clusters that the attempts are of.
        columns: Names of the columns as the dump shows them.
    """

    origin: str
    cluster: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    now: datetime | None = None
    rows_read: int = 0
    rows_believed: int = 0
    rows_skipped: int = 0
    steps: int = 0
    clusters: set[str] = field(default_factory=set)
    columns: list[str] = field(default_factory=list)
    _rejects: list[pl.DataFrame] = field(default_factory=list)
    _warnings: list[LoadWarning] = field(default_factory=list)
    _n_damaged: int = 0
    _doubts: Counter[tuple[str, ...]] = field(default_factory=Counter)
    _gpus: pl.DataFrame = field(default_factory=lambda: empty(MOST_GPUS))
    _started: datetime | None = None
    _submitted: datetime | None = None
    _last: datetime | None = None

    def add(self, rows: DumpRows, facts: AttemptRows) -> None:
        """Count a block; `facts` are its rows without job steps."""
        attempts = facts.attempts
        self.rows_read += rows.n_read
        self.rows_believed += attempts.height
        self.rows_skipped += rows.n_skipped + rows.frame.height - attempts.height - facts.refused.height
        self.steps += rows.frame.height - attempts.height - facts.refused.height
        self.clusters.update(attempts["cluster"].unique())
        self.columns = list(rows.header.shown)
        self._n_damaged += rows.n_damaged
        self._doubts += rows.doubts
        self._rejects.append(_rejects(rows, facts, self.origin))
        gpu_warnings = no_gpus(facts.gpus)
        self.warn(each for each in facts.warnings if each not in gpu_warnings)
        self._gpus = pl.concat([self._gpus, facts.gpus]).group_by("cluster").agg(pl.col("most").max())
        self._started = _earlier(self._started, attempts["started_at"].min())
        self._submitted = _earlier(self._submitted, attempts["submitted_at"].min())
        last = facts.until.max()
        if isinstance(last, datetime):
            self._last = last if self._last is None else max(last, self._last)

    def warn(self, warnings: Iterable[LoadWarning]) -> None:
        """Add what else a person should know of a block."""
        self._warnings = summed([*self._warnings, *warnings])

    def parsed(self, frames: Mapping[str, pl.DataFrame], *, rows_loaded: int) -> Parsed:
        """The complete account, with `rows_loaded` distinct attempts."""
        rejects = pl.concat([empty(REJECTS), *self._rejects])
        usual = self.cluster or min(self.clusters, default="unknown")
        rejects = rejects.with_columns(pl.col("cluster").fill_null(usual))
        return Parsed(
            source=SOURCE,
            clusters=frozenset(self.clusters),
            frames=dict(frames),
            rejects=rejects,
            rows_read=self.rows_read,
            rows_loaded=rows_loaded,
            rows_duplicate=self.rows_believed - rows_loaded,
            rows_skipped=self.rows_skipped,
            rows_of_headers=self.rows_skipped - self.steps,
            rows_rejected=rejects.height,
            columns=self.columns,
            warnings=[
                *self._steps_only(),
                *damaged(self._n_damaged),
                *doubted(self._doubts),
                *foreign(self.cluster, self.clusters),
                *self._warnings,
                *no_gpus(self._gpus),
            ],
            covers_from=self.since or self._started or self._submitted,
            covers_until=self.until or self._last,
        )

    def _steps_only(self) -> list[LoadWarning]:
        """A dump of steps holds no allocation: the rows of the jobs were left out."""
        if not self.steps or self.rows_believed or any(each.height for each in self._rejects):
            return []
        return [LoadWarning("steps_only", self.steps)]


def _rejects(rows: DumpRows, facts: AttemptRows, origin: str) -> pl.DataFrame:
    """The refused rows of a block in the order of the input; the cluster is null where the row does not name it."""
    torn = [(refused.line, refused.reason, refused.raw) for refused in rows.refused]
    unbelieved = [(line, reason, rows.raw(line)) for line, reason in facts.refused.select(LINE, "reason").rows()]
    named = dict(facts.refused.select(LINE, "cluster").rows())
    return pl.DataFrame(
        [(named.get(line), SOURCE, origin, line, reason, raw) for line, reason, raw in sorted([*torn, *unbelieved])],
        schema=REJECTS,
        orient="row",
    )


def _earlier(time: datetime | None, other: object) -> datetime | None:
    if not isinstance(other, datetime):
        return time
    return other if time is None else min(time, other)
