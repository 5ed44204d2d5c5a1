"""`trackside fleet` as a person uses it: lines, a table, and an exit status that says whether all is done."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING

import pytest

from app.cli import main as cli
from app.fleet import task
from app.fleet.here import Here
from app.fleet.task import ClusterTask, Failure, TaskOutcome

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

AWAY = Failure("slurm", "sacct does not answer\nTry again later.", 21)


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The command of a fleet of three clusters, of which `beta` fails."""
    monkeypatch.delenv("TRACKSIDE_WAREHOUSE", raising=False)
    for name in ("alpha", "beta", "gamma"):
        (tmp_path / f"{name}.toml").write_text(f'cluster = "{name}"\nwarehouse = "{name}"\n')
    (tmp_path / "fleet").write_text('[fleet]\nclusters = ["*.toml"]\n')

    def run(each: ClusterTask) -> TaskOutcome:
        failures = (AWAY,) if each.cluster == "beta" else ()
        return TaskOutcome(
            each.cluster, each.directory, 3, 1_200, 1, 50, 2.5, 1.25, 300.0, "process 7 on host", failures
        )

    monkeypatch.setattr(task, "run", run)
    return ["fleet", "--config", str(tmp_path / "fleet")]


def test_fleet_says_which_failed_and_why(fleet: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(fleet) == 51
    printed = capsys.readouterr()
    assert "alpha: 1,200 new rows, computed, 50 rows committed (2.5 s)" in printed.err
    assert "1 of 3 clusters were not brought up to date:\n  beta: slurm: sacct does not answer\n" in printed.err
    assert [line.split()[0] for line in printed.out.splitlines()[1:]] == ["alpha", "beta", "gamma"]


def test_fleet_without_a_failure_is_done(fleet: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([*fleet, "alpha", "gamma", "--quiet", "--format", "json"]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    rows = json.loads(printed.out)["rows"] if printed.out.startswith("{") else json.loads(printed.out)
    assert [(row["cluster"], row["result"], row["status"], row["peak_mb"]) for row in rows] == [
        ("alpha", "done", 0, 300.0),
        ("gamma", "done", 0, 300.0),
    ]


def test_table_is_printed_though_workers_do_not_let_go(
    fleet: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextlib.contextmanager
    def workers(*_: object) -> Iterator[Here]:
        yield Here()
        raise TimeoutError("timed out after 10 s")

    monkeypatch.setattr("app.cli.verbs.serving.fleet._workers", workers)
    assert cli.main([*fleet, "-q", "--format", "csv"]) != 0
    assert [line.split(",")[1] for line in capsys.readouterr().out.splitlines()[1:]] == [
        "done",
        "failed: slurm",
        "done",
    ]


def test_cluster_with_a_mistake_is_listed(fleet: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "gamma.toml").write_text("cluster = 3")
    assert cli.main([*fleet, "-q", "--format", "csv", "alpha", "gamma"]) == 51
    printed = capsys.readouterr()
    assert "1 of 2 clusters" in printed.err
    [line] = (line for line in printed.out.splitlines() if line.startswith("gamma"))
    assert line.startswith("gamma,failed: configuration,10,,,")  # what never ran is null, not 0


@pytest.mark.parametrize(
    "arguments", [["--workers", "-1"], ["--workers", "2", "--scheduler", "tcp://127.0.0.1:1"], ["--scheduler", "x"]]
)
def test_fleet_refuses_what_it_cannot_do(
    arguments: list[str], fleet: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        status = cli.main([*fleet, *arguments])
    except SystemExit as ended:
        status = int(str(ended.code))
    assert status == 2
    assert "trackside" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [["--processes", "0"], ["--host", "192.0.2.1", "tcp://127.0.0.1:1"], ["--host", "", "tcp://127.0.0.1:1"], []],
)
def test_worker_refuses_what_it_cannot_do(
    arguments: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "empty.toml").touch()
    try:
        status = cli.main(["worker", "--config", str(tmp_path / "empty.toml"), *arguments])
    except SystemExit as ended:
        status = int(str(ended.code))
    assert status == 2
    assert "trackside" in capsys.readouterr().err
