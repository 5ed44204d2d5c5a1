"""Time before the cluster's first sign of life: asked for once, and still no time of the cluster."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from app import live_windows, loading
from app.live_windows import Window
from ingest.frames import REJECTS, Parsed, empty
from ingest.live import Completed
from ingest.slurm import fetch_accounting
from ingest.slurmrest import Client, fetch_accounting_rest
from queries.warehouse import open_writer
from tests.app.fake_slurm import AWAY, BORN, FakeSlurm, Job, days, hours, ingest, table
from tests.ingest.slurm_answers import NEWEST, answer
from tests.ingest.web import Answer, web

if TYPE_CHECKING:
    from pathlib import Path

NOW = BORN + days(40)


def young() -> FakeSlurm:
    """A cluster of forty days."""
    return FakeSlurm([Job(1, BORN + days(1), BORN + days(1), BORN + days(2))], NOW)


@pytest.mark.parametrize("events", ["there", "away"])
def test_empty_windows_are_asked_for_once_and_never_speak_for_the_cluster(tmp_path: Path, events: str) -> None:
    slurm = young()
    if events == "away":
        slurm.failing = lambda command: AWAY if "event" in command else None
    ingest(tmp_path, slurm, since=BORN - days(60), retries=0)
    assert len(slurm.windows()) == 15
    loads = table(tmp_path, "loads").filter(source="slurm.accounting")
    assert loads["covers_from"].min() >= (BORN if events == "there" else BORN + days(1))  # type: ignore[operator]  # a time
    assert table(tmp_path, "load_gaps").filter(source="slurm.accounting").is_empty()
    told = ingest(tmp_path, slurm, since=BORN - days(60), retries=0)
    assert slurm.windows() == [(NOW - days(2), NOW)]  # only the newest, which may still change
    assert told.notes[:1] == ["14 of 15 windows are there already (--again reads them too)"]


def test_windows_of_another_beginning_and_length_need_not_be_asked_for_either(tmp_path: Path) -> None:
    slurm = young()
    ingest(tmp_path, slurm, since=BORN - days(60))
    ingest(tmp_path, slurm, since=BORN - days(50), until=BORN + days(20), window_days=9)
    assert slurm.windows() == []
    ingest(tmp_path, slurm, since=BORN - days(67), until=BORN)
    assert slurm.windows() == [(BORN - days(67), BORN - days(60))]


def test_again_asks_for_all_of_them(tmp_path: Path) -> None:
    slurm = young()
    ingest(tmp_path, slurm, since=BORN - days(60))
    ingest(tmp_path, slurm, since=BORN - days(60), again=True)
    assert len(slurm.windows()) == 15


def test_what_failed_was_not_answered(tmp_path: Path) -> None:
    slurm = young()
    slurm.failing = lambda command: AWAY if "-S" in command else None
    ingest(tmp_path, slurm, since=BORN - days(60), retries=0)
    slurm.failing = lambda _: None
    ingest(tmp_path, slurm, since=BORN - days(60))
    assert len(slurm.windows()) == 15


def test_an_answer_of_which_every_row_was_refused_was_not_empty(tmp_path: Path) -> None:
    slurm = young()
    slurm.jobs[0].state = ""
    slurm.failing = lambda command: AWAY if "event" in command else None
    for _ in range(2):
        ingest(tmp_path, slurm, since=BORN - days(14), until=BORN + days(7), retries=0)
    assert slurm.windows() == [(BORN, BORN + days(7))]


@pytest.mark.parametrize("first", [-90, -46])
def test_an_empty_time_that_lies_behind_an_earlier_load_is_a_gap_and_is_asked_for(tmp_path: Path, first: float) -> None:
    slurm = young()
    ingest(tmp_path, slurm, since=BORN - days(60))
    earlier = Parsed("slurm.accounting", frozenset({"c1"}), {}, empty(REJECTS), rows_read=0, rows_loaded=0)
    earlier = replace(earlier, covers_from=BORN + days(first), covers_until=BORN - days(32))
    with open_writer(tmp_path, verb="test", now=NOW) as writer:
        loading.load(writer, earlier, origin="old.txt", data=b"", now=NOW, cluster="c1")
    ingest(tmp_path, slurm, since=BORN - days(60))
    assert [low for low, _ in slurm.windows()] == [*(BORN - days(each) for each in (32, 25, 18, 11, 4)), NOW - days(2)]


def test_the_newest_empty_time_may_still_be_told_of(tmp_path: Path) -> None:
    slurm = FakeSlurm([], NOW, failing=lambda command: AWAY if "event" in command else None)
    ingest(tmp_path, slurm, since=NOW - days(3), window_days=0.5, retries=0)
    ingest(tmp_path, slurm, since=NOW - days(3), window_days=0.5, retries=0, overlap_hours=24)
    assert slurm.windows() == [(NOW - hours(24), NOW - hours(12)), (NOW - hours(12), NOW)]


def test_what_a_question_asked_for_is_read_from_its_own_words() -> None:
    window = Window(datetime(2026, 11, 1, 2, tzinfo=UTC), datetime(2026, 11, 8, 3, 4, 5, tzinfo=UTC))

    def sacct(command: list[str], _: object) -> Completed:
        return Completed(0, b"JobIDRaw JobID" if "-e" in command else b"", b"")

    for clusters in ((), ("c1",)):
        origin = fetch_accounting(sacct, since=window.since, until=window.until, clusters=clusters).origin
        assert live_windows.asked_by(origin) == window
    for version in ("0.0.38", NEWEST):
        with web(lambda *_, version=version: Answer(answer(version, jobs=[]))) as server:
            origin = fetch_accounting_rest(Client(server.url, version=version), window.since, window.until).origin
        assert live_windows.asked_by(origin) == window
    for file in ("sacct.txt", "sacct -S 2026-99-01T00:00:00 -E 2026-99-02T00:00:00", "sacct -j: 3 open jobs, 1 to 3"):
        assert live_windows.asked_by(file) is None
