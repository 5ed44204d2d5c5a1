"""Requests to the API server: pages of lists, watches, renewed tokens, retries.

A token that the server refuses (401) is fetched anew, once for each request. A resource version that it no longer has
(410 Gone, as a status or as an event within a watch) is the caller's to resolve: it lists again.
"""

from __future__ import annotations

import contextlib
import math
import ssl
import tempfile
import time
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Final

import msgspec
import requests
from requests.adapters import HTTPAdapter

from ingest.errors import OptionError, ServerDownError, shorten
from ingest.http_address import without_secrets
from ingest.retry import RetryableError, RetryPolicy, retry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime

    from ingest.kubernetes.live.kubeconfig import ApiServer

LARGEST: Final = 1 << 28
"""Bytes of one answer, or of one event."""

LATER: Final = frozenset({429, 500, 502, 503, 504})
"""Statuses after which another try may help."""

CHUNK: Final = 1 << 16
GONE: Final = 410
REFUSED: Final = 401
FORBIDDEN: Final = 403
MISSING: Final = 404

READY: Final = "/readyz"
"""Path that a server answers with 200 once it has read its roles; every account may request it."""

STARTING: Final = frozenset({FORBIDDEN, 500, 503})
"""Statuses of `READY` of a starting server: until it has read its roles, it refuses every request."""

START_S: Final = 60.0
"""Seconds for which a server is assumed to be starting; one that hides `READY` would look so for ever."""


class GoneError(Exception):
    """The server no longer has the resource version: later events are lost, and the list has to be read again."""


class ForbiddenError(Exception):
    """We may not read it."""


class _ContextAdapter(HTTPAdapter):
    """Connections with our own settings of TLS."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._context = context
        super().__init__()

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - theirs
        """As theirs, with the settings."""
        assert_hostname = None if self._context.check_hostname else False
        super().init_poolmanager(*args, ssl_context=self._context, assert_hostname=assert_hostname, **kwargs)

    def cert_verify(self, *_: Any) -> None:  # noqa: ANN401 - theirs
        """Add no authorities to those of the settings."""


class KubernetesClient:
    """A connection to an API server."""

    def __init__(
        self, login: ApiServer, *, timeout_s: float, retries: int, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self.url = without_secrets(login.server)
        self._login = login
        self._timeout_s = timeout_s
        self._policy = RetryPolicy(retries, jitter=0.2)
        self._sleep = sleep
        self._token = login.token()
        self._believed_until: float | None = None
        self._session = requests.Session()
        self._session.trust_env = login.server.startswith("https")  # a proxy is the environment's business
        self._session.mount("https://", _ContextAdapter(_context(login)))
        self._session.verify = login.verify
        self._session.auth = lambda request: request  # no password of a .netrc in place of the token

    def close(self) -> None:
        """Close the connections."""
        self._session.close()

    def get(self, path: str, **params: str | int) -> tuple[bytes, datetime | None]:
        """An answer, and the server's time.

        Raises:
            GoneError: the resource version, or the next page, is no longer there.
            ForbiddenError: we may not read it.
            ServerDownError: the server cannot be reached, or reports an error, after all tries.
        """

        def request() -> tuple[bytes, datetime | None]:
            with self._answer(path, params, self._timeout_s) as answer:
                return _whole(answer, self.url), _date(answer)

        return retry(request, self._policy, sleep=self._sleep)

    def watch(self, path: str, version: str, *, seconds: float) -> Iterator[bytes]:
        """Events since a version, each as text, until the server ends the watch, or it breaks.

        A broken watch is no error: a new one that continues from the last event misses none.

        Raises:
            GoneError: the version is no longer there.
            ForbiddenError: we may not watch it.
            ServerDownError: the server cannot be reached.
        """
        params: dict[str, str | int] = {
            "watch": 1, "allowWatchBookmarks": "true", "resourceVersion": version,
            "timeoutSeconds": max(1, math.ceil(seconds)),
        }  # fmt: skip
        opened = retry(lambda: self._answer(path, params, seconds + self._timeout_s), self._policy, sleep=self._sleep)
        rest = b""
        with opened as answer, contextlib.suppress(requests.RequestException, OSError):
            for chunk in answer.iter_content(CHUNK):
                *lines, rest = (rest + chunk).split(b"\n")
                yield from filter(None, lines)
                if len(rest) > LARGEST:
                    return

    def _answer(self, path: str, params: dict[str, str | int], timeout_s: float) -> requests.Response:
        """The answer to a request, sent with a new token where the server refuses the one we have."""
        answer = self._send(path, params, timeout_s)
        if answer.status_code == REFUSED:
            answer.close()
            self._token = self._login.token()
            answer = self._send(path, params, timeout_s)
        if answer.status_code == FORBIDDEN and self._starts():
            with answer:
                raise RetryableError(ForbiddenError(shorten(_message(answer))))
        if answer.status_code == FORBIDDEN:
            answer.close()
            answer = self._send(path, params, timeout_s)  # it may have become ready between the two
        if answer.status_code == requests.codes.ok:
            return answer
        with answer:
            raise self._fault(answer)

    def _starts(self) -> bool:
        """Whether a server that refuses us may still be starting, when it refuses all accounts."""
        if self._believed_until is not None and time.monotonic() > self._believed_until:
            return False
        with self._send(READY, {}, self._timeout_s) as answer:
            starts = answer.status_code in STARTING
        if starts and self._believed_until is None:
            self._believed_until = time.monotonic() + START_S
        return starts

    def _send(self, path: str, params: dict[str, str | int], timeout_s: float) -> requests.Response:
        headers = {"Accept": "application/json"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        try:
            return self._session.get(
                self._login.server + path, params=params, headers=headers, timeout=timeout_s, stream=True,
                allow_redirects=False,
            )  # fmt: skip
        except (requests.RequestException, OSError) as error:
            hint = "Is the address of the kubeconfig reachable from here?"
            what = f"did not answer ({type(error).__name__})"
            raise RetryableError(ServerDownError(self.url, what, hint, unreachable=True)) from None

    def _fault(self, answer: requests.Response) -> Exception:
        status = answer.status_code
        if status == GONE:
            return GoneError()
        message = shorten(_message(answer))
        if status in {FORBIDDEN, MISSING}:
            return ForbiddenError(message)
        hint = "The token was refused, also after it was fetched anew." if status == REFUSED else "Try again later."
        error = ServerDownError(self.url, f"answered {status}: {message}", hint)
        if status not in LATER:
            return error
        pause = answer.headers.get("Retry-After", "")
        return RetryableError(error, pause_s=float(pause) if pause.isdigit() else 0.0)


def _context(login: ApiServer) -> ssl.SSLContext:
    """Settings of TLS. A certificate of our own has to be in a file for a moment, readable by its owner only.

    Raises:
        OptionError: a certificate or key of the kubeconfig is none.
    """
    try:
        return _context_of(login)
    except (ssl.SSLError, ValueError) as error:
        message = f"the certificates of {without_secrets(login.server)} cannot be used: {error}"
        raise OptionError(message) from None


def _context_of(login: ApiServer) -> ssl.SSLContext:
    authority = login.authority.decode("ascii", "replace") if login.authority else None
    context = ssl.create_default_context(cadata=authority)
    if login.authority:
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # Python 3.13 requires more than clusters have
    if not login.verify:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if login.certificate:
        with tempfile.NamedTemporaryFile(suffix=".pem") as file:
            file.write(login.certificate)
            file.flush()
            context.load_cert_chain(file.name)
    return context


def _whole(answer: requests.Response, url: str) -> bytes:
    """All of an answer.

    Raises:
        RetryableError: it broke off.
        ServerDownError: it is too large.
    """
    parts, size = [], 0
    try:
        for chunk in answer.iter_content(CHUNK):
            parts.append(chunk)
            size += len(chunk)
            if size > LARGEST:
                raise ServerDownError(url, f"answered with more than {LARGEST >> 20} MiB", "Request smaller pages.")
    except (requests.RequestException, OSError) as error:
        down = ServerDownError(url, f"broke off ({type(error).__name__})", "Try again later.", unreachable=True)
        raise RetryableError(down) from None
    return b"".join(parts)


def _date(answer: requests.Response) -> datetime | None:
    """The server's time, by its header."""
    try:
        return parsedate_to_datetime(answer.headers["Date"])
    except (KeyError, ValueError):
        return None


class _ApiStatus(msgspec.Struct):
    message: str = ""


def _message(answer: requests.Response) -> str:
    """The server's message about an error."""
    try:
        return msgspec.json.decode(answer.content[:CHUNK], type=_ApiStatus).message or answer.reason
    except (msgspec.DecodeError, requests.RequestException, OSError):
        return str(answer.reason)
