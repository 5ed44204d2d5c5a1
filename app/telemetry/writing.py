"""Telemetry into the warehouse: samples merged with those that are there, their hours rolled up, events."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from typing import TYPE_CHECKING, Final

import polars as pl

from app.loading import account_row
from ingest import xid
from ingest.dcgm import SOURCE
from ingest.frames import GPU_SAMPLES, HEALTH_EVENTS, Parsed, conform
from ingest.gpu_hours import once_each
from ingest.roll_up import Activity, rolled_up
from ingest.sample_merge import merge

if TYPE_CHECKING:
    from app.config import Config
    from queries.warehouse import Writer

ALIASES: Final = "prometheus"
"""Source in `node_aliases` of names that telemetry has for nodes."""


def load(
    writer: Writer, settings: Config, parsed: Parsed, cluster: str, *, origin: str, data: bytes, now: datetime
) -> None:
    """Write one input: samples merged with those that are there, their hours rolled up, events, rejects, an account."""
    clusters = parsed.clusters or frozenset({cluster})
    frames = {name: _renamed(writer, frame, clusters) for name, frame in parsed.frames.items()}
    told = replace(parsed, clusters=clusters)
    with writer.transaction():
        if "gpu_samples" in frames:
            _write_samples(writer, settings, frames["gpu_samples"], cluster)
        if "gpu_hours" in frames:
            _write_hours(writer, once_each(frames["gpu_hours"]))  # two names may have been one node
        if "health_events" in frames:
            _write_events(writer, frames["health_events"])
        writer.append_new("rejects", parsed.rejects, keys=["cluster", "source", "reason", "raw"])
        for name in sorted(clusters):
            writer.append("loads", account_row(told, name, origin=origin, data=data, now=now))


def _renamed(writer: Writer, frame: pl.DataFrame, clusters: frozenset[str]) -> pl.DataFrame:
    """The frame with the scheduler's names of nodes, where `node_aliases` has other names for them."""
    for cluster in sorted(clusters):
        aliases = writer.query("node_aliases", cluster=cluster, source=ALIASES)
        if aliases.is_empty():
            continue
        numbered = frame.with_row_index("row")
        known = aliases.select(
            "name", "alias", pl.col("valid_from").cast(GPU_SAMPLES["ts"]), pl.lit(cluster).alias("cluster")
        )
        found = numbered.sort("ts").join_asof(
            known.sort("valid_from"),
            left_on="ts",
            right_on="valid_from",
            by_left=["cluster", "node"],
            by_right=["cluster", "name"],
            check_sortedness=False,
        )
        renamed = found.with_columns(node=pl.coalesce("alias", "node")).sort("row")
        frame = renamed.select(frame.columns)
    return frame


def _write_samples(writer: Writer, settings: Config, samples: pl.DataFrame, cluster: str) -> None:
    """Merge samples into the days that they fall in, and roll up the hours that they touch."""
    rules = settings.rules
    activity = Activity(rules.active_tensor, rules.active_gr_engine, rules.active_gpu_util)
    for (day,), new in samples.group_by(pl.col("ts").dt.date(), maintain_order=True):
        if not isinstance(day, date):
            continue
        begin = datetime.combine(day, time(), UTC)
        there = conform(
            writer.query("gpu_samples_between", cluster=cluster, since=begin, until=begin + timedelta(days=1)),
            GPU_SAMPLES,
        )
        merged = merge(there, new, interval_s=settings.prometheus.interval_s)
        if not merged.equals(there):
            writer.write_partition("gpu_samples", cluster, day, merged)
        hours = new.select(pl.col("ts").dt.truncate("1h")).unique()["ts"]
        touched = merged.filter(pl.col("ts").dt.truncate("1h").is_in(hours.implode()))
        _write_hours(writer, rolled_up(touched, activity))


def _write_hours(writer: Writer, hours: pl.DataFrame) -> None:
    """Write roll-ups; where one is there that knows more of the hour, that stays."""
    writer.run("delete_gpu_hours", {"incoming": hours})
    writer.run("insert_gpu_hours", {"incoming": hours})


def _write_events(writer: Writer, events: pl.DataFrame) -> None:
    merged = _merged_events(writer, events)
    if merged is not None:
        writer.replace("health_events", merged, keys=["cluster", "node", "gpu", "kind", "source"])


def _merged_events(writer: Writer, events: pl.DataFrame) -> pl.DataFrame | None:
    """All events of the GPUs that these are of; None if that is what is there already."""
    found = writer.query_with(
        "existing_health_events",
        {"incoming": events.select("cluster", "node", "gpu").unique()},
        source=SOURCE,
        kind="xid",
    )
    there = conform(found, HEALTH_EVENTS)
    merged = xid.merge(there, events)
    return None if merged.equals(there) else merged


def tells_news(writer: Writer, parsed: Parsed) -> bool:
    """Whether there are events that the warehouse does not have."""
    events = _renamed(writer, parsed.frames["health_events"], parsed.clusters)
    return _merged_events(writer, events) is not None
