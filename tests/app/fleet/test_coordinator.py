"""Handing out tasks, with stand-ins for workers: each of them fails, dies or goes away when a test says so."""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING

import duckdb
import pytest

from app.fleet import coordinator, task
from app.fleet.coordinator import run_tasks
from app.fleet.here import Here
from app.fleet.report import as_rows, line_of
from app.fleet.task import ClusterTask, TaskOutcome

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from app.fleet.coordinator import Workers

NAMES = ["alpha", "beta", "gamma", "delta"]


class KilledWorker(Exception):  # noqa: N818 - Dask's name
    """As Dask's."""


class ClosedClientError(Exception):
    """As Dask's: no RuntimeError."""


class Threads:
    """Workers in threads of this process.

    Args:
        slots: how many there are at each look; the last one stays.
    """

    def __init__(self, *slots: int) -> None:
        self._slots = list(slots)
        self._pool = ThreadPoolExecutor(8)

    def slots(self) -> int:
        return self._slots.pop(0) if len(self._slots) > 1 else self._slots[0]

    def submit(self, run: Callable[[ClusterTask], TaskOutcome], each: ClusterTask) -> Future[TaskOutcome]:
        return self._pool.submit(run, each)

    def begun(self) -> list[tuple[str, str]]:
        return [("alpha", "process 1 on a"), ("beta", "process 2 on b"), ("alpha", "process 2 on b")]


class Vanishing(Threads):
    """Workers that take a task and are never heard of again."""

    def submit(self, _: Callable[[ClusterTask], TaskOutcome], __: ClusterTask) -> Future[TaskOutcome]:
        return Future()


class Gone(Threads):
    """Workers whose scheduler is gone when a task is handed out, or has dropped it."""

    def submit(self, _: Callable[[ClusterTask], TaskOutcome], each: ClusterTask) -> Future[TaskOutcome]:
        if each.cluster == "alpha":
            raise ClosedClientError("the connection is closed")
        future: Future[TaskOutcome] = Future()
        future.cancel()
        future.set_running_or_notify_cancel()
        return future


@pytest.fixture(autouse=True)
def _looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordinator, "_LOOK_S", 0.01)


def task_of(name: str) -> ClusterTask:
    return ClusterTask(name, f"{name}.toml", "", f"/{name}", "", "", "")


def ran(workers: Workers, reports: list[tuple[str, int, int]] | None = None) -> dict[str, TaskOutcome]:
    """The outcomes of one task for each name."""
    received = [] if reports is None else reports
    ended: list[TaskOutcome] = []
    outcomes = run_tasks(
        map(task_of, NAMES), workers, report=lambda *each: received.append(each), ended=ended.append, patience_s=0.05
    )
    assert outcomes == ended
    return {each.cluster: each for each in outcomes}


def use(monkeypatch: pytest.MonkeyPatch, run: Callable[[ClusterTask], TaskOutcome]) -> None:
    monkeypatch.setattr(task, "run", run)


def messages(outcomes: Sequence[TaskOutcome]) -> set[tuple[str, int]]:
    return {(failure.message.splitlines()[0], failure.status) for each in outcomes for failure in each.failures}


def test_tasks_at_once_are_no_more_than_slots(monkeypatch: pytest.MonkeyPatch) -> None:
    lock, at_work, most = threading.Lock(), 0, 0
    both = threading.Barrier(2, timeout=10)

    def run(each: ClusterTask) -> TaskOutcome:
        nonlocal at_work, most
        with lock:
            at_work += 1
            most = max(most, at_work)
        both.wait()  # one alone would never pass
        with lock:
            at_work -= 1
        return TaskOutcome(each.cluster, each.directory, rows_loaded=1)

    use(monkeypatch, run)
    outcomes = ran(Threads(2))
    assert most == 2
    assert {name: each.rows_loaded for name, each in outcomes.items()} == dict.fromkeys(NAMES, 1)


def test_progress_names_who_is_worked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, lambda each: TaskOutcome(each.cluster, each.directory))
    reports: list[tuple[str, int, int]] = []
    ran(Here(), reports)
    assert [each for each in reports if each[0]] == [(name, done, 4) for done, name in enumerate(NAMES)]
    assert reports[-1] == ("", 4, 4)


@pytest.mark.parametrize("workers", [Here(), Threads(2)], ids=["here", "workers"])
def test_failure_of_one_stops_no_other(workers: Workers, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(each: ClusterTask) -> TaskOutcome:
        if each.cluster == "beta":
            raise task.OtherWorkerError("another machine\nwith a hint")
        if each.cluster == "gamma":
            raise KeyError("a fault")
        return TaskOutcome(each.cluster, each.directory)

    use(monkeypatch, run)
    outcomes = ran(workers)
    assert {name: each.failures != () for name, each in outcomes.items()} == {
        "alpha": False,
        "beta": True,
        "gamma": True,
        "delta": False,
    }
    assert messages([outcomes["beta"]]) == {("another machine", 23)}
    assert messages([outcomes["gamma"]]) == {("KeyError: 'a fault'", 70)}


def test_interrupt_ends_the_round_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """DuckDB has a Ctrl-C arrive as an error of its own, which is no failure of one cluster."""
    begun: list[str] = []

    def run(each: ClusterTask) -> TaskOutcome:
        begun.append(each.cluster)
        raise duckdb.Error("INTERRUPT Error: Query interrupted")

    use(monkeypatch, run)
    with pytest.raises(KeyboardInterrupt):
        ran(Here())
    assert begun == NAMES[:1]


def test_worker_that_dies_again_and_again_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(_: ClusterTask) -> TaskOutcome:
        raise KilledWorker("run-1234 died on tls://...")

    use(monkeypatch, run)
    expected = {("the worker died at it, and so did those that tried again", 22)}
    assert messages([*ran(Threads(2)).values()]) == expected


def test_a_worker_that_died_is_named_with_who_did_its_work(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, lambda each: TaskOutcome(each.cluster, each.directory, worker="process 2 on b"))
    outcomes = ran(Threads(2))
    assert {name: each.died for name, each in outcomes.items() if each.died} == {"alpha": ("process 1 on a",)}
    assert [*line_of(outcomes["alpha"])][1:] == ["alpha: process 1 on a died at it; process 2 on b did its work again"]
    died = as_rows([*outcomes.values()])["died"].to_list()
    assert died == ["process 1 on a", None, None, None]


@pytest.mark.parametrize("workers", [Threads(0), Vanishing(2, 2, 0)], ids=["none", "none left"])
def test_without_a_worker_the_rest_is_given_up(workers: Workers, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, lambda each: TaskOutcome(each.cluster, each.directory))
    outcomes = ran(workers)
    assert list(outcomes) == NAMES
    assert messages([*outcomes.values()]) == {("the scheduler has no worker left, or does not answer", 22)}


def test_scheduler_that_is_gone_fails_each_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, lambda each: TaskOutcome(each.cluster, each.directory))
    outcomes = ran(Gone(4))
    assert messages([outcomes["alpha"]]) == {("ClosedClientError: the connection is closed", 70)}
    others = [outcomes[name] for name in NAMES[1:]]
    assert messages(others) == {("the scheduler has no worker left, or does not answer", 22)}


def test_worker_that_joins_later_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, lambda each: TaskOutcome(each.cluster, each.directory))
    assert messages([*ran(Threads(0, 0, 1)).values()]) == set()
