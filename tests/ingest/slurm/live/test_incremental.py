"""Live ingests again and again: nothing is lost, nothing is doubled, slurmdbd is not hammered, and silence is heard."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from app.cli.status import status
from ingest.errors import SourceDownError
from ingest.slurm.live import recheck
from ingest.slurm.write import write_input
from ingest.store.request import from_file
from ingest.tables import REJECTS, Parsed, empty
from queries.warehouse import open_reader, open_writer
from tests.support.slurm.fake_slurm import (
    AWAY,
    FakeSlurm,
    Job,
    commands_with,
    days,
    hours,
    ingest,
    many,
    start,
    states,
    table,
    tables,
    when,
    window,
)

if TYPE_CHECKING:
    from pathlib import Path

    from ingest.slurm.commands.runner import Completed

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)


# --- going on


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "overlap"), [(0, 0), (1, 24)])
def test_many_ingests_make_the_same_warehouse_as_one(tmp_path: Path, seed: int, overlap: float) -> None:
    slurm = FakeSlurm(many(60, since=NOW - days(10), until=NOW, seed=seed), NOW - days(8))
    for step in (0, 0.5, 30, 31, 8 * 24):
        slurm.now = NOW - days(8) + hours(step)
        assert ingest(tmp_path / "often", slurm, overlap_hours=overlap, window_days=1.5, lookback_days=5).error is None
    ingest(tmp_path / "once", slurm, lookback_days=13)
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


@pytest.mark.slow
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
    assert any("later windows are left for the next ingest" in note for note in reported.notes)
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
    ingest(tmp_path, slurm, retries=0, window_days=3)
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
    ingest(tmp_path, slurm, window_days=3)
    assert table(tmp_path, "load_gaps").is_empty()


# --- years


@pytest.mark.slow
def test_a_backfill_that_is_interrupted_goes_on_where_it_was(tmp_path: Path) -> None:
    slurm = FakeSlurm(many(50, since=NOW - days(300), until=NOW), NOW)

    def interrupted(command: list[str]) -> Completed | None:
        if "-S" in command and window(command)[0] >= NOW - days(200):
            raise KeyboardInterrupt
        return None

    slurm.failing = interrupted
    since = NOW - days(280)
    with pytest.raises(KeyboardInterrupt):
        ingest(tmp_path / "w", slurm, since=since, window_days=40)
    slurm.failing = lambda _: None
    reported = ingest(tmp_path / "w", slurm, since=since, window_days=40)
    assert reported.error is None
    assert reported.notes == ["2 of 7 windows are there already (--again reads them too)"]
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
    assert any("1 job without an end no longer in accounting" in note for note in reported.notes)
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
