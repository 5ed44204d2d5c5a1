"""A computation does again the days whose inputs changed, and no other; the result is that of doing them all."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from app.compute import pipeline as computing
from app.config.settings import Config, parse
from ingest.slurm import load_files as ingesting
from ingest.store.report import first_error
from queries.warehouse import open_reader, open_writer
from tests.support.slurm.dumps import HEADER, rows_of, tiny, with_rows

if TYPE_CHECKING:
    from pathlib import Path

    import polars as pl

    from queries.warehouse import Writer

NOW = datetime(2026, 11, 2, 3, 4, 5, tzinfo=UTC)
LATER = NOW + timedelta(hours=1)


def ingest(writer: Writer, *files: str) -> None:
    reports = ingesting.ingest_files(
        writer, Config(), files, ingesting.Options(), now=NOW, progress=lambda _what, _done, _all: None
    )
    assert first_error(reports) is None


def computed(writer: Writer, *, now: datetime, full: bool = False, settings: Config | None = None) -> list[str]:
    """Compute, and what was said of the ledger."""
    said: list[str] = []
    computing.compute(
        writer, settings or Config(), now=now, full=full, progress=lambda what, _done, _all: said.append(what)
    )
    return [each for each in said if "days changed" in each]


@pytest.mark.slow
def test_compute_reports_a_share_that_grows_with_each_stage(tmp_path: Path) -> None:
    reported: list[tuple[str, int, int]] = []
    with open_writer(tmp_path / "w", verb="test", now=NOW) as writer:
        ingest(writer, *tiny(60).write(tmp_path))
        computing.compute(writer, Config(), now=NOW, progress=lambda *each: reported.append(each))
    shares = [done / total for _, done, total in reported]
    assert shares == sorted(shares)
    assert len(set(shares)) >= 8
    assert max(shares) < 1
    texts = [what for what, _, _ in reported]
    assert any("results, window 1 of " in what for what in texts)
    assert any("ledger, day 1 of " in what for what in texts)


def ledger(root: Path) -> pl.DataFrame:
    with open_reader(root) as reader:
        found = reader.table("gpu_time")
    return found.sort(found.columns, nulls_last=True)


def days(root: Path) -> dict[date, datetime]:
    """When each day was computed."""
    with open_reader(root) as reader:
        return dict(reader.table("ledger_days").select("day", "computed_at").iter_rows())


def cells(row: str) -> dict[str, str]:
    return dict(zip(HEADER.split("|"), row.split("|", HEADER.count("|")), strict=True))


def held_on(row: str) -> set[date]:
    """Days on which an attempt held nodes."""
    start, end = (datetime.fromtimestamp(int(cells(row)[name]), UTC) for name in ("Start", "End"))
    found = (start.date() + timedelta(days=each) for each in range((end - start).days + 2))
    return {day for day in found if day <= (end - timedelta(seconds=1)).date()}


def a_late_row(rows: list[str]) -> str:
    """One that ran and ended amid the data, alone under its id: nothing else is told by it."""
    ids = [cells(row)["JobIDRaw"] for row in rows]
    amid = rows[len(rows) // 3 : len(rows) // 2]
    return next(
        row
        for row in amid
        if ids.count(cells(row)["JobIDRaw"]) == 1 and cells(row)["End"].isdigit() and "None" not in row
    )


@pytest.fixture(scope="module")
def told_late(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, str]:
    """A computed warehouse that lacks one attempt, that attempt's row, and the file that tells of it."""
    folder = tmp_path_factory.mktemp("days")
    dump = tiny(120)
    files = dump.write(folder)
    late = a_late_row(rows_of(dump.accounting))
    (folder / "sacct.txt").write_text(with_rows([row for row in rows_of(dump.accounting) if row != late]))
    (folder / "late.txt").write_text(with_rows([late]))
    with open_writer(folder / "w", verb="test", now=NOW) as writer:
        ingest(writer, *files)
        (said,) = computed(writer, now=NOW)
        all_days = len(writer.table("ledger_days"))
        assert said == f"tiny: ledger: {all_days} of {all_days} days changed"
        assert computed(writer, now=LATER) == [f"tiny: ledger: 0 of {all_days} days changed"]
    return folder / "w", late, str(folder / "late.txt")


@pytest.mark.slow
def test_late_attempt_recomputes_only_the_days_it_ran_on(told_late: tuple[Path, str, str]) -> None:
    root, late, file = told_late
    before = days(root)
    assert set(before.values()) == {NOW}
    with open_writer(root, verb="test", now=NOW) as writer:
        ingest(writer, file)
        computed(writer, now=LATER)
    again = {day for day, at in days(root).items() if at == LATER}
    # Its wait is demand, which may be of the day before it began.
    waited = datetime.fromtimestamp(int(cells(late)["Eligible"]), UTC).date()
    assert held_on(late) <= again <= held_on(late) | {waited}
    assert len(again) < len(before)
    once = ledger(root)
    with open_writer(root, verb="test", now=NOW) as writer:
        (said,) = computed(writer, now=LATER, full=True)
    assert said == f"tiny: ledger: {len(before)} of {len(before)} days changed"
    assert ledger(root).equals(once)


@pytest.mark.slow
def test_changed_rule_recomputes_only_the_days_it_applies_to(tmp_path: Path) -> None:
    with open_writer(tmp_path / "w", verb="test", now=NOW) as writer:
        ingest(writer, *tiny(60).write(tmp_path))
        computed(writer, now=NOW)
    other = parse({"rules": {"other_work": {"trying": "try"}}}, origin="test")
    with open_writer(tmp_path / "w", verb="test", now=NOW) as writer:
        computed(writer, now=LATER, settings=other)
    assert "trying" in ledger(tmp_path / "w")["cause"].to_list()
    by_day = ledger(tmp_path / "w")
    with open_writer(tmp_path / "w", verb="test", now=NOW) as writer:
        computed(writer, now=LATER, settings=other, full=True)
    assert ledger(tmp_path / "w").equals(by_day)


@pytest.mark.slow
def test_other_days_leave_with_a_window_and_return_without_it(tmp_path: Path) -> None:
    root = tmp_path / "w"
    with open_writer(root, verb="test", now=NOW) as writer:
        ingest(writer, *tiny(60).write(tmp_path))
        computed(writer, now=NOW)
    whole = ledger(root)
    first = min(days(root))
    since = datetime.combine(first, datetime.min.time(), UTC) + timedelta(days=2, hours=7)
    with open_writer(root, verb="test", now=NOW) as writer:
        computing.compute(writer, Config(), now=LATER, since=since)
    assert ledger(root)["started_at"].min() == since
    assert min(days(root)) == since.date()
    with open_writer(root, verb="test", now=NOW) as writer:
        computed(writer, now=LATER)
    assert ledger(root).equals(whole)


def test_compute_cut_off_leaves_ledger_rows_and_days_unchanged(
    told_late: tuple[Path, str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    root, _, _ = told_late
    rows, known = ledger(root), days(root)

    def killed(*_: object, **_named: object) -> None:
        raise KeyboardInterrupt

    with open_writer(root, verb="test", now=NOW) as writer:
        monkeypatch.setattr(computing, "write_results", killed)
        with pytest.raises(KeyboardInterrupt):
            computing.compute(writer, Config(), now=LATER + timedelta(hours=1), full=True)
    assert ledger(root).equals(rows)
    assert days(root) == known


@pytest.mark.slow
def test_progress_grows_by_the_parts_of_a_cluster_to_the_checks(tmp_path: Path) -> None:
    reported: list[tuple[int, int]] = []
    with open_writer(tmp_path / "w", verb="test", now=NOW) as writer:
        ingest(writer, *map(str, tiny(20).write(tmp_path)))
        computing.compute(writer, Config(), now=NOW, progress=lambda _what, done, total: reported.append((done, total)))
    (total,) = {total for _, total in reported}
    parts = [done for done, _ in reported]
    assert parts == sorted(parts)
    assert (parts[0], parts[-1]) == (0, 100), "the checks begin when all of the cluster's work is done"
    assert total > 100
    assert len(set(parts)) > 5
