"""A source of one run: what `app.results` computes of all runs, computed of this one from its own rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from queries.memo import Memo
from queries.of_run import CONDITIONS

if TYPE_CHECKING:
    from collections.abc import Callable

    import polars as pl

    from queries.warehouse import Reader

T = TypeVar("T")


class OneRun:
    """Answers the named queries about runs with the rows of one run; the rows of other queries are as they are.

    Args:
        reader: the published copy.
        cluster: of the run.
        run_id: the run.
    """

    def __init__(self, reader: Reader, cluster: str, run_id: str) -> None:
        self._reader = reader
        self.cluster = cluster
        self.run_id = run_id
        self._answers = Memo()
        self._made = Memo()

    def query(self, name: str, **params: object) -> pl.DataFrame:
        """Rows of a named query, each read once."""
        key = (name, *sorted(params.items()))
        if name in CONDITIONS:
            return self._answers.get(key, lambda: self._reader.query_of_run(name, self.run_id, **params))
        return self._answers.get(key, lambda: self._reader.query(name, **params))

    def memo(self, key: tuple[object, ...], make: Callable[[], T]) -> T:
        """What `make` returned when it was first called under that key, for this run only."""
        return self._made.get(key, make)
