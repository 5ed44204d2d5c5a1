"""A function called in a process of its own, whose memory is all given back when it returns."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import signal
from typing import TYPE_CHECKING, Final, ParamSpec, TypeVar

from app.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from multiprocessing.connection import Connection
    from multiprocessing.context import SpawnProcess

Given = ParamSpec("Given")
Result = TypeVar("Result")

ALLOCATOR: Final = {"_RJEM_MALLOC_CONF": "dirty_decay_ms:500,muzzy_decay_ms:0"}
"""Polars gives memory back to the system soon; that of the command line keeps it for speed (`app.cli.main`)."""

STOPS_S = 5.0
"""How long an interrupted process has to stop by itself, in seconds."""


def called(function: Callable[Given, Result], *args: Given.args, **named: Given.kwargs) -> Result:
    """The result of a function of a module, called in a new process; what it raises is raised here.

    An interrupt reaches the process, too, and is raised when it has stopped.

    Raises:
        UsageError: the process was ended from outside, as the system does when memory runs out.
    """
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_send, args=(sender, function, args, named))
    with _environment(ALLOCATOR):
        process.start()
    sender.close()
    try:
        result, error = receiver.recv()
    except EOFError:
        process.join()
        raise UsageError(
            f"a step was ended from outside (exit status {process.exitcode}), as happens when memory runs out; "
            "run it again: the steps that are done are kept"
        ) from None
    except BaseException:
        _stop(process)
        raise
    process.join()
    if error is not None:
        raise error
    return result  # type: ignore[no-any-return]  # a pipe carries any object


@contextlib.contextmanager
def _environment(values: dict[str, str]) -> Iterator[None]:
    """Have a process that is started meanwhile find these values."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _send(
    sender: Connection, function: Callable[..., object], args: tuple[object, ...], named: dict[str, object]
) -> None:
    """Call a function, and send its result, or what it raised."""
    answer: tuple[object, BaseException | None]
    try:
        answer = function(*args, **named), None
    except BaseException as error:  # noqa: BLE001 - it is raised again, where the function was called
        answer = None, _sendable(error)
    with contextlib.suppress(OSError):  # the parent no longer waits for the result
        sender.send(answer)


def _sendable(error: BaseException) -> BaseException:
    """The error, or its text where it cannot be sent."""
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    except Exception:  # noqa: BLE001 - whatever its class does
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


def _stop(process: SpawnProcess) -> None:
    """Wait for a process that a terminal has interrupted, too; interrupt it where none has."""
    process.join(STOPS_S)
    if process.is_alive() and process.pid is not None:
        os.kill(process.pid, signal.SIGINT)
        process.join(STOPS_S)
    if process.is_alive():
        process.kill()
        process.join()
