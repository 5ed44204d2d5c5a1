"""What Slurm writes when a job comes back, and what Trackside makes of it: text -> warehouse -> runs and interruptions.

`states.sacct.txt` is what a real Slurm 22.05.8 wrote. The rows below have what it lacks and what was observed of one.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from app.compute import pipeline as computing
from app.config.settings import Config
from ingest.slurm import load_files as ingesting
from ingest.store.report import first_error
from queries.warehouse import CheckResult, Reader, open_reader, open_writer

NOW = datetime(2026, 12, 1, tzinfo=UTC)
CAPTURED = Path(__file__).parents[2] / "data/slurm/states.sacct.txt"

HEADER = "JobIDRaw|DBIndex|Submit|Eligible|Start|End|ElapsedRaw|State|ExitCode|NodeList|AllocTRES|User|JobName|Reason"
G8 = "cpu=1,gres/gpu:h100=8,gres/gpu=8,node=1"
ROWS = f"""\
101|201|1795248000|1795248000|1795248001|1795248001|0|REQUEUED|0:0|n1|{G8}|alice|launch|None
101|202|1795248001|1795248007|Unknown|Unknown|0|PENDING|0:0|None assigned||alice|launch|launch failed requeued held
102|203|1795248000|1795248000|1795248001|1795248100|99|CANCELLED|0:0|n2|{G8}|alice|cold|None
103|204|1795248000|1795248000|None|1795248100|0|CANCELLED|0:0|None assigned|{G8}|alice|waiting|Resources
104|205|1795248000|1795248000|1795248001|1795248050|49|CANCELLED by 2001|0:0|n3|{G8}|alice|rewritten|None
1|206|1795248200|1795248200|1795248200|1795248260|60|COMPLETED|0:0|n4|{G8}|alice|old|None
1|301|1795248300|1795248300|1795248301|1795248400|99|COMPLETED|0:0|n4|{G8}|alice|new|None
2001|207|1795248200|1795248200|1795248200|1795248200|0|COMPLETED|0:0|n3|{G8}|alice|twice|None
2001|302|1795248200|1795248200|1795248201|1795248300|99|COMPLETED|0:0|n3|{G8}|alice|twice|None
105|208|1795248000|1795248000|None|1795248010|0|REVOKED|0:0|None assigned|{G8}|alice|sibling|None
106|209|1795248000|1795248000|1795248001|1795248030|29|FAILED|1:0|n4|{G8}|alice|again|None
106|210|1795248031|1795248037|1795248040|1795248100|60|COMPLETED|0:0|n4|{G8}|alice|again|BeginTime
107|211|1795248000|1795248000|1795248001|1795248030|29|BOOT_FAIL|0:0|n5|{G8}|alice|boot|None
107|212|1795248030|1795248036|1795248040|1795248100|60|COMPLETED|0:0|n5|{G8}|alice|boot|BeginTime
"""
REWRITTEN = f"""\
{HEADER}
104|205|1795248000|1795248000|1795248001|1795248050|49|CANCELLED|0:15|n3|{G8}|alice|rewritten|None
"""
EVENTS = """\
Cluster|NodeName|TimeStart|TimeEnd|State|StateRaw|Reason|User
lab||1795240000|Unknown||0|Cluster Registered TRES|
lab|n1|1795248002|1795248500|DRAIN|514|Prolog error|root(0)
"""
NEWER = f"""\
{HEADER}|Restarts|FailedNode
301|401|1795249000|1795249000|1795249001|1795249100|99|NODE_FAIL|0:0|n[1-2]|{G8}|alice|named|None|0|n2
301|402|1795249100|1795249106|1795249110|1795249200|90|COMPLETED|0:0|n[1-2]|{G8}|alice|named|BeginTime|1|
302|403|1795249100|1795249106|1795249110|1795249200|90|COMPLETED|0:0|n3|{G8}|alice|last row only|BeginTime|3|
303|404|1795249000|1795249000|1795249001|1795249050|49|RESIZING|0:0|n[4-5]|{G8}|alice|resized|None|0|
303|405|1795249050|1795249050|1795249001|1795249100|99|COMPLETED|0:0|n4|{G8}|alice|resized|None|0|
"""


def ingest(root: Path, *files: Path) -> list[CheckResult]:
    settings = Config(cluster="lab")
    with open_writer(root, verb="test", now=NOW) as writer:
        reports = ingesting.ingest_files(
            writer, settings, [str(file) for file in files], ingesting.Options(), now=NOW, progress=lambda *_: None
        )
        assert first_error(reports) is None
        assert sum(report.parsed.rows_rejected for report in reports if report.parsed) == 0
        return computing.compute(writer, settings, now=NOW).warnings


@pytest.fixture(scope="module")
def warnings() -> list[CheckResult]:
    """What checks said; filled with the warehouse."""
    return []


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory, warnings: list[CheckResult]) -> Reader:  # type: ignore[misc]  # yields
    folder = tmp_path_factory.mktemp("requeues")
    texts = {"first": f"{HEADER}\n{ROWS}", "later": REWRITTEN, "events": EVENTS, "newer": NEWER}
    for name, text in texts.items():
        (folder / f"{name}.txt").write_text(text)
    root = folder / "warehouse"
    ingest(root, folder / "first.txt")
    warnings += ingest(root, CAPTURED, *(folder / f"{name}.txt" for name in ("later", "events", "newer")))
    with open_reader(root) as actual:
        yield actual


def attempts(reader: Reader, job: str) -> list[dict[str, Any]]:
    return reader.table("run_of_attempt").filter(pl.col("job_id") == job).sort("submitted_at").to_dicts()


RUNS = {
    # job: (states, number of runs, rules, (class, cause, node) of the interruptions, restarts that were measured)
    "2": (["NODE_FAIL", "COMPLETED"], 1, ["single", "requeue_chain"], [("infrastructure", "node_fail", None)], 1),
    "29": (["NODE_FAIL", "COMPLETED"], 1, ["single", "requeue_chain"], [("infrastructure", "node_fail", "n6")], 1),
    "21": (["REQUEUED", "COMPLETED"], 1, ["single", "requeue_chain"], [("planned", "requeued", None)], 1),
    "9": (["REQUEUED", "COMPLETED"], 1, ["single", "requeue_chain"], [("user", "requeue_exit", None)], 1),
    "10": (["REQUEUED", "PENDING"], 1, ["single", "requeue_chain"], [("user", "requeue_exit", None)], 1),
    "26": (
        ["PREEMPTED", "PREEMPTED", "COMPLETED"], 1, ["single", "requeue_chain", "requeue_chain"],
        [("preemption", "preempted", None)] * 2, 2,
    ),
    "28": (["RESIZING", "COMPLETED"], 1, ["single", "resize"], [], 0),
    # a prolog that failed: Start = End, held, and the node drained for it
    "101": (["REQUEUED", "PENDING"], 1, ["single", "requeue_chain"], [("infrastructure", "prolog", "n1")], 1),
    # slurmctld -c: all open jobs are cancelled, by nobody
    "102": (["CANCELLED"], 1, ["single"], [("user", "cancelled", None)], 0),
    "103": (["CANCELLED"], 1, ["single"], [], 0),
    # a controller that lost its state gave the id again: another job, even in the same second
    "1": (["TIMEOUT", "COMPLETED", "COMPLETED"], 3, ["single"] * 3, [("timeout", "timeout", None)], 0),
    "2001": (["COMPLETED", "COMPLETED"], 2, ["single", "single"], [], 0),
    # the sibling of a federated job: it runs on another cluster
    "105": (["REVOKED"], 1, ["single"], [], 0),
    # a finished job that somebody requeued
    "106": (["FAILED", "COMPLETED"], 1, ["single", "requeue_chain"], [("user", "failed", None)], 1),
    "107": (["BOOT_FAIL", "COMPLETED"], 1, ["single", "requeue_chain"], [("infrastructure", "boot_fail", "n5")], 1),
    # newer Slurm names the node that failed
    "301": (["NODE_FAIL", "COMPLETED"], 1, ["single", "requeue_chain"], [("infrastructure", "node_fail", "n2")], 1),
    "303": (["RESIZING", "COMPLETED"], 1, ["single", "resize"], [], 0),
}  # fmt: skip


@pytest.mark.parametrize("job", RUNS)
def test_each_way_to_come_back(reader: Reader, job: str) -> None:
    states, n_runs, rules, interrupted, n_restarts = RUNS[job]
    actual = attempts(reader, job)
    assert [row["state"] for row in actual] == states
    assert len({row["run_id"] for row in actual}) == n_runs
    assert [row["joined_by"] for row in actual] == rules
    mine = pl.col("job_id") == job
    events = reader.table("interruptions").filter(mine).sort("ended_at")
    assert events.select("class", "cause", "node").rows() == interrupted
    assert reader.table("restarts").filter(mine).height == n_restarts


def test_after_a_resize_no_second_is_counted_twice(reader: Reader) -> None:
    """The row after RESIZING shows the original Start: it is clipped to its own Submit."""
    first, second = attempts(reader, "28")
    assert (first["ended_at"] - first["started_at"]).total_seconds() == 4
    assert second["started_at"] == second["submitted_at"] == first["ended_at"]
    assert (second["ended_at"] - second["started_at"]).total_seconds() == 10


def test_canceller_is_kept_when_the_end_is_sent_again(reader: Reader) -> None:
    """`CANCELLED by 2001 0:0` turns into `CANCELLED 0:15`."""
    (row,) = attempts(reader, "104")
    assert (row["state"], row["cancelled_by"], row["exit_code"], row["exit_signal"]) == ("CANCELLED", "2001", 0, 15)


def test_cancelled_without_a_name_has_no_canceller(reader: Reader) -> None:
    assert [row["cancelled_by"] for row in attempts(reader, "102")] == [None]


@pytest.mark.slow
def test_a_sibling_that_was_revoked_holds_no_gpu(reader: Reader) -> None:
    (row,) = attempts(reader, "105")
    assert (row["n_nodes"], row["n_gpus"], row["started_at"]) == (0, 0, None)
    assert reader.table("gpu_time").filter(pl.col("job_id") == "105").is_empty()


def test_only_the_last_row_of_a_restarted_job_is_warned_about(reader: Reader, warnings: list[CheckResult]) -> None:
    """A dump without -D has only the newest row of an id; `Restarts` tells how many came before."""
    del reader  # its rows are what was checked
    (warning,) = (result for result in warnings if result.check.name == "source_missing_attempts")
    assert warning.sample.select("job_id", "restarts", "earlier_rows").rows() == [("302", 3, 0)]
