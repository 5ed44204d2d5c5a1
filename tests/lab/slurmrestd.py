"""A cluster that also answers REST over TCP to who brings a token, as a site with slurmrestd behind a port does.

The plain `SlurmLab` has a slurmrestd on a unix socket, where the kernel tells who asks. `RestLab` adds Slurm's JWT
plugin (Debian: slurm-wlm-jwt-plugin) to the configuration and a second slurmrestd on a port of loopback.
"""

import os
import signal
from pathlib import Path

from tests.lab.cluster import SlurmLab, missing
from tests.lab.config import NODES
from tests.lab.processes import claim_ports

PLUGIN = "/usr/lib/*/slurm-wlm/auth_jwt.so"


def missing_for_rest() -> list[str]:
    """What this machine lacks for a lab with tokens; empty when one can be started."""
    there = any(Path("/").glob(PLUGIN.removeprefix("/")))
    return missing() + ([] if there else ["slurm-wlm-jwt-plugin"])


class RestLab(SlurmLab):
    """A cluster with tokens. `url` is the base address of its REST API over TCP, `unix` that of its socket."""

    def __init__(self, *, keep: bool = False) -> None:
        super().__init__(keep=keep)
        self.port = 0

    @property
    def url(self) -> str:
        """Where slurmrestd listens on TCP; it wants a token."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def unix(self) -> str:
        """Where slurmrestd listens on a socket; it needs no token."""
        return f"unix:{self.layout.rest_socket}"

    def token(self, user: str = "root", *, lifespan_s: int = 3600) -> str:
        """A token by which slurmrestd takes somebody for that user."""
        shown = self.scontrol("token", f"username={user}", f"lifespan={lifespan_s}")
        return shown.strip().removeprefix("SLURM_JWT=")

    def _make_etc(self) -> None:
        super()._make_etc()
        key = self.base / "etc/jwt.key"
        key.write_bytes(os.urandom(32))
        key.chmod(0o600)
        for name in ("slurm.conf", "slurmdbd.conf"):
            with (self.base / "etc" / name).open("a") as file:
                file.write(f"AuthAltTypes=auth/jwt\nAuthAltParameters=jwt_key={key}\n")

    def _start(self) -> None:
        super()._start()
        self.port, lock = claim_ports(1)
        self._claims.append(lock)
        self.start_rest("slurmrestd-tcp")

    def freeze_rest(self, name: str = "slurmrestd-tcp") -> None:
        """Let a slurmrestd take questions and answer none, until it is killed."""
        os.kill(self._daemons[name].process.pid, signal.SIGSTOP)

    def kill_rest(self, name: str = "slurmrestd-tcp") -> None:
        """The slurmrestd dies at once."""
        self._daemons.pop(name).kill()

    def stop_slurmctld(self) -> None:
        """End slurmctld as an admin would; it saves its state."""
        self._daemons.pop("slurmctld").stop()

    def start_slurmctld(self) -> None:
        """Start slurmctld again, and wait until it and all nodes answer."""
        self._start_slurmctld()
        self._await_nodes(NODES)

    def start_rest(self, name: str = "slurmrestd-tcp") -> None:
        """Start a slurmrestd and wait until it answers."""
        if name == "slurmrestd":
            self.layout.rest_socket.unlink(missing_ok=True)
            self._start_slurmrestd()
            return
        command = [
            *("slurmrestd", "-a", "rest_auth/jwt", "-s", "openapi/v0.0.38,openapi/dbv0.0.38"),
            f"127.0.0.1:{self.port}",
        ]
        # Without a token of its own it would speak with slurmctld by munge, as root, whoever asks.
        self._start_daemon(name, command, {"SLURMRESTD_SECURITY": "disable_user_check", "SLURM_JWT": "daemon"})
        self._await_ready(name, lambda: self._succeeds("bash", "-c", f"exec 3<>/dev/tcp/127.0.0.1/{self.port}"))
