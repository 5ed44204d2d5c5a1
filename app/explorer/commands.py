"""Commands that pages offer: wherever they are pasted, they read the same warehouse by the same configuration."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Final

from queries.lake.address import address_of

if TYPE_CHECKING:
    from pathlib import Path

    from app.config.settings import Config

OF_NO_WAREHOUSE: Final = frozenset(
    {
        "completion",
        "demo",
        "docs",
        "fleet",
        "help",
        "manifests",
        "recorder",
        "reproduce",
        "simulate",
        "warehouse",
        "worker",
    }
)
"""Verbs without --warehouse: nothing is added to them."""

_COMMAND: Final = re.compile(r"""\btrackside ([a-z]+)(?:'[^'\n]*'|"[^"\n]*"|[^'"\n#&|>;])*""")
"""A command up to what a shell ends it by; quoted, `&` and the like belong to a name."""


def options_of(root: Path, settings: Config) -> str:
    """Options that name a warehouse and the configuration it is read by, for a shell in any folder.

    Args:
        root: the warehouse directory, or a lake.
        settings: the configuration; none is named where it is from no file.
    """
    place = address_of(root) or root.absolute()
    file = [] if settings.file is None else ["--config", str(settings.file)]
    return shlex.join(["--warehouse", str(place), *file])


def completed(text: str, options: str) -> str:
    """A text with these options in each command of it that reads a warehouse.

    >>> completed("trackside show nodes && trackside docs", "--warehouse /data")
    'trackside show nodes --warehouse /data && trackside docs'
    """
    return _COMMAND.sub(lambda command: _with(command[0], command[1], options), text) if options else text


def _with(command: str, verb: str, options: str) -> str:
    typed = command.rstrip()
    if verb in OF_NO_WAREHOUSE or typed.endswith("--help"):
        return command
    return f"{typed} {options}{command[len(typed) :]}"
