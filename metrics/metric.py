"""A published metric: what it is called, what it means, where its definition comes from, where it is shown.

Each entry stands below the function that computes the metric, in `METRICS` of its module; `metrics.catalog` collects
them. The command line, the reference, the explorer, reports, boards, the exporter and claims read the entries.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

BOUNDS = "bounds: unattributed and assumed time counted all unproductive (low) and all productive (high)"
"""How the uncertainty of a share of GPU-time is given."""


@dataclass(frozen=True, kw_only=True)
class Metric:
    """A published number.

    Attributes:
        name: as in the column `metric`, and in claims.
        unit: of its value.
        summary: one sentence for a table of contents.
        formula: numerator over denominator, in the words of the data dictionary.
        query: the named query whose rows it is computed from.
        function: the arithmetic; None where the query itself is.
        interval: how uncertainty is given.
        source: publication, or the section of our definitions.
        headline: its place among the headline numbers; None where it is none of them.
    """

    name: str
    unit: str
    summary: str
    formula: str
    query: str
    function: Callable[..., object] | None
    interval: str
    source: str
    headline: int | None = None

    @property
    def computed_by(self) -> str:
        """Where the arithmetic is, for who wants to check it."""
        if self.function is None:
            return f"the named query {self.query}"
        return f"{self.function.__module__}.{self.function.__qualname__}"
