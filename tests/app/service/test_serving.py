"""The service as a process: its health, its claims, its names and addresses, and its end."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import tomllib
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from werkzeug.test import Client

from app.config import settings as config
from app.config.settings import Config
from app.errors import UsageError
from app.explorer import create_app
from app.results.serving.cache import AnswerCache
from app.service import exporter, log
from app.service import server as service
from tests.support.command import ROOT, trackside
from tests.support.slurm.dumps import tiny
from tests.support.warehouses import NOW, from_accounting

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from werkzeug.test import TestResponse

    from app.claims.watched import WatchedClaims
    from queries.warehouse import Reader


@pytest.fixture(autouse=True)
def log_on_stderr() -> Iterator[None]:
    """The log goes where `serve` writes it."""
    with log.to_stderr():
        yield


def runlog(folder: Path, name: str = "r.jsonl") -> Path:
    file = folder / name
    file.write_text('{"v": 1, "type": "run", "run_id": "r", "t": 1790816400.0, "n_gpus": 8, "cluster": "tiny"}\n')
    return file


def test_a_warehouse_that_cannot_be_read_is_unwell(tmp_path: Path) -> None:
    root = from_accounting(tmp_path, jobs=5)
    (root / "published" / (root / "published" / "current").readlink()).write_bytes(b"no database")
    told, status = service.health_of(AnswerCache(root), None, now=NOW)
    assert status == 503
    assert told["failures"][0].startswith("warehouse: ")


def test_health_does_not_wait_for_a_scrape(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, free = threading.Event(), threading.Event()

    def slow(_: Reader, __: object) -> exporter.ExportedContents:
        begun.set()
        assert free.wait(60)
        return exporter.ExportedContents((), ())

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
    assert output.startswith(f"claims: {claims} has 1 mistake: claim 1")
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


@pytest.mark.slow
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
