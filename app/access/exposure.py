"""Whether an address can be listened on without a login: only that of this machine."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from app.config.settings import Config

REMEDY = (
    'Let people log in: login = "header" or "oidc" under [access] in trackside.toml (trackside docs '
    "how-to/access). Or serve this machine only: --host 127.0.0.1. Or let everyone see "
    "everything: --without-login."
)


def exposed(settings: Config, host: str) -> str:
    """Why this address should not be listened on; empty where it is this machine's own, or people log in."""
    if is_loopback(host) or settings.access.needs_login:
        return ""
    return (
        f"listening on {host} gives everyone who can reach this machine access to all data: no login is configured "
        "([access])."
    )


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address.

    >>> is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, True, False)
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
