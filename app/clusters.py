"""Selection of clusters: all clusters of a warehouse, or the one that was requested."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.errors import UsageError
from ingest import cluster_names
from ingest.errors import OptionError
from queries.near_names import did_you_mean

if TYPE_CHECKING:
    from app.window import RowSource


def clusters(source: RowSource) -> list[str]:
    """Names of the clusters that data are loaded of, sorted."""
    return [str(name) for name in source.query("clusters")["cluster"]]


def requested_clusters(source: RowSource, requested: str | None) -> list[str]:
    """Every cluster, or the one that was requested.

    Raises:
        UsageError: there is no such cluster.
    """
    names = clusters(source)
    return names if requested is None else [require_cluster(requested, names)]


def require_cluster(requested: str, names: list[str]) -> str:
    """The cluster that was requested.

    Raises:
        UsageError: it is none of `names`.

    >>> require_cluster("a", ["b", "c"])
    Traceback (most recent call last):
    app.errors.UsageError: there is no cluster 'a'; there are: b, c
    """
    if requested not in names:
        hint = did_you_mean(requested, names) or f"; there are: {', '.join(names) or 'none'}"
        raise UsageError(f"there is no cluster {requested!r}{hint}")
    return requested


def select_cluster(subject: str, names: list[str], requested: str | None) -> str:
    """The cluster that a subject, such as a report, is about: the requested one, or the only one.

    Raises:
        UsageError: there is no such cluster, nothing is loaded, or there are several and none was requested.
    """
    if requested is not None:
        return require_cluster(requested, names)
    if not names:
        raise UsageError("no accounting has been loaded yet. Run: trackside ingest slurm")
    try:
        return cluster_names.only_cluster(subject, names)
    except OptionError as error:
        raise UsageError(str(error)) from None
