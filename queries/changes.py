"""Changes in a warehouse since a data version: tables and months, as its writers recorded them.

A commit to a lake uses them to read only new rows, not all of the past. Each transaction records the months of the rows
that it writes or deletes, together with them, in a fact of the warehouse. The record is never too small: where a writer
has no month, it is a whole table; where another program may have written, it is everything.
"""

from __future__ import annotations

import functools
import json
import re
import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Self

from queries import sql_files

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    import polars as pl

FACT: Final = "changed"
"""Fact of a warehouse: `Changes` as of its data version."""

WHOLE, DAYLESS = "all", "none"
"""All rows of a table; those whose time is null."""

_STATES_KEPT: Final = 256
"""So many transactions may lie between two commits of a lake; if there are more, the second one reads everything."""


@functools.cache
def time_of(table: str) -> str | None:
    """The column with a row's month: the first time that is never null, else the first.

    >>> time_of("gpu_time"), time_of("nodes.no_such_table")
    ('started_at', None)
    """
    declared = {each.name: each for each in sql_files.all_tables()}.get(table)
    if declared is None:
        return None
    times = [each for each in declared.columns if each.type.removesuffix(" NOT NULL") in {"DATE", "TIMESTAMPTZ"}]
    never_null = [each for each in times if each.type.endswith(" NOT NULL")]
    return next((each.name for each in never_null or times), None)


@dataclass
class Changes:
    """When each table, and each month of it, was changed last.

    Attributes:
        states: by data version, what distinguishes it from that of a warehouse restored from a backup; as many as
            are kept, without a gap.
        versions: by table and month (or `WHOLE`), the data version that changed it last.
    """

    states: dict[int, str] = field(default_factory=dict)
    versions: dict[str, dict[str, int]] = field(default_factory=dict)
    _touched: dict[str, set[str]] = field(default_factory=dict)
    _unknown: bool = False

    @classmethod
    def of(cls, fact: str | None, version: int) -> Self:
        """Recorded changes of a warehouse of this data version; all is unknown if another Trackside wrote last."""
        noted, _, text = (fact or "").partition(" ")
        if noted != str(version):
            return cls()
        content: dict[str, Any] = json.loads(text)
        return cls({int(number): state for number, state in content["states"].items()}, content["versions"])

    def touch(self, table: str, months: Iterable[str] = (WHOLE,)) -> None:
        """Note that rows of some months of a table are written or deleted."""
        self._touched.setdefault(_full(table), set()).update(months)

    def touch_anything(self) -> None:
        """Record that the changes of the open transaction are unknown."""
        self._unknown = True

    def text(self, version: int) -> str:
        """The fact, when the open transaction commits and makes a data version."""
        if self._unknown:
            self.states.clear()
            self.versions.clear()
        self.states[version] = secrets.token_hex(4)
        for old in sorted(self.states)[:-_STATES_KEPT]:
            del self.states[old]
        for table, months in self._touched.items():
            self.versions.setdefault(table, {}).update(dict.fromkeys(sorted(months), version))
        return f"{version} {json.dumps({'states': self.states, 'versions': self.versions}, separators=(',', ':'))}"

    def state(self, version: int) -> str | None:
        """Digest of a data version; None if it is no longer recorded."""
        return self.states.get(version)

    def since(self, version: int, table: str) -> frozenset[str]:
        """The months of a table that have changed since a data version whose state is known: `WHOLE` is all of them."""
        return frozenset(month for month, last in self.versions.get(table, {}).items() if last > version)


def of_warehouse(facts: Mapping[str, str]) -> Changes:
    """Changes in the facts of a published copy."""
    return Changes.of(facts.get(FACT), int(facts["data_version"]))


def months_of(rows: pl.DataFrame, column: str | None) -> Collection[str]:
    """The months of the rows of a frame, by their time.

    >>> import polars as pl; from datetime import date
    >>> months_of(pl.DataFrame({"day": [date(2026, 10, 31), date(2026, 10, 1), None]}), "day")
    ['2026-10', 'none']
    """
    if column is None:
        return [WHOLE]
    if column not in rows.columns:
        return [DAYLESS]
    times = rows[column]
    if not times.dtype.is_temporal():  # a text, which DuckDB makes a time of
        return [WHOLE]
    if getattr(times.dtype, "time_zone", None) not in {None, "UTC"}:
        times = times.dt.convert_time_zone("UTC")
    low, high = times.min(), times.max()
    found = [DAYLESS] if times.null_count() else []
    if low is None or high is None:
        return found
    if _month(low) == _month(high):
        return [_month(low), *found]
    return [*sorted(map(_month, times.drop_nulls().dt.truncate("1mo").unique().to_list())), *found]


_WRITTEN: Final = re.compile(r"^\s*(INSERT INTO|DELETE FROM|UPDATE)\s+([\w.]+)", re.MULTILINE)


def written(sql: str) -> tuple[str, str]:
    """Kind of a statement, and its table.

    >>> written("DELETE FROM gpu_hours AS h USING i")
    ('DELETE FROM', 'gpu_hours')
    """
    found = _WRITTEN.search(sql)
    assert found is not None, sql  # noqa: S101 - a statement of ours
    return found[1], found[2]


def months_of_keys(table: str, keys: pl.DataFrame) -> Collection[str] | None:
    """The months of a table's rows with some keys; None if the keys do not have them."""
    column = time_of(table)
    if column is None or keys.columns == ["cluster"]:
        return (WHOLE,)
    return months_of(keys, column) if column in keys.columns else None


def months_inserted(table: str, frames: Iterable[pl.DataFrame]) -> Collection[str]:
    """The months of rows that a statement inserts, made of these frames: of one alone the table's time is a column."""
    column = time_of(table)
    of_time = [frame for frame in frames if column in frame.columns]
    return months_of(of_time[0], column) if len(of_time) == 1 else [WHOLE]


def month_sql(column: str) -> str:
    """SQL for the month of a date or a time, in UTC: a third of the time of functions with time zones."""
    return f"date_trunc('month', make_timestamp(epoch_us({column})))"


def months_of_deleted(sql: str, column: str) -> str:
    """SQL for the months of the rows that a statement deletes.

    >>> months_of_deleted("DELETE FROM gpu_hours AS h USING i WHERE h.ts = i.ts", "ts").partition(" FROM ")[2]
    'gpu_hours AS h , i WHERE h.ts = i.ts'
    """
    found = _DELETED.search(sql)
    assert found is not None, sql  # noqa: S101 - a statement of ours
    name = found["alias"] or found["table"]
    rest = found["rest"]
    tables = f", {rest.removeprefix('USING').lstrip()}" if rest.startswith("USING") else rest
    month = month_sql(f'{name}."{column}"')
    return f"SELECT DISTINCT {month} FROM {found['named']} {tables}"  # noqa: S608 - a statement of ours


_DELETED: Final = re.compile(
    r"DELETE FROM\s+(?P<named>(?P<table>[\w.\"]+)(?:\s+AS\s+(?P<alias>\w+))?)\s+(?P<rest>.*)", re.DOTALL
)


def _month(moment: Any) -> str:  # noqa: ANN401 - a date or a time
    return f"{moment.year:04d}-{moment.month:02d}"


def _full(table: str) -> str:
    return table if "." in table else f"main.{table}"
