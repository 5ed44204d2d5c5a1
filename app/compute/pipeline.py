"""From raw tables to the ledger and the results: named query -> metric -> result table, one cluster at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from app.compute.agreement import TABLES as AGREEMENT
from app.compute.agreement import write_agreement
from app.compute.anomalies import write_anomalies
from app.compute.attempt_nodes import AttemptNodes
from app.compute.busy_hours import write_busy_hours
from app.compute.incidents import TABLES as INCIDENTS
from app.compute.incidents import write_incidents
from app.compute.inputs import Facts, covered_time
from app.compute.ledger import write_ledger
from app.compute.outcome import Computed
from app.compute.runs import write_runs
from app.compute.stored_results import forget_results, write_results
from app.compute.unchanged import FACT
from app.corrections import records as adjudications
from app.errors import NothingToComputeError
from app.results.constants import constants_text
from app.results.source import OF_ALL_WINDOWS, OF_ONE_WINDOW, CachedSource
from app.results.stored import RESULTS
from app.results.telemetry.activity_days import TABLES as ACTIVITY_DAYS
from app.results.windowed import WindowedSource
from app.window import Window
from metrics import frames
from metrics.corrections import corrected_states
from metrics.ettr.ettr import IMPUTED_CHECKPOINT_S, IMPUTED_RESTART_S
from metrics.failures.interruptions import AFTER_END_S, BEFORE_END_S, MERGE_S
from metrics.failures.second_order import ROOM_S
from metrics.ledger.log_evidence import logged_time
from metrics.ledger.straggling import straggling

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from app.compute.outcome import Days, Progress
    from app.config.settings import Config, Rules
    from app.results.stored import Verdicts
    from app.window import RowSource
    from queries.warehouse import Writer

DERIVED = (
    "attempt_activity",
    "attempt_node_activity",
    "user_activity",
    *ACTIVITY_DAYS,
    "mfu",
    "mfu_totals",
    "run_mfu_wall",
    "checkpoint_advice",
    "mfu_proxies",
    "expected_inputs",
    "verdicts",
    "computes",
)
"""Tables that a computation replaces, cluster by cluster."""

BY_ROW = ("inventory", "runs", "run_attempts", "interruptions", "restarts", "run_results", *INCIDENTS, *AGREEMENT)
"""Tables of which it replaces the rows that changed."""

BY_DAY = ("gpu_time", "ledger_days", "day_sums", "attempt_days", "node_activity_days")
"""Tables of which it replaces the days that changed: see `app.compute.ledger_days`. Others are in files, one a day:
those of `app.compute.busy_hours`, `app.compute.anomalies` and `app.compute.node_days`. Those of which it replaces the
windows that changed are in `app.compute.stored_results`."""


def compute(
    writer: Writer,
    settings: Config,
    *,
    now: datetime,
    since: datetime | None = None,
    until: datetime | None = None,
    full: bool = False,
    inputs: str | None = None,
    derive: bool = True,
    verdicts: Callable[[RowSource, Window], Verdicts] | None = None,
    progress: Callable[[str, int, int], None] = lambda _what, _done, _all: None,
) -> Computed:
    """Rebuild the derived tables of every cluster, all of them in one transaction.

    Args:
        writer: the warehouse.
        settings: rules that the numbers depend on.
        now: kept as `computed_at`.
        since: leave out the time before; the data's own beginning if None.
        until: leave out the time after; the end of the covered time if None.
        full: compute every day of the ledger and every standard window, not only those of which the inputs changed.
            The result is the same.
        inputs: stored with the new data version, so that a computation of the same can be left out
            (`app.compute.unchanged`); nothing is stored if None.
        derive: make attempts of Kubernetes and Determined anew of their objects; False where the warehouse has the
            attempts and not the objects (an evidence bundle).
        verdicts: makes the verdicts of a cluster from its new numbers
            (`app.claims.stored.StoredClaims.verdicts`); no verdict is stored if None.
        progress: receives what is being done, how much of the work is done, and how much there is.

    Raises:
        NothingToComputeError: there is no accounting between `since` and `until`; nothing is changed then.
        CheckError: the result breaks a law, such as conservation; nothing is changed then.
    """
    done: list[Window] = []
    empty: list[str] = []
    days: list[Days] = []
    with writer.transaction(), writer.views_computed_once():
        clusters = writer.query("clusters_to_compute")["cluster"].to_list()
        with_objects = writer.query("clusters_of_source", source="kubernetes.objects")["cluster"].to_list()
        if derive:
            _derive_attempts(writer, with_objects)
        stages = _Stages(progress, len(clusters))
        for cluster in clusters:
            rules = settings.rules
            covered = _clip(covered_time(writer, cluster, "accounting", rules), since, until)
            computed = _compute_cluster(
                writer,
                cluster,
                rules,
                covered,
                verdicts=verdicts,
                now=now,
                full=full,
                progress=stages.report,
                has_objects=cluster in with_objects,
            )
            stages.next_cluster()
            if computed is None:
                empty.append(cluster)
                continue
            window, changed = computed
            done.append(window)
            days.append(changed)
        if not done and not (since is None and until is None):
            raise NothingToComputeError(
                "nothing was computed and nothing changed: no accounting between --since and --until is loaded"
            )
        stages.report("checking that every GPU-second is accounted for once", 0.0)
        warnings = writer.stop_on_failed_checks(since=None if full else _first_changed(days, now))
        writer.put_fact_of_version(RESULTS, "stored")
        if inputs is not None:
            writer.put_fact_of_version(FACT, inputs)
    return Computed(done, empty, warnings, days)


def _first_changed(days: Sequence[Days], now: datetime) -> datetime:
    """Midnight of the first day of any ledger that was computed now; the time now if none was."""
    return min((each.since for each in days if each.since is not None), default=now)


def _derive_attempts(writer: Writer, with_objects: list[str]) -> None:
    """Derive attempts of Kubernetes and Determined once more: what they depend on may have been loaded after them.

    Args:
        writer: the warehouse.
        with_objects: the clusters with objects of Kubernetes.
    """
    with_metrics = writer.query("clusters_of_source", source="prometheus.pods")["cluster"].to_list()
    if with_objects or with_metrics:
        from ingest.kubernetes.store import derive  # noqa: PLC0415 - few clusters have objects

        for cluster in sorted({*with_objects, *with_metrics}):
            derive(writer, cluster)
    with_allocations = writer.query("clusters_of_source", source="determined.allocations")["cluster"]
    if not with_allocations.is_empty():
        from ingest.determined.store import derive as derive_allocations  # noqa: PLC0415 - as above

        for cluster in with_allocations:
            derive_allocations(writer, str(cluster))


class _Stages:
    """How much of a computation is done: `PER_CLUSTER` parts for each cluster, and `CHECKS` for the checks."""

    PER_CLUSTER = 100
    CHECKS = 15

    def __init__(self, report: Callable[[str, int, int], None], n_clusters: int) -> None:
        self._report = report
        self._done = 0
        self._all = self.PER_CLUSTER * n_clusters + self.CHECKS

    def report(self, what: str, share: float) -> None:
        """Report what is being done, and which share of the present cluster's work is done."""
        self._report(what, self._done + round(self.PER_CLUSTER * share), self._all)

    def next_cluster(self) -> None:
        """All of a cluster is done."""
        self._done += self.PER_CLUSTER


def _within(progress: Progress, what: str, begin: float, end: float) -> Progress:
    """The progress of a stage that takes this part of a cluster's work, about."""
    return lambda part, share: progress(f"{what}, {part}" if part else what, begin + share * (end - begin))


def _compute_cluster(
    writer: Writer,
    cluster: str,
    rules: Rules,
    covered: pl.DataFrame,
    *,
    verdicts: Callable[[RowSource, Window], Verdicts] | None,
    now: datetime,
    full: bool,
    has_objects: bool,
    progress: Progress,
) -> tuple[Window, Days] | None:
    key = pl.DataFrame({"cluster": [cluster]})
    for table in (*DERIVED, *BY_ROW, *BY_DAY) if covered.is_empty() else DERIVED:
        writer.delete(table, key)
    if covered.is_empty():
        forget_results(writer, cluster)
        return None
    window = Window(cluster, covered["started_at"].min(), covered["ended_at"].max())  # type: ignore[arg-type]  # polars types min() broadly
    source = CachedSource(WindowedSource(writer, window), only=OF_ALL_WINDOWS | OF_ONE_WINDOW)
    days = _write_runs_and_ledger(
        writer, source, window, rules, covered, now=now, full=full, has_objects=has_objects, progress=progress
    )
    progress(f"{cluster}: ledger: {days.changed} of {days.known} days changed", 0.65)
    writer.append("computes", _account(writer, window, rules, now))
    in_results = _within(progress, f"{cluster}: results", 0.65, 0.95)
    in_results("", 0.0)
    with writer.computed_once("run_interruptions"):
        windows = write_results(writer, source, window, rules=rules, now=now, full=full, progress=in_results)
        progress(f"{cluster}: results: {windows.changed} of {windows.known} windows changed", 0.95)
        if verdicts is not None:
            progress(f"{cluster}: verdicts on claims", 0.97)
        judged = None if verdicts is None else verdicts(source, window)
    if judged is not None:
        writer.append("verdicts", judged.rows)
        for fact, text in judged.facts.items():
            writer.put_fact_of_version(fact, text)
    return window, days


def _write_runs_and_ledger(
    writer: Writer,
    source: CachedSource,
    window: Window,
    rules: Rules,
    covered: pl.DataFrame,
    *,
    now: datetime,
    full: bool,
    has_objects: bool,
    progress: Progress,
) -> Days:
    """Write runs, interruptions, restarts, the ledger and what telemetry shows by day.

    What it reads of all attempts and their nodes is let go with its end: results need other rows, and as much memory.
    """
    cluster = window.cluster
    progress(f"{cluster}: runs and interruptions", 0.0)
    reported = frames.conform(source.query("node_states", cluster=cluster), frames.NODE_STATES)
    fixes = adjudications.fixes(writer, cluster)
    attempts = frames.conform(source.query("attempts", cluster=cluster), frames.ATTEMPTS)
    facts = Facts(
        covered,
        attempts,
        AttemptNodes(writer, cluster, attempts),
        corrected_states(reported, fixes.states),
        reported,
    )
    found = write_runs(writer, source, rules, facts, cluster=cluster, fixes=fixes, has_objects=has_objects, full=full)
    write_incidents(writer, cluster, facts.attempts, facts.on_nodes)
    in_ledger = _within(progress, f"{cluster}: ledger", 0.05, 0.65)
    in_ledger("", 0.0)
    logged = logged_time(found.executed, found.logs.sessions, found.logs.events, facts.attempts, found.interrupted)
    slow = straggling(found.executed)
    days = write_ledger(
        writer, window, rules, facts, logged=logged, straggling=slow, now=now, full=full, progress=in_ledger
    )
    write_agreement(writer, cluster, rules, facts, has_objects=has_objects)
    in_hours = _within(progress, f"{cluster}: telemetry", 0.64, 0.65)
    write_busy_hours(writer, cluster, rules, now=now, full=full, progress=in_hours)
    write_anomalies(writer, window, rules, now=now, full=full, progress=in_hours)
    return days


def _clip(covered: pl.DataFrame, since: datetime | None, until: datetime | None) -> pl.DataFrame:
    low = pl.col("started_at") if since is None else pl.max_horizontal("started_at", frames.instant(since))
    high = pl.col("ended_at") if until is None else pl.min_horizontal("ended_at", frames.instant(until))
    return covered.with_columns(started_at=low, ended_at=high).filter(pl.col("started_at") < pl.col("ended_at"))


def _account(writer: Writer, window: Window, rules: Rules, now: datetime) -> pl.DataFrame:
    constants = rules.model_dump() | {
        "failure_before_end_s": BEFORE_END_S,
        "failure_after_end_s": AFTER_END_S,
        "incident_merge_s": MERGE_S,
        "made_room_s": ROOM_S,
        "imputed_checkpoint_s": IMPUTED_CHECKPOINT_S,
        "imputed_restart_s": IMPUTED_RESTART_S,
    }
    return pl.DataFrame(
        {
            "cluster": [window.cluster],
            "since": [window.since],
            "until": [window.until],
            "computed_at": [now],
            "data_version": [writer.data_version],
            "constants": [constants_text(constants)],
        }
    )
