"""Tasks run by the workers of a Dask scheduler: one that is started here for them, or one that is named."""

from __future__ import annotations

import contextlib
import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeVar
from uuid import uuid4

from app.fleet.scheduler import (
    DASK_SETTINGS,
    refuse_without_tls,
    require_answer,
    require_dask,
    security_of,
    share_of_cores,
    unreachable,
)
from app.fleet.task import this_process

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from concurrent.futures import Future

    from distributed import Client, LocalCluster
    from distributed.security import Security

    from app.config.fleet import FleetSettings
    from app.fleet.task import ClusterTask, TaskOutcome

T = TypeVar("T")

_CONNECT_S: Final = 30
"""How long to wait for a scheduler."""

_ANSWER_S: Final = 10
"""How long to wait for its response, and for the connection to close."""

_GONE: Final = (OSError, RuntimeError)
"""Errors of a request whose scheduler is gone, or does not respond."""


class DaskWorkers:
    """The workers of a scheduler, each of which does one task at a time.

    Args:
        client: connected to the scheduler.
        logged: whether the workers write their logs.
    """

    def __init__(self, client: Client, *, logged: bool = False) -> None:
        self._client = client
        self._logged = logged
        self._executor = client.get_executor(pure=False)
        self._topic = f"trackside-{uuid4().hex}"

    def slots(self) -> int:
        """Threads of the present workers; 0 where the scheduler does not respond."""
        return sum(self._answer(lambda: self._client.nthreads(callback_timeout=_ANSWER_S), {}).values())

    def submit(self, run: Callable[[ClusterTask], TaskOutcome], task: ClusterTask) -> Future[TaskOutcome]:
        """Have a worker run it; one that dies at it is replaced by another, up to four of them."""
        future: Future[TaskOutcome] = self._executor.submit(
            _noted, run, replace(task, logged=self._logged), self._topic
        )
        return future

    def begun(self) -> list[tuple[str, str]]:
        """Pairs of cluster and process that began it, in that order; empty where the scheduler does not respond."""
        events: Iterable[Any] = self._answer(lambda: self._client.get_events(self._topic), ())
        return [(each["cluster"], each["process"]) for _, each in events]

    def _answer(self, request: Callable[[], T], otherwise: T) -> T:
        """The scheduler's answer; `otherwise` where it is gone, or not there again yet.

        A client that is not connected fails in more ways: one that has given up has no scheduler to send to.
        """
        try:
            return request()
        except _GONE:
            return otherwise
        except (AttributeError, ValueError):
            if self._client.status == "running":
                raise
            return otherwise


def _noted(run: Callable[[ClusterTask], TaskOutcome], task: ClusterTask, topic: str) -> TaskOutcome:
    """Run a task at a worker, after logging at the scheduler who begins it: a killed process cannot report it later.

    The key is not `worker`: Dask puts the worker's address there.
    """
    from distributed import get_worker

    get_worker().log_event(topic, {"cluster": task.cluster, "process": this_process()})
    return run(task)


@contextlib.contextmanager
def started(count: int) -> Iterator[DaskWorkers]:
    """Start so many processes on this machine, and end them afterwards.

    Raises:
        UsageError: Dask is not installed.
    """
    require_dask()
    import dask
    from distributed import Client
    from distributed.security import Security

    security = Security.temporary()
    with contextlib.ExitStack() as stack:
        stack.enter_context(dask.config.set(DASK_SETTINGS))
        try:
            cluster = stack.enter_context(_local_cluster(count, security))
            client = stack.enter_context(_leaving(Client(cluster, security=security, set_as_default=False)))
        except (OSError, RuntimeError, TimeoutError) as error:
            raise unreachable("of this machine's workers", error) from error
        yield DaskWorkers(client)


def _local_cluster(count: int, security: Security) -> LocalCluster:
    """A scheduler and workers of this machine alone, with one key for all of them."""
    from distributed import LocalCluster

    return LocalCluster(
        n_workers=count,
        threads_per_worker=1,
        processes=True,
        host="127.0.0.1",
        protocol="tls://",
        security=security,
        dashboard_address=None,
        scheduler_kwargs={"dashboard": False, "dashboard_address": "127.0.0.1:0"},
        memory_limit=0,
        silence_logs=logging.CRITICAL,
        env=share_of_cores(count),
    )


@contextlib.contextmanager
def joined(address: str, fleet: FleetSettings, *, without_tls: bool = False) -> Iterator[DaskWorkers]:
    """Use the workers of a scheduler.

    Args:
        address: of the scheduler.
        fleet: with the files of TLS.
        without_tls: whether another machine's may be used without.

    Raises:
        UsageError: Dask is not installed, or it is on another machine, and without TLS.
        ServerDownError: it does not answer.
    """
    refuse_without_tls(address, without_tls=without_tls)
    require_dask()
    from distributed import Client

    require_answer(address)
    for name in ("distributed", "distributed.client"):  # Dask sets levels of its own for both
        logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        client = Client(address, security=security_of(address, fleet), timeout=_CONNECT_S, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        raise unreachable(address, error) from None
    with _leaving(client):
        yield DaskWorkers(client, logged=True)


@contextlib.contextmanager
def _leaving(client: Client) -> Iterator[Client]:
    """Close the client at the end, also if the scheduler does not respond: finished tasks are reported either way."""
    try:
        yield client
    finally:
        with contextlib.suppress(*_GONE):
            client.close(timeout=_ANSWER_S)
