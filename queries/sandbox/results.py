"""Rows of a person's SQL as an Arrow table that frames can hold: any number of columns of one name, of any type.

What frames, JSON or CSV do not have (intervals, unions, times of the year 294247, `infinity`) becomes DuckDB's text.
"""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence, Set

    import duckdb
    from duckdb.sqltypes import DuckDBPyType

_NUMBERS: Final = """boolean tinyint smallint integer bigint hugeint utinyint usmallint uinteger ubigint float
    double decimal varchar"""  # UHUGEINT is exported as a signed number: large ones would be negative
_TIMES: Final = "date time timestamp timestamp_s timestamp_ms timestamp_ns"
_PLAIN: Final = frozenset({*_NUMBERS.split(), *_TIMES.split(), "timestamp with time zone", "null", '"null"'})
_NESTED: Final = frozenset({"list", "array", "struct"})
_BATCH: Final = 1_000


def answer(relation: duckdb.DuckDBPyRelation, rows: int, room: int) -> tuple[pa.Table, bool]:
    """The first rows, as many as are allowed and fit in so many bytes, and whether there are more."""
    as_text = _unprintable(relation)
    while True:
        table, more = _taken(relation, as_text, rows, room)
        wrong = _out_of_range(table)
        if not wrong:
            return table, more
        as_text |= wrong  # the query runs again, with more columns as text


def _unprintable(relation: duckdb.DuckDBPyRelation) -> set[int]:
    """Numbers of the columns whose type frames do not have."""
    return {number for number, kind in enumerate(relation.types) if not _printable(kind)}


def _printable(kind: DuckDBPyType) -> bool:
    if kind.id in _NESTED:
        return all(_printable(child) for name, child in kind.children if name != "size" or kind.id != "array")  # type: ignore[arg-type]  # types, but for that size
    return kind.id in _PLAIN


def _taken(relation: duckdb.DuckDBPyRelation, as_text: Set[int], rows: int, room: int) -> tuple[pa.Table, bool]:
    names = distinct(relation.columns)
    if as_text:
        columns = [f"CAST(#{n} AS VARCHAR)" if n - 1 in as_text else f"#{n}" for n in range(1, len(names) + 1)]
        relation = relation.project(", ".join(f"{column} AS c{n}" for n, column in enumerate(columns)))
    batches = relation.to_arrow_reader(_BATCH)
    taken, more = [], False
    for batch in batches:
        more = batch.num_rows > rows or batch.nbytes > room
        if batch.nbytes > room:
            break
        taken.append(batch.slice(0, rows))
        rows, room = rows - taken[-1].num_rows, room - batch.nbytes
        if more:
            break
    return pa.Table.from_batches(taken, schema=batches.schema).rename_columns(names), more


def distinct(names: Sequence[str]) -> list[str]:
    """Names of columns, each once: a frame has no two of one name.

    >>> distinct(["n", "n", "n_1", "n"])
    ['n', 'n_2', 'n_1', 'n_3']
    """
    taken, used = set(names), set[str]()
    result = []
    for name in names:
        number, unique = 0, name
        while unique in used or (number and unique in taken):
            number += 1
            unique = f"{name}_{number}"
        used.add(unique)
        result.append(unique)
    return result


def _out_of_range(table: pa.Table) -> set[int]:
    """Numbers of the columns that hold a value which Python's dates, times or frames' decimals cannot show."""
    return {
        number
        for number, column in enumerate(table.columns)
        if any(_beyond(leaf) for chunk in column.chunks for leaf in _leaves(chunk))
    }


def _leaves(values: Any) -> Iterator[Any]:  # noqa: ANN401 - pyarrow carries no types
    """The arrays of which an array of lists or structures is made."""
    kind = values.type
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        yield from _leaves(values.flatten())
    elif pa.types.is_struct(kind):
        for part in values.flatten():
            yield from _leaves(part)
    else:
        yield values


_DAY_S: Final = 86_400
_FIRST_DAY: Final = (date.min - date(1970, 1, 1)).days
_LAST_DAY: Final = (date.max - date(1970, 1, 1)).days
_PER_SECOND: Final = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_MOST_64: Final = 2**63 - 1


def _beyond(values: Any) -> bool:  # noqa: ANN401 - pyarrow carries no types
    kind = values.type
    if pa.types.is_date32(kind):
        return _outside(values.view(pa.int32()), _FIRST_DAY, _LAST_DAY)
    if pa.types.is_timestamp(kind):
        second = _PER_SECOND[kind.unit]
        low, high = _FIRST_DAY * _DAY_S * second, (_LAST_DAY + 1) * _DAY_S * second - 1
        return _outside(values.view(pa.int64()), max(low, 1 - _MOST_64), min(high, _MOST_64 - 1))
    if pa.types.is_time64(kind):
        return _outside(values.view(pa.int64()), 0, _DAY_S * _PER_SECOND[kind.unit] - 1)
    if pa.types.is_decimal(kind) and kind.precision == _DIGITS:
        return _outside(values, -_MOST_DECIMAL, _MOST_DECIMAL)
    return False


_DIGITS: Final = 38
_MOST_DECIMAL: Final = 10**38 - 1


def _outside(values: Any, low: Any, high: Any) -> bool:  # noqa: ANN401 - pyarrow carries no types
    ends: dict[str, Any] = pc.min_max(values).as_py()  # type: ignore[assignment]  # a struct
    return ends["min"] is not None and (ends["min"] < low or ends["max"] > high)
