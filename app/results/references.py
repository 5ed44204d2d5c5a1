"""Where a definition comes from, in words that whoever reads it can follow."""

from __future__ import annotations

import re
from typing import Final

_SECTION: Final = re.compile(r"(?:\w+ of )?our definitions(?: (?P<section>\d+(?:\.\d+)*))?")

_PAGES: Final = {"4.3": "Failures", "5": "The ledger", "7": "Failures"}
"""Page of the manual by section, else by chapter, of a document that only the project has. Others have no page."""


def readable(source: str) -> str:
    """The source of a metric, with references to a document that readers do not have put into words.

    >>> readable("our definitions 4.3 (no published one)")
    "Trackside's own definition (manual, Failures) (no published one)"
    >>> readable("goodput_alloc of our definitions 5.2; our definitions 1.5")
    "Trackside's own definition (manual, The ledger); Trackside's own definition"
    >>> readable("Chowdhery et al. 2022, Appendix B")
    'Chowdhery et al. 2022, Appendix B'
    """
    return _SECTION.sub(_own, source)


def _own(reference: re.Match[str]) -> str:
    section = reference["section"] or ""
    page = _PAGES.get(section) or _PAGES.get(section.partition(".")[0])
    return "Trackside's own definition" + (f" (manual, {page})" if page else "")
