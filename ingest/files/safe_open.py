"""Opening an input file without an endless wait or an endless read.

A named pipe without a writer blocks `open` for ever, a device such as /dev/zero has no end, and a name with a NUL is
invalid. Process substitution (`<(command)`), /dev/stdin and pipes with a writer are inputs like others.
"""

from __future__ import annotations

import contextlib
import os
import stat
import threading
from typing import TYPE_CHECKING, Final

from ingest.errors import InputError

if TYPE_CHECKING:
    import io
    from pathlib import Path

WRITER_S: Final = 10.0
"""How long a named pipe may have no writer, in seconds: `command > pipe &` needs a moment to start."""


_TERMINALS: Final = {4, 5, *range(136, 144)}
"""Major numbers of terminals: typed input has an end."""


def open_input(path: Path, *, writer_s: float = WRITER_S) -> io.BufferedReader:
    """Open a file, or a pipe that something writes into.

    Raises:
        InputError: the file does not exist, it may not be read, or it is a folder, a device, a socket, or a pipe that
            nothing has opened for writing.
    """
    try:
        status = path.stat()
        if problem := _problem(path, status):
            message = f"{path}: {problem}"
            raise InputError(message)
        return _of_writer(path, writer_s) if stat.S_ISFIFO(status.st_mode) else path.open("rb")
    except OSError as error:
        message = f"{path}: {error.strerror or error}"
        raise InputError(message) from None
    except ValueError as error:
        if isinstance(error, InputError):
            raise
        message = f"{str(path)!r}: no file can have this name ({error})"
        raise InputError(message) from None


def _problem(path: Path, status: os.stat_result) -> str | None:
    kind = status.st_mode
    if stat.S_ISDIR(kind):
        return "Is a directory; name the files in it"
    if stat.S_ISSOCK(kind):
        return "this is a socket, not a file"
    endless = stat.S_ISCHR(kind) and str(path) != os.devnull and os.major(status.st_rdev) not in _TERMINALS
    return "this is a device, not a file" if endless or stat.S_ISBLK(kind) else None


def _of_writer(path: Path, seconds: float) -> io.BufferedReader:
    """The pipe, once something has it open for writing: opening it for reading waits for exactly that."""
    opened: list[int] = []

    def wait() -> None:
        with contextlib.suppress(OSError):  # the same comes up below, where it can be reported
            opened.append(os.open(path, os.O_RDONLY | os.O_CLOEXEC))

    waiting = threading.Thread(target=wait, name="trackside-pipe", daemon=True)
    waiting.start()
    waiting.join(seconds)
    if not waiting.is_alive():
        return os.fdopen(opened[0], "rb") if opened else path.open("rb")
    os.close(os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC))  # a writer for a moment, which ends the wait
    waiting.join(1.0)
    for descriptor in opened:
        os.close(descriptor)
    message = f"{path}: a named pipe that nothing writes into; start the command that writes into it, or name a file"
    raise InputError(message)
