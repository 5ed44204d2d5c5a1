"""What `trackside ingest prometheus` says of servers that cannot be read, or have nothing to read."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from app.cli import main as cli
from app.times import iso
from queries.errors import NoWarehouseError
from queries.warehouse import open_reader
from tests.lab.prometheus import PrometheusLab, need_prometheus
from tests.support.telemetry.telemetry_lab import HOURS, START, history
from tests.support.web import Answer, matrix, told, web

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.xdist_group("prometheus")]

WINDOW = ("--since", iso(START), "--until", iso(START + timedelta(hours=HOURS)))
EMPTY = ("--since", "2026-10-01", "--until", "2026-10-02")


@pytest.fixture(scope="module")
def server() -> Iterator[PrometheusLab]:
    need_prometheus()
    with PrometheusLab(history=history(nodes=True)) as lab:
        yield lab


def ingest(folder: Path, url: str, *arguments: str, **section: object) -> int:
    """Exit status of the command line, with these settings for the server."""
    lines = [f"{name} = {value!r}" for name, value in section.items()]
    config = folder / "trackside.toml"
    config.write_text("\n".join(['cluster = "c"', "[prometheus]", "retries = 0", f"url = '{url}'", *lines]))
    return cli.main([
        *("ingest", "prometheus", "--config", str(config), "--warehouse", str(folder / "w"), *arguments),
    ])  # fmt: skip


def loads(folder: Path) -> int:
    """How many loads there are; where the question itself makes no sense, not even a warehouse."""
    try:
        with open_reader(folder / "w") as reader:
            return reader.table("loads").height
    except NoWarehouseError:
        return 0


@pytest.mark.parametrize(
    ("path", "selector", "window", "status", "output"),
    [
        ("/graph", "", WINDOW, 22, "Give the base address of the server, without /graph"),
        ("/nowhere/at/all", "", WINDOW, 22, "404"),
        ("", 'env="nowhere"', WINDOW, 0, 'has no DCGM series that match {env="nowhere"} in that time; it has'),
        ("", "env=", WINDOW, 22, "Check prometheus.selector"),
        ("", "", EMPTY, 0, "has no DCGM series in that time; it has none at all"),
        ("", "", ("--since", "2099-01-01"), 2, "--since 2099-01-01T00:00:00Z is not in the past"),
        ("", "", ("--since", "2099-01-01", "--until", "2099-01-02"), 2, "nothing can have been measured yet"),
        ("", "", ("--since", "2026-11-02", "--until", "2026-11-01"), 2, "is not before --until 2026-11-01T00:00:00Z"),
    ],
)
def test_server_reached_wrongly_is_reported_as_such(  # noqa: PLR0917 - a table
    server: PrometheusLab,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    path: str,
    selector: str,
    window: tuple[str, ...],
    status: int,
    output: str,
) -> None:
    assert ingest(tmp_path, server.url + path, *window, selector=selector) == status
    assert output in capsys.readouterr().err
    assert loads(tmp_path) == 0


@pytest.mark.parametrize(
    ("answer", "status", "output"),
    [
        (Answer(b"who are you?", 401, "text/plain"), 22, "prometheus.token_env"),
        (Answer(b"not you", 403, "text/plain"), 22, "prometheus.token_env"),
        (Answer(b"<html>Welcome to nginx</html>", 200, "text/html"), 22, "answers, but not as Prometheus does"),
        (Answer(b"<html>no such page</html>", 404, "text/html"), 22, "404"),
        (Answer(b'{"hello": "world"}'), 22, "answers, but not as Prometheus does"),
        (Answer(b""), 22, "answers, but not as Prometheus does"),
        (Answer(b'{"status":"error","errorType":"internal","error":"disk is full"}', 500), 22, "disk is full"),
        (told([]), 0, "it has none at all"),
        (told(None), 0, "it has none at all"),
        (told(["up", "node_load15"]), 0, "it has 2 metrics (node_load15, up)"),
    ],
)
def test_no_server_and_an_empty_server_are_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], answer: Answer, status: int, output: str
) -> None:
    with web(lambda *_: answer) as there:
        assert ingest(tmp_path, there.url, *WINDOW) == status
        shown = capsys.readouterr().err
        assert output in shown
        assert there.url in shown
        assert shown.count("\n") <= 6  # a few lines, however many sources and pieces there are
    assert loads(tmp_path) == 0


def test_vanished_server_is_reported_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with web(lambda *_: matrix()) as there:
        gone = there.url
    assert ingest(tmp_path, gone, *WINDOW) == 22
    shown = capsys.readouterr().err
    assert shown.count("cannot be reached: Connection refused") == 1
    assert f"Not read: telemetry {START:%Y-%m-%d %H:%M} to" in shown
    assert "Read that later with: trackside ingest prometheus --since 2026-11-01T11:00:00Z" in shown


def test_unknown_host_name_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ingest(tmp_path, "http://prometheus.invalid:9090", *WINDOW) == 22
    assert "http://prometheus.invalid:9090 cannot be reached" in capsys.readouterr().err


def test_many_pieces_and_sources_are_a_line_for_each_source(
    server: PrometheusLab, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ingest(tmp_path, server.url, *WINDOW, chunk_hours=0.5) == 0
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("prometheus.")]
    assert [line.split()[0] for line in lines] == [f"prometheus.{name}" for name in ("gpu", "node", "health", "slurm")]
    for line in lines:
        assert f"{server.url} 2026-11-01 11:00 to 2026-11-01 14:00 (6 windows), " in line
        assert " rows: " in line
