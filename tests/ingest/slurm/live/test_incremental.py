"""Live ingests again and again: nothing is lost, nothing is doubled, slurmdbd is not hammered, and silence is heard."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from app.cli.status import status
from ingest.errors import SourceDownError
from ingest.load_warnings import messages
from ingest.slurm.commands import slurmrestd
from ingest.slurm.commands.runner import Completed
from ingest.slurm.live import recheck
from ingest.slurm.write import write_input
from ingest.store.request import from_file
from ingest.tables import REJECTS, Parsed, empty
from queries.warehouse import open_reader, open_writer
from tests.support.slurm import answers
from tests.support.slurm.answers import NEWEST, answer
from tests.support.slurm.fake_slurm import AWAY, FakeSlurm, Job, days, hours, ingest, table, tables, value, window
from tests.support.web import Answer, web

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)


def whole(moment: datetime) -> datetime:
    return moment.replace(microsecond=0)


def many(number: int, *, since: datetime, until: datetime, seed: int = 1) -> list[Job]:
    """Jobs of all lengths, some of which never start."""
    chance = random.Random(seed)
    actual = []
    for each in range(number):
        submit = since + (until - since) * chance.random()
        start = submit + hours(chance.choice([0, 1, 30]))
        end = start + hours(chance.choice([0.1, 5, 100]))
        if chance.random() < 0.2:
            actual.append(Job(each + 1, whole(submit), None, whole(start), "CANCELLED"))
        else:
            actual.append(Job(each + 1, whole(submit), whole(start), whole(end)))
    return actual


def states(root: Path) -> dict[str, str]:
    return dict(table(root, "attempts").select("job_id", "state").iter_rows())


def commands_with(slurm: FakeSlurm, *words: str) -> list[str]:
    """The commands with all of these words."""
    return [" ".join(command) for command in slurm.commands if set(words) <= set(command)]


def start(moment: datetime) -> str:
    """As a question to sacctmgr says it."""
    return f"Start={moment:%Y-%m-%dT%H:%M:%S}"


def hung(command: list[str]) -> Completed | None:
    raise SourceDownError(command, None, "")


def when(fails: Callable[[datetime, datetime], bool], answer: Completed) -> Callable[[list[str]], Completed | None]:
    """Answers so for windows of which that is true."""

    def failing(command: list[str]) -> Completed | None:
        return answer if "-S" in command and fails(*window(command)) else None

    return failing


# --- going on


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("overlap", [0, 24])
def test_many_ingests_make_the_same_warehouse_as_one(tmp_path: Path, seed: int, overlap: float) -> None:
    slurm = FakeSlurm(many(60, since=NOW - days(10), until=NOW, seed=seed), NOW - days(8))
    for step in (0, 0.5, 1, 30, 31, 100, 8 * 24):
        slurm.now = NOW - days(8) + hours(step)
        assert ingest(tmp_path / "often", slurm, overlap_hours=overlap, window_days=1.5).error is None
    ingest(tmp_path / "once", slurm)
    assert tables(tmp_path / "often") == tables(tmp_path / "once")
    assert len(states(tmp_path / "once")) > 40


@pytest.mark.slow
def test_a_job_that_ends_later_is_closed_without_any_overlap(tmp_path: Path) -> None:
    slurm = FakeSlurm([Job(1, NOW - days(9), NOW - days(9), NOW + hours(1))], NOW)
    ingest(tmp_path, slurm, overlap_hours=0)
    assert states(tmp_path) == {"1": "RUNNING"}
    slurm.now = NOW + hours(2)
    ingest(tmp_path, slurm, overlap_hours=0)
    assert states(tmp_path) == {"1": "COMPLETED"}
    assert slurm.requested_ids() == []


@pytest.mark.slow
def test_ends_that_a_restarted_slurmctld_may_rewrite_are_reread(tmp_path: Path) -> None:
    slurm = FakeSlurm([], NOW, min_job_age=7200)
    slurm.jobs.append(Job(1, NOW - hours(3), NOW - hours(3), NOW - hours(1)))
    ingest(tmp_path, slurm, overlap_hours=0)
    slurm.now += hours(0.5)
    ingest(tmp_path, slurm, overlap_hours=0)
    ((low, _),) = slurm.windows()
    assert NOW - low >= hours(2)


@pytest.mark.slow
def test_reading_twice_in_one_second_requests_no_empty_window(tmp_path: Path) -> None:
    slurm = FakeSlurm([Job(1, NOW - days(1), NOW - days(1))], NOW, min_job_age=0)
    ingest(tmp_path, slurm, overlap_hours=0)
    assert ingest(tmp_path, slurm, overlap_hours=0).error is None
    assert all(low < high for low, high in slurm.windows())


@pytest.mark.slow
def test_node_events_are_requested_from_the_end_of_their_loads(tmp_path: Path) -> None:
    slurm = FakeSlurm([Job(1, NOW - days(9), NOW - days(9))], NOW)
    ingest(tmp_path, slurm)
    slurm.now += days(3)
    slurm.failing = lambda command: AWAY if command[0] == "sacctmgr" else None
    ingest(tmp_path, slurm, retries=0)
    slurm.now, slurm.failing = slurm.now + days(1), lambda _: None
    ingest(tmp_path, slurm)
    (events,) = (command for command in slurm.commands if "event" in command)
    assert f"Start={NOW - days(1):%Y-%m-%dT%H:%M:%S}" in events


@pytest.mark.slow
def test_an_end_in_the_future_hides_nothing_of_what_is_to_come(tmp_path: Path) -> None:
    slurm = FakeSlurm([Job(1, NOW - days(3), NOW - days(3), NOW - days(2))], NOW)
    ingest(tmp_path, slurm, since=NOW - days(5), until=NOW + days(20))
    assert max(high for _, high in slurm.windows()) == NOW
    slurm.now += days(10)
    slurm.jobs.append(Job(2, NOW + days(2), NOW + days(2), NOW + days(3)))
    ingest(tmp_path, slurm)
    assert states(tmp_path) == {"1": "COMPLETED", "2": "COMPLETED"}


def test_load_that_claims_the_future_is_ignored(tmp_path: Path) -> None:
    for source in ("slurm.accounting", "slurm.events"):
        parsed = Parsed(source, frozenset({"c1"}), {}, empty(REJECTS), rows_read=0, rows_loaded=0)
        parsed = replace(parsed, covers_from=NOW - days(5), covers_until=NOW + days(20))
        with open_writer(tmp_path, verb="test", now=NOW) as writer:
            write_input(writer, parsed, request=from_file("old"), data=b"", now=NOW, cluster="c1")
    slurm = FakeSlurm([Job(2, NOW + days(2), NOW + days(2), NOW + days(3))], NOW + days(10))
    ingest(tmp_path, slurm)
    assert states(tmp_path) == {"2": "COMPLETED"}
    assert [start(NOW - days(1)) in command for command in commands_with(slurm, "event")] == [True]


@pytest.mark.slow
def test_node_events_that_failed_at_first_start_with_accounting(tmp_path: Path) -> None:
    """They are requested as far back as accounting."""
    slurm = FakeSlurm([Job(1, NOW - days(10), NOW - days(10), NOW - days(9))], NOW)
    slurm.failing = lambda command: AWAY if "event" in command else None
    ingest(tmp_path, slurm, retries=0)
    began = table(tmp_path, "loads").filter(source="slurm.accounting")["covers_from"].min()
    slurm.now, slurm.failing = slurm.now + hours(2), lambda _: None
    ingest(tmp_path, slurm)
    assert isinstance(began, datetime)
    (events,) = commands_with(slurm, "event")
    assert start(began) in events
    assert table(tmp_path, "load_gaps").is_empty()


@pytest.mark.slow
@pytest.mark.parametrize("lacking", ["before", "behind"])
def test_time_that_has_accounting_and_no_node_events_is_a_gap(tmp_path: Path, lacking: str) -> None:
    slurm = FakeSlurm([Job(1, NOW - days(90), NOW - days(90))], NOW)
    ingest(tmp_path, slurm)
    slurm.failing = lambda command: AWAY if "event" in command else None
    if lacking == "before":
        wanted = (NOW - days(80), NOW - days(30))
        ingest(tmp_path, slurm, since=wanted[0], retries=0)
    else:
        wanted = (NOW, NOW + hours(5))
        slurm.now = wanted[1]
        ingest(tmp_path, slurm, retries=0)
    (gap,) = table(tmp_path, "load_gaps").iter_rows(named=True)
    assert (gap["source"], gap["started_at"], gap["ended_at"]) == ("slurm.events", *wanted)
    slurm.failing = lambda _: None
    ingest(tmp_path, slurm, since=wanted[0], until=wanted[1])
    assert table(tmp_path, "load_gaps").is_empty()


@pytest.mark.slow
def test_reservation_history_continues_where_it_ended(tmp_path: Path) -> None:
    slurm = FakeSlurm([Job(1, NOW - days(10), NOW - days(10), NOW - days(9))], NOW)
    slurm.failing = lambda command: AWAY if command[0] == "sacctmgr" and "reservation" in command else None
    ingest(tmp_path, slurm)
    began = table(tmp_path, "loads").filter(source="slurm.accounting")["covers_from"].min()
    assert not table(tmp_path, "loads").filter(source="slurm.reservations").is_empty()
    slurm.now += days(3)
    ingest(tmp_path, slurm)
    assert isinstance(began, datetime)
    (history,) = commands_with(slurm, "sacctmgr", "reservation")
    assert start(began) in history


@pytest.mark.slow
def test_only_cluster_of_the_warehouse_is_used_without_slurmctld(tmp_path: Path) -> None:
    slurm = FakeSlurm([Job(1, NOW - hours(3))], NOW)
    ingest(tmp_path, slurm)
    slurm.failing = lambda command: AWAY if command[0] == "scontrol" else None
    slurm.jobs[0].eligible = False
    slurm.now += hours(2)
    ingest(tmp_path, slurm, retries=0)
    assert slurm.windows() == [(NOW - days(1), slurm.now)]
    assert slurm.requested_ids() == ["1"]


# --- gaps


@pytest.mark.slow
def test_oldest_window_of_the_first_ingest_is_requested_again(tmp_path: Path) -> None:
    slurm = FakeSlurm([Job(1, NOW - days(28), NOW - days(28), NOW - days(27)), Job(2, NOW - days(1))], NOW)
    slurm.failing = when(lambda low, _: low == NOW - days(30), AWAY)
    reported = ingest(tmp_path, slurm, retries=0)
    assert isinstance(reported.error, SourceDownError)
    assert any("what comes behind it is left for the next ingest" in note for note in reported.notes)
    slurm.now, slurm.failing = NOW + hours(1), lambda _: None
    assert ingest(tmp_path, slurm).error is None
    assert states(tmp_path) == {"1": "COMPLETED", "2": "PENDING"}


@pytest.mark.slow
def test_the_oldest_window_of_a_backfill_is_requested_again(tmp_path: Path) -> None:
    slurm = FakeSlurm([Job(1, NOW - days(58), NOW - days(58), NOW - days(57)), Job(2, NOW - days(1))], NOW)
    ingest(tmp_path, slurm)
    slurm.failing = when(lambda low, _: low == NOW - days(60), AWAY)
    ingest(tmp_path, slurm, since=NOW - days(60), retries=0)
    assert len(slurm.windows()) == 1
    slurm.failing = lambda _: None
    ingest(tmp_path, slurm, since=NOW - days(60))
    assert states(tmp_path) == {"1": "COMPLETED", "2": "PENDING"}
    assert table(tmp_path, "load_gaps").is_empty()


@pytest.mark.slow
def test_quiet_interval_of_the_first_ingest_is_no_gap(tmp_path: Path) -> None:
    quiet = [Job(each, NOW - days(ago), NOW - days(ago), NOW - days(ago)) for each, ago in enumerate((20, 12), 1)]
    slurm = FakeSlurm(quiet, NOW, failing=lambda command: AWAY if "event" in command else None)
    ingest(tmp_path, slurm, retries=0, window_days=1)
    assert table(tmp_path, "load_gaps").is_empty()
    ends = table(tmp_path, "loads").filter(source="slurm.accounting")["covers_until"]
    assert ends.max() == NOW


@pytest.mark.slow
def test_failed_window_is_a_gap_that_the_next_ingest_requests(tmp_path: Path) -> None:
    slurm = FakeSlurm(many(60, since=NOW - days(28), until=NOW), NOW)
    bad = NOW - days(16)
    slurm.failing = when(lambda low, high: low <= bad < high, AWAY)
    reported = ingest(tmp_path / "w", slurm)
    assert isinstance(reported.error, SourceDownError)
    (gap,) = table(tmp_path / "w", "load_gaps").filter(source="slurm.accounting").iter_rows(named=True)
    assert gap["started_at"] <= bad < gap["ended_at"]
    slurm.failing = lambda _: None
    slurm.now += hours(1)
    assert ingest(tmp_path / "w", slurm).error is None
    assert slurm.windows()[0] == (gap["started_at"], gap["ended_at"])
    assert table(tmp_path / "w", "load_gaps").is_empty()
    ingest(tmp_path / "once", slurm)
    assert tables(tmp_path / "w") == tables(tmp_path / "once")


@pytest.mark.slow
def test_status_shows_a_gap_and_the_command_that_reads_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    slurm = FakeSlurm(many(20, since=NOW - days(300), until=NOW), NOW)
    ingest(tmp_path, slurm, since=NOW - days(200), until=NOW - days(190))
    ingest(tmp_path, slurm, since=NOW - days(30))
    with open_reader(tmp_path) as reader:
        status(reader, now=NOW)
        assert "source_gaps" in {result.check.name for result in reader.checks()}
    output = capsys.readouterr().out
    assert "Slurm job accounting of 2026-05-14T12:00:00Z to 2026-10-21T12:00:00Z is missing" in output
    assert "trackside ingest slurm --since 2026-05-14T12:00:00Z --until 2026-10-21T12:00:00Z" in output


@pytest.mark.slow
def test_the_distant_past_is_read_on_request_only(tmp_path: Path) -> None:
    slurm = FakeSlurm(many(20, since=NOW - days(300), until=NOW), NOW)
    ingest(tmp_path, slurm, since=NOW - days(200), until=NOW - days(190))
    ingest(tmp_path, slurm, since=NOW - days(10))
    ingest(tmp_path, slurm)
    assert slurm.windows() == [(NOW - days(1), NOW)]


@pytest.mark.slow
def test_loads_side_by_side_leave_no_gap(tmp_path: Path) -> None:
    slurm = FakeSlurm([Job(1, NOW - days(29), NOW - days(29), NOW - days(28))], NOW)
    ingest(tmp_path, slurm, window_days=0.5)
    assert table(tmp_path, "load_gaps").is_empty()


# --- years


@pytest.mark.slow
def test_a_backfill_that_is_interrupted_goes_on_where_it_was(tmp_path: Path) -> None:
    slurm = FakeSlurm(many(100, since=NOW - days(300), until=NOW), NOW)

    def interrupted(command: list[str]) -> Completed | None:
        if "-S" in command and window(command)[0] >= NOW - days(200):
            raise KeyboardInterrupt
        return None

    slurm.failing = interrupted
    since = NOW - days(280)
    with pytest.raises(KeyboardInterrupt):
        ingest(tmp_path / "w", slurm, since=since, window_days=10)
    slurm.failing = lambda _: None
    reported = ingest(tmp_path / "w", slurm, since=since, window_days=10)
    assert reported.error is None
    assert reported.notes == ["8 of 28 windows are there already (--again reads them too)"]
    assert slurm.windows()[0][0] == NOW - days(200)
    ingest(tmp_path / "once", slurm, since=since, window_days=300)
    assert tables(tmp_path / "w") == tables(tmp_path / "once")


@pytest.mark.slow
def test_loaded_windows_are_read_again_on_request(tmp_path: Path) -> None:
    slurm = FakeSlurm([Job(1, NOW - days(29), NOW - days(29))], NOW)
    ingest(tmp_path, slurm)
    reported = ingest(tmp_path, slurm, since=NOW - days(28), again=True)
    assert reported.notes == []
    assert len(slurm.windows()) == 4


@pytest.mark.slow
def test_the_newest_window_is_always_read_again(tmp_path: Path) -> None:
    slurm = FakeSlurm([Job(1, NOW - days(29), NOW - days(29))], NOW)
    ingest(tmp_path, slurm)
    ingest(tmp_path, slurm, since=NOW - days(28))
    assert slurm.windows() == [(NOW - days(7), NOW)]


# --- gently


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
    slurm = FakeSlurm(many(40, since=NOW - days(28), until=NOW), NOW)

    def failing(command: list[str]) -> Completed | None:
        if "-S" not in command or window(command)[1] - window(command)[0] <= days(2):
            return None
        if how == SLOW:
            raise SourceDownError(command, None, "")
        return TOO_WIDE

    slurm.failing = failing
    reported = ingest(tmp_path / "w", slurm)
    assert reported.error is None
    assert len(reported.notes) == (1 if how == SLOW else 2)
    assert bool(reported.waits) == (how == SLOW)
    assert max(high - low for low, high in slurm.windows()[3:]) <= days(2)
    slurm.failing = lambda _: None
    ingest(tmp_path / "once", slurm)
    assert tables(tmp_path / "w") == tables(tmp_path / "once")


def test_halves_end_at_an_hour_and_then_it_is_an_error(tmp_path: Path) -> None:
    reported = ingest(tmp_path, FakeSlurm([], NOW, failing=when(lambda *_: True, TOO_WIDE)))
    assert isinstance(reported.error, SourceDownError)
    assert (
        len([note for note in reported.notes if "too much" in note]) == 7
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
    slurm = FakeSlurm(many(30_000, since=NOW - days(28), until=NOW - days(14)), NOW)
    assert ingest(tmp_path, slurm, answer_mb=1).error is None
    lengths = [high - low for low, high in slurm.windows()]
    assert lengths[0] == days(7)
    assert lengths[2] <= days(3.5)


def test_pause_between_windows(tmp_path: Path) -> None:
    reported = ingest(tmp_path, FakeSlurm([], NOW), pause_s=0.5)
    assert reported.waits == [0.5] * 4


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


# --- open for ever


@pytest.mark.slow
def test_a_job_cancelled_while_held_is_read_by_id(tmp_path: Path) -> None:
    slurm = FakeSlurm([Job(1, NOW - hours(3)), Job(2, NOW - hours(3))], NOW)
    ingest(tmp_path, slurm)
    assert states(tmp_path) == {"1": "PENDING", "2": "PENDING"}
    slurm.jobs[0].eligible = False  # as `scontrol hold` makes it
    slurm.jobs[0].end, slurm.jobs[0].state = NOW + hours(1), "CANCELLED by 2001"
    slurm.now += hours(2)
    ingest(tmp_path, slurm)
    assert states(tmp_path) == {"1": "CANCELLED", "2": "PENDING"}
    assert slurm.requested_ids() == ["1"]
    slurm.now += hours(2)
    ingest(tmp_path, slurm)
    assert slurm.requested_ids() == []


@pytest.mark.slow
def test_a_runaway_job_that_was_fixed_is_closed(tmp_path: Path) -> None:
    slurm = FakeSlurm([Job(1, NOW - days(20), NOW - days(20))], NOW)
    ingest(tmp_path, slurm)
    slurm.jobs[0].end = slurm.jobs[0].start  # what `sacctmgr show runawayjobs` does when told to fix
    slurm.now += days(1)
    ingest(tmp_path, slurm)
    assert states(tmp_path) == {"1": "COMPLETED"}


@pytest.mark.slow
def test_a_job_that_accounting_forgot_is_warned_of(tmp_path: Path) -> None:
    slurm = FakeSlurm([Job(1, NOW - days(20), NOW - days(20))], NOW)
    ingest(tmp_path, slurm)
    slurm.jobs.clear()
    slurm.now += days(1)
    reported = ingest(tmp_path, slurm)
    assert any("1 job(s) without an end are no longer known" in note for note in reported.notes)
    with open_reader(tmp_path) as reader:
        actual = {result.check.name: result.count for result in reader.checks()}
    assert actual["source_attempt_forgotten"] == 1
    assert states(tmp_path) == {"1": "RUNNING"}


@pytest.mark.slow
def test_jobs_are_requested_in_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recheck, "BATCH", 2)
    slurm = FakeSlurm([Job(number, NOW - days(2)) for number in range(1, 8)], NOW)
    ingest(tmp_path, slurm)
    for job in slurm.jobs:
        job.eligible = False
    commands_with = []
    for _ in range(3):
        slurm.now += hours(1)
        ingest(tmp_path, slurm, recheck_jobs=3)
        commands_with.append(sorted(slurm.requested_ids()))
    assert commands_with == [["1", "2", "3"], ["4", "5", "6"], ["1", "2", "7"]]


@pytest.mark.slow
def test_pause_between_requests_for_single_jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recheck, "BATCH", 2)
    slurm = FakeSlurm([Job(number, NOW - days(2)) for number in range(1, 6)], NOW)
    ingest(tmp_path, slurm)
    for each in slurm.jobs:
        each.eligible = False
    slurm.now += hours(1)
    reported = ingest(tmp_path, slurm, pause_s=0.5)
    assert len(commands_with(slurm, "sacct", "-j")) == 3
    assert reported.waits == [0.5] * 3


@pytest.mark.slow
def test_reading_old_windows_requests_no_running_job_by_id(tmp_path: Path) -> None:
    slurm = FakeSlurm([Job(1, NOW - hours(3), NOW - hours(2))], NOW)
    ingest(tmp_path, slurm)
    ingest(tmp_path, slurm, since=NOW - days(90), until=NOW - days(60))
    assert slurm.requested_ids() == []


# --- silence and change


def warned(root: Path) -> set[tuple[str, str]]:
    return set(table(root, "source_warnings").select("source", "kind").iter_rows())


def checked(root: Path) -> set[str]:
    with open_reader(root) as reader:
        return {result.check.name for result in reader.checks()}


def daily(root: Path, slurm: FakeSlurm, number: int) -> list[str]:
    """An ingest a day; the warnings of the last one."""
    reported = None
    for _ in range(number):
        reported = ingest(root, slurm)
        slurm.now += days(1)
    return [] if reported is None else messages(reported.warnings)


@pytest.mark.slow
def test_source_that_falls_silent_is_reported_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    slurm = FakeSlurm(many(5000, since=NOW - days(30), until=NOW), NOW - days(3))
    assert not any("rows for" in warning for warning in daily(tmp_path, slurm, 3))
    assert warned(tmp_path) == set()
    slurm.jobs.clear()
    slurm.now += days(1)
    assert any("only 0 rows for" in warning for warning in daily(tmp_path, slurm, 1))
    assert ("slurm.accounting", "silent") in warned(tmp_path)
    assert "source_silent" in checked(tmp_path)
    with open_reader(tmp_path) as reader:
        status(reader, now=slurm.now)
    assert "warning: c1 slurm.accounting: only 0 rows" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("number", [0, 3, 60])
def test_a_small_cluster_may_be_idle(tmp_path: Path, number: int) -> None:
    slurm = FakeSlurm(many(number, since=NOW - days(30), until=NOW - days(3)), NOW - days(6))
    daily(tmp_path, slurm, 8)
    assert warned(tmp_path) == set()


@pytest.mark.slow
def test_a_new_cluster_may_begin_with_a_burst(tmp_path: Path) -> None:
    slurm = FakeSlurm(many(500, since=NOW - days(2), until=NOW - days(1)), NOW - days(1))
    daily(tmp_path, slurm, 3)
    assert warned(tmp_path) == set()


@pytest.mark.slow
def test_reading_an_empty_old_window_is_not_silence(tmp_path: Path) -> None:
    slurm = FakeSlurm(many(900, since=NOW - days(30), until=NOW), NOW)
    ingest(tmp_path, slurm)
    ingest(tmp_path, slurm, since=NOW - days(90), until=NOW - days(60))
    assert warned(tmp_path) == set()


@pytest.mark.slow
def test_columns_that_appear_and_vanish_are_reported(tmp_path: Path) -> None:
    slurm = FakeSlurm([Job(1, NOW - days(9), NOW - days(9))], NOW)
    ingest(tmp_path, slurm)
    slurm.now += days(1)
    slurm.columns = [name for name in slurm.columns if name not in {"AdminComment", "Flags"}] + ["FailedNode"]
    reported = ingest(tmp_path, slurm)
    assert any("gone: AdminComment, Flags. new: FailedNode." in warning for warning in messages(reported.warnings))
    assert any("has no column Flags" in warning for warning in messages(reported.warnings))
    assert warned(tmp_path) == {("slurm.accounting", "columns")}
    assert "source_columns_changed" in checked(tmp_path)
    slurm.now += days(3)
    assert any("gone: AdminComment" in warning for warning in messages(ingest(tmp_path, slurm).warnings))
    slurm.now += days(8)
    ingest(tmp_path, slurm)
    assert warned(tmp_path) == set()


@pytest.mark.slow
def test_source_no_longer_read_is_reported(tmp_path: Path) -> None:
    slurm = FakeSlurm([Job(1, NOW - days(9), NOW - days(9))], NOW - days(20))
    daily(tmp_path, slurm, 4)
    assert warned(tmp_path) == set()
    slurm.failing = lambda command: AWAY if "event" in command else None
    for _ in range(6):
        ingest(tmp_path, slurm, retries=0)
        slurm.now += days(1)
    assert warned(tmp_path) == {("slurm.events", "stale")}
    assert "source_stale" in checked(tmp_path)
