"""The sources of every folder that has some: what each one feeds, as which files it comes, and how it is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ingest.prometheus import sources as prometheus
from ingest.runlog import sources as runlog
from ingest.slurm import sources as slurm

if TYPE_CHECKING:
    from ingest.source import Source

SOURCES: Final = (*slurm.SOURCES, *prometheus.SOURCES, *runlog.SOURCES)


def source(name: str) -> Source:
    """The source of that name.

    >>> source("slurm.events").feeds
    ('node_states',)

    Raises:
        KeyError: There is none.
    """
    for one in SOURCES:
        if one.name == name:
            return one
    known = ", ".join(one.name for one in SOURCES)
    message = f"{name}; sources are {known}"
    raise KeyError(message)
