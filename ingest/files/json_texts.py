"""Successive JSON texts, as in the output of a watch and in logs; the last one may be cut."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

SPACE: Final = re.compile(r"\s*")


class BrokenTextError(ValueError):
    """A text ends within itself, or is damaged.

    Attributes:
        at: where it begins, in characters.
    """

    def __init__(self, cause: Exception, at: int) -> None:
        super().__init__(str(cause))
        self.at = at


def json_texts(text: str, *, between: re.Pattern[str] = SPACE) -> Iterator[tuple[Any, str]]:
    r"""The value of each text, and the text itself.

    Args:
        text: all of them.
        between: separator before each of them, and behind the last; it also matches nothing.

    Raises:
        BrokenTextError: at the first that cannot be read; those before it have been returned.

    >>> list(json_texts('{"a": 1}\n[2]'))
    [({'a': 1}, '{"a": 1}'), ([2], '[2]')]
    """
    decoder, end = json.JSONDecoder(), 0
    while (begin := _end_of_value(text, end, between)) < len(text):
        try:
            value, end = decoder.raw_decode(text, begin)
        except (ValueError, RecursionError) as error:
            raise BrokenTextError(error, begin) from None
        yield value, text[begin:end]


def _end_of_value(text: str, at: int, between: re.Pattern[str]) -> int:
    match = between.match(text, at)
    return match.end() if match else at
