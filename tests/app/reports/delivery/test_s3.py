"""Delivery to a server of S3's protocol: objects whole with their types, the list of them last, refusals, secrets."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any

import pytest
from obstore.store import S3Store

from tests.app.reports.delivery.test_delivery import Post, document  # noqa: F401 - the fixture
from tests.lab.processes import claim_ports

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

BUCKET = "reports"
DEADLINE_S = 120.0
LOGIN = {"Authorization": "AWS4-HMAC-SHA256 Credential=an-access-key/20260101/us-east-1/s3/aws4_request"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of moto's server, with a bucket."""
    log = tmp_path_factory.mktemp("s3") / "log"
    port, claimed = claim_ports(1)
    with claimed, log.open("wb") as out:
        command = [sys.executable, "-W", "ignore", "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
        process = subprocess.Popen(command, stdout=out, stderr=out)
        try:
            url = f"http://127.0.0.1:{port}"
            _await(f"{url}/moto-api/", process, log)
            request = urllib.request.Request(f"{url}/{BUCKET}", method="PUT", headers=LOGIN)
            urllib.request.urlopen(request, timeout=DEADLINE_S).close()
            yield url
        finally:
            process.kill()
            process.wait()


def _await(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    """Return when the server answers."""
    until = time.monotonic() + DEADLINE_S
    while time.monotonic() < until and process.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=DEADLINE_S):
                return
        except urllib.error.HTTPError as error:
            error.close()
            return
        except OSError:
            time.sleep(0.05)
    pytest.fail(log.read_text(errors="replace"))


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("S3_KEY", "an-access-key")
    monkeypatch.setenv("S3_SECRET", "hunter2-of-s3")


def target(server: str, **more: str) -> dict[str, Any]:
    keys = {"access_key_env": "S3_KEY", "secret_key_env": "S3_SECRET"}
    return {"s3": [{"name": "bucket", "bucket": BUCKET, "endpoint": server, **keys, **more}]}


def store(server: str) -> S3Store:
    return S3Store(
        BUCKET,
        endpoint=server,
        region="us-east-1",
        access_key_id=os.environ["S3_KEY"],
        secret_access_key=os.environ["S3_SECRET"],
        client_options={"allow_http": True},
    )


@pytest.mark.slow
def test_objects_arrive_whole_with_types(tmp_path: Path, document: dict[str, Any], server: str) -> None:  # noqa: F811 - the fixture
    post = Post(tmp_path, document, target(server, prefix="trackside/sla"))
    assert post.outcomes() == {"bucket": ("delivered", 1, None)}
    folder = f"trackside/sla/{post.made.key}"
    there = store(server)
    found = {each["path"].removeprefix(f"{folder}/"): there.get(each["path"]) for each in there.list(folder).collect()}
    assert found.keys() == {"a.pdf", "a.json", "manifest.json"}
    kinds = {name: each.attributes["Content-Type"] for name, each in found.items()}
    assert kinds == {"a.pdf": "application/pdf", "a.json": "application/json", "manifest.json": "application/json"}
    contents = {name: bytes(each.bytes()) for name, each in found.items()}
    assert contents["a.json"] == (post.outbox.folder_of(post.made.key) / "a.json").read_bytes()
    manifest = json.loads(contents["manifest.json"])
    assert (manifest["key"], manifest["files"].keys()) == (post.made.key, {"a.pdf", "a.json"})


def test_a_second_delivery_leaves_the_same_objects(tmp_path: Path, document: dict[str, Any], server: str) -> None:  # noqa: F811 - the fixture
    post = Post(tmp_path, document, target(server, prefix="again"))
    post.outcomes()
    before = {each["path"]: each["e_tag"] for each in store(server).list("again").collect()}
    assert post.sender.send(post.made, "bucket").outcome == "delivered"
    assert {each["path"]: each["e_tag"] for each in store(server).list("again").collect()} == before
    assert len(before) == 3


def test_a_missing_bucket_is_refused_at_once(tmp_path: Path, document: dict[str, Any], server: str) -> None:  # noqa: F811 - the fixture
    post = Post(tmp_path, document, target(server, bucket="no-such-bucket"))
    outcome, tries, reason = post.outcomes()["bucket"]
    assert (outcome, tries) == ("dead", 1)
    assert str(reason).startswith("no-such-bucket: ")


@pytest.mark.slow
def test_a_server_that_is_gone_is_tried_again(tmp_path: Path, document: dict[str, Any]) -> None:  # noqa: F811 - the fixture
    port, claimed = claim_ports(1)
    with claimed:
        post = Post(tmp_path, document, target(f"http://127.0.0.1:{port}"))
        outcome, tries, reason = post.outcomes()["bucket"]
    assert (outcome, tries) == ("dead", 3)
    assert "hunter2" not in str(reason)
    assert "an-access-key" not in str(reason)
