"""Live ingests ask gently: failures are retried ever later, what is too large is asked for in parts."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from ingest.errors import SourceDownError
from ingest.load_warnings import messages
from ingest.slurm.commands import slurmrestd
from ingest.slurm.commands.runner import Completed
from tests.support.slurm import answers
from tests.support.slurm.answers import NEWEST, answer
from tests.support.slurm.fake_slurm import (
    AWAY,
    FakeSlurm,
    Job,
    days,
    hung,
    ingest,
    many,
    states,
    table,
    tables,
    value,
    when,
    window,
)
from tests.support.web import Answer, web

if TYPE_CHECKING:
    from pathlib import Path

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)


def test_unavailable_slurmdbd_is_retried_ever_later_then_left(tmp_path: Path) -> None:
    slurm = FakeSlurm([], NOW, failing=lambda command: AWAY if command != ["sacct", "-e"] else None)
    reported = ingest(tmp_path, slurm, retry_s=10)
    assert isinstance(reported.error, SourceDownError)
    assert len(slurm.windows()) == 1
    controller, database = (
        [command for command in slurm.commands if command[0] == name and "config" not in command]
        for name in ("scontrol", "sacctmgr")
    )
    assert len([command for command in database if "event" in command]) == 4
    assert len([command for command in controller if "node" in command]) <= 1
    # The settings and the events, each three times: about 10, 20 and 40 s.
    assert 2 * 70 * 0.7 <= sum(reported.waits) <= 2 * 70 * 1.3
    assert max(reported.waits) <= 1


@pytest.mark.slow
def test_one_failure_is_not_the_end(tmp_path: Path) -> None:
    left = [AWAY, AWAY]
    slurm = FakeSlurm([Job(1, NOW - days(1), NOW - days(1))], NOW)
    slurm.failing = lambda command: left.pop() if "-S" in command and left else None
    assert ingest(tmp_path, slurm).error is None
    assert states(tmp_path) == {"1": "RUNNING"}


SLOW = "slow"
TOO_WIDE = Completed(1, b"", b"sacct: error: slurmdbd: Too wide of a date range in query")


@pytest.mark.slow
@pytest.mark.parametrize("how", [SLOW, "too wide"])
def test_a_window_that_is_too_large_is_split_in_halves(tmp_path: Path, how: str) -> None:
    slurm = FakeSlurm(many(40, since=NOW - days(12), until=NOW), NOW)

    def failing(command: list[str]) -> Completed | None:
        if "-S" not in command or window(command)[1] - window(command)[0] <= days(2):
            return None
        if how == SLOW:
            raise SourceDownError(command, None, "")
        return TOO_WIDE

    slurm.failing = failing
    reported = ingest(tmp_path / "w", slurm, lookback_days=14)
    assert reported.error is None
    assert len(reported.notes) == (1 if how == SLOW else 2)
    assert bool(reported.waits) == (how == SLOW)
    assert max(high - low for low, high in slurm.windows()[3:]) <= days(2)
    slurm.failing = lambda _: None
    ingest(tmp_path / "once", slurm, lookback_days=14)
    assert tables(tmp_path / "w") == tables(tmp_path / "once")


def test_halves_end_at_an_hour_and_then_it_is_an_error(tmp_path: Path) -> None:
    reported = ingest(tmp_path, FakeSlurm([], NOW, failing=when(lambda *_: True, TOO_WIDE)))
    assert isinstance(reported.error, SourceDownError)
    assert (
        len([note for note in reported.notes if "is too large for" in note]) == 7
    )  # 7 days, halved seven times, are an hour and a bit


@pytest.mark.slow
def test_hanging_slurmdbd_is_queried_twice_then_left(tmp_path: Path) -> None:
    slurm = FakeSlurm([Job(1, NOW - days(29), NOW - days(29))], NOW)
    slurm.failing = lambda command: hung(command) if "-S" in command else None
    reported = ingest(tmp_path, slurm, retry_s=10)
    assert isinstance(reported.error, SourceDownError)
    assert [high - low for low, high in slurm.windows()] == [days(7), days(7) / 8]
    assert 20 * 0.7 <= sum(reported.waits) <= 20 * 1.3
    slurm.failing = lambda _: None
    ingest(tmp_path, slurm)
    slurm.now, slurm.failing = NOW + days(20), lambda command: hung(command) if command[0] != "scontrol" else None
    ingest(tmp_path, slurm)
    database = [" ".join(command[:4]) for command in slurm.commands if command[0] == "sacctmgr"]
    assert database == ["sacctmgr -P show event"]
    assert len(slurm.windows()) == 0  # sacct -e, before it, hung too


@pytest.mark.slow
def test_slow_optional_source_does_not_stop_accounting(tmp_path: Path) -> None:
    slurm = FakeSlurm([Job(1, NOW - days(29), NOW - days(29))], NOW)
    slurm.failing = lambda command: hung(command) if command[0] == "sacctmgr" and "event" not in command else None
    assert ingest(tmp_path, slurm).error is None
    assert states(tmp_path) == {"1": "RUNNING"}
    assert len([command for command in slurm.commands if command[0] == "sacctmgr"]) == 3


@pytest.mark.slow
@pytest.mark.parametrize("how", ["slow", "large"])
def test_too_large_slurmrestd_answer_is_requested_in_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.setattr(slurmrestd, "LARGEST_ANSWER", 100_000)
    lengths: Counter[float] = Counter()

    def say(path: str, params: dict[str, str]) -> Answer:
        if f"/v{NEWEST}/" not in path:
            return Answer(b"", 404, "text/plain")
        if not path.endswith("/jobs"):
            what = path.rpartition("/")[2]
            return Answer(answer(NEWEST, **{what: [{"name": "bench"}] if what == "clusters" else []}))
        length = (int(params["end_time"]) - int(params["start_time"])) / 86400
        lengths[length] += 1
        body = answer(NEWEST, jobs=[answers.job()])
        if length < 2:
            return Answer(body)
        return Answer(body, after_s=8) if how == "slow" else Answer(body + b" " * 200_000)

    with web(say) as server:
        reported = ingest(
            tmp_path,
            FakeSlurm([], NOW),
            since=datetime(2026, 9, 20, tzinfo=UTC),
            until=datetime(2026, 9, 22, tzinfo=UTC),
            transport="rest",
            rest_url=server.url,
            timeout_s=4 if how == "slow" else 10,
        )
    assert not [report.error for report in reported.reports if "jobs" in str(report.error)]
    assert lengths == ({2: 1, 0.25: 8} if how == "slow" else {2: 1, 1: 2})
    assert table(tmp_path, "attempts").height == 1


@pytest.mark.slow
def test_answers_that_are_large_make_the_next_windows_shorter(tmp_path: Path) -> None:
    slurm = FakeSlurm(many(10_000, since=NOW - days(28), until=NOW - days(23)), NOW)
    assert ingest(tmp_path, slurm, answer_mb=1).error is None
    lengths = [high - low for low, high in slurm.windows()]
    assert lengths[0] == days(7)
    assert lengths[2] <= days(3.5)


@pytest.mark.slow
def test_pause_between_windows(tmp_path: Path) -> None:
    reported = ingest(tmp_path, FakeSlurm([], NOW), pause_s=0.5)
    assert reported.waits == [0.5] * 4


@pytest.mark.slow
def test_what_a_site_forbids_is_a_warning(tmp_path: Path) -> None:
    reported = ingest(tmp_path, FakeSlurm([], NOW))
    assert reported.error is None
    assert reported.waits == []
    (warning,) = messages(reported.warnings)
    assert "sdiag, squeue and sacct: runaway jobs (Access/permission denied)" in warning


@pytest.mark.slow
def test_each_cluster_is_requested_separately(tmp_path: Path) -> None:
    slurm = FakeSlurm([], NOW)
    assert ingest(tmp_path, slurm, clusters=["c1", "c2"]).error is None
    commands_with = [value(command, "-M") for command in slurm.commands if command[0] == "sacct" and "-S" in command]
    assert commands_with == ["c1"] * 5 + ["c2"] * 5
    nodes = [command[:3] for command in slurm.commands if "node" in command]
    assert nodes == [["scontrol", "-M", "c1"], ["scontrol", "-M", "c2"]]
