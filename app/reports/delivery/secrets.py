"""Secrets that the configuration names: environment variables, and files. They are in no message and in no log."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from app.reports.delivery.outcomes import DeliveryRefusedError

if TYPE_CHECKING:
    from pathlib import Path

LARGEST: Final = 1 << 16
"""Bytes of a file with a secret."""


def secret(variable: str, file: Path | None) -> str:
    """A secret, without blanks and line ends around it.

    Args:
        variable: environment variable that holds it.
        file: the file that does; it comes first.

    Raises:
        RefusedError: there is none there. The message names the place, not the secret.
    """
    if file is not None:
        return _of_file(file)
    value = os.environ.get(variable, "").strip()
    if not value:
        raise DeliveryRefusedError(f"the environment variable {variable} is not set")
    return value


def _of_file(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            value = opened.read(LARGEST).decode().strip()
    except OSError as error:
        raise DeliveryRefusedError(f"{file} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise DeliveryRefusedError(f"{file} holds no text") from None
    if not value:
        raise DeliveryRefusedError(f"{file} is empty")
    return value


def without(text: str, *secrets: str) -> str:
    """A text without secrets, in one line of a length that fits a list.

    >>> without("no such token: abc def", "abc")
    'no such token: *** def'
    """
    for each in sorted(filter(None, secrets), key=len, reverse=True):
        text = text.replace(each, "***")
    return " ".join(text.split())[:200]
