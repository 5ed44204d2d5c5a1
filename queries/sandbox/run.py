"""A person's SQL: one SELECT on the published copy, with nothing else within reach.

It runs in a process of its own, behind three walls: the gate allows only what is listed as reading and computing
(`queries.sandbox.gate`), DuckDB's settings lock away files, network and extensions, and the system holds the process to
the warehouse's files, without network, for a limited time and memory (`queries.sandbox.confinement`).
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from queries.errors import CorruptWarehouseError, QueryError
from queries.sandbox.child import FAILED, MEMORY, UNEXPECTED
from queries.warehouse import open_reader

if TYPE_CHECKING:
    from io import BufferedRandom

GRACE_S = 5
"""Seconds that a process has to hand over its rows, on top of the limit."""

START_S = 120
"""Longest time for a process to start: Python and the engine may come from a slow disk. It is not counted."""

_ENVIRONMENT = ("PYTHON", "LC_", "LD_LIBRARY_PATH", "LANG", "PATH", "TZ", "MALLOC_")
"""Beginnings of names of variables that the process gets: no token, password or address of this one's environment."""

_PACKAGES = str(Path(__file__).parents[2])
"""The folder of our packages: the repository, or `trackside/_packages` of an installed wheel."""

_PROGRAM = "import sys; sys.path.insert(0, sys.argv[1]); from queries.sandbox.child import main; main()"


@dataclass(frozen=True)
class SandboxLimits:
    """Limits of a person's SQL; the result may hold at most `result_mb` megabytes.

    Those that are `fixed` are not of the configuration.
    """

    rows: int = 10_000
    seconds: float = 60.0
    memory_mb: int = 2_000
    result_mb: int = 64
    fixed: bool = False

    def where(self, name: str) -> str:
        """Source of a limit.

        >>> SandboxLimits().where("seconds"), SandboxLimits(fixed=True).where("seconds")
        ('config: sql.seconds', 'the limit here; trackside sql takes more')
        """
        return "the limit here; trackside sql takes more" if self.fixed else f"config: sql.{name}"


def user_sql(root: Path, sql: str, limits: SandboxLimits | None = None) -> tuple[pl.DataFrame, bool]:
    """Run one SELECT of a person on the published copy.

    The copy is opened read-only; files outside the warehouse's samples, network, extensions and settings are locked
    away before the text is read. Columns of kinds that frames do not have (intervals, unions, times without end)
    come as text.

    Returns:
        The rows, and whether there were more than the limits allow.

    Raises:
        QueryError: not one SELECT, or it failed, or it took more time or memory than the limits allow.
        WarehouseError: there is no warehouse, or it cannot be read.
    """
    limits = limits or SandboxLimits()
    with open_reader(root) as reader:  # what is wrong with the warehouse is reported here, in our own words
        reader.check_samples(sql)
        opened = reader.root
    task = {"root": str(opened), "sql": sql, "parent": os.getpid(), "limits": asdict(limits)}
    with _memory() as question, _memory() as answer, _memory() as messages:
        status = _run(task, limits, question, answer, messages)
        _raise_for(status, _text(messages), limits)
        answer.seek(0)
        more = answer.read(1) == b"1"
        rows = pl.read_ipc_stream(answer)
    return rows, more


def _run(
    task: dict[str, Any],
    limits: SandboxLimits,
    question: BufferedRandom,
    answer: BufferedRandom,
    messages: BufferedRandom,
) -> int:
    """Exit status of the process; it writes to files, so that it can neither fill our memory nor wait for us."""
    # -P, and our folder first: neither the current directory nor another installed `queries` is imported instead.
    command = [sys.executable, "-P", "-c", _PROGRAM, _PACKAGES]
    environment = {name: value for name, value in os.environ.items() if name.startswith(_ENVIRONMENT)}
    begun, begins = os.pipe()
    try:
        question.write(json.dumps(task | {"begins": begins, "start_s": START_S}).encode())
        question.seek(0)
        process = subprocess.Popen(
            command,
            stdin=question,
            stdout=answer,
            stderr=messages,
            start_new_session=True,
            env=environment,
            pass_fds=(begins,),
        )
    finally:
        os.close(begins)
    try:
        return _waited_for(process, begun, limits)
    finally:
        os.close(begun)
        process.kill()
        process.wait()


def _waited_for(process: subprocess.Popen[bytes], begun: int, limits: SandboxLimits) -> int:
    """Exit status of a process that has its time from when it begins with the query."""
    if not select.select([begun], [], [], START_S)[0]:
        raise QueryError(f"the query did not begin: its process took longer than {START_S} s to start")
    try:
        return process.wait(limits.seconds + GRACE_S)
    except subprocess.TimeoutExpired:
        raise _took_longer(limits) from None


def _memory() -> BufferedRandom:
    """A file in memory: what people read does not pass by the disk."""
    return os.fdopen(os.memfd_create("trackside-sql"), "w+b")


def _text(messages: BufferedRandom) -> str:
    messages.seek(0)
    return messages.read(100_000).decode(errors="replace").strip()


def _took_longer(limits: SandboxLimits) -> QueryError:
    return QueryError(f"the query took longer than {limits.seconds:g} s and was stopped ({limits.where('seconds')})")


_ALLOCATION = ("bad_alloc", "memory allocation", "Cannot allocate memory", "out of memory", "MemoryError")
"""How the libraries report, as they go down, that they got no memory."""


def _raise_for(status: int, message: str, limits: SandboxLimits) -> None:
    """Raise the error for the person, by the end of the process."""
    if status == 0:
        return
    if status == FAILED and "corrupt database file" in message.lower():
        raise CorruptWarehouseError(
            f"the published copy is damaged: {message}\nWrite it anew: trackside doctor --repair"
        )
    if status == FAILED:
        raise QueryError(message)
    if status == MEMORY or (status != UNEXPECTED and any(words in message for words in _ALLOCATION)):
        raise QueryError(
            f"the query needed more memory than {limits.memory_mb} MB and was stopped ({limits.where('memory_mb')})"
        )
    if status == UNEXPECTED:
        raise QueryError(f"the query ran, but its rows cannot be handed over: {message}\nCast its columns: x::VARCHAR")
    if -status in {signal.SIGXCPU, signal.SIGALRM}:
        raise _took_longer(limits)
    if -status == signal.SIGXFSZ:
        raise QueryError(f"the result is larger than {limits.result_mb} MB ({limits.where('result_mb')})")
    if -status == signal.SIGKILL:
        raise QueryError("the system stopped the query: it took too long, or the machine is short of memory")
    raise QueryError(
        f"the engine broke down ({_ended(status)}): a fault of DuckDB or Trackside, please report the query"
    )


def _ended(status: int) -> str:
    """How a process ended.

    >>> _ended(-11), _ended(1)
    ('signal SIGSEGV', 'exit status 1')
    """
    return f"signal {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"
