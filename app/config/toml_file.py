"""Reading TOML that a person wrote: of a size and depth that a person writes, and never a wait for a writer."""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING, Any, Final

from ingest.errors import InputError
from ingest.files.safe_open import open_input

if TYPE_CHECKING:
    from pathlib import Path

LARGEST: Final = 1 << 20
"""Bytes of a configuration or claims file; a large one has a few thousand."""


class NotTomlError(ValueError):
    """The text is not usable TOML; the message has the reason."""


def read(path: Path) -> str:
    """The text of a file.

    Raises:
        FileNotFoundError: there is none.
        InputError: it cannot be read, or is no file.
        NotTomlError: it is too large, or no UTF-8.
    """
    if not path.exists():
        raise FileNotFoundError(path)
    with open_input(path) as file:
        try:
            data = file.read(LARGEST + 1)
        except OSError as error:
            message = f"{path}: {error.strerror or error}"
            raise InputError(message) from None
    if len(data) > LARGEST:
        raise NotTomlError(f"it is larger than {LARGEST:,} bytes")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise NotTomlError(str(error)) from None


def stamp(path: Path) -> tuple[int, ...]:
    """A stamp that changes when the file does; empty if there is none."""
    try:
        state = path.stat()
    except OSError:
        return ()
    return state.st_mtime_ns, state.st_size, state.st_ino


def parse(text: str) -> dict[str, Any]:
    """The values of a text.

    Raises:
        NotTomlError: it is not TOML, nested without end, or has a number of thousands of digits.
    """
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise NotTomlError("tables or lists within one another without end") from None
    except ValueError as error:  # TOMLDecodeError is one; so is Python's error about an integer of 5,000 digits
        raise NotTomlError(str(error)) from None
