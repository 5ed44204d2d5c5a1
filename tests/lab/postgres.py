"""A real PostgreSQL on loopback, in a folder of its own, as a user that is not root. Up in a second.

with PostgresLab(base=folder) as postgres:
    words = postgres.new_database()
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import uuid
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from tests.lab.needed import need
from tests.lab.processes import LabError, claim_ports

PROGRAMS = ("initdb", "postgres", "pg_ctl", "psql")
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
    """One PostgreSQL that trusts everybody on loopback, and is as durable as its process."""

    base: Path
    port: int = 0
    _stack: ExitStack = field(default_factory=ExitStack)

    def __enter__(self) -> Self:
        need_postgres()
        self.port, claimed = claim_ports(1)
        self._stack.enter_context(claimed)
        self.base.mkdir(parents=True, exist_ok=True)
        if os.getuid() == 0:
            number = pwd.getpwnam(_NOT_ROOT)
            os.chown(self.base, number.pw_uid, number.pw_gid)
        self._run("initdb", "-U", USER, "-A", "trust", "-E", "UTF8", "--no-sync")
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop("immediate")
        self._stack.close()

    def start(self) -> None:
        """Start it, and return when it answers."""
        options = f"-p {self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c fsync=off"
        self._run("pg_ctl", "-w", "-o", options, "-l", str(self.base / "log"), "start")

    def stop(self, mode: str = "fast") -> None:
        """Stop it: `fast` ends its connections, `immediate` is as a crash."""
        if (self.base / "data/postmaster.pid").exists():
            self._run("pg_ctl", "-w", "-m", mode, "stop")

    def new_database(self) -> str:
        """The words of libpq for a new, empty database."""
        name = f"lake_{uuid.uuid4().hex[:12]}"
        self.execute(f"CREATE DATABASE {name}")
        return f"dbname={name} host=127.0.0.1 port={self.port} user={USER}"

    def execute(self, sql: str) -> None:
        """Run a statement in the database `postgres`."""
        psql = _program("psql")
        assert psql is not None
        address = ["-h", "127.0.0.1", "-p", str(self.port), "-U", USER, "-d", "postgres"]
        subprocess.run([psql, "-q", "-X", *address, "-c", sql], check=True, capture_output=True)

    def _run(self, program: str, *arguments: str, check: bool = True) -> None:
        path = _program(program)
        assert path is not None
        command = [path, "-D", str(self.base / "data"), *arguments]
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            cwd="/",
            user=_NOT_ROOT if os.getuid() == 0 else None,
            stdin=subprocess.DEVNULL,
        )
        if check and done.returncode:
            message = f"{program} failed: {done.stdout}{done.stderr}"
            raise LabError(message)
