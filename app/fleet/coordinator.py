"""Handing the tasks of a fleet to workers, and collecting what became of each: one that fails stops no other."""

from __future__ import annotations

import time
from collections import deque
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, wait
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Protocol

from app.faults import FAULTS
from app.fleet import task as tasks
from app.fleet.task import ClusterTask, TaskOutcome, failed
from ingest.errors import ServerDownError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from app.progress import ReportProgress

PATIENCE_S: Final = 60.0
"""How long to wait for a worker where none is left."""

_LOOK_S: Final = 0.5
"""How often to look for workers that have joined or left."""


class Workers(Protocol):
    """Workers that run tasks."""

    def slots(self) -> int:
        """How many tasks can be run at once now."""

    def submit(self, run: Callable[[ClusterTask], TaskOutcome], task: ClusterTask) -> Future[TaskOutcome]:
        """Have a task run."""

    def begun(self) -> list[tuple[str, str]]:
        """Which cluster was begun by which process, in that order: more than one where the first was lost at it."""


def run_tasks(
    tasks: Iterable[ClusterTask],
    workers: Workers,
    *,
    report: ReportProgress,
    ended: Callable[[TaskOutcome], None],
    patience_s: float = PATIENCE_S,
) -> list[TaskOutcome]:
    """Have all tasks run, as many at once as there are slots.

    Args:
        tasks: the tasks, in the order in which they are begun.
        workers: what runs them.
        report: takes which clusters are being worked at, how many are done, and of how many.
        ended: takes each outcome when it is there.
        patience_s: how long to wait where there is no worker, before the rest is given up.
    """
    return _TasksUnderWay(deque(tasks), workers, report, ended).run(patience_s)


class _TasksUnderWay:
    """Tasks under way."""

    def __init__(
        self,
        waiting: deque[ClusterTask],
        workers: Workers,
        report: ReportProgress,
        ended: Callable[[TaskOutcome], None],
    ) -> None:
        self._waiting = waiting
        self._workers = workers
        self._report = report
        self._ended = ended
        self._total = len(waiting)
        self._running: dict[Future[TaskOutcome], ClusterTask] = {}
        self._outcomes: list[TaskOutcome] = []

    def run(self, patience_s: float) -> list[TaskOutcome]:
        """Run them, and return what became of them."""
        seen = time.monotonic()
        while self._waiting or self._running:
            slots = self._workers.slots()
            seen = time.monotonic() if slots else seen
            if time.monotonic() - seen > patience_s:
                self._give_up()
                break
            while self._waiting and len(self._running) < slots:
                self._submit(self._waiting.popleft())
            self._collect()
        return self._outcomes

    def _submit(self, task: ClusterTask) -> None:
        self._report_progress(task.cluster)
        try:
            self._running[self._workers.submit(tasks.run, task)] = task
        except FAULTS as error:  # Dask has many for a scheduler that is gone
            self._end(failed(task.cluster, task.directory, error))

    def _collect(self) -> None:
        """Take the outcomes that are there, or wait a little."""
        if not self._running:
            time.sleep(_LOOK_S)
            return
        done, _ = wait(self._running, timeout=_LOOK_S, return_when=FIRST_COMPLETED)
        for future in done:
            outcome = _outcome(future, self._running.pop(future))
            self._end(replace(outcome, died=self._died(outcome, killed=_killed(future))))

    def _died(self, outcome: TaskOutcome, *, killed: bool) -> tuple[str, ...]:
        """The processes that were lost at a cluster: all that began it but the last, which ended it."""
        begun = [worker for cluster, worker in self._workers.begun() if cluster == outcome.cluster]
        return tuple(begun if killed else begun[:-1])

    def _give_up(self) -> None:
        for task in (*self._running.values(), *self._waiting):
            self._end(failed(task.cluster, task.directory, _no_worker()))

    def _end(self, outcome: TaskOutcome) -> None:
        self._outcomes.append(outcome)
        self._ended(outcome)
        self._report_progress()

    def _report_progress(self, *more: str) -> None:
        names = [*(task.cluster for task in self._running.values()), *more]
        self._report(", ".join(names), len(self._outcomes), self._total)


def _outcome(future: Future[TaskOutcome], task: ClusterTask) -> TaskOutcome:
    try:
        return future.result()
    except CancelledError:
        return failed(task.cluster, task.directory, _no_worker())
    except FAULTS as error:  # whatever a worker raised: the others go on
        return failed(task.cluster, task.directory, _explained(error))


def _killed(future: Future[TaskOutcome]) -> bool:
    """Whether one worker after another died at it, so that no worker finished it."""
    return not future.cancelled() and type(future.exception()).__name__ == "KilledWorker"


def _explained(error: BaseException) -> BaseException:
    """Our error for Dask's `KilledWorker`: workers died at a task one after another. Dask is not imported here."""
    if type(error).__name__ != "KilledWorker":
        return error
    hint = (
        "Was it memory? Limit DuckDB's with [engine] memory_mb in the cluster's configuration, or start fewer workers."
    )
    return ServerDownError("the worker", "died at it, and so did those that tried again", hint)


def _no_worker() -> ServerDownError:
    return ServerDownError(
        "the scheduler",
        "has no worker left, or does not answer",
        "Start one:  trackside worker ADDRESS   Then run it again: what was committed is kept.",
    )
