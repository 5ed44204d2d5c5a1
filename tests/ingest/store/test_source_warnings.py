"""What a source's loads say beside earlier ones: silence, staying away and other columns, and what is none of it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

import pytest

from ingest.load_warnings import messages
from ingest.slurm.commands.runner import Completed
from ingest.store.loads import write_account
from ingest.store.request import LoadRequest
from ingest.tables import REJECTS, Parsed, empty
from queries.warehouse import open_writer
from tests.support.slurm.fake_slurm import AWAY, FakeSlurm, Job, days, hours, ingest, table
from tests.support.slurm.parsing import DATA

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from ingest.store.request import Transport
    from ingest.tables import SourceName

MONDAY = datetime(2026, 6, 1, tzinfo=UTC)
ASSOCIATIONS = (DATA / "assoc.sacctmgr.txt").read_bytes().replace(b"bench", b"c1")
USERS = (DATA / "users.sacctmgr.txt").read_bytes().replace(b"bench", b"c1")


def warned(root: Path) -> list[tuple[str, str]]:
    return table(root, "source_warnings").select("source", "kind").rows()


def source_messages(root: Path) -> list[str]:
    return table(root, "source_warnings")["message"].to_list()


def weekdays(number: int, *, since: datetime, until: datetime) -> list[Job]:
    """So many short jobs in the morning of each weekday, none at weekends."""
    result: list[Job] = []
    day = since
    while day < until:
        for each in range(number if day.weekday() < 5 else 0):
            submit = day + hours(8) + timedelta(seconds=30 * each)
            result.append(Job(len(result) + 1, submit, submit, submit + timedelta(minutes=20)))
        day += days(1)
    return result


def silences(root: Path, slurm: FakeSlurm, *, until: datetime) -> list[str]:
    """The days at whose noon an ingest says that accounting is silent, from the fake's time on."""
    result = []
    while slurm.now <= until:
        if any(" are usual" in warning for warning in messages(ingest(root, slurm).warnings)):
            result.append(f"{slurm.now:%a %d}")
        slurm.now += days(1)
    return result


# --- silence


@pytest.mark.slow
@pytest.mark.parametrize("number", [60, 250])
def test_a_weekend_without_jobs_is_no_silence(tmp_path: Path, number: int) -> None:
    slurm = FakeSlurm(weekdays(number, since=MONDAY - days(28), until=MONDAY + days(8)), MONDAY + days(3.5))
    assert silences(tmp_path, slurm, until=MONDAY + days(8)) == []


@pytest.mark.slow
@pytest.mark.parametrize("number", [60, 250])
def test_silence_longer_than_a_weekend_is_reported(tmp_path: Path, number: int) -> None:
    slurm = FakeSlurm(weekdays(number, since=MONDAY - days(28), until=MONDAY + days(5)), MONDAY + days(4.5))
    assert silences(tmp_path, slurm, until=MONDAY + days(9)) == ["Tue 09"]


@pytest.mark.slow
def test_a_busy_cluster_without_jobs_for_a_day_is_reported(tmp_path: Path) -> None:
    jobs = [Job(each, MONDAY - days(14) + hours(0.1 * each)) for each in range(1, 14 * 240)]
    for job in jobs:
        job.start, job.end = job.submit, job.submit + hours(1)
    assert silences(tmp_path, FakeSlurm(jobs, MONDAY), until=MONDAY + days(2)) == ["Wed 03"]


@pytest.mark.slow
def test_a_new_cluster_has_no_weekend_yet(tmp_path: Path) -> None:
    jobs = weekdays(250, since=MONDAY, until=MONDAY + days(5))
    assert silences(tmp_path, FakeSlurm(jobs, MONDAY + days(4.5)), until=MONDAY + days(7)) == []


# --- staying away


class Load(NamedTuple):
    """A load without rows."""

    source: SourceName
    origin: str
    now: datetime
    columns: Sequence[str] = ()
    transport: Transport = "file"


OTHER = Load("slurm.config", "config.txt", MONDAY + days(30))
"""Something else of the cluster, read much later."""


def add_loads(root: Path, *loads: Load) -> None:
    """Write the accounts of loads, each in a transaction of its own; one writer, since opening costs most."""
    with open_writer(root, verb="test", now=loads[0].now) as writer:
        for source, origin, now, columns, transport in loads:
            request, clusters = LoadRequest(origin, transport), frozenset({"c1"})
            parsed = Parsed(source, clusters, {}, empty(REJECTS), rows_read=0, rows_loaded=0, columns=list(columns))
            with writer.transaction():
                write_account(writer, parsed, request=request, digest=f"{origin} {now}", now=now)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "transport"),
    [
        ("slurm.accounting", "command"),
        ("slurm.qos", "command"),
        ("slurm.accounting", "rest"),
        ("prometheus.gpu", "remote_read"),
        ("prometheus.gpu", "export"),
        ("prometheus.gpu", "json"),
    ],
)
def test_a_daily_load_that_stopped_is_stale(tmp_path: Path, source: SourceName, transport: Transport) -> None:
    daily = [Load(source, "x", MONDAY + days(day), transport=transport) for day in range(3)]
    add_loads(tmp_path, *daily, OTHER)
    assert warned(tmp_path) == [(source, "stale")]
    add_loads(tmp_path, Load(source, "by-hand.txt", MONDAY + days(29)))
    assert warned(tmp_path) == []


@pytest.mark.slow
@pytest.mark.parametrize(("source", "origin"), [("runlog", "run{}.jsonl"), ("slurm.accounting", "dumps/sacct-{}.txt")])
def test_what_is_loaded_by_hand_is_never_stale(tmp_path: Path, source: SourceName, origin: str) -> None:
    by_hand = [Load(source, origin.format(number), MONDAY + days(number)) for number in range(4)]
    add_loads(tmp_path, *by_hand, OTHER)
    assert warned(tmp_path) == []


@pytest.mark.slow
def test_source_read_often_on_only_two_days_is_not_stale(tmp_path: Path) -> None:
    often = [
        Load("slurm.accounting", "sacct -a", MONDAY + hours(6 * number), transport="command") for number in range(6)
    ]
    add_loads(tmp_path, *often, OTHER)
    assert warned(tmp_path) == []


# --- columns


def people(command: list[str]) -> Completed | None:
    """What Slurm's database answers about people."""
    words = " ".join(command)
    if "show assoc" in words:
        return Completed(0, ASSOCIATIONS, b"")
    return Completed(0, USERS, b"") if "show user" in words else None


@pytest.mark.slow
def test_associations_and_users_have_columns_of_their_own(tmp_path: Path) -> None:
    slurm = FakeSlurm([Job(1, MONDAY - days(1), MONDAY - days(1))], MONDAY, people)
    for _ in range(3):
        reported = ingest(tmp_path, slurm)
        assert not any("columns" in warning for warning in messages(reported.warnings))
        slurm.now += hours(2)
    slurm.failing = lambda command: AWAY if "user" in command else people(command)
    ingest(tmp_path, slurm, retries=0)
    assert warned(tmp_path) == []
    slurm.now += hours(2)
    slurm.failing = lambda command: (
        Completed(0, USERS.replace(b"Admin|", b"Rank|"), b"") if "user" in command else people(command)
    )
    ingest(tmp_path, slurm)
    assert [text.partition(" Was")[0] for text in source_messages(tmp_path)] == [
        "the columns of sacctmgr show user changed within a week: gone: Admin. new: Rank."
    ]


@pytest.mark.slow
def test_first_columns_are_those_of_all_files_loaded_at_first(tmp_path: Path) -> None:
    parts = {"sacct-1.txt": ["JobID", "State"], "sacct-2.txt": ["JobID", "Flags"]}
    times = (MONDAY, MONDAY + days(1))
    add_loads(
        tmp_path,
        *(Load("slurm.accounting", name, now, columns) for now in times for name, columns in parts.items()),
    )
    assert warned(tmp_path) == []
    columns = ["JobID", "State", "Flags", "Restarts"]
    add_loads(tmp_path, Load("slurm.accounting", "sacct-3.txt", MONDAY + days(2), columns))
    assert [text.partition(": ")[2] for text in source_messages(tmp_path)] == ["new: Restarts. Was Slurm upgraded?"]
