r"""Putting torn records together: the few lines of a dump that do not have the right number of delimiters.

A record's fields are its *reading*. Where the delimiter occurs in people's text there are several readings; the
columns that hold times, ids and counts decide. If more than one reading is left, they may differ in free text only.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from ingest.frames import RAW_LIMIT
from ingest.header import MOST_COLUMNS, is_header

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ingest.header import Header, Layout

Reading: TypeAlias = tuple[str, ...]

MAX_LINES: Final = 1_000
"""Physical lines that one record may span."""

MAX_TRIES: Final = 8
"""Ends that are tried once a torn record has enough delimiters: a later line may bring the rest of its text."""

MAX_SURPLUS: Final = 200
"""Delimiters in one record's text beyond which no reading is looked for."""

MAX_READINGS: Final = 200
"""Readings compared before a record is given up as ambiguous."""


MIN_TELLING: Final = 2
"""Typed fields at the front beyond which one misfit is forgiven."""


class Row(NamedTuple):
    """A record that could be read, and the line that it begins on (from 1)."""

    line: int
    fields: Reading
    raw: str


class Refused(NamedTuple):
    """A record that could not be read, and why. `last` is the line it ends on; `cut`: its end may be missing."""

    line: int
    reason: str
    raw: str
    last: int
    cut: bool = False


class Assembler:
    """Reads the irregular lines of one dump."""

    def __init__(self, header: Header, layout: Layout, delimiter: str) -> None:
        self._layout = layout
        self._delimiter = delimiter
        self._wanted = header.width - 1
        self._names = [name.split("#")[0] if name[0] != "#" else name for name in header.names]
        self._shapes = [layout.shapes.get(name) for name in self._names]
        self._free = [name in layout.free_text for name in self._names]
        self._used = [name in layout.used for name in self._names]
        self._open_end = self._free[-1]
        self._leading = self._typed_before_text()

    def assemble(self, lines: Sequence[str], first: int) -> Iterator[Row | Refused]:
        """The records in consecutive lines; `first` is the number of the first line. Blank ones between are none."""
        at = 0
        while at < len(lines):
            if not lines[at].strip():
                at += 1
                continue
            stop, reading = self._record(lines, at)
            raw = "\n".join(lines[at:stop]).rstrip("\n")
            if reading is not None:
                yield Row(first + at, reading, raw)
            else:
                yield self._refuse(first + at, first + stop - 1, raw)
            at = stop

    def reading(self, fields: Sequence[str]) -> Reading | None:
        """The one way to spread fields over the columns; None if none fits, or several that differ in substance.

        Where they differ in free text only, a text that we use takes the surplus, and the last of several.
        """
        surplus = len(fields) - len(self._names)
        if surplus < 0 or surplus > MAX_SURPLUS:
            return None
        if surplus == 0 or self._free.count(True) == 1:
            return self._only_reading(fields, surplus)
        ends = self._possible_ends(fields, surplus)
        found = list(itertools.islice(self._readings(fields, ends, 0, 0), MAX_READINGS))
        if not found or len(found) == MAX_READINGS or len({self._substance(reading) for reading in found}) > 1:
            return None
        return min(found, key=self._strain)

    def _only_reading(self, fields: Sequence[str], surplus: int) -> Reading | None:
        """The reading where there is no choice: nothing to spread, or one text to take it all."""
        at = self._free.index(True) if surplus else 0
        stop = at + surplus + 1
        values = (*fields[:at], self._delimiter.join(fields[at:stop]), *fields[stop:])
        fit = all(shape is None or shape.fullmatch(value) for shape, value in zip(self._shapes, values, strict=True))
        return values if fit else None

    def last_fits(self, line: str) -> bool:
        """Whether the last field of a line looks like a value of the last column."""
        shape = self._shapes[-1]
        return shape is None or shape.fullmatch(line.rsplit(self._delimiter, 1)[-1]) is not None

    def _possible_ends(self, fields: Sequence[str], surplus: int) -> list[set[int]]:
        """For each column, the field positions from which it and all later columns can be filled; worked backwards."""
        possible: list[set[int]] = [set() for _ in self._names] + [{len(fields)}]
        for column in reversed(range(len(self._names))):
            after = possible[column + 1]
            widest = surplus if self._free[column] else 0
            possible[column] = {
                at
                for at in range(column, column + surplus + 1)
                if any(self._holds(column, fields, at, stop) for stop in after if at < stop <= at + widest + 1)
            }
            if not possible[column]:
                break
        return possible

    def _holds(self, column: int, fields: Sequence[str], at: int, stop: int) -> bool:
        """Whether the column may hold these fields together."""
        shape = self._shapes[column]
        return shape is None or shape.fullmatch(self._delimiter.join(fields[at:stop])) is not None

    def _readings(self, fields: Sequence[str], ends: list[set[int]], column: int, at: int) -> Iterator[Reading]:
        """All readings of the fields from `at` on; earlier texts take as little as they can."""
        if column == len(self._names):
            yield ()
            return
        stops = range(at + 1, len(fields) + 1) if self._free[column] else (at + 1,)
        for stop in stops if at in ends[column] else ():
            if stop in ends[column + 1] and self._holds(column, fields, at, stop):
                value = self._delimiter.join(fields[at:stop])
                for rest in self._readings(fields, ends, column + 1, stop):
                    yield (value, *rest)

    def _substance(self, reading: Reading) -> Reading:
        return tuple(value for value, free in zip(reading, self._free, strict=True) if not free)

    def _strain(self, reading: Reading) -> int:
        """Delimiters in columns that nobody reads: a constraint may hold one, a comment is likelier to."""
        return sum(value.count(self._delimiter) for value, used in zip(reading, self._used, strict=True) if not used)

    def _record(self, lines: Sequence[str], at: int) -> tuple[int, Reading | None]:
        """The record beginning at a line: where it stops, and its reading if there is one."""
        if not self._may_begin(lines[at]):
            return at + 1, None
        delimiters = tries = 0
        for stop in range(at + 1, min(len(lines), at + MAX_LINES) + 1):
            more = lines[stop - 1].count(self._delimiter)
            if tries == MAX_TRIES or (stop > at + 1 and (more == self._wanted or self._is_another(lines[stop - 1]))):
                break
            delimiters += more
            if delimiters >= self._wanted:
                tries += 1
                reading = self.reading("\n".join(lines[at:stop]).split(self._delimiter))
                if reading is not None:
                    return self._with_tail(lines, stop, reading)
        return self._next_beginning(lines, at), None

    def _with_tail(self, lines: Sequence[str], stop: int, reading: Reading) -> tuple[int, Reading]:
        """A line break inside the last column leaves lines behind that have no other owner."""
        end = stop
        most = min(len(lines), stop + MAX_LINES)
        while self._open_end and end < most and self._is_tail(lines[end]):
            end += 1
        while end > stop and not lines[end - 1].strip():
            end -= 1
        return end, (*reading[:-1], "\n".join((reading[-1], *lines[stop:end])))

    def _is_tail(self, line: str) -> bool:
        count = line.count(self._delimiter)
        if count == 0:
            return True
        another = count < self._wanted and self._leading > 0 and not self._begins(line)
        return another and not self._is_header(line)

    def _is_header(self, line: str) -> bool:
        """Column names: here begins another dump, whose rows are no text of the record above."""
        return is_header(line.split(self._delimiter, MOST_COLUMNS), self._layout)

    def _next_beginning(self, lines: Sequence[str], at: int) -> int:
        """Where to go on after a record that cannot be read: the next line that clearly begins one, or is whole."""
        stop = at + 1
        while stop < len(lines) and self._begins(lines[at]) and lines[stop].strip() and not self._clearly(lines[stop]):
            stop += 1
        return stop

    def _clearly(self, line: str) -> bool:
        return line.count(self._delimiter) >= self._wanted or self._begins(line)

    def _typed_before_text(self) -> int:
        """How many of the first columns are typed: they show whether a line begins a record."""
        leading = 0
        while leading < len(self._names) and self._shapes[leading] is not None and not self._free[leading]:
            leading += 1
        return leading

    def _may_begin(self, line: str) -> bool:
        """The typed columns at the front do not say otherwise. Of three or more, one may hold a damaged value."""
        fields = line.split(self._delimiter)[: self._leading]
        pairs = zip(self._shapes, fields, strict=False)
        misfits = sum(shape is not None and shape.fullmatch(field) is None for shape, field in pairs)
        return misfits <= (len(fields) > MIN_TELLING)

    def _begins(self, line: str) -> bool:
        """Typed columns at the front say so."""
        return self._leading > 0 and self._delimiter in line and self._may_begin(line)

    def _is_another(self, line: str) -> bool:
        """Several typed columns at the front all say that another record begins here."""
        fields = line.split(self._delimiter)[: self._leading]
        if len(fields) <= MIN_TELLING or not fields[0] or not fields[1]:
            return False
        return all(shape is None or shape.fullmatch(field) for shape, field in zip(self._shapes, fields, strict=False))

    def _refuse(self, line: int, last: int, raw: str) -> Refused:
        have, wanted = raw.count(self._delimiter) + 1, self._wanted + 1
        reason = f"{have} fields, expected {wanted}"
        if have > wanted:
            reason += "; which text holds the delimiter cannot be told"
        elif have == wanted:
            reason = f"{have} fields, but times, ids or counts are not where they should be"
        if self._is_header(raw):
            reason = f"column names of another dump: {have} of them, here are {wanted}; load it by itself"
        return Refused(line, reason, raw[:RAW_LIMIT], last, cut=have <= wanted)
