"""`trackside simulate`: a cluster whose truth is known, and the files that its sources would have written.

plan       faults, slow periods and maintenance of the nodes
work       jobs that people submit
trace      steps inside one execution of a job
scheduler  the cluster at work, event by event: its history
world      the truth: every GPU-second of the history in one category
kubernetes_work   what Kubernetes runs besides, on nodes that Slurm leaves empty
slurm_text, slurm_admin, kubernetes, telemetry, node_telemetry, health, run_logs, rank_times   likewise
truth      the truth in numbers
files      which files of a folder are a simulation's
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.demo.simulate.files import MANIFEST, clear, note
from app.demo.simulate.plan import Settings

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from app.demo.simulate.world import World

__all__ = ["MANIFEST", "Settings", "simulate"]

SLURM_FILES = ("sacct.txt", "events.txt", "nodes-start.txt", "nodes.txt", "config.txt")
SNAPSHOT_FILES = ("topology.txt", "reservations.txt", "associations.txt", "qos.txt", "transactions.txt", "sdiag.txt")
"""Snapshots of the cluster's settings at the end of the simulated time. Most of these texts do not have that time."""

KUBERNETES_FILES = ("kubernetes-watch.json", "kubernetes-cordoned.json", "kubernetes-uncordoned.json")
"""Nodes and pods of slurmd as a watch and two lists printed them."""

TELEMETRY_FILES = ("gpu_hours.parquet", "dcgm.om", "node_hours.parquet", "node_exporter.om", "health.parquet")
STAGES = 5
"""How often a simulation reports what it is doing."""

TRUTH_FILES = (
    "truth.json",
    *(f"truth/{name}.parquet" for name in ("intervals", "attempts", "failures", "restarts", "runs", "health")),
)


def simulate(settings: Settings, folder: Path, *, report: Callable[[str], None] = lambda _: None) -> World:
    """Make a cluster, and write its sources and its truth below a folder; the same settings give the same files.

    `report` receives what is being done, `STAGES` times. What an earlier simulation made in the folder goes first.

    Raises:
        UsageError: there are other files in the way.
    """
    from app.demo.simulate import (
        health,
        kubernetes,
        node_telemetry,
        rank_times,
        run_logs,
        slurm_admin,
        slurm_text,
        telemetry,
        truth,
    )
    from app.demo.simulate.kubernetes_work import with_work
    from app.demo.simulate.plan import plan
    from app.demo.simulate.scheduler import play
    from app.demo.simulate.world import World

    sources = folder / "sources"
    clear(folder)
    sources.mkdir(parents=True, exist_ok=True)
    report(f"running {settings.gpus:,} GPUs for {settings.days} days")
    world = World(with_work(play(settings, plan(settings))))
    logs = [*(f"runs/{name}" for name in run_logs.names(world)), *(f"ranks/{name}" for name in rank_times.names(world))]
    named = (*SLURM_FILES, *SNAPSHOT_FILES, *KUBERNETES_FILES, *TELEMETRY_FILES, *logs)
    note(folder, (*(f"sources/{name}" for name in named), *TRUTH_FILES))
    report("writing the output of Slurm's tools")
    for name, text in (
        ("sacct.txt", slurm_text.sacct(world)),
        ("events.txt", slurm_text.events(world)),
        ("nodes-start.txt", slurm_text.nodes(world, at_end=False)),
        ("nodes.txt", slurm_text.nodes(world, at_end=True)),
        ("config.txt", slurm_text.config(settings)),
        ("topology.txt", slurm_admin.topology(world)),
        ("reservations.txt", slurm_admin.reservations(world)),
        ("associations.txt", slurm_admin.associations(world)),
        ("qos.txt", slurm_admin.qos(world)),
        ("transactions.txt", slurm_admin.transactions(world)),
        ("sdiag.txt", slurm_admin.sdiag(world)),
        *zip(KUBERNETES_FILES, kubernetes.texts(world), strict=True),
    ):
        (sources / name).write_text(text, encoding="utf-8")
    report("writing the samples of the exporters")
    telemetry.gpu_hours(world).write_parquet(sources / "gpu_hours.parquet", compression="zstd")
    (sources / "dcgm.om").write_text(telemetry.openmetrics(world), encoding="utf-8")
    node_telemetry.node_hours(world).write_parquet(sources / "node_hours.parquet", compression="zstd")
    (sources / "node_exporter.om").write_text(node_telemetry.openmetrics(world), encoding="utf-8")
    health.readings(world).write_parquet(sources / "health.parquet", compression="zstd")
    report("writing what the training loops would log")
    run_logs.write_run_logs(world, sources / "runs")
    rank_times.write_rank_times(world, sources / "ranks")
    report("writing the truth")
    truth.write_truth(world, folder)
    return world
