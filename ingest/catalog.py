"""The list of sources: what each one feeds, as which files it comes, and the command that asks for it live."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ingest.frames import SourceName


@dataclass(frozen=True)
class Source:
    """One source. `feeds` are warehouse tables; `gives` says in a sentence what it is good for."""

    name: SourceName
    title: str
    feeds: tuple[str, ...]
    files: str
    command: str
    gives: str


SOURCES: Final = (
    Source(
        name="slurm.accounting",
        title="Slurm job accounting",
        feeds=("attempts", "attempt_nodes"),
        files="sacct -P text, any columns in any order, or the documented 26 columns without a header; gzip",
        command="sacct -a -D -X -P",
        gives="Every execution of every job: who, when, on which nodes with how many GPUs, and how it ended.",
    ),
    Source(
        name="slurm.events",
        title="Slurm node events",
        feeds=("node_states",),
        files="sacctmgr -P show event text",
        command="sacctmgr -P show event",
        gives="When nodes were down, drained or in maintenance, and why. Without it idle and broken look the same.",
    ),
    Source(
        name="slurm.nodes",
        title="Slurm node inventory",
        feeds=("nodes", "node_states"),
        files="scontrol show node text, with or without -o",
        command="scontrol show node -o",
        gives="How many GPUs there are. Without it capacity is assumed from the most that was ever allocated.",
    ),
    Source(
        name="slurm.config",
        title="Slurm settings",
        feeds=("cluster_settings",),
        files="scontrol show config text",
        command="scontrol show config",
        gives="The timeouts behind restart times, and whether GPUs are recorded at all.",
    ),
    Source(
        name="prometheus.gpu",
        title="GPU telemetry",
        feeds=("gpu_samples", "gpu_hours", "health_events"),
        files="OpenMetrics text with timestamps, dcgm-exporter's names; gzip",
        command="trackside ingest prometheus --url http://prometheus:9090",
        gives="What allocated GPUs did, and which XIDs they had. Without it allocated time cannot be told apart.",
    ),
    Source(
        name="prometheus.gpu_hours",
        title="GPU telemetry by the hour",
        feeds=("gpu_hours",),
        files="Parquet with the columns of gpu_hours",
        command="trackside ingest prometheus hours.parquet",
        gives="How long GPUs were active in each hour, where raw telemetry is gone.",
    ),
    Source(
        name="runlog",
        title="Run logs",
        feeds=("run_sessions", "steps", "run_events"),
        files="run log v1: JSON lines as the recorder writes them; gzip",
        command="",
        gives="Which allocated time became training steps that were kept, which was lost, and how fast a step was.",
    ),
)


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
