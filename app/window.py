"""What every number starts from: a cluster between two moments, and where rows are read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    import polars as pl

T = TypeVar("T")


class RowSource(Protocol):
    """What rows are read from: a published copy, or the warehouse being written."""

    def query(self, name: str, **params: object) -> pl.DataFrame:
        """Rows of a named query."""
        ...

    def memo(self, key: tuple[object, ...], make: Callable[[], T]) -> T:
        """What `make` returns; a source whose rows do not change keeps it, and returns it for that key from then on."""
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
