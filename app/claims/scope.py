"""A part of a cluster, without the time that a claim excludes, as a source of the same numbers as the whole.

The period is cut where an exclusion begins or ends. Each interval excludes some nodes, or all; sums over the ledger and
exposures add up over the intervals. Idle GPUs belong to no user, so a scope by user, account or size of job limits
attempts alone.
"""

from __future__ import annotations

import fnmatch
import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import polars as pl

from app.claims.node_patterns import pattern_items
from ingest.slurm.formats.nodelist import expand
from metrics import frames, unknown
from metrics.catalog import CLAIMABLE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import datetime

    from app.window import RowSource, Window
    from metrics.claims.verdict import Claim, Exclusion

T = TypeVar("T")


class EmptyScopeError(Exception):
    """A claim's scope or exclusion matches nothing in the cluster; the message names it."""


@dataclass(frozen=True)
class ScopedInterval:
    """A part of a window in which the same nodes are excluded; None: all of them."""

    since: datetime
    until: datetime
    without: frozenset[str] | None = frozenset()


def scoped_to(source: RowSource, window: Window, claim: Claim) -> Scoped | None:
    """The source limited to the scope of a claim; None for a claim on all of the cluster without exclusions."""
    return Scoped(source, window, claim) if claim.scope.words() or claim.exclusions else None


class Scoped:
    """A source limited to the scope of a claim: `app.results` works on it as on any other.

    Attributes:
        intervals: the claim's window, cut where exclusions begin and end.
    """

    def __init__(self, source: RowSource, window: Window, claim: Claim) -> None:
        self._source = source
        self._claim = claim
        self._of = CLAIMABLE[claim.metric].of
        self._window = window
        names = source.query("scope_nodes", cluster=window.cluster) if self._by_nodes() else None
        self._nodes = None if names is None else self._scope_nodes(names)
        intervals = [each for each in claim.exclusions if each.category is None]
        left_out = [(each, _excluded_nodes(each, names, window.cluster)) for each in intervals]
        self.intervals = tuple(_intervals(window, left_out))
        self._keys: pl.DataFrame | None = None

    def _by_nodes(self) -> bool:
        scope = self._claim.scope
        capacity = self._of == "capacity" and scope.partition is not None
        named = scope.nodes or scope.gpu_model or capacity
        return bool(named or any(each.nodes or each.partition for each in self._claim.exclusions))

    def _scope_nodes(self, names: pl.DataFrame) -> list[str] | None:
        """Nodes of the scope; None where it names none."""
        scope, nodes, conditions = self._claim.scope, names, []
        if scope.nodes is not None:
            nodes, conditions = (
                nodes.filter(pl.col("node").is_in(matching(scope.nodes, names["node"]))),
                [f"is {scope.nodes}"],
            )
        if scope.gpu_model is not None:
            nodes, conditions = (
                nodes.filter(pl.col("gpu_model") == scope.gpu_model),
                [*conditions, f"has a {scope.gpu_model}"],
            )
        if scope.partition is not None and self._of == "capacity":
            nodes = nodes.filter(pl.col("partitions").list.contains(scope.partition).fill_null(value=False))
            conditions.append(f"is in the partition {scope.partition}")
        if not conditions:
            return None
        if nodes.is_empty():
            raise EmptyScopeError(f"a node in scope: no node of {self._window.cluster} {' and '.join(conditions)}")
        return nodes["node"].to_list()

    # Rows ----------------------------------------------------------------------------------------------------

    def query(self, name: str, **params: object) -> pl.DataFrame:
        """Rows of a named query, as far as they are in scope; sums over the ledger are without exclusions."""
        if name == "ledger_sums":
            return self._ledger_sums(params)
        rows = self._source.query(name, **params)
        if set(frames.ATTEMPT_KEY) <= set(rows.columns):
            return rows.join(self.attempts(), on=list(frames.ATTEMPT_KEY), how="semi", maintain_order="left")
        if "run_id" in rows.columns:
            return rows.join(self.runs(), on="run_id", how="semi", maintain_order="left")
        return rows

    def memo(self, key: tuple[object, ...], make: Callable[[], T]) -> T:  # noqa: ARG002 - a source's own names
        """What `make` returns: nothing is cached, since a scope is queried once."""
        return make()

    def attempts(self) -> pl.DataFrame:
        """Keys of the attempts in scope: of a metric of runs, those of the runs in scope."""
        if self._keys is None:
            cluster = self._window.cluster
            rows = self._source.query("attempts", cluster=cluster)
            key = list(frames.ATTEMPT_KEY)
            if self._of == "runs":
                joined = self._source.query("run_attempts", cluster=cluster)
                self._keys = joined.join(self.runs(), on="run_id", how="semi").select(key)
            else:
                self._keys = self._on_nodes(rows.filter(self._users_and_sizes())).select(key)
        return self._keys

    def runs(self) -> pl.DataFrame:
        """Ids of the runs in scope (`run_id`): of these users, accounts, partitions and sizes."""
        period = {"since": self._window.since, "until": self._window.until}
        rows = self._source.query("runs", cluster=self._window.cluster, **period)
        scope = self._claim.scope
        return rows.filter(_same(scope, "user", "account", "partition"), _sized(scope, pl.col("n_gpus"))).select(
            "run_id"
        )

    def _users_and_sizes(self) -> pl.Expr:
        """Attempts of the scope's users and sizes; a heterogeneous job is as large as its components together."""
        scope = self._claim.scope
        job = pl.coalesce("het_job_id", "job_id")
        whole = unknown.total("milli_gpus").over("scheduler", job, "submitted_at") / 1000
        return _same(scope, "user", "account", "partition") & _sized(scope, whole)

    def _on_nodes(self, attempts: pl.DataFrame) -> pl.DataFrame:
        """Attempts that ran on nodes of the scope alone."""
        if self._nodes is None:
            return attempts
        held = self._source.query("attempt_nodes", cluster=self._window.cluster)
        inside = pl.col("node").is_in(self._nodes).all()
        key = list(frames.ATTEMPT_KEY)
        alone = held.group_by(key).agg(inside.alias("inside")).filter("inside")
        return attempts.join(alone, on=key, how="semi", maintain_order="left")

    # The ledger ----------------------------------------------------------------------------------------------

    def _ledger_sums(self, params: dict[str, Any]) -> pl.DataFrame:
        sums = [self._sums_in(interval, params) for interval in self.intervals if interval.without is not None]
        sums = [each for each in sums if not each.is_empty()] or sums
        if not sums:
            return self._sums_in(ScopedInterval(self._window.since, self._window.since), params)
        together = pl.concat(sums)
        amounts = [name for name in together.columns if name.endswith("gpu_seconds")]
        included = together.filter(~pl.col("category").is_in(self._categories()))
        return included.group_by(pl.exclude(amounts), maintain_order=True).agg(pl.col(amounts).sum())

    def _categories(self) -> list[str]:
        return [each.category for each in self._claim.exclusions if each.category is not None]

    def _sums_in(self, interval: ScopedInterval, params: dict[str, Any]) -> pl.DataFrame:
        low, high = max(interval.since, params["since"]), min(interval.until, params["until"])
        in_interval = params | {"since": low, "until": max(low, high), "without": sorted(interval.without or ())}
        scope = self._claim.scope
        of_runs = self._of == "runs"
        attempts = {
            name: None if of_runs or (name == "partition" and self._of == "capacity") else getattr(scope, name)
            for name in ("user", "account", "partition", "gpus_min", "gpus_max")
        }
        rows = self._source.query("ledger_sums_in_scope", **in_interval, nodes=self._nodes, **attempts)
        if of_runs and params["dimension"] == "run":
            return rows.join(self.runs(), left_on="subject", right_on="run_id", how="semi")
        return rows

    def excluded_gpu_s(self) -> float:
        """GPU-seconds of the scope that the claim excludes, of those that its metric is about."""
        period = {"cluster": self._window.cluster, "since": self._window.since, "until": self._window.until}
        dimension = "run" if self._of == "runs" else "cluster"
        whole = self._sums_in(ScopedInterval(self._window.since, self._window.until), period | {"dimension": dimension})
        included = self._ledger_sums(period | {"dimension": dimension})
        if self._of != "capacity":
            whole, included = (each.filter(pl.col("state") == "allocated") for each in (whole, included))
        return float(whole["gpu_seconds"].sum() or 0) - float(included["gpu_seconds"].sum() or 0)

    # Moments -------------------------------------------------------------------------------------------------

    def touched(self, interval: ScopedInterval, attempts: pl.DataFrame) -> pl.DataFrame:
        """Attempts (with their keys) that hold a node which the interval excludes."""
        if not interval.without:
            return attempts.clear()
        held = self._source.query("attempt_nodes", cluster=self._window.cluster)
        out = held.filter(pl.col("node").is_in(sorted(interval.without)))
        return attempts.join(out, on=list(frames.ATTEMPT_KEY), how="semi")

    def events_in_scope(self, events: pl.DataFrame, at: str, *, ends: bool = False) -> pl.DataFrame:
        """Events of attempts, or of runs, that lie in no exclusion; `at` is the column of their moments.

        `ends`: they are ends of attempts, which belong to the time before them, in which the attempts ran.
        """
        included = []
        for interval in self.intervals:
            if interval.without is None:
                continue
            low, high = frames.instant(interval.since), frames.instant(interval.until)
            inside = events.filter(pl.col(at).is_between(low, high, closed="right" if ends else "left"))
            if interval.without:
                out = self.touched(interval, inside).select(frames.ATTEMPT_KEY)
                inside = inside.join(out, on=list(frames.ATTEMPT_KEY), how="anti", maintain_order="left")
            included.append(inside)
        return pl.concat(included) if included else events.clear()

    @property
    def excluded_s(self) -> float:
        """Seconds of the window in which something is excluded."""
        return sum((each.until - each.since).total_seconds() for each in self.intervals if each.without != frozenset())


def _same(scope: Any, *names: str) -> pl.Expr:  # noqa: ANN401 - the scope's own fields
    conditions = [(pl.col(name) == value).fill_null(value=False) for name in names if (value := getattr(scope, name))]
    return pl.all_horizontal(pl.lit(value=True), *conditions)


def _sized(scope: Any, gpus: pl.Expr) -> pl.Expr:  # noqa: ANN401 - as above
    low = gpus >= scope.gpus_min if scope.gpus_min is not None else pl.lit(value=True)
    return low & (gpus <= scope.gpus_max if scope.gpus_max is not None else pl.lit(value=True))


def matching(pattern: str, names: Iterable[str]) -> list[str]:
    """The names that a node pattern matches.

    >>> matching("gpu[1-2],login*", ["gpu1", "gpu3", "login-a"])
    ['gpu1', 'login-a']
    """
    items = pattern_items(pattern)
    globs = [item for item in items if set(item) & set("*?")]
    listed = {name for item in items if item not in globs for name in expand(item)}
    return [name for name in names if name in listed or any(fnmatch.fnmatchcase(name, item) for item in globs)]


def _excluded_nodes(exclusion: Exclusion, names: pl.DataFrame | None, cluster: str) -> frozenset[str] | None:
    """Nodes of an exclusion; None: all."""
    if names is None or (exclusion.nodes is None and exclusion.partition is None):
        return None
    if exclusion.nodes is not None:
        nodes = matching(exclusion.nodes, names["node"])
    else:
        inside = pl.col("partitions").list.contains(exclusion.partition).fill_null(value=False)
        nodes = names.filter(inside)["node"].to_list()
    if not nodes:
        what = exclusion.nodes or f"in the partition {exclusion.partition}"
        raise EmptyScopeError(f"the nodes of the exclusion {exclusion.reason!r}: none of {cluster} is {what}")
    return frozenset(nodes)


def _intervals(window: Window, left_out: list[tuple[Exclusion, frozenset[str] | None]]) -> list[ScopedInterval]:
    """The window, cut at every beginning and end of an exclusion within it."""
    ends = {window.since, window.until}
    for each, _ in left_out:
        ends |= {moment for moment in (each.since, each.until) if moment and window.since < moment < window.until}
    cuts = sorted(ends)
    intervals = []
    for low, high in itertools.pairwise(cuts):
        active = [
            nodes for each, nodes in left_out if each.since and each.until and each.since < high and each.until > low
        ]
        without = None if None in active else frozenset().union(*(nodes for nodes in active if nodes))
        intervals.append(ScopedInterval(low, high, without))
    return intervals
