"""What every number starts from: a cluster between two moments, and where rows are read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from datetime import datetime

    import polars as pl


class Source(Protocol):
    """What rows are read from: a published copy, or the warehouse being written."""

    def query(self, name: str, **params: object) -> pl.DataFrame:
        """Rows of a named query."""
        ...


@dataclass(frozen=True)
class Window:
    """A cluster between two moments."""

    cluster: str
    since: datetime
    until: datetime
