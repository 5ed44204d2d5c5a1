"""The source of run logs, in the order in which inputs are loaded."""

from __future__ import annotations

from typing import Final

from ingest.source import Source, SourceFolder

SOURCES: Final = (
    Source(
        name="runlog",
        title="Run logs",
        feeds=("run_sessions", "steps", "run_events"),
        files="run log v1: JSON lines as the recorder writes them; gzip",
        command="",
        gives="Which allocated time became training steps that were kept, which was lost, and how fast a step was.",
    ),
)

FOLDER: Final = SourceFolder("runlog", "Run logs of training jobs", SOURCES, position=3)
