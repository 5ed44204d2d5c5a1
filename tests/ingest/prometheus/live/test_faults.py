"""A real Prometheus that is killed, paused, slowed, limited or empty for a while in the middle of a pull.

What was read stays, what was not is said, and the next ingest reads it: nothing is doubled or lost.
"""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING
from urllib.parse import unquote_plus

import pytest

from queries.warehouse import open_reader
from tests.lab.prometheus import PrometheusLab, need_prometheus
from tests.lab.slow_proxy import SlowProxy
from tests.support.command import assert_same, trackside
from tests.support.telemetry.telemetry_lab import START, T, history, ingest, settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from app.config.settings import Config

pytestmark = [pytest.mark.xdist_group("prometheus")]

REMOTE_READ = "/api/v1/read"
"""The path by which samples are asked for."""


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


def before_question(pattern: str, trouble: Callable[[], None]) -> Callable[[str], None]:
    """Makes trouble once, before the first question whose address (unquoted) matches is passed on.

    What is being read is no sign of where the questions are: they are a chunk ahead of it, or not yet.
    """
    done = False

    def before(requested: str) -> None:
        nonlocal done
        if not done and re.search(pattern, unquote_plus(requested)):
            done = True
            trouble()

    return before


def only_error(warehouse: Path, config: Config) -> str:
    """What the one failure of an ingest says."""
    (error,) = [report.error for report in ingest(warehouse, config) if report.error]
    return str(error)


def assert_resumed(warehouse: Path, config: Config, reference: Path) -> None:
    """The next ingest, which is told nothing of a time, makes it whole."""
    reports = ingest(warehouse, config, since=None)
    assert [report.error for report in reports if report.error] == []
    assert_same(warehouse, reference)
    with open_reader(warehouse) as reader:
        assert reader.table("load_gaps").is_empty()


@pytest.mark.parametrize(
    ("question", "remote_read", "left", "hours"),
    [
        (
            rf"labels\?match\[\]=DCGM_FI_DEV_XID_ERRORS\{{.*end={T + 7200}",  # the averages are read, XIDs are not
            True,
            ["GPU telemetry 2026-11-01 12", "Node telemetry 2026-11-01 10", "Health from telemetry 2026-11-01 10"],
            (1, None),
        ),
        (
            rf"labels.*node_mountstats.*start={T - 300}",  # the names of nodes are read, their counters are not
            True,
            ["Node telemetry 2026-11-01 11", "Health from telemetry 2026-11-01 10", "Slurm exporters 2026-11-01 10"],
            (3, 0),
        ),
        (
            rf"query.*node_uname_info.*\[7200000ms\].*time={T + 7200}\b",  # the last one of several at the same time
            False,
            ["Health from telemetry 2026-11-01 12", "Slurm exporters 2026-11-01 10"],
            (3, 3),
        ),
    ],
)
def test_kill_in_the_middle_is_reported_and_resumed(
    reference: Path,
    tmp_path: Path,
    *,
    question: str,
    remote_read: bool,
    left: list[str],
    hours: tuple[int | None, int | None],
) -> None:
    """What is left begins with the chunk that was half read; `hours` of samples of GPUs and nodes are kept."""
    need_prometheus()
    with PrometheusLab(history=history(nodes=True)) as lab, SlowProxy(lab.url) as proxy:
        proxy.before = before_question(question, lab.kill)
        config = by_way_of(proxy, remote_read=remote_read)
        output = only_error(tmp_path / "w", config).splitlines()
        assert re.findall(r"(?:Not read:|,) ([A-Z].*? 2026-\S+ \d\d)", output[-2])[: len(left)] == left
        assert output[-1] == "The next ingest requests that again."
        with open_reader(tmp_path / "w") as reader:
            marks = [reader.query("watermark", cluster="c", source=source)["covers_until"].item() for source in
                     ("prometheus.gpu", "prometheus.node")]  # fmt: skip
        assert marks == [None if each is None else START + timedelta(hours=each) for each in hours]
        lab.start()
        assert_resumed(tmp_path / "w", config, reference)


def test_paused_server_times_out_soon_and_is_read_later(reference: Path, tmp_path: Path) -> None:
    need_prometheus()
    with PrometheusLab(history=history(nodes=True)) as lab, SlowProxy(lab.url) as proxy:
        proxy.before = at_question(5, REMOTE_READ, lab.pause)
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

        first, second = at_question(4, REMOTE_READ, slow), at_question(5, REMOTE_READ, as_before)
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
