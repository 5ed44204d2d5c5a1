"""The cycle of the service: it serves while it writes, and a source that fails stops no other."""

from __future__ import annotations

import gc
import json
import re
import shutil
import threading
import weakref
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from polars.exceptions import PanicException

from app.config import settings as config
from app.config.grafana import GrafanaSettings
from app.config.settings import Config, Rules, Serve
from app.results.serving.cache import AnswerCache
from app.service import log
from app.service import server as service
from app.service import worker as worker_module
from app.service.worker import Worker
from ingest.errors import SourceError
from ingest.load_warnings import LoadWarning
from ingest.prometheus.settings import Prometheus
from ingest.runlog import incremental as runlogs
from ingest.slurm.commands.runner import Completed
from ingest.slurm.live import ingest as live_ingest
from ingest.slurm.settings import Slurm
from ingest.store import summary as live_telling
from ingest.store.report import LoadReport, LoadSummary
from queries import directory
from queries.errors import WarehouseError
from queries.warehouse import open_reader, open_writer
from tests.support.slurm.dumps import HEADER, tiny
from tests.support.warehouses import NOW, from_accounting
from tests.support.web import Answer, matrix, web
from tests.support.web import told as answered

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path


EVERY = timedelta(minutes=15)


@pytest.fixture(autouse=True)
def log_on_stderr() -> Iterator[None]:
    """The log goes where `serve` writes it."""
    with log.to_stderr():
        yield


def slurm(command: list[str], _: Mapping[str, str]) -> Completed:
    """Slurm's commands, answered from the small cluster."""
    dump = tiny(60)
    if "-e" in command:  # which columns there are
        return Completed(0, HEADER.replace("|", " ").encode(), b"")
    answers = {
        "sacct ": dump.accounting,
        "sacctmgr -P show event": dump.events,
        "scontrol show config": dump.config,
        "scontrol show node": dump.nodes,
    }
    for beginning, text in answers.items():
        if " ".join(command).startswith(beginning):
            return Completed(0, text.encode(), b"")
    return Completed(1, b"", b"Access/permission denied")  # of the rest, as on many a cluster


def broken(command: list[str], _: Mapping[str, str]) -> Completed:
    return Completed(1, b"", f"{command[0]}: error: slurmdbd is away".encode())


def configured(**sections: Prometheus | Serve | GrafanaSettings) -> Config:
    return Config(cluster="tiny", slurm=Slurm(lookback_days=60, window_days=60, retries=0)).model_copy(update=sections)


def runlog(folder: Path, name: str = "r.jsonl") -> Path:
    file = folder / name
    file.write_text('{"v": 1, "type": "run", "run_id": "r", "t": 1790816400.0, "n_gpus": 8, "cluster": "tiny"}\n')
    return file


@pytest.mark.slow
def test_a_cycle_reads_computes_and_is_well(tmp_path: Path) -> None:
    worker = Worker(tmp_path / "w", configured(), every=EVERY, runner=slurm)
    worker.cycle(now=NOW)
    assert worker.failures(NOW) == []
    assert worker.last_success is not None
    assert worker.sources["slurm"].last_success == NOW
    with open_reader(tmp_path / "w") as reader:
        assert reader.query("computed", cluster="tiny").height == 1
    told, status = service.health_of(AnswerCache(tmp_path / "w"), worker, now=NOW)
    assert (status, told["status"]) == (200, "ok")
    assert told["data_end"] is not None


@pytest.mark.slow
def test_a_cycle_computes_anew_when_rules_are_others(tmp_path: Path) -> None:
    first = Worker(tmp_path / "w", configured(), every=EVERY, runner=slurm)
    first.cycle(now=NOW)
    rules = Rules(run_gap_hours=1.0)
    for settings, computed in ((configured(), 0), (configured().model_copy(update={"rules": rules}), 1)):
        restarted = Worker(tmp_path / "w", settings, every=EVERY, runner=slurm)
        with open_writer(tmp_path / "w", verb="test", now=NOW) as writer:
            restarted._compute(writer, NOW)  # noqa: SLF001 - what a cycle does when it has loaded nothing
        assert restarted.tally["computed"] == computed


@pytest.mark.slow
def test_a_cycle_publishes_tables_once_for_each_copy(tmp_path: Path) -> None:
    target = tmp_path / "parquet"
    worker = Worker(tmp_path / "w", configured(grafana=GrafanaSettings(parquet=target)), every=EVERY, runner=slurm)
    worker.cycle(now=NOW)
    first = (target / "current").readlink()
    assert (target / "current" / "runs.parquet").is_file()
    with open_reader(tmp_path / "w") as reader:
        before = directory.current_copy(reader.root)
    worker._publish(target)  # noqa: SLF001 - what the next cycle would do if it had loaded nothing
    assert (directory.current_copy(tmp_path / "w"), (target / "current").readlink()) == (before, first)
    shutil.rmtree(target)
    target.write_text("")
    worker.cycle(now=NOW + timedelta(days=40))
    assert any("parquet: tables cannot be published in" in each for each in worker.failures(NOW)), worker.failures(NOW)


@pytest.mark.parametrize(("transport", "reason"), [("commands", "sacct is not installed"), ("rest", "no such socket")])
def test_slurm_that_is_configured_is_read_without_its_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, transport: str, reason: str
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    slurm_there = {"transport": transport, "rest_url": f"unix:{tmp_path}/none.sock", "retries": 0}
    worker = Worker(tmp_path / "w", config.parse({"slurm": slurm_there}, origin="test"), every=EVERY)
    worker.cycle(now=NOW)
    [failure] = worker.failures(NOW)
    assert failure.startswith("slurm: ")
    assert reason in failure


@pytest.mark.slow
def test_a_source_that_fails_is_named_and_the_others_go_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = configured(
        prometheus=Prometheus(url="http://me:secret@127.0.0.1:1", retries=0, timeout_s=1.0, cluster="tiny")
    )
    worker = Worker(tmp_path / "w", settings, every=EVERY, runner=slurm)
    worker.cycle(now=NOW)
    assert worker.last_success is None
    assert worker.sources["slurm"].last_error is None
    assert worker.sources["compute"].last_error is None
    told, status = service.health_of(AnswerCache(tmp_path / "w"), worker, now=NOW)
    assert (status, told["status"]) == (503, "failing")
    assert [failure.partition(":")[0] for failure in told["failures"]] == ["prometheus"]
    assert told["sources"]["prometheus"]["failed_at"] == "2026-11-02T03:04:05Z"
    output = capsys.readouterr().err
    assert "secret" not in output + json.dumps(told)
    lines = output.strip().splitlines()
    assert all(re.match(r"time=\S+ level=(info|warning|error) message=", line) for line in lines)
    assert any("source=prometheus" in line and "level=error" in line for line in lines)


@pytest.mark.slow
def test_internal_error_of_a_source_stops_no_other_and_clears(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def faulty(*_: object, **__: object) -> None:
        raise KeyError("s")

    worker = Worker(
        tmp_path / "w", configured(serve=Serve(runlogs=(str(runlog(tmp_path)),))), every=EVERY, runner=slurm
    )
    with monkeypatch.context() as broken_runlogs:
        broken_runlogs.setattr(runlogs, "ingest_changed", faulty)
        worker.cycle(now=NOW)
    assert worker.sources["compute"].last_success == NOW
    assert [failure.partition(":")[0] for failure in worker.failures(NOW)] == ["runlog"]
    output = capsys.readouterr().err
    assert "Traceback" in output
    worker.cycle(now=NOW + EVERY)
    assert worker.failures(NOW + EVERY) == []


def test_errors_kept_between_cycles_keep_no_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Data:
        """Stands for a large frame."""

    held: list[weakref.ref[Data]] = []

    def ingest_live(*_: object, **__: object) -> list[LoadReport]:
        data = Data()
        held.append(weakref.ref(data))
        raise RuntimeError("a fault") from LookupError(data)

    monkeypatch.setattr(live_ingest, "ingest_live", ingest_live)
    worker = Worker(tmp_path / "w", configured(), every=EVERY, runner=slurm)
    worker.cycle(now=NOW)
    assert str(worker.errors["slurm"]) == "a fault"
    gc.collect()
    assert [each() for each in held] == [None]


@pytest.mark.parametrize("where", ["step", "report", "warehouse"])
def test_interrupt_in_the_main_thread_ends_the_cycle(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DuckDB has a Ctrl-C arrive as an error of its own, which is no failure of a source."""
    error = WarehouseError("it cannot be written: INTERRUPT Error: Query interrupted")

    def stop(*_: object, **__: object) -> list[LoadReport]:
        if where == "report":
            return [LoadReport("slurm", None, error)]
        raise error

    place = "app.service.worker.open_writer" if where == "warehouse" else "app.service.worker.live_ingest.ingest_live"
    monkeypatch.setattr(place, stop)
    worker = Worker(tmp_path / "w", configured(), every=EVERY, runner=slurm)
    with pytest.raises(KeyboardInterrupt):
        worker.cycle(now=NOW)
    elsewhere = threading.Thread(target=worker.cycle, kwargs={"now": NOW})
    elsewhere.start()
    elsewhere.join()
    assert any("Query interrupted" in each for each in worker.failures(NOW))


@pytest.mark.slow
@pytest.mark.parametrize("kind", [RuntimeError, PanicException])
def test_error_outside_all_sources_clears_after_a_complete_cycle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type[BaseException]
) -> None:
    worker = Worker(tmp_path / "w", configured(), every=EVERY, runner=slurm)
    with monkeypatch.context() as broken_warehouse:
        broken_warehouse.setattr(
            worker_module, "open_writer", lambda *_args, **_more: (_ for _ in ()).throw(kind("no"))
        )
        worker._guarded_cycle(NOW)  # noqa: SLF001 - what the thread does
    assert worker.failures(NOW) == ["trackside: no"]
    worker._guarded_cycle(NOW + EVERY)  # noqa: SLF001 - as above
    assert worker.failures(NOW + EVERY) == []
    assert worker.last_success is not None


@pytest.mark.slow
def test_source_warnings_are_logged_and_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def nothing(path: str, params: Mapping[str, str]) -> Answer:
        return answered([] if "match[]" in params else ["up"]) if path.endswith("/values") else matrix()

    with web(nothing) as there:
        section = Prometheus(url=there.url, retries=0, cluster="tiny", selector='env="typo"')
        worker = Worker(tmp_path / "w", configured(prometheus=section), every=EVERY, runner=slurm)
        worker.cycle(now=NOW)
    health, status = service.health_of(AnswerCache(tmp_path / "w"), worker, now=NOW)
    assert status == 200
    assert 'no DCGM series that match {env="typo"}' in health["sources"]["prometheus"]["last_warning"]
    assert health["sources"]["compute"]["last_warning"] is None
    assert any("level=warning" in line and "typo" in line for line in capsys.readouterr().err.splitlines())


def test_lasting_warning_is_logged_once_and_errors_every_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The source's status shows the warning as long as it lasts."""
    warning = LoadWarning("not_read", None, "knows no column Reservation")
    lasting = live_telling.nothing("slurm.accounting", warning)
    reports: list[LoadReport] = [LoadSummary("sacct", lasting, reported_before=[warning])]
    monkeypatch.setattr(live_ingest, "ingest_live", lambda *_args, **_more: reports)
    worker = Worker(tmp_path / "w", configured(), every=EVERY, runner=slurm)
    worker.cycle(now=NOW)
    assert worker.sources["slurm"].last_warning == "knows no column Reservation"
    assert "level=warning" not in capsys.readouterr().err
    reports += [LoadReport("sacct", error=SourceError("first")), LoadReport("sdiag", error=SourceError("second"))]
    worker.cycle(now=NOW)
    assert worker.failures(NOW) == ["slurm: first"]
    output = capsys.readouterr().err
    assert ("message=first" in output, "message=second" in output) == (True, True)


@pytest.mark.slow
def test_a_pattern_that_names_no_run_log_is_warned_of(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runlog(tmp_path)
    patterns = (str(tmp_path / "*.jsonl"), str(tmp_path / "log" / "*.jsonl"))
    worker = Worker(tmp_path / "w", configured(serve=Serve(runlogs=patterns)), every=EVERY, runner=slurm)
    worker.cycle(now=NOW)
    output = [line for line in capsys.readouterr().err.splitlines() if "source=runlog" in line]
    warned = [line for line in output if "level=warning" in line]
    assert len(warned) == 1
    assert patterns[1] in warned[0]
    assert worker.sources["runlog"].last_warning == f"serve.runlogs: no file matches {patterns[1]}"


def test_run_log_patterns_are_relative_to_the_configuration(tmp_path: Path) -> None:
    folder = tmp_path / "etc [1]"
    (folder / "logs").mkdir(parents=True)
    file = runlog(folder / "logs")
    (folder / "trackside.toml").write_text('[serve]\nrunlogs = ["logs/*.jsonl", "/var/log/**/*.jsonl"]\n')
    settings = config.load(folder / "trackside.toml")
    assert list(runlogs.files_of(settings.serve.runlogs[:1])) == [str(file)]
    assert settings.serve.runlogs[1] == "/var/log/**/*.jsonl"


@pytest.mark.slow
def test_a_source_that_works_again_is_well_again(tmp_path: Path) -> None:
    worker = Worker(tmp_path / "w", configured(), every=EVERY, runner=broken)
    worker.cycle(now=NOW)
    assert any("slurm" in failure for failure in worker.failures(NOW))
    worker.runner = slurm
    worker.cycle(now=NOW + EVERY)
    assert worker.failures(NOW + EVERY) == []


@pytest.fixture
def no_slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without Slurm's commands."""
    monkeypatch.setenv("PATH", str(tmp_path))


@pytest.mark.usefixtures("no_slurm")
def test_nothing_new_is_not_computed_again(tmp_path: Path) -> None:
    root = from_accounting(tmp_path, jobs=10)
    with open_reader(root) as reader:
        before = reader.query("computed", cluster="tiny")
    worker = Worker(root, configured(serve=Serve(runlogs=(str(tmp_path / "*.none"),))), every=EVERY)
    worker.cycle(now=NOW + EVERY)
    with open_reader(root) as reader:
        assert reader.query("computed", cluster="tiny").equals(before)


OWN_FORMAT = """
[[runlog.format]]
name = "mytrainer"
line = [{ kind = "step", starts = '^it \\d', fields = { step = 'it (\\d+)', duration_s = 'took ([\\d.]+) s' } }]
example = [{ text = "it 1 took 2.0 s", gives = { step = 1, duration_s = 3.0 } }]
"""


@pytest.mark.slow
@pytest.mark.usefixtures("no_slurm")
def test_a_wrong_example_keeps_out_logs_of_its_format_only(tmp_path: Path) -> None:
    (tmp_path / "mine.log").write_text("2026-10-01T08:00:02Z it 1 took 2.0 s\n")
    runlog(tmp_path)
    file = tmp_path / "trackside.toml"
    file.write_text(f'cluster = "tiny"\n[serve]\nrunlogs = ["mine.log", "r.jsonl"]\n{OWN_FORMAT}')
    worker = Worker(tmp_path / "w", config.load(file), every=EVERY)
    for _ in range(2):
        worker.cycle(now=NOW)
        (failure,) = worker.failures(NOW)
        assert failure.startswith("runlog: runlog.format 1 (mytrainer), example 1: expected duration_s = 3")
        assert failure.endswith("logs of this format are not read until that is corrected, all others are")
        with open_reader(tmp_path / "w") as reader:
            assert set(reader.table("run_sessions")["run_id"]) == {"r"}
    file.write_text(file.read_text().replace("duration_s = 3.0", "duration_s = 2.0"))
    corrected = Worker(tmp_path / "w", config.load(file), every=EVERY)
    corrected.cycle(now=NOW)
    assert corrected.failures(NOW) == []
    with open_reader(tmp_path / "w") as reader:
        assert set(reader.table("run_sessions")["run_id"]) == {"r", "mine"}


@pytest.mark.slow
@pytest.mark.usefixtures("no_slurm")
def test_run_logs_match_a_pattern_and_are_read_on_change(tmp_path: Path) -> None:
    (tmp_path / "logs" / "deep").mkdir(parents=True)
    file = runlog(tmp_path / "logs" / "deep")
    settings = configured(serve=Serve(runlogs=(str(tmp_path / "logs" / "**" / "*.jsonl"),)))
    worker = Worker(from_accounting(tmp_path, jobs=10), settings, every=EVERY)

    def loads() -> int:
        with open_reader(worker.root) as reader:
            return reader.table("loads").filter(source="runlog").height

    worker.cycle(now=NOW + EVERY)
    assert loads() == 1
    worker.cycle(now=NOW + 2 * EVERY)
    assert loads() == 1
    file.write_text(file.read_text() * 2)
    worker.cycle(now=NOW + 3 * EVERY)
    assert loads() == 2


def test_while_another_process_writes_a_cycle_is_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = from_accounting(tmp_path, jobs=10)
    worker = Worker(root, configured(), every=EVERY, runner=slurm)
    with open_writer(root, verb="somebody else", now=NOW):
        worker.cycle(now=NOW)
    output = capsys.readouterr().err
    assert "cycle left out" in output
    assert "somebody else" in output
    assert worker.sources == {}
    assert worker.failures(NOW) == []


@pytest.mark.slow
def test_stop_ends_a_cycle_between_two_steps_and_loses_nothing(tmp_path: Path) -> None:
    worker = Worker(tmp_path / "w", configured(), every=EVERY)

    def stopping(command: list[str], environment: Mapping[str, str]) -> Completed:
        worker._stop.set()  # noqa: SLF001 - as a signal would, while sacct runs
        return slurm(command, environment)

    worker.runner = stopping
    with pytest.raises(worker_module.CycleStoppedError):
        worker.cycle(now=NOW)
    again = Worker(tmp_path / "w", configured(), every=EVERY, runner=slurm)
    again.cycle(now=NOW + EVERY)
    assert again.failures(NOW) == []


def test_a_stalled_worker_is_reported(tmp_path: Path) -> None:
    worker = Worker(tmp_path / "w", configured(), every=EVERY, last_success=NOW)
    assert worker.failures(NOW + timedelta(minutes=30)) == []
    assert "no cycle has ended" in worker.failures(NOW + timedelta(hours=2))[0]


def test_no_cycle_is_due_before_the_first(tmp_path: Path) -> None:
    worker = Worker(tmp_path / "none", configured(), every=EVERY, runner=slurm)
    told, status = service.health_of(AnswerCache(tmp_path / "none"), worker, now=datetime(2026, 11, 2, tzinfo=UTC))
    assert (status, told["data_version"], told["data_end"]) == (200, None, None)


def test_health_answers_while_the_catalogue_is_away(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def unreachable(_: AnswerCache) -> str:
        raise WarehouseError("the catalogue of ducklake:postgres:dbname=lake cannot be reached: refused\nIs it up?")

    monkeypatch.setattr(AnswerCache, "version", unreachable)
    body, status = service.health_of(AnswerCache(tmp_path / "w"), None, now=NOW)
    assert (status, body["status"], body["data_version"]) == (503, "failing", None)
    assert body["failures"] == ["warehouse: the catalogue of ducklake:postgres:dbname=lake cannot be reached: refused"]
