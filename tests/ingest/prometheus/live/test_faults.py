"""A real Prometheus that is killed, paused, slowed, limited or empty for a while in the middle of a pull.

What was read stays, what was not is said, and the next ingest reads it: nothing is doubled or lost.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from queries.warehouse import open_reader
from tests.lab.prometheus import PrometheusLab, need_prometheus
from tests.lab.slow_proxy import SlowProxy
from tests.support.command import assert_same, trackside
from tests.support.telemetry.telemetry_lab import START, history, ingest, quiet, settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from app.config.settings import Config

pytestmark = [pytest.mark.xdist_group("prometheus")]

PATH = {True: "/api/v1/read", False: "/api/v1/query"}
"""What samples are asked for by: remote read, and JSON."""


@pytest.fixture(scope="module")
def server() -> Iterator[PrometheusLab]:
    need_prometheus()
    with PrometheusLab(history=history(nodes=True)) as lab:
        yield lab


@pytest.fixture(scope="module")
def reference(server: PrometheusLab, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What an undisturbed ingest loads."""
    warehouse = tmp_path_factory.mktemp("reference") / "w"
    reports = ingest(warehouse, settings(server))
    assert [report.error for report in reports if report.error] == []
    with open_reader(warehouse) as reader:
        assert set(reader.table("loads")["source"]) == {
            f"prometheus.{name}" for name in ("gpu", "node", "health", "slurm")
        }
        assert reader.table("health_events").filter(kind="xid").height == 4
        assert reader.table("health_events").filter(kind="xid").height < reader.table("health_events").height
    return warehouse


def by_way_of(proxy: SlowProxy, **more: object) -> Config:
    """Settings for a pull of several pieces through a proxy; patient, for this machine may have much to do."""
    config = {"url": proxy.url, "retries": 0, "chunk_hours": 1, "timeout_s": 30.0, **more}
    return settings(proxy, **config)


def at_question(number: int, path: str, trouble: Callable[[], None]) -> Callable[[str], None]:
    """Makes trouble once, before a question of this path is passed on; the first one is number 1."""
    seen = 0

    def before(requested: str) -> None:
        nonlocal seen
        seen += requested.startswith(path)
        if seen == number and requested.startswith(path):
            trouble()

    return before


@dataclass
class During:
    """Makes trouble once: before the first question of this path that comes while a source is being read."""

    title: str
    path: str
    trouble: Callable[[], None]
    armed: bool = False
    done: bool = False

    def progress(self, what: str, _done: int, _total: int) -> None:
        """Look at what is being read."""
        self.armed = self.armed or what.startswith(self.title)

    def before(self, requested: str) -> None:
        """Look at what is asked."""
        if self.armed and not self.done and requested.startswith(self.path):
            self.done = True
            self.trouble()


def only_error(warehouse: Path, config: Config, progress: Callable[[str, int, int], None] = quiet) -> str:
    """What the one failure of an ingest says."""
    (error,) = [report.error for report in ingest(warehouse, config, progress=progress) if report.error]
    return str(error)


def assert_resumed(warehouse: Path, config: Config, reference: Path) -> None:
    """The next ingest, which is told nothing of a time, makes it whole."""
    reports = ingest(warehouse, config, since=None)
    assert [report.error for report in reports if report.error] == []
    assert_same(warehouse, reference)
    with open_reader(warehouse) as reader:
        assert reader.table("load_gaps").is_empty()


@pytest.mark.parametrize(
    ("title", "remote_read", "left"),
    [
        ("GPU telemetry 2026-11-01 11", True, ["GPU telemetry", "Node telemetry", "Health from telemetry"]),
        ("Node telemetry 2026-11-01 11", True, ["Node telemetry", "Health from telemetry", "Slurm exporters"]),
        ("Health from telemetry 2026-11-01 12", False, ["Health from telemetry", "Slurm exporters"]),
    ],
)
def test_kill_in_the_middle_is_reported_and_resumed(
    reference: Path, tmp_path: Path, title: str, remote_read: bool, left: list[str]
) -> None:
    need_prometheus()
    with PrometheusLab(history=history(nodes=True)) as lab, SlowProxy(lab.url) as proxy:
        during = During(title, PATH[remote_read], lab.kill)
        proxy.before = during.before
        config = by_way_of(proxy, remote_read=remote_read)
        output = only_error(tmp_path / "w", config, during.progress).splitlines()
        assert re.findall(r"(?:Not read:|,) (.*?) 2026-", output[-2])[: len(left)] == left
        assert output[-1] == "The next ingest requests that again."
        with open_reader(tmp_path / "w") as reader:
            marks = [reader.query("watermark", cluster="c", source=source)["covers_until"].item() for source in
                     ("prometheus.gpu", "prometheus.node")]  # fmt: skip
        assert marks[0] > START
        assert left[0] != "GPU telemetry" or marks[1] is None
        lab.start()
        assert_resumed(tmp_path / "w", config, reference)


def test_paused_server_times_out_soon_and_is_read_later(reference: Path, tmp_path: Path) -> None:
    need_prometheus()
    with PrometheusLab(history=history(nodes=True)) as lab, SlowProxy(lab.url) as proxy:
        proxy.before = at_question(5, PATH[True], lab.pause)
        assert "does not answer in time" in only_error(tmp_path / "w", by_way_of(proxy, timeout_s=2.0))
        lab.go_on()
        assert_resumed(tmp_path / "w", by_way_of(proxy), reference)


def test_responses_that_are_too_slow_are_requested_again(
    reference: Path, server: PrometheusLab, tmp_path: Path
) -> None:
    """Once: then the line is as it was."""
    with SlowProxy(server.url) as proxy:

        def slow() -> None:
            proxy.part, proxy.pause_s = 16, 0.05

        def as_before() -> None:
            proxy.part, proxy.pause_s = 1 << 16, 0.0

        first, second = at_question(4, PATH[True], slow), at_question(5, PATH[True], as_before)
        proxy.before = lambda path: (first(path), second(path))[0]
        reports = ingest(tmp_path / "w", by_way_of(proxy, retries=1, timeout_s=1.0))
        assert [report.error for report in reports if report.error] == []
    assert_same(tmp_path / "w", reference)


def test_a_slow_line_only_takes_longer(reference: Path, server: PrometheusLab, tmp_path: Path) -> None:
    with SlowProxy(server.url, delay_s=0.05, part=4096, pause_s=0.005) as proxy:
        reports = ingest(tmp_path / "w", by_way_of(proxy))
        assert [report.error for report in reports if report.error] == []
    assert_same(tmp_path / "w", reference)


@pytest.mark.parametrize(
    ("flags", "remote_read"),
    [
        (["--query.max-samples=300"], False),
        (["--query.max-samples=300", "--storage.remote.read-sample-limit=1"], True),
        (["--storage.remote.read-concurrent-limit=1"], True),
    ],
)
def test_limited_server_gives_the_same(reference: Path, tmp_path: Path, flags: list[str], remote_read: bool) -> None:
    need_prometheus()
    with PrometheusLab(history=history(nodes=True), flags=flags) as small:
        reports = ingest(tmp_path / "w", settings(small, remote_read=remote_read))
        assert [report.error for report in reports if report.error] == []
    assert_same(tmp_path / "w", reference)


def test_time_that_is_gone_is_a_gap_until_it_is_read(reference: Path, server: PrometheusLab, tmp_path: Path) -> None:
    """Two hours with nothing in them, and later they are there after all: a backfill, or a disk that came back."""
    need_prometheus()
    with PrometheusLab(history=history(nodes=True, gone=range(1800, 9000))) as lab:
        config = settings(lab, chunk_hours=0.5)
        reports = ingest(tmp_path / "w", config)
        assert [report.error for report in reports if report.error] == []
    with open_reader(tmp_path / "w") as reader:
        gaps = reader.table("load_gaps")
        assert set(gaps["source"]) == {"prometheus.gpu", "prometheus.node"}
        assert gaps["gap_s"].min() > 7000  # type: ignore[operator]  # polars types its aggregates loosely
    shown = trackside("status", "--warehouse", str(tmp_path / "w")).stdout
    assert "GPU telemetry of 2026-11-01T11:30:00Z to 2026-11-01T13:29:00Z is missing" in shown
    assert "trackside ingest prometheus --since 2026-11-01T11:30:00Z --until 2026-11-01T13:29:00Z" in shown
    ingest(tmp_path / "w", settings(server), since=START)
    assert_same(tmp_path / "w", reference)
    with open_reader(tmp_path / "w") as reader:
        assert reader.table("load_gaps").is_empty()
