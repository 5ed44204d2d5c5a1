"""Doctor and status: what is there, what is missing, what it allows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from app.cli import doctor
from queries.sandbox.confinement import Measures
from tests.ingest.slurm.live.test_rest import slurmrestd
from tests.support.command import trackside
from tests.support.slurm.dumps import tiny
from tests.support.web import web

if TYPE_CHECKING:
    from pathlib import Path


def test_doctor_without_anything_succeeds_with_the_next_step(tmp_path: Path) -> None:
    done = trackside("doctor", "--warehouse", str(tmp_path / "w"), env={"PATH": str(tmp_path)})
    assert done.returncode == 0
    assert "trackside ingest slurm" in done.stdout
    assert "load files instead" in done.stdout


def test_slurm_that_is_configured_and_not_here_fails(tmp_path: Path) -> None:
    file = tmp_path / "trackside.toml"
    file.write_text("[slurm]\nlookback_days = 7\n")
    done = trackside("doctor", "--config", str(file), "--warehouse", str(tmp_path / "w"), env={"PATH": str(tmp_path)})
    assert done.returncode == 20
    assert "fail the configuration has a section [slurm], but sacct, sacctmgr, scontrol" in done.stdout


def by_slurmrestd(folder: Path, url: str) -> tuple[str, ...]:
    file = folder / "trackside.toml"
    file.write_text(f'[slurm]\ntransport = "rest"\nrest_url = "{url}"\n')
    return "doctor", "--config", str(file), "--warehouse", str(folder / "w")


def test_with_slurmrestd_no_missing_command_is_reported(tmp_path: Path) -> None:
    with web(slurmrestd("0.0.41")) as server:
        done = trackside(*by_slurmrestd(tmp_path, server.url), env={"PATH": str(tmp_path)})
        requested = {path.rpartition("/")[2] for path, _, _ in server.questions}
    assert done.returncode == 0
    assert f"ok   slurmrestd {server.url} responds for slurmdbd and slurmctld" in done.stdout
    assert "not found" not in done.stdout
    assert {"clusters", "nodes"} <= requested


def test_a_slurmrestd_that_does_not_answer_is_a_failure(tmp_path: Path) -> None:
    done = trackside(*by_slurmrestd(tmp_path, f"unix:{tmp_path}/none.sock"), env={"PATH": str(tmp_path)})
    assert done.returncode == 22
    assert "fail unix:" in done.stdout
    assert "no such socket" in done.stdout
    assert "load files instead (trackside ingest slurm" not in done.stdout


def test_a_missing_secret_of_prometheus_is_one_failure(tmp_path: Path) -> None:
    """What else doctor checks is checked all the same."""
    file = tmp_path / "trackside.toml"
    file.write_text('[prometheus]\nurl = "http://127.0.0.1:1"\ntoken_env = "ABSENT"\n')
    done = trackside("doctor", "--config", str(file), "--warehouse", str(tmp_path / "w"), env={"PATH": str(tmp_path)})
    assert done.returncode == 2
    assert "fail prometheus.token_env names $ABSENT, which is not set or empty here" in done.stdout
    assert "\nexplorer\n" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(("said", "status"), [("2.0", 0), ("3.0", 10)])
def test_doctor_tries_the_examples_of_log_formats(tmp_path: Path, said: str, status: int) -> None:
    (tmp_path / "trackside.toml").write_text(
        "[[runlog.format]]\nname = 'mine'\n"
        "line = [{ kind = 'step', starts = '^it', fields = { step = 'it (\\d+)', duration_s = 'took ([\\d.]+)' } }]\n"
        f"example = [{{ text = 'it 1 took 2.0 s', gives = {{ duration_s = {said} }} }}]\n"
    )
    options = ("--config", str(tmp_path / "trackside.toml"), "--warehouse", str(tmp_path / "w"))
    done = trackside("doctor", *options, env={"PATH": str(tmp_path)})
    assert done.returncode == status
    expected = "ok   mine: 1 example read as stated" if status == 0 else "fail runlog.format 1 (mine), example 1:"
    assert expected in done.stdout


@pytest.mark.slow
def test_doctor_lists_the_sources_of_a_warehouse(tmp_path: Path) -> None:
    files = tiny(10).write(tmp_path)
    assert trackside("ingest", "slurm", *files[:1], "--warehouse", str(tmp_path / "w")).returncode == 0
    done = trackside("doctor", "--warehouse", str(tmp_path / "w"), env={"PATH": str(tmp_path)})
    assert "ok   Slurm job accounting" in done.stdout
    assert "-    Slurm node inventory" in done.stdout
    for adds in ("node inventory: configured capacity", "telemetry: narrower goodput", "run logs: goodput and ETTR"):
        assert f"-    {adds}" in done.stdout


@pytest.mark.slow
def test_a_broken_warehouse_is_a_failure(tmp_path: Path) -> None:
    files = tiny(10).write(tmp_path)
    assert trackside("ingest", "slurm", *files[:1], "--warehouse", str(tmp_path / "w")).returncode == 0
    for copy in (tmp_path / "w" / "published").glob("*.duckdb"):
        copy.write_bytes(b"rubbish" * 1000)
    done = trackside("doctor", "--warehouse", str(tmp_path / "w"), env={"PATH": str(tmp_path)})
    assert done.returncode == 41
    assert "fail" in done.stdout


@pytest.mark.slow
def test_status_reports_how_far_data_and_ledger_reach(tmp_path: Path) -> None:
    files = tiny(10).write(tmp_path)
    where = ("--warehouse", str(tmp_path / "w"))
    assert trackside("ingest", "slurm", *files, *where).returncode == 0
    assert "nothing computed yet; run: trackside compute" in trackside("status", *where).stdout
    assert trackside("compute", *where).returncode == 0
    assert "ledger covers 2026-10-01" in trackside("status", *where).stdout
    assert trackside("ingest", "slurm", *files, *where).returncode == 0
    output = trackside("show", "goodput", *where)
    assert "since the last computation; run: trackside compute" in output.stderr


@pytest.mark.parametrize(
    ("landlock", "seccomp", "line"),
    [
        (7, True, "ok   sandbox of `sql`: Landlock ABI 7, seccomp"),
        (0, True, "warn sandbox of `sql`: Landlock not available, seccomp; without"),
        (4, False, "warn sandbox of `sql`: Landlock ABI 4, seccomp not available; without"),
    ],
)
def test_doctor_reports_what_confines_a_persons_sql(
    landlock: int, seccomp: bool, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    doctor._sandbox(Measures(landlock, seccomp))  # noqa: SLF001 - kernels that we do not have
    assert line in capsys.readouterr().out
