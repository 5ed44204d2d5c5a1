"""What is run in each checkout: two warehouses are filled, then every kind of output is made from them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

BEGIN: Final = datetime.fromisoformat("2026-09-01T00:00:00+00:00")
"""First moment of a simulated cluster."""

SIMULATED: Final = "simulated"
CAPTURED: Final = "captured"
WAREHOUSES: Final = (SIMULATED, CAPTURED)
"""One is filled from `trackside simulate`, the other from outputs of real Slurm and Prometheus in `tests/data`."""

RUN: Final = "pretrain-13b"
"""A simulated run with a log and with interruptions."""

QUESTIONS: Final = {
    "goodput": ("day", "node", "user", "account", "partition", "run", "bucket"),
    "ettr": ("run",),
    "mttf": ("size", "law", "hazard", "reference", "cause", "partition", "user"),
    "mfu": ("run", "step", "gpu_model", "day", "node_class", "restart", "proxy", "estimate"),
    "restarts": ("stage", "event"),
    "lost": ("cause", "category", "day", "node", "user", "account", "partition", "run"),
    "interruptions": ("cause", "class", "node", "order", "delay"),
    "runs": (),
    "nodes": (),
    "lemons": (),
    "agreement": ("side", "lag", "node", "event"),
    "lifecycle": ("stage", "actor", "outcome", "node", "event"),
    "checkpoints": (),
    "waste": ("kind", "state", "user", "account", "partition", "run"),
    "utilisation": ("user", "account", "partition", "run", "attempt"),
    "filesystems": ("user", "account", "partition", "run", "attempt", "node"),
    "network": ("user", "account", "partition", "run", "attempt", "node"),
    "health": ("node", "attempt", "kind"),
    "scaling": ("day", "reference"),
    "stalls": (),
    "people": ("account",),
    "cost": ("user", "partition", "run", "category", "model", "day", "cluster"),
    "onboarding": ("account", "actor", "month"),
    "placement": ("run", "effect", "block", "segment"),
    "evictions": ("queue", "preemptor", "reason", "job"),
    "stragglers": ("rank",),
    "anomalies": ("gpu", "signal"),
}
"""Every question of `show`, and what it can be split by."""

OF_A_PERIOD: Final = ("goodput", "ettr", "mttf", "lost", "interruptions", "restarts", "nodes")

OF_ONE_RUN: Final = (
    ("ettr",),
    ("ettr", "--by", "stretch"),
    ("ettr", "--by", "class"),
    ("mfu",),
    ("restarts",),
    ("interruptions",),
    ("runs",),
    ("checkpoints",),
)


@dataclass(frozen=True)
class Job:
    """One call of the command.

    Attributes:
        output: the file that keeps what it prints, relative to the folder of outputs.
        argv: the arguments of the command.
    """

    output: str
    argv: tuple[str, ...]


def simulation(gpus: int, days: int, seed: int) -> Job:
    """The job that writes the sources of the simulated cluster."""
    size = ("--gpus", str(gpus), "--days", str(days), "--seed", str(seed))
    return Job("simulate/printed.txt", ("simulate", "--dir", "../outputs/simulate", *size))


def loading(sources: Path, captures: Path, days: int) -> list[Job]:
    """Jobs that fill both warehouses and compute them."""
    relative = "../outputs/simulate/sources"

    def files(names: Iterable[str]) -> list[str]:
        return [f"{relative}/{name}" for name in names]

    def load(name: str, *argv: str) -> Job:
        return Job(f"ingest/{name}.txt", ("ingest", *argv, "--warehouse", SIMULATED))

    slurm = files(("sacct.txt", "events.txt", "nodes-start.txt", "nodes.txt", "config.txt"))
    snapshots = files(
        f"{name}.txt" for name in ("topology", "reservations", "associations", "qos", "transactions", "sdiag")
    )
    telemetry = files(("gpu_hours.parquet", "dcgm.om", "node_hours.parquet", "node_exporter.om"))
    logs = files(f"runs/{log.name}" for log in sorted((sources / "runs").iterdir()))
    until = (BEGIN + timedelta(days=days)).isoformat()
    return [
        load("slurm", "slurm", *slurm),
        load("slurm-again", "slurm", *slurm),
        load("snapshots", "slurm", "--cluster", "demo", "--until", until, *snapshots),
        load("prometheus", "prometheus", "--cluster", "demo", *telemetry),
        load("runlog", "runlog", *logs),
        Job("compute/first.txt", ("compute", "--warehouse", SIMULATED)),
        _correction(days),
        Job("compute/corrected.txt", ("compute", "--warehouse", SIMULATED)),
        *(_capture(path) for path in sorted(captures.rglob("*")) if path.is_file()),
        Job("compute/captured.txt", ("compute", "--warehouse", CAPTURED)),
    ]


def _correction(days: int) -> Job:
    day = BEGIN + timedelta(days=days // 2)
    interval = ("--from", day.isoformat(), "--until", (day + timedelta(hours=3)).isoformat())
    state = ("--node", "gpu-003", "--state", "maintenance", "--author", "ann", "--reason", "agreed", "--no-compute")
    return Job("compute/correction.txt", ("adjudicate", "node-state", *interval, *state, "--warehouse", SIMULATED))


def _capture(path: Path) -> Job:
    source = path.parent.name
    context = ("--cluster", "lab", "--until", "2026-11-20T00:00Z", "--warehouse", CAPTURED)
    zone = ("--timezone", "UTC", "--accept-truncated") if source == "slurm" else ()
    return Job(
        f"ingest/captured/{path.name}.txt", ("ingest", source, f"captures/{source}/{path.name}", *zone, *context)
    )


def answers(tables: dict[str, Sequence[str]]) -> list[Job]:
    """Jobs that print everything the command can say of both warehouses."""
    return [
        *(job for warehouse in WAREHOUSES for job in _of_warehouse(warehouse, tables[warehouse])),
        *_of_simulation(),
        Job("grafana/printed.txt", ("dashboards", "build", "--dir", "../outputs/grafana")),
        Job("recorder.py.txt", ("recorder",)),
    ]


def _of_warehouse(warehouse: str, tables: Sequence[str]) -> list[Job]:
    where = ("--warehouse", warehouse)
    exported = [
        Job(
            f"tables/{warehouse}/{table}.txt",
            ("export", table, "--output", f"../outputs/tables/{warehouse}/{table}.parquet", *where),
        )
        for table in tables
    ]
    shown = [
        Job(f"show/{warehouse}/{_file_name(argv)}.json", ("show", *argv, "--format", "json", *where))
        for argv in (_all_questions() if warehouse == SIMULATED else _plain_questions())
    ]
    verbs = [
        Job(f"{verb}/{warehouse}.{suffix}", (verb, *(("--format", "json") if suffix == "json" else ()), *where))
        for verb in ("verify", "status")
        for suffix in ("json", "txt")
    ]
    return [*exported, *shown, *verbs, Job(f"doctor/{warehouse}.txt", ("doctor", *where))]


def _plain_questions() -> list[tuple[str, ...]]:
    return [(what,) for what in QUESTIONS]


def _all_questions() -> list[tuple[str, ...]]:
    split = [(what, "--by", by) for what, dimensions in QUESTIONS.items() for by in dimensions]
    return [*_plain_questions(), *split]


def _of_simulation() -> list[Job]:
    where = ("--warehouse", SIMULATED)
    period = ("--since", "2026-09-03", "--until", "2026-09-09")
    of_run = [(*argv, "--run", RUN) for argv in OF_ONE_RUN]
    special = [
        ("mttf", "--at", "512"),
        ("mfu", "--convention", "causal_half"),
        *((what, *period) for what in OF_A_PERIOD),
    ]
    tables = [(what, "--explain") for what in QUESTIONS]
    report = ("report", "sla", "--period", "2026-09", "--cluster", "demo")
    corrections = ("adjudicate", "list", "--all", "--format", "json")
    return [
        *(Job(f"show/special/{_file_name(argv)}.json", ("show", *argv, "--format", "json", *where)) for argv in of_run),
        *(
            Job(f"show/special/{_file_name(argv)}.json", ("show", *argv, "--format", "json", *where))
            for argv in special
        ),
        *(Job(f"show/tables/{_file_name(argv)}.txt", ("show", *argv, *where)) for argv in tables),
        *(Job(f"show/csv/{what}.csv", ("show", what, "--format", "csv", *where)) for what in OF_A_PERIOD),
        *(
            Job(f"report/{kind}.txt", (*report, "--format", kind, "--output", f"../outputs/report/sla.{kind}", *where))
            for kind in ("html", "json")
        ),
        Job("adjudicate/list.json", (*corrections, *where)),
    ]


def _file_name(argv: Sequence[str]) -> str:
    return " ".join(argv).replace("--", "").replace("  ", " ").replace(" ", "-")
