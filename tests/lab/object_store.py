"""A server of S3's protocol on loopback (moto), with one bucket.

with ObjectStore(base=folder) as store:
    print(store.url, store.environment)
"""

from __future__ import annotations

import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from tests.lab.processes import LabError, claim_ports

if TYPE_CHECKING:
    from pathlib import Path

BUCKET = "lake"
_DEADLINE_S = 120.0
_LOGIN = {"Authorization": "AWS4-HMAC-SHA256 Credential=an-access-key/20260101/us-east-1/s3/aws4_request"}


@dataclass
class ObjectStore:
    """One server; its objects are in its memory."""

    base: Path
    url: str = ""
    _stack: ExitStack = field(default_factory=ExitStack)

    def __enter__(self) -> Self:
        port, claimed = claim_ports(1)
        self._stack.enter_context(claimed)
        self.url = f"http://127.0.0.1:{port}"
        log = self._stack.enter_context((self.base / "log").open("wb"))
        command = [sys.executable, "-W", "ignore", "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
        process = subprocess.Popen(command, stdout=log, stderr=log)
        self._stack.callback(process.wait)
        self._stack.callback(process.kill)
        self._await(process)
        request = urllib.request.Request(f"{self.url}/{BUCKET}", method="PUT", headers=_LOGIN)
        urllib.request.urlopen(request, timeout=_DEADLINE_S).close()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def environment(self) -> dict[str, str]:
        """What has to be in the environment of whoever uses it."""
        return {
            "AWS_ACCESS_KEY_ID": "an-access-key",
            "AWS_SECRET_ACCESS_KEY": "hunter2-of-s3",
            "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": self.url,
        }

    def _await(self, process: subprocess.Popen[bytes]) -> None:
        until = time.monotonic() + _DEADLINE_S
        while time.monotonic() < until and process.poll() is None:
            try:
                with urllib.request.urlopen(f"{self.url}/moto-api/", timeout=_DEADLINE_S):
                    return
            except urllib.error.HTTPError as error:
                error.close()
                return
            except OSError:
                time.sleep(0.05)
        message = f"the server of objects did not start: {(self.base / 'log').read_text(errors='replace')}"
        raise LabError(message)
