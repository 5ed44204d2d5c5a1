"""Slurm's sources, in the order in which inputs are loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ingest.source import IngestSource, SourceFolder

if TYPE_CHECKING:
    from ingest.tables import SourceName


SOURCES: Final = (
    IngestSource(
        name="slurm.accounting",
        title="Slurm job accounting",
        feeds=("attempts", "node_lists", "step_usage", "job_summaries"),
        files="sacct -P text, any columns in any order, or the documented 26 columns without a header; sacct --json, "
        "slurmrestd's slurmdb jobs; gzip",
        command="sacct -a -D -P",
        purpose="Every execution of every job: who, when, on which nodes with how many GPUs, and how it ended.",
        when_empty="did the window hold any jobs?",
        counted=("attempts",),
        schedulers=("slurm",),
        prints_times="sacct ...",
        skips="steps of jobs, for the job itself holds the GPUs; headers that are repeated",
    ),
    IngestSource(
        name="slurm.events",
        title="Slurm node events",
        feeds=("node_states",),
        files="sacctmgr -P show event text",
        command="sacctmgr -P show event",
        purpose="When nodes were down, drained or in maintenance, and why. Without it idle and broken look the same.",
        when_empty="did the window hold any node events?",
        names_cluster=False,
        prints_times="sacctmgr -P show event ...",
        skips="events of the whole cluster, and states that leave a node in service; headers that are repeated",
    ),
    IngestSource(
        name="slurm.nodes",
        title="Slurm node inventory",
        feeds=("nodes", "node_states"),
        files="scontrol show node text, with or without -o, or --json; slurmrestd's nodes",
        command="scontrol show node -o",
        purpose="How many GPUs there are. Without it capacity is assumed from the most that was ever allocated.",
        counted=("nodes",),
        names_cluster=False,
        snapshot=True,
        prints_times="scontrol show node",
    ),
    IngestSource(
        name="slurm.config",
        title="Slurm settings",
        feeds=("cluster_settings",),
        files="scontrol show config text",
        command="scontrol show config",
        purpose="The timeouts behind restart times, and whether GPUs are recorded at all.",
        skips="settings without a value",
    ),
    IngestSource(
        name="slurm.topology",
        title="Slurm network topology",
        feeds=("node_topology",),
        files="scontrol show topology text, topology.conf or topology.yaml; tree or block",
        command="scontrol show topology",
        purpose="The switch or block of each node. Without it placement cannot be judged.",
        names_cluster=False,
        snapshot=True,
        dated=False,
    ),
    IngestSource(
        name="slurm.reservations",
        title="Slurm reservations",
        feeds=("reservations", "node_states"),
        files="scontrol show reservation text or --json, or sacctmgr -P show reservation",
        command="scontrol show reservation -o",
        purpose="Which nodes were set aside, and when for maintenance.",
        when_empty="were there any reservations?",
        counted=("reservations",),
        names_cluster=False,
        snapshot=True,
        dated=False,
        prints_times="sacctmgr -P show reservation ...",
    ),
    IngestSource(
        name="slurm.associations",
        title="Slurm associations",
        feeds=("associations", "users", "coordinators"),
        files="sacctmgr -P show assoc text, or show user withassoc withcoord",
        command="sacctmgr -P show assoc",
        purpose="Users, accounts, shares and limits; coordinators of accounts.",
        when_empty="was whoever made it allowed to see them?",
        snapshot=True,
        dated=False,
        skips="associations of accounts, without a user; headers that are repeated",
    ),
    IngestSource(
        name="slurm.qos",
        title="Slurm qualities of service",
        feeds=("qos",),
        files="sacctmgr -P show qos text",
        command="sacctmgr -P show qos",
        purpose="Priorities, preemption and limits behind waiting and preempted jobs.",
        when_empty="was whoever made it allowed to see them?",
        names_cluster=False,
        snapshot=True,
        dated=False,
    ),
    IngestSource(
        name="slurm.transactions",
        title="Slurm account changes",
        feeds=("transactions", "users"),
        files="sacctmgr -P show transactions text",
        command="sacctmgr -P show transactions",
        purpose="When users got their accounts, and changes of limits with author and time.",
        when_empty="did the window hold any account changes?",
        counted=("transactions",),
        names_cluster=False,
        prints_times="sacctmgr -P show transactions ...",
        skips="changes of other clusters of the same slurmdbd; headers that are repeated",
    ),
    IngestSource(
        name="slurm.diag",
        title="Slurm scheduler statistics",
        feeds=("scheduler_stats",),
        files="sdiag text",
        command="sdiag",
        purpose="Whether the controller keeps up: queues, cycles, backfill.",
        names_cluster=False,
        snapshot=True,
        skips="calls by user, pending calls, and times that are not set yet",
    ),
    IngestSource(
        name="slurm.runaway",
        title="Slurm runaway jobs",
        feeds=("runaway_jobs",),
        files="sacctmgr -P show runawayjobs text",
        command="echo n | sacctmgr -P show runawayjobs",
        purpose="Jobs whose end was lost: without it they seem to run, and to hold GPUs, for ever.",
        snapshot=True,
        dated=False,
        prints_times="echo n | sacctmgr -P show runawayjobs",
    ),
    IngestSource(
        name="slurm.jobs",
        title="Slurm jobs as slurmctld shows them",
        feeds=("job_gpus",),
        files="scontrol show job -d text, with or without -o; squeue --json, slurmrestd's jobs",
        command="scontrol show job -d",
        purpose="GPUs of jobs of which accounting records none (no gres/gpu in AccountingStorageTRES).",
        names_cluster=False,
        prints_times="scontrol show job -d",
        skips="jobs without any record of GPUs",
    ),
)


def source_named(name: SourceName) -> IngestSource:
    """Slurm's source of that name.

    Raises:
        KeyError: no source has that name.
    """
    return {source.name: source for source in SOURCES}[name]


FOLDER: Final = SourceFolder(
    "slurm", "Slurm accounting, node events and inventories", SOURCES, position=1, called="Slurm"
)
