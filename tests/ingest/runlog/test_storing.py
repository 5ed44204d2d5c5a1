"""Many small logs in one transaction: the same rows as with one for each."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from ingest.runlog import store, storing
from queries.warehouse import open_writer
from tests.support.command import assert_same, contents

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from ingest.runlog.storing import ReadLog
    from ingest.store.report import LoadReport
    from ingest.tables import Parsed
    from queries.warehouse import Writer

T = 1_790_812_800 - 600  # ten minutes before midnight
NOW = datetime(2026, 10, 5, tzinfo=UTC)


def log_of(number: int) -> str:
    """One process of one of three runs; odd ones are cut, and all have the same line that is none."""
    at = T + 100 * number
    lines: list[dict[str, object]] = [{"type": "run", "v": 1, "t": at, "run_id": f"r{number % 3}", "rank": 0}]
    lines += [{"type": "step", "step": 5 * number + n, "t": at + n, "duration_s": 1.0} for n in range(8)]
    lines.append({"type": "ckpt", "step": 5 * number, "begin": at + 9, "end": at + 10})
    text = "".join(json.dumps(line) + "\n" for line in lines) + "no line\n"
    return text + f'{{"type":"step","step":{900 + number}' if number % 2 else text


def write(folder: Path, count: int = 12) -> list[str]:
    folder.mkdir(exist_ok=True)
    for number in range(count):
        (folder / f"{number:02d}.jsonl").write_text(log_of(number))
    return [str(folder / f"{number:02d}.jsonl") for number in range(count)]


def load(warehouse: Path, files: Sequence[str]) -> list[LoadReport]:
    with open_writer(warehouse, verb="test", now=NOW) as writer:
        return store.ingest_files(writer, files, cluster="alpha", now=NOW, progress=lambda *_: None)


def versions(warehouse: Path) -> int:
    with open_writer(warehouse, verb="test", now=NOW) as writer:
        return writer.data_version


def loads(warehouse: Path) -> pl.DataFrame:
    with open_writer(warehouse, verb="test", now=NOW) as writer:
        rows = writer.matching("loads", pl.DataFrame({"source": ["runlog"]}), keys=["source"])
    return rows.sort("origin", "cluster", "rows_new", nulls_last=False)


def one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storing, "MOST_LOGS", 1)


def new_rows(reports: Sequence[LoadReport]) -> list[int | None]:
    return [report.parsed.rows_new if report.parsed else -1 for report in reports]


@pytest.mark.slow
def test_batches_of_any_size_store_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = write(tmp_path / "logs")
    together = load(tmp_path / "together", files)
    monkeypatch.setattr(storing, "MOST_ROWS", 30)
    some = load(tmp_path / "some", files)
    one_by_one(monkeypatch)
    alone = load(tmp_path / "alone", files)
    assert_same(tmp_path / "together", tmp_path / "alone")
    assert_same(tmp_path / "some", tmp_path / "alone")
    assert_frame_equal(loads(tmp_path / "together"), loads(tmp_path / "alone"))
    assert_frame_equal(loads(tmp_path / "some"), loads(tmp_path / "alone"))
    assert contents(tmp_path / "alone")["rejects"].height == 1 + 6
    assert [report.origin for report in together] == [report.origin for report in some] == files
    for one, other in zip(together, alone, strict=True):
        assert one.parsed is not None
        assert other.parsed is not None
        assert one.parsed.rows_loaded == other.parsed.rows_loaded


@pytest.mark.slow
def test_many_logs_are_one_transaction(tmp_path: Path) -> None:
    load(tmp_path / "w", write(tmp_path / "logs"))
    one = versions(tmp_path / "w")
    load(tmp_path / "one", write(tmp_path / "logs", 1))
    assert one == versions(tmp_path / "one")


@pytest.mark.slow
def test_what_was_loaded_before_is_known(tmp_path: Path) -> None:
    files = write(tmp_path / "logs")
    load(tmp_path / "w", files[:6])
    assert new_rows(load(tmp_path / "w", files)) == [0] * 6 + [None] * 6


def test_a_copy_in_the_same_batch_is_known(tmp_path: Path) -> None:
    files = write(tmp_path / "logs", 2)
    (tmp_path / "logs" / "copy.jsonl").write_text(log_of(0))
    assert new_rows(load(tmp_path / "w", [*files, str(tmp_path / "logs" / "copy.jsonl")])) == [None, None, 0]


@pytest.mark.slow
def test_of_logs_loaded_before_those_in_part_gone_bring_rows(tmp_path: Path) -> None:
    files = write(tmp_path / "logs", 3)
    load(tmp_path / "w", files)
    with open_writer(tmp_path / "w", verb="test", now=NOW) as writer, writer.transaction():
        writer.delete_where("run_sessions", "run_id = $run", {"run": "r1"})
    assert new_rows(load(tmp_path / "w", files)) == [0, None, 0]


@pytest.mark.slow
def test_lines_cut_in_many_logs_are_whole_once_they_are(tmp_path: Path) -> None:
    files = write(tmp_path / "logs")
    load(tmp_path / "w", files)
    for number in range(1, 12, 2):
        with (tmp_path / "logs" / f"{number:02d}.jsonl").open("a") as log:
            log.write(f',"t":{T + 100 * number + 20},"duration_s":1}}\n')
    load(tmp_path / "w", files)
    load(tmp_path / "once", files)
    assert_same(tmp_path / "w", tmp_path / "once")
    assert contents(tmp_path / "w")["rejects"]["raw"].to_list() == ["no line"]


def refuse(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """One log cannot be stored."""
    sound = storing.store_logs

    def broken(writer: Writer, logs: Sequence[ReadLog], *, now: datetime, again: bool) -> list[Parsed]:
        if any(log.request.origin == name for log in logs):
            raise ValueError("a fault of ours")
        return sound(writer, logs, now=now, again=again)

    monkeypatch.setattr(storing, "store_logs", broken)


def test_a_copy_of_one_that_cannot_be_stored_is_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = write(tmp_path / "logs", 2)
    copy = tmp_path / "logs" / "copy.jsonl"
    copy.write_text(log_of(1))
    load(tmp_path / "w", files[:1])
    refuse(monkeypatch, files[1])
    assert new_rows(load(tmp_path / "w", [files[1], str(copy), files[0]])) == [-1, None, 0]


@pytest.mark.slow
def test_one_that_cannot_be_stored_keeps_no_other_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = write(tmp_path / "logs", 4)
    refuse(monkeypatch, files[2])
    reports = load(tmp_path / "w", files)
    assert [report.error is None for report in reports] == [True, True, False, True]
    load(tmp_path / "others", [files[0], files[1], files[3]])
    assert_same(tmp_path / "w", tmp_path / "others")
