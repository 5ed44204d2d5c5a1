"""Anomalies of a window: hours of GPUs, ports and mounts, a day at a time, against those of the same attempt."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final, TypedDict

import polars as pl

from app.results.telemetry.busy_hours import BusyHours
from app.results.telemetry.gpu_activity import DAY, day_begin
from app.results.telemetry.occupancy import computed_rules
from metrics import frames
from metrics.anomalies.deviations import gpu_deviations, node_deviations
from metrics.anomalies.evidence import deviation_text
from metrics.anomalies.hours import Limits
from metrics.anomalies.peers import held_hours
from metrics.anomalies.scan import Scan

if TYPE_CHECKING:
    from datetime import date, datetime

    from app.window import Source, Window
    from queries.warehouse import Reader, Writer

LOOKBACK: Final = timedelta(days=7)
"""Days before a window from which the past of its GPUs is learnt."""

MOST_RUNS: Final = 3
"""Runs that are named; more are counted."""

_HOUR: Final = timedelta(hours=1)


@dataclass(frozen=True)
class Anomalies:
    """What was tested in a window.

    Attributes:
        rows: `metrics.anomalies.scan.ANOMALIES`.
        busy_hours: hours in which a GPU was busy.
        compared_hours: of these, those that were compared with at least three peers.
        device_hours: hours of ports and mounts.
        held: what attempts held of nodes in the window and the days before it.
    """

    rows: pl.DataFrame
    busy_hours: int
    compared_hours: int
    device_hours: int
    held: pl.DataFrame


def anomalies(source: Reader | Writer, window: Window, run_ids: list[str] | None = None) -> Anomalies:
    """Test every GPU, node, port and mount of a window.

    Args:
        source: of a cluster that was computed.
        window: only its whole hours count.
        run_ids: only hours of attempts of these runs; None: all.
    """
    days = _days(source, window)
    held = _held(source, window, run_ids) if days else _NOTHING_HELD
    scan, read = Scan(), _Hours(source, window.cluster, held)
    for day in days:
        for low, high, tested in _spans(day, window):
            deviations = read.deviations(low, high, counted=tested)
            if tested:
                scan.add(deviations)
            else:
                scan.learn(deviations)
    return Anomalies(scan.result(), read.busy, read.compared, read.devices, held)


_NOTHING_HELD: Final = pl.DataFrame(schema={**frames.ATTEMPT_NODES, "attempt": frames.COUNT, "meant": frames.FLAG})


def _held(source: Source, window: Window, run_ids: list[str] | None) -> pl.DataFrame:
    """`frames.ATTEMPT_NODES` with a number of each attempt, and whether it is `meant`: of some runs, or all."""
    key = list(frames.ATTEMPT_KEY)
    rows = frames.conform(source.query("attempt_nodes", cluster=window.cluster), frames.ATTEMPT_NODES)
    since = pl.lit(window.since - LOOKBACK, dtype=frames.TIME)
    near = rows.filter(
        (pl.col("started_at") < pl.lit(window.until, dtype=frames.TIME))
        & (pl.col("ended_at").is_null() | (pl.col("ended_at") > since))
    )
    numbers = near.select(key).unique(maintain_order=True).with_row_index("attempt").with_columns(meant=True)
    if run_ids is not None:
        joined = source.query("run_attempts", cluster=window.cluster).filter(pl.col("run_id").is_in(run_ids))
        numbers = numbers.drop("meant").join(joined.select(*key, meant=True), on=key, how="left")
    return near.join(numbers, on=key, how="left", maintain_order="left")


def _days(source: Source, window: Window) -> list[date]:
    """UTC days with telemetry of GPUs or nodes, from a week before the window on, the first one first."""
    period = {"cluster": window.cluster, "since": window.since - LOOKBACK, "until": window.until}
    days = [source.query(name, **period)["day"] for name in ("gpu_telemetry_days", "node_telemetry_days")]
    return sorted({day for each in days for day in each})


def _spans(day: date, window: Window) -> list[tuple[datetime, datetime, bool]]:
    """Whole hours of a day before the window, to learn from, and within it, to test."""
    begin, end = day_begin(day), day_begin(day) + DAY
    last = window.until.replace(minute=0, second=0, microsecond=0)
    first = window.since.replace(minute=0, second=0, microsecond=0)
    first += _HOUR if first < window.since else timedelta()
    spans = [(begin, min(end, first), False), (max(begin, first), min(end, last), True)]
    return [span for span in spans if span[0] < span[1]]


def _hour(moment: datetime) -> int:
    """Hours since 1970."""
    return round(moment.timestamp()) // 3600


class _Period(TypedDict):
    cluster: str
    since: datetime
    until: datetime


class _Hours:
    """Reads hours of a day, and counts them."""

    def __init__(self, source: Reader | Writer, cluster: str, held: pl.DataFrame) -> None:
        rules = computed_rules(source, cluster)
        limits = Limits(rules.active_tensor, rules.active_gr_engine, rules.active_gpu_util)
        self._hours = BusyHours(source, cluster, limits)
        self._source, self._cluster, self._held = source, cluster, held
        self._meant = held.filter("meant").select(pl.col("attempt").cast(frames.COUNT)).unique()
        self._all = self._meant.height == held["attempt"].n_unique()
        self.busy = self.compared = self.devices = 0

    def deviations(self, since: datetime, until: datetime, *, counted: bool) -> pl.DataFrame:
        """`deviations.DEVIATIONS` of hours of a day."""
        period: _Period = {"cluster": self._cluster, "since": since, "until": until}
        owners = held_hours(self._held, _hour(since), _hour(until))
        busy = self._owned(self._hours.of_day(since, until), owners)
        devices = self._owned(self._source.query("node_device_hours", **period), owners)
        of_gpus, of_nodes = gpu_deviations(busy), node_deviations(devices)
        if counted:
            self.busy += busy.height
            self.compared += of_gpus.filter(pl.col("level") == "gpu").select("node", "device", "hour").n_unique()
            self.devices += of_nodes.height
        return pl.concat([of_gpus, of_nodes])

    def _owned(self, hours: pl.DataFrame, owners: pl.DataFrame) -> pl.DataFrame:
        """Hours with their attempts: all hours, or those of the attempts that are meant."""
        if self._all:
            return hours.join(owners, on=["node", "hour"], how="left")
        return hours.join(owners.join(self._meant, on="attempt", how="semi"), on=["node", "hour"])


_NODES: Final[frames.Schema] = {
    "cluster": frames.TEXT,
    "node": frames.TEXT,
    "anomalous": frames.FLAG,
    "what": frames.TEXT,
    "since": frames.TIME,
    "until": frames.TIME,
    "incidents": frames.TEXT,
    "n_attempts": frames.COUNT,
    "runs": frames.TEXT,
    "n_tested": frames.COUNT,
    "q_value": frames.NUMBER,
}


def node_anomalies(source: Source, window: Window, found: Anomalies) -> pl.DataFrame:
    """What deviates on each node that was tested, and what else happened on it meanwhile; the clearest first.

    Args:
        source: where incidents are.
        window: that was tested.
        found: in it.

    Returns:
        `_NODES`: `what` is in words; times, incidents, attempts and runs are of what is anomalous.
    """
    flagged = pl.col("anomalous").fill_null(value=False)
    nodes = (
        found.rows.sort("q_value", "p_value", nulls_last=True)
        .with_columns(text=deviation_text())
        .group_by("node", maintain_order=True)
        .agg(
            anomalous=flagged.any(),
            what=pl.col("text").filter(flagged).str.join("; "),
            since=pl.col("since").filter(flagged).min(),
            until=pl.col("until").filter(flagged).max(),
            n_tested=pl.col("p_value").count(),
            q_value=pl.col("q_value").min(),
        )
        .with_columns(cluster=pl.lit(window.cluster))
    )
    beside = _meanwhile(source, window, nodes.filter("anomalous"), found.held)
    return frames.conform(nodes.join(beside, on="node", how="left", maintain_order="left"), _NODES)


def _meanwhile(source: Source, window: Window, nodes: pl.DataFrame, held: pl.DataFrame) -> pl.DataFrame:
    """Incidents of nodes, and how many attempts were on them, between `since` and `until`."""
    spans = nodes.select("node", "since", "until")
    incidents = source.query("incidents_in", **window.parameters).select("node", "started_at", "ended_at", "kinds")
    happened = _within(spans, incidents).group_by("node").agg(incidents=pl.col("kinds").unique().sort().str.join("; "))
    key = list(frames.ATTEMPT_KEY)
    joined = source.query("run_attempts", cluster=window.cluster).select(*key, "run_id")
    held_then = _within(spans, held).join(joined, on=key, how="left")
    attempts = held_then.group_by("node").agg(n_attempts=pl.len(), runs=listed(pl.col("run_id").unique().sort()))
    return spans.select("node").join(happened, on="node", how="left").join(attempts, on="node", how="left")


def listed(names: pl.Expr) -> pl.Expr:
    """The first names, and how many more there are."""
    known = names.drop_nulls()
    more = (
        pl.when(known.len() > MOST_RUNS).then(pl.format(" and {} more", known.len() - MOST_RUNS)).otherwise(pl.lit(""))
    )
    return pl.when(known.len() > 0).then(known.head(MOST_RUNS).str.join(" ") + more)


def _within(spans: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
    """Rows of these nodes (`started_at`, `ended_at`; null: no end) that overlap their spans."""
    open_end = pl.col("ended_at").is_null() | (pl.col("ended_at") >= pl.col("since"))
    return rows.join(spans, on="node").filter((pl.col("started_at") < pl.col("until")) & open_end)
