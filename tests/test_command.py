"""The command line in the tests' own process answers as in a process of its own."""

import os
import sys
from pathlib import Path

import pytest

from tests.support.command import trackside, trackside_process
from tests.support.slurm.dumps import tiny

COMMANDS = {
    "help": ("show", "--help"),
    "usage": ("show", "nothing-of-the-kind"),
    "no warehouse": ("show", "goodput"),
    "refused file": ("ingest", "slurm", "nowhere.txt"),
    "empty stdin": ("ingest", "slurm", "-"),
}


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_command_in_process_is_as_in_its_own(command: str, tmp_path: Path) -> None:
    env = {"TRACKSIDE_WAREHOUSE": str(tmp_path / "w"), "COLUMNS": "70"}
    one, other = (run(*COMMANDS[command], env=env, cwd=tmp_path) for run in (trackside, trackside_process))
    assert one.returncode == other.returncode
    assert (one.stdout, one.stderr) == (other.stdout, other.stderr)
    assert one.stdout or one.stderr


@pytest.mark.slow
def test_command_in_process_leaves_no_trace(tmp_path: Path) -> None:
    before = (dict(os.environ), Path.cwd(), sys.stdin, sys.stdout, sys.stderr, sys.argv)
    assert trackside("ingest", "slurm", *tiny(5).write(tmp_path), "--warehouse", str(tmp_path / "w")).returncode == 0
    exported = trackside("export", "attempts", "--format", "csv", env={"TRACKSIDE_WAREHOUSE": str(tmp_path / "w")})
    assert exported.stdout.startswith("cluster,scheduler,job_id,")
    assert before == (dict(os.environ), Path.cwd(), sys.stdin, sys.stdout, sys.stderr, sys.argv)


def test_command_in_process_refuses_what_is_read_at_start() -> None:
    with pytest.raises(AssertionError, match="read when a process starts"):
        trackside("--version", env={"POLARS_MAX_THREADS": "3"})
