"""Requests to a server: with a time limit, retries after growing pauses, and checks that a response is complete.

`prometheus-api-client` connects. This module adds: checks of the status in a hook (the library folds it into text),
retries after growing pauses up to a limit, refusal of incomplete answers, and messages without secrets. Several threads
may send requests at the same time.
"""

from __future__ import annotations

import hashlib
import json
import math
import ssl
import time
from threading import Event, Lock
from typing import TYPE_CHECKING, Any, Final, TypeVar

import requests
from prometheus_api_client.exceptions import PrometheusApiClientException
from prometheus_api_client.prometheus_connect import PrometheusConnect
from urllib3.exceptions import DecodeError, HTTPError, ReadTimeoutError
from urllib3.util.retry import Retry

from ingest.errors import ServerDownError, shorten
from ingest.http_address import without_secrets
from ingest.load_warnings import LoadWarning
from ingest.prometheus.client.responses import (
    ADDRESS,
    AGAIN,
    LATER,
    LONGEST_REASON,
    PART,
    AnsweredError,
    LimitExceededError,
    NotPrometheusError,
    PartialError,
    TemporaryError,
    describe_error,
    error_message,
    innermost,
    shown,
    warnings,
)
from ingest.retry import RetryPolicy, retry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from ingest.prometheus.client.auth import Login
    from ingest.retry import RetryableError

Answer = TypeVar("Answer")

LONGEST_WAIT_S: Final = 30.0
"""Longest pause between two tries, in seconds, also where the server requests a longer one (Retry-After)."""

GRACE_S: Final = 2
"""Seconds that we wait longer than the server's own time limit."""

BITE: Final = 1 << 16
"""Most bytes of an answer read at a time; fewer if fewer have arrived."""

LARGEST_ANSWER: Final = 1 << 27
"""Largest answer in JSON, in bytes: it is held in memory as a whole. A larger one is requested in smaller segments."""

LARGEST_STREAM: Final = 1 << 32
"""Largest streamed answer, in bytes. A larger one is requested in smaller segments."""

UNCOMPRESSED: Final = {"Accept-Encoding": "identity"}
"""For large answers: compression took the server six times as long as sending them within a data centre."""

ONLY_WHOLE_ANSWERS: Final = {"partial_response": "false", "deny_partial_response": "1"}
"""Thanos and a VictoriaMetrics cluster have to fail rather than return the data of some of their parts only."""


class HttpClient:
    """A connection to a server, with the handling of its errors."""

    def __init__(
        self, url: str, login: Login, *, timeout_s: float, retries: int, sleep: Callable[[float], None]
    ) -> None:
        self.url = without_secrets(url)
        self.limits = {"timeout": f"{timeout_s:g}s", **ONLY_WHOLE_ANSWERS}
        self._full_url, self._login = url, login
        self._policy = RetryPolicy(retries, longest_pause_s=LONGEST_WAIT_S)
        self._sleep = sleep
        self._seen: list[bytes] = []
        self._warnings: dict[str, None] = {}
        self._lock = Lock()
        self._closed = Event()
        self._session = login.session(url)
        self._session.hooks["response"].append(self._judge)
        # The server gives up at `timeout_s`; we wait a little longer, to get its error message.
        self._patience_s = math.ceil(timeout_s) + GRACE_S
        self.library = PrometheusConnect(
            self.url, session=self._session, retry=Retry(total=0), timeout=self._patience_s
        )

    def close(self) -> None:
        """Close the connection: waiting retries end, and no more requests are sent."""
        self._closed.set()
        self.library.close()

    def digest(self) -> str:
        """SHA-256 of all answers since the last call, independent of their order."""
        with self._lock:
            digests, self._seen = b"".join(sorted(self._seen)), []
        return hashlib.sha256(digests).hexdigest()

    def warnings(self) -> list[LoadWarning]:
        """Distinct warnings of the server since the last call, without secrets."""
        with self._lock:
            messages, self._warnings = list(self._warnings), {}
        return [LoadWarning("server_message", 1, self.hide(message)) for message in messages]

    def hide(self, text: str) -> str:
        """The server's message without secrets; call it before the message is shortened."""
        return self._login.hide(text, self._full_url)

    def request(self, question: Callable[[], Answer], *, first: bool = False) -> Answer:
        """Send a request, and retry after a pause where that may help.

        An unreachable server is not retried at the first request: most likely its address is wrong.

        Raises:
            ServerDownError: it does not answer, or not properly.
            LimitExceededError: a smaller request may be answered.
        """
        if self._closed.is_set():  # the result of this prefetch is no longer needed
            raise self.down("was disconnected from", LATER)
        return retry(
            lambda: self.once(question),
            self._policy,
            sleep=self._sleep,
            give_up=lambda failure: self._closed.is_set() or (first and _is_unreachable(failure)),
        )

    def once(self, question: Callable[[], Answer]) -> Answer:
        """Send a request once, and turn each failure into an error with a hint."""
        try:
            return question()
        except AnsweredError as error:
            if error.smaller_may_succeed:
                raise LimitExceededError(error.message) from None
            reason = f": {shown(error.message)}" if error.message else ""
            down = self.down(f"answers with status {error.status}{reason}", error.hint)
            if error.status in AGAIN:
                raise TemporaryError(down, pause_s=error.retry_after_s) from None
            raise down from None
        except PartialError as error:
            raise TemporaryError(self.down(f"answers only a part: {shown(self.hide(str(error)))}", PART)) from None
        except (NotPrometheusError, PrometheusApiClientException, KeyError, TypeError) as error:
            raise self._strange(error) from None
        except json.JSONDecodeError:  # requests' own, too
            raise TemporaryError(self.down("cuts its answer off", LATER)) from None
        except (requests.exceptions.InvalidURL, requests.exceptions.TooManyRedirects) as error:
            raise self.down(f"cannot be queried: {shorten(str(error))}", ADDRESS) from None
        except requests.exceptions.RequestException as error:
            raise TemporaryError(self._unreachable(error)) from None
        except (ValueError, RecursionError) as error:  # JSON that Prometheus never sends: endless depth or numbers
            raise self._strange(error) from None

    def down(self, what: str, hint: str, *, unreachable: bool = False) -> ServerDownError:
        """An error message about the server, without secrets."""
        return ServerDownError(self.url, self.hide(what), hint, unreachable=unreachable)

    def body(self, path: str, params: Mapping[str, Any]) -> bytes:
        """A complete answer in JSON, not parsed."""
        return self._get(path, params, stream=False).content

    def stream(self, path: str, params: Mapping[str, Any]) -> requests.Response:
        """An answer to be read in parts; an error is raised at once."""
        return self._get(path, params, stream=True)

    def _get(self, path: str, params: Mapping[str, Any], *, stream: bool) -> requests.Response:
        return self._session.get(
            self.url + path,
            params=dict(params),
            headers=UNCOMPRESSED,
            verify=self._session.verify,
            timeout=self._patience_s,
            stream=stream,
        )

    def post(self, path: str, body: bytes, headers: Mapping[str, str]) -> requests.Response:
        """As `stream`, for a POST request with a body."""
        return self._session.post(
            self.url + path,
            data=body,
            headers={**UNCOMPRESSED, **headers},
            verify=self._session.verify,
            timeout=self._patience_s,
            stream=True,
        )

    def parts(self, response: requests.Response, largest: int) -> Iterator[bytes]:
        """The parts of an answer that arrives in time: the library's own limit restarts with every byte.

        An answer that arrives too slowly for its size is requested in smaller segments. One with hardly any bytes
        counts as a timeout.
        """
        end = time.monotonic() + self._patience_s - response.elapsed.total_seconds()
        size = 0
        try:
            while part := response.raw.read1(BITE, decode_content=True):
                yield part
                size += len(part)
                if size > largest:
                    raise LimitExceededError(f"its answer is larger than {largest >> 20} MiB")
                if time.monotonic() > end and size > BITE:
                    raise LimitExceededError(f"its answer is incomplete after {self._patience_s} s")
                if time.monotonic() > end:
                    raise requests.exceptions.ReadTimeout
        except ReadTimeoutError as error:
            raise requests.exceptions.ReadTimeout(error) from error
        except DecodeError as error:
            raise requests.exceptions.ContentDecodingError(error) from error
        except HTTPError as error:
            raise requests.exceptions.ChunkedEncodingError(error) from error
        finally:
            response.close()  # a fully read connection is reused, any other is closed

    def see(self, digest: bytes) -> None:
        """Add an answer to the digest of all."""
        with self._lock:
            self._seen.append(digest)

    def _judge(self, response: requests.Response, *_: object, stream: bool = False, **__: object) -> None:
        """Turn an error status into its exception before the library turns it into text."""
        if response.ok and stream and not response.is_redirect:
            return  # the caller reads it in parts
        body = b"".join(self.parts(response, LARGEST_ANSWER))
        # Passed to the library, which has no other parameter for it.
        vars(response).update(_content=body, _content_consumed=True)
        if response.is_redirect:
            return
        if not response.ok:
            message = self.hide(error_message(response))[:LONGEST_REASON]
            raise AnsweredError(response.status_code, message, response.headers.get("Retry-After", ""))
        if not body.lstrip().startswith(b"{"):
            raise NotPrometheusError(response.headers.get("Content-Type", "something"))
        found_warnings = warnings(body)
        with self._lock:
            self._warnings.update(dict.fromkeys(found_warnings))
        self.see(hashlib.sha256(body).digest())

    def _strange(self, error: Exception) -> ServerDownError:
        return self.down(f"answers, but not as Prometheus does (it sent {shorten(self.hide(str(error)), 60)})", ADDRESS)

    def _unreachable(self, error: requests.exceptions.RequestException) -> ServerDownError:
        cause = innermost(error)
        if isinstance(error, requests.exceptions.Timeout) or isinstance(cause, TimeoutError):
            return self.down(
                "does not answer in time", f"{LATER} Or allow more: prometheus.timeout_s.", unreachable=True
            )
        if isinstance(cause, ssl.SSLError) or isinstance(error, requests.exceptions.SSLError):
            what, hint = next((pair for reason, pair in _TLS.items() if reason in str(cause)), _TLS[""])
            return self.down(f"{what}: {describe_error(cause)}", hint, unreachable=True)
        if isinstance(error, requests.exceptions.ChunkedEncodingError):
            return self.down("closed the connection in the middle of an answer", LATER, unreachable=True)
        return self.down(f"cannot be reached: {describe_error(cause)}", LATER, unreachable=True)


def _is_unreachable(failure: RetryableError) -> bool:
    return isinstance(failure.error, ServerDownError) and failure.error.unreachable


_TLS: Final = {
    "CERTIFICATE_VERIFY_FAILED": (
        "cannot be trusted",
        "Name the certificate of your authority in prometheus.ca_file (PEM), or set prometheus.verify_tls = false: "
        "then the server's identity is not checked.",
    ),
    "WRONG_VERSION_NUMBER": ("does not use TLS", "Is it http:// and not https://?"),
    "": (
        "does not agree on TLS with us",
        "If it requires a client certificate, name one and its key: prometheus.cert_file and key_file (PEM).",
    ),
}
"""By a part of the reason of a failed TLS handshake: message and hint."""
