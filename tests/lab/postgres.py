"""A real PostgreSQL on loopback, in a folder of its own, as a user that is not root. Up in a second.

with PostgresLab(base=folder) as postgres:
    words = postgres.new_database()
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import uuid
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Self

from tests.lab.needed import need
from tests.lab.processes import LabError, claim_ports

if TYPE_CHECKING:
    from collections.abc import Sequence

PROGRAMS = ("initdb", "postgres", "pg_ctl")
USER = "trackside"
_NOT_ROOT = "nobody"


def _program(name: str) -> str | None:
    """Debian has the programs of each version in a folder of its own, which is not searched."""
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return shutil.which(name, path=os.pathsep.join([*map(str, folders), os.environ.get("PATH", "")]))


def missing() -> list[str]:
    """Programs that are not on this machine."""
    return [name for name in PROGRAMS if _program(name) is None]


def need_postgres() -> None:
    """Skip the test where there is no PostgreSQL; fail it where nothing may be skipped."""
    need("PostgreSQL", missing())


@dataclass
class PostgresLab:
    """One PostgreSQL that trusts everybody on loopback, and survives no power cut."""

    base: Path
    port: int = 0
    _stack: ExitStack = field(default_factory=ExitStack)

    def __enter__(self) -> Self:
        need_postgres()
        (self.port, *_), claimed = claim_ports(1)[0:1], None  # placeholder
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()
