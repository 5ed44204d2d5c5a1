"""What the numbers of all windows are made of, read once: while results are computed, none of it changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    import polars as pl

    from app.results.base import Source

T = TypeVar("T")

_OF_ALL_WINDOWS: Final = frozenset(
    {"attempts", "run_attempts", "computed", "run_sessions", "steps", "run_events", "node_states", "inventoried"}
)
"""Named queries that ask for no window. None of them reads a table that results are written to."""


class Remembered:
    """A source that keeps the answers which hold for all windows, and what was made of them."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._answers: dict[tuple[object, ...], pl.DataFrame] = {}
        self._made: dict[tuple[object, ...], object] = {}

    def query(self, name: str, **params: object) -> pl.DataFrame:
        """Rows of a named query."""
        if name not in _OF_ALL_WINDOWS:
            return self._source.query(name, **params)
        key = (name, *sorted(params.items()))
        if key not in self._answers:
            self._answers[key] = self._source.query(name, **params)
        return self._answers[key]

    def made(self, key: tuple[object, ...], make: Callable[[], T]) -> T:
        """What `make` returned when it was first called under that key."""
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]  # type: ignore[return-value]  # a key always stands for one type
