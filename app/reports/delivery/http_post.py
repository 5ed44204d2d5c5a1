"""One POST of JSON, with plain reasons of failures: an address may itself be a secret, so no message has it."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, Final

import requests

from app.reports.delivery.outcomes import DeliveryRefusedError, UnreachableError
from app.reports.delivery.secrets import without
from ingest.retry import RetryableError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

LATER: Final = frozenset({408, 425, 429})
"""Statuses below 500 after which another try may help."""

ANSWER: Final = 4096
"""Bytes of an answer that are read."""


def post(
    url: str,
    body: bytes,
    headers: Mapping[str, str],
    *,
    ca_file: Path | None,
    timeout_s: float,
    secrets: tuple[str, ...],
) -> None:
    """Send a body; any 2xx is acceptance.

    Args:
        url: where to. Redirects are not followed: they would take the report elsewhere.
        body: JSON.
        headers: besides its media type.
        ca_file: certificates of the authorities to trust; None: those of the system.
        timeout_s: longest wait for the connection, and between two parts of the answer.
        secrets: what no message may have.

    Raises:
        RefusedError: the receiver refuses it, or cannot be trusted.
        UnreachableError: no answer, or an error of the receiver.
        RetryableError: the same, with the pause that the receiver requests.
    """
    verify: bool | str = True if ca_file is None else str(ca_file)
    try:
        with requests.Session() as session:
            session.auth = lambda request: request  # no password of a .netrc
            whole = {"Content-Type": "application/json", "User-Agent": "trackside", **headers}
            with session.post(
                url, data=body, headers=whole, timeout=timeout_s, verify=verify, allow_redirects=False, stream=True
            ) as answer:
                _judge(answer, secrets)
    except requests.RequestException as error:
        raise _failure(error, timeout_s) from None
    except OSError as error:  # the file of certificates
        raise DeliveryRefusedError(
            f"{ca_file} cannot be used: {error.strerror or 'it holds no certificates'}"
        ) from None


def _judge(answer: requests.Response, secrets: tuple[str, ...]) -> None:
    if answer.ok and answer.status_code < 300:
        return
    reply = answer.raw.read(ANSWER, decode_content=True).decode("utf-8", "replace").strip()
    first = without(reply.splitlines()[0], answer.url, *secrets) if reply else answer.reason
    message = f"the receiver answered {answer.status_code}: {first}"
    if answer.status_code < 500 and answer.status_code not in LATER:
        raise DeliveryRefusedError(message)
    pause = answer.headers.get("Retry-After", "")
    raise RetryableError(
        UnreachableError(message), pause_s=float(pause) if pause.isascii() and pause.isdigit() else 0.0
    )


def _failure(error: requests.RequestException, timeout_s: float) -> DeliveryRefusedError | UnreachableError:
    """The failure of a request in plain words; the library's own would name the address."""
    if isinstance(error, requests.exceptions.SSLError):
        return DeliveryRefusedError(f"TLS: {_tls_reason(error)}")
    if isinstance(error, requests.Timeout):
        return UnreachableError(f"no answer in {timeout_s:g} s")
    if isinstance(error, requests.exceptions.InvalidURL | requests.exceptions.MissingSchema):
        return DeliveryRefusedError("the address cannot be used (not shown: it may hold a secret)")
    cause = _innermost(error)
    if isinstance(cause, OSError) and cause.strerror:
        return UnreachableError(cause.strerror)
    return UnreachableError(f"the connection failed ({type(cause).__name__})")


def _tls_reason(error: requests.RequestException) -> str:
    cause = _innermost(error)
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"the certificate is not trusted: {cause.verify_message}"
    return str(getattr(cause, "reason", None) or "the connection cannot be encrypted")


def _innermost(error: BaseException) -> BaseException:
    """The error that others wrap: by their arguments, attributes and contexts."""
    while True:
        inner = getattr(error, "reason", None) if not isinstance(error, ssl.SSLError) else None
        candidates = [inner, *(error.args if not isinstance(error, OSError) or error.errno is None else ())]
        following = next((each for each in candidates if isinstance(each, BaseException)), None) or error.__cause__
        if following is None:
            return error
        error = following
