"""Addresses of requests: the client behind proxies, the origin of the page, and the host name."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterable


def is_from(address: str, networks: Iterable[str]) -> bool:
    """Whether an address is in one of the networks.

    >>> is_from("10.0.0.3", ["127.0.0.1/32", "10.0.0.0/28"]), is_from("10.0.1.3", ["10.0.0.0/28"])
    (True, False)
    >>> is_from("::ffff:127.0.0.1", ["127.0.0.1/32"]), is_from("", ["0.0.0.0/0"])
    (True, False)
    """
    try:
        client = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(client, "ipv4_mapped", None)
    return any((mapped or client) in ipaddress.ip_network(each) for each in networks)


def client_of(peer: str, forwarded: str, proxies: Iterable[str]) -> str:
    """The client's address: the last in X-Forwarded-For that is no proxy of ours; the peer's if that is no proxy.

    >>> client_of("127.0.0.1", "6.6.6.6, 192.0.2.7", ["127.0.0.1/32"])
    '192.0.2.7'
    >>> client_of("192.0.2.9", "10.0.0.1", ["127.0.0.1/32"]), client_of("127.0.0.1", "", ["127.0.0.1/32"])
    ('192.0.2.9', '127.0.0.1')
    """
    trusted = tuple(proxies)
    client = peer
    for each in reversed([part.strip() for part in forwarded.split(",") if part.strip()]):
        if not is_from(client, trusted):
            break
        client = each
    return client[:64]


def same_site(origin: str, host: str, url: str) -> bool:
    """Whether a page of `origin` is one of this explorer, which is called by the Host header, or has this address.

    >>> same_site("http://127.0.0.1:8050", "127.0.0.1:8050", ""), same_site("https://evil.example", "a:8050", "")
    (True, False)
    >>> same_site("https://t.example", "10.0.0.1:8050", "https://t.example"), same_site("null", "null", "")
    (True, False)
    """
    site = urlsplit(origin)
    if site.scheme not in {"http", "https"} or not site.netloc:
        return False
    if url:
        own = urlsplit(url)
        return (site.scheme, site.netloc.lower()) == (own.scheme, own.netloc.lower())
    return site.netloc.lower() == host.lower()


def own_path(text: str) -> str:
    r"""An address within the explorer; anything that could lead elsewhere becomes the first page.

    >>> own_path("/run?id=1"), own_path("//evil.example"), own_path("https://evil.example/")
    ('/run?id=1', '/', '/')
    >>> own_path("/\\evil.example"), own_path("/\t/evil.example"), own_path(""), own_path("/login?next=/x")
    ('/', '/', '/', '/')
    """
    plain = text.startswith("/") and text.isprintable() and len(text) <= 2_000 and "\\" not in text
    parts = urlsplit(text) if plain else None
    if parts is None or text.startswith("//") or parts.scheme or parts.netloc:
        return "/"
    return "/" if parts.path.startswith(("/login", "/logout")) else text
