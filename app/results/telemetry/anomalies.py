"""Anomalies of a window: hours of GPUs, ports and mounts, a day at a time, against those of the same attempt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import polars as pl

from app.results.stored import RESULTS
from app.results.telemetry.anomaly_days import (
    DAY,
    HourCounts,
    Hours,
    Stored,
    begin_of,
    days_tested,
    hours_before,
    number_of,
)
from app.results.telemetry.occupancy import rules_of
from metrics import frames
from metrics.anomalies.day_sums import HOURS_A_DAY, REACH_DAYS
from metrics.anomalies.evidence import deviation_text
from metrics.anomalies.hours import Limits
from metrics.anomalies.scan import Joined
from queries.errors import CorruptWarehouseError
from queries.warehouse import Writer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import date, datetime

    from app.results.telemetry.anomaly_days import DayTests
    from app.window import RowSource, Window
    from queries.warehouse import Reader

LOOKBACK: Final = REACH_DAYS * DAY
"""Days before a window that its tests depend on."""

MOST_RUNS: Final = 3
"""Runs that are named; more are counted."""


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
        run_ids: only hours of attempts of these runs; None: all. What is stored is of all.
    """
    days = _days(source, window)
    if not days:
        return Anomalies(Joined().result(), 0, 0, 0, _NOTHING_HELD)
    hours = _hours(source, window, run_ids)
    first, last = window.since.date(), days[-1] + DAY
    stored = Stored(hours, first, last, unchanged=_unchanged(source, window)) if run_ids is None else None
    spans = {day: span for day in days if (span := _within(day, window, hours.until)) is not None}
    try:
        return _joined(days_tested(hours, days, spans, stored), hours.held)
    except CorruptWarehouseError:
        if stored is None:
            raise
        return _joined(days_tested(hours, days, spans, None), hours.held)


def _unchanged(source: Reader | Writer, window: Window) -> bool:
    """Whether the last computation is the newest change, and the window lies within what it computed."""
    if isinstance(source, Writer) or source.fact_of_version(RESULTS) is None:
        return False
    return bool(window.until <= source.query("computed", cluster=window.cluster)["until"].item())


def _joined(days: Iterator[DayTests], held: pl.DataFrame) -> Anomalies:
    window, counts = Joined(), [HourCounts()]
    for day in days:
        window.add(day.sums)
        counts.append(day.counts)
    busy, compared, devices = (sum(each) for each in zip(*counts, strict=True))
    return Anomalies(window.result(), busy, compared, devices, held)


_NOTHING_HELD: Final = pl.DataFrame(schema={**frames.ATTEMPT_NODES, "attempt": frames.COUNT, "selected": frames.FLAG})


def _hours(source: Reader | Writer, window: Window, run_ids: list[str] | None) -> Hours:
    """Hours of a window and the days before it, as far as the cluster was computed; of a later window, of it all."""
    computed = source.query("computed", cluster=window.cluster).row(0, named=True)
    rules = rules_of(computed)
    limits = Limits(rules.active_tensor, rules.active_gr_engine, rules.active_gpu_util)
    held = held_by(source, window, run_ids)
    return Hours(source, window.cluster, limits, held, max(computed["until"], window.until))


def held_by(source: RowSource, window: Window, run_ids: list[str] | None = None) -> pl.DataFrame:
    """What attempts held of nodes in a window and the days before it.

    Returns:
        `frames.ATTEMPT_NODES` with a number of each attempt, and whether it is `selected`: of some runs, or all.
    """
    key = list(frames.ATTEMPT_KEY)
    since = begin_of(window.since.date()) - 2 * LOOKBACK  # its stored days depend on as many
    until = begin_of(window.until.date()) + DAY
    rows = source.query("attempt_nodes_in", cluster=window.cluster, since=since, until=until)
    after = pl.col("ended_at").is_null() | (pl.col("ended_at") > frames.instant(since))
    near = frames.conform(rows, frames.ATTEMPT_NODES).filter(after)
    numbers = near.select(key).unique(maintain_order=True).with_row_index("attempt").with_columns(selected=True)
    if run_ids is not None:
        joined = source.query("run_attempts", cluster=window.cluster).filter(pl.col("run_id").is_in(run_ids))
        numbers = numbers.drop("selected").join(joined.select(*key, selected=True), on=key, how="left")
    return near.join(numbers, on=key, how="left", maintain_order="left")


def _days(source: RowSource, window: Window) -> list[date]:
    """UTC days with telemetry of GPUs or nodes, from the days before the window on, the first one first."""
    period = {"cluster": window.cluster, "since": begin_of(window.since.date()) - LOOKBACK, "until": window.until}
    days = [source.query(name, **period)["day"] for name in ("gpu_telemetry_days", "node_telemetry_days")]
    return sorted({day for each in days for day in each})


def _within(day: date, window: Window, until: datetime) -> tuple[int, int] | None:
    """Whole hours (since 1970) of a day that lie within the window; None where there are none."""
    begin = number_of(day) * HOURS_A_DAY
    first = -(-int(window.since.timestamp()) // 3600)
    last = int(window.until.timestamp()) // 3600
    low, high = max(begin, first), min(begin + hours_before(day, until), last)
    return (low, high) if low < high else None


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


def node_anomalies(source: RowSource, window: Window, found: Anomalies) -> pl.DataFrame:
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


def _meanwhile(source: RowSource, window: Window, nodes: pl.DataFrame, held: pl.DataFrame) -> pl.DataFrame:
    """Incidents of nodes, and how many attempts were on them, between `since` and `until`."""
    spans = nodes.select("node", "since", "until")
    incidents = source.query("incidents_in", **window.parameters).select("node", "started_at", "ended_at", "kinds")
    happened = (
        _overlapping(spans, incidents).group_by("node").agg(incidents=pl.col("kinds").unique().sort().str.join("; "))
    )
    key = list(frames.ATTEMPT_KEY)
    joined = source.query("run_attempts", cluster=window.cluster).select(*key, "run_id")
    held_then = _overlapping(spans, held).join(joined, on=key, how="left")
    attempts = held_then.group_by("node").agg(n_attempts=pl.len(), runs=listed(pl.col("run_id").unique().sort()))
    return spans.select("node").join(happened, on="node", how="left").join(attempts, on="node", how="left")


def listed(names: pl.Expr) -> pl.Expr:
    """The first names, and how many more there are."""
    known = names.drop_nulls()
    more = (
        pl.when(known.len() > MOST_RUNS).then(pl.format(" and {} more", known.len() - MOST_RUNS)).otherwise(pl.lit(""))
    )
    return pl.when(known.len() > 0).then(known.head(MOST_RUNS).str.join(" ") + more)


def _overlapping(spans: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
    """Rows of these nodes (`started_at`, `ended_at`; null: no end) that overlap their spans."""
    open_end = pl.col("ended_at").is_null() | (pl.col("ended_at") >= pl.col("since"))
    return rows.join(spans, on="node").filter((pl.col("started_at") < pl.col("until")) & open_end)
