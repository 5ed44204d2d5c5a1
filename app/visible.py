"""Texts as people are shown them: what steers a terminal, turns the direction of writing or hides is made visible.

Users name their jobs, and a name may hold anything. Data for machines (JSON, Parquet, CSV) keep it as it is.
"""

from __future__ import annotations

_INVISIBLE = (
    0x061C, 0x180E, *range(0x200B, 0x200C), *range(0x200E, 0x2010), *range(0x2028, 0x202F), *range(0x2060, 0x2070),
    0xFEFF, *range(0xFFF9, 0xFFFC), *range(0xE0000, 0xE0080),
)  # fmt: skip
"""Characters that turn the direction of writing, separate lines, or have no width (joiners stay: scripts need them)."""

CONTROLS = (*range(32), *range(127, 160))
"""Characters that a terminal may execute as a command."""

FORMULAS = ("=", "+", "-", "@", "\t", "\r")
"""How a cell begins that a spreadsheet may run."""


def escapes(keep: str = "") -> dict[int, str]:
    """A table for `str.translate`: controls become a replacement character, invisible ones their number.

    Args:
        keep: controls that stay.
    """
    shown = dict.fromkeys((each for each in CONTROLS if chr(each) not in keep), "\N{REPLACEMENT CHARACTER}")
    return shown | {each: f"\\u{each:04x}" if each < 0x10000 else f"\\U{each:08x}" for each in _INVISIBLE}


_ESCAPES = escapes("\n\t")


def visible(text: str) -> str:
    r"""A text in which nothing hides.

    >>> visible("report-\u202egpj.exe"), visible("a\x1b[2Jb"), visible("ناعم naïve 東京")
    ('report-\\u202egpj.exe', 'a\ufffd[2Jb', 'ناعم naïve 東京')
    """
    return text.translate(_ESCAPES)


def no_formula(text: str) -> str:
    """A cell that no spreadsheet runs: one that begins like a formula gets an apostrophe before it.

    >>> no_formula("=1+1"), no_formula("-1"), no_formula("a=b"), no_formula("")
    ("'=1+1", "'-1", 'a=b', '')
    """
    return f"'{text}" if text.startswith(FORMULAS) else text
