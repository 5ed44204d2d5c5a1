"""Functions in processes of their own: their results, what they raise, and processes that end from outside."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest

from app.config.settings import Config
from app.demo import apart, demo
from app.demo.simulate import Settings
from app.errors import UsageError
from dashboards.build import build

if TYPE_CHECKING:
    from pathlib import Path


def double(number: int) -> tuple[int, int, str | None]:
    return 2 * number, os.getpid(), os.environ.get("_RJEM_MALLOC_CONF")


def refuse(text: str) -> None:
    raise UsageError(text)


class UnsendableError(Exception):
    def __init__(self, first: str, second: str) -> None:
        super().__init__(first + second)


def fail() -> None:
    raise UnsendableError("a", "b")


def end() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.slow
def test_result_comes_from_another_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_RJEM_MALLOC_CONF", "ours")
    result, process, allocator = apart.called(double, 21)
    assert result == 42
    assert process != os.getpid()
    assert allocator is not None
    assert allocator.endswith(apart.ALLOCATOR["_RJEM_MALLOC_CONF"])  # polars puts its own settings before
    assert os.environ["_RJEM_MALLOC_CONF"] == "ours"


@pytest.mark.slow
def test_errors_are_raised_where_it_was_called() -> None:
    with pytest.raises(UsageError, match="no room"):
        apart.called(refuse, "no room")
    with pytest.raises(RuntimeError, match="UnsendableError: ab"):
        apart.called(fail)


@pytest.mark.slow
def test_process_that_is_ended_from_outside_is_reported() -> None:
    with pytest.raises(UsageError, match="exit status -9"):
        apart.called(end)


def test_large_demo_runs_its_steps_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names: list[str] = []

    def called(_function: object, _made: object, _settings: object, name: str, **_: object) -> str:
        names.append(name)
        return "done"

    monkeypatch.setattr(demo, "LARGE_GPU_DAYS", 63)
    monkeypatch.setattr(apart, "called", called)
    with pytest.raises(FileNotFoundError):  # nothing was simulated, so there is no truth to show
        demo.show(tmp_path / "demo", Config(), simulated=Settings(gpus=64, days=1), quiet=True)
    assert names == ["simulate", "slurm", "around", "telemetry", "runlogs", "compute", "report", "boards"]
    assert Settings().gpus * Settings().days > 10_000


@pytest.mark.slow
def test_step_runs_in_a_process_of_its_own(tmp_path: Path) -> None:
    made = demo.DemoFolder.open(tmp_path / "demo", Settings(gpus=64, days=1))
    assert apart.called(demo.run_step, made, Config(), "boards", quiet=True) == f"{len(boards(tmp_path))} files"
    assert any((tmp_path / "demo/grafana").iterdir())


def boards(folder: Path) -> list[object]:
    return list(build(folder / "here"))
