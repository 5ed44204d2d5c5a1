"""A file of telemetry or a run log that is loaded again has no new rows, unless what it gave has been removed since."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from app.config.settings import Config
from ingest.prometheus.load_files import ingest_files
from ingest.prometheus.target import TelemetryRequest
from ingest.runlog import store as runlogs
from queries.warehouse import open_writer
from tests.ingest.runlog.test_store import OTHER, WHOLE, session
from tests.support.command import trackside

if TYPE_CHECKING:
    from pathlib import Path

    from queries.warehouse import Writer

NOW = datetime(2026, 10, 5, tzinfo=UTC)
AT = 1_790_812_800
SCRAPES = "# TYPE DCGM_FI_DEV_GPU_UTIL gauge\n" + "".join(
    f'DCGM_FI_DEV_GPU_UTIL{{gpu="{gpu}",Hostname="n1"}} {value} {AT + 30 * number}\n'
    for gpu in range(2)
    for number, value in enumerate((10, 20, 30, 30, 40))
)


def run_logs(writer: Writer, file: Path) -> list[int | None]:
    reports = runlogs.ingest_files(writer, [str(file)], cluster=None, now=NOW, progress=lambda *_: None)
    assert reports[0].error is None
    return [report.parsed.rows_new for report in reports if report.parsed]


def telemetry(writer: Writer, file: Path, *, cluster: str = "c") -> list[int | None]:
    request = TelemetryRequest(cluster=cluster)
    reports = ingest_files(writer, Config(), [str(file)], request, now=NOW, progress=lambda *_: None)
    assert reports[0].error is None
    return [report.parsed.rows_new for report in reports if report.parsed]


@pytest.mark.slow
@pytest.mark.parametrize("text", [WHOLE, OTHER, session(0)], ids=("three", "two", "one"))
def test_run_log_loaded_again_has_no_new_rows(text: str, tmp_path: Path) -> None:
    file = tmp_path / "run.jsonl"
    file.write_text(text)
    with open_writer(tmp_path / "w", verb="test", now=NOW) as writer:
        assert run_logs(writer, file) == [None]
        assert run_logs(writer, file) == [0]
        assert run_logs(writer, file) == [0]
        assert writer.table("loads").sort("rows_new", nulls_last=True)["rows_new"].to_list()[:2] == [0, 0]


def test_grown_run_log_is_not_known(tmp_path: Path) -> None:
    file = tmp_path / "run.jsonl"
    file.write_text(session(0))
    with open_writer(tmp_path / "w", verb="test", now=NOW) as writer:
        assert run_logs(writer, file) == [None]
        file.write_text(session(0) + session(1))
        assert run_logs(writer, file) == [None]
        file.write_text(session(0))
        assert run_logs(writer, file) == [0], "an earlier state of it was loaded, too"


def test_run_log_of_removed_rows_is_not_known(tmp_path: Path) -> None:
    file = tmp_path / "run.jsonl"
    file.write_text(session(0))
    with open_writer(tmp_path / "w", verb="test", now=NOW) as writer:
        assert run_logs(writer, file) == [None]
        with writer.transaction():
            writer.delete("run_events", writer.table("run_events").select("cluster", "run_id", "kind").unique())
        assert run_logs(writer, file) == [None]
        assert run_logs(writer, file) == [0]


@pytest.mark.slow
def test_telemetry_loaded_again_has_no_new_rows(tmp_path: Path) -> None:
    file = tmp_path / "scrapes.om"
    file.write_text(SCRAPES)
    with open_writer(tmp_path / "w", verb="test", now=NOW) as writer:
        first = telemetry(writer, file)
        assert set(first) == {None}
        assert telemetry(writer, file) == [0] * len(first)
        assert None in telemetry(writer, file, cluster="other"), "the same bytes of another cluster are new"


def test_the_command_says_known_already(tmp_path: Path) -> None:
    file = tmp_path / "run.jsonl"
    file.write_text(session(0))
    load = ("ingest", "runlog", str(file), "--warehouse", str(tmp_path / "w"))
    assert "known already" not in trackside(*load).stderr
    n_rows = len(session(0).splitlines())
    assert f"{n_rows} rows: 0 new, {n_rows} known already" in trackside(*load).stderr
