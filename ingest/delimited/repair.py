r"""Putting torn records together: the few lines of a dump that do not have the right number of delimiters.

A record's fields, one for each column, are its *reading*. Where the delimiter occurs in free text there are several
readings; the columns that hold times, ids and counts decide. If more than one reading is left, they may differ in free
text only, and texts that differ in the likeliest of them are left out: a wrong text is worse than none. How readings
are searched is in `ingest.delimited.realign`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from ingest.delimited.header import MOST_COLUMNS, is_header
from ingest.delimited.realign import FreeTextColumns
from ingest.load_warnings import LoadWarning
from ingest.tables import RAW_LIMIT

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterator, Sequence

    from ingest.delimited.header import DumpLayout, Header
    from ingest.delimited.realign import Reading, Spread

MAX_LINES: Final = 1_000
"""Most lines that one record may span."""

MAX_TRIES: Final = 8
"""Ends that are tried once a torn record has enough delimiters: a later line may bring the rest of its text."""

MIN_TYPED_FIELDS: Final = 2
"""Typed fields at the front beyond which one misfit is forgiven."""


class DumpRecord(NamedTuple):
    """A record that could be read, and the line that it begins on (from 1).

    `doubts` are the used columns whose text is left out, since several texts are possible.
    """

    line: int
    fields: Reading
    raw: str
    doubts: tuple[str, ...] = ()


class UnreadableRecord(NamedTuple):
    """A record that could not be read, and why. `last` is the line it ends on; `cut`: its end may be missing."""

    line: int
    reason: str
    raw: str
    last: int
    cut: bool = False


def doubted(doubts: Counter[tuple[str, ...]], *, of_sacct: bool = True) -> list[LoadWarning]:
    """The warning about texts that are left out, if any are; `doubts` counts rows by the columns in doubt.

    Only sacct can use another delimiter.
    """
    names = ", ".join(sorted({name for columns in doubts for name in columns}))
    code = "delimiter_in_sacct_text" if of_sacct else "delimiter_in_text"
    return [LoadWarning(code, doubts.total(), names)] if doubts else []


class Assembler:
    """Reads the irregular lines of one dump."""

    def __init__(self, header: Header, layout: DumpLayout, delimiter: str) -> None:
        self._layout = layout
        self._delimiter = delimiter
        self._delimiters = header.width - 1
        self._names = [name.split("#")[0] if name[0] != "#" else name for name in header.names]
        self._shapes = [layout.shapes.get(name) for name in self._names]
        self._free = [name in layout.free_text for name in self._names]
        beginnings = [layout.beginnings.get(name) for name in self._names]
        self._columns = FreeTextColumns(delimiter, self._free, self._shapes, beginnings)
        self._used = [name in layout.used for name in self._names]
        self._shown = header.shown
        self._open_end = self._free[-1]
        self._leading = self._typed_before_text()

    def assemble(self, lines: Sequence[str], first: int) -> Iterator[DumpRecord | UnreadableRecord]:
        """The records in consecutive lines; `first` is the number of the first line. Blank ones between are none."""
        at = 0
        while at < len(lines):
            if not lines[at].strip():
                at += 1
                continue
            stop, spread = self._record(lines, at)
            raw = "\n".join(lines[at:stop]).rstrip("\n")
            if spread is not None:
                yield DumpRecord(first + at, spread.fields, raw, self._doubted_columns(spread.doubts))
            else:
                yield self._refuse(first + at, first + stop - 1, raw)
            at = stop

    def last_fits(self, line: str) -> bool:
        """Whether the last field of a line looks like a value of the last column."""
        shape = self._shapes[-1]
        return shape is None or shape.fullmatch(line.rsplit(self._delimiter, 1)[-1]) is not None

    def _doubted_columns(self, doubts: frozenset[int]) -> tuple[str, ...]:
        """The columns as the header shows them, without unused ones."""
        return tuple(self._shown[column] for column in sorted(doubts) if self._used[column])

    def _record(self, lines: Sequence[str], at: int) -> tuple[int, Spread | None]:
        """The record beginning at a line: where it stops, and its reading if there is one."""
        if not self._allows_beginning(lines[at]):
            return at + 1, None
        delimiters = tries = 0
        for stop in range(at + 1, min(len(lines), at + MAX_LINES) + 1):
            more = lines[stop - 1].count(self._delimiter)
            if tries == MAX_TRIES or (
                stop > at + 1 and (more == self._delimiters or self._is_another(lines[stop - 1]))
            ):
                break
            delimiters += more
            if delimiters >= self._delimiters:
                tries += 1
                spread = self._columns.spread("\n".join(lines[at:stop]).split(self._delimiter))
                if spread is not None:
                    return self._with_tail(lines, stop, spread)
        return self._next_beginning(lines, at), None

    def _with_tail(self, lines: Sequence[str], stop: int, spread: Spread) -> tuple[int, Spread]:
        """The record with following lines that belong to its last column, after a line break in that."""
        end = stop
        most = min(len(lines), stop + MAX_LINES)
        while self._open_end and end < most and self._is_tail(lines[end]):
            end += 1
        while end > stop and not lines[end - 1].strip():
            end -= 1
        if end == stop or len(self._names) - 1 in spread.doubts:
            return end, spread
        fields = (*spread.fields[:-1], "\n".join((spread.fields[-1], *lines[stop:end])))
        return end, spread._replace(fields=fields)

    def _is_tail(self, line: str) -> bool:
        count = line.count(self._delimiter)
        if count == 0:
            return True
        another = count < self._delimiters and self._leading > 0 and not self._begins(line)
        return another and not self._is_header(line)

    def _is_header(self, line: str) -> bool:
        """Whether a line has column names: another dump begins, whose rows are no text of the record above."""
        return is_header(line.split(self._delimiter, MOST_COLUMNS), self._layout)

    def _next_beginning(self, lines: Sequence[str], at: int) -> int:
        """The next line after an unreadable record that clearly begins a record, or is whole."""
        stop = at + 1
        while stop < len(lines) and self._begins(lines[at]) and lines[stop].strip() and not self._clearly(lines[stop]):
            stop += 1
        return stop

    def _clearly(self, line: str) -> bool:
        return line.count(self._delimiter) >= self._delimiters or self._begins(line)

    def _typed_before_text(self) -> int:
        """Number of typed columns at the front: they show whether a line begins a record."""
        leading = 0
        while leading < len(self._names) and self._shapes[leading] is not None and not self._free[leading]:
            leading += 1
        return leading

    def _allows_beginning(self, line: str) -> bool:
        """Whether the typed columns at the front allow a beginning. Of three or more, one may be damaged."""
        fields = line.split(self._delimiter)[: self._leading]
        pairs = zip(self._shapes, fields, strict=False)
        misfits = sum(shape is not None and shape.fullmatch(field) is None for shape, field in pairs)
        return misfits <= (len(fields) > MIN_TYPED_FIELDS)

    def _begins(self, line: str) -> bool:
        """Whether typed columns at the front confirm a beginning."""
        return self._leading > 0 and self._delimiter in line and self._allows_beginning(line)

    def _is_another(self, line: str) -> bool:
        """Whether several typed columns at the front all fit the beginning of another record."""
        fields = line.split(self._delimiter)[: self._leading]
        if len(fields) <= MIN_TYPED_FIELDS or not fields[0] or not fields[1]:
            return False
        return all(shape is None or shape.fullmatch(field) for shape, field in zip(self._shapes, fields, strict=False))

    def _refuse(self, line: int, last: int, raw: str) -> UnreadableRecord:
        n_fields, n_columns = raw.count(self._delimiter) + 1, self._delimiters + 1
        reason = f"{n_fields} fields, expected {n_columns}"
        if n_fields > n_columns:
            reason += "; the text that holds the delimiter is ambiguous"
        elif n_fields == n_columns:
            reason = f"{n_fields} fields, but times, ids or counts are not where they should be"
        if self._is_header(raw):
            reason = f"column names of another dump: {n_fields}, this one has {n_columns}; load it by itself"
        return UnreadableRecord(line, reason, raw[:RAW_LIMIT], last, cut=n_fields <= n_columns)
