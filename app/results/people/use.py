"""What users and accounts used, and who may use the cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.results.waste import waste_flags
from metrics import frames
from metrics.people import access as access_metric
from metrics.people.use import use

if TYPE_CHECKING:
    from datetime import datetime

    import polars as pl

    from app.window import Source, Window


def use_rows(source: Source, window: Window, dimension: str) -> pl.DataFrame:
    """What each user or account used in the window: `metrics.people.use.use`."""
    interruptions = frames.conform(source.query("interruptions", **window.parameters), frames.INTERRUPTIONS)
    held = source.query("allocated_in_window", **window.parameters)["gpu_s"].item()
    flags = waste_flags(source, window)
    return use(flags, interruptions, dimension, since=window.since, until=window.until, of_all_gpu_s=held)


def access_rows(source: Source, window: Window) -> pl.DataFrame:
    """Who may, or did, use the cluster at the end of the window: `metrics.people.access.access`."""
    cluster = window.cluster
    listed = source.query("access_listed", cluster=cluster)
    changes = source.query("access_changes", cluster=cluster, until=window.until)
    jobs = source.query("jobs_of_people", cluster=cluster, until=window.until)
    return access_metric.access(
        frames.conform(listed, access_metric.LISTED),
        frames.conform(changes, access_metric.CHANGES),
        frames.conform(jobs, access_metric.JOBS),
        until=window.until,
        accounted_from=_accounted_from(source, cluster),
    )


def _accounted_from(source: Source, cluster: str) -> datetime | None:
    """The beginning of the time that accounting covers."""
    rows = source.query("coverage", cluster=cluster, source="accounting")
    return rows["started_at"].min() if rows.height else None  # type: ignore[return-value]  # polars types min() broadly
