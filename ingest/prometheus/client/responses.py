"""Responses of a server that are not samples: refusals, errors, warnings and names, each as its own type."""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec
from prometheus_api_client.exceptions import PrometheusApiClientException

from ingest.errors import SHOWN_CHARACTERS, ServerDownError, shorten
from ingest.plausible import LATEST_EPOCH
from ingest.retry import RetryableError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import requests

Series = list[dict[str, Any]]

AGAIN: Final = frozenset({408, 429, 500, 502, 503, 504})
"""Statuses of temporary errors."""

TOO_MUCH: Final = re.compile(
    r"exceeded maximum resolution|too many (?:samples|points|bytes|chunks|series)|maxSamplesPerQuery|"
    r"maxPointsPerTimeseries|query timed out|timeout exceeded|deadline exceeded|exceed(?:s|ed)? .*limit|"
    r"limit .*exceeded|exceeded the maximum|matching (?:unique )?timeseries exceeds|err-mimir-max-",
    re.IGNORECASE,
)
"""Messages of servers when a smaller query would have succeeded."""

TOO_OFTEN: Final = re.compile(r"\brate limit|max-request-rate|outstanding requests", re.IGNORECASE)
"""Messages of servers when any query would have been refused at that moment."""

SERIES: Final = re.compile(r"(?:many|number of|unique|matching|max-) ?(?:unique )?(?:time)?series", re.IGNORECASE)
"""Messages of servers when there are too many series: a shorter time has as many."""

TOO_MUCH_STATUSES: Final = frozenset({413, 422})
STATUSES_WITH_REASON: Final = frozenset({400, 429, 500, 503, 504})
"""Statuses whose message decides whether the query was too large."""

HARMLESS: Final = re.compile(r"PromQL (?:warning|info)\b|No StoreAPIs matched", re.IGNORECASE)
"""Warnings of an answer that is whole: about the query itself, or of Thanos where no part of it has that time."""

LATER: Final = "Loaded data stays; the next ingest continues from there. Is the server up?"
ADDRESS: Final = "Give the base address of the server, without /graph or /api/v1: --url http://prometheus:9090"
TOKEN: Final = (
    "It requires a login. Put a token in an environment variable, and its name in prometheus.token_env "  # noqa: S105 - a hint, no token
    "(or a user: prometheus.username and password_env; a tenant: headers)."
)
TENANT: Final = 'It requires a tenant: [prometheus] headers = { "X-Scope-OrgID" = "NAME" }.'
PART: Final = (
    "Nothing of that answer was used: its gaps would look like unobserved time. The next ingest requests it "
    "again; is a part of the server down?"
)
HINTS: Final = {
    401: TOKEN,
    403: TOKEN,
    404: ADDRESS,
    405: ADDRESS,
    429: "The server limits the rate of requests; loaded data stays, and the next ingest continues from there.",
}


LONGEST_REASON: Final = 4000
"""Characters of a server's message that are examined."""


class LimitExceededError(Exception):
    """The query exceeds a limit of the server."""


class AnsweredError(Exception):
    """The server answered with an error."""

    def __init__(self, status: int, message: str, retry_after: str) -> None:
        self.status = status
        self.message = message
        self.retry_after_s = float(retry_after) if retry_after.isdigit() else 0.0
        super().__init__(f"{status} {message}")

    @property
    def smaller_may_succeed(self) -> bool:
        """Whether a smaller request may be answered."""
        if TOO_OFTEN.search(self.message):
            return False
        return self.status in TOO_MUCH_STATUSES or bool(
            self.status in STATUSES_WITH_REASON and TOO_MUCH.search(self.message)
        )

    @property
    def hint(self) -> str:
        """A hint for the user."""
        if self.status in {400, 401} and "no org id" in self.message:
            return TENANT
        return HINTS.get(self.status, LATER)


class TemporaryError(RetryableError):
    """A request failed and may succeed when it is sent again: `down` is raised where no try is left."""

    def __init__(self, down: ServerDownError, *, pause_s: float = 0.0) -> None:
        self.down = down
        super().__init__(down, pause_s=pause_s)


class PartialError(Exception):
    """The server reports that its answer is incomplete."""


class NotPrometheusError(Exception):
    """Something answered, but not with JSON, or with other JSON than Prometheus'."""


class NotStreamedError(Exception):
    """Raw readings are not available, or not in the expected form; queries in JSON may still work."""


class _Annotations(msgspec.Struct):
    """Warnings and other fields of an answer besides the data."""

    warnings: list[str] | None = None
    is_partial: bool = msgspec.field(default=False, name="isPartial")


def warnings(body: bytes) -> list[str]:
    """Warnings of an answer that is whole.

    Raises:
        PartialError: it is not.
    """
    if b'"warnings"' not in body and b'"isPartial"' not in body:
        return []
    try:
        annotations = msgspec.json.decode(body, type=_Annotations)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return []  # the parser of the data reports the error
    messages = annotations.warnings or []
    missing = [one for one in messages if not HARMLESS.search(one)]
    if missing or annotations.is_partial:
        raise PartialError(missing[0] if missing else "isPartial")
    return messages


@contextlib.contextmanager
def not_streamed() -> Iterator[None]:
    """Turn a permanent refusal into `NotStreamedError`: raw readings are not available."""
    try:
        yield
    except AnsweredError as error:
        if error.status in AGAIN or error.smaller_may_succeed:
            raise
        raise NotStreamedError from error
    except (NotPrometheusError, PrometheusApiClientException) as error:
        raise NotStreamedError from error


def names_of(result: object) -> list[str]:
    """Names of metrics in the server's answer; an empty list may come as null."""
    if result is None:
        return []
    if not isinstance(result, list) or not all(isinstance(name, str) for name in result):
        raise NotPrometheusError("names that are no list of text")
    return result


def series_of(result: object, key: Literal["value", "values"]) -> Series:
    """Series of an answer: labels, and one value or several, each a time and a number as text."""
    if not isinstance(result, list):
        raise NotPrometheusError("a result that is no list of series")
    for one in result:
        if not isinstance(one, dict) or not _is_labels(one.get("metric")):
            raise NotPrometheusError("a series without labels")
        if not _is_values([one.get(key)] if key == "value" else one.get(key)):
            raise NotPrometheusError("a series whose values are not pairs of a time and a number as text")
    return result


def _is_labels(value_: object) -> bool:
    return isinstance(value_, dict) and all(isinstance(value, str) for value in value_.values())


def _is_values(pairs: object) -> bool:
    try:
        kinds = {(type(moment), type(value)) for moment, value in pairs}  # type: ignore[attr-defined]  # caught if not
        return kinds <= _PAIRS and all(0 <= moment <= LATEST_EPOCH for moment, _ in pairs)  # type: ignore[attr-defined]  # as above
    except (TypeError, ValueError):
        return False


_PAIRS: Final = frozenset({(int, str), (float, str)})


def number_of(text: str) -> float:
    """A number as text."""
    try:
        return float(text)
    except ValueError:
        raise NotPrometheusError(f"{text!r} for a number") from None


def error_message(response: requests.Response) -> str:
    """The message of an error response: Prometheus' own, or the beginning of a text; of an HTML page nothing."""
    try:
        body = response.json()
    except (ValueError, RecursionError):
        text = response.text.strip()
        return "" if text.startswith("<") else text
    return str(body.get("error", "")) if isinstance(body, dict) else ""


def shown(message: str) -> str:
    """The beginning and the end of a server's message: some repeat the query before the reason."""
    whole = shorten(message, LONGEST_REASON)
    return (
        whole if len(whole) <= SHOWN_CHARACTERS else f"{whole[: SHOWN_CHARACTERS // 3]} ... {whole[-SHOWN_CHARACTERS:]}"
    )


def innermost(error: BaseException) -> BaseException:
    """The cause; the errors around it repeat the address with the query."""
    while True:
        around = (error.__cause__, error.__context__, getattr(error, "reason", None), *error.args[:1])
        below = next((one for one in around if isinstance(one, BaseException)), None)
        if below is None:
            return error
        error = below


def describe_error(error: BaseException) -> str:
    """The cause of a failed connection, in words."""
    return shorten(getattr(error, "verify_message", "") or getattr(error, "strerror", None) or type(error).__name__)
