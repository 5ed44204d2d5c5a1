"""Exceptions that are caught where an unexpected fault of one part must not stop the others."""

from __future__ import annotations

from polars.exceptions import PanicException

FAULTS = (Exception, PanicException)
"""Everything but what ends the process: a panic of polars is no Exception."""


def reason_of(error: BaseException) -> str:
    r"""An error in one line, with its kind where the text alone would be empty.

    >>> reason_of(ValueError("no such node\nsee the log")), reason_of(KeyError("s"))
    ('no such node', "KeyError: 's'")
    """
    first = (str(error).strip() or type(error).__name__).splitlines()[0]
    return f"{type(error).__name__}: {first}" if isinstance(error, LookupError) else first
