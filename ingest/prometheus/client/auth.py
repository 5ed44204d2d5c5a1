"""Authentication and TLS: tokens, passwords, headers and certificates, none of which is ever shown.

They are sent with every request, but not to another host: a redirect to one is followed without them.
"""

from __future__ import annotations

import base64
import re
import ssl
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

import requests
import urllib3
from requests.auth import AuthBase, HTTPBasicAuth

if TYPE_CHECKING:
    from collections.abc import Mapping

HIDDEN: Final = "(not shown)"
"""Replaces a secret that a server echoes."""

_SHORTEST_SECRET: Final = 4
"""Least length of a secret in characters; a shorter text would occur in any sentence."""

_SECRETIVE: Final = re.compile("auth|cookie|key|token|secret|pass", re.IGNORECASE)
"""Names of headers that hold a secret wherever they are configured."""


class CertificateError(ValueError):
    """A file with certificates, or with a key, cannot be used."""


@dataclass(frozen=True)
class Login:
    """Credentials for a server, and the check of its certificate.

    Args:
        token: a bearer token; before `user`.
        user: name for basic authentication; without one, that of the address.
        password: its password.
        headers: more headers, such as a tenant's (`X-Scope-OrgID`); messages may show them.
        secret_headers: more headers, which no message shows.
        ca_file: certificates (PEM) of the authorities that we trust, in place of the system's.
        cert_file: our own certificate (PEM), where the server requires one; with its key, unless `key_file` has that.
        key_file: its key (PEM).
        verify_tls: check the server's certificate.
    """

    token: str | None = field(default=None, repr=False)
    user: str = ""
    password: str = field(default="", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    secret_headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""
    verify_tls: bool = True

    def session(self, url: str) -> requests.Session:
        """A session that logs in at an address; the address's user and password are used where no others are set."""
        session = _GuardedSession({**self.headers, **self.secret_headers})
        session.verify = self.ca_file if self.ca_file and self.verify_tls else self.verify_tls
        if not self.verify_tls:
            urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)  # the user chose it
        if self.cert_file:
            session.cert = (self.cert_file, self.key_file) if self.key_file else self.cert_file
        session.auth = self._auth(url)
        return session

    def _auth(self, url: str) -> AuthBase:
        parts = urlsplit(url)
        if self.token:
            return _Bearer(self.token)
        if self.user:
            return HTTPBasicAuth(self.user.encode(), self.password.encode())
        if parts.username and "authorization" not in map(str.lower, (*self.headers, *self.secret_headers)):
            return HTTPBasicAuth(unquote(parts.username).encode(), unquote(parts.password or "").encode())
        return _NoAuth()

    def hide(self, text: str, url: str) -> str:
        """A server's message without our secrets, which it may have echoed."""
        parts = urlsplit(url)
        inside = parts.password or parts.username or ""
        logins = (self.user, self.password), (unquote(parts.username or ""), unquote(parts.password or ""))
        sent = [base64.b64encode(f"{user}:{password}".encode()).decode() for user, password in logins if user]
        named = [value for name, value in self.headers.items() if _SECRETIVE.search(name)]
        own = (self.token, self.password, inside, unquote(inside))
        for secret in (*own, *sent, *self.secret_headers.values(), *named):
            if secret and len(secret) >= _SHORTEST_SECRET:
                text = text.replace(secret, HIDDEN)
        return text

    def check(self) -> None:
        """Check that the files can be used.

        Raises:
            CertificateError: one is not there, or holds something else.
        """
        context = ssl.create_default_context()
        try:
            if self.ca_file:
                context.load_verify_locations(self.ca_file)
        except OSError as error:
            raise CertificateError(f"ca_file: {_why(error)}") from None
        try:
            if self.cert_file:
                key = self.key_file or None
                context.load_cert_chain(self.cert_file, key, password=lambda: b"")  # else it requests one
        except OSError as error:
            raise CertificateError(f"cert_file, key_file: {_why(error)}") from None


class _Bearer(AuthBase):
    """A token in the header. As `auth`, since requests would put the password of a netrc over a plain header."""

    def __init__(self, token: str) -> None:
        self._token = token

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        request.headers["Authorization"] = f"Bearer {self._token}"
        return request


class _NoAuth(AuthBase):
    """No login but the headers; without this class `requests` would read a netrc file."""

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        return request


class _GuardedSession(requests.Session):
    """A session with headers that do not go to another host."""

    def __init__(self, headers: Mapping[str, str]) -> None:
        super().__init__()
        self._own = list(headers)
        self.headers.update(headers)

    def rebuild_auth(self, prepared_request: requests.PreparedRequest, response: requests.Response) -> None:
        """Remove credentials when a redirect leads to another host."""
        before, after = response.request.url, prepared_request.url
        if before and after and self.should_strip_auth(before, after):  # type: ignore[no-untyped-call]  # requests has no types
            for name in self._own:
                prepared_request.headers.pop(name, None)
        super().rebuild_auth(prepared_request, response)  # type: ignore[no-untyped-call]  # as above


def _why(error: OSError) -> str:
    """The fault of a file with certificates, without its contents."""
    if isinstance(error, ssl.SSLError):
        return "no certificates, or no key that fits and needs no password, in PEM (BEGIN CERTIFICATE ...)"
    return error.strerror or type(error).__name__
