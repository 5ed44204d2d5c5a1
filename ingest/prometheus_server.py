"""A server that speaks Prometheus' HTTP API, asked politely: Prometheus, VictoriaMetrics, Thanos, Mimir.

`prometheus-api-client` connects. What it leaves to its caller is done here: statuses are judged in a hook (it folds
them into text), retries wait longer each time and end, questions that are too much are asked in halves, and an address
never shows its user and password.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import re
import time
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar
from urllib.parse import unquote, urlsplit, urlunsplit

import requests
from prometheus_api_client.exceptions import PrometheusApiClientException
from prometheus_api_client.prometheus_connect import PrometheusConnect
from requests.auth import AuthBase, HTTPBasicAuth
from urllib3.exceptions import DecodeError, HTTPError, ReadTimeoutError
from urllib3.util.retry import Retry

from ingest import remote_read as wire
from ingest.errors import ServerDownError, shorten
from ingest.times import LATEST_EPOCH

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Answer = TypeVar("Answer")
Series = list[dict[str, Any]]

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

LONGEST_WAIT_S: Final = 30.0
"""Between two tries; a server that asks for a longer pause (Retry-After) gets this."""

GRACE_S: Final = 2
"""How much longer we wait than the server may work."""

PART: Final = 1 << 16
"""Bytes of an answer that are read at once, at most; less if less has come."""

LARGEST_ANSWER: Final = 1 << 30
"""Bytes of an answer that we read; one that goes on is asked for in smaller pieces."""

AGAIN: Final = frozenset({408, 429, 500, 502, 503, 504})
"""Statuses that may be gone a moment later."""

TOO_MUCH: Final = re.compile(
    r"exceeded maximum resolution|too many (?:samples|points|bytes|chunks|series)|maxSamplesPerQuery|"
    r"maxPointsPerTimeseries|query timed out|timeout exceeded|deadline exceeded|exceeds? .*limit|limit .*exceeded",
    re.IGNORECASE,
)
"""What servers say where a smaller question would have been answered."""

BOTH_ENDS: Final = "count_over_time(vector(0)[1s:1s])"
"""At a whole second: 2 where a window contains both of its ends, 1 where it leaves out the left one."""

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
    """Something answered, but not with JSON, or with other JSON than Prometheus'."""


class _NotStreamedError(Exception):
    """Remote reads are not answered, or not as they should be; it can still be asked in JSON."""


class _Bearer(AuthBase):
    """A token in the header. As `auth`, since requests would put the password of a netrc over a plain header."""

    def __init__(self, token: str) -> None:
        self._token = token

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        request.headers["Authorization"] = f"Bearer {self._token}"
        return request


def is_address(url: str) -> bool:
    """Whether this can be the base address of a server.

    With an @ behind the host it cannot: then what looks like host and port is the beginning of user and password, and
    a character within them ends them too early.

    >>> is_address("https://prometheus:9090/base"), is_address("prometheus:9090"), is_address("http://me:1/2@host")
    (True, False, False)
    """
    try:
        parts = urlsplit(url)
        good = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    return good and "@" not in parts.path + parts.query + parts.fragment


def without_secrets(url: str) -> str:
    """An address without user, password, query and trailing slash: fit for messages and for `loads.origin`.

    Of what is no address nothing is told: nobody knows which part of it is a password.

    >>> without_secrets("https://me:secret@prometheus:9090/base/?token=abc")
    'https://prometheus:9090/base'
    >>> without_secrets("me:secret@prometheus:9090")
    'an address that cannot be used'
    """
    if not is_address(url):
        return "an address that cannot be used"
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path.rstrip("/"), "", ""))


NO_ADDRESS: Final = (
    "the address of the Prometheus server cannot be used (not shown: it may hold a password).\n"
    "Write http://HOST:PORT; in user and password write / # ? @ as %2F %23 %3F %40"
)


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
        remote_read: bool = True,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.url = without_secrets(url)
        self._retries = retries
        self._sleep = sleep
        self._digest = hashlib.sha256()
        self._left_open: bool | None = None
        self._streams: bool | None = None if remote_read else False
        self._known_labels: dict[bytes, tuple[str, str]] = {}
        self._limits = {"timeout": f"{timeout_s:g}s", **ONLY_WHOLE_ANSWERS}
        session = requests.Session()
        session.verify = verify_tls
        session.hooks["response"].append(self._judge)
        parts = urlsplit(url)
        auth: AuthBase | None = _Bearer(token) if token else None
        if auth is None and parts.username:
            auth = HTTPBasicAuth(unquote(parts.username), unquote(parts.password or ""))
        session.auth = auth
        self._session = session
        # The server gives up at `timeout_s`; we wait a little longer, to hear it say so.
        self._patience_s = math.ceil(timeout_s) + GRACE_S
        self._connection = PrometheusConnect(self.url, session=session, retry=Retry(total=0), timeout=self._patience_s)

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
            found = self._ask(
                lambda: _names(self._connection.get_label_values("__name__", params=dict(params))), first=True
            )
        except _TooMuchError as error:
            raise self._too_much(error) from None
        return sorted(found)

    def points(self, query: str, *, first: datetime, last: datetime, step: timedelta) -> Series:
        """The values of a query at `first`, every `step` after it, and `last`.

        Raises:
            ServerDownError: it cannot be asked, or not even for one point.
        """

        def ask(low: datetime, high: datetime) -> Series:
            found = self._connection.custom_query_range(
                query, start_time=low, end_time=high, step=f"{step.total_seconds():g}", params=dict(self._limits)
            )
            return _series(found, "values")

        return list(chain.from_iterable(self._pieces(ask, first, last, step)))

    def window(self, width: timedelta, *, at: datetime) -> str:
        """The range that makes a selector's window what lies after its end less `width`, up to and with its end.

        Prometheus until 2 and what is made of it counts a reading at the left end as well, and so needs a range that
        is a millisecond shorter; Prometheus since 3 and VictoriaMetrics do not. Which one this is, the server is asked
        once, for `at` (a whole second). One that answers neither 1 nor 2 is taken for the older kind: of the newer it
        would keep back readings a millisecond after the left end.

        Raises:
            ServerDownError: it cannot be asked.
        """
        if self._left_open is None:
            self._left_open = self._leaves_out_left_end(at)
        return f"[{width // timedelta(milliseconds=1) - (not self._left_open)}ms]"

    def _leaves_out_left_end(self, at: datetime) -> bool:
        params = {"time": at.timestamp()} | self._limits

        def ask() -> bool:
            try:
                found = _series(self._connection.custom_query(BOTH_ENDS, params=dict(params)), "value")
            except _AnsweredError as error:
                if error.status in AGAIN:
                    raise
                return False  # if it will answer nothing at all, the next question says why
            return [one["value"][1] for one in found] == ["1"]

        try:
            return self._ask(ask)
        except _TooMuchError:
            return False

    def readings(self, selector: str, *, since: datetime, until: datetime, step: timedelta) -> Series:
        """The raw readings of series from `since` to `until`; some may come twice.

        One at `until` is among them, one at `since` only where windows contain their left end (`window`).

        Raises:
            ServerDownError: it cannot be asked, or not even for `step`.
        """

        def ask(low: datetime, high: datetime) -> Series:
            query = f"{selector}[{_milliseconds(low, high)}ms]"
            found = self._connection.custom_query(query, params={"time": high.timestamp()} | self._limits)
            return _series(found, "values")

        return list(chain.from_iterable(self._pieces(ask, since, until, step, apart=timedelta(0))))

    def streams(self) -> bool:
        """Whether it answers remote reads with streamed chunks. It is asked once, for nothing.

        Raises:
            ServerDownError: it cannot be asked.
        """
        if self._streams is None:
            try:
                self._streams = self._ask(lambda: self._streamed(wire.request([], 0, 0), _is_empty))
            except (_NotStreamedError, _TooMuchError):
                self._streams = False
        return self._streams

    def samples(
        self,
        selector: str,
        *,
        first: datetime,
        last: datetime,
        step: timedelta,
        each: Callable[[wire.Samples], Answer],
    ) -> list[Answer] | None:
        """What `each` makes of the raw readings of series, batch by batch, by remote read. None: ask in JSON.

        Readings are those after `first` less a step, up to and with `last`. Where it is too much at once, batches begin
        and end on the grid; no series' readings of one step are in two of them.

        Raises:
            ServerDownError: it cannot be asked, or not even for one step.
        """
        conditions = wire.matchers(selector)
        if conditions is None or not self.streams():
            return None

        def ask(low: datetime, high: datetime) -> list[Answer]:
            begin, end = _epoch_ms(low - step) + 1, _epoch_ms(high)

            def take(parts: Iterator[bytes]) -> list[Answer]:
                return [each(batch) for batch in wire.batches(parts, begin, end, names, self._known_labels)]

            return self._streamed(wire.request(conditions, begin, end), take)

        try:
            names = self._label_names(selector, since=first - step, until=last)
            return list(chain.from_iterable(self._pieces(ask, first, last, step)))
        except _NotStreamedError:
            self._streams = False
            return None

    def _label_names(self, selector: str, *, since: datetime, until: datetime) -> frozenset[str]:
        """Names of the labels that series have for PromQL; remote read adds the server's own."""
        params = {"match[]": selector, "start": since.timestamp(), "end": until.timestamp()} | ONLY_WHOLE_ANSWERS

        def ask() -> list[str]:
            with _not_streamed():
                return _names(self._connection.get_label_names(params=dict(params)))

        try:
            return frozenset(["__name__", *self._ask(ask)])
        except _TooMuchError as error:
            raise _NotStreamedError from error

    def ever(self, selector: str, by: str, *, since: datetime, until: datetime, step: timedelta) -> Series:
        """One entry for each value of the labels `by` where a series was above zero at any time; some may come twice.

        Raises:
            ServerDownError: it cannot be asked, or not even for `step`.
        """

        def ask(low: datetime, high: datetime) -> Series:
            query = f"max by ({by}) (max_over_time({selector}[{_milliseconds(low, high)}ms])) > 0"
            found = self._connection.custom_query(query, params={"time": high.timestamp()} | self._limits)
            return _series(found, "value")

        return list(chain.from_iterable(self._pieces(ask, since, until, step, apart=timedelta(0))))

    def latest(self, selector: str, *, at: datetime) -> float | None:
        """Epoch of the newest reading of series, as far as the server looks back from `at`; None without any.

        Raises:
            ServerDownError: it cannot be asked.
        """
        params = {"time": at.timestamp()} | self._limits
        query = f"max(timestamp({selector}))"
        try:
            found = self._ask(lambda: _series(self._connection.custom_query(query, params=dict(params)), "value"))
            moment = self._once(lambda: _number(found[0]["value"][1])) if found else math.nan
        except _TooMuchError as error:
            raise self._too_much(error) from None
        return moment if math.isfinite(moment) else None

    def _pieces(
        self,
        ask: Callable[[datetime, datetime], Answer],
        low: datetime,
        high: datetime,
        step: timedelta,
        apart: timedelta | None = None,
    ) -> Iterator[Answer]:
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
        except (ValueError, RecursionError) as error:  # JSON that no JSON of Prometheus is: endless depth or numbers
            raise self._strange(error) from None

    def _judge(self, response: requests.Response, *_: object, **__: object) -> None:
        """Turn an error status into its exception before the library makes text of it."""
        if response.ok and response.request.method == "POST" and not response.is_redirect:
            return  # a stream, for `_streamed`
        body = self._body(response)
        if response.is_redirect:
            return
        if not response.ok:
            raise _AnsweredError(response.status_code, _said(response), response.headers.get("Retry-After", ""))
        if not body.lstrip().startswith(b"{"):
            raise _NotPrometheusError(response.headers.get("Content-Type", "something"))
        self._digest.update(body)

    def _streamed(self, body: bytes, take: Callable[[Iterator[bytes]], Answer]) -> Answer:
        """What `take` makes of the answer to a remote read, which it gets in parts."""
        seen = hashlib.sha256()
        with _not_streamed():
            response = self._session.post(
                self.url + wire.PATH,
                data=body,
                headers=wire.HEADERS,
                verify=self._session.verify,
                timeout=self._patience_s,
                stream=True,
            )
        if not response.headers.get("Content-Type", "").startswith(wire.STREAMED):
            response.close()
            raise _NotStreamedError
        try:
            found = take(_hashed(self._parts(response), seen.update))
        except wire.UnknownChunksError as error:
            raise _NotStreamedError from error
        except wire.GarbledError as error:
            if TOO_MUCH.search(str(error)):
                raise _TooMuchError(shorten(str(error))) from None
            what = f"breaks an answer off: {shorten(str(error))}"
            raise _AgainError(ServerDownError(self.url, what, _LATER)) from None
        self._digest.update(seen.digest())
        return found

    def _body(self, response: requests.Response) -> bytes:
        """The whole answer, handed on to the library, too."""
        body = b"".join(self._parts(response))
        vars(response).update(_content=body, _content_consumed=True)  # there is no other way to hand it on
        return body

    def _parts(self, response: requests.Response) -> Iterator[bytes]:
        """The answer, if all of it comes in time: the library's own limit begins anew with every byte."""
        end = time.monotonic() + self._patience_s - response.elapsed.total_seconds()
        size = 0
        try:
            while part := response.raw.read1(PART, decode_content=True):
                yield part
                size += len(part)
                if size > LARGEST_ANSWER:
                    raise _TooMuchError(f"its answer is larger than {LARGEST_ANSWER >> 20} MiB")
                if time.monotonic() > end:
                    raise requests.exceptions.ReadTimeout
        except ReadTimeoutError as error:
            raise requests.exceptions.ReadTimeout(error) from error
        except DecodeError as error:
            raise requests.exceptions.ContentDecodingError(error) from error
        except HTTPError as error:
            raise requests.exceptions.ChunkedEncodingError(error) from error
        finally:
            response.close()  # what was read whole goes on being used; what was not is hung up

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


@contextlib.contextmanager
def _not_streamed() -> Iterator[None]:
    """Take a refusal that will not be another one in a moment for: it has no remote read."""
    try:
        yield
    except _AnsweredError as error:
        if error.status in AGAIN or _is_too_much(error):
            raise
        raise _NotStreamedError from error
    except (_NotPrometheusError, PrometheusApiClientException) as error:
        raise _NotStreamedError from error


def _is_empty(parts: Iterator[bytes]) -> bool:
    return not any(parts)


def _hashed(parts: Iterator[bytes], update: Callable[[bytes], None]) -> Iterator[bytes]:
    for part in parts:
        update(part)
        yield part


def _names(found: object) -> list[str]:
    """Names of metrics, as the server told them; none at all may come as null."""
    if found is None:
        return []
    if not isinstance(found, list) or not all(isinstance(name, str) for name in found):
        raise _NotPrometheusError("names that are no list of text")
    return found


def _series(found: object, key: Literal["value", "values"]) -> Series:
    """Series of an answer: labels, and one value or several, each a time and a number as text."""
    if not isinstance(found, list):
        raise _NotPrometheusError("a result that is no list of series")
    for one in found:
        if not isinstance(one, dict) or not _is_labels(one.get("metric")):
            raise _NotPrometheusError("a series without labels")
        if not _is_values([one.get(key)] if key == "value" else one.get(key)):
            raise _NotPrometheusError("a series whose values are not pairs of a time and a number as text")
    return found


def _is_labels(found: object) -> bool:
    return isinstance(found, dict) and all(isinstance(value, str) for value in found.values())


def _is_values(found: object) -> bool:
    try:
        kinds = {(type(moment), type(value)) for moment, value in found}  # type: ignore[attr-defined]  # caught if not
        return kinds <= _PAIRS and all(0 <= moment <= LATEST_EPOCH for moment, _ in found)  # type: ignore[attr-defined]  # as above
    except (TypeError, ValueError):
        return False


_PAIRS: Final = frozenset({(int, str), (float, str)})


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise _NotPrometheusError(f"{text!r} for a number") from None


def _milliseconds(low: datetime, high: datetime) -> int:
    """Whole milliseconds that reach from high back to low, where the window may leave out its left end."""
    return max(1, -((low - high) // timedelta(milliseconds=1)))


def _epoch_ms(moment: datetime) -> int:
    """Epoch milliseconds, cut to whole ones."""
    return (moment - EPOCH) // timedelta(milliseconds=1)


def _is_too_much(error: _AnsweredError) -> bool:
    return error.status in TOO_MUCH_STATUSES or bool(
        error.status in {400, 429, 500, 503, 504} and TOO_MUCH.search(error.said)
    )


def _said(response: requests.Response) -> str:
    """What an error answer says: Prometheus' own words, or the beginning of a text; of a page nothing."""
    try:
        told = response.json()
    except (ValueError, RecursionError):
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
