"""`trackside status` tells what there is and what the last load brought, however often files are loaded."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from app.cli import main as cli
from app.cli import status
from app.cli.verbs.data import status as status_verb
from app.config.settings import Config
from ingest.slurm.load_files import Options, ingest_files
from queries.warehouse import open_reader, open_writer
from tests.support.command import trackside
from tests.support.kubernetes.objects import as_list, pod
from tests.support.slurm.dumps import START, rows_of, tiny, with_rows
from tests.support.slurm.parsing import DATA

if TYPE_CHECKING:
    from pathlib import Path

    from ingest.store.report import LoadReport

NOW = datetime(2026, 11, 21, 20, tzinfo=UTC)
SACCT, QOS = str(DATA / "kinds.sacct.txt"), str(DATA / "qos.sacctmgr.txt")


def ingest(root: Path, *files: str, now: datetime = NOW, **options: Any) -> list[LoadReport]:
    with open_writer(root, verb="test", now=now) as writer:
        reports = ingest_files(writer, Config(), files, Options(**options), now=now, progress=lambda *_: None)
    assert [report.error for report in reports] == [None] * len(files)
    return reports


def state(root: Path) -> dict[str, Any]:
    with open_reader(root) as reader:
        return status.document(reader, now=NOW + timedelta(days=1))


def source(root: Path, name: str = "slurm.accounting", cluster: str | None = None) -> dict[str, Any]:
    [result] = [
        each for each in state(root)["sources"] if each["source"] == name and cluster in {None, each["cluster"]}
    ]
    return dict(result)


def counts(reported: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(reported["last_load"][name] for name in ("read", "new", "known", "skipped", "rejected"))


@pytest.mark.slow
def test_file_loaded_twice_is_stored_once_and_counted_as_not_new(tmp_path: Path) -> None:
    ingest(tmp_path / "w", SACCT)
    once = source(tmp_path / "w")
    assert (once["rows"], counts(once)) == ({"attempts": 43}, (43, 43, 0, 0, 0))
    [again] = ingest(tmp_path / "w", SACCT, now=NOW + timedelta(hours=1))
    assert again.parsed is not None
    assert again.parsed.rows_new == 0
    twice = source(tmp_path / "w")
    assert (twice["rows"], counts(twice)) == ({"attempts": 43}, (43, 0, 43, 0, 0))
    assert twice["loads"] == 2
    assert twice["last_load"]["loaded_at"] == NOW + timedelta(hours=1)


@pytest.mark.slow
def test_of_an_overlapping_dump_only_missing_rows_are_new(tmp_path: Path) -> None:
    rows = rows_of(tiny(30).accounting)
    first, second = tmp_path / "first.txt", tmp_path / "second.txt"
    first.write_text(with_rows(rows[:20]))
    second.write_text(with_rows(rows[15:]))
    ingest(tmp_path / "w", str(first))
    ingest(tmp_path / "w", str(second), now=NOW + timedelta(hours=1))
    reported = source(tmp_path / "w")
    assert reported["rows"] == {"attempts": len(rows)}
    assert counts(reported) == (len(rows) - 15, len(rows) - 20, 5, 0, 0)


@pytest.mark.slow
def test_last_load_has_all_files_and_warnings_of_one_ingest(tmp_path: Path) -> None:
    rows = rows_of(tiny(30).accounting)
    names = ["a.txt", "b.txt", "none.txt"]
    for name, part in zip(names, (rows[:20], rows[15:], []), strict=True):
        (tmp_path / name).write_text(with_rows(part))
    ingest(tmp_path / "w", *(str(tmp_path / name) for name in names), cluster="tiny")
    reported = source(tmp_path / "w")
    assert (counts(reported), reported["last_load"]["inputs"]) == ((len(rows) + 5, len(rows), 5, 0, 0), 3)
    assert any("header only" in warning for warning in reported["last_load"]["warnings"])


@pytest.mark.slow
def test_load_without_a_row_count_has_an_unknown_number_of_new(tmp_path: Path) -> None:
    ingest(tmp_path / "w", SACCT)
    with open_writer(tmp_path / "w", verb="test", now=NOW) as writer, writer.transaction():
        written_before = writer.table("loads").drop("rows_new")
        writer.delete("loads", written_before.select("cluster"))
        writer.append("loads", written_before)
    reported = source(tmp_path / "w")
    assert (reported["rows"], counts(reported)) == ({"attempts": 43}, (43, None, None, 0, 0))
    ingest(tmp_path / "w", SACCT, now=NOW + timedelta(hours=2))
    assert counts(source(tmp_path / "w")) == (43, 0, 43, 0, 0)


@pytest.mark.slow
def test_each_kind_counts_its_own_table(tmp_path: Path) -> None:
    files = ["kinds.events.txt", "kinds.nodes.txt", "assoc.sacctmgr.txt", "users.sacctmgr.txt", "sdiag.txt"]
    everything = [SACCT, QOS, *(str(DATA / name) for name in files)]
    reports = ingest(tmp_path / "w", *everything)
    first = {each["source"]: each for each in state(tmp_path / "w")["sources"]}
    assert {name: each["rows"] for name, each in first.items()} == {
        "slurm.accounting": {"attempts": 43},
        "slurm.associations": {"associations": 13, "users": 7},
        "slurm.diag": {"scheduler_stats": 56},
        "slurm.events": {"node_states": 2},
        "slurm.nodes": {"nodes": 6},
        "slurm.qos": {"qos": 3},
    }
    assert {report.origin: report.parsed and report.parsed.rows_new for report in reports}[QOS] == 3
    ingest(tmp_path / "w", *everything, now=NOW + timedelta(hours=1))
    for each in state(tmp_path / "w")["sources"]:
        assert each["rows"] == first[each["source"]]["rows"]
        assert each["last_load"]["new"] == 0


@pytest.mark.slow
def test_attempts_count_for_what_ran_them(tmp_path: Path) -> None:
    ingest(tmp_path / "w", SACCT)
    before = source(tmp_path / "w")["rows"]
    allocations = "allocation_id,task_type,username,workspace_name,experiment_id,slots,start_time,end_time,seconds\n"
    objects, table = tmp_path / "pods.json", tmp_path / "allocations.csv"
    objects.write_bytes(as_list(pod("a", ended=50), pod("b", ended=60)))
    table.write_text(f"{allocations}t.1,NTSC,ann,lab,,4,2026-10-01T00:00:00Z,2026-10-01T01:00:00Z,3600\n")
    for verb, file in (("kubernetes", objects), ("determined", table)):
        done = trackside("ingest", verb, str(file), "--cluster", "east", "--warehouse", str(tmp_path / "w"))
        assert done.returncode == 0, done.stderr
    found = {each["source"]: each["rows"].get("attempts") for each in state(tmp_path / "w")["sources"]}
    assert found == {"slurm.accounting": before["attempts"], "kubernetes.objects": 2, "determined.allocations": 1}


def test_rows_of_an_input_of_two_clusters_count_for_the_first(tmp_path: Path) -> None:
    [report] = ingest(tmp_path / "w", str(DATA / "federation.sacct.txt"))
    one, other = (source(tmp_path / "w", cluster=name) for name in ("bench", "other"))
    there = [each["rows"]["attempts"] for each in (one, other)]
    assert min(there) > 0
    assert report.parsed is not None
    assert report.parsed.rows_new == sum(there) == one["last_load"]["new"]
    assert counts(other) == (None, None, None, None, None)


def test_a_load_is_counted_in_the_transaction_that_writes_it(tmp_path: Path) -> None:
    with open_writer(tmp_path / "w", verb="test", now=NOW) as writer:
        before = writer.data_version
        ingest_files(writer, Config(), [SACCT], Options(), now=NOW, progress=lambda *_: None)
        assert writer.data_version == before + 1
        assert writer.table("loads")["rows_new"].to_list() == [43]


@pytest.mark.slow
def test_status_shows_rows_now_and_what_the_last_load_brought(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ingest(tmp_path / "w", SACCT)
    ingest(tmp_path / "w", SACCT, now=NOW + timedelta(hours=1))
    assert cli.main(["status", "--warehouse", str(tmp_path / "w")]) == 0
    shown = capsys.readouterr().out
    [heading] = [line for line in shown.splitlines() if line.startswith("cluster ")]
    [row] = [line for line in shown.splitlines() if "slurm.accounting" in line]
    assert re.split(r"\s{2,}", heading)[2:3] == ["rows now"]
    assert re.split(r"\s{2,}", heading)[-4:] == ["new", "known", "skipped", "rejected"]
    assert re.split(r"\s{2,}", row)[2:3] == ["43 attempts"]
    assert re.split(r"\s{2,}", row)[-4:] == ["0", "43", "0", "0"]


def test_status_of_an_empty_warehouse_names_the_first_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with open_writer(tmp_path, verb="test", now=NOW):
        pass
    assert cli.main(["status", "--warehouse", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert "Nothing has been loaded yet. First: trackside ingest slurm" in shown
    assert "rows now" not in shown


@pytest.mark.slow
def test_status_in_json_is_as_its_help_describes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    refused = tmp_path / "sacct.txt"
    refused.write_text(with_rows([*rows_of(tiny(20).accounting), "1|2"]))
    ingest(tmp_path / "w", str(refused))
    assert cli.main(["status", "--format", "json", "--warehouse", str(tmp_path / "w")]) == 0
    reported = json.loads(capsys.readouterr().out)
    [accounting] = reported["sources"]
    assert datetime.fromisoformat(accounting["covers_from"]).timestamp() >= START
    assert reported["rejects"][0]["n"] == accounting["last_load"]["rejected"] == 1
    assert [each["computed_at"] for each in reported["ledgers"]] == [None]
    with open_reader(tmp_path / "w") as reader:
        about = [*reader.query("load_gaps").columns, *reader.query("source_warnings").columns]
    for name in (
        *reported,
        *accounting,
        *accounting["last_load"],
        *reported["ledgers"][0],
        *reported["rejects"][0],
        *about,
    ):
        assert re.search(rf"\b{name}\b", status_verb.EPILOG), name
