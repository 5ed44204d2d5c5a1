"""Late data, corrections and days that are taken back, through a lake: row for row what the directory has."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
import pytest

from app.cli import main as cli
from queries.lake import catalogue, spans
from queries.warehouse import copy_to_lake, open_reader, open_writer
from tests.queries.lake.support import add_reject, address, differences, into_lake, silent
from tests.support.slurm.dumps import rows_of, tiny, with_rows
from tests.support.warehouses import NOW, from_everything

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from duckdb import DuckDBPyConnection

    from queries.lake.spans import MonthSpan
    from queries.units import Shape

DUMP = tiny(40)


@pytest.fixture(autouse=True)
def _places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("queries.lake.snapshot.CHECK_INTERVAL_S", -1.0)
    monkeypatch.setattr(spans, "FEW_ROWS", 20)  # some tables are divided into months, others are not
    monkeypatch.setattr("app.clock.now", lambda: NOW)
    monkeypatch.chdir(tmp_path)


def trackside(*arguments: str) -> None:
    assert cli.main([*arguments, "--quiet", "--warehouse", "w"]) == 0, arguments


def same(root: Path, lake: Path) -> None:
    """Copy what is noted as changed; then nothing else has changed."""
    into_lake(root, lake)
    assert differences(root, lake) == []
    assert copy_to_lake(root, lake, now=NOW, report=silent, full=True).rows == 0


@pytest.mark.slow
def test_late_data_and_corrections_are_in_the_lake(tmp_path: Path) -> None:
    root, lake = tmp_path / "w", tmp_path / f"ducklake:sqlite:{tmp_path}/lake.sqlite"
    DUMP.write(tmp_path)
    rows = rows_of(DUMP.accounting)
    (tmp_path / "early.txt").write_text(with_rows(rows[::2]))
    trackside("ingest", "slurm", "early.txt", "events.txt", "nodes.txt", "config.txt")
    trackside("compute")
    into_lake(root, lake, str(tmp_path / "files"))
    trackside("ingest", "slurm", "sacct.txt")
    same(root, lake)
    trackside("compute")
    same(root, lake)
    failed = next(row.split("|")[0] for row in rows if "|NODE_FAIL|" in row)
    about = ("--author", "me", "--reason", "it was seen")
    trackside("adjudicate", "cause", "--job", failed, "--attempt", "1", "--class", "user", "--cause", "oom", *about)
    same(root, lake)
    with open_reader(root) as reader:
        [number] = reader.table("adjudications")["id"]
    trackside("adjudicate", "withdraw", str(number), *about)
    same(root, lake)


@pytest.mark.slow
def test_day_that_is_taken_back_is_not_in_the_lake(tmp_path: Path) -> None:
    root, lake = from_everything(tmp_path, gpus=16, days=3), tmp_path / f"ducklake:{tmp_path}/lake.ducklake"
    into_lake(root, lake, str(tmp_path / "files"))
    with open_writer(root, verb="test", now=NOW) as writer, writer.transaction():
        file = next(each for each in writer.files() if each.table == "gpu_samples")
        writer.remove_partition("gpu_samples", file.cluster, file.day)
        writer.delete("day_sums", pl.DataFrame({"cluster": [file.cluster], "day": [file.day]}))
        writer.run("delete_gpu_hours_before", before=NOW)
    same(root, lake)
    with open_reader(lake) as reader:
        assert file.day not in {each.day for each in reader.files() if each.table == "gpu_samples"}
        assert reader.table("gpu_hours").is_empty()


@pytest.mark.slow
def test_directory_restored_from_a_backup_is_read_whole(tmp_path: Path) -> None:
    """What it notes as changed is not since the lake's commit, which it does not remember."""
    root, lake = from_everything(tmp_path, gpus=16, days=3), tmp_path / f"ducklake:{tmp_path}/lake.ducklake"
    into_lake(root, lake, str(tmp_path / "files"))
    backup = (root / "warehouse.duckdb").read_bytes()
    for number in (1, 2):
        if number == 2:
            (root / "warehouse.duckdb").write_bytes(backup)
            for newer in (root / "published").iterdir():
                newer.rename(tmp_path / newer.name)
        with open_writer(root, verb="test", now=NOW) as writer, writer.transaction():
            names = ("cluster", "source", "origin", "reason", "raw")
            writer.append("rejects", pl.DataFrame({name: [str(number)] for name in names}))
            if number == 1:
                writer.delete("day_sums", writer.table("day_sums").select("cluster").unique())
        into_lake(root, lake)
        assert differences(root, lake) == []


@pytest.mark.slow
def test_commit_reads_only_what_is_noted_as_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root, lake = from_everything(tmp_path, gpus=16, days=3), tmp_path / f"ducklake:{tmp_path}/lake.ducklake"
    into_lake(root, lake, str(tmp_path / "files"))
    read: list[str] = []
    of_table = spans.of_table

    def noted(connection: DuckDBPyConnection, database: str, shape: Shape, **more: Collection[str]) -> list[MonthSpan]:
        read.append(shape.name)
        return of_table(connection, database, shape, **more)

    monkeypatch.setattr(spans, "of_table", noted)
    with open_writer(root, verb="test", now=NOW) as writer, writer.transaction():
        writer.delete("ledger_days", writer.table("ledger_days").select("cluster", "day").head(1))
    into_lake(root, lake)
    assert read == ["main.ledger_days"]


@pytest.mark.slow
def test_table_is_divided_or_whole_by_its_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root, lake = from_everything(tmp_path, gpus=16, days=3), tmp_path / f"ducklake:{tmp_path}/lake.ducklake"
    into_lake(root, lake, str(tmp_path / "files"))
    for few_rows, divided in ((1_000_000, False), (20, True)):
        monkeypatch.setattr(spans, "FEW_ROWS", few_rows)
        add_reject(root, str(few_rows))
        same(root, lake)
        with catalogue.attached(address(lake), read_only=True) as attached:
            months = {entry.span for entry in attached.entries() if entry.table == "main.gpu_time"}
        assert (months != {"all"}) is divided
