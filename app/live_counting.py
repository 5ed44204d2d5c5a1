"""How many of the things that an answer tells of are new, how many changed, and how many are as they were."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final, NamedTuple

import polars as pl

from ingest.account_merge import ASSOCIATION_KEY, QOS_KEY, RUNAWAY_KEY, USER_KEY
from ingest.frames import ATTEMPT_KEY, SCHEMAS, conform

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ingest.frames import Parsed
    from queries.warehouse import Writer


class Counts(NamedTuple):
    """Things that answers tell of, beside what the warehouse had."""

    new: int = 0
    changed: int = 0
    known: int = 0

    def plus(self, other: Counts) -> Counts:
        """Of both together."""
        return Counts(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))


@dataclass(frozen=True)
class _Kind:
    """What the rows of a table are rows of.

    Attributes:
        query: Shows the rows of these things; None: the table is small.
        by: What `query` wants to know of them.
        key: What makes them one thing: a node is one however many spells it has.
    """

    query: str | None
    by: Sequence[str]
    key: Sequence[str]


_NODE: Final = ("cluster", "node")
KINDS: Final[dict[str, _Kind]] = {
    "attempts": _Kind("existing_attempts", ("cluster", "scheduler", "job_id"), ATTEMPT_KEY),
    "nodes": _Kind("existing_nodes", ("cluster",), _NODE),
    "node_states": _Kind("existing_node_states", _NODE, (*_NODE, "started_at", "source", "state_raw")),
    "node_topology": _Kind("existing_topology", ("cluster",), _NODE),
    "reservations": _Kind("existing_reservations", ("cluster",), ("cluster", "name", "started_at")),
    "associations": _Kind("existing_associations", ASSOCIATION_KEY, ASSOCIATION_KEY),
    "qos": _Kind("existing_qos", QOS_KEY, QOS_KEY),
    "transactions": _Kind(None, (), tuple(SCHEMAS["transactions"])),
    "runaway_jobs": _Kind("existing_runaway_jobs", RUNAWAY_KEY, RUNAWAY_KEY),
    "cluster_settings": _Kind(None, (), ("cluster", "name")),
    "users": _Kind("existing_users", USER_KEY, USER_KEY),
}
"""The tables whose things are counted. Of several in one answer the first here is what it is about."""

_UNTOLD: Final = ("last_seen_at", "valid_from")
"""Columns that follow from asking again."""

_SECOND: Final = timedelta(seconds=1)


class Count:
    """Counts around a load: made before it, and asked for after it."""

    def __init__(self, writer: Writer, parsed: Parsed) -> None:
        self._writer = writer
        self._table = next((name for name in KINDS if name in parsed.frames), None)
        if self._table is not None:
            self._told = parsed.frames[self._table]
            self._before = self._there()

    def made(self) -> Counts | None:
        """What the load made of it; None where its rows are no things that stay (a snapshot of numbers)."""
        if self._table is None:
            return None
        key = KINDS[self._table].key
        told, after = self._told.select(key).unique(), self._there()
        before = told.join(self._before, on=key, how="semi", nulls_equal=True)
        new = told.join(after, on=key, how="semi", nulls_equal=True).join(before, on=key, how="anti", nulls_equal=True)
        pairs = ((after, self._before), (self._before, after))
        differing = pl.concat([one.join(other, on=one.columns, how="anti", nulls_equal=True) for one, other in pairs])
        changed = before.join(differing, on=key, how="semi", nulls_equal=True)
        return Counts(new.height, changed.height, told.height - new.height - changed.height)

    def _there(self) -> pl.DataFrame:
        """The rows that there are of what was told, lists as text."""
        name, kind = self._table or "", KINDS[self._table or ""]
        if self._told.is_empty():
            rows = self._told
        elif kind.query is None:
            rows = self._writer.table(name)
        else:
            more = {}
            if name == "attempts":
                more["since"] = self._told["submitted_at"].min() - _SECOND  # type: ignore[operator]  # the least of times is a time
                more["until"] = self._told["submitted_at"].max() + _SECOND  # type: ignore[operator]  # as above
            rows = self._writer.query_with(kind.query, {"incoming": self._told.select(kind.by).unique()}, **more)
        schema = SCHEMAS[name]
        return (
            conform(rows, schema)
            .drop(column for column in _UNTOLD if column in schema)
            .with_columns(
                pl.col(column).list.join("\x1f") for column, form in schema.items() if isinstance(form, pl.List)
            )
        )
