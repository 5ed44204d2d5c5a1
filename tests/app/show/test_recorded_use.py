"""`show utilisation` and `show waste` where accounting alone records what GPUs did, and beside telemetry."""

from __future__ import annotations

import base64
import gzip
import json
from typing import TYPE_CHECKING, Any

import pytest

from app.compute import pipeline as computing
from app.config.settings import Config
from ingest.prometheus.load_files import ingest_files
from ingest.prometheus.target import TelemetryRequest
from ingest.slurm import load_files as ingesting
from queries.warehouse import open_reader, open_writer
from tests.support.command import trackside
from tests.support.known_cluster import END, HOUR, NOW, START, answer_of, readings

if TYPE_CHECKING:
    from pathlib import Path

    from app.show.answer import Answer

Rows = dict[tuple[str, str], dict[str, Any]]

HEAD = (
    "JobID|JobIDRaw|Cluster|User|Account|Partition|JobName|State|ExitCode|Submit|Eligible|Start|End|ElapsedRaw|NNodes|"
    "AllocCPUS|NTasks|AllocTRES|NodeList|TotalCPU|MaxRSS|TRESUsageInMax|AdminComment\n"
)


def blob(utilisation: dict[str, float]) -> str:
    node = {"cpus": 8, "total_time": 14_400.0, "total_memory": 1000, "used_memory": 250, "gpu_utilization": utilisation}
    text = json.dumps({"nodes": {"n": node}, "total_time": 2 * HOUR, "gpus": len(utilisation)})
    return "JS1:" + base64.b64encode(gzip.compress(text.encode())).decode()


def job(number: int, user: str, node: str, comment: str = "", sample: str = "") -> str:
    """Two hours on two GPUs, with its batch step."""
    times = f"{START}|{START}|{START}|{END}|{END - START}"
    held = f"1|8||cpu=8,gres/gpu=2,mem=1000M,node=1|{node}"
    step = f"{number}.batch|{number}.batch|c||||batch|COMPLETED|0:0|{times}|1|8|1|cpu=8,gres/gpu=2,node=1|{node}"
    return (
        f"{number}|{number}|c|{user}|lab|main|train|COMPLETED|0:0|{times}|{held}||||{comment}\n"
        f"{step}|01:00:00|500M|{sample}|\n"
    )


SACCT = HEAD + "".join(
    [
        job(1, "alice", "n1", blob({"0": 1.0, "1": 2.0})),  # telemetry observes it: jobstats does not count
        job(2, "alice", "n6", blob({"0": 60.0, "1": 0.0}), "gres/gpuutil=100"),
        job(3, "bob", "n7", sample="gres/gpuutil=40"),
        job(4, "bob", "n8"),
    ]
)


@pytest.fixture(scope="module", params=["with telemetry", "without telemetry"])
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, bool]:
    root = tmp_path_factory.mktemp("use")
    (root / "sacct.txt").write_text(SACCT)
    observed, settings = request.param == "with telemetry", Config()
    with open_writer(root / "w", verb="test", now=NOW) as writer:
        options = ingesting.Options()
        (report,) = ingesting.ingest_files(
            writer, settings, [str(root / "sacct.txt")], options, now=NOW, progress=lambda *_: None
        )
        assert report.parsed is not None
        assert (report.parsed.rows_loaded, report.parsed.rows_skipped, report.parsed.rows_rejected) == (4, 4, 0)
        if observed:
            (root / "gpus.om").write_text(readings())
            files, target = [str(root / "gpus.om")], TelemetryRequest(cluster="c")
            ingest_files(writer, settings, files, target, now=NOW, progress=lambda *_: None)
        computing.compute(writer, settings, now=NOW)
    return root / "w", observed


def answer(root: Path, question: str, by: str) -> Answer:
    with open_reader(root) as reader:
        return answer_of(reader, question, by)


def rows(given: Answer) -> Rows:
    return {(row["subject"], row["evidence"]): row for row in given.rows.iter_rows(named=True)}


@pytest.mark.slow
def test_each_row_rests_on_one_kind_of_evidence(case: tuple[Path, bool]) -> None:
    root, observed = case
    by_attempt = rows(answer(root, "utilisation", "attempt"))
    first = "telemetry" if observed else "jobstats"
    others = "telemetry" if observed else "none"
    assert set(by_attempt) == {("1", first), ("2", "jobstats"), ("3", "slurm"), ("4", others)}
    assert by_attempt["1", first]["gpu_util"] == pytest.approx(0.6 if observed else 0.015)
    assert by_attempt["2", "jobstats"]["gpu_util"] == pytest.approx(0.3)
    assert by_attempt["3", "slurm"]["gpu_util"] is None
    assert by_attempt["3", "slurm"]["busy_most"] == pytest.approx(0.2)


@pytest.mark.slow
def test_rows_of_a_subject_add_up_to_what_it_was_allocated(case: tuple[Path, bool]) -> None:
    root, _ = case
    by_user = rows(answer(root, "utilisation", "user"))
    for user in ("alice", "bob"):
        mine = [row for (name, _), row in by_user.items() if name == user]
        assert sum(row["allocated_s"] for row in mine) == 8 * HOUR
    jobstats = by_user["alice", "jobstats"]
    assert jobstats["gpu_util"] == pytest.approx(jobstats["gpu_util_sum"] / jobstats["gpu_util_s"])
    assert jobstats["idle_share"] == pytest.approx(jobstats["idle_s"] / jobstats["judged_s"])


@pytest.mark.slow
def test_headline_and_notes_name_the_evidence(case: tuple[Path, bool]) -> None:
    root, observed = case
    given = answer(root, "utilisation", "cluster")
    assert "Without telemetry, by accounting: jobstats has a mean GPU utilisation of " in given.headline
    assert "Slurm's samples show at most 20.0 % busy over 4 GPU-h" in given.headline
    assert given.headline.startswith("Allocated GPUs were idle in") == observed
    assert {note.partition(":")[0] for note in given.notes} >= {"evidence jobstats", "evidence slurm"}
    shown = trackside("show", "utilisation", "--warehouse", str(root)).stdout
    assert "busy at most" in shown
    assert "evidence" in shown


@pytest.mark.slow
def test_waste_has_a_row_of_jobstats_for_unobserved_attempts(case: tuple[Path, bool]) -> None:
    root, observed = case
    given = answer(root, "waste", "kind")
    row = given.rows.filter(kind="unused_by_jobstats").row(0, named=True)
    assert (row["n"], row["n_attempts"]) == (1, 1 if observed else 2)
    assert row["gpu_s"] == pytest.approx(2 * HOUR)
    assert row["allocated_gpu_s"] == pytest.approx(4 * HOUR if observed else 8 * HOUR)
    assert row["share"] == pytest.approx(row["gpu_s"] / row["allocated_gpu_s"])
    assert (row["evidence_accounting"], row["evidence_telemetry"]) == (1.0, 0.0)
    text = "CPUs and memory, by accounting of 4 of 4 attempts: 15.6 % of the CPU time held was used; of memory 3"
    assert any(note.startswith(text) for note in given.notes), given.notes
    assert not any("no usage of them" in note for note in given.notes)
