"""Windows of a verb: the computed time of each cluster within --cluster, --since and --until."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from app import console
from app.clusters import requested_clusters
from app.errors import UncoveredError, UsageError
from app.results.coverage import covered, in_words
from app.times import iso, moment
from app.window import Window
from ingest.counted import counted

if TYPE_CHECKING:
    from collections.abc import Callable

    from queries.warehouse import Reader

    Report = Callable[[str], object]

_PRINT: Final = partial(console.echo, error=True)


@dataclass(frozen=True)
class Period:
    """--cluster, --since and --until as typed; None where they are left out."""

    cluster: str | None = None
    since: str | None = None
    until: str | None = None


def windows(reader: Reader, period: Period, *, span: str = "", report: Report = _PRINT) -> list[Window]:
    """The computed window of each cluster, narrowed to the requested period.

    Args:
        reader: the published copy.
        period: the options as typed.
        span: a named query with the time that the rows of a question cover, where it needs no accounting: a cluster of
            which nothing is computed counts with that.
        report: receives warnings.

    Raises:
        UsageError: there is no such cluster or period, or no data in it.
    """
    uncomputed = _spanned_windows(reader, period, span) if span else []
    try:
        computed = [window for window, _ in computed_and_requested(reader, period, report=report)]
    except UsageError:
        if not uncomputed:
            raise
        computed = []
    return sorted([*computed, *uncomputed], key=lambda window: window.cluster)


def _spanned_windows(reader: Reader, period: Period, span: str) -> list[Window]:
    spans = (_spanned(reader, cluster, period, span) for cluster in requested_clusters(reader, period.cluster))
    return [window for window in spans if window is not None]


def _spanned(reader: Reader, cluster: str, period: Period, span: str) -> Window | None:
    """Period of a cluster's rows if none of it is computed; None if some of it is, or if there are no rows."""
    if reader.query("computed", cluster=cluster).height:
        return None
    low, high = reader.query(span, cluster=cluster).select("since", "until").row(0)
    if low is None:
        return None
    since, until = moment(period.since, end=high) or low, moment(period.until, end=high) or high
    if since >= until:
        raise UsageError(f"--since {iso(since)} is not before --until {iso(until)}")
    return Window(cluster, since, until)


def computed_and_requested(
    reader: Reader, period: Period, *, every: bool = False, report: Report = _PRINT
) -> list[tuple[Window, Window]]:
    """The window of each cluster, and the requested period whose covered part the window is.

    Args:
        reader: the published copy.
        period: the options as typed.
        every: all clusters must have data in the period; otherwise those that have none are reported and left out.
        report: receives warnings: gaps in the data, loads that are not computed yet.

    Raises:
        UsageError: there is no such cluster or period, or no data in it.
    """
    pairs: list[tuple[Window, Window]] = []
    uncovered: list[UncoveredError] = []
    for cluster in requested_clusters(reader, period.cluster):
        try:
            pairs += _of_cluster(reader, cluster, period, report)
        except UncoveredError as error:
            uncovered.append(error)
    if uncovered and (every or not pairs):
        raise uncovered[0]
    for each in uncovered:
        report(str(each))
    if not pairs and not reader.query("any_attempts")["any"].item():
        raise UsageError(_no_accounting(reader))
    if not pairs:
        raise UsageError("nothing has been computed yet. Run: trackside compute")
    return pairs


def _no_accounting(reader: Reader) -> str:
    """That no accounting is loaded, and what run logs alone give."""
    if reader.query("newest_runs", cluster=None, owner=None, most=1).is_empty():
        return "no accounting has been loaded yet. Run: trackside ingest slurm"
    return (
        "only run logs are loaded, and this needs accounting: trackside ingest slurm && trackside compute\n"
        "What a log alone gives, a page for each run:  trackside run"
    )


def _of_cluster(reader: Reader, cluster: str, period: Period, report: Report) -> list[tuple[Window, Window]]:
    """The window of a cluster and the requested period; nothing where it is not computed."""
    computed = reader.query("computed", cluster=cluster)
    if computed.is_empty():
        return []
    low, high = computed["since"].item(), computed["until"].item()
    since, until = moment(period.since, end=high) or low, moment(period.until, end=high) or high
    if period.since and period.until and since >= until:
        raise UsageError(f"--since {iso(since)} is not before --until {iso(until)}")
    requested = Window(cluster, since, until)
    coverage = covered(reader, requested)
    _warn_if_stale(reader, cluster, report)
    if coverage.share < 1:
        part = f"{in_words(coverage.share)} of {iso(since)} to {iso(until)}"
        report(f"{cluster}: the data cover {part}; the accounting of the rest is missing")
    return [(coverage.window, requested)]


def _warn_if_stale(reader: Reader, cluster: str, report: Report) -> None:
    newer = reader.query("loads_since_computed", cluster=cluster)["loads"].item()
    if newer:
        report(f"{cluster}: {counted(newer, 'load')} since the last computation; run: trackside compute")
