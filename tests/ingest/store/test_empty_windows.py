"""Time before the cluster's first sign of life: asked for once, and still no time of the cluster."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from ingest.load_warnings import messages
from ingest.slurm.write import write_input
from ingest.store.request import from_file
from ingest.tables import REJECTS, Parsed, empty
from queries.warehouse import open_writer
from tests.support.slurm.fake_slurm import AWAY, BORN, DENIED, FakeSlurm, Job, days, hours, ingest, table

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

    from ingest.slurm.commands.runner import Completed

NOW = BORN + days(40)


def young() -> FakeSlurm:
    """A cluster of forty days."""
    return FakeSlurm([Job(1, BORN + days(1), BORN + days(1), BORN + days(2))], NOW)


def no_events(command: list[str]) -> Completed | None:
    return AWAY if "event" in command else None


@pytest.mark.slow
@pytest.mark.parametrize("events", ["there", "away"])
def test_empty_windows_are_requested_once_and_cover_no_cluster(tmp_path: Path, events: str) -> None:
    slurm = young()
    if events == "away":
        slurm.failing = no_events
    ingest(tmp_path, slurm, since=BORN - days(60), retries=0)
    assert len(slurm.windows()) == 15
    loads = table(tmp_path, "loads").filter(source="slurm.accounting")
    assert loads["covers_from"].min() >= (BORN if events == "there" else BORN + days(1))  # type: ignore[operator]  # a time
    assert table(tmp_path, "load_gaps").filter(source="slurm.accounting").is_empty()
    reported = ingest(tmp_path, slurm, since=BORN - days(60), retries=0)
    assert slurm.windows() == [(NOW - days(2), NOW)]  # only the newest, which may still change
    assert reported.notes == [
        "6 of 15 windows are there already (--again reads them too)",
        "8 of 15 windows end before the cluster's first sign of life and were empty (--again reads them too)",
    ]


@pytest.mark.slow
def test_overlapping_empty_windows_are_not_requested_again(tmp_path: Path) -> None:
    slurm = young()
    ingest(tmp_path, slurm, since=BORN - days(60))
    ingest(tmp_path, slurm, since=BORN - days(50), until=BORN + days(20), window_days=9)
    assert slurm.windows() == []
    ingest(tmp_path, slurm, since=BORN - days(67), until=BORN)
    assert slurm.windows() == [(BORN - days(67), BORN - days(60))]


@pytest.mark.slow
def test_backfill_before_the_cluster_existed_is_requested_once(tmp_path: Path) -> None:
    slurm = young()
    for requested in (5, 0):
        ingest(tmp_path, slurm, since=BORN - days(60), until=BORN - days(30))
        assert len(slurm.windows()) == requested


@pytest.mark.slow
def test_again_requests_all_of_them(tmp_path: Path) -> None:
    slurm = young()
    ingest(tmp_path, slurm, since=BORN - days(60))
    ingest(tmp_path, slurm, since=BORN - days(60), again=True)
    assert len(slurm.windows()) == 15


@pytest.mark.slow
def test_what_failed_was_not_answered(tmp_path: Path) -> None:
    slurm = young()
    slurm.failing = lambda command: AWAY if "-S" in command else None
    ingest(tmp_path, slurm, since=BORN - days(60), retries=0)
    slurm.failing = lambda _: None
    ingest(tmp_path, slurm, since=BORN - days(60))
    assert len(slurm.windows()) == 15


@pytest.mark.slow
def test_an_answer_of_which_every_row_was_refused_was_not_empty(tmp_path: Path) -> None:
    slurm = young()
    slurm.jobs[0].state, slurm.born = "", BORN + days(8)
    for _ in range(2):
        ingest(tmp_path, slurm, since=BORN - days(14), until=BORN + days(14))
    assert slurm.windows() == [(BORN, BORN + days(7))]


@pytest.mark.slow
@pytest.mark.parametrize("first", [-90, -46])
def test_empty_time_behind_an_earlier_load_is_a_requested_gap(tmp_path: Path, first: float) -> None:
    slurm = young()
    ingest(tmp_path, slurm, since=BORN - days(60))
    earlier = Parsed("slurm.accounting", frozenset({"c1"}), {}, empty(REJECTS), rows_read=0, rows_loaded=0)
    earlier = replace(earlier, covers_from=BORN + days(first), covers_until=BORN - days(32))
    with open_writer(tmp_path, verb="test", now=NOW) as writer:
        write_input(writer, earlier, request=from_file("old.txt"), data=b"", now=NOW, cluster="c1")
    ingest(tmp_path, slurm, since=BORN - days(60))
    assert [low for low, _ in slurm.windows()] == [*(BORN - days(each) for each in (32, 25, 18, 11, 4)), NOW - days(2)]


@pytest.mark.slow
def test_the_newest_empty_time_may_still_be_reported(tmp_path: Path) -> None:
    slurm = FakeSlurm([], NOW, born=NOW - hours(1))
    ingest(tmp_path, slurm, since=NOW - days(3), window_days=0.5)
    ingest(tmp_path, slurm, since=NOW - days(3), window_days=0.5, overlap_hours=24)
    assert slurm.windows() == [(NOW - hours(24), NOW - hours(12)), (NOW - hours(12), NOW)]


@pytest.mark.slow
def test_a_database_that_was_new_and_then_restored_hides_no_job(tmp_path: Path) -> None:
    slurm = young()
    old, slurm.jobs, slurm.born = slurm.jobs, [], NOW - days(3)
    ingest(tmp_path, slurm, since=BORN - days(14))
    slurm.jobs, slurm.born = old, BORN
    reported = ingest(tmp_path, slurm, since=BORN - days(14))
    assert table(tmp_path, "attempts")["job_id"].to_list() == ["1"]
    assert reported.notes == [
        "2 of 8 windows end before the cluster's first sign of life and were empty (--again reads them too)"
    ]
    assert table(tmp_path, "load_gaps").is_empty()


@pytest.mark.slow
@pytest.mark.parametrize("events", ["there", "away"])
def test_accounting_empty_without_signs_of_life_hides_no_job(tmp_path: Path, events: str) -> None:
    slurm = young()
    old, slurm.jobs, slurm.failing = slurm.jobs, [], no_events
    ingest(tmp_path, slurm, since=BORN - days(14), retries=0)
    slurm.jobs, slurm.now = [Job(2, NOW, NOW)], NOW + hours(1)
    ingest(tmp_path, slurm, retries=0, lookback_days=1)
    slurm.jobs, slurm.now = [*slurm.jobs, *old], NOW + hours(2)
    slurm.failing = no_events if events == "away" else lambda _: None
    ingest(tmp_path, slurm, since=BORN - days(14), retries=0)
    assert sorted(table(tmp_path, "attempts")["job_id"]) == ["1", "2"]


@pytest.mark.slow
def test_sign_of_life_from_earlier_node_events_still_counts(tmp_path: Path) -> None:
    slurm = young()
    old, slurm.jobs, slurm.born = slurm.jobs, [], NOW - days(3)
    ingest(tmp_path, slurm, since=BORN - days(14))
    slurm.born, slurm.failing = BORN, lambda command: AWAY if "-S" in command else None
    ingest(tmp_path, slurm, since=BORN - days(14), retries=0)
    slurm.jobs, slurm.failing = old, no_events
    ingest(tmp_path, slurm, since=BORN - days(14), retries=0)
    assert "1" in table(tmp_path, "attempts")["job_id"].to_list()


@pytest.mark.slow
@pytest.mark.parametrize("born", [BORN, None])
def test_restricted_user_is_warned_and_leaves_the_time_to_others(tmp_path: Path, born: datetime | None) -> None:
    """Who may see all jobs reads that time."""
    slurm = young()
    slurm.uid, slurm.private_data = 1000, "accounts,jobs"
    slurm.failing = (lambda _: None) if born else no_events
    others, slurm.jobs = slurm.jobs, [Job(2, BORN + days(20), BORN + days(20))]
    reported = ingest(tmp_path, slurm, since=BORN - days(14), retries=0)
    assert [each for each in messages(reported.warnings) if "hides other users' jobs" in each]
    loads = table(tmp_path, "loads").filter(source="slurm.accounting")
    assert loads["covers_from"].null_count() == loads["covers_until"].null_count() == loads.height == 8
    assert loads["partial"].all()
    assert loads["requested_from"].null_count() == 0
    slurm.jobs, slurm.admin_level = [*slurm.jobs, *others], "Operator"
    reported = ingest(tmp_path, slurm, since=BORN - days(14), retries=0)
    assert reported.notes == []
    assert len(slurm.windows()) == 8
    assert sorted(table(tmp_path, "attempts")["job_id"]) == ["1", "2"]
    assert not table(tmp_path, "loads").filter(source="slurm.accounting")["covers_from"].is_null().all()


@pytest.mark.slow
def test_hidden_jobs_are_not_forgotten_ones(tmp_path: Path) -> None:
    slurm = FakeSlurm([Job(1, NOW - days(2), NOW - days(2))], NOW)
    ingest(tmp_path, slurm)
    slurm.jobs, slurm.uid, slurm.private_data, slurm.now = [], 1000, "jobs", NOW + hours(1)
    reported = ingest(tmp_path, slurm)
    assert reported.notes == []
    assert slurm.requested_ids() == []


@pytest.mark.slow
@pytest.mark.parametrize("say", ["uid", "id", "sacctmgr show config"])
def test_accounting_covers_its_time_unless_jobs_are_hidden(tmp_path: Path, say: str) -> None:
    """It does when nobody's jobs are hidden, and when Slurm does not answer whether they are."""
    slurm = young()
    slurm.uid, slurm.private_data = (0, "jobs") if say == "uid" else (1000, "none")
    slurm.failing = lambda command: DENIED if " ".join(command).startswith(say) else None
    reported = ingest(tmp_path, slurm)
    assert table(tmp_path, "loads").filter(source="slurm.accounting")["covers_from"].null_count() == 0
    assert any(
        "privacy settings of jobs (Access/permission denied)" in each for each in messages(reported.warnings)
    ) == (say != "uid")
