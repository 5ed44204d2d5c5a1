"""The list of sources: what each one feeds, as which files it comes, and the command that asks for it live."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ingest.tables import SourceName


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
        feeds=("attempts", "node_lists"),
        files="sacct -P text, any columns in any order, or the documented 26 columns without a header; sacct --json, "
        "slurmrestd's slurmdb jobs; gzip",
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
        files="scontrol show node text, with or without -o, or --json; slurmrestd's nodes",
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
        name="slurm.topology",
        title="Slurm network topology",
        feeds=("node_topology",),
        files="scontrol show topology text, tree or block",
        command="scontrol show topology",
        gives="Which switch or block each node hangs on. Without it placement cannot be judged.",
    ),
    Source(
        name="slurm.reservations",
        title="Slurm reservations",
        feeds=("reservations", "node_states"),
        files="scontrol show reservation text or --json, or sacctmgr -P show reservation",
        command="scontrol show reservation -o",
        gives="Which nodes were set aside, and when for maintenance.",
    ),
    Source(
        name="slurm.associations",
        title="Slurm associations",
        feeds=("associations", "users"),
        files="sacctmgr -P show assoc text, or show user withassoc",
        command="sacctmgr -P show assoc",
        gives="Who may use what: users, accounts, shares and limits.",
    ),
    Source(
        name="slurm.qos",
        title="Slurm qualities of service",
        feeds=("qos",),
        files="sacctmgr -P show qos text",
        command="sacctmgr -P show qos",
        gives="Priorities, preemption and limits behind waiting and preempted jobs.",
    ),
    Source(
        name="slurm.transactions",
        title="Slurm account changes",
        feeds=("transactions", "users"),
        files="sacctmgr -P show transactions text",
        command="sacctmgr -P show transactions",
        gives="When users got their accounts, and who changed limits when.",
    ),
    Source(
        name="slurm.diag",
        title="Slurm scheduler statistics",
        feeds=("scheduler_stats",),
        files="sdiag text",
        command="sdiag",
        gives="Whether the controller keeps up: queues, cycles, backfill.",
    ),
    Source(
        name="slurm.runaway",
        title="Slurm runaway jobs",
        feeds=("runaway_jobs",),
        files="sacctmgr -P show runawayjobs text",
        command="echo n | sacctmgr -P show runawayjobs",
        gives="Jobs whose end was lost: without it they seem to run, and to hold GPUs, for ever.",
    ),
    Source(
        name="slurm.jobs",
        title="Slurm jobs as slurmctld shows them",
        feeds=("job_gpus",),
        files="scontrol show job -d text, with or without -o; squeue --json, slurmrestd's jobs",
        command="scontrol show job -d",
        gives="GPUs of jobs of which accounting records none (no gres/gpu in AccountingStorageTRES).",
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
        name="prometheus.node",
        title="Node telemetry",
        feeds=("node_samples", "node_hours"),
        files="OpenMetrics text with timestamps, node_exporter's names; Parquet with the columns of node_samples",
        command="trackside ingest prometheus --url http://prometheus:9090",
        gives="What CPUs, networks and filesystems did, by node, port and mount, and for whom.",
    ),
    Source(
        name="prometheus.health",
        title="Health from telemetry",
        feeds=("health_events",),
        files="OpenMetrics text with timestamps; Parquet with the columns of health_events",
        command="trackside ingest prometheus --url http://prometheus:9090",
        gives="Memory errors, flapping links, throttling, lost mounts, failing node conditions: who was hit, and when.",
    ),
    Source(
        name="prometheus.slurm",
        title="Slurm exporters",
        feeds=("cluster_samples",),
        files="OpenMetrics text with timestamps; Parquet with the columns of cluster_samples",
        command="trackside ingest prometheus --url http://prometheus:9090",
        gives="What the scheduler itself counted: a cross-check of accounting.",
    ),
    Source(
        name="prometheus.kubernetes",
        title="Kubernetes names of nodes",
        feeds=("node_aliases",),
        files="OpenMetrics text with timestamps, kube-state-metrics' names",
        command="trackside ingest prometheus --url http://prometheus:9090",
        gives="Which Slurm node is which pod on which host, so that telemetry finds its node.",
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
