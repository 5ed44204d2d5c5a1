"""Live ingests notice silence and change: a source that says nothing more, or has other columns."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from app.cli.status import status
from ingest.load_warnings import messages
from queries.warehouse import open_reader
from tests.support.slurm.fake_slurm import (
    AWAY,
    FakeSlurm,
    Job,
    days,
    ingest,
    many,
    table,
)

if TYPE_CHECKING:
    from pathlib import Path

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)


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
@pytest.mark.parametrize("number", [0, 60])
def test_a_small_cluster_may_be_idle(tmp_path: Path, number: int) -> None:
    slurm = FakeSlurm(many(number, since=NOW - days(30), until=NOW - days(3)), NOW - days(4))
    daily(tmp_path, slurm, 6)
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
