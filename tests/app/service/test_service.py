"""The service: it serves while it writes, a source that fails stops no other, and /healthz says which failed."""

from __future__ import annotations

import gc
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import tomllib
import weakref
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from polars.exceptions import PanicException
from werkzeug.test import Client

from app.config import settings as config
from app.config.grafana import Grafana
from app.config.settings import Config, Rules, Serve
from app.errors import UsageError
from app.explorer import create_app
from app.results.serving.cache import AnswerCache
from app.service import exporter, log
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
from ingest.store.report import Report, Summary
from queries import directory
from queries.errors import WarehouseError
from queries.warehouse import open_reader, open_writer
from tests.support.command import ROOT, trackside
from tests.support.slurm.dumps import HEADER, tiny
from tests.support.warehouses import NOW, from_accounting
from tests.support.web import Answer, matrix, web
from tests.support.web import told as answered

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from werkzeug.test import TestResponse

    from app.claims.watched import WatchedClaims
    from queries.warehouse import Reader

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


def configured(**sections: Prometheus | Serve | Grafana) -> Config:
    return Config(cluster="tiny", slurm=Slurm(lookback_days=60, window_days=60, retries=0)).model_copy(update=sections)


def runlog(folder: Path, name: str = "r.jsonl") -> Path:
    file = folder / name
    file.write_text('{"v": 1, "type": "run", "run_id": "r", "t": 1790816400.0, "n_gpus": 8, "cluster": "tiny"}\n')
    return file


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


def test_a_cycle_computes_anew_when_rules_are_others(tmp_path: Path) -> None:
    first = Worker(tmp_path / "w", configured(), every=EVERY, runner=slurm)
    first.cycle(now=NOW)
    rules = Rules(run_gap_hours=1.0)
    for settings, computed in ((configured(), 0), (configured().model_copy(update={"rules": rules}), 1)):
        restarted = Worker(tmp_path / "w", settings, every=EVERY, runner=slurm)
        with open_writer(tmp_path / "w", verb="test", now=NOW) as writer:
            restarted._compute(writer, NOW)  # noqa: SLF001 - what a cycle does when it has loaded nothing
        assert restarted.tally["computed"] == computed


def test_a_cycle_publishes_tables_once_for_each_copy(tmp_path: Path) -> None:
    target = tmp_path / "parquet"
    worker = Worker(tmp_path / "w", configured(grafana=Grafana(parquet=target)), every=EVERY, runner=slurm)
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

    def ingest_live(*_: object, **__: object) -> list[Report]:
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

    def stop(*_: object, **__: object) -> list[Report]:
        if where == "report":
            return [Report("slurm", None, error)]
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
    reports: list[Report] = [Summary("sacct", lasting, reported_before=[warning])]
    monkeypatch.setattr(live_ingest, "ingest_live", lambda *_args, **_more: reports)
    worker = Worker(tmp_path / "w", configured(), every=EVERY, runner=slurm)
    worker.cycle(now=NOW)
    assert worker.sources["slurm"].last_warning == "knows no column Reservation"
    assert "level=warning" not in capsys.readouterr().err
    reports += [Report("sacct", error=SourceError("first")), Report("sdiag", error=SourceError("second"))]
    worker.cycle(now=NOW)
    assert worker.failures(NOW) == ["slurm: first"]
    output = capsys.readouterr().err
    assert ("message=first" in output, "message=second" in output) == (True, True)


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
    with pytest.raises(worker_module.StoppedError):
        worker.cycle(now=NOW)
    again = Worker(tmp_path / "w", configured(), every=EVERY, runner=slurm)
    again.cycle(now=NOW + EVERY)
    assert again.failures(NOW) == []


def test_a_stalled_worker_is_reported(tmp_path: Path) -> None:
    worker = Worker(tmp_path / "w", configured(), every=EVERY, last_success=NOW)
    assert worker.failures(NOW + timedelta(minutes=30)) == []
    assert "no cycle has ended" in worker.failures(NOW + timedelta(hours=2))[0]


def test_a_warehouse_that_cannot_be_read_is_unwell(tmp_path: Path) -> None:
    root = from_accounting(tmp_path, jobs=5)
    (root / "published" / (root / "published" / "current").readlink()).write_bytes(b"no database")
    told, status = service.health_of(AnswerCache(root), None, now=NOW)
    assert status == 503
    assert told["failures"][0].startswith("warehouse: ")


def test_health_does_not_wait_for_a_scrape(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, free = threading.Event(), threading.Event()

    def slow(_: Reader, __: object) -> exporter.Exported:
        begun.set()
        assert free.wait(60)
        return exporter.Exported((), ())

    monkeypatch.setattr(exporter, "exported", slow)
    application = service.make_application(from_accounting(tmp_path, jobs=5), Config())
    healthy: list[int] = []
    scrape = threading.Thread(target=lambda: application.test_client().get("/metrics"))
    asking = threading.Thread(target=lambda: healthy.append(application.test_client().get("/healthz").status_code))
    scrape.start()
    try:
        assert begun.wait(30)
        asking.start()
        asking.join(30)
        assert healthy == [200]
        assert scrape.is_alive()
    finally:
        free.set()
        scrape.join()
        asking.join()


@pytest.mark.slow
def test_edited_claims_are_judged_at_once_and_mistakes_unhealthy(tmp_path: Path) -> None:
    """A mistake in the file makes the service unhealthy."""

    def claimed(text: str) -> None:
        claims.write_text(
            '[[claim]]\nid = "o"\nmetric = "occupancy"\nquoted = "q"\nread_as = "r"\nkind = "delivered"\n'
            f'{text}\ndirection = "at_least"\n'
        )

    def verdict() -> float:
        (line,) = (line for line in client.get("/metrics").text.splitlines() if 'window="all"' in line and MARK in line)
        return float(line.split()[-1])

    claims = tmp_path / "claims.toml"
    claimed("target = 0.001")
    client = service.make_application(from_accounting(tmp_path, jobs=40), Config(claims=claims)).test_client()
    assert verdict() == 1
    claimed("target = 0.999")
    assert verdict() == -1
    claimed("target = 101")
    assert verdict() == -1  # as the last claims that could be read say
    told = client.get("/healthz")
    assert told.status_code == 503
    (output,) = told.get_json()["failures"]
    assert output.startswith(f"claims: {claims} has 1 mistake(s): claim 1")
    assert "the target of occupancy" in output
    claimed("target = 0.001")
    assert verdict() == 1
    assert client.get("/healthz").status_code == 200


def test_health_reports_mistakes_of_the_served_configuration(tmp_path: Path) -> None:
    file = tmp_path / "trackside.toml"
    file.write_text('[cost]\ncurrency = "EUR"', encoding="utf-8")
    client = service.make_application(tmp_path / "none", config.load(file)).test_client()
    assert client.get("/healthz").status_code == 200
    file.write_text("[cost]\npue = 0", encoding="utf-8")
    (told,) = client.get("/healthz").get_json()["failures"]
    assert told.startswith(f"configuration: {file}")
    assert "pue" in told
    file.write_text('[cost]\ncurrency = "USD"', encoding="utf-8")
    assert client.get("/healthz").status_code == 200


MARK = "trackside_verdict{"


def test_explorer_and_exporter_judge_the_same_claims(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    judged: list[WatchedClaims | None] = []

    def explorer(
        root: Path, settings: Config, claims: WatchedClaims, answers: AnswerCache, *, trusted: bool, **more: Any
    ) -> object:
        assert not trusted  # only where this machine alone reaches it
        judged.append(claims)
        return create_app(root, settings, claims, answers, trusted=trusted, **more)

    def metrics(*_: object, claims: WatchedClaims, **__: object) -> tuple[bytes, str]:
        judged.append(claims)
        return b"", "text/plain"

    monkeypatch.setattr(service, "create_app", explorer)
    monkeypatch.setattr(exporter, "negotiated", metrics)
    service.make_application(tmp_path, Config()).test_client().get("/metrics")
    assert len(judged) == 2
    assert judged[0] is judged[1] is not None


@pytest.mark.parametrize(
    ("name", "status"),
    [("localhost:8050", 200), ("127.0.0.1", 200), ("[::1]:80", 200), ("evil.example", 421), ("evil.example:8050", 421),
     ("127.0.0.1.evil.example", 421), ("localhost.evil.example:80", 421)],
)  # fmt: skip
def test_only_ones_own_names_are_answered_on_loopback(name: str, status: int, tmp_path: Path) -> None:
    guarded = service.only_own_names(service.make_application(tmp_path, Config()), "127.0.0.1")
    assert Client(guarded).get("/healthz", headers={"Host": name}).status_code == status


def test_proxied_host_name_is_accepted_once_it_is_configured(tmp_path: Path) -> None:
    def ask(settings: Config, name: str) -> TestResponse:
        application = service.make_application(tmp_path, settings)
        guarded = service.only_own_names(application, "127.0.0.1", settings.serve.names)
        return Client(guarded).get("/healthz", headers={"Host": name})

    refused = ask(Config(), "trackside.example.com")
    assert refused.status_code == 421
    output = refused.text.partition("trackside.toml:")[2]
    assert "--host" not in refused.text
    listed = config.parse(tomllib.loads(output), origin="what it says")
    for name in ("trackside.example.com", "Trackside.Example.COM:443", "localhost:8050"):
        assert ask(listed, name).status_code == 200
    for name in ("evil.example", "a.trackside.example.com", "example.com"):
        assert ask(listed, name).status_code == 421


def test_port_in_use_and_foreign_address_are_reported(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match=f"cannot listen on 127.0.0.1 port {port}: Address already in use"):
            service.serve_explorer(tmp_path, Config(), host="127.0.0.1", port=port)
    with pytest.raises(UsageError, match="cannot listen on"):
        service.serve_explorer(tmp_path, Config(), host="192.0.2.1", port=0)


@pytest.mark.slow
def test_options_out_of_range_are_refused(tmp_path: Path) -> None:
    where = ("--warehouse", str(tmp_path / "w"))
    assert trackside("explore", "--port", "70000", *where).returncode == 2
    assert trackside("serve", "--every", "-1", *where).returncode == 2
    assert trackside("serve", "--every", "nan", *where).returncode == 2


def fetch(url: str, **headers: str) -> tuple[int, str]:
    try:
        with urlopen(Request(url, headers=headers), timeout=30) as answer:
            return int(answer.status), answer.read().decode()
    except HTTPError as error:
        return error.code, error.read().decode()


def address_of(process: subprocess.Popen[str]) -> str:
    """Where it says that it listens."""
    assert process.stderr is not None
    for line in process.stderr:
        if result := re.search(r"http://[^/\s]+", line):
            return result[0]
    raise AssertionError("it ended without listening")


def started(*arguments: str, env: dict[str, str] | None = None) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "app.cli.main", *arguments, "--port", "0"],
        stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, cwd=ROOT, env={**os.environ, **(env or {})},
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_explore_serves_pages_metrics_and_health_until_stopped(number: signal.Signals, tmp_path: Path) -> None:
    root, file = from_accounting(tmp_path, jobs=20), tmp_path / "trackside.toml"
    file.write_text('[serve]\nnames = ["trackside.example.com"]\n')
    process = started("explore", "--warehouse", str(root), "--config", str(file))
    try:
        url = address_of(process)
        assert fetch(url)[0] == 200
        status, text = fetch(f"{url}/metrics")
        assert (status, "trackside_occupancy_ratio" in text) == (200, True)
        status, text = fetch(f"{url}/healthz")
        assert (status, json.loads(text)["data_end"]) == (200, "2026-10-02T09:39:17Z")
        assert fetch(url, Host="trackside.example.com")[0] == 200
        assert fetch(url, Host="evil.example")[0] == 421
        process.send_signal(number)
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.communicate()


@pytest.mark.slow
def test_serve_updates_itself_and_lets_the_command_line_work(tmp_path: Path) -> None:
    """Without Slurm: run logs come by a pattern; accounting is loaded by hand in between, and the service computes."""
    runlog(tmp_path)
    config = tmp_path / "trackside.toml"
    config.write_text(f'warehouse = "w"\ncluster = "tiny"\n[serve]\nrunlogs = ["{tmp_path}/*.jsonl"]\n')
    own = {"PATH": str(tmp_path)}  # no sacct here
    process = started("serve", "--config", str(config), "--every", "0.02", env=own)
    try:
        url = address_of(process)
        until(lambda: json.loads(fetch(f"{url}/healthz")[1])["last_success"])
        until(lambda: loaded("ingest", "slurm", *tiny(20).write(tmp_path), "--config", str(config)), 180)
        until(lambda: "trackside_occupancy_ratio" in fetch(f"{url}/metrics")[1])
        status, text = fetch(f"{url}/healthz")
        assert status == 200, text
        assert json.loads(text)["sources"].keys() == {"compute", "files", "runlog", "warehouse"}
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.communicate()


def loaded(*arguments: str) -> bool:
    """Whether a command could write: a cycle of the service may be writing at this very moment."""
    done = trackside(*arguments)
    assert done.returncode in {0, 43}, done.stderr
    return done.returncode == 0


def until(true: Callable[[], object], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.1)


def test_other_addresses_need_a_login_or_the_flag(tmp_path: Path) -> None:
    where = ("--warehouse", str(tmp_path / "none"), "--host", "0.0.0.0")
    refused = trackside("explore", *where)
    assert refused.returncode == 2
    assert "--without-login" in refused.stderr
    process = started("explore", *where, "--without-login")
    try:
        address_of(process)
        assert process.stderr is not None
        assert "no login is configured" in process.stderr.readline()
    finally:
        process.kill()
        process.communicate()


def test_no_cycle_is_due_before_the_first(tmp_path: Path) -> None:
    worker = Worker(tmp_path / "none", configured(), every=EVERY, runner=slurm)
    told, status = service.health_of(AnswerCache(tmp_path / "none"), worker, now=datetime(2026, 11, 2, tzinfo=UTC))
    assert (status, told["data_version"], told["data_end"]) == (200, None, None)
