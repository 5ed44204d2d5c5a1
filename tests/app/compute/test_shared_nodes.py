"""Nodes that several jobs share, from Slurm's texts to the ledger: slices, halves and too many GPUs add up exactly."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING

import pytest

from app.compute import pipeline as computing
from app.config.settings import Config
from ingest.slurm import load_files as ingesting
from ingest.store.report import first_error
from queries.warehouse import open_reader, open_writer

if TYPE_CHECKING:
    from pathlib import Path

    import polars as pl

    from queries.warehouse import CheckResult

HEADER = (
    "JobIDRaw|JobID|Cluster|Partition|Account|User|Submit|Eligible|Start|End|ElapsedRaw|State|ExitCode|NNodes|NCPUS|"
    "ReqTRES|AllocTRES|NodeList|JobName|Reason"
)
START = 1_790_812_800  # 2026-10-01T00:00:00Z
NOW = datetime(2026, 11, 2, tzinfo=UTC)
SLICE = "a100_1g.5gb"


def row(job: int, node: str, begin: int, end: int, tres: str, *, submit: int | None = None, reason: str = "") -> str:
    """A job of whole minutes after the start; without a node it never started and waits."""
    requested = START + 60 * (begin if submit is None else submit)
    times = [requested, requested, "Unknown", "Unknown", 0, "PENDING"]
    if node:
        times = [requested, requested, START + 60 * begin, START + 60 * end, 60 * (end - begin), "COMPLETED"]
    held = f"cpu=1,{tres},node=1" if node else ""
    cells = [job, job, "c", "main", "lab", "alice", *times, "0:0", 1 if node else 0, 1, f"{tres},node=1", held,
             node or "None assigned", "train", reason]  # fmt: skip
    return "|".join(map(str, cells))


def node(name: str, kind: str, count: int) -> str:
    return (
        f"NodeName={name} Arch=x86_64 CPUTot=64 Gres=gpu:{kind}:{count} RealMemory=512000 State=IDLE Partitions=main "
        f"BootTime={START} SlurmdStartTime={START} LastBusyTime={START} "
        f"CfgTRES=cpu=64,mem=500G,billing=64,gres/gpu={count},gres/gpu:{kind}={count}\n"
    )


def of(kind: str, count: int) -> str:
    return f"gres/gpu={count},gres/gpu:{kind}={count}"


def computed(folder: Path, jobs: list[str], nodes: str) -> tuple[pl.DataFrame, list[CheckResult]]:
    """The ledger, and what the checks warn of."""
    events = (
        f"Cluster|NodeName|TimeStart|TimeEnd|State|StateRaw|Reason|User\nc||{START}|Unknown||0|Cluster Registered|\n"
    )
    texts = {"sacct.txt": "\n".join([HEADER, *jobs]) + "\n", "nodes.txt": nodes, "events.txt": events}
    for name, text in texts.items():
        (folder / name).write_text(text)
    files = [str(folder / name) for name in texts]
    with open_writer(folder / "warehouse", verb="test", now=NOW) as writer:
        reports = ingesting.ingest_files(
            writer, Config(), files, ingesting.Options(cluster="c"), now=NOW, progress=lambda *_: None
        )
        assert first_error(reports) is None
        warnings = computing.compute(writer, Config(), now=NOW).warnings
    with open_reader(folder / "warehouse") as reader:
        return reader.table("gpu_time"), warnings


def at_each_instant(ledger: pl.DataFrame) -> set[tuple[str, Decimal]]:
    """GPUs of each node, added up between every two moments at which anything changes."""
    result = set()
    for name, mine in ledger.group_by("node"):
        rows = mine.select("started_at", "ended_at", "gpus").rows()
        moments = sorted({moment for low, high, _ in rows for moment in (low, high)})
        for moment in moments[:-1]:
            result.add((str(name[0]), sum((gpus for low, high, gpus in rows if low <= moment < high), Decimal(0))))
    return result


def above_inventory(warnings: list[CheckResult]) -> list[str]:
    return [result.check.name for result in warnings if "above_inventory" in result.check.name]


@pytest.mark.slow
def test_slices_of_gpus_add_up_to_the_nodes_gpus_at_each_instant(tmp_path: Path) -> None:
    """Seven slices are a GPU: 56 jobs fill the node, and then fewer of them share it with one of 20 slices."""
    jobs = [row(job, "n1", job % 7, 40 + job % 11, of(SLICE, 1)) for job in range(1, 57)]
    jobs.append(row(100, "n1", 60, 90, of(SLICE, 20)))
    jobs += [row(200 + job, "n1", 55 + job, 100, of(SLICE, 1)) for job in range(36)]
    ledger, warnings = computed(tmp_path, jobs, node("n1", SLICE, 56))
    assert at_each_instant(ledger) == {("n1", Decimal(8))}
    assert above_inventory(warnings) == []
    twenty = ledger.filter(ledger["job_id"] == "100")["gpus"]
    assert all(abs(gpus - Decimal(20) / 7) < Decimal("0.002") for gpus in twenty)


@pytest.mark.slow
def test_more_gpus_than_the_node_has_are_scaled_down(tmp_path: Path) -> None:
    jobs = [row(job, "n1", job, 50 + job, of("h100", 3)) for job in range(1, 4)]
    ledger, warnings = computed(tmp_path, jobs, node("n1", "h100", 8))
    assert at_each_instant(ledger) == {("n1", Decimal(8))}
    assert above_inventory(warnings) == ["ledger_allocation_above_inventory"]
    together = ledger.filter(ledger["started_at"].dt.minute() == 3)["gpus"].to_list()
    assert sorted(together) == [Decimal("2.666"), Decimal("2.667"), Decimal("2.667")]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("reason", "tres", "cause"),
    [
        ("Resources", of("h100", 8), "fragmentation"),
        ("QOSMaxGRESPerUser", of("h100", 4), "limits"),
        ("Priority", of("h100", 4), None),
    ],
)
def test_causes_of_idle_gpus_while_jobs_wait_are_in_the_ledger(
    reason: str, tres: str, cause: str | None, tmp_path: Path
) -> None:
    """Each of two nodes has 4 of 8 GPUs free."""
    jobs = [row(1, "n1", 0, 90, of("h100", 4)), row(2, "n2", 0, 90, of("h100", 4))]
    jobs.append(row(3, "", 0, 0, tres, submit=30, reason=reason))
    ledger, _ = computed(tmp_path, jobs, node("n1", "h100", 8) + node("n2", "h100", 8))
    waited = ledger.filter((ledger["category"] == "pending_demand") & (ledger["gpus"] == 4))
    assert set(waited["node"]) == {"n1", "n2"}
    assert set(waited["cause"]) == {cause}
