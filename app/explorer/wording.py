"""Names from Trackside's own vocabulary, such as causes, as people read them; addresses and CSV keep the names."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from dashboards import palette

if TYPE_CHECKING:
    from collections.abc import Sequence

NAMED: Final = frozenset({"cause", "kind", "kinds", "stage", "stages", "outcome"})
"""Columns, or what an answer is split by, that hold such names, or sentences made of them."""

WORDS: Final = {
    "ib": "InfiniBand",
    "ecc": "ECC error",
    "xid": "XID error",
    "nvlink": "NVLink",
    "out_of_slurm": "out of service in Slurm only",
}
"""Names that underscores do not explain."""


SPLITS: Final = {
    "law": "size law",
    "hazard": "age of the attempt",
    "reference": "published clusters",
    "order": "order of loss",
    "delay": "jobs that waited",
}
"""What an answer can be split by, where its name does not explain it."""


def in_words(name: str) -> str:
    """A name, or a sentence with names, as people read it.

    >>> in_words("node_fail"), in_words("ib"), in_words("row_remap pending, xid 63")
    ('node fail', 'InfiniBand', 'row remap pending, xid 63')
    """
    return WORDS.get(name, name.replace("_", " "))


def categories_in_words(sentence: str) -> str:
    """A sentence in which categories are called as figures and tables of pages call them.

    >>> categories_in_words("the largest other parts: pending demand 3.1 %, lost 2.0 %.")
    'the largest other parts: “Idle, work waiting” 3.1 %, lost 2.0 %.'
    """
    return _CATEGORIES.sub(lambda found: f"“{palette.swatch(found[0].replace(' ', '_')).label}”", sentence)


_CATEGORIES: Final = re.compile(r"\b(?:pending|no) demand\b")
"""Names of categories that pages call otherwise, as sentences have them."""


def all_in_words(names: Sequence[str | None]) -> list[str]:
    """The texts of a column; a dash where there is none."""
    return [in_words(name) if name else "-" for name in names]
