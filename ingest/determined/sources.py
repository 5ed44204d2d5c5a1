"""The source of Determined's allocations."""

from __future__ import annotations

from typing import Final

from ingest.source import IngestSource, SourceFolder

ALLOCATIONS: Final = "determined.allocations"
SCHEDULER: Final = "determined"

SOURCES: Final = (
    IngestSource(
        name=ALLOCATIONS,
        title="Determined's allocations",
        feeds=("determined_allocations", "attempts"),
        counted=("determined_allocations", "attempts"),
        schedulers=(SCHEDULER,),
        files="CSV of det resources allocations, or of the master's /resources/allocation/allocations-csv; gzip",
        command="",
        purpose="Slots that each task held, and when. It has no nodes, no reasons and no states.",
        when_empty="did anything run in the period that was exported?",
        names_cluster=False,
    ),
)

FOLDER: Final = SourceFolder(
    "determined",
    "Determined.AI: allocations of its tasks, from the master's CSV export",
    SOURCES,
    position=6,
    called="Determined",
    loader="ingest.determined.store",
    files="CSV of allocations; .gz is accepted; - is standard input",
    epilog="""\
det resources allocations 2026-10-01T00:00:00Z 2026-11-01T00:00:00Z > october.csv
Allocations that still ran are completed by a later export. Exports may overlap.""",
    manual="sources/determined",
)
