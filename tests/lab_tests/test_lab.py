"""The lab itself: what it starts works, and its truth agrees with what was done to it."""

import http.client
import json
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple, Self

import pytest

from tests.lab import LabError, ObservedAttempt, SlurmLab
from tests.lab.config import NODES, Layout
from tests.lab.processes import now, started_at_tick, wait_until

pytestmark = [pytest.mark.lab, pytest.mark.xdist_group("lab")]

PRECISION_S = 1.5
EPOCH_UTC = {"TZ": "UTC", "SLURM_TIME_FORMAT": "%s"}


@pytest.fixture
def slurm_lab(own_slurm_lab: SlurmLab) -> SlurmLab:
    """One for all tests of this module; leave its nodes up behind you."""
    return own_slurm_lab


class Row(NamedTuple):
    """What accounting has of one attempt."""

    state: str
    start: str
    end: str


def ended_rows(lab: SlurmLab, job_id: int, count: int = 1) -> list[Row]:
    """The rows of a job in accounting, oldest first, once `count` of them are complete.

    They come some moments after the event, and a row may read COMPLETED with End still Unknown.
    """
    rows: list[Row] = []

    def complete() -> bool:
        options = ("-D", "-X", "-n", "-P", "-j", str(job_id), "-o", "State,Start,End")
        rows[:] = [Row(*line.split("|")) for line in lab.sacct(*options, env=EPOCH_UTC).splitlines()]
        return len(rows) == count and "Unknown" not in {row.end for row in rows}

    lab.wait_until(complete, 40, f"{count} complete rows of job {job_id} in accounting")
    return rows


def assert_agree(attempt: ObservedAttempt, row: Row) -> None:
    """The attempt began and ended when accounting says, whose seconds are whole and cut."""
    assert attempt.end is not None
    off_s = (attempt.start - int(row.start), attempt.end - int(row.end))
    assert max(map(abs, off_s)) <= PRECISION_S + attempt.uncertainty_s, (off_s, attempt, row)


def test_it_starts_in_seconds_with_all_nodes_up(slurm_lab: SlurmLab) -> None:
    assert slurm_lab.started_in_s < 120  # 5 s on two quiet cores
    nodes_in = {node: slurm_lab.node_state(node) for node in NODES}
    # In random order: a job of the test before may still be ending here.
    assert set(nodes_in.values()) <= {"idle", "completing", "mixed", "allocated"}, nodes_in


def test_two_node_job_is_observed_as_accounting_has_it(slurm_lab: SlurmLab) -> None:
    job = slurm_lab.sbatch("sleep 3", "-N2", "--gres=gpu:2", "-w", "n1,n2")
    assert slurm_lab.wait_for(job) == "COMPLETED"

    [attempt] = slurm_lab.truth.attempts(job)
    assert (attempt.nodes, attempt.gpus_per_node, attempt.gpus) == (("n1", "n2"), 2, 4)
    assert (attempt.index, attempt.restart_count, attempt.end_state) == (0, 0, "COMPLETED")

    [row] = ended_rows(slurm_lab, job)
    assert row.state == "COMPLETED"
    assert_agree(attempt, row)

    [script] = slurm_lab.truth.script_starts(job)
    assert (script.node, script.nodes, script.gpus) == ("n1", ("n1", "n2"), (0, 1))
    assert attempt.script_start == script.at


def test_prolog_and_epilog_keep_the_gpu_map(slurm_lab: SlurmLab) -> None:
    job = slurm_lab.sbatch("sleep 2", "--gres=gpu:3", "-w", "n4", user="bob")
    slurm_lab.wait_until(lambda: slurm_lab.truth.script_starts(job), 20, "the script to start")
    gpu_map = slurm_lab.layout.map / "n4"
    assert {file.name: file.read_text() for file in gpu_map.iterdir()} == dict.fromkeys("012", f"{job}\n")

    slurm_lab.wait_for(job)
    slurm_lab.wait_until(lambda: len(slurm_lab.truth.hook_calls(job)) == 2, 10, "the epilog")
    slurm_lab.wait_until(lambda: not any(gpu_map.iterdir()), 5, "the map to be empty")
    calls = slurm_lab.truth.hook_calls(job)
    assert [(call.what, call.node, call.gpus) for call in calls] == [
        ("prolog", "n4", (0, 1, 2)),
        ("epilog", "n4", (0, 1, 2)),
    ]


def test_requeued_job_has_two_attempts(slurm_lab: SlurmLab) -> None:
    job = slurm_lab.sbatch("sleep 3", "--gres=gpu:4", "-w", "n5", "-p", "scav", "--requeue")
    slurm_lab.wait_until(lambda: slurm_lab.truth.script_starts(job), 20, "the script to start")
    slurm_lab.scontrol("requeue", str(job))
    slurm_lab.wait_until(lambda: len(slurm_lab.truth.script_starts(job)) == 2, 30, "the script to start again")
    assert slurm_lab.wait_for(job) == "COMPLETED"

    first, second = slurm_lab.truth.attempts(job)
    assert (first.index, first.restart_count, first.end_state) == (0, 0, "PENDING")
    assert (second.index, second.restart_count, second.end_state) == (1, 1, "COMPLETED")
    assert {first.nodes, second.nodes} == {("n5",)}
    assert first.end is not None
    assert first.end + 5 < second.start  # cred_expire + 1 s, cut to whole seconds

    rows = ended_rows(slurm_lab, job, count=2)
    assert [row.state for row in rows] == ["REQUEUED", "COMPLETED"]
    for attempt, row in zip((first, second), rows, strict=True):
        assert_agree(attempt, row)


def test_killed_node_is_down_and_its_job_failed_until_restart(slurm_lab: SlurmLab) -> None:
    job = slurm_lab.sbatch("sleep 300", "-N2", "--gres=gpu:8", "-w", "n2,n3", "--no-requeue")
    slurm_lab.wait_until(lambda: slurm_lab.truth.script_starts(job), 20, "the script to start")
    killed_at = slurm_lab.kill_node("n3")
    try:
        assert slurm_lab.wait_for(job, timeout=60) == "NODE_FAIL"
        # For a moment sinfo may still call it mixed*: the allocation is counted anew only now and then.
        slurm_lab.wait_until(lambda: slurm_lab.node_state("n3") == "down*", 10, "n3 to be down*")
    finally:
        slurm_lab.start_slurmd("n3")
    assert not slurm_lab.node_state("n3").startswith("down")

    [attempt] = slurm_lab.truth.attempts(job)
    assert attempt.end_state == "NODE_FAIL"
    [row] = ended_rows(slurm_lab, job)
    assert row.state == "NODE_FAIL"
    assert_agree(attempt, row)

    slurm_lab.wait_until(lambda: _down(slurm_lab, "n3", killed_at)[-1].end, 10, "the poller to see n3 come back")
    [down] = _down(slurm_lab, "n3", killed_at)
    assert down.start == pytest.approx(attempt.end, abs=PRECISION_S)
    assert 8 < down.start - killed_at < 40  # SlurmdTimeout is 10 s, and Slurm looks now and then


def _down(lab: SlurmLab, node: str, since: float) -> list[Any]:
    return [down for down in lab.truth.nodes_down() if down.node == node and down.start >= since]


class UnixConnection(http.client.HTTPConnection):
    """HTTP over a unix socket."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=10)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(str(self._path))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


@pytest.mark.parametrize(
    ("path", "key", "name"), [("/slurm/v0.0.38/nodes", "nodes", "n6"), ("/slurmdb/v0.0.38/accounts", "accounts", "llm")]
)
def test_slurmrestd_answers(slurm_lab: SlurmLab, path: str, key: str, name: str) -> None:
    with UnixConnection(slurm_lab.layout.rest_socket) as connection:
        connection.request("GET", path)
        answer = connection.getresponse()
        body = json.loads(answer.read())
    assert (answer.status, body["errors"]) == (200, [])
    assert name in {entry["name"] for entry in body[key]}


def test_accounting_catches_up_after_slurmdbd_was_away(slurm_lab: SlurmLab) -> None:
    slurm_lab.stop_slurmdbd()
    try:
        with pytest.raises(LabError, match=r"sacct .*ended with 1"):
            slurm_lab.sacct()
        job = slurm_lab.sbatch("true", "-w", "n6", "-p", "scav", user="carol")
        assert slurm_lab.wait_for(job) == "COMPLETED"
    finally:
        slurm_lab.start_slurmdbd()
    assert [row.state for row in ended_rows(slurm_lab, job)] == ["COMPLETED"]


def test_running_job_outlives_a_restart_of_slurmctld(slurm_lab: SlurmLab) -> None:
    job = slurm_lab.sbatch("sleep 4", "-w", "n6", "-p", "scav", "--gres=gpu:1", user="dave")
    slurm_lab.wait_for(job, "RUNNING")
    slurm_lab.restart_slurmctld()
    assert slurm_lab.wait_for(job) == "COMPLETED"
    assert len(slurm_lab.truth.attempts(job)) == 1


def test_a_second_lab_is_removed_with_its_test_run(slurm_lab: SlurmLab) -> None:
    """Also when that test run is killed."""
    source = (
        "import sys, time\n"
        "from tests.lab import SlurmLab\n"
        "lab = SlurmLab()\n"
        "lab.start()\n"
        "job = lab.sbatch('sleep 300', '--gres=gpu:1')\n"
        "lab.wait_for(job, 'RUNNING')\n"
        "print(lab.base, lab.ports.first, flush=True)\n"
        "time.sleep(300)\n"
    )
    root = Path(__file__).parents[2]
    with subprocess.Popen([sys.executable, "-c", source], cwd=root, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        base, port = run.stdout.readline().split()
        assert int(port) != slurm_lab.ports.first
        ledger = [line.split() for line in Layout(Path(base)).ledger.read_text().splitlines()]
        assert len(ledger) == 5 + len(NODES)  # munged, mariadb, slurmdbd, slurmctld, slurmrestd
        run.send_signal(signal.SIGKILL)

    wait_until(lambda: not Path(base).exists(), 20, f"{base} to be gone")
    assert [name for pid, tick, name in ledger if started_at_tick(int(pid)) == int(tick)] == []
    assert slurm_lab.node_state("n1") == "idle"  # the other lab was not meant


def test_time_is_by_the_clock_that_slurm_uses(slurm_lab: SlurmLab) -> None:
    before = now()
    shown = int(slurm_lab.run(["date", "+%s"]).stdout)
    assert before - 1 <= shown <= now()
