"""Names of clusters: each becomes a folder's name, and file systems end those at 255 bytes."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

LONGEST: Final = 200
"""Characters of a cluster's name, as it is quoted in a path."""

TOO_LONG: Final = f"the name is longer than {LONGEST} characters (as it is quoted in a path); use a shorter one"


def fits_a_folder(cluster: str) -> bool:
    """Whether a folder can be named after a cluster.

    >>> fits_a_folder("alpha"), fits_a_folder("a" * 300)
    (True, False)
    """
    return len(quote(cluster, safe="", errors="replace")) <= LONGEST
