"""Run logs that are read each cycle: a file is read again only where it, or how it is read, is another."""

from __future__ import annotations

import gzip
import os
import tarfile
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from app.cli import future_rows
from ingest.errors import UnrecognisedInputError
from ingest.runlog import incremental
from ingest.runlog.text_format import parse_format
from ingest.runlog.translation import LogRequest
from queries.warehouse import open_writer

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ingest.store.report import LoadReport

NOW = datetime(2026, 12, 1, tzinfo=UTC)
BEGIN = datetime(2026, 10, 1, tzinfo=UTC).timestamp()
LOGS = LogRequest(timezone="UTC")
OWN = parse_format(
    {"name": "mine", "line": [{"kind": "step", "starts": "^it", "fields": {"step": r"it (\d+)"}}]}, origin="test"
)


def run_log(name: str, at: float = BEGIN, steps: int = 1) -> str:
    lines = [f'{{"type":"run","v":1,"t":{at},"run_id":"{name}"}}']
    lines += [f'{{"type":"step","step":{step},"t":{at + step},"duration_s":1}}' for step in range(steps)]
    return "\n".join(lines) + "\n"


class Cycles:
    """A folder of logs, read again and again into one warehouse."""

    def __init__(self, folder: Path) -> None:
        self.logs, self.root = folder / "logs", folder / "w"
        self.progress: Callable[[str, int, int], None] = lambda *_: None
        self.logs.mkdir()

    def read(self, logs: LogRequest = LOGS, *, version: bytes = b"1", now: datetime = NOW) -> list[LoadReport]:
        """A cycle of a process that has just been started."""
        files = incremental.files_of([str(self.logs / "*")])
        with open_writer(self.root, verb="test", now=now) as writer:
            before = writer.data_version
            reports = incremental.ingest_changed(
                writer, files, cluster="a", now=now, progress=self.progress, logs=logs, version=version
            )
            self.wrote = writer.data_version > before
        return reports

    def names(self, *requests: Any, **more: Any) -> list[str]:
        """The logs that were read."""
        return [report.origin.removeprefix(f"{self.logs}/") for report in self.read(*requests, **more) if report.parsed]

    def remembered(self) -> list[str]:
        """The files that are known as read."""
        with open_writer(self.root, verb="test", now=NOW) as writer:
            return sorted(
                writer.matching("read_files", pl.DataFrame({"source": ["runlog"]}), keys=["source"])["origin"]
            )


@pytest.fixture
def cycles(tmp_path: Path) -> Cycles:
    return Cycles(tmp_path)


@pytest.mark.slow
def test_an_unchanged_log_is_read_once(cycles: Cycles) -> None:
    for name in ("a.jsonl", "b.jsonl"):
        (cycles.logs / name).write_text(run_log(name))
    assert cycles.names() == ["a.jsonl", "b.jsonl"]
    assert (cycles.names(), cycles.wrote) == ([], False)
    with (cycles.logs / "a.jsonl").open("a") as log:
        log.write(run_log("a.jsonl", BEGIN + 100))
    assert cycles.names() == ["a.jsonl"]
    assert cycles.names() == []


def test_a_log_of_the_same_size_and_time_is_another(cycles: Cycles) -> None:
    """As `rsync -t` leaves one: its status was changed later than that of the old one."""
    log = cycles.logs / "a.jsonl"
    log.write_text(run_log("a"))
    os.utime(log, ns=(10**18, 10**18))
    assert cycles.names() == ["a.jsonl"]
    other = cycles.logs.parent / "other"
    other.write_text(run_log("b"))
    os.utime(other, ns=(10**18, 10**18))
    other.rename(log)
    assert cycles.names() == ["a.jsonl"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("logs", "version"),
    [(LOGS, b"2"), (replace(LOGS, timezone="Europe/Berlin"), b"1"), (replace(LOGS, formats=(OWN,)), b"1")],
    ids=["version", "zone", "formats"],
)
def test_a_log_is_read_again_where_it_is_read_otherwise(cycles: Cycles, logs: LogRequest, version: bytes) -> None:
    (cycles.logs / "a.jsonl").write_text(run_log("a"))
    assert cycles.names() == ["a.jsonl"]
    assert cycles.names(logs, version=version) == ["a.jsonl"]
    assert cycles.names(logs, version=version) == []


@pytest.mark.slow
def test_an_archive_is_read_once_as_a_whole(cycles: Cycles) -> None:
    for name in ("x.jsonl", "y.jsonl"):
        (cycles.logs.parent / name).write_text(run_log(name))
    with tarfile.open(cycles.logs / "all.tar", "w") as archive:
        archive.add(cycles.logs.parent / "x.jsonl", "x.jsonl")
    assert cycles.names() == ["all.tar/x.jsonl"]
    assert cycles.names() == []
    with tarfile.open(cycles.logs / "all.tar", "a") as archive:
        archive.add(cycles.logs.parent / "y.jsonl", "y.jsonl")
    assert cycles.names() == ["all.tar/x.jsonl", "all.tar/y.jsonl"]
    assert cycles.names() == []


def test_what_cannot_be_used_is_read_once_and_reported(cycles: Cycles) -> None:
    (cycles.logs / "notes.txt").write_text("hello\n")
    with tarfile.open(cycles.logs / "bad.tar", "w") as archive:
        archive.add(cycles.logs / "notes.txt", "notes.txt")
    first = cycles.read()
    again = cycles.read()
    assert (len(again), cycles.wrote) == (2, False)
    assert {(one.origin, type(one.error), str(one.error)) for one in again} == {
        (one.origin, UnrecognisedInputError, str(one.error)) for one in first
    }
    (cycles.logs / "notes.txt").write_text(run_log("a"))
    assert cycles.names() == ["notes.txt"]


def test_a_damaged_pack_is_read_once_and_reported(cycles: Cycles) -> None:
    packed = bytearray(gzip.compress(run_log("a", steps=2_000).encode()))
    packed[len(packed) // 2] ^= 0xFF
    (cycles.logs / "a.jsonl.gz").write_bytes(packed)
    (first,), (again,) = cycles.read(), cycles.read()
    assert (str(again.error), cycles.wrote) == (str(first.error), False)
    assert "is damaged" in str(again.error)


@pytest.mark.slow
def test_a_log_that_is_gone_is_forgotten(cycles: Cycles) -> None:
    for name in ("a.jsonl", "b.jsonl"):
        (cycles.logs / name).write_text(run_log(name))
    cycles.read()
    (cycles.logs / "a.jsonl").unlink()
    assert len(cycles.remembered()) == 2  # nothing is written for that alone
    (cycles.logs / "c.jsonl").write_text(run_log("c"))
    assert cycles.names() == ["c.jsonl"]
    assert cycles.remembered() == [str(cycles.logs / name) for name in ("b.jsonl", "c.jsonl")]


@pytest.mark.slow
def test_rows_of_the_future_have_their_log_read_again(cycles: Cycles) -> None:
    """A clock that ran ahead let them in; they are removed, and their time comes while the log stays as it is."""
    (cycles.logs / "ahead.jsonl").write_text(run_log("a", NOW.timestamp() + 3_600))
    later = NOW + timedelta(hours=2)
    assert cycles.names(now=later) == ["ahead.jsonl"]
    with open_writer(cycles.root, verb="test", now=NOW) as writer:
        assert "steps" in set(future_rows.reject(writer, now=NOW)["table"])
    assert cycles.names(now=later) == ["ahead.jsonl"]


def test_what_may_pass_is_tried_again(cycles: Cycles) -> None:
    (cycles.logs / "ahead.jsonl").write_text(run_log("a", NOW.timestamp() + 3_600))
    (cycles.logs / "partly.jsonl").write_text(run_log("b", NOW.timestamp(), steps=1_000))
    assert cycles.names() == ["partly.jsonl"]
    assert cycles.names(now=NOW + timedelta(hours=2)) == ["ahead.jsonl", "partly.jsonl"]
    assert cycles.names(now=NOW + timedelta(hours=2)) == []


@pytest.mark.slow
def test_a_stop_keeps_what_was_read_before(cycles: Cycles, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(5):
        (cycles.logs / f"{number}.jsonl").write_text(run_log(f"{number}"))
    monkeypatch.setattr(incremental, "_FILES", 2)

    def stopped(name: str, *_: int) -> None:
        if name.endswith("3.jsonl"):
            raise KeyboardInterrupt

    cycles.progress = stopped
    with pytest.raises(KeyboardInterrupt):
        cycles.read()
    cycles.progress = lambda *_: None
    assert cycles.names() == ["2.jsonl", "3.jsonl", "4.jsonl"]
