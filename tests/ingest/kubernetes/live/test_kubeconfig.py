"""Kubeconfigs: contexts, relative paths, certificates, tokens of files and of plugins; and pods' service accounts."""

from __future__ import annotations

import base64
import sys
from typing import TYPE_CHECKING

import pytest
import yaml

from ingest.errors import OptionError
from ingest.kubernetes.live.client import KubernetesClient
from ingest.kubernetes.live.kubeconfig import from_kubeconfig, in_cluster

if TYPE_CHECKING:
    from pathlib import Path


def written(folder: Path, user: dict[str, object], **cluster: object) -> Path:
    """A kubeconfig with one context."""
    config = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "me"}}],
        "clusters": [{"name": "k", "cluster": {"server": "https://k:6443/", **cluster}}],
        "users": [{"name": "me", "user": user}],
    }
    file = folder / "config"
    file.write_text(yaml.safe_dump(config))
    return file


def test_context_names_server_authority_and_token(tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_text("authority")
    login = from_kubeconfig([written(tmp_path, {"token": "t"}, **{"certificate-authority": "ca.crt"})])
    assert (login.server, login.authority, login.verify, login.token()) == ("https://k:6443", b"authority", True, "t")
    assert "t'" not in repr(login)


def test_certificates_may_stand_in_the_file(tmp_path: Path) -> None:
    data = {name: base64.b64encode(name.encode()).decode() for name in ("cert", "key", "ca")}
    user: dict[str, object] = {"client-certificate-data": data["cert"], "client-key-data": data["key"]}
    authority = {"certificate-authority-data": data["ca"], "insecure-skip-tls-verify": True}
    login = from_kubeconfig([written(tmp_path, user, **authority)])
    assert (login.certificate, login.authority, login.verify, login.token()) == (b"cert\nkey", b"ca", False, None)


def test_token_of_a_file_and_of_a_plugin_is_the_present_one(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("first\n")
    login = from_kubeconfig([written(tmp_path, {"tokenFile": "token"})])
    assert login.token() == "first"
    (tmp_path / "token").write_text("second")
    assert login.token() == "second"
    program = (
        "import os, json; who = os.environ['WHO'] + json.loads(os.environ['KUBERNETES_EXEC_INFO'])['kind'];"
        "print(json.dumps({'status': {'token': who}}))"
    )
    plugin = {"command": sys.executable, "args": ["-c", program], "env": [{"name": "WHO", "value": "me"}]}
    assert from_kubeconfig([written(tmp_path, {"exec": plugin})]).token() == "meExecCredential"


def test_plugin_without_a_token_is_named_and_its_output_is_not(tmp_path: Path) -> None:
    plugin = {"command": sys.executable, "args": ["-c", "print('hunter2')"]}
    with pytest.raises(OptionError, match="returned no token") as raised:
        from_kubeconfig([written(tmp_path, {"exec": plugin})]).token()
    assert "hunter2" not in str(raised.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1", "no kubeconfig"),
        ("clusters: [", "line 2"),
        ("clusters: []", "no current context"),
        ("clusters: []\ncurrent-context: x", "no context 'x'"),
        ("clusters: []\ncurrent-context: x\ncontexts: [{name: x, context: {cluster: y}}]", "no cluster 'y'"),
    ],
)
def test_kubeconfig_that_cannot_be_used_says_why(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "config").write_text(text)
    with pytest.raises(OptionError, match=message):
        from_kubeconfig([tmp_path / "config"])


def test_service_account_of_a_pod_has_a_new_token_each_hour(tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_text("authority")
    (tmp_path / "token").write_text("t")
    environment = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
    login = in_cluster(environment, tmp_path)
    assert (login.server, login.token()) == ("https://[fd00::1]:443", "t")
    (tmp_path / "token").write_text("u")
    assert login.token() == "u"
    with pytest.raises(OptionError, match="not in a pod"):
        in_cluster({}, tmp_path)


def test_damaged_certificates_are_refused_with_their_server(tmp_path: Path) -> None:
    data = base64.b64encode(b"no certificate").decode()
    for entry in ({"certificate-authority-data": data}, {}):
        user: dict[str, object] = {"client-certificate-data": data, "client-key-data": data}
        login = from_kubeconfig([written(tmp_path, user, **entry)])
        with pytest.raises(OptionError, match="certificates of https://k:6443"):
            KubernetesClient(login, timeout_s=1, retries=0)
