"""Job goodput of a run whose log is read while a step is under way: the figure that Google's library prints then."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from app.compute import pipeline as computing
from app.config.settings import Config
from app.results.runs.job_goodput import job_accounts
from app.window import Window
from ingest.runlog import store as runlogs
from ingest.slurm import load_files as ingesting
from ingest.store.report import first_error
from queries.warehouse import open_reader, open_writer
from tests.metrics.goodput.google_library import job_start, library, step, told

if TYPE_CHECKING:
    from pathlib import Path

T = 1_790_002_800  # 2026-09-21T15:00:00Z
READ = datetime.fromtimestamp(T + 38, UTC)
STARTS = [[(n, 5 + 3 * n) for n in range(5)], [(n, 30 + 3 * n) for n in range(3)]]
"""Number and begin of the steps of both processes: each is killed, or read, within its last."""
PROCESSES = (0, 25)
HEAD = (
    "JobID|JobIDRaw|Cluster|User|Account|Partition|JobName|State|ExitCode|Submit|Eligible|Start|End|ElapsedRaw|NNodes"
    "|AllocTRES|NodeList\n"
)


def sacct() -> str:
    tail = "1|cpu=64,gres/gpu=8,node=1|n1\n"
    return (
        f"{HEAD}7|7|c|a|l|m|train|NODE_FAIL|0:0|{T}|{T}|{T}|{T + 20}|20|{tail}"
        f"7|7|c|a|l|m|train|RUNNING|0:0|{T + 20}|{T + 20}|{T + 25}|Unknown|13|{tail}"
    )


def log(*, starts: bool) -> str:
    """What the recorder writes, with the begins of steps or (as it was) without."""
    lines: list[dict[str, Any]] = []
    for count, (began, steps) in enumerate(zip(PROCESSES, STARTS, strict=True)):
        lines.append({"type": "run", "v": 1, "t": T + began, "run_id": "r", "cluster": "c", "job_id": "7",
                      "restart_count": count, "n_gpus": 8})  # fmt: skip
        for number, at in steps:
            if starts:
                lines.append({"type": "event", "kind": "step_start", "begin": T + at, "step": number})
            if number != steps[-1][0]:
                lines.append({"type": "step", "step": number, "t": T + at, "duration_s": 3.0})
    return "".join(json.dumps(line) + "\n" for line in lines)


def account(folder: Path, *, starts: bool) -> dict[str, Any]:
    (folder / "sacct.txt").write_text(sacct())
    (folder / "r.jsonl").write_text(log(starts=starts))
    with open_writer(folder / "w", verb="test", now=READ) as writer:
        reports = ingesting.ingest_files(
            writer, Config(), [str(folder / "sacct.txt")], ingesting.Options(), now=READ, progress=lambda *_: None
        )
        reports += runlogs.ingest_files(
            writer, [str(folder / "r.jsonl")], cluster="c", now=READ, progress=lambda *_: None
        )
        assert first_error(reports) is None
        assert [report.parsed.rows_rejected for report in reports if report.parsed] == [0, 0]
        computing.compute(writer, Config(), now=READ)
    with open_reader(folder / "w") as reader:
        window = Window("c", datetime.fromtimestamp(T, UTC), READ)
        result = job_accounts(reader, window)
    buckets = dict(result.buckets.select("bucket", "seconds").rows())
    return result.runs.row(0, named=True) | {"buckets": buckets}


@pytest.mark.slow
def test_run_read_within_a_step_matches_the_librarys_figures(tmp_path: Path) -> None:
    entries = [(at, job_start(at)) for at in PROCESSES]
    entries += [(at, step(number, at)) for steps in STARTS for number, at in steps]
    ordered = [entry for _, entry in sorted(entries, key=lambda each: each[0])]
    theirs = told(library(), ordered, now=38, folder=tmp_path, name="r")
    result = account(tmp_path, starts=True)
    assert theirs["percent"] == pytest.approx(100 * 6 / 38)
    assert (result["productive_s"], result["total_s"]) == (6, 38)
    assert result["disruptions"] == theirs["disruptions"] == 1
    assert {name: s for name, s in result["buckets"].items() if name != "productive"} == pytest.approx(
        theirs["buckets"]
    )
    assert result["account"] == pytest.approx(6 / 38)
    assert result["max_step"] == 3


@pytest.mark.slow
def test_a_log_without_begins_counts_its_last_finished_step(tmp_path: Path) -> None:
    result = account(tmp_path, starts=False)
    assert (result["productive_s"], result["total_s"]) == (6, 38)
    assert result["buckets"]["infrastructure_recovery_from_disruption"] == 11
