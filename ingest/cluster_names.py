"""Names of clusters: each becomes a folder's name, and file systems end those at 255 bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import quote

if TYPE_CHECKING:
    from collections.abc import Iterable

LONGEST: Final = 200
"""Characters of a cluster's name, as it is quoted in a path."""

TOO_LONG: Final = f"the name is longer than {LONGEST} characters (as it is quoted in a path); use a shorter one"


def fits_a_folder(cluster: str) -> bool:
    """Whether a folder can be named after a cluster.

    >>> fits_a_folder("alpha"), fits_a_folder("a" * 300)
    (True, False)
    """
    return len(quote(cluster, safe="", errors="replace")) <= LONGEST


def foreign(cluster: str | None, told: Iterable[str]) -> list[str]:
    """A warning where a text tells of other clusters than it was said to.

    >>> foreign("alpha", {"alpha", "beta"}), foreign(None, {"beta"})
    (['rows name other clusters than alpha: beta'], [])
    """
    others = sorted(set(told) - {str(cluster)})
    return [f"rows name other clusters than {cluster}: {', '.join(others)}"] if cluster and others else []
