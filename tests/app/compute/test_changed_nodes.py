"""Nodes whose GPUs, kinds and features change under running jobs, in two clusters with equal names."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from app.compute import pipeline as computing
from app.config.settings import Config
from ingest.slurm import load_files as ingesting
from queries.warehouse import open_reader, open_writer

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("no_results")]

HOUR = 3600
BEGIN = 1_790_812_800  # 2026-10-01T00:00:00Z
END = BEGIN + 10 * HOUR
NOW = datetime.fromtimestamp(END + HOUR, UTC)
HEAD = (
    "JobID|JobIDRaw|Cluster|User|Account|Partition|JobName|State|ExitCode|Submit|Eligible|Start|End|ElapsedRaw|NNodes"
    "|AllocTRES|NodeList\n"
)


def job(number: int, cluster: str, gpus: str, begin: int, end: int) -> str:
    first, last = BEGIN + begin * HOUR, BEGIN + end * HOUR
    times = f"{first}|{first}|{first}|{last}|{last - first}"
    return f"{number}|{number}|{cluster}|ann|lab|main|train|COMPLETED|0:0|{times}|1|cpu=8,{gpus},node=1|n1\n"


def node(gres: str, features: str = "h100", active: str = "h100") -> str:
    return (
        f"NodeName=n1 CPUAlloc=0 CPUTot=64 Gres={gres} AvailableFeatures={features} ActiveFeatures={active} "
        "NodeAddr=n1 NodeHostName=n1 State=IDLE ThreadsPerCore=1 Partitions=main,debug\n\n"
    )


CHANGES = {
    "fewer": (node("gpu:h100:8(S:0-1)"), node("gpu:h100:4(S:0)")),
    "another model": (node("gpu:h100:8"), node("gpu:a100:8", "a100", "a100")),
    "divided": (node("gpu:h100:8"), node("gpu:h100:7,gpu:1g.10gb:7")),
    "shared": (node("gpu:h100:8"), node("gpu:h100:8,shard:32")),
    "features": (node("gpu:h100:8", "h100,mig"), node("gpu:h100:8", "h100,mig", "mig")),
}


CLUSTERS: dict[str, tuple[str | None, ...]] = {"jobs": (None,), "nodes-0": ("c", "d"), "nodes-1": ("c",)}
"""Whose each file is: the jobs name their cluster, and the node of d stays as it is."""


def _silent(_what: str, _done: int, _all: int) -> None:
    pass


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("order", ["in time", "back"])
def test_every_gpu_second_counts_once_when_a_node_changes(tmp_path: Path, change: str, order: str) -> None:
    held = "gres/gpu=4,gres/gpu:h100=4"
    jobs = HEAD + job(1, "c", held, 1, 9) + job(1, "d", held, 2, 5) + job(2, "c", held, 9, 10)
    looks = ((f"nodes-{n}", text, BEGIN + 5 * n * HOUR) for n, text in enumerate(CHANGES[change]))
    files = [("jobs", jobs, END), *looks]
    with open_writer(tmp_path / "w", verb="test", now=NOW) as writer:
        for name, text, at in files if order == "in time" else files[::-1]:
            (tmp_path / name).write_text(text)
            for cluster in CLUSTERS[name]:
                options = ingesting.Options(cluster=cluster, until=datetime.fromtimestamp(at, UTC))
                file = str(tmp_path / name)
                (report,) = ingesting.ingest_files(writer, Config(), [file], options, now=NOW, progress=_silent)
                assert report.error is None
        computing.compute(writer, Config(), now=NOW)
    with open_reader(tmp_path / "w") as reader:
        sums = "SELECT cluster, sum({}) FROM {} GROUP BY cluster ORDER BY cluster"
        counted, capacity = (
            dict(reader.frame(sums.format("gpu_seconds", name)).rows()) for name in ("gpu_time", "capacity")
        )
        held_by_jobs = "SELECT cluster, sum(gpu_seconds) FROM gpu_time WHERE job_id IS NOT NULL GROUP BY cluster"
        of_jobs = dict(reader.frame(held_by_jobs).rows())
        stops = [result.check.name for result in reader.failed_checks() if result.check.severity == "stop"]
    # From the first job to the end of the last; the node of c changes four hours later, and then has 4 GPUs or still 8.
    assert capacity == {"c": (8 * 4 + (4 if change == "fewer" else 8) * 5) * HOUR, "d": 8 * 9 * HOUR}
    assert counted == capacity
    assert stops == []
    assert of_jobs == {"c": 4 * 9 * HOUR, "d": 4 * 3 * HOUR}
