"""The one list of published metrics: what each is called, what it means, where its definition comes from.

The command line, the data dictionary, the README's table and (from step 2 on) boards and reports read this list.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Metric:
    """A published number.

    Attributes:
        name: as in the column `metric`, and in claims.
        unit: of its value.
        summary: one sentence for a table of contents.
        formula: numerator over denominator, in the words of the data dictionary.
        query: the named query whose rows it is computed from.
        function: where the arithmetic is, for who wants to check it.
        interval: how uncertainty is given.
        source: publication, or the section of our definitions.
    """

    name: str
    unit: str
    summary: str
    formula: str
    query: str
    function: str
    interval: str
    source: str


BOUNDS = "bounds: unattributed and assumed time counted all unproductive (low) and all productive (high)"
