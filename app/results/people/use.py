"""What users and accounts used, and who may use the cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.results.waste import waste_flags
from metrics import frames
from metrics.people import access as access_metric
from metrics.people import coordinators as coordinators_metric
from metrics.people import names
from metrics.people.use import use

if TYPE_CHECKING:
    from datetime import datetime

    import polars as pl

    from app.window import RowSource, Window


def use_rows(source: RowSource, window: Window, dimension: str) -> pl.DataFrame:
    """What each user, by the latest name, or account used in the window: `metrics.people.use.use`."""
    interruptions = frames.conform(source.query("interruptions", **window.parameters), frames.INTERRUPTIONS)
    held = source.query("allocated_in_window", **window.parameters)["gpu_s"].item()
    flags = waste_flags(source, window)
    flags = names.with_latest_names(flags, renamed_users(source, window), user="user", at="submitted_at")
    return use(flags, interruptions, dimension, since=window.since, until=window.until, of_all_gpu_s=held)


def renamed_users(source: RowSource, window: Window) -> pl.DataFrame:
    """Users who were renamed before the end of the window: `metrics.people.names.RENAMES`."""
    return names.renames(_changes(source, window))


def uid_mismatches(source: RowSource, window: Window) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Numbers that several users had, and users that had several: `metrics.people.names.mismatches`."""
    uids = source.query("uids_of_users", cluster=window.cluster, until=window.until)
    return names.mismatches(frames.conform(uids, names.UIDS), renamed_users(source, window))


def coordinator_rows(source: RowSource, window: Window) -> pl.DataFrame:
    """Who may manage which account at the end of the window: `metrics.people.coordinators.coordinators`."""
    listed = source.query("coordinators_listed", cluster=window.cluster)
    return coordinators_metric.coordinators(
        frames.conform(listed, coordinators_metric.LISTED), _changes(source, window)
    )


def _changes(source: RowSource, window: Window) -> pl.DataFrame:
    changes = source.query("access_changes", cluster=window.cluster, until=window.until)
    return frames.conform(changes, access_metric.CHANGES)


def access_rows(source: RowSource, window: Window) -> pl.DataFrame:
    """Who may, or did, use the cluster at the end of the window: `metrics.people.access.access`."""
    cluster = window.cluster
    listed = source.query("access_listed", cluster=cluster)
    jobs = source.query("jobs_of_people", cluster=cluster, until=window.until)
    return access_metric.access(
        frames.conform(listed, access_metric.LISTED),
        _changes(source, window),
        frames.conform(jobs, access_metric.JOBS),
        until=window.until,
        accounted_from=_accounted_from(source, cluster),
    )


def _accounted_from(source: RowSource, cluster: str) -> datetime | None:
    """The beginning of the time that accounting covers."""
    rows = source.query("coverage", cluster=cluster, source="accounting")
    return rows["started_at"].min() if rows.height else None  # type: ignore[return-value]  # polars types min() broadly
