"""Address and credentials of an API server: a kubeconfig, or the service account of the pod that we run in.

Only two kinds of request are needed, and our own readers decode the answers. So the HTTP library that other sources use
sends them, instead of the official client, which would add a dozen dependencies and types for every kind of object.

Source: the Kubernetes documentation, "Organizing Cluster Access Using kubeconfig Files", "client-go credential
plugins", "Accessing the Kubernetes API from a Pod".
"""

from __future__ import annotations

import base64
import binascii
import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from ingest.errors import OptionError
from ingest.files.yaml_documents import documents
from ingest.http_address import without_secrets

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where a pod finds its service account's token and the authority of the API server's certificate."""

PLUGIN_S: Final = 60.0
"""Seconds that a credential plugin may take."""


@dataclass(frozen=True)
class ApiServer:
    """An API server and our credentials.

    Attributes:
        server: its address.
        authority: certificates in PEM that its own must come from; None: those of the system.
        verify: whether its certificate is checked.
        certificate: ours, with the key, in PEM.
        token: returns the current token; None: there is none. Called again after the server has refused one.
    """

    server: str
    authority: bytes | None = field(default=None, repr=False)
    verify: bool = True
    certificate: bytes | None = field(default=None, repr=False)
    token: Callable[[], str | None] = field(default=lambda: None, repr=False)


def in_cluster(environment: Mapping[str, str] = os.environ, folder: Path = ACCOUNT) -> ApiServer:
    """The service account of this pod. Its token is replaced about every hour, so it is read again each time.

    Raises:
        OptionError: this is no pod with a service account.
    """
    host, port = environment.get("KUBERNETES_SERVICE_HOST"), environment.get("KUBERNETES_SERVICE_PORT", "443")
    token, authority = folder / "token", folder / "ca.crt"
    if not host or not token.is_file():
        message = "not in a pod with a service account; name a kubeconfig (--kubeconfig)"
        raise OptionError(message)
    server = f"https://{f'[{host}]' if ':' in host else host}:{port}"
    return ApiServer(server, authority.read_bytes() if authority.is_file() else None, token=_of_file(token))


def from_kubeconfig(files: list[Path], context: str | None = None) -> ApiServer:
    """The cluster and user of a context.

    Args:
        files: several are one, in which the first entry of a name counts.
        context: its name; None: the current one.

    Raises:
        OptionError: a file cannot be used, or has no such context, cluster or user.
    """
    entries = [(file.parent, _read(file)) for file in files]
    name = context or next((text for _, config in entries if (text := config.get("current-context"))), None)
    if not name:
        names = ", ".join(sorted({str(one.get("name")) for _, config in entries for one in _list(config, "contexts")}))
        message = f"{files[0]} has no current context; name one with --context: {names or 'there is none'}"
        raise OptionError(message)
    _, chosen = _entry(entries, "contexts", str(name), files[0])
    folder, cluster = _entry(entries, "clusters", str(chosen.get("cluster")), files[0])
    home, user = _entry(entries, "users", str(chosen.get("user")), files[0])
    server = str(cluster.get("server") or "")
    if not server.startswith(("https://", "http://")):
        message = f"{files[0]}: the server of context {name} is no address: {without_secrets(server)!r}"
        raise OptionError(message)
    certificate, key = _pem(user, "client-certificate", home), _pem(user, "client-key", home)
    return ApiServer(
        server.rstrip("/"),
        _pem(cluster, "certificate-authority", folder),
        verify=not cluster.get("insecure-skip-tls-verify"),
        certificate=certificate + b"\n" + key if certificate and key else None,
        token=_token(user, home),
    )


def _read(file: Path) -> dict[str, Any]:
    try:
        first = next(iter(documents(file.read_bytes(), origin=str(file))), None)
    except OSError as error:
        message = f"{file}: {error.strerror or error}"
        raise OptionError(message) from None
    except ValueError as error:
        raise OptionError(str(error)) from None
    if not isinstance(first, dict) or "clusters" not in first:
        message = f"{file} is no kubeconfig: it names no clusters"
        raise OptionError(message)
    return first


def _list(config: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    entries = config.get(kind)
    return [one for one in entries if isinstance(one, dict)] if isinstance(entries, list) else []


def _entry(entries: list[tuple[Path, dict[str, Any]]], kind: str, name: str, file: Path) -> tuple[Path, dict[str, Any]]:
    """The first entry of that name, and the folder that its paths start from."""
    for folder, config in entries:
        for one in _list(config, kind):
            value = one.get(kind.removesuffix("s"))
            if one.get("name") == name and isinstance(value, dict):
                return folder, value
    names = ", ".join(sorted({str(one.get("name")) for _, config in entries for one in _list(config, kind)}))
    message = f"{file} has no {kind.removesuffix('s')} {name!r}; it has {names or 'none'}"
    raise OptionError(message)


def _pem(entry: dict[str, Any], name: str, folder: Path) -> bytes | None:
    """Certificates or a key: in the entry itself, or in the file that it names."""
    try:
        if data := entry.get(f"{name}-data"):
            return base64.b64decode(str(data), validate=True)
        return (folder / str(path)).read_bytes() if (path := entry.get(name)) else None
    except binascii.Error:
        message = f"kubeconfig: {name}-data is not base64"
        raise OptionError(message) from None
    except OSError as error:
        message = f"kubeconfig: {name}: {error.strerror or error}"
        raise OptionError(message) from None


def _token(user: dict[str, Any], folder: Path) -> Callable[[], str | None]:
    if plugin := user.get("exec"):
        return _of_plugin(plugin if isinstance(plugin, dict) else {}, folder)
    if path := user.get("tokenFile"):
        return _of_file(folder / str(path))
    token = user.get("token")
    return lambda: str(token) if token else None


def _of_file(path: Path) -> Callable[[], str]:
    def read() -> str:
        try:
            return path.read_text(encoding="utf-8").strip()
        except OSError as error:
            message = f"token {path}: {error.strerror or error}"
            raise OptionError(message) from None

    return read


def _of_plugin(plugin: dict[str, Any], folder: Path) -> Callable[[], str]:
    """The token that a command of the kubeconfig prints, such as a cloud's."""
    command = str(plugin.get("command") or "")
    program = str(folder / command) if "/" in command else command
    arguments = [str(one) for one in plugin.get("args") or ()]
    added = {str(one.get("name")): str(one.get("value")) for one in plugin.get("env") or () if isinstance(one, dict)}
    version = str(plugin.get("apiVersion") or "client.authentication.k8s.io/v1")
    request = {"apiVersion": version, "kind": "ExecCredential", "spec": {"interactive": False}}

    def run() -> str:
        environment = {**os.environ, **added, "KUBERNETES_EXEC_INFO": msgspec.json.encode(request).decode()}
        try:
            done = subprocess.run(  # the command that the kubeconfig names, as kubectl runs it
                [program, *arguments], env=environment, capture_output=True, timeout=PLUGIN_S, check=True,
                stdin=subprocess.DEVNULL,
            )  # fmt: skip
            return str(msgspec.json.decode(done.stdout)["status"]["token"])
        except (OSError, subprocess.SubprocessError, ValueError, KeyError, TypeError) as error:
            message = f"the credential plugin {command!r} of the kubeconfig returned no token ({type(error).__name__})"
            raise OptionError(message) from None

    return run
