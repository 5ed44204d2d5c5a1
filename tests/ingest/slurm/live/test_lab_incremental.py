"""Live ingests of a real Slurm, again and again: jobs that run meanwhile, a slurmdbd that goes, a process that dies.

However it went, in the end the warehouse is that of one ingest of everything.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from app import clock
from app.config.settings import Config
from ingest.errors import SourceDownError
from ingest.slurm.commands.runner import Completed, subprocess_runner
from ingest.slurm.live import ingest as live_ingest
from ingest.slurm.load_files import Options
from ingest.slurm.settings import Slurm
from ingest.store.report import first_error
from queries.warehouse import open_reader, open_writer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime
    from pathlib import Path

    from tests.lab import SlurmLab

pytestmark = [pytest.mark.lab, pytest.mark.xdist_group("lab")]

ONE_GPU = ("-p", "main", "-n1", "--gres=gpu:1")
TABLES = ("attempts", "attempt_nodes", "node_states", "rejects")
WINDOW_DAYS = 5 / 86400
"""Five seconds: a minute of the lab is a dozen windows."""

LOOKBACK_DAYS = 1 / 24
"""An hour: longer than any lab lives. The month that is usual would be thousands of small windows without a job."""


def rows(warehouse: Path) -> dict[str, list[tuple[object, ...]]]:
    """The rows that are told apart from when they were loaded."""
    with open_reader(warehouse) as reader:
        return {name: sorted(reader.table(name).rows(), key=repr) for name in TABLES}


def states(warehouse: Path) -> dict[str, str]:
    with open_reader(warehouse) as reader:
        return dict(reader.table("attempts").select("job_id", "state").iter_rows())


def ingest(
    lab: SlurmLab,
    warehouse: Path,
    before: Callable[[list[str]], None] = lambda _: None,
    user: str | None = None,
    /,
    **settings: float,
) -> Exception | None:
    """One ingest in this process, its commands run by that user; `before` sees each. What failed first."""

    def runner(command: list[str], environment: Mapping[str, str]) -> Completed:
        before(command)
        if user is None:
            return subprocess_runner(command, {**lab.env, **environment})
        done = lab.run(command, user=user, env=environment, check=False)
        return Completed(done.returncode, done.stdout.encode(), done.stderr.encode())

    now = clock.now()
    config = Config(slurm=Slurm.model_validate({"retry_s": 0.1, "pause_s": 0, **settings}))
    with open_writer(warehouse, verb="test", now=now) as writer:
        reports = live_ingest.ingest_live(writer, config, Options(), now=now, runner=runner, progress=lambda *_: None)
    return first_error(reports)


def settle(lab: SlurmLab) -> None:
    """Wait until slurmctld has told slurmdbd all it has to tell."""
    lab.wait_until(
        lambda: "DBD Agent queue size: 0" in lab.run(["sdiag"]).stdout, 60, "slurmctld to have told slurmdbd"
    )
    time.sleep(2)


def shown(lab: SlurmLab) -> set[str]:
    """Job id and state of all jobs that a window up to now shows."""
    return set(lab.sacct("-aXPn", "-S", "now-1hour", "-E", "now", "-o", "JobIDRaw,State").splitlines())


def once(lab: SlurmLab, folder: Path) -> dict[str, list[tuple[object, ...]]]:
    """The rows of one ingest of everything."""
    assert ingest(lab, folder / "once") is None
    return rows(folder / "once")


def test_jobs_between_ingests_equal_those_of_one_ingest(own_slurm_lab: SlurmLab, tmp_path: Path) -> None:
    lab, often = own_slurm_lab, tmp_path / "often"
    jobs = [lab.sbatch(f"sleep {seconds}", *ONE_GPU) for seconds in (1, 5, 300)]
    # Running for slurmctld is not running for slurmdbd yet, nor within a window that ends with this second.
    lab.wait_until(lambda: f"{jobs[2]}|RUNNING" in shown(lab), 30, "accounting to show it running")
    assert ingest(lab, often, overlap_hours=0) is None
    assert "RUNNING" in states(often).values()
    lab.scancel(jobs[2], user="alice")
    for number in range(3):
        jobs.append(lab.sbatch(f"sleep {number}", *ONE_GPU, *(("--array=0-2",) if number == 2 else ())))
        time.sleep(2)
        assert ingest(lab, often, overlap_hours=24 * (number % 2)) is None
    for job in jobs:
        lab.wait_for(job, timeout=120)
    settle(lab)
    assert ingest(lab, often, overlap_hours=0) is None
    assert not {"RUNNING", "PENDING"} & set(states(often).values())
    assert rows(often) == once(lab, tmp_path)


def test_a_held_job_that_is_cancelled_is_read(own_slurm_lab: SlurmLab, tmp_path: Path) -> None:
    lab, warehouse = own_slurm_lab, tmp_path / "w"
    blocking = lab.sbatch("sleep 300", "-p", "main", "-w", "n3", "-n1", "--exclusive")
    lab.wait_for(blocking, "RUNNING")
    job = lab.sbatch("sleep 300", "-p", "main", "-w", "n3", "-n1", "--exclusive")
    array = lab.sbatch("sleep 300", "-p", "main", "-w", "n3", "-n1", "--exclusive", "--array=0-3")
    both = {f"{job}|PENDING", f"{array}|PENDING"}
    lab.wait_until(lambda: both <= shown(lab), 30, "both to be eligible")
    settle(lab)  # a window that ends in the very second shows them by luck only
    assert ingest(lab, warehouse) is None
    assert (states(warehouse)[str(job)], states(warehouse)[str(array)]) == ("PENDING", "PENDING")
    lab.scontrol("hold", str(job))
    lab.scontrol("hold", str(array))
    settle(lab)
    lab.scancel(job, array, user="alice")
    settle(lab)
    assert f"{job}|" not in lab.sacct("-a", "-D", "-X", "-P", "-S", "now-1hour", "-E", "now")  # no window shows it
    assert ingest(lab, warehouse) is None
    assert (states(warehouse)[str(job)], states(warehouse)[str(array)]) == ("CANCELLED", "CANCELLED")
    lab.scancel(blocking)
    lab.wait_for(blocking)


def test_slurmdbd_that_stops_midway_loses_and_doubles_nothing(own_slurm_lab: SlurmLab, tmp_path: Path) -> None:
    lab, warehouse = own_slurm_lab, tmp_path / "w"
    jobs = [lab.sbatch(f"sleep {number % 3}", *ONE_GPU) for number in range(6)]
    for job in jobs:
        lab.wait_for(job, timeout=120)
    settle(lab)
    seen = 0

    def stopping(command: list[str]) -> None:
        nonlocal seen
        seen += "-S" in command
        if seen == 4 and "-S" in command:
            lab.stop_slurmdbd()

    settings = {"window_days": WINDOW_DAYS, "lookback_days": 60 / 86400}
    try:
        failed = ingest(lab, warehouse, stopping, **settings)
        late = lab.sbatch("sleep 1", *ONE_GPU)  # slurmctld keeps its news
        lab.wait_for(late)
    finally:
        lab.start_slurmdbd()
    assert isinstance(failed, SourceDownError)
    with open_reader(warehouse) as reader:
        assert reader.table("loads").filter(source="slurm.accounting").height == 3
    settle(lab)
    assert ingest(lab, warehouse, window_days=0.01, lookback_days=LOOKBACK_DAYS, overlap_hours=0) is None
    assert states(warehouse)[str(late)] == "COMPLETED"
    assert rows(warehouse)["attempts"] == once(lab, tmp_path)["attempts"]
    assert rows(warehouse) == rows(tmp_path / "once")


def requests_file(warehouse: Path) -> Path:
    """Where the questions to sacct are written down."""
    return warehouse.with_name("asked.txt")


def n_windows(warehouse: Path) -> int:
    return requests_file(warehouse).read_text().count(" -S ") if requests_file(warehouse).exists() else 0


def configure(folder: Path, *, pause_s: float) -> None:
    """Small windows, and a pause between them."""
    (folder / "trackside.toml").write_text(
        f"[slurm]\nwindow_days = {6 * WINDOW_DAYS}\npause_s = {pause_s}\noverlap_hours = 0\n"
    )


def started(lab: SlurmLab, warehouse: Path, since: datetime) -> subprocess.Popen[str]:
    """A backfill as a process of its own, in many windows; each question to sacct is written down first."""
    shim = warehouse.with_name("bin") / "sacct"
    shim.parent.mkdir(exist_ok=True)
    shim.write_text(f'#!/bin/sh\necho "$*" >> {requests_file(warehouse)}\nexec /usr/bin/sacct "$@"\n')
    shim.chmod(0o755)
    path = f"{shim.parent}:{lab.env['PATH']}"
    return subprocess.Popen(
        [
            sys.executable,
            "-m",
            "app.cli.main",
            "ingest",
            "slurm",
            "--since",
            since.isoformat(),
            "--warehouse",
            str(warehouse),
        ],
        env={**lab.env, "PATH": path, "TRACKSIDE_CONFIG": str(warehouse.with_name("trackside.toml"))},
        stderr=subprocess.PIPE,
        text=True,
    )


def test_an_ingest_that_is_killed_goes_on_where_it_was(own_slurm_lab: SlurmLab, tmp_path: Path) -> None:
    from datetime import timedelta

    lab, warehouse = own_slurm_lab, tmp_path / "w"
    jobs = [lab.sbatch(f"sleep {number % 3}", *ONE_GPU) for number in range(4)]
    for job in jobs:
        lab.wait_for(job, timeout=120)
    settle(lab)
    since = (clock.now() - timedelta(minutes=10)).replace(microsecond=0)
    configure(tmp_path, pause_s=0.5)
    killed = started(lab, warehouse, since)
    lab.wait_until(lambda: n_windows(warehouse) >= 8, 120, "some windows to be read")
    killed.send_signal(signal.SIGKILL)
    assert killed.wait() == -signal.SIGKILL
    assert n_windows(warehouse) < 20
    assert killed.stderr is not None
    killed.stderr.close()
    configure(tmp_path, pause_s=0)  # nobody has to hit the right moment any more
    again = started(lab, warehouse, since)
    output = again.communicate(timeout=300)[1]
    assert again.returncode == 0, output
    assert rows(warehouse) == once(lab, tmp_path)


def test_restricted_user_leaves_the_time_to_an_operator(own_slurm_lab: SlurmLab, tmp_path: Path) -> None:
    """Who may not see the jobs of others does not cover their time."""
    lab, warehouse = own_slurm_lab, tmp_path / "w"
    job = lab.sbatch("sleep 1", *ONE_GPU, user="alice")
    lab.wait_for(job)
    settle(lab)
    conf = lab.layout.base / "etc" / "slurmdbd.conf"
    before = conf.read_text()
    seen = {}
    try:
        lab.stop_slurmdbd()
        conf.write_text(f"{before}PrivateData=jobs\n")
        lab.start_slurmdbd()
        for user in ("bob", "dave"):  # dave has AdminLevel Operator
            assert ingest(lab, warehouse, lambda _: None, user) is None
            with open_reader(warehouse) as reader:
                there, loads = reader.table("attempts"), reader.table("loads").filter(source="slurm.accounting")
            seen[user] = (str(job) in set(there["job_id"]), loads["covers_from"].null_count() < loads.height)
    finally:
        lab.stop_slurmdbd()
        conf.write_text(before)
        lab.start_slurmdbd()
    assert seen == {"bob": (False, False), "dave": (True, True)}
