"""Tasks run in this process, one after another: the fleet without Dask."""

from __future__ import annotations

from concurrent.futures import Future
from typing import TYPE_CHECKING

from app.errors import raise_interrupt
from app.faults import FAULTS

if TYPE_CHECKING:
    from collections.abc import Callable

    from app.fleet.task import ClusterTask, TaskOutcome


class Here:
    """This process."""

    def slots(self) -> int:
        """One task at a time."""
        return 1

    def begun(self) -> list[tuple[str, str]]:
        """Nothing: if this process dies, the record of its tasks dies with it."""
        return []

    def submit(self, run: Callable[[ClusterTask], TaskOutcome], task: ClusterTask) -> Future[TaskOutcome]:
        """Run it before this returns."""
        future: Future[TaskOutcome] = Future()
        try:
            future.set_result(run(task))
        except FAULTS as error:
            raise_interrupt(error)
            future.set_exception(error)
        return future
