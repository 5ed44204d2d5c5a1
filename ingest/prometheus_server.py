"""A server that speaks Prometheus' HTTP API, asked politely: Prometheus, VictoriaMetrics, Thanos, Mimir.

`prometheus-api-client` connects. What it leaves to its caller is done here: statuses are judged in a hook (it folds
them into text), retries wait longer each time and end, questions that are too much are asked in halves, and an address
never shows its user and password.
"""

from __future__ import annotations

import hashlib
import math
import re
import time
from datetime import timedelta
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import unquote, urlsplit, urlunsplit

import requests
from prometheus_api_client.exceptions import PrometheusApiClientException
from prometheus_api_client.prometheus_connect import PrometheusConnect
from requests.auth import AuthBase, HTTPBasicAuth
from urllib3.util.retry import Retry

from ingest.errors import ServerDownError, shorten

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime

Answer = TypeVar("Answer")
Series = list[dict[str, Any]]

LONGEST_WAIT_S: Final = 30.0
"""Between two tries; a server that asks for a longer pause (Retry-After) gets this."""

GRACE_S: Final = 2
"""How much longer we wait than the server may work."""

AGAIN: Final = frozenset({408, 429, 500, 502, 503, 504})
"""Statuses that may be gone a moment later."""

TOO_MUCH: Final = re.compile(
    r"exceeded maximum resolution|too many (?:samples|points|bytes|chunks|series)|maxSamplesPerQuery|"
    r"maxPointsPerTimeseries|query timed out|timeout exceeded|deadline exceeded|exceeds? .*limit|limit .*exceeded",
    re.IGNORECASE,
)
"""What servers say where a smaller question would have been answered."""

TOO_MUCH_STATUSES: Final = frozenset({413, 422})
ONLY_WHOLE_ANSWERS: Final = {"partial_response": "false", "deny_partial_response": "1"}
"""Thanos and a VictoriaMetrics cluster shall rather fail than leave out what a part of them has."""


class _TooMuchError(Exception):
    """The server would have to look at more than it is allowed to at once."""


class _AnsweredError(Exception):
    """The server answered with an error."""

    def __init__(self, status: int, said: str, retry_after: str) -> None:
        self.status = status
        self.said = said
        self.retry_after_s = float(retry_after) if retry_after.isdigit() else 0.0
        super().__init__(f"{status} {said}")


class _AgainError(Exception):
    """It did not work, and may if asked again: `down` is what to say if not."""

    def __init__(self, down: ServerDownError, *, pause_s: float = 0.0, unreachable: bool = False) -> None:
        self.down = down
        self.pause_s = pause_s
        self.unreachable = unreachable
        super().__init__(str(down))


class _NotPrometheusError(Exception):
    """Something answered, but not with JSON."""


class _Bearer(AuthBase):
    """A token in the header. As `auth`, since requests would put the password of a netrc over a plain header."""

    def __init__(self, token: str) -> None:
        self._token = token

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        request.headers["Authorization"] = f"Bearer {self._token}"
        return request


def is_address(url: str) -> bool:
    """Whether this can be the base address of a server.

    >>> is_address("https://prometheus:9090/base"), is_address("prometheus:9090")
    (True, False)
    """
    try:
        parts = urlsplit(url)
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def without_secrets(url: str) -> str:
    """An address without user, password, query and trailing slash: fit for messages and for `loads.origin`.

    >>> without_secrets("https://me:secret@prometheus:9090/base/?token=abc")
    'https://prometheus:9090/base'
    """
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path.rstrip("/"), "", ""))


class Server:
    """A server that is asked with a time limit, again after a pause, and in smaller pieces where it must be."""

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        verify_tls: bool = True,
        timeout_s: float = 60.0,
        retries: int = 3,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.url = without_secrets(url)
        self._retries = retries
        self._sleep = sleep
        self._digest = hashlib.sha256()
        self._limits = {"timeout": f"{timeout_s:g}s", **ONLY_WHOLE_ANSWERS}
        session = requests.Session()
        session.verify = verify_tls
        session.hooks["response"].append(self._judge)
        parts = urlsplit(url)
        auth: AuthBase | None = _Bearer(token) if token else None
        if auth is None and parts.username:
            auth = HTTPBasicAuth(unquote(parts.username), unquote(parts.password or ""))
        session.auth = auth
        # The server gives up at `timeout_s`; we wait a little longer, to hear it say so.
        timeout = math.ceil(timeout_s) + GRACE_S
        self._connection = PrometheusConnect(self.url, session=session, retry=Retry(total=0), timeout=timeout)

    def close(self) -> None:
        """Hang up."""
        self._connection.close()

    def digest(self) -> str:
        """SHA-256 of all answers since this was last asked."""
        told = self._digest.hexdigest()
        self._digest = hashlib.sha256()
        return told

    def names(self, matcher: str = "", *, since: datetime, until: datetime) -> list[str]:
        """Names of the metrics that the server has in that time (roughly), those of a series matcher if one is given.

        Raises:
            ServerDownError: it cannot be asked.
        """
        window = {"start": since.timestamp(), "end": until.timestamp()}
        params = window | ({"match[]": matcher} if matcher else {}) | ONLY_WHOLE_ANSWERS
        try:
            found: list[str] = self._ask(
                lambda: self._connection.get_label_values("__name__", params=dict(params)), first=True
            )
        except _TooMuchError as error:
            raise self._too_much(error) from None
        return sorted(found or [])

    def points(self, query: str, *, first: datetime, last: datetime, step: timedelta) -> Series:
        """The values of a query at `first`, every `step` after it, and `last`.

        Raises:
            ServerDownError: it cannot be asked, or not even for one point.
        """

        def ask(low: datetime, high: datetime) -> Series:
            found: Series = self._connection.custom_query_range(
                query, start_time=low, end_time=high, step=f"{step.total_seconds():g}", params=dict(self._limits)
            )
            return found

        return list(chain.from_iterable(self._pieces(ask, first, last, step)))

    def readings(self, selector: str, *, since: datetime, until: datetime, step: timedelta) -> Series:
        """The raw readings of series from `since` to `until`, both included; some may come twice.

        Raises:
            ServerDownError: it cannot be asked, or not even for `step`.
        """

        def ask(low: datetime, high: datetime) -> Series:
            query = f"{selector}[{_milliseconds(low, high)}ms]"
            found: Series = self._connection.custom_query(query, params={"time": high.timestamp()} | self._limits)
            return found

        return list(chain.from_iterable(self._pieces(ask, since, until, step, apart=timedelta(0))))

    def ever(self, selector: str, by: str, *, since: datetime, until: datetime, step: timedelta) -> Series:
        """One entry for each value of the labels `by` where a series was above zero at any time; some may come twice.

        Raises:
            ServerDownError: it cannot be asked, or not even for `step`.
        """

        def ask(low: datetime, high: datetime) -> Series:
            query = f"max by ({by}) (max_over_time({selector}[{_milliseconds(low, high)}ms])) > 0"
            found: Series = self._connection.custom_query(query, params={"time": high.timestamp()} | self._limits)
            return found

        return list(chain.from_iterable(self._pieces(ask, since, until, step, apart=timedelta(0))))

    def latest(self, selector: str, *, at: datetime) -> float | None:
        """Epoch of the newest reading of series, as far as the server looks back from `at`; None without any.

        Raises:
            ServerDownError: it cannot be asked.
        """
        params = {"time": at.timestamp()} | self._limits
        query = f"max(timestamp({selector}))"
        try:
            found: Series = self._ask(lambda: self._connection.custom_query(query, params=dict(params)))
        except _TooMuchError as error:
            raise self._too_much(error) from None
        return float(found[0]["value"][1]) if found else None

    def _pieces(
        self,
        ask: Callable[[datetime, datetime], Series],
        low: datetime,
        high: datetime,
        step: timedelta,
        apart: timedelta | None = None,
    ) -> Iterator[Series]:
        """The answer, in halves where it is too much at once. Halves of a grid lie one step apart."""
        try:
            yield self._ask(lambda: ask(low, high))
        except _TooMuchError as error:
            steps = (high - low) // step
            if steps < 1:
                raise self._too_much(error) from None
            gap = step if apart is None else apart
            middle = low + (steps // 2) * step if apart is None else low + (high - low) / 2
            yield from self._pieces(ask, low, middle, step, apart)
            yield from self._pieces(ask, middle + gap, high, step, apart)

    def _ask(self, question: Callable[[], Answer], *, first: bool = False) -> Answer:
        """Ask, and again after a pause where that may help.

        Nobody waits for a server that cannot be reached for the first question: most likely its address is wrong.
        """
        for tried in range(self._retries + 1):
            try:
                return self._once(question)
            except _AgainError as error:
                down = error.down
                if first and error.unreachable:
                    break
                pause_s = max(2.0**tried, error.pause_s)
            if tried < self._retries:
                self._sleep(min(pause_s, LONGEST_WAIT_S))
        raise down

    def _once(self, question: Callable[[], Answer]) -> Answer:
        """Ask, and turn whatever goes wrong into what to do about it."""
        try:
            return question()
        except _AnsweredError as error:
            if _is_too_much(error):
                raise _TooMuchError(error.said) from None
            down = self._answered(error)
            if error.status in AGAIN:
                raise _AgainError(down, pause_s=error.retry_after_s) from None
            raise down from None
        except (_NotPrometheusError, PrometheusApiClientException, KeyError, TypeError) as error:
            raise self._strange(error) from None
        except requests.exceptions.JSONDecodeError:
            raise _AgainError(ServerDownError(self.url, "cuts its answer off", _LATER)) from None
        except (requests.exceptions.InvalidURL, requests.exceptions.TooManyRedirects) as error:
            raise ServerDownError(self.url, f"cannot be asked: {shorten(str(error))}", _ADDRESS) from None
        except requests.exceptions.RequestException as error:
            raise _AgainError(self._unreachable(error), unreachable=True) from None

    def _judge(self, response: requests.Response, *_: object, **__: object) -> None:
        """Turn an error status into its exception before the library makes text of it."""
        if response.is_redirect:
            return
        body = response.content
        if not response.ok:
            raise _AnsweredError(response.status_code, _said(response), response.headers.get("Retry-After", ""))
        if not body.lstrip().startswith(b"{"):
            raise _NotPrometheusError(response.headers.get("Content-Type", "something"))
        self._digest.update(body)

    def _answered(self, error: _AnsweredError) -> ServerDownError:
        hints = {
            401: _TOKEN,
            403: _TOKEN,
            404: _ADDRESS,
            405: _ADDRESS,
            429: "It asks us to come less often; what was loaded stays, and the next ingest goes on from there.",
        }
        said = f": {error.said}" if error.said else ""
        return ServerDownError(self.url, f"answers with status {error.status}{said}", hints.get(error.status, _LATER))

    def _strange(self, error: Exception) -> ServerDownError:
        what = f"answers, but not as Prometheus does (it sent {shorten(str(error), 60)})"
        return ServerDownError(self.url, what, _ADDRESS)

    def _too_much(self, error: Exception) -> ServerDownError:
        hint = (
            "Even the smallest piece is too much for one query. Narrow prometheus.selector, or raise the server's own "
            "limit (Prometheus: --query.max-samples, --query.timeout)."
        )
        return ServerDownError(self.url, f"refuses the query: {error}", hint)

    def _unreachable(self, error: requests.exceptions.RequestException) -> ServerDownError:
        cause = _innermost(error)
        if isinstance(error, requests.exceptions.Timeout) or isinstance(cause, TimeoutError):
            return ServerDownError(
                self.url, "does not answer in time", f"{_LATER} Or allow more: prometheus.timeout_s."
            )
        if isinstance(error, requests.exceptions.SSLError):
            hint = "Set REQUESTS_CA_BUNDLE to your authority's certificate, or prometheus.verify_tls = false."
            return ServerDownError(self.url, f"cannot be trusted: {_in_words(cause)}", hint)
        if isinstance(error, requests.exceptions.ChunkedEncodingError):
            return ServerDownError(self.url, "hung up in the middle of an answer", _LATER)
        return ServerDownError(self.url, f"cannot be reached: {_in_words(cause)}", _LATER)


_LATER: Final = "What was loaded before stays; the next ingest goes on from there. Is the server up?"
_ADDRESS: Final = "Give the base address of the server, without /graph or /api/v1: --url http://prometheus:9090"
_TOKEN: Final = (
    "It wants us to log in. Put a token in an environment variable, and its name in prometheus.token_env "  # noqa: S105 - a hint, no token
    "(or a user into the address: https://USER:PASSWORD@host)."
)


def _milliseconds(low: datetime, high: datetime) -> int:
    return max(1, (high - low) // timedelta(milliseconds=1))


def _is_too_much(error: _AnsweredError) -> bool:
    return error.status in TOO_MUCH_STATUSES or bool(
        error.status in {400, 429, 500, 503, 504} and TOO_MUCH.search(error.said)
    )


def _said(response: requests.Response) -> str:
    """What an error answer says: Prometheus' own words, or the beginning of a text; of a page nothing."""
    try:
        told = response.json()
    except requests.exceptions.JSONDecodeError:
        text = response.text.strip()
        return "" if text.startswith("<") else shorten(text)
    return shorten(str(told.get("error", ""))) if isinstance(told, dict) else ""


def _innermost(error: BaseException) -> BaseException:
    """The cause; what lies around it repeats the address, query and all."""
    while isinstance(below := error.__cause__ or error.__context__ or getattr(error, "reason", None), BaseException):
        error = below
    return error


def _in_words(error: BaseException) -> str:
    return shorten(getattr(error, "strerror", None) or type(error).__name__)
