"""A real API server of Kubernetes on loopback, with etcd: nothing runs in it, so a script moves its objects.

with ApiServerLab() as lab:
    lab.apply("/api/v1/namespaces", {"kind": "Namespace", ...})
"""

from __future__ import annotations

import json
import os
import shutil
import ssl
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pytest
import yaml

from tests import tiers
from tests.lab import reaper
from tests.lab.config import Layout
from tests.lab.processes import STOPPED, Daemon, LabError, claim_ports, tail, wait_until

if TYPE_CHECKING:
    import socket
    from types import TracebackType

BUILT = Path("/opt/trackside-lab/kubernetes")
"""Where tests/lab/apiserver/build.sh puts the program and the CRDs."""

ADMIN = "admin-of-the-lab"


def need_api_server() -> None:
    """Skip the test where the server was not built: it takes minutes, so `make test REAL=1` does not do it."""
    if not tiers.real_components_wanted():
        pytest.skip("real API server; run it with: make test REAL=1")
    lacking = [name for name in ("etcd", "openssl") if shutil.which(name) is None]
    if lacking or not (BUILT / ".complete").exists():
        pytest.skip(f"no API server of Kubernetes ({', '.join(lacking) or 'not built'}); get it with: make apiserver")


@dataclass
class ApiServerLab:
    """etcd and kube-apiserver, below a directory of their own that goes with them."""

    base: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="trackside-kubernetes-")))
    _port: int = 0
    _lock: socket.socket | None = None
    _reaper: subprocess.Popen[bytes] | None = None
    _daemons: dict[str, Daemon] = field(default_factory=dict)

    def __enter__(self) -> Self:
        (self.base / "log").mkdir()
        self._port, self._lock = claim_ports(3)
        self._reaper = reaper.start(self.base)
        key, public = self.base / "account.key", self.base / "account.pub"
        subprocess.run(["openssl", "genrsa", "-out", str(key), "2048"], check=True, capture_output=True)
        command = ["openssl", "rsa", "-in", str(key), "-pubout", "-out", str(public)]
        subprocess.run(command, check=True, capture_output=True)
        (self.base / "tokens.csv").write_text(f'{ADMIN},admin,admin,"system:masters"\n')
        self._start("etcd", self._etcd())
        self.start()
        for file in sorted((BUILT / "crds").glob("*.yaml")):
            self.create_crd(file.read_bytes())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for daemon in self._daemons.values():
            daemon.kill()
        if self._reaper is not None:
            self._reaper.communicate(STOPPED)
        if self._lock is not None:
            self._lock.close()
        shutil.rmtree(self.base, ignore_errors=True)

    @property
    def url(self) -> str:
        """Its address."""
        return f"https://127.0.0.1:{self._port}"

    @property
    def authority(self) -> Path:
        """The certificate that it made for itself."""
        return self.base / "certificates" / "apiserver.crt"

    def start(self) -> None:
        """Start the API server (again), and wait until it answers."""
        self._start("kube-apiserver", self._api_server())
        wait_until(self._ready, 120, f"kube-apiserver to be ready\n{tail(self.base / 'log' / 'kube-apiserver.out')}")

    def kill(self) -> None:
        """End the API server with SIGKILL; etcd goes on."""
        self._daemons["kube-apiserver"].kill()

    def compact(self) -> None:
        """Have etcd forget all that was, as it does by itself every five minutes."""
        revision = self._etcd_call("/v3/kv/range", {"key": "AA=="})["header"]["revision"]
        self._etcd_call("/v3/kv/compaction", {"revision": revision, "physical": True})

    def call(self, method: str, path: str, body: object = None, *, patch: bool = False) -> Any:
        """A request as administrator; the decoded answer.

        Raises:
            LabError: the server refused it.
        """
        kind = "application/merge-patch+json" if patch else "application/json"
        headers = {"Authorization": f"Bearer {ADMIN}", "Content-Type": kind}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=30, context=self._tls()) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            raise LabError(f"{method} {path}: {error.code} {error.read()[-1500:]!r}") from None

    def create(self, path: str, body: object) -> Any:
        """Create an object; as the server has it."""
        return self.call("POST", path, body)

    def patch(self, path: str, body: object) -> Any:
        """Change an object; as the server has it."""
        return self.call("PATCH", path, body, patch=True)

    def create_crd(self, text: bytes) -> None:
        """Install a kind, and wait until the server has it."""

        body = yaml.load(text, Loader=yaml.CSafeLoader)
        base = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        self.create(base, body)

        def established() -> bool:
            now = self.call("GET", f"{base}/{body['metadata']['name']}")
            conditions = (now.get("status") or {}).get("conditions") or ()
            return any(one["type"] == "Established" and one["status"] == "True" for one in conditions)

        wait_until(established, 30, f"{body['metadata']['name']} to be there")

    def _ready(self) -> bool:
        daemon = self._daemons["kube-apiserver"]
        if not daemon.alive:
            raise LabError(daemon.why_dead())
        try:
            return bool(self.call("GET", "/api/v1/namespaces/default")) and self._is_ready()
        except (LabError, OSError):
            return False

    def _is_ready(self) -> bool:
        request = urllib.request.Request(self.url + "/readyz", headers={"Authorization": f"Bearer {ADMIN}"})
        with urllib.request.urlopen(request, timeout=5, context=self._tls()) as answer:
            return bool(answer.status == 200)

    def _tls(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.authority))

    def _etcd_call(self, path: str, body: object) -> Any:
        request = urllib.request.Request(f"http://127.0.0.1:{self._port + 1}{path}", json.dumps(body).encode())
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)

    def _start(self, name: str, argv: tuple[str, ...]) -> None:
        ledger = Layout(self.base).ledger
        ledger.parent.mkdir(parents=True, exist_ok=True)
        log = self.base / "log" / f"{name}.log"
        environment = {**os.environ, "GOMAXPROCS": "2"}
        self._daemons[name] = Daemon.start(name, argv, log=log, env=environment, ledger=ledger)

    def _etcd(self) -> tuple[str, ...]:
        client, peer = (f"http://127.0.0.1:{self._port + number}" for number in (1, 2))
        return (
            "etcd", "--data-dir", str(self.base / "etcd"), "--unsafe-no-fsync", "--logger", "zap",
            "--listen-client-urls", client, "--advertise-client-urls", client, "--listen-peer-urls", peer,
            "--initial-advertise-peer-urls", peer, "--initial-cluster", f"default={peer}",
        )  # fmt: skip

    def _api_server(self) -> tuple[str, ...]:
        return (
            str(BUILT / "kube-apiserver"),
            f"--etcd-servers=http://127.0.0.1:{self._port + 1}",
            f"--secure-port={self._port}",
            "--bind-address=127.0.0.1",
            f"--cert-dir={self.base / 'certificates'}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={self.base / 'account.pub'}",
            f"--service-account-signing-key-file={self.base / 'account.key'}",
            f"--token-auth-file={self.base / 'tokens.csv'}",
            "--authorization-mode=RBAC",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--disable-admission-plugins=ServiceAccount",
            "--feature-gates=DynamicResourceAllocation=true",
            "--runtime-config=resource.k8s.io/v1beta1=true,resource.k8s.io/v1beta2=true",
        )


def stamp(at: float | None = None) -> str:
    """A time as Kubernetes writes it."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))
