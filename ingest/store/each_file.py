"""The loop of every verb that loads files one by one: an unusable file is reported, and the others are loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ingest.errors import SourceError
from ingest.store.report import FAULTS, LoadReport, fault_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ingest.tables import Parsed


def load_each(
    names: Sequence[str],
    load: Callable[[str, str], Parsed],
    *,
    cluster: Callable[[], str],
    progress: Callable[[str, int, int], None],
) -> list[LoadReport]:
    """Load each file.

    Args:
        names: names of files.
        load: loads one, by its name and its cluster, in a transaction of its own; a fault leaves nothing of it behind.
        cluster: returns the cluster of a file that names none. It is called for each file: one may be the first of its
            cluster, and an unknown cluster is a fault of the file.
        progress: called with the current file, its number, and the number of files.

    Returns:
        One report for each file: what was loaded, or the fault.
    """
    reports = []
    for number, name in enumerate(names):
        progress(name, number, len(names))
        try:
            reports.append(LoadReport(name, load(name, cluster())))
        except (*FAULTS, SourceError) as error:  # one file must not keep the others out
            reports.append(LoadReport(name, error=fault_of(name, error)))
    return reports
