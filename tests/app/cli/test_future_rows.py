"""Nothing later than now enters a table, from any source; what earlier versions stored is listed and taken out."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import polars as pl
import pytest

from app import clock
from app.cli import doctor, future_rows
from app.config.settings import Config
from ingest import tables
from ingest.context import ParseContext
from ingest.errors import UnrecognisedInputError
from ingest.future import PLANNED, TOLERANCE, happened, without_future
from ingest.prometheus.load_files import ingest_files
from ingest.prometheus.target import TelemetryRequest
from ingest.runlog import store as runlogs
from ingest.slurm import load_files as ingesting
from ingest.slurm.accounting.sacct_json import parse_accounting_json
from ingest.tables import GPU_SAMPLES, TIME, Parsed, columns_of, conform, empty
from queries.warehouse import open_reader, open_writer
from tests.support.logs.run_logs import parse_runlog
from tests.support.slurm.answers import answer, job
from tests.support.slurm.parsing import text

if TYPE_CHECKING:
    from pathlib import Path

    from ingest.store.report import LoadReport

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
FUTURE = datetime(2033, 3, 1, tzinfo=UTC)
GOOD = {"Submit": "1795247700", "Start": "1795247786", "End": "1795247886"}
LATE = {name: str(int(FUTURE.timestamp()) + at) for at, name in enumerate(("Submit", "Start", "End"))}
LATER = str(int((NOW + TOLERANCE).timestamp()) + 1)
WITHIN = str(int((NOW + TOLERANCE).timestamp()))

EVENTS = "Cluster|NodeName|TimeStart|TimeEnd|State|StateRaw|Reason|User\n"
TRANSACTIONS = "Time|Action|Actor|Where|Cluster|ID|Info\n"
NODE = "NodeName={0} Arch=x86_64 CPUTot=64 RealMemory=1000 Gres=gpu:8 State=IDLE BootTime={1} SlurmdStartTime={1}\n"
RESERVATION = (
    "ReservationName=maint StartTime={0} EndTime={1} Nodes=n1 NodeCnt=1 Flags=MAINT State=INACTIVE Users=root\n"
)


def loaded(root: Path, *files: Path, until: datetime | None = None, cluster: str | None = "c1") -> list[LoadReport]:
    with open_writer(root, verb="test", now=NOW) as writer:
        requested = ingesting.Options(cluster=cluster, until=until)
        names = [str(file) for file in files]
        return ingesting.ingest_files(writer, Config(), names, requested, now=NOW, progress=lambda *_: None)


def table(root: Path, name: str) -> pl.DataFrame:
    with open_reader(root) as reader:
        return reader.table(name)


def latest(root: Path, name: str, column: str) -> datetime:
    times: list[datetime] = table(root, name)[column].drop_nulls().to_list()
    return max(times)


def test_planned_times_are_columns_of_their_tables() -> None:
    for name, columns in PLANNED.items():
        assert {column for column in columns if columns_of(name)[column] == TIME} == {*columns}, name
        assert not {*columns} & {*happened(name)}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (LATE, "Submit lies in the future: 2033-03-01T00:00:00Z"),
        ({**GOOD, "Start": LATE["Start"], "End": LATE["End"]}, "Start lies in the future: 2033-03-01T00:00:01Z"),
        ({**GOOD, "End": LATER, "ElapsedRaw": "1"}, "End lies in the future: 2026-11-22T12:10:01Z"),
        ({**GOOD, "End": WITHIN}, None),
        ({**GOOD, "Start": LATE["Start"], "End": "Unknown", "State": "PENDING", "NodeList": ""}, None),
        ({**GOOD, "Eligible": LATE["Start"], "Start": "Unknown", "End": "Unknown", "State": "PENDING"}, None),
    ],
)
def test_accounting_row_from_the_future_is_refused(tmp_path: Path, row: dict[str, str], reason: str | None) -> None:
    file = tmp_path / "jobs.txt"
    file.write_bytes(text(GOOD | {"JobID": "1", "JobIDRaw": "1"}, row))
    [report] = loaded(tmp_path / "w", file)
    assert report.parsed is not None
    assert report.parsed.rejects["reason"].to_list() == ([reason] if reason else [])
    assert table(tmp_path / "w", "attempts").height == (1 if reason else 2)
    [until] = table(tmp_path / "w", "loads")["covers_until"]
    assert until <= NOW


def test_json_accounting_job_from_the_future_is_refused() -> None:
    late = job(time=dict(job()["time"], end=int(FUTURE.timestamp())))
    parsed = parse_accounting_json(answer(jobs=[job(job_id=8), late]), ParseContext(origin="x", cluster="c1", now=NOW))
    assert parsed.rejects.select("line", "reason").rows() == [(2, "End lies in the future: 2033-03-01T00:00:00Z")]


@pytest.mark.slow
def test_node_events_and_transactions_of_the_future_are_refused(tmp_path: Path) -> None:
    events, changes, jobs = tmp_path / "e.txt", tmp_path / "t.txt", tmp_path / "j.txt"
    at = GOOD["Start"]
    events.write_text(f"{EVENTS}c1|n1|{at}|{at}|DOWN|1|x|u\nc1|n2|{LATE['Start']}|{LATE['End']}|DOWN|1|x|u\n")
    changes.write_text(f"{TRANSACTIONS}{at}|Add Users|root|x|c1|1|info\n{LATE['Start']}|Add Users|root|y|c1|2|info\n")
    jobs.write_bytes(text(GOOD))
    reports = {one.origin: one.parsed for one in loaded(tmp_path / "w", jobs, events, changes) if one.parsed}
    assert [one.error for one in loaded(tmp_path / "w", jobs, events, changes)] == [None] * 3
    for file in (events, changes):
        assert reports[str(file)].rows_rejected == 1
        assert "lies in the future" in reports[str(file)].rejects["reason"].item()
    assert table(tmp_path / "w", "node_states")["node"].to_list() == ["n1"]
    assert table(tmp_path / "w", "transactions").height == 1


def test_one_nodes_wrong_clock_does_not_date_the_snapshot(tmp_path: Path) -> None:
    file = tmp_path / "nodes.txt"
    file.write_text(NODE.format("n1", GOOD["Start"]) + NODE.format("n2", LATE["Start"]))
    [report] = loaded(tmp_path / "w", file)
    assert report.error is None
    nodes = table(tmp_path / "w", "nodes")
    assert nodes["last_seen_at"].dt.epoch("s").to_list() == [int(GOOD["Start"])] * 2


def test_snapshot_is_never_dated_later_than_now(tmp_path: Path) -> None:
    file = tmp_path / "nodes.txt"
    file.write_text(NODE.format("n1", GOOD["Start"]))
    loaded(tmp_path / "w", file, until=FUTURE)
    assert table(tmp_path / "w", "nodes")["last_seen_at"].to_list() == [NOW]
    assert table(tmp_path / "w", "loads")["covers_until"].to_list() == [NOW]


def test_a_future_reservation_is_stored_but_covers_nothing(tmp_path: Path) -> None:
    file = tmp_path / "reservations.txt"
    file.write_text(RESERVATION.format(*(int((NOW + timedelta(days=n)).timestamp()) for n in (5, 6))))
    loaded(tmp_path / "w", file, until=FUTURE)
    assert table(tmp_path / "w", "reservations")["started_at"].to_list() == [NOW + timedelta(days=5)]
    assert table(tmp_path / "w", "loads")["covers_until"].to_list() == [NOW]


def run_log(*times: float) -> bytes:
    began = NOW.timestamp() - 1000
    lines = [{"type": "run", "v": 1, "run_id": "r", "job_id": "7", "t": began, "cluster": "c1"}]
    lines += [{"type": "step", "step": n, "t": began + at, "duration_s": 1.0} for n, at in enumerate(times)]
    return "".join(json.dumps(line) + "\n" for line in lines).encode()


def test_run_log_steps_and_events_from_the_future_are_refused(tmp_path: Path) -> None:
    ahead = FUTURE.timestamp()
    event = {"type": "event", "kind": "eval", "begin": ahead}
    file = tmp_path / "run.jsonl"
    file.write_bytes(run_log(10, 20, 1e8, 1000 + TOLERANCE.total_seconds()) + json.dumps(event).encode() + b"\n")
    with open_writer(tmp_path / "w", verb="test", now=NOW) as writer:
        [report] = runlogs.ingest_files(writer, [str(file)], cluster=None, now=NOW, progress=lambda *_: None)
    assert report.parsed is not None
    assert report.parsed.rows_rejected == 3
    assert all("in the future" in reason for reason in report.parsed.rejects["reason"])
    assert latest(tmp_path / "w", "run_sessions", "ended_at") < NOW
    assert table(tmp_path / "w", "steps").height == 2


def test_a_run_that_begins_in_the_future_is_no_run() -> None:
    with pytest.raises(UnrecognisedInputError, match="lies in the future"):
        parse_runlog(run_log(10), cluster="c1", now=NOW - timedelta(days=1))


def samples(*times: datetime) -> pl.DataFrame:
    rows = [{"cluster": "c1", "node": "n1", "gpu": "0", "ts": at, "interval_s": 60.0, "gpu_util": 0.5} for at in times]
    return conform(pl.DataFrame(rows), GPU_SAMPLES)


def test_samples_of_a_table_from_the_future_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "samples.parquet"
    samples(NOW - timedelta(minutes=2), FUTURE).write_parquet(file)
    with open_writer(tmp_path / "w", verb="test", now=NOW) as writer:
        requested = TelemetryRequest(cluster="c1")
        reports = ingest_files(writer, Config(), [str(file)], requested, now=NOW, progress=lambda *_: None)
    assert [report.parsed.rows_rejected for report in reports if report.parsed] == [1]
    assert latest(tmp_path / "w", "gpu_samples", "ts") < NOW
    assert latest(tmp_path / "w", "loads", "covers_until") <= NOW


@pytest.mark.parametrize("name", sorted({*future_rows.COLUMNS} - {"loads"}))
def test_without_future_refuses_rows_that_a_parser_let_through(name: str) -> None:
    """The readers know the line; this is for those that do not look at the time."""
    schema = columns_of(name)
    for column in happened(name):
        row = pl.DataFrame({"cluster": ["c1"], column: [FUTURE]})
        parsed = Parsed("slurm.events", frozenset({"c1"}), {name: conform(row, schema)}, empty(tables.REJECTS), 1, 1)
        result = without_future(parsed, origin="x", now=NOW)
        assert result.frames[name].is_empty()
        assert result.rejects["reason"].to_list() == [f"{column} lies in the future: 2033-03-01T00:00:00Z"]
        assert (result.rows_read, result.rows_loaded, result.rows_rejected) == (1, 0, 1)


# --- what is stored already -------------------------------------------------------------------------------


@pytest.fixture(params=[True, False], ids=["from a wrong input", "from a computer whose clock was wrong"])
def old(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A warehouse as an earlier version left it: one row of 2033 of each kind beside a good one."""
    root, jobs, events = tmp_path / "w", tmp_path / "jobs.txt", tmp_path / "events.txt"
    jobs.write_bytes(text(GOOD | {"JobID": "1", "JobIDRaw": "1"}, LATE))
    events.write_text(
        f"{EVENTS}c1|n1|{GOOD['Start']}|{GOOD['End']}|DOWN|1|x|u\nc1|n2|{LATE['Start']}|{LATE['End']}|DOWN|1|x|u\n"
    )
    clock_was_right: bool = request.param
    much_later = FUTURE + timedelta(days=100)
    with open_writer(root, verb="test", now=NOW) as writer:
        names = [str(jobs), str(events)]
        ingesting.ingest_files(writer, Config(), names, ingesting.Options(), now=much_later, progress=lambda *_: None)
        with writer.transaction():
            writer.write_partition("gpu_samples", "c1", FUTURE.date(), samples(FUTURE))
            writer.write_partition("gpu_samples", "c1", NOW.date(), samples(NOW - timedelta(hours=1)))
            if clock_was_right:
                writer.frame("UPDATE loads SET loaded_at = $now", {"now": NOW})
    return root


@pytest.mark.slow
def test_old_mistakes_are_listed_and_moved_to_the_rejects(old: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with open_reader(old) as reader:
        before = future_rows.stored(reader, now=NOW)
    assert dict(before.select("table", "rows").rows()) == {
        "attempts": 1, "gpu_samples": 1, "loads": 1, "node_states": 1,
    }  # fmt: skip
    doctor.examine(old, Config(), now=NOW)
    assert "c1 attempts: 1 row of times later than now, up to 2033-03-01T00:00:02Z" in capsys.readouterr().out

    with open_writer(old, verb="test", now=NOW) as writer:
        assert future_rows.reject(writer, now=NOW).equals(before)
        assert future_rows.stored(writer, now=NOW).is_empty()
        assert future_rows.reject(writer, now=NOW).is_empty()

    assert table(old, "attempts")["job_id"].to_list() == ["1"]
    assert table(old, "node_states")["node"].to_list() == ["n1"]
    assert table(old, "gpu_samples").height == 1
    assert latest(old, "loads", "covers_until") <= NOW
    rejects = table(old, "rejects")
    assert rejects.height == 3
    assert all("lies in the future: 2033-" in reason for reason in rejects["reason"])
    assert sum('"2033-' in raw for raw in rejects["raw"]) == 3


def test_maintenance_that_is_planned_is_no_mistake(tmp_path: Path) -> None:
    file = tmp_path / "reservations.txt"
    file.write_text(RESERVATION.format(*(int((NOW + timedelta(days=n)).timestamp()) for n in (5, 6))))
    loaded(tmp_path / "w", file, until=NOW)
    with open_reader(tmp_path / "w") as reader:
        assert reader.table("node_states").height == 1
        assert future_rows.stored(reader, now=NOW).is_empty()


@pytest.mark.parametrize("output", ["", "soon", "9999-12-31T23:59:59-23:00", "2001-01-01"])
def test_clock_is_the_machines_unless_before_the_environments(
    output: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(clock.NOT_BEFORE, output)
    assert abs(clock.now().timestamp() - tmp_path.stat().st_mtime) < 3600
    monkeypatch.setenv(clock.NOT_BEFORE, "2900-01-01")
    assert clock.now() == datetime(2900, 1, 1, tzinfo=UTC)
