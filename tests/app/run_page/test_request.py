"""Which run is meant: ids as Slurm and people write them, names, the job of the shell, the caller's last run."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from app.errors import UsageError
from app.run_page.request import RunChoice, choose
from queries.warehouse import open_reader
from tests.app.run_page.jobs import HOUR, T, accounting, loaded
from tests.support.command import trackside

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return loaded(tmp_path_factory.mktemp("run_request"))


def chosen(
    root: Path,
    text: str | None,
    *,
    cluster: str | None = None,
    environment: Mapping[str, str] | None = None,
    user: str | None = None,
) -> RunChoice:
    with open_reader(root) as reader:
        return choose(reader, text, cluster, environment=environment or {}, user=user)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "job"),
    [
        ("101", "101"),  # a job
        ("101.batch", "101"),  # a step of it, as squeue --steps prints it
        ("101.0", "101"),
        ("106_3", "108"),  # an array task, by what people see
        ("108", "108"),  # the same by its raw id
        ("110+1", "110"),  # a component of a heterogeneous job: the run is the leader's
        ("110", "110"),
        ("healthy", "101"),  # a job's name
        (" 101 ", "101"),
    ],
)
def test_run_of_an_id_or_a_name(root: Path, text: str, job: str) -> None:
    assert chosen(root, text).run_id.startswith(f"{job}-")
    assert chosen(root, text).notes == ()


def test_name_in_a_log_is_the_runs_id(root: Path) -> None:
    assert chosen(root, "102").run_id == "llama-8b"
    assert chosen(root, "llama-8b").logged_only is False
    assert chosen(root, "laptop") == RunChoice("local", "laptop", logged_only=True)


def test_of_several_runs_the_newest_is_chosen(root: Path) -> None:
    array = chosen(root, "106")
    assert array.run_id.startswith("108-")
    (note,) = array.notes
    assert "2 runs" in note
    assert "trackside run 107-" in note
    assert chosen(root, "sweep").run_id == array.run_id


def test_without_an_id_the_job_of_the_shell_goes_first(root: Path) -> None:
    inside = chosen(root, None, environment={"SLURM_JOB_ID": "103"}, user="alice")
    assert inside.run_id.startswith("103-")
    own = chosen(root, None, user="bob")
    assert own.run_id.startswith("103-")
    assert "The last run of bob" in own.notes[0]
    nobody = chosen(root, None, user="zoe")
    assert nobody.run_id.startswith("104-")
    assert "The newest run" in nobody.notes[0]


def test_only_of_the_requested_cluster(root: Path) -> None:
    assert chosen(root, None, cluster="u").run_id.startswith("201-")
    with pytest.raises(UsageError, match="there is no run or job '201' of c"):
        chosen(root, "201", cluster="c")
    with pytest.raises(UsageError, match="no cluster 'x'"):
        chosen(root, "201", cluster="x")


def test_unknown_run_gets_a_suggestion_and_the_newest_runs(root: Path) -> None:
    done = trackside("run", "lama-8b", "--warehouse", str(root))
    assert done.returncode == 2
    assert "Did you mean: llama-8b" in done.stderr
    assert "104-20260921T231320Z  waits  alice  PENDING" in done.stderr
    shell = trackside("run", "--warehouse", str(root), env={"SLURM_JOB_ID": "99999"})
    assert shell.returncode == 2
    assert "SLURM_JOB_ID" in shell.stderr


def test_hostile_id_does_not_steer_the_terminal(root: Path) -> None:
    done = trackside("run", "\x1b[2J", "--warehouse", str(root))
    assert done.returncode == 2
    assert "\x1b" not in done.stderr


def test_warehouse_without_a_run_names_what_is_missing(tmp_path: Path) -> None:
    missing = trackside("run", "--warehouse", str(tmp_path / "none"))
    assert missing.returncode == 40
    (tmp_path / "sacct.txt").write_text(accounting())
    loaded = trackside("ingest", "slurm", str(tmp_path / "sacct.txt"), "--warehouse", str(tmp_path / "w"))
    assert loaded.returncode == 0, loaded.stderr
    uncomputed = trackside("run", "--warehouse", str(tmp_path / "w"))
    assert uncomputed.returncode == 2
    assert "trackside compute" in uncomputed.stderr


@pytest.mark.slow
def test_other_name_in_the_logs_of_a_run_finds_it(tmp_path: Path) -> None:
    """A process that asks its tracker for a new id at each requeue: its attempts are one run, of the first name."""
    (tmp_path / "sacct.txt").write_text(accounting())
    for number, hours in enumerate((0, 5.1)):
        of_job = {"job_id": "102", "cluster": "c", "scheduler": "slurm", "restart_count": number, "n_gpus": 16}
        line = {"type": "run", "v": 1, "t": T + round(HOUR * hours) + 5, "run_id": f"tracked-{number}", **of_job}
        (tmp_path / f"{number}.jsonl").write_text(json.dumps(line) + "\n")
    at = ("--warehouse", str(tmp_path / "w"))
    for verb in (("slurm", "sacct.txt"), ("runlog", "0.jsonl"), ("runlog", "1.jsonl")):
        assert trackside("ingest", verb[0], str(tmp_path / verb[1]), *at).returncode == 0
    assert trackside("compute", *at).returncode == 0
    first, second = chosen(tmp_path / "w", "tracked-0"), chosen(tmp_path / "w", "tracked-1")
    assert (first.run_id, first.notes) == ("tracked-0", ())
    assert second.run_id == "tracked-0"
    assert second.notes == ("tracked-1 is the name of this run in another log of its attempts",)
