"""The Prometheus server that the configuration names."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from app.errors import UsageError
from ingest.prometheus_server import NO_ADDRESS, Server, is_address

if TYPE_CHECKING:
    from app.config import Config

ALIASES: Final = "prometheus"
"""Source in `node_aliases` of names that telemetry has for nodes."""


def connect(settings: Config, url: str | None = None) -> Server:
    """The server that is configured, or that of an address.

    Raises:
        UsageError: there is no address, it is none, or the token's variable is not set.
    """
    section = settings.prometheus
    address = url or section.url
    if address is None:
        raise UsageError(
            "no Prometheus server is configured.\nSay where it is: --url http://prometheus:9090, or url in the section "
            "[prometheus] of trackside.toml; or load files: trackside ingest prometheus FILE"
        )
    if not is_address(address):
        raise UsageError(NO_ADDRESS)
    token = None
    if section.token_env is not None:
        token = os.environ.get(section.token_env)
        if not token:
            raise UsageError(f"prometheus.token_env names ${section.token_env}, which is not set or empty here")
    return Server(
        address,
        token=token,
        verify_tls=section.verify_tls,
        timeout_s=section.timeout_s,
        retries=section.retries,
        remote_read=section.remote_read,
    )
