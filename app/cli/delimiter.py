"""--delimiter as typed in a shell."""

from __future__ import annotations

import re

from app.errors import UsageError

_ESCAPES = {r"\t": "\t", r"\0": "\0", r"\\": "\\"}
"""Escapes and their characters; `\\xNN` is the third kind."""


def delimiter(typed: str) -> str:
    r"""A delimiter as typed in a shell: `\t`, `\0`, `\xNN` and `\\` mean the characters, all else is literal.

    Raises:
        UsageError: it is empty, has an escape that is none of these, or is no text at all.

    >>> delimiter(r"\t"), delimiter(r"\x1f"), delimiter("¦"), delimiter(r"\\")
    ('\t', '\x1f', '¦', '\\')
    """

    def unescaped(match: re.Match[str]) -> str:
        escape = match[0]
        if escape not in _ESCAPES and len(escape) < len(r"\xNN"):
            raise UsageError(
                f"--delimiter {typed}: {escape} is no known escape; write \\t (a tab), \\x1f (a character by its "
                "number), or \\\\ (a backslash)"
            )
        return _ESCAPES.get(escape) or chr(int(escape[2:], 16))

    if not typed:
        raise UsageError("--delimiter is empty; without the option, the delimiter is detected")
    if any("\ud800" <= each <= "\udfff" for each in typed):  # bytes that are no UTF-8
        raise UsageError("--delimiter is not UTF-8; write the character itself")
    return re.sub(r"\\(x[0-9A-Fa-f]{2}|.?)", unescaped, typed, flags=re.DOTALL)
