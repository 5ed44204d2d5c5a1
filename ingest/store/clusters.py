"""The cluster of rows from logs that do not name one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ingest.errors import InputError

if TYPE_CHECKING:
    from queries.warehouse import Writer

LOCAL: Final = "local"
"""Cluster of logs from a machine outside all clusters."""


def cluster_of_jobs(writer: Writer) -> str:
    """The cluster of a job id where the log names none: the only one with accounting; empty: there are several."""
    names = writer.query("accounted_clusters")["cluster"].to_list()
    return LOCAL if not names else str(names[0]) if len(names) == 1 else ""


def only_cluster(writer: Writer, what: str) -> str:
    """The only cluster with accounting, for a source that names none.

    Args:
        writer: the warehouse.
        what: begins the message: "an export of Determined names".

    Raises:
        InputError: there is none, or there are several.
    """
    name = cluster_of_jobs(writer)
    if name in {"", LOCAL}:
        raise InputError(f"{what} no cluster; add --cluster NAME")
    return name
