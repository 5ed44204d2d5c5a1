"""The Prometheus server that the configuration names."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ingest.errors import OptionError
from ingest.http_address import NO_ADDRESS, is_address
from ingest.prometheus.client.auth import CertificateError, Login
from ingest.prometheus.client.server import PrometheusServer

if TYPE_CHECKING:
    from ingest.prometheus.settings import Prometheus, TelemetrySettings


def connect(settings: TelemetrySettings, url: str | None = None) -> PrometheusServer:
    """The server that is configured, or that of an address.

    Raises:
        OptionError: there is no address, it is none, a secret's variable is not set, or a certificate cannot be used.
    """
    section = settings.prometheus
    address = url or section.url
    if address is None:
        raise OptionError(
            "no Prometheus server is configured.\nSet its address: --url http://prometheus:9090, or url in the section "
            "[prometheus] of trackside.toml; or load files: trackside ingest prometheus FILE"
        )
    if not is_address(address):
        raise OptionError(NO_ADDRESS)
    return PrometheusServer(
        address,
        login=_login(section),
        timeout_s=section.timeout_s,
        retries=section.retries,
        remote_read=section.remote_read,
        concurrency=section.concurrency,
    )


def _login(section: Prometheus) -> Login:
    """Credentials for the server; secrets come from the environment."""
    login = Login(
        token=_secret("token_env", section.token_env) if section.token_env else None,
        user=section.username,
        password=_secret("password_env", section.password_env, ascii_only=False) if section.password_env else "",
        headers=section.headers,
        secret_headers={name: _secret(f"header_env.{name}", where) for name, where in section.header_env.items()},
        ca_file=section.ca_file,
        cert_file=section.cert_file,
        key_file=section.key_file,
        verify_tls=section.verify_tls,
    )
    try:
        login.check()
    except CertificateError as error:
        raise OptionError(f"prometheus.{error}") from None
    return login


def _secret(setting: str, variable: str, *, ascii_only: bool = True) -> str:
    """The value of a variable that a setting names, without blanks and newlines around it."""
    secret = os.environ.get(variable, "").strip()
    if not secret:
        raise OptionError(f"prometheus.{setting} names ${variable}, which is not set or empty here")
    if not secret.isprintable() or (ascii_only and not secret.isascii()):
        raise OptionError(f"prometheus.{setting}: ${variable} holds characters that no header can (not shown)")
    return secret
