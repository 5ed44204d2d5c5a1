"""Runs verbs in processes that are killed: `python -m tests.support.killing` forks one for each line of its input.

The modules are imported once and before the fork, so that a moment of a kill lies in the work and not in the imports;
pandas is blocked as in the command line's own process, else DuckDB imports it in each.
Each process is `trackside` itself, with a clock that stands still and Slurm's commands answered from a small cluster.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from app import clock
from app.adjudicate import make as corrections
from app.cli import main as cli
from app.cli.sources import slurm as slurm_source
from app.service import server as service
from app.service import worker
from ingest.slurm.commands.runner import Completed
from queries.pandas_block import block_pandas
from tests.support.command import ROOT
from tests.support.slurm.dumps import HEADER, tiny
from tests.support.warehouses import use_threads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path
    from types import FrameType

__all__ = ["corrections"]  # imported before the fork

NOW = datetime(2026, 11, 2, 3, 4, 5, tzinfo=UTC)
DUMP = tiny(40)

CHANGES = frozenset({"os.rename", "os.remove", "os.link", "os.symlink", "os.mkdir", "os.rmdir", "os.truncate"})
"""Audit events of changes to a folder; opening a file for writing is one, too."""

IMPORTED_LATER = (
    *("pyarrow.parquet", "scipy.special", "plotly.offline"),
    *("ingest.registry", "ingest.prometheus.load_files", "ingest.runlog.tensorboard", "queries.samples.parquet_days"),
    *("app.cli.ingest_report", "app.cli.retention_report", "app.cli.run_context", "app.cli.source_files"),
    *("app.cli.verbs.data.adjudicate", "app.cli.verbs.answers.compute", "app.cli.verbs.data.ingest"),
    *("app.cli.verbs.data.retention", "app.cli.verbs.data.warehouse", "app.cli.verbs.serving.serve"),
    *("app.results.usage", "app.results.people", "app.progress"),
    *("queries.lake.push", "queries.lake.snapshot"),
)
"""Modules that verbs import when they need them."""

STATEMENT = "statement"
"""What is noted of a statement of SQL; of a change to a folder it is the change's kind."""

DIFFERING = re.compile(r"[0-9a-f]{8,}|[0-9]+")
"""What differs between names of files that are written for the same purpose."""

LONGEST_S = 300.0
"""A process that is to end by itself and has not by then hangs."""


def slurm(command: list[str], _: Mapping[str, str]) -> Completed:
    """Slurm's commands on the small cluster."""
    answers = {
        "sacct ": DUMP.accounting,
        "sacctmgr -P show event": DUMP.events,
        "scontrol show config": DUMP.config,
        "scontrol show node": DUMP.nodes,
    }
    if "-e" in command:
        return Completed(0, HEADER.replace("|", " ").encode(), b"")
    for beginning, text in answers.items():
        if " ".join(command).startswith(beginning):
            return Completed(0, text.encode(), b"")
    return Completed(1, b"", b"Access/permission denied")


@dataclass(frozen=True)
class Ended:
    """How a process ended.

    Attributes:
        status: exit status; None if it was killed.
        seconds: how long it took.
        changes: that it made to folders, by kind, in their order.
        statements: of SQL that it ran; 0 unless `Kill.of_statements` says to count them.
    """

    status: int | None
    seconds: float
    changes: list[str]
    statements: int


@dataclass(frozen=True)
class Kill:
    """When a process is killed: if no moment is given, never.

    Attributes:
        after_s: so long after its start.
        before_change: before its n-th change to a folder.
        at_statement: at its n-th statement of SQL.
        into_s: so long after that statement has begun; 0: before it.
        of_statements: count the statements, for `Ended.statements`.
    """

    after_s: float | None = None
    before_change: int | None = None
    at_statement: int | None = None
    into_s: float = 0.0
    of_statements: bool = False


class Killer:
    """Starts verbs and kills them.

    Args:
        process: one of `python -m tests.support.killing`.
    """

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def run(self, folder: Path, *arguments: str, kill: Kill | None = None, later_s: float = 0.0) -> Ended:
        """Run a command line in a folder; its clock stands still at `NOW` and so much later."""
        moment = kill or Kill()
        wanted = {
            "folder": str(folder),
            "arguments": arguments,
            "later_s": later_s,
            **asdict(moment),
        }
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(wanted) + "\n")
        self._process.stdin.flush()
        return Ended(**json.loads(self._process.stdout.readline()))


@contextlib.contextmanager
def killer() -> Iterator[Killer]:
    """What starts and kills."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.support.killing"],
        cwd=ROOT,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield Killer(process)
    finally:
        process.communicate()


def main() -> None:
    """One process for each line of the input; how it ended is a line of the output."""
    block_pandas()
    use_threads(several=False)
    for name in IMPORTED_LATER:
        importlib.import_module(name)
    for line in sys.stdin:
        wanted = json.loads(line)
        with os.fdopen(os.memfd_create("done"), "r+", encoding="utf-8") as notes:
            child = os.fork()
            if child == 0:
                _become(wanted, notes.fileno())
            ended = _watch(child, wanted["after_s"])
            notes.seek(0)
            done = notes.read().splitlines()
        changes = [each for each in done if each != STATEMENT]
        answer = {**ended, "changes": changes, "statements": len(done) - len(changes)}
        print(json.dumps(answer), flush=True)  # noqa: T201 - the answer


def _watch(child: int, after_s: float | None) -> dict[str, Any]:
    """Wait for a process, or kill it when its time has come."""
    began = time.monotonic()
    limit = LONGEST_S if after_s is None else after_s
    while True:
        done, how = os.waitpid(child, os.WNOHANG)
        took = time.monotonic() - began
        if done:
            return {"status": None if os.WIFSIGNALED(how) else os.WEXITSTATUS(how), "seconds": took}
        if took >= limit:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return {"status": None, "seconds": took}
        time.sleep(min(0.002, limit - took))


def _become(wanted: dict[str, Any], notes: int) -> NoReturn:
    """Be that command line; every change to a folder, and every statement, is a line of `notes`."""
    printed = os.open(f"{wanted['folder']}/said.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for stream in (1, 2):
        os.dup2(printed, stream)
    os.chdir(wanted["folder"])
    _stand_still(NOW + timedelta(seconds=wanted["later_s"]))
    left = [wanted["before_change"] or 0]

    def changed(event: str, arguments: tuple[Any, ...]) -> None:
        written = event == "open" and isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR)
        if event not in CHANGES and not written:
            return
        if left[0] == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        left[0] -= 1
        os.write(notes, f"{_kind(event, arguments)}\n".encode())

    sys.addaudithook(changed)
    if wanted["at_statement"] or wanted["of_statements"]:
        sys.setprofile(_of_statements(wanted["at_statement"] or 0, wanted["into_s"], notes))
    status = 70
    try:
        status = cli.main(wanted["arguments"])
    finally:
        os._exit(status)


def _kind(event: str, arguments: tuple[Any, ...]) -> str:
    """What a change does to which kind of file: the same for all days of samples, and for all temporary files."""
    return DIFFERING.sub("#", " ".join([event, *(str(each) for each in arguments if isinstance(each, str | bytes))]))


def _of_statements(at: int, into_s: float, notes: int) -> Callable[[FrameType, str, object], None]:
    """A profiler of the main thread that ends the process at its n-th statement, or so long after it has begun.

    The alarm is not handled, so it ends the process in the middle of DuckDB's work as SIGKILL does.
    """
    left = [at]

    def called(_frame: FrameType, event: str, function: object) -> None:
        if event != "c_call" or getattr(function, "__name__", "") != "execute":
            return
        os.write(notes, f"{STATEMENT}\n".encode())
        if left[0] == 1 and not into_s:
            os.kill(os.getpid(), signal.SIGKILL)
        elif left[0] == 1:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.setitimer(signal.ITIMER_REAL, into_s)
        left[0] -= 1

    return called


def _stand_still(moment: datetime) -> None:
    """The clock stands, Slurm answers, and `serve` ends after its first cycle."""

    def once(self: worker.Worker, *, now: datetime) -> NoReturn:
        try:
            cycle(self, now=now)
        finally:
            os._exit(1 if self.failures(now) or not self.last_success else 0)

    cycle = worker.Worker.cycle
    vars(clock)["now"] = lambda: moment
    vars(slurm_source)["_runner"] = lambda _: slurm
    vars(service)["Worker"] = partial(worker.Worker, runner=slurm)
    worker.Worker.cycle = once  # type: ignore[method-assign]  # it ends the process


if __name__ == "__main__":
    main()
