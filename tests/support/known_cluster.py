"""Two hours of a cluster of which every number is known, what its GPUs and nodes did, and its health events."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

import polars as pl

from app.api import QUESTIONS
from app.compute import pipeline as computing
from app.config.settings import Config
from app.show.answer import Question
from app.window import Window
from ingest.prometheus.load_files import ingest_files
from ingest.prometheus.target import TelemetryRequest
from ingest.slurm import load_files as ingesting
from ingest.tables import HEALTH_EVENTS, NODE_SAMPLES, conform
from queries.warehouse import open_writer
from tests.support.warehouses import made

if TYPE_CHECKING:
    from pathlib import Path

    from app.show.answer import Answer
    from queries.warehouse import Reader, Writer

NOW = datetime(2026, 9, 23, tzinfo=UTC)
MIDNIGHT = 1_790_035_200  # 2026-09-22T00:00:00Z
HOUR = 3600
START, END = MIDNIGHT - HOUR, MIDNIGHT + HOUR


def at(second: int) -> datetime:
    return datetime.fromtimestamp(second, UTC)


WINDOW = Window("c", at(START), at(END))


def job(number: int, user: str, node: str, gpus: int, name: str = "train", *, begin: int = START) -> str:
    """A line of accounting: a job to the end of the second hour."""
    tres = f"cpu=64,gres/gpu={gpus},node=1" if gpus else "cpu=4,node=1"
    times = f"{START}|{START}|{begin}|{END}"
    return f"{number}|{number}|c|{user}|{user}lab|main|{name}|COMPLETED|0:0|{times}|1|{tres}|{node}\n"


SACCT = (
    "JobID|JobIDRaw|Cluster|User|Account|Partition|JobName|State|ExitCode|Submit|Eligible|Start|End|NNodes|AllocTRES"
    "|NodeList\n"
    + job(1, "alice", "n1", 2)
    + job(2, "alice", "n2", 1)
    + job(3, "alice", "n2", 1)
    + job(4, "root", "n3", 2, "hpc-verification")
    + job(5, "bob", "n4", 2)
    + job(6, "carol", "n4", 0, begin=MIDNIGHT)  # no GPUs, but it reads files
    + job(7, "bob", "n5", 2)  # nobody reads its GPUs
)
RATES = {
    ("fs_operations_per_s", "/data"): 100.0,
    ("fs_response_s_per_s", "/data"): 0.25,
    ("fs_read_bytes_per_s", "/data"): 1e6,
    ("fs_operations_per_s", "/home"): 1.0,
    ("ib_received_bytes_per_s", "mlx5_0/1"): 2e9,
    ("cpu_busy", ""): 0.5,
}


def readings() -> str:
    """Every 60 s what GPUs of four nodes did: GPU 0 is busy, GPU 1 is idle in the second hour."""
    result = []
    for second in range(START + 60, END + 1, 60):
        for node in ("n1", "n2", "n3", "n4"):
            for gpu, util in {"0": 100, "1": 40}.items():
                labels = f'gpu="{gpu}",UUID="GPU-{node}-{gpu}",Hostname="{node}"'
                value = 0 if gpu == "1" and second > MIDNIGHT else util
                result += [f"DCGM_FI_DEV_GPU_UTIL{{{labels}}} {value} {second}",
                          f"DCGM_FI_DEV_POWER_USAGE{{{labels}}} {300 if value else 100} {second}"]  # fmt: skip
    return "\n".join([*result, "# EOF"]) + "\n"


def node_samples() -> pl.DataFrame:
    """Every 60 s what nodes did; on n1 before its job, too."""
    rows = [
        ("c", node, metric, device, at(second), 60.0, value)
        for node in ("n1", "n3", "n4", "nx")
        for (metric, device), value in RATES.items()
        for second in range(START - (600 if node == "n1" else 0), END, 60)
    ]
    return pl.DataFrame(rows, schema=NODE_SAMPLES, orient="row")


def write_samples(writer: Writer, samples: pl.DataFrame) -> None:
    order = ["node", "metric", "device", "ts"]
    with writer.transaction():
        for (day,), rows in samples.group_by(pl.col("ts").dt.date()):
            assert isinstance(day, date)
            writer.write_partition("node_samples", "c", day, rows.sort(order))


EVENTS = [
    {"node": "n1", "gpu": "0", "ts": at(END - 60), "kind": "xid", "code": "79", "class": "HW", "severity": "critical",
     "action": "RESET_GPU"},
    {"node": "n1", "gpu": "1", "ts": at(END - 120), "kind": "ecc", "code": "dbe", "severity": "critical",
     "action": "RESET_GPU"},
    {"node": "n4", "ts": at(START + 60), "kind": "ib", "code": "flap", "device": "mlx5_0/1", "severity": "warning"},
    {"node": "n9", "ts": at(START + 60), "kind": "condition", "code": "DiskPressure", "severity": "info"},
]  # fmt: skip


def filled(root: Path, *, gpus: str | None = None, nodes: pl.DataFrame | None = None, events: bool = True) -> Path:
    """A computed warehouse."""
    with open_writer(root / "w", verb="test", now=NOW) as writer:
        load_files(writer, root, SACCT, gpus)
        if nodes is not None:
            write_samples(writer, nodes)
        if events:
            told = [{"cluster": "c", "source": "prometheus.health", "evidence": "telemetry"} | each for each in EVENTS]
            with writer.transaction():
                writer.append("health_events", conform(pl.DataFrame(told), HEALTH_EVENTS))
        computing.compute(writer, Config(), now=NOW)
    return root / "w"


def load_files(writer: Writer, root: Path, sacct: str, gpus: str | None) -> None:
    """Load accounting, and what an exporter said of GPUs, from files in `root`."""
    settings = Config()
    (root / "sacct.txt").write_text(sacct)
    ingesting.ingest_files(writer, settings, [str(root / "sacct.txt")], ingesting.Options(), now=NOW, progress=_silent)
    if gpus is not None:
        (root / "gpus.om").write_text(gpus)
        requested = TelemetryRequest(cluster="c")
        ingest_files(writer, settings, [str(root / "gpus.om")], requested, now=NOW, progress=_silent)


def _silent(_what: str, _done: int, _all: int) -> None:
    pass


def everything() -> Path:
    """The computed warehouse with all that is known of the cluster, made once in a session: to be read only."""

    def make(folder: Path) -> None:
        filled(folder, gpus=readings(), nodes=node_samples())

    return made("known-cluster", make) / "w"


def bare() -> Path:
    """The computed warehouse of accounting alone, made once in a session: to be read only."""

    def make(folder: Path) -> None:
        filled(folder, events=False)

    return made("known-cluster-bare", make) / "w"


def answer_of(reader: Reader, what: str, by: str | None = None, window: Window = WINDOW) -> Answer:
    return QUESTIONS[what](reader, window, Question(by=by))


def rows(answer: Answer, *, subject: str = "subject") -> dict[str, dict[str, Any]]:
    return {row[subject]: row for row in answer.rows.iter_rows(named=True)}
