"""What a live ingest says: a line for each source, a message for each cause, and no warning twice."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from app.cli import load_report
from app.cli.status import status
from ingest.errors import InputError, SourceDownError
from ingest.load_warnings import messages
from ingest.slurm.commands.runner import Completed
from ingest.store.report import LoadSummary, Note
from ingest.store.summary import FailedQuestion, failures
from queries.warehouse import open_reader
from tests.support.slurm.answers import answer, job, node
from tests.support.slurm.fake_slurm import AWAY, DENIED, FakeSlurm, Job, LiveReports, days, epoch, hours, ingest, table
from tests.support.web import Answer, web

if TYPE_CHECKING:
    from pathlib import Path

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)


def lines(reported: LiveReports) -> dict[str, str]:
    """The line of each source."""
    summed = [report for report in reported.reports if isinstance(report, LoadSummary) and not isinstance(report, Note)]
    result = {str(report.parsed.source): report.line for report in summed if report.parsed}
    assert len(result) == len(summed)
    return result


# --- what was loaded


@pytest.mark.slow
def test_each_source_has_one_line_with_row_counts_like_files(tmp_path: Path) -> None:
    slurm = FakeSlurm([Job(each, NOW - hours(5), NOW - hours(5), NOW + hours(1)) for each in (1, 2)], NOW)
    slurm.jobs[1].end = None
    first = lines(ingest(tmp_path, slurm))
    windows = "2026-10-21 12:00 to 2026-11-20 12:00 (5 windows)"
    assert first["slurm.accounting"] == f"slurm.accounting  sacct {windows}, 2 rows: 2 new"
    assert first["slurm.nodes"] == "slurm.nodes  scontrol show node, 1 row: 1 new"
    assert first["slurm.config"] == "slurm.config  scontrol show config, 2 rows: 2 new"
    slurm.now += hours(2)
    slurm.jobs.append(Job(3, NOW, NOW))
    again = lines(ingest(tmp_path, slurm))
    window = "2026-11-19 12:00 to 2026-11-20 14:00"
    assert again["slurm.accounting"] == f"slurm.accounting  sacct {window}, 3 rows: 1 new, 2 known already"
    assert again["slurm.nodes"] == "slurm.nodes  scontrol show node, 1 row: 0 new, 1 known already"
    (last,) = table(tmp_path, "loads").filter(source="slurm.accounting", loaded_at=slurm.now)["rows_new"]
    assert last == 1


@pytest.mark.slow
def test_the_rows_of_all_windows_are_added(tmp_path: Path) -> None:
    slurm = FakeSlurm([Job(each, NOW - days(each), NOW - days(each), NOW - days(each)) for each in (1, 9, 20)], NOW)
    assert lines(ingest(tmp_path, slurm))["slurm.accounting"].endswith("(5 windows), 3 rows: 3 new")
    assert lines(ingest(tmp_path, slurm, since=NOW - days(30), again=True))["slurm.accounting"].endswith(
        "(5 windows), 3 rows: 0 new, 3 known already"
    )


@pytest.mark.slow
def test_line_counts_refused_rows_and_backfills_none_as_held(tmp_path: Path) -> None:
    slurm = FakeSlurm([Job(1, NOW - hours(5), NOW - hours(4), NOW - hours(3)), Job(2, NOW - hours(5))], NOW)
    slurm.jobs[0].state = ""
    reported = ingest(tmp_path, slurm)
    assert lines(reported)["slurm.accounting"].endswith(", 2 rows: 1 new, 1 rejected")
    assert [report.parsed.frames for report in reported.reports if report.parsed] == [{}] * len(reported.reports)


@pytest.mark.slow
def test_each_line_names_its_cluster_if_several(tmp_path: Path) -> None:
    reported = ingest(tmp_path, FakeSlurm([Job(1, NOW - hours(5))], NOW), clusters=["c1", "c2"])
    nodes = [
        report.line for report in reported.reports if isinstance(report, LoadSummary) and "show node" in report.line
    ]
    assert nodes == [f"slurm.nodes  {name}: scontrol show node, 1 row: 1 new" for name in ("c1", "c2")]


# --- what was not


def test_unavailable_slurmdbd_is_one_message_with_all_unread(tmp_path: Path) -> None:
    slurm = FakeSlurm([], NOW)
    slurm.failing = lambda command: AWAY if command[0] in {"sacct", "sacctmgr"} and "-e" not in command else None
    reported = ingest(tmp_path, slurm, retries=1)
    (error,) = [report.error for report in reported.reports if report.error]
    assert isinstance(error, SourceDownError)
    assert str(error).count("failed to open connection") == 1
    assert str(error).splitlines()[-1] == (
        "Not read: sacctmgr show event, sacctmgr show reservation, sacctmgr show assoc, sacctmgr show user, "
        "sacctmgr show qos, sacctmgr show transactions, squeue and sacct: runaway jobs, "
        "sacct 2026-10-21 12:00 to 2026-11-20 12:00."
    )
    (left,) = messages(reported.warnings)
    assert "sdiag" in left
    assert "failed to open connection" not in left


@pytest.mark.parametrize("cluster", ["", "c1"])
def test_one_failure_is_reported_once(cluster: str) -> None:
    for error in (InputError("nodes.txt: cannot be read"), SourceDownError(["sacct"], 1, "")):
        reported = list(
            failures([FailedQuestion("first", error), FailedQuestion("other", error, needed=False)], cluster=cluster)
        )
        (only,) = [str(report.error) for report in reported]
        assert only.endswith("Not read: first, other.")


def test_different_causes_are_different_messages(tmp_path: Path) -> None:
    slurm = FakeSlurm([], NOW)
    slurm.failing = lambda command: (
        AWAY if "-S" in command else DENIED if command[0] == "sacctmgr" and "event" in command else None
    )
    reported = ingest(tmp_path, slurm, retries=0)
    denied, away = [str(report.error) for report in reported.reports if report.error]
    assert "Not read: sacctmgr show event, " in denied
    assert "Access/permission denied" in denied
    assert away.endswith("Not read: sacct 2026-10-21 12:00 to 2026-11-20 12:00.")


@pytest.mark.slow
def test_failed_windows_are_named_separately(tmp_path: Path) -> None:
    slurm = FakeSlurm([Job(1, NOW - days(30), NOW - days(30))], NOW)
    bad = (NOW - days(23), NOW - days(9))
    slurm.failing = lambda command: (
        (AWAY if any(f"{moment:%Y-%m-%dT%H:%M:%S}" == command[command.index("-S") + 1] for moment in bad) else None)
        if "-S" in command
        else None
    )
    reported = ingest(tmp_path, slurm, retries=0)
    assert str(reported.error).endswith(
        "Not read: sacct 2026-10-28 12:00 to 2026-11-04 12:00, sacct 2026-11-11 12:00 to 2026-11-18 12:00."
    )


# --- warnings


@pytest.mark.slow
def test_warning_is_reported_once_and_then_only_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    slurm = FakeSlurm([Job(1, NOW - hours(5), NOW - hours(5))], NOW)
    slurm.columns.remove("Reservation")
    assert [each for each in messages(ingest(tmp_path, slurm).warnings) if "has no column Reservation" in each]
    slurm.now += hours(1)
    reported = ingest(tmp_path, slurm)
    assert not [each for each in messages(reported.warnings) if "has no column" in each]
    assert lines(reported)["slurm.accounting"].endswith("; 1 warning (1 as last time: trackside status)")
    assert [
        each
        for report in reported.reports
        if report.parsed
        for each in messages(report.parsed.warnings)
        if "no column" in each
    ]
    load_report.print_report(reported.reports, files=False)
    assert "has no column" not in capsys.readouterr().err
    with open_reader(tmp_path) as reader:
        status(reader, now=slurm.now)
    assert "this sacct has no column Reservation" in capsys.readouterr().out
    slurm.now += hours(1)
    slurm.columns.remove("Comment")
    assert [each for each in messages(ingest(tmp_path, slurm).warnings) if "has no column Reservation, Comment" in each]


@pytest.mark.slow
def test_sources_slurmrestd_lacks_are_not_reported_every_time(tmp_path: Path) -> None:
    version = "0.0.38"

    def say(path: str, _: dict[str, str]) -> Answer:
        what = path.rpartition("/")[2]
        if f"/v{version}/" not in path:
            return Answer(b"", 404, "text/plain")
        lists = {"jobs": [job(version)], "nodes": [node(version)], "clusters": [{"name": "bench"}], "reservations": []}
        return Answer(answer(version, **{what: lists[what]}))

    slurm, output = FakeSlurm([], datetime(2026, 9, 22, tzinfo=UTC)), []
    with web(say) as server:
        for _ in range(2):
            output.append(messages(ingest(tmp_path, slurm, transport="rest", rest_url=server.url).warnings))
            slurm.now += hours(1)
    lost = ("has no plain exit codes", "slurmrestd has no node events")
    assert [[any(words in warning for warning in each) for words in lost] for each in output] == [
        [True] * 2,
        [False] * 2,
    ]


@pytest.mark.slow
def test_runaway_jobs_are_counted_with_the_command_to_list_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    slurm = FakeSlurm([Job(1, NOW - hours(5), NOW - hours(5))], NOW)
    row = f"1|c1|RUNNING|{epoch(NOW - hours(5))}|{epoch(NOW - hours(5))}\n".encode()

    def failing(command: list[str]) -> Completed | None:
        if command[0] == "squeue":
            return Completed(0, b"", b"")
        return Completed(0, row, b"") if command[0] == "sacct" and "-s" in command else None

    slurm.failing = failing
    reported = ingest(tmp_path, slurm)
    (warning,) = [each for each in messages(reported.warnings) if "runaway" in each and "not read" not in each]
    assert warning.startswith("1 runaway job")
    assert "trackside export runaway_jobs" in warning
    assert table(tmp_path, "runaway_jobs")["job_id"].to_list() == ["1"]
    with open_reader(tmp_path) as reader:
        status(reader, now=slurm.now)
    assert "warning: c1 slurm.runaway: 1 runaway job" in capsys.readouterr().out
    row, slurm.now = b"", slurm.now + hours(2)
    assert not [each for each in messages(ingest(tmp_path, slurm).warnings) if "runaway" in each]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("step", "n_notes"), [({}, 1), ({"TotalCPU": "00:00:00"}, 1), ({"TotalCPU": "01:00:00"}, 0), (None, 0)]
)
def test_steps_that_slurm_does_not_measure_are_reported(
    tmp_path: Path, step: dict[str, str] | None, n_notes: int
) -> None:
    slurm = FakeSlurm([Job(1, NOW - hours(5), NOW - hours(4), NOW - hours(3))], NOW)
    slurm.step = None if step is None else {"ElapsedRaw": "3600", **step}
    notes = [note for note in ingest(tmp_path, slurm).notes if "JobAcctGatherType" in note]
    assert [note[:17] for note in notes] == ["none of 1 step ha"] * n_notes
