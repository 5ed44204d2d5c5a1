"""Where Slurm cannot be asked at all: found out once, without waiting, and said with what can be done instead."""

from __future__ import annotations

import socket
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from app.cli import doctor
from app.config import settings as config
from app.errors import exit_status
from ingest.errors import ServerDownError, SourceDownError, SourceMissingError
from ingest.slurm.commands.runner import Completed
from ingest.slurm.settings import Slurm
from queries.warehouse import open_reader
from tests.support.slurm.fake_slurm import AWAY, FakeSlurm, Job, hours, ingest, table

if TYPE_CHECKING:
    from pathlib import Path

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)


def missing(command: list[str]) -> Completed | None:
    raise SourceMissingError(command)


def test_missing_slurm_commands_are_tried_once_with_a_hint(tmp_path: Path) -> None:
    slurm = FakeSlurm([], NOW, failing=missing)
    reported = ingest(tmp_path, slurm, clusters=["c1", "c2"])
    assert slurm.commands == [["sacct", "-e"]]
    assert reported.waits == []
    (error,) = [report.error for report in reported.reports]
    assert error is not None
    assert exit_status(error) == 20
    for words in ("sacct is not installed", "trackside ingest slurm FILE", "[slurm]", 'transport = "rest"', "rest_url"):
        assert words in str(error)


@pytest.mark.parametrize(
    "output",
    [
        b"Slurm accounting storage is disabled\n",
        b"sacct: error: ClusterName needs to be specified\nsacct: fatal: Unable to process configuration file\n",
        b"sacct: error: resolve_ctls_from_dns_srv: res_nsearch error: Unknown host\n"
        b"sacct: fatal: Could not establish a configuration source\n",
    ],
)
def test_without_accounting_or_configuration_no_more_is_run(tmp_path: Path, output: bytes) -> None:
    slurm = FakeSlurm([], NOW, failing=lambda _: Completed(1, b"", output))
    reported = ingest(tmp_path, slurm)
    assert slurm.commands == [["sacct", "-e"]]
    assert reported.waits == []
    (report,) = reported.reports
    assert isinstance(report.error, SourceDownError)
    assert output.decode().splitlines()[-1] in str(report.error)
    assert "trackside ingest slurm FILE" in str(report.error)


CONFIGLESS = Completed(1, b"", b"sacct: fatal: Could not establish a configuration source\n")
"""What commands say where slurmctld hands out slurm.conf, while it starts again."""


@pytest.mark.slow
@pytest.mark.parametrize("answer", [AWAY, CONFIGLESS])
def test_what_may_get_better_by_waiting_is_not_given_up_at_once(tmp_path: Path, answer: Completed) -> None:
    slurm = FakeSlurm([Job(1, NOW - hours(3), NOW - hours(2))], NOW)
    left = [answer, answer]
    slurm.failing = lambda _: left.pop() if left else None
    assert ingest(tmp_path, slurm).error is None
    assert table(tmp_path, "attempts")["job_id"].to_list() == ["1"]


@pytest.mark.parametrize("what", ["nothing", "a file", "no folder that may be looked into"])
def test_missing_socket_is_reported_once_with_its_setting(tmp_path: Path, what: str) -> None:
    path = tmp_path / "rest.socket"
    if what == "a file":
        path.write_text("")
    elif what != "nothing":
        path = tmp_path / ("x" * 300) / "rest.socket"
    slurm = FakeSlurm([], NOW)
    reported = ingest(tmp_path / "w", slurm, transport="rest", rest_url=f"unix:{path}")
    (report,) = reported.reports
    assert isinstance(report.error, ServerDownError)
    assert (reported.waits, slurm.commands) == ([], [])
    for words in ("slurmrestd", "rest_url", "[slurm]", str(path)):
        assert words in str(report.error)


def test_socket_without_a_listener_is_retried_with_one_message(tmp_path: Path) -> None:
    """The message names all sources."""
    path = tmp_path / "rest.socket"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
    reported = ingest(tmp_path / "w", FakeSlurm([], NOW), transport="rest", rest_url=f"unix:{path}", retry_s=1)
    assert reported.waits
    (error,) = [report.error for report in reported.reports]
    assert "no server listens there" in str(error)
    assert "Not read: slurmrestd clusters, slurmrestd nodes, slurmrestd reservations, slurmrestd jobs 2026-" in str(
        error
    )


def test_unusable_token_is_reported_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JWT", "two words")
    reported = ingest(tmp_path, FakeSlurm([], NOW), transport="rest", rest_url="http://127.0.0.1:1")
    (report,) = reported.reports
    assert reported.waits == []
    assert "cannot be sent this token" in str(report.error)
    with open_reader(tmp_path) as reader:
        assert reader.table("loads").is_empty()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("does", "output"),
    [
        ("echo 'Slurm accounting storage is disabled' >&2; exit 1", "Slurm accounting storage is disabled."),
        ("echo 'sacct: error while loading shared libraries: libslurmfull.so' >&2; exit 127", "libslurmfull.so."),
        ("exec sleep 60", "sacct did not answer in time."),
    ],
)
def test_doctor_reports_missing_accounting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], does: str, output: str
) -> None:
    (tmp_path / "sacct").write_text(f"#!/bin/sh\n{does}\n")
    for name in ("sacctmgr", "scontrol"):
        (tmp_path / name).write_text("#!/bin/sh\necho ClusterName = c1\n")
    for name in ("sacct", "sacctmgr", "scontrol"):
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    doctor.examine(tmp_path / "w", config.Config(slurm=Slurm(timeout_s=1)), now=NOW)
    reported = capsys.readouterr().out
    assert output in reported
    assert "Live ingest will not work" in reported
    assert "sacct has accounting" not in reported
