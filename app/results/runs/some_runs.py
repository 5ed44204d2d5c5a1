"""A source of some runs: what is computed of all runs of a cluster, computed of these from their own rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from app.results.source import answer_key
from queries.memo import Memo
from queries.run_filter import CONDITIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import polars as pl

    from queries.warehouse import Reader

T = TypeVar("T")


class SomeRuns:
    """Answers the named queries about runs with the rows of some runs; the rows of other queries are as they are.

    Args:
        reader: the published copy.
        cluster: of the runs.
        run_ids: the runs.
    """

    def __init__(self, reader: Reader, cluster: str, run_ids: Sequence[str]) -> None:
        self._reader = reader
        self.cluster = cluster
        self._run_ids = tuple(run_ids)
        self._answers = Memo()
        self._made = Memo()

    def query(self, name: str, **params: object) -> pl.DataFrame:
        """Rows of a named query, each read once."""
        key = (name, *answer_key(params))
        if name in CONDITIONS:
            return self._answers.get(key, lambda: self._reader.query_of_runs(name, self._run_ids, **params))
        return self._answers.get(key, lambda: self._reader.query(name, **params))

    def memo(self, key: tuple[object, ...], make: Callable[[], T]) -> T:
        """What `make` returned when it was first called under that key, for these runs only."""
        return self._made.get(key, make)
