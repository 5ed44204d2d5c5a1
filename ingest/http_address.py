"""Addresses of servers, and their parts without secrets."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit, urlunsplit

NO_ADDRESS: Final = (
    "the address of the Prometheus server cannot be used (not shown: it may hold a password).\n"
    "Write http://HOST:PORT; in user and password write / # ? @ as %2F %23 %3F %40"
)


def is_address(url: str) -> bool:
    """Whether this can be the base address of a server.

    An address with an @ behind the host is invalid: its host and port are the beginning of user and password, which an
    unescaped character ends too early.

    >>> is_address("https://prometheus:9090/base"), is_address("prometheus:9090"), is_address("http://me:1/2@host")
    (True, False, False)
    """
    try:
        parts = urlsplit(url)
        good = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    return good and "@" not in parts.path + parts.query + parts.fragment


def is_open_address(url: str) -> bool:
    """Whether it is the base address of a server and holds no secret: no user, password, query or fragment.

    >>> is_open_address("https://grafana:3000/base/"), is_open_address("https://me:secret@grafana"), is_open_address("")
    (True, False, False)
    """
    return is_address(url) and not {*"@?#", " "} & {*url}


def without_secrets(url: str) -> str:
    """An address without user, password, query and trailing slash: fit for messages and for `loads.origin`.

    Text that is no address is not shown at all: any part of it may be a password.

    >>> without_secrets("https://me:secret@prometheus:9090/base/?token=abc")
    'https://prometheus:9090/base'
    >>> without_secrets("me:secret@prometheus:9090")
    'an address that cannot be used'
    """
    if not is_address(url):
        return "an address that cannot be used"
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path.rstrip("/"), "", ""))
