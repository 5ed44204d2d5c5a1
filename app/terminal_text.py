"""Printing lines of text without the libraries that tables and data need: it imports in a few milliseconds."""

from __future__ import annotations

import sys

from app.visible import escapes

_CONTROLS_IN_LINES = escapes("\n\t")


def echo(text: str = "", *, error: bool = False) -> None:
    """Print lines as they are, but for what would control the terminal: names in files may hold escape sequences."""
    print(text.translate(_CONTROLS_IN_LINES), file=sys.stderr if error else sys.stdout)
