"""A source that answers for many windows of a cluster from one reading of each table.

`compute` stores the same numbers for some fifteen windows. Each row of the longest window is read once; a shorter
window is a part of these rows, or a sum over its days.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, TypeVar

import polars as pl

from metrics import frames
from metrics.units import DAY_US
from queries.memo import Memo

if TYPE_CHECKING:
    from collections.abc import Callable

    from app.window import RowSource, Window

T = TypeVar("T")

_KIND: Final = ("state", "category", "cause", "evidence")
_SUMS: Final = ("gpu_seconds", "straggling_gpu_seconds")
_DAY: Final = timedelta(days=1)
_MONTH: Final = 31
"""Days: of so many at least, the latest, sums are read at once. The last windows need them one after the other."""


def _happened(column: str) -> Callable[[pl.Expr, pl.Expr], pl.Expr]:
    """Rows of what ended in the window: at its end belongs to it, at its start to the one before."""
    return lambda since, until: (pl.col(column) > since) & (pl.col(column) <= until)


SLICES: Final[dict[str, Callable[[pl.Expr, pl.Expr], pl.Expr]]] = {
    "interruptions": _happened("ended_at"),
    "restarts": _happened("interrupted_at"),
}
"""Named queries whose rows in a window are those of a longer window for which this is true, in the same order."""


_EXPOSURES: Final = (
    *frames.ATTEMPT_KEY, "het_job_id", "started_at", "ended_at", "state", "user", "partition", "suspended_s", "n_nodes",
    "milli_gpus",
)  # fmt: skip
"""Columns of the named query `exposures`."""

_ENDINGS: Final = (*frames.ATTEMPT_KEY, "ended_at", "state", "class", "cause", "incident")
"""Columns of the named query `endings`."""


class WindowedSource:
    """A source that reads each table once for all windows within one.

    Its rows are those of the source; the order of `ledger_sums`, which has none, may differ. What it reads must not
    change meanwhile.

    Args:
        source: where rows are read.
        whole: the longest window: all of the cluster's ledger.
    """

    def __init__(self, source: RowSource, whole: Window) -> None:
        self._source = source
        self._whole = whole
        self._kept = Memo()
        self._of_runs: tuple[int, pl.DataFrame] | None = None

    def query(self, name: str, **params: object) -> pl.DataFrame:
        """Rows of a named query."""
        if name == "attempts" and params.get("cluster") == self._whole.cluster:
            return self._attempts()
        since, until = params.get("since"), params.get("until")
        if (
            params.get("cluster") == self._whole.cluster
            and isinstance(since, datetime)
            and isinstance(until, datetime)
            and self._whole.since <= since < until <= self._whole.until
        ):
            if name in SLICES:
                inside = SLICES[name](frames.instant(since), frames.instant(until))
                return self._kept.get((name,), lambda: self._of_whole(name)).filter(inside)
            if name == "endings":  # the same rows in the same order, which take long to read twice
                return self.query("interruptions", **params).select(_ENDINGS)
            if name == "exposures":
                return self._exposures(since, until)
            if name == "ledger_sums" and params.get("dimension") in {"cluster", "run"}:
                return self._ledger_sums(since, until, str(params["dimension"]))
        return self._source.query(name, **params)

    def let_go(self, *names: str) -> None:
        """Keep the rows of these queries no longer: they are read again when they are needed."""
        self._kept.forget(lambda key: key[0] in names)  # type: ignore[index]  # keys of `query`

    def memo(self, key: tuple[object, ...], make: Callable[[], T]) -> T:
        """What `make` returns, as the source keeps it."""
        return self._source.memo(key, make)

    def _attempts(self) -> pl.DataFrame:
        return self._kept.get(("attempts",), lambda: self._source.query("attempts", cluster=self._whole.cluster))

    def _exposures(self, since: datetime, until: datetime) -> pl.DataFrame:
        """Attempts that held nodes and may have run in a window: those of the query of that name."""
        ends = pl.col("started_at"), pl.col("ended_at")
        ran = (pl.min_horizontal(*ends) < frames.instant(until)) & (
            ends[1].is_null() | (pl.max_horizontal(*ends) >= frames.instant(since))
        )
        held = ends[0].is_not_null() & (pl.col("n_nodes") > 0) & pl.col("milli_gpus").ne_missing(0)
        return self._attempts().filter(held & (pl.col("het_job_id").is_not_null() | ran)).select(_EXPOSURES)

    def _of_whole(self, name: str) -> pl.DataFrame:
        whole = self._whole
        return self._source.query(name, cluster=whole.cluster, since=whole.since, until=whole.until)

    def _ledger_sums(self, since: datetime, until: datetime, dimension: str) -> pl.DataFrame:
        """Sums over the whole days of a window, and over the rows of the days that its ends cut."""
        first, end = self._first_day(since), self._end_day(until)
        if first >= end:  # no whole day
            return self._source.query(
                "ledger_sums", cluster=self._whole.cluster, since=since, until=until, dimension=dimension
            )
        days = self._days(dimension, first)
        parts = [_summed(days.filter(pl.col("day") >= first, pl.col("day") < end))]
        if since < (begin := _begin(first)):
            parts.append(self._cut(since, begin, dimension))
        if until > (begin := _begin(end)):
            parts.append(self._cut(begin, until, dimension))
        rows = parts[0] if len(parts) == 1 else _summed(pl.concat(parts))
        return rows.select(cluster=pl.lit(self._whole.cluster), **{name: name for name in rows.columns})

    def _first_day(self, since: datetime) -> int:
        """The first UTC day all of whose ledger lies after a moment."""
        return _day(since) if since == self._whole.since else -(-frames.microseconds(since) // DAY_US)

    def _end_day(self, until: datetime) -> int:
        """The first UTC day of which some of the ledger lies after a moment."""
        return -(-frames.microseconds(until) // DAY_US) if until == self._whole.until else _day(until)

    def _days(self, dimension: str, first: int) -> pl.DataFrame:
        """Sums by day, of the days from `first` on at least: of runs, or of the cluster."""
        if dimension == "cluster":
            return self._kept.get(("day_sums",), lambda: self._of_whole("day_sums_of_cluster"))
        if self._of_runs is None or first < self._of_runs[0]:
            first = min(first, _day(self._whole.until) - _MONTH)
            since = max(_begin(first), self._whole.since)
            rows = self._source.query(
                "ledger_sums_by_day", cluster=self._whole.cluster, since=since, until=self._whole.until
            )
            self._of_runs = first, rows
        return self._of_runs[1]

    def _cut(self, since: datetime, until: datetime, dimension: str) -> pl.DataFrame:
        sums = self._source.query(
            "ledger_sums", cluster=self._whole.cluster, since=since, until=until, dimension=dimension
        )
        return sums.select("subject", *_KIND, *_SUMS)


def _summed(sums: pl.DataFrame) -> pl.DataFrame:
    return sums.group_by("subject", *_KIND).agg(_ADDED)


_ADDED: Final = [pl.when(pl.col(name).count() > 0).then(pl.col(name).sum()).alias(name) for name in _SUMS]
"""The sum of nulls alone is null, as in SQL."""


def _day(moment: datetime) -> int:
    return frames.microseconds(moment) // DAY_US


def _begin(day: int) -> datetime:
    return _EPOCH + day * _DAY


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
