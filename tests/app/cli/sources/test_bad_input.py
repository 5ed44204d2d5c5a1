"""Bad input gets one screen that says what, where and what to do, its own exit status, and leaves nothing behind."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING

import pytest

from app.console import echo
from app.errors import EXIT_STATUS
from queries.warehouse import open_reader, open_writer
from tests.support.command import trackside
from tests.support.slurm.dumps import HEADER, rows_of, tiny, with_rows

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path


@pytest.fixture(scope="module")
def accounting() -> str:
    return tiny(20).accounting


def refused(done: subprocess.CompletedProcess[str], status: int, *output: str) -> None:
    assert done.returncode == status, done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) <= 24
    for words in output:
        assert words in done.stderr, done.stderr


def ingest(
    tmp_path: Path, content: str | bytes, *options: str, name: str = "sacct.txt"
) -> subprocess.CompletedProcess[str]:
    file = tmp_path / name
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return trackside("ingest", "slurm", "--warehouse", str(tmp_path / "w"), str(file), *options)


def nothing_loaded(tmp_path: Path) -> bool:
    with open_reader(tmp_path / "w") as reader:
        return reader.table("attempts").is_empty() and reader.table("loads").is_empty()


def in_local_time(accounting: str) -> str:
    rows = []
    for row in rows_of(accounting):
        cells = row.split("|")
        for column in (9, 10, 11, 12):
            if cells[column].isdigit():
                cells[column] = "2026-10-05T12:00:00"
        cells[13] = "0"
        rows.append("|".join(cells))
    return with_rows(rows)


def test_a_truncated_file(accounting: str, tmp_path: Path) -> None:
    done = ingest(tmp_path, accounting[: len(accounting) // 2])
    refused(done, 31, "sacct.txt", "--accept-truncated")
    assert nothing_loaded(tmp_path)
    assert ingest(tmp_path, accounting[: len(accounting) // 2], "--accept-truncated").returncode == 0


def test_a_truncated_gzip_file(accounting: str, tmp_path: Path) -> None:
    packed = gzip.compress(accounting.encode())
    refused(ingest(tmp_path, packed[: len(packed) // 2], name="sacct.txt.gz"), 31, "sacct.txt.gz")
    assert nothing_loaded(tmp_path)
    assert ingest(tmp_path, packed, name="sacct.txt.gz").returncode == 0


def test_the_wrong_delimiter(accounting: str, tmp_path: Path) -> None:
    refused(ingest(tmp_path, accounting, "--delimiter", ","), 32, "sacct.txt", "|")
    assert nothing_loaded(tmp_path)


def test_a_missing_column(accounting: str, tmp_path: Path) -> None:
    without = [row.split("|")[:15] + row.split("|")[16:] for row in [HEADER, *rows_of(accounting)]]
    refused(ingest(tmp_path, "\n".join("|".join(row) for row in without) + "\n"), 33, "State", "sacct -a -D -P")
    assert nothing_loaded(tmp_path)


def test_times_without_a_zone(accounting: str, tmp_path: Path) -> None:
    refused(ingest(tmp_path, in_local_time(accounting)), 34, "--timezone", "SLURM_TIME_FORMAT=%s")
    assert nothing_loaded(tmp_path)
    assert ingest(tmp_path, in_local_time(accounting), "--timezone", "Europe/Berlin").returncode == 0


@pytest.mark.parametrize("content", ["", "hello\nworld\n", "\x00\x01\x02" * 50])
def test_a_file_of_something_else(content: str, tmp_path: Path) -> None:
    refused(ingest(tmp_path, content), 30, "sacct.txt")
    assert nothing_loaded(tmp_path)


def test_missing_file(tmp_path: Path) -> None:
    done = trackside("ingest", "slurm", "--warehouse", str(tmp_path / "w"), str(tmp_path / "nowhere.txt"))
    refused(done, 35, "nowhere.txt")


def test_good_files_are_loaded_despite_a_bad_one(accounting: str, tmp_path: Path) -> None:
    (tmp_path / "good.txt").write_text(accounting)
    (tmp_path / "bad.txt").write_text("nonsense\n")
    done = trackside(
        "ingest", "slurm", "--warehouse", str(tmp_path / "w"), str(tmp_path / "bad.txt"), str(tmp_path / "good.txt")
    )
    refused(done, 30, "bad.txt")
    with open_reader(tmp_path / "w") as reader:
        assert reader.table("attempts").height >= 20


def test_refused_rows_are_kept_and_counted_in_status(accounting: str, tmp_path: Path) -> None:
    rows = rows_of(accounting)
    broken = rows[3].split("|")
    broken[22] = "n[1-"
    short = "|".join(rows[5].split("|")[:10])
    done = ingest(tmp_path, with_rows([*rows, short, "|".join(broken)]))
    assert done.returncode == 0
    assert "2 rejected" in done.stderr
    status = trackside("status", "--warehouse", str(tmp_path / "w"))
    assert "Rejected rows" in status.stdout
    exported = trackside("export", "rejects", "--format", "json", "--warehouse", str(tmp_path / "w"))
    assert {row["raw"] for row in json.loads(exported.stdout)} == {short, "|".join(broken)}


def test_a_corrupt_warehouse(accounting: str, tmp_path: Path) -> None:
    assert ingest(tmp_path, accounting).returncode == 0
    (tmp_path / "w" / "warehouse.duckdb").write_bytes(b"rubbish" * 1000)
    refused(ingest(tmp_path, accounting), 41, "warehouse.duckdb", "trackside doctor --repair")


def test_a_newer_warehouse(accounting: str, tmp_path: Path) -> None:
    assert ingest(tmp_path, accounting).returncode == 0
    from datetime import UTC, datetime

    import polars as pl

    future = pl.DataFrame({"step": [9999], "name": ["9999_future.sql"], "sha256": ["0"]})
    with open_writer(tmp_path / "w", verb="test", now=datetime(2026, 1, 1, tzinfo=UTC)) as writer, writer.transaction():
        writer.append("schema_steps", future)
    refused(ingest(tmp_path, accounting), 42, "schema 9999", "Upgrade Trackside")
    refused(trackside("show", "goodput", "--warehouse", str(tmp_path / "w")), 42, "schema 9999")


def test_a_second_writer(accounting: str, tmp_path: Path) -> None:
    from datetime import UTC, datetime

    with open_writer(tmp_path / "w", verb="trackside compute", now=datetime(2026, 1, 1, tzinfo=UTC)):
        refused(ingest(tmp_path, accounting), 43, "trackside compute", "since 2026-01-01")


def test_an_unknown_config_key_and_all_other_mistakes_at_once(tmp_path: Path) -> None:
    config = tmp_path / "trackside.toml"
    config.write_text('warehose = "x"\n[slurm]\nwindow_days = "soon"\n[rules]\nplanned_reasons = ["("]\n')
    done = trackside("status", "--config", str(config))
    refused(
        done, 10, "warehose: no such setting; did you mean warehouse?", "slurm.window_days", "rules.planned_reasons.0"
    )


def test_sacct_missing(tmp_path: Path) -> None:
    done = trackside("ingest", "slurm", "--warehouse", str(tmp_path / "w"), env={"PATH": str(tmp_path)})
    refused(done, 20, "sacct is not installed", "trackside ingest slurm FILE")
    assert nothing_loaded(tmp_path)


@pytest.mark.parametrize("verb", [["show", "goodput"], ["status"], ["compute"], ["verify"], ["sql", "SELECT 1"]])
def test_no_warehouse_yet(verb: list[str], tmp_path: Path) -> None:
    refused(trackside(*verb, "--warehouse", str(tmp_path / "w")), 40, "trackside ingest slurm")


@pytest.mark.slow
def test_a_claims_file_with_mistakes(accounting: str, tmp_path: Path) -> None:
    assert ingest(tmp_path, accounting).returncode == 0
    assert trackside("compute", "--warehouse", str(tmp_path / "w")).returncode == 0
    claims = tmp_path / "claims.toml"
    claims.write_text('[[claim]]\nid = "x"\nmetric = "happiness"\n')
    refused(trackside("verify", "--warehouse", str(tmp_path / "w"), "--claims", str(claims)), 11, "metric", "quoted")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "output"),
    [
        (["show", "goodput", "--by", "colour"], "node, user"),
        (["show", "goodput", "--since", "tomorrow"], "2026-10-01"),
        (["show", "goodput", "--since", "9999-12-31T23:59:59-23:59"], "outside the years 1 to 9999"),
        (["show", "goodput", "--until", "0001-01-01T00:00:00+23:59"], "outside the years 1 to 9999"),
        (["report", "sla", "--period", "0001-01-01T00:00:00+23:59..2026-10-01"], "outside the years 1 to 9999"),
        (["show", "goodput", "--cluster", "other"], "tiny"),
        (["show", "ettr", "--run", "999999"], "show runs"),
        (["show", "goodput", "--since", "2027-01-01"], "the data cover"),
    ],
)
def test_questions_that_cannot_be_answered(arguments: list[str], output: str, computed: Path) -> None:
    refused(trackside(*arguments, "--warehouse", str(computed)), 2, output)


@pytest.fixture(scope="module")
def computed(accounting: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("computed")
    assert ingest(folder, accounting).returncode == 0
    assert trackside("compute", "--warehouse", str(folder / "w")).returncode == 0
    return folder / "w"


def test_lines_cannot_write_to_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    echo("a\tb\nc \x1b[31mred \x9b2J \x7f\r\x00 ü \u2500")
    assert capsys.readouterr().out == "a\tb\nc \ufffd[31mred \ufffd2J \ufffd\ufffd\ufffd ü \u2500\n"


def test_escapes_in_a_file_do_not_reach_the_terminal(tmp_path: Path) -> None:
    line = '{"v": 1, "type": "run", "run_id": "\\u001b[2J", "t": 1790816400.0, "n_gpus": -1, "cluster": "c"}\n'
    (tmp_path / "log.jsonl").write_text(line)
    done = trackside("ingest", "runlog", str(tmp_path / "log.jsonl"), "--warehouse", str(tmp_path / "w"))
    assert "n_gpus is -1" in done.stderr
    assert "\x1b" not in done.stderr + done.stdout
    status = trackside("status", "--warehouse", str(tmp_path / "w"))
    assert "n_gpus is -1" in status.stdout
    assert "\x1b" not in status.stdout


def test_every_error_has_its_own_status() -> None:
    numbers = [status for status, _ in EXIT_STATUS.values()]
    assert len(numbers) == len(set(numbers))
    assert not {0, 1, 3, 4} & set(numbers)


def test_mistyped_address_with_a_password_is_not_printed(tmp_path: Path) -> None:
    (tmp_path / "trackside.toml").write_text('[prometheus]\nurl = ["http://me:s3cret@prometheus:9090"]\n')
    done = trackside("status", "--config", str(tmp_path / "trackside.toml"))
    assert done.returncode == 10
    assert "prometheus.url" in done.stderr
    assert "s3cret" not in done.stderr


def test_messages_do_not_steer_the_terminal(tmp_path: Path) -> None:
    done = trackside("ingest", "slurm", str(tmp_path / "no\x1b[31mfile.txt"), "--warehouse", str(tmp_path / "w"))
    assert done.returncode != 0
    assert "file.txt" in done.stderr
    assert "\x1b" not in done.stderr
