"""Running the scheduler's own commands: the only module of ingest that starts a process."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from ingest.errors import SourceDownError, SourceMissingError
from ingest.load_warnings import LoadWarning

TIMEOUT_S: Final = 300
"""Slurm commands without a readable slurm.conf hang for a minute; sacct over a busy month may take longer."""

NICENESS: Final = 10
"""A login node is shared; sacct over a busy month takes a while to print."""

EPOCH_UTC: Final[Mapping[str, str]] = {"TZ": "UTC", "SLURM_TIME_FORMAT": "%s"}
"""Times as epochs: no hour of the year occurs twice."""


OVERRULING: Final = ("SQUEUE_", "SACCT_", "SCONTROL_", "SACCTMGR_", "SDIAG_", "SINFO_")
"""Prefixes of variables that replace options of a command: selected users, states, partitions or clusters."""

OVERRULING_NAMES: Final = frozenset({"SLURM_CLUSTERS", "SLURM_TIME_FORMAT"})
"""Others that change the request or the output format. SLURM_CONF and SLURM_JWT (access to Slurm) are kept."""


class Completed(NamedTuple):
    """How a command ended, and what it printed."""

    returncode: int
    stdout: bytes
    stderr: bytes


Runner: TypeAlias = Callable[[list[str], Mapping[str, str]], Completed]
"""Runs a command (arguments, additions to the environment). Tests pass a plain function."""


class Fetched(NamedTuple):
    """Output of a live command, the command line as in `loads.origin`, and its lines on stderr."""

    data: bytes
    origin: str
    warnings: tuple[LoadWarning, ...] = ()


def subprocess_runner(command: list[str], environment: Mapping[str, str], *, timeout_s: float = TIMEOUT_S) -> Completed:
    """Run a command at the lowest priority. One that is absent or too slow is a SourceError.

    Variables set in the shell for Slurm's commands do not change the request (see `OVERRULING`).
    Whatever ends the wait (Ctrl-C, too) ends the command.
    """
    try:
        process = subprocess.Popen(
            command,
            env={**_plain(os.environ), **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
    except (FileNotFoundError, PermissionError):
        raise SourceMissingError(command) from None
    with process:
        with contextlib.suppress(OSError):  # it has ended already, or may not be changed: no harm
            os.setpriority(os.PRIO_PROCESS, process.pid, NICENESS)
        try:
            stdout, stderr = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            hint = (
                f"No answer within {timeout_s:g} s. Is slurm.conf readable here (SLURM_CONF), and is the controller up?"
            )
            raise SourceDownError(command, None, "", hint) from None
        finally:
            if process.returncode is None:
                process.kill()
    return Completed(process.returncode, stdout, stderr)


def _plain(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment without variables that would override our options."""
    return {
        name: text
        for name, text in environment.items()
        if not name.startswith(OVERRULING) and name not in OVERRULING_NAMES
    }


def run(runner: Runner, command: Sequence[str], *, hint: str, environment: Mapping[str, str] = EPOCH_UTC) -> Fetched:
    """Output of a command. A non-zero exit is an error even when something was printed: it may be incomplete.

    Text on stderr with exit status 0 becomes warnings: sacct reports an unknown column that way, and
    that the database answered late.
    """
    done = runner(list(command), environment)
    stderr = done.stderr.decode(errors="replace")
    if done.returncode != 0:
        raise SourceDownError(command, done.returncode, stderr, hint)
    lines = filter(None, map(str.strip, stderr.splitlines()))
    return Fetched(done.stdout, origin_of(command), tuple(LoadWarning("command_message", 1, line) for line in lines))


def origin_of(command: Sequence[str]) -> str:
    r"""The command line for people, control characters spelled out.

    >>> origin_of(["sacct", "--delimiter=\x1f", "-a"])
    'sacct --delimiter=\\x1f -a'
    """
    return " ".join(command).encode("unicode_escape").decode("ascii")
