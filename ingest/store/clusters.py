"""Which cluster rows belong to whose log names none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from queries.warehouse import Writer

LOCAL: Final = "local"
"""Cluster of logs of a machine that is part of none."""


def cluster_of_jobs(writer: Writer) -> str:
    """The cluster of a job id where the log names none: the only one with accounting; empty: there are several."""
    names = writer.query("accounted_clusters")["cluster"].to_list()
    return LOCAL if not names else str(names[0]) if len(names) == 1 else ""
