"""The command line in a pseudo-terminal of a given size, as a person sees it."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.support.command import ROOT, run_in_process

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@dataclass(frozen=True)
class Screen:
    """What a command wrote to a terminal.

    Attributes:
        status: its exit status.
        written: everything, escape sequences included, with newlines as the program wrote them.
    """

    status: int
    written: str

    @property
    def text(self) -> str:
        """What a person reads."""
        return _ESCAPES.sub("", self.written)

    @property
    def lines(self) -> list[str]:
        """Its lines."""
        return self.text.splitlines()


def in_terminal(
    *command: str, columns: int, lines: int = 50, env: dict[str, str] | None = None, cwd: Path | None = None
) -> Screen:
    """Run a command with a pseudo-terminal as its three streams.

    Args:
        command: a program and its arguments.
        columns: of the terminal.
        lines: of the terminal.
        env: variables, next to the process's own; there is no pager and no COLUMNS unless they say so.
        cwd: working directory; the repository's root by default.
    """
    settings = {**_environment(env), "PYTHONPATH": str(ROOT)}

    def run(terminal: int) -> int:
        return subprocess.run(
            command,
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            env=settings,
            cwd=cwd or ROOT,
            start_new_session=True,
            timeout=300,
            check=False,
        ).returncode

    return _screen(run, columns, lines)


def trackside_in_terminal(
    *arguments: str, columns: int, lines: int = 50, env: dict[str, str] | None = None, cwd: Path | None = None
) -> Screen:
    """Run the command line in this process with a pseudo-terminal as its three streams; else as `in_terminal`."""

    def run(terminal: int) -> int:
        streams = (terminal, terminal, terminal)
        return run_in_process(arguments, env=_environment(env), cwd=cwd or ROOT, streams=streams)

    return _screen(run, columns, lines)


def _environment(env: dict[str, str] | None) -> dict[str, str]:
    own = {name: value for name, value in os.environ.items() if name not in {"COLUMNS", "LINES", "NO_COLOR"}}
    return {**own, "PAGER": "cat", "TERM": "xterm-256color", **(env or {})}


def _screen(run: Callable[[int], int], columns: int, lines: int) -> Screen:
    """What was written to a new terminal by `run`, which takes its file and returns the exit status."""
    outer, inner = pty.openpty()
    fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    chunks: list[bytes] = []
    reader = threading.Thread(target=_drain, args=(outer, chunks))
    reader.start()
    try:
        status = run(inner)
    finally:
        os.close(inner)
        reader.join(timeout=60)
        os.close(outer)
    return Screen(status, b"".join(chunks).decode().replace("\r\n", "\n"))


def _drain(outer: int, chunks: list[bytes]) -> None:
    """Read until the last process that has the terminal has gone."""
    while True:
        try:
            chunk = os.read(outer, 65_536)
        except OSError:  # Linux reports the end of a terminal as an error
            return
        if not chunk:
            return
        chunks.append(chunk)
