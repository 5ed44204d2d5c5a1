"""The record of written reports: each is noted once, and what became of its file is told."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from app.errors import UsageError
from app.reports import records
from app.reports.delivery.outbox import folder_of
from app.reports.listing import listed
from app.reports.records import ReportRecord
from queries.directory import REPORTS, refuse_other_folders
from tests.support.command import trackside
from tests.support.warehouses import from_accounting

if TYPE_CHECKING:
    from pathlib import Path

RECORD = ReportRecord(
    *("sla", "tiny", "2026-10", "json", "/x", "2026-11-08T00:00:00Z", "a" * 64, None, True, 1, 0, 2, None)
)


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return from_accounting(tmp_path_factory.mktemp("records"), jobs=60)


@pytest.mark.slow
def test_a_lake_has_no_list_and_needs_an_outbox_of_its_own(tmp_path: Path) -> None:
    lake = tmp_path / "ducklake:lake.ducklake"
    with pytest.raises(UsageError, match="outbox = "):
        folder_of(lake)
    assert folder_of(lake, tmp_path / "reports") == tmp_path / "reports"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_report_is_noted_and_its_file_followed(warehouse: Path, tmp_path: Path) -> None:
    where = ("--warehouse", str(warehouse))
    for form in ("json", "md", "csv"):
        done = trackside("report", "sla", "--period", "2026-10-03", "-o", str(tmp_path / f"r.{form}"), *where)
        assert done.returncode == 0, done.stderr
    (tmp_path / "r.md").write_text("other")
    (tmp_path / "r.csv").unlink()
    rows = json.loads(trackside("reports", "list", "--format", "json", *where).stdout)
    assert [(row["form"], row["file"]) for row in rows] == [("csv", "gone"), ("md", "changed"), ("json", "unchanged")]
    assert len({row["sha256"] for row in rows}) == 1
    assert listed(warehouse, period="2026-11").is_empty()
    assert listed(warehouse, cluster="tiny", period="2026-10-03").height == 3


def test_records_by_many_threads_are_all_whole(tmp_path: Path) -> None:
    made = [replace(RECORD, period=str(number)) for number in range(40)]
    threads = [threading.Thread(target=records.keep, args=(tmp_path, each)) for each in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(records.read(tmp_path), key=lambda each: int(each.period)) == made


def test_cut_line_costs_no_other(tmp_path: Path) -> None:
    assert records.keep(tmp_path, RECORD) is None
    with (tmp_path / REPORTS).open("ab") as file:
        file.write(b'{"report": "sla", "clus')
    assert records.keep(tmp_path, replace(RECORD, period="2026-11")) is None
    assert [each.period for each in records.read(tmp_path)] == ["2026-10", "2026-11"]


def test_record_that_cannot_be_kept_gives_its_reason(tmp_path: Path) -> None:
    reason = records.keep(tmp_path / "nowhere", RECORD)
    assert reason is not None
    assert "No such file" in reason
    assert records.read(tmp_path / "nowhere") == []


def test_copied_warehouse_with_records_is_none_of_others(tmp_path: Path) -> None:
    records.keep(tmp_path, RECORD)
    refuse_other_folders(tmp_path)
