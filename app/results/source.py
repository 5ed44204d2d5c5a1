"""Sources that read each query once, for who needs many of the same rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol, TypeVar, runtime_checkable

from queries.memo import Memo

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    import polars as pl

    from app.window import RowSource

T = TypeVar("T")

OF_ALL_WINDOWS: Final = frozenset(
    {
        *("attempts", "run_attempts", "run_sizes", "computed", "run_sessions", "steps", "run_events"),
        *("node_states", "inventoried"),
    }
)
"""Named queries without a window. None of them reads a table that results are written to."""

OF_ONE_WINDOW: Final = frozenset({"endings", "exposures", "interruptions", "ledger_sums", "runs"})
"""Named queries that several numbers of a window need. None of them reads a table that results are written to."""


@runtime_checkable
class Keeps(Protocol):
    """A source that keeps answers."""

    def let_go(self, *names: str) -> None:
        """Keep the answers of these queries no longer."""
        ...


class CachedSource:
    """A source that keeps answers, and what was made of them. What it reads must not change meanwhile.

    Args:
        source: where rows are read.
        only: queries whose answers are kept; all of them if None.
    """

    def __init__(self, source: RowSource, *, only: Collection[str] | None = None) -> None:
        self._source = source
        self._only = only
        self._answers = Memo()
        self._kept: dict[tuple[object, ...], pl.DataFrame] = {}
        self._made = Memo()

    def query(self, name: str, **params: object) -> pl.DataFrame:
        """Rows of a named query; those of the first time where they are kept, or those that `keep` was given."""
        key = (name, *answer_key(params))
        if key in self._kept:
            return self._kept[key]
        if self._only is not None and name not in self._only:
            return self._source.query(name, **params)
        return self._answers.get(key, lambda: self._source.query(name, **params))

    def keep(self, name: str, rows: pl.DataFrame, **params: object) -> None:
        """Have a query return rows that are at hand, and not read them: they are what it would read, in its order.

        That holds from now on, of any query, and also where it was read before.
        """
        self._kept[name, *answer_key(params)] = rows

    def let_go(self, *names: str) -> None:
        """Keep the answers of these queries no longer, here and below: who needs one of them reads it again."""
        self._answers.forget(lambda key: key[0] in names)  # type: ignore[index]  # keys of `query`
        self._kept = {key: rows for key, rows in self._kept.items() if key[0] not in names}
        if isinstance(self._source, Keeps):
            self._source.let_go(*names)

    def memo(self, key: tuple[object, ...], make: Callable[[], T]) -> T:
        """What `make` returned when it was first called under that key, here or by the source itself."""
        return self._made.get(key, lambda: self._source.memo(key, make))

    def own_memo(self, key: tuple[object, ...], make: Callable[[], T]) -> T:
        """As `memo`, but the source below keeps nothing: it may live long, and what is made may be large."""
        return self._made.get(key, make)


def memo_of_cache(source: RowSource, key: tuple[object, ...], make: Callable[[], T]) -> T:
    """What `make` returns, kept by a `CachedSource` only."""
    return source.own_memo(key, make) if isinstance(source, CachedSource) else make()


def answer_key(params: dict[str, object]) -> tuple[tuple[str, object], ...]:
    """Parameters of a query as a key: lists as tuples.

    >>> answer_key({"runs": ["a"], "cluster": "c"})
    (('cluster', 'c'), ('runs', ('a',)))
    """
    return tuple((name, tuple(value) if isinstance(value, list) else value) for name, value in sorted(params.items()))
