"""Spreading the fields of one row over its columns, where free text holds the delimiter.

A row has some fields more than there are columns, its *surplus*, and each of these belongs to a free text. A *reading*
assigns fields to each column. The boundary between two columns of a reading is a *level*: the part of the surplus that
the columns before have taken, from 0 at the first column to all of it behind the last one. A typed column keeps the
level, and a free one may raise it.

The number of readings grows exponentially, so they are never listed. Their common fields follow from the levels at
which each column can begin and end, with the fewest odd texts: at most surplus squared checks for each column.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

if TYPE_CHECKING:
    import re
    from collections.abc import Iterable, Iterator, Sequence

Reading: TypeAlias = tuple[str, ...]

MAX_SURPLUS: Final = 200
"""Delimiters in one row's text beyond which no reading is searched."""

MAX_SHAPED: Final = 1 << 14
"""Characters of a text with delimiters in it, beyond which it is no value of a column of a known shape."""

NEVER: Final = 1 << 30
"""More odd texts than any reading has; marks a missing reading."""


class Spread(NamedTuple):
    """Fields spread over the columns. Columns in `doubts` are empty: the likeliest readings differ in their text."""

    fields: Reading
    doubts: frozenset[int] = frozenset()


@dataclass(frozen=True)
class FreeTextColumns:
    """The columns of a dump: free text, shapes of values, and usual beginnings of texts."""

    delimiter: str
    free: Sequence[bool]
    shapes: Sequence[re.Pattern[str] | None]
    beginnings: Sequence[re.Pattern[str] | None]

    def spread(self, fields: Sequence[str]) -> Spread | None:
        """The one way to spread fields over the columns; None if none fits, or several that differ in substance.

        Readings that differ in free text only count as one: texts in which the likeliest of them differ are in doubt.
        """
        surplus = len(fields) - len(self.free)
        if surplus < 0 or surplus > MAX_SURPLUS:
            return None
        if surplus == 0 or self.free.count(True) == 1:
            return self._only_reading(fields, surplus)
        return _SurplusRow(self, fields, surplus).spread()

    def _only_reading(self, fields: Sequence[str], surplus: int) -> Spread | None:
        """The reading where there is no choice: nothing to spread, or one text to take it all."""
        at = self.free.index(True) if surplus else 0
        stop = at + surplus + 1
        values = (*fields[:at], self.delimiter.join(fields[at:stop]), *fields[stop:])
        fit = all(shape is None or shape.fullmatch(value) for shape, value in zip(self.shapes, values, strict=True))
        return Spread(values) if fit else None


class _SurplusRow:
    """One row with a surplus, and several texts that may own it."""

    def __init__(self, columns: FreeTextColumns, fields: Sequence[str], surplus: int) -> None:
        self._columns = columns
        self._fields = fields
        self._surplus = surplus
        self._fitting: dict[tuple[int, int, int], bool] = {}

    def spread(self) -> Spread | None:
        """The common fields of all readings, and the common texts of the likeliest ones."""
        after = self._fewest_after()
        if after[0][0] >= NEVER:
            return None
        values: list[str | None] = []
        possible, likeliest = {0}, {0}
        for column, free in enumerate(self._columns.free):
            if not free:
                texts = {self._fields[column + level] for level in possible if after[column][level] < NEVER}
                if len(texts) > 1:
                    return None
                values.extend(texts)
                possible = {level for level in possible if after[column][level] < NEVER}
                continue
            values.append(self._agreed(column, self._likely_ends(column, after, likeliest)))
            possible = {end for _, end in self._ends(column, after[column + 1], possible)}
            likeliest = {end for _, end in self._likely_ends(column, after, likeliest)}
        doubts = frozenset(column for column, value in enumerate(values) if value is None)
        return Spread(tuple(value or "" for value in values), doubts)

    def _fewest_after(self) -> list[list[int]]:
        """For each column and level, and behind the last: the fewest odd texts from there on."""
        levels = self._surplus + 1
        rest = [NEVER] * self._surplus + [0]
        after = [rest]
        for column in reversed(range(len(self._columns.free))):
            fewest = [NEVER] * levels
            if self._columns.free[column] and self._columns.shapes[column] is None:
                beyond = NEVER
                for level in reversed(range(levels)):
                    alone, more = (self._odd(column, level, end) for end in (level, level + 1))
                    fewest[level] = min(alone + rest[level], more + beyond)
                    beyond = min(beyond, rest[level])
            else:
                for level, end in self._ends(column, rest, range(levels)):
                    fewest[level] = min(fewest[level], self._odd(column, level, end) + rest[end])
            rest = fewest
            after.append(rest)
        return after[::-1]

    def _ends(self, column: int, rest: Sequence[int], starts: Iterable[int]) -> Iterator[tuple[int, int]]:
        """Pairs of levels at the beginning and end of a column that are part of a complete reading."""
        free, shaped = self._columns.free[column], self._columns.shapes[column] is not None
        for start in starts:
            for end in range(start, self._surplus + 1 if free else start + 1):
                if rest[end] < NEVER and (not shaped or self._holds(column, start, end)):
                    yield start, end

    def _likely_ends(self, column: int, after: list[list[int]], starts: Iterable[int]) -> Iterator[tuple[int, int]]:
        """The same for the readings with the fewest odd texts; `starts` are levels of theirs."""
        rest = after[column + 1]
        for start, end in self._ends(column, rest, sorted(starts)):
            if rest[end] + self._odd(column, start, end) == after[column][start]:
                yield start, end

    def _agreed(self, column: int, spans: Iterator[tuple[int, int]]) -> str | None:
        """The one text of all spans, if it is one."""
        texts = (self._text(column, *span) for span in spans)
        first = next(texts)
        return first if all(text == first for text in texts) else None

    def _text(self, column: int, start: int, end: int) -> str:
        return self._columns.delimiter.join(self._fields[column + start : column + end + 1])

    def _holds(self, column: int, start: int, end: int) -> bool:
        """Whether the shape of the column allows these fields; evaluated once."""
        span = (column, start, end)
        fits = self._fitting.get(span)
        if fits is None:
            fits = self._fitting[span] = self._fits(*span)
        return fits

    def _fits(self, column: int, start: int, end: int) -> bool:
        shape = self._columns.shapes[column]
        if shape is None:
            return True
        if start == end:
            return shape.fullmatch(self._fields[column + start]) is not None
        length = sum(map(len, self._fields[column + start : column + end + 1]))
        return length <= MAX_SHAPED and shape.fullmatch(self._text(column, start, end)) is not None

    def _odd(self, column: int, start: int, end: int) -> int:
        """1 if texts of this column hardly ever begin like this one, else 0; empty ones always may."""
        begins = self._columns.beginnings[column]
        if begins is None:
            return 0
        first = self._fields[column + start]
        empty = start == end and not first
        return int(not empty and begins.match(first) is None)
