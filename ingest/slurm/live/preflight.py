"""Whether Slurm can be reached from here at all: checked once, before any request that would be retried."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ingest.errors import ServerDownError, SourceDownError, SourceMissingError
from ingest.slurm.commands.runner import run
from ingest.slurm.commands.slurmrestd import UNIX
from ingest.slurm.live import rest, transport

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ingest.slurm.commands.runner import Runner
    from ingest.slurm.settings import SlurmSettings

WITHOUT_SLURM: Final = """\
What can be done instead:
  trackside ingest slurm FILE   load what Slurm's commands printed elsewhere (--help lists them);
  run this on a machine where `sacct` shows jobs (SLURM_CONF is the path of slurm.conf);
  or query slurmrestd, by the configuration (trackside.toml): under [slurm] transport = "rest", and
  rest_url = "unix:/path/of/the.socket" or "http://HOST:PORT"."""
"""Alternatives where no running Slurm can be reached."""

COMMAND: Final = ("sacct", "-e")
"""Lists sacct's columns. It needs slurm.conf and no server, so it responds at once or never."""

NEVER: Final = (
    "accounting storage is disabled",
    "unable to process configuration file",
    "res_nsearch error: unknown host",
)
"""Messages of Slurm's commands where waiting does not help: there is no accounting, or slurm.conf is unusable.

A configuration that slurmctld serves is unavailable while slurmctld restarts: there waiting helps.
"""


class NoSlurmError(SourceMissingError):
    """Slurm's commands are not installed; the message lists alternatives."""

    def __init__(self, command: Sequence[str]) -> None:
        super().__init__(command)
        self.args = (f"{command[0]} is not installed here (not on PATH).\n{WITHOUT_SLURM}",)


def probe(runner: Runner, config: SlurmSettings, *, strict: bool = False) -> None:
    """Return if requests can succeed; temporary problems are left to the retries, unless `strict`.

    Raises:
        SourceError: no request can succeed on this machine, now or later (`strict`: now).
    """
    if transport.by_rest(config):
        rest.connect(config)
        _find_socket(config.slurm.rest_url or "")
        return
    try:
        run(runner, COMMAND, hint=WITHOUT_SLURM)
    except SourceMissingError:
        raise NoSlurmError(COMMAND) from None
    except SourceDownError as error:
        if strict or any(words in str(error).lower() for words in NEVER):
            raise


def _find_socket(url: str) -> None:
    """Raise ServerDownError if a socket is configured and is not there."""
    if not url.startswith(UNIX):
        return
    try:
        is_socket, problem = stat.S_ISSOCK(Path(url.removeprefix(UNIX)).stat().st_mode), "is no socket."
    except FileNotFoundError:
        is_socket, problem = False, "is not there: no such socket."
    except OSError as error:
        is_socket, problem = False, f"cannot be found: {error.strerror}."
    if not is_socket:
        raise ServerDownError(
            url,
            problem,
            "slurmrestd does not run here, or listens elsewhere (systemctl cat slurmrestd shows where): rest_url\n"
            f"under [slurm] in the configuration has to be its address.\n{WITHOUT_SLURM}",
        )
