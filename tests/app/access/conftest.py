"""An application with one page behind the door, and a real OpenID provider."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest
import requests
from flask import Flask, request

from app.access import people
from app.access.guard import saw
from app.access.protect import protect
from app.config.access import Access
from tests.lab.processes import claim_ports

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PROXY = "127.0.0.1"


def headers_believed(**more: Any) -> Access:
    return Access(login="header", proxies=(PROXY,), **more)


def application(access: Access, folder: Path) -> Flask:
    """`GET /page` and `POST /change` answer with who asks."""
    made = Flask("behind")

    @made.get("/page")
    def page() -> str:
        saw("see", path="/page")
        return who()

    @made.post("/change")
    def change() -> str:
        saw("change", what="x")
        return who()

    @made.post("/read")
    def read() -> str:
        return str(len(request.get_data()))

    @made.get("/healthz")
    @made.get("/metrics")
    def health() -> str:
        return who()

    protect(made, access, folder / "warehouse")
    return made


def who() -> str:
    person = people.current()
    return f"{person.name}:{person.role.name}:{','.join(person.accounts)}"


def audited(folder: Path) -> list[dict[str, Any]]:
    """The lines of the audit log."""
    return [json.loads(line) for line in (folder / "trackside-audit.jsonl").read_text("utf-8").splitlines()]


@contextlib.contextmanager
def provider(*people_there: dict[str, Any]) -> Iterator[str]:
    """A real provider in a process of its own, which knows these people by their claims; its address."""
    port, claimed = claim_ports(1)
    known = [part for each in people_there for part in ("--user-claims", json.dumps(each))]
    command = [sys.executable, "-W", "ignore", "-m", "oidc_provider_mock", "--port", str(port), "-n", "true", *known]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}"
    try:
        wait_for(url, process)
        yield url
    finally:
        process.kill()
        process.wait()
        claimed.close()


def wait_for(url: str, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + 60
    while True:
        assert process.poll() is None, "the provider ended"
        with contextlib.suppress(requests.RequestException):
            if requests.get(f"{url}/.well-known/openid-configuration", timeout=5).ok:
                return
        assert time.monotonic() < end, "the provider never answered"
        time.sleep(0.1)


ADA = {"sub": "1", "preferred_username": "ada", "groups": ["ops", "slurm-vision"]}
EVE = {"sub": "2", "preferred_username": "eve", "groups": []}


@pytest.fixture(scope="session")
def issuer() -> Iterator[str]:
    """A provider that knows an operator and a viewer, and somebody whose name is no name."""
    nameless = {"sub": "3", "preferred_username": "x, ada", "groups": ["ops"]}
    with provider(ADA, EVE, nameless) as url:
        yield url
