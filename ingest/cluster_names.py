"""Names of clusters: the default one, and valid names of folders (file systems limit those to 255 bytes)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from ingest.errors import OptionError
from ingest.load_warnings import LoadWarning

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

LONGEST: Final = 200
"""Characters of a cluster's name, as it is quoted in a path."""

TOO_LONG: Final = f"the name is longer than {LONGEST} characters (as it is quoted in a path); use a shorter one"


def fits_a_folder(cluster: str) -> bool:
    """Whether a folder can be named after a cluster.

    >>> fits_a_folder("alpha"), fits_a_folder("a" * 300)
    (True, False)
    """
    return len(quote(cluster, safe="", errors="replace")) <= LONGEST


def only_cluster(subject: str, names: Collection[str], *, option: str = "--cluster NAME") -> str:
    """The cluster of a subject where none was requested: the only known one.

    Args:
        subject: what is about one cluster, for the message.
        names: the clusters that are known.
        option: the option that names the cluster.

    Raises:
        OptionError: there are several, or none.

    >>> only_cluster("a report", ["alpha"])
    'alpha'
    """
    if len(names) == 1:
        return next(iter(names))
    raise OptionError(which_cluster(subject, names, option))


def which_cluster(subject: str, names: Collection[str], option: str = "--cluster NAME") -> str:
    """The message where the cluster is not unique.

    >>> print(which_cluster("sinfo.txt", []))
    sinfo.txt is about one cluster, and none is known.
    Name it: --cluster NAME
    >>> which_cluster("sinfo.txt", {"b", "a"}).splitlines()[0]
    'sinfo.txt is about one cluster, and there are several: a, b.'
    """
    candidates = f"there are several: {', '.join(sorted(names))}" if names else "none is known"
    return f"{subject} is about one cluster, and {candidates}.\nName it: {option}"


def foreign(cluster: str | None, clusters: Iterable[str]) -> list[LoadWarning]:
    """A warning where a text is of other clusters than the one passed.

    >>> [warning.message for warning in foreign("alpha", {"alpha", "beta"})], foreign(None, {"beta"})
    (['rows name other clusters than alpha: beta'], [])
    """
    others = sorted(set(clusters) - {str(cluster)})
    detail = f"{cluster}: {', '.join(others)}"
    return [LoadWarning("other_clusters", len(others), detail)] if cluster and others else []
