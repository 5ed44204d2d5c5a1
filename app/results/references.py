"""Where a definition comes from, in words that whoever reads it can follow."""

from __future__ import annotations

import re

OWN = "Trackside's own definition (manual, The ledger)"
"""Stands for the sections of a document that only the project has."""

_SECTION = re.compile(r"(?:\w+ of )?our definitions(?: \d+(?:\.\d+)*)?")


def readable(source: str) -> str:
    """The source of a metric, with references to a document that readers do not have put into words.

    >>> readable("our definitions 4.3 (no published one)")
    "Trackside's own definition (manual, The ledger) (no published one)"
    >>> readable("Chowdhery et al. 2022, Appendix B")
    'Chowdhery et al. 2022, Appendix B'
    """
    return _SECTION.sub(OWN, source)
