"""Base of every number: a cluster between two moments, and the source of its rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    import polars as pl

T = TypeVar("T")


class RowSource(Protocol):
    """Source of rows: a published copy, or the warehouse being written."""

    def query(self, name: str, **params: object) -> pl.DataFrame:
        """Rows of a named query."""
        ...

    def memo(self, key: tuple[object, ...], make: Callable[[], T]) -> T:
        """The result of `make`; a source whose rows do not change caches the result by its key."""
        ...


@dataclass(frozen=True)
class Window:
    """A cluster between two moments."""

    cluster: str
    since: datetime
    until: datetime

    @property
    def parameters(self) -> dict[str, object]:
        """The parameters of a named query about this window."""
        return {"cluster": self.cluster, "since": self.since, "until": self.until}
