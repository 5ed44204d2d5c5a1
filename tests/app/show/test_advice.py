"""`show lemons`, `show checkpoints`, `show waste`: from what sources say to what is told and what is stored."""

from __future__ import annotations

import csv
import io
import json
import shlex
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from app.cli.main import main
from app.compute import pipeline as computing
from app.config.settings import Config
from app.results import advice
from app.results.checkpoints import stored_checkpoint_advice
from app.results.failures.lemons import excluded_nodes, judged, stored_node_scores
from app.show.questions.nodes import lemons
from app.window import Window
from ingest.runlog import store as runlogs
from ingest.slurm import load_files as ingesting
from ingest.store.report import first_error
from queries.warehouse import open_reader, open_writer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from queries.warehouse import Reader

START = 1_790_000_000
DAY = 86_400
DAYS = 20
NODES = 16
NOW = datetime(2026, 11, 2, tzinfo=UTC)

COLUMNS = (
    "JobID", "JobIDRaw", "Cluster", "Partition", "Account", "User", "Submit", "Eligible", "Start", "End", "State",
    "ExitCode", "NNodes", "AllocTRES", "NodeList", "JobName", "TimelimitRaw", "SubmitLine",
)  # fmt: skip


def job(number: int, node: str, start: int, lasted: int, state: str = "COMPLETED", **more: object) -> str:
    printed = {
        "JobID": number,
        "JobIDRaw": number,
        "Cluster": "c1",
        "Partition": "main",
        "Account": "lab",
        "User": "alice",
        "Submit": start,
        "Eligible": start,
        "Start": start,
        "End": start + lasted,
        "State": state,
        "ExitCode": "1:0" if state == "FAILED" else "0:0",
        "NNodes": 1,
        "AllocTRES": "gres/gpu=8,node=1",
        "NodeList": node,
        "JobName": "train",
        "TimelimitRaw": 1440,
        "SubmitLine": "sbatch job.sh",
    } | more
    return "|".join(str(printed[name]) for name in COLUMNS)


def name(number: int) -> str:
    return f"n{number:02d}"


BROKEN = (3, 8, 13, 17)
"""Days on which n03 dies under a job, and is down for an hour."""

LLAMA = 9001


def accounting() -> str:
    rows = []
    for day in range(DAYS):
        for node in range(1, NODES - 1):
            dies = node == 3 and day in BROKEN
            excluding = (
                "sbatch --exclude=n[03-04] job.sh" if (node, day) in {(1, 0), (2, 5)} else "sbatch -x n03 job.sh"
            )
            line = excluding if node < 3 and day in {0, 5} else "sbatch job.sh"
            rows.append(
                job(100 * day + node, name(node), START + day * DAY, DAY // 2 if dies else DAY - 600,
                    "NODE_FAIL" if dies else "COMPLETED", SubmitLine=line)
            )  # fmt: skip
    two = {"NNodes": 2, "AllocTRES": "gres/gpu=16,node=2", "NodeList": "n[15-16]"}
    rows.append(job(LLAMA, "", START, 2 * DAY, "NODE_FAIL", JobName="llama", User="carol", **two))
    rows += [
        job(9100 + each, "n15", START + 3 * DAY + 300 * each, 60, "FAILED", JobName="sweep", User="bob")
        for each in range(5)
    ]
    rows.append(job(9200, "n16", START + 3 * DAY, 3600, User="bob", TimelimitRaw=1440))
    rows.append(job(1, "m1", START, 2 * DAY, Cluster="c2"))
    return "\n".join(["|".join(COLUMNS), *rows]) + "\n"


def events() -> str:
    died = [START + day * DAY + DAY // 2 for day in BROKEN]
    down = [f"c1|n03|{at}|{at + 3600}|DOWN*|2049|Not responding|slurm(64)" for at in died]
    return "\n".join(["Cluster|NodeName|TimeStart|TimeEnd|State|StateRaw|Reason|User", *down]) + "\n"


def llama() -> str:
    """Steps of a minute from the second minute on, and a save of 30 s after every tenth."""
    at = START + 120.0
    reported = {
        "v": 1,
        "run_id": "llama",
        "cluster": "c1",
        "job_id": str(LLAMA),
        "restart_count": 0,
        "rank": 0,
        "n_gpus": 16,
    }
    rows: list[dict[str, object]] = [{"type": "run", "t": at - 60, **reported}]
    for step in range(200):
        rows.append({"type": "step", "step": step, "t": at, "duration_s": 60.0, "tokens": 4096, "loss": 2.5})
        at += 60
        if step % 10 == 9:
            rows.append(
                {"type": "ckpt", "step": step, "begin": at, "end": at + 30, "blocking": True, "durable": at + 30}
            )
            at += 30
    return "".join(json.dumps(row) + "\n" for row in rows)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("advice")
    texts = {"sacct.txt": accounting(), "events.txt": events(), "llama.jsonl": llama()}
    for file, text in texts.items():
        (folder / file).write_text(text)
    warehouse, settings = folder / "w", Config()
    with open_writer(warehouse, verb="test", now=NOW) as writer:
        files = [str(folder / file) for file in ("sacct.txt", "events.txt")]
        reports = ingesting.ingest_files(writer, settings, files, ingesting.Options(), now=NOW, progress=_silent)
        logs = [str(folder / "llama.jsonl")]
        reports += runlogs.ingest_files(writer, logs, cluster="c1", now=NOW, progress=_silent)
        assert first_error(reports) is None
        computing.compute(writer, settings, now=NOW)
    return warehouse


def _silent(_what: str, _done: int, _all: int) -> None:
    pass


@pytest.fixture(scope="module")
def reader(root: Path) -> Iterator[Reader]:
    with open_reader(root) as opened:
        yield opened


def computed(reader: Reader, cluster: str = "c1") -> Window:
    row = reader.query("computed", cluster=cluster).row(0, named=True)
    return Window(cluster, row["since"], row["until"])


def shown(root: Path, capfd: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["show", *arguments, "--warehouse", str(root)]) == 0
    return capfd.readouterr().out


def as_rows(root: Path, capfd: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, Any]]:
    result: list[dict[str, Any]] = json.loads(shown(root, capfd, *arguments, "--format", "json"))
    return result


# --- lemons ----------------------------------------------------------------------------------------------------------


def test_repeatedly_failing_node_is_a_lemon_with_a_drain_command(root: Path, capfd: pytest.CaptureFixture[str]) -> None:
    reported = shown(root, capfd, "lemons", "--cluster", "c1")
    assert reported.startswith("1 lemon: n03 failed ")
    command = next(line for line in reported.splitlines() if "scontrol" in line)
    assert shlex.split(command)[:4] == ["scontrol", "update", "NodeName=n03", "State=DRAIN"]
    assert "times as often as the others" in reported
    assert "is flagged in 8 of 10 cases" in reported


def test_node_scores_are_available_to_machines(root: Path, capfd: pytest.CaptureFixture[str]) -> None:
    rows = {row["node"]: row for row in as_rows(root, capfd, "lemons", "--cluster", "c1")}
    assert set(rows) == {name(node) for node in range(1, NODES + 1)}
    worst = rows["n03"]
    assert (worst["verdict"], worst["failures"], worst["out_count"]) == ("lemon", 4, 4)
    assert worst["families"] == ["jobs", "out_of_service"]
    assert (worst["excluded_by"], rows["n04"]["excluded_by"], rows["n05"]["excluded_by"]) == (4, 2, 0)
    assert worst["exposure_gpu_days"] == pytest.approx(8 * (DAYS * DAY - 16 * 600 - 4 * DAY / 2) / DAY, rel=1e-3)
    # Two nodes share the failure that names neither; it is in no test.
    assert (rows["n15"]["failures"], rows["n15"]["charged"], rows["n16"]["charged"]) == (0, 0.5, 0.5)
    assert sum(row["charged"] for row in rows.values()) == 5


def test_scores_are_stored_and_equal_what_is_shown(reader: Reader) -> None:
    stored = reader.table("node_scores").filter(pl.col("cluster") == "c1")
    window = judged(computed(reader))
    of_window = stored.filter(pl.col("window_from") == window.since, pl.col("window_until") == window.until)
    fresh = stored_node_scores(reader, [window])
    assert of_window.sort("node").equals(fresh.sort("node").select(of_window.columns), null_equal=True)
    assert of_window.filter(pl.col("verdict") == "lemon")["node"].to_list() == ["n03"]


def test_a_cluster_of_one_node_has_nothing_to_compare(root: Path, capfd: pytest.CaptureFixture[str]) -> None:
    reported = shown(root, capfd, "lemons", "--cluster", "c2")
    assert "No failure names a node in this window" in reported
    assert "Attempts ran on one node only" in reported
    assert "No hardware event and no unplanned state of a node is known" in reported


def test_nodes_carry_their_verdict(root: Path, capfd: pytest.CaptureFixture[str]) -> None:
    rows = {row["node"]: row["verdict"] for row in as_rows(root, capfd, "nodes", "--cluster", "c1")}
    assert rows["n03"] == "lemon"
    assert {verdict for node, verdict in rows.items() if node != "n03"} == {"none"}
    assert "n03 (lemon)" in shown(root, capfd, "nodes", "--cluster", "c1")


def test_users_exclusions_are_read_as_slurm_writes_them() -> None:
    lines = [
        "sbatch -x n1 a.sh", "sbatch -xn2 a.sh", "srun --exclude n[1-2],n9 b", "sbatch --exclude=n1 c.sh",
        "sbatch --exclude=./hosts.txt d.sh", "sbatch --exclude=n[3- e.sh", "sbatch run-x.sh n7",
        "sbatch --exclusive f.sh",
    ]  # fmt: skip
    requests_seen = pl.DataFrame({"cluster": "c", "submit_line": lines, "n_jobs": [1] * len(lines)})
    assert dict(excluded_nodes(requests_seen).select("node", "excluded_by").iter_rows()) == {"n1": 3, "n2": 2, "n9": 1}


def test_commands_about_lemons_are_safe_to_paste_into_a_shell() -> None:
    flagged = pl.DataFrame(
        {
            "node": ["n1; reboot", "n2"],
            "verdict": ["lemon", "suspect"],
            "failures": [7, 3],
            "expected": [0.2, 0.3],
            "q_value": [1e-6, 0.04],
        }
    )
    result = advice.drain_lemons(flagged)
    assert result is not None
    assert shlex.split(result[1][0]) == [
        "scontrol", "update", "NodeName=n1; reboot", "State=DRAIN",
        "Reason=trackside: 7 failures, 0.2 expected by chance (q 1e-06)",
    ]  # fmt: skip
    assert result[1][1] == "scontrol show node n2"
    assert advice.drain_lemons(flagged.clear()) is None


# --- checkpoints -----------------------------------------------------------------------------------------------------


def test_checkpoint_advice_compares_current_and_best_interval(root: Path, capfd: pytest.CaptureFixture[str]) -> None:
    rows = {row["run_id"]: row for row in as_rows(root, capfd, "checkpoints", "--cluster", "c1")}
    reported = rows["llama"]
    assert (reported["n_checkpoints"], reported["interval_s"], reported["write_s"], reported["restart_s"]) == (
        20,
        600,
        30,
        120,
    )
    # Five interruptions by infrastructure in all; 14 nodes for 20 days, and little else.
    exposure = 8 * (14 * DAYS * DAY - 14 * DAYS * 600 - 4 * (DAY / 2 - 600) + 2 * 2 * DAY + 5 * 60 + 3600)
    assert reported["mttf_s"] == pytest.approx(exposure / 5 / 16, rel=1e-6)
    assert reported["optimal_low_s"] < reported["optimal_s"] < reported["optimal_high_s"]
    assert reported["loss_share"] > reported["optimal_loss_share"] > 0
    assert reported["held_gpu_s"] == 16 * 2 * DAY
    other = rows[next(run for run in rows if run.startswith("9200-"))]
    assert (other["n_checkpoints"], other["interval_s"], other["loss_share"]) == (0, None, None)
    assert other["note"].startswith("cannot tell: no checkpoints logged")


def test_one_run_can_be_selected_and_explained(root: Path, capfd: pytest.CaptureFixture[str]) -> None:
    reported = shown(root, capfd, "checkpoints", "--cluster", "c1", "--run", "llama", "--explain")
    assert "llama" in reported
    assert "young_s =" in reported
    assert "daly_s =" in reported
    assert "availability_optimal_s =" in reported
    assert main(["show", "checkpoints", "--cluster", "c1", "--run", "nobody", "--warehouse", str(root)]) != 0


def test_advice_is_stored_for_runs_whose_steps_were_logged(reader: Reader) -> None:
    stored = reader.table("checkpoint_advice")
    assert stored["run_id"].to_list() == ["llama"]
    fresh = stored_checkpoint_advice(reader, computed(reader))
    assert stored.equals(fresh.select(stored.columns).cast(stored.schema))


# --- waste -----------------------------------------------------------------------------------------------------------


def test_waste_without_telemetry_has_two_bounds(root: Path, capfd: pytest.CaptureFixture[str]) -> None:
    rows = {row["kind"]: row for row in as_rows(root, capfd, "waste", "--cluster", "c1")}
    assert rows["idle"]["share"] < 0.01
    assert rows["idle"]["share_high"] > 0.9
    assert (rows["failed_at_once"]["n"], rows["failed_at_once"]["gpu_s"]) == (5, 5 * 60 * 8)
    assert (rows["short_of_limit"]["n"], rows["short_of_limit"]["gpu_s"]) == (1, 3600 * 8)
    assert rows["at_maximum"]["n"] == 1
    reported = shown(root, capfd, "waste", "--cluster", "c1")
    assert "of the allocated GPU-time was spent on is unobserved" in reported
    assert "Memory and CPUs requested and not used: cannot tell" in reported


SPLIT_NOT_TOLD = f"""\
JobID|JobIDRaw|Cluster|User|Account|Partition|JobName|State|ExitCode|Submit|Eligible|Start|End|Suspended|NNodes|AllocTRES|NodeList
7|7|c|u|lab|p|t|COMPLETED|0:0|{START}|{START}|{START}|{START + 3600}|00:30:00|2|cpu=6,gres/gpu=9,node=2|n[1-2]
8|8|c|u|lab|p|t|COMPLETED|0:0|{START}|{START}|{START + 3600}|{START + 7200}|00:00:00|2|cpu=6,gres/gpu=16,node=2|n[1-2]
"""
"""Job 7 was suspended for half an hour; how its 9 GPUs are split over two nodes is assumed."""


@pytest.mark.slow
def test_no_more_is_wasted_than_was_allocated(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Assumed time is among what nobody saw: it does not stand still a second time."""
    (tmp_path / "sacct.txt").write_text(SPLIT_NOT_TOLD)
    with open_writer(tmp_path / "w", verb="test", now=NOW) as writer:
        reports = ingesting.ingest_files(
            writer, Config(), [str(tmp_path / "sacct.txt")], ingesting.Options(), now=NOW, progress=lambda *_: None
        )
        assert first_error(reports) is None
        computing.compute(writer, Config(), now=NOW)
    idle = next(row for row in as_rows(tmp_path / "w", capfd, "waste") if row["kind"] == "idle")
    assert idle["allocated_gpu_s"] == (9 + 16) * 3600
    assert (idle["gpu_s"], idle["high_gpu_s"]) == (0, idle["allocated_gpu_s"])


@pytest.mark.parametrize("by", ["user", "account", "partition", "run"])
def test_waste_by_subject_adds_up_to_the_whole(root: Path, capfd: pytest.CaptureFixture[str], by: str) -> None:
    whole = {row["kind"]: row for row in as_rows(root, capfd, "waste", "--cluster", "c1")}
    rows = as_rows(root, capfd, "waste", "--cluster", "c1", "--by", by)
    for kind in ("idle", "never_stepped", "failed_at_once", "short_of_limit"):
        assert sum(row[f"gpu_s_{kind}"] for row in rows) == pytest.approx(whole[kind]["gpu_s"])
    assert sum(row["n_attempts"] for row in rows) == whole["idle"]["n_attempts"]


def test_gpu_time_by_final_state_adds_up(root: Path, capfd: pytest.CaptureFixture[str]) -> None:
    rows = {row["ending"]: row for row in as_rows(root, capfd, "waste", "--cluster", "c1", "--by", "state")}
    assert set(rows) == {"complete", "fail"}
    assert sum(row["share"] for row in rows.values()) == pytest.approx(1)
    assert rows["fail"]["n"] == len(BROKEN) + 1 + 5


# --- all of them -----------------------------------------------------------------------------------------------------

ASKED = [("lemons",), ("checkpoints",), ("waste",), ("waste", "--by", "state"), ("waste", "--by", "user")]
each_question = pytest.mark.parametrize("requests_seen", ASKED, ids=" ".join)


@pytest.mark.slow
@each_question
def test_every_format_has_the_rows_of_all_clusters(
    root: Path, capfd: pytest.CaptureFixture[str], tmp_path: Path, requests_seen: tuple[str, ...]
) -> None:
    rows = as_rows(root, capfd, *requests_seen)
    assert {row["cluster"] for row in rows} == {"c1", "c2"}
    assert not any(key.startswith("_") for key in rows[0])
    lines = list(csv.DictReader(io.StringIO(shown(root, capfd, *requests_seen, "--format", "csv"))))
    file = tmp_path / "rows.parquet"
    shown(root, capfd, *requests_seen, "--output", str(file))
    assert len(rows) == len(lines) == pl.read_parquet(file).height
    table = shown(root, capfd, *requests_seen)
    assert "c1" in table
    assert "c2" in table


@each_question
def test_every_number_is_explained(
    root: Path, capfd: pytest.CaptureFixture[str], requests_seen: tuple[str, ...]
) -> None:
    reported = json.loads(shown(root, capfd, *requests_seen, "--explain", "--format", "json"))["explain"]
    assert reported["metrics"]
    assert all(metric["definition"] and metric["interval"] for metric in reported["metrics"])
    assert all(reported["sql"].values())
    assert reported["numbers"]
    assert {"subject", "value", "n"} <= set(reported["numbers"][0])


@pytest.mark.slow
@each_question
def test_window_in_which_nothing_ran_is_reported(
    root: Path, capfd: pytest.CaptureFixture[str], requests_seen: tuple[str, ...]
) -> None:
    night = [datetime.fromtimestamp(START + 10 * DAY - seconds, UTC).isoformat() for seconds in (500, 100)]
    reported = shown(root, capfd, *requests_seen, "--cluster", "c1", "--since", night[0], "--until", night[1])
    assert "held GPUs" in reported
    assert "is it within what `trackside status` covers?" in reported


def test_one_failure_is_no_failures() -> None:
    medians = {"flag_at": 1.0, "expected": 0.1, "detectable_per_gpu_day": 0.1}
    ran = pl.DataFrame({**medians, "detectable_factor": 9.0, "failures": 1, "exposure_gpu_days": 8.0})
    (note,) = lemons._detectable(ran)  # noqa: SLF001 - the whole answer needs a warehouse
    assert note.startswith("1 failure that names a node in 8 GPU-days on 1 node,")
    assert "at 1 failure (median node)" in note
