"""The task of a worker for one cluster: one cycle of `trackside serve`, and its outcome.

A task names files and holds no secret and no rows: passwords and tokens are found where the worker is. It may be done
twice, or killed and done again, by any worker that sees the cluster's directory: the directory's lock lets one at a
time write, and all that is committed there, and in the lake, stays.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import resource
import socket
import time
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

import polars as pl

from app import clock
from app.compute.unchanged import code_digest
from app.config import settings as config
from app.errors import INTERNAL, exit_status
from app.service import log
from app.service.worker import Worker, without_secrets
from ingest.errors import SourceError
from queries import directory
from queries.opening import use_engine

if TYPE_CHECKING:
    from collections.abc import Iterator

    from app.config.settings import Config

VERB: Final = "trackside fleet"

logging.getLogger("trackside").addHandler(logging.NullHandler())  # what is logged is reported, too: see `TaskOutcome`


class OtherWorkerError(SourceError):
    """This worker does not see, or does not run, what the coordinator does."""


@dataclass(frozen=True)
class ClusterTask:
    """A cluster to be brought up to date.

    Attributes:
        cluster: its name.
        config: its configuration file, by a path that is the same on all machines.
        config_sha256: of that file.
        directory: its warehouse.
        lake: where it is committed, by an address that is the same in any working directory; empty: nowhere.
        lake_files: where the files of this lake are going to be if it is new; empty: it is not.
        code: digest of Trackside's files and of its engines' versions, at the coordinator.
        logged: whether the worker writes its log to stderr.
    """

    cluster: str
    config: str
    config_sha256: str
    directory: str
    lake: str
    lake_files: str
    code: str
    logged: bool = False


@dataclass(frozen=True)
class Failure:
    """A failure: its step, the message for a person, and the exit status that it has alone."""

    step: str
    message: str
    status: int


@dataclass(frozen=True)
class TaskOutcome:
    """The outcome of a task.

    Attributes:
        cluster: its name.
        directory: its warehouse.
        data_version: number of its published copy; None if there is none.
        rows_loaded: rows that were new.
        computed: clusters that were computed; 0 where nothing had changed.
        rows_committed: rows of files that were written to the lake.
        seconds: how long it took.
        cpu_s: processor seconds of the worker's process meanwhile.
        peak_mb: most memory that this process ever had, in MB (10^6 bytes).
        worker: which process, on which machine.
        failures: empty if all was done.
        died: the processes that had begun it before and were lost at it, so that `worker` did it again.
    """

    cluster: str
    directory: str
    data_version: int | None = None
    rows_loaded: int = 0
    computed: int = 0
    rows_committed: int = 0
    seconds: float = 0.0
    cpu_s: float = 0.0
    peak_mb: float = 0.0
    worker: str = ""
    failures: tuple[Failure, ...] = ()
    died: tuple[str, ...] = ()


def this_process() -> str:
    """This process and its machine."""
    return f"process {os.getpid()} on {socket.gethostname()}"


def run(task: ClusterTask) -> TaskOutcome:
    """Read the cluster's sources, compute what has changed, and commit it to the lake.

    Raises:
        OtherWorkerError: this worker has another configuration file, or another Trackside.
    """
    began, cpu_began = time.monotonic(), time.process_time()
    _refuse_other_code(task)
    settings = _settings(task)
    _use_engine(settings)
    with log.to_stderr() if task.logged else contextlib.nullcontext():
        worker = _worker(task, settings)
        worker.cycle(now=clock.now())
    return TaskOutcome(
        cluster=task.cluster,
        directory=task.directory,
        data_version=_data_version(task),
        rows_loaded=worker.tally["loaded"],
        computed=worker.tally["computed"],
        rows_committed=worker.tally["committed"],
        seconds=time.monotonic() - began,
        cpu_s=time.process_time() - cpu_began,
        peak_mb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6,
        worker=this_process(),
        failures=tuple(_failures(worker, settings)),
    )


def failed(cluster: str, directory: str, error: BaseException, *, step: str = "worker") -> TaskOutcome:
    """The outcome of a task that raised an error, or never ran."""
    return TaskOutcome(cluster, directory, failures=(_failure(step, error),))


def digest_of(file: Path) -> str:
    """SHA-256 of a file."""
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _failure(step: str, error: BaseException) -> Failure:
    status = exit_status(error) if isinstance(error, Exception) else None
    text = str(error).strip() or type(error).__name__
    shown = text if status is not None else f"{type(error).__name__}: {text}"
    return Failure(step, shown, INTERNAL if status is None else status)


def _failures(worker: Worker, settings: Config) -> Iterator[Failure]:
    for step, error in sorted(worker.errors.items()):
        failure = _failure(step, error)
        yield replace(failure, message=without_secrets(failure.message, settings))


def _refuse_other_code(task: ClusterTask) -> None:
    if code_digest().hex() != task.code:
        raise OtherWorkerError(
            f"the worker on {socket.gethostname()} runs another version of Trackside, DuckDB or polars than the "
            "command that sent the task: install the same version, and start the worker anew"
        )


def _settings(task: ClusterTask) -> Config:
    """The cluster's settings, as this machine's copy of its configuration file has them.

    Raises:
        OtherWorkerError: the file is not here, or is another.
    """
    file = Path(task.config)
    try:
        same = digest_of(file) == task.config_sha256
    except OSError as error:
        raise OtherWorkerError(
            f"{file} cannot be read on {socket.gethostname()}: {error.strerror}.\nConfiguration files and directories "
            "of a fleet must be at the same paths on all machines."
        ) from None
    if not same:
        raise OtherWorkerError(f"{file} on {socket.gethostname()} is another file than where the command was given")
    settings = config.of_file(file)
    lake = {"lake": Path(task.lake) if task.lake else None, "lake_files": task.lake_files or None}
    return settings.model_copy(update={"serve": settings.serve.model_copy(update=lake)})


def _use_engine(settings: Config) -> None:
    """Have DuckDB take as many threads as polars may in this process, unless the configuration sets the number."""
    engine = settings.engine.chosen
    use_engine(engine if engine.threads is not None else replace(engine, threads=pl.thread_pool_size()))


def _worker(task: ClusterTask, settings: Config) -> Worker:
    """The worker of a cycle. It reads this machine's Slurm, maybe another cluster's, only if the file has [slurm]."""
    named = "slurm" in settings.model_fields_set
    return Worker(Path(task.directory), settings, every=timedelta(0), verb=VERB, finds_slurm=named)


def _data_version(task: ClusterTask) -> int | None:
    copy = directory.current_copy(Path(task.directory))
    return None if copy is None else directory.number(copy)
