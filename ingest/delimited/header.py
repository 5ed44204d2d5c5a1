r"""Finds the columns of a dump and their separator.

The header is found by its names, in any case and order, with whatever delimiter lies between the first two. A dump
without a header is read only in the one documented order of columns.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NoReturn

from ingest.errors import DelimiterError, UnrecognisedInputError, shorten

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

DELIMITERS: Final = ("|#", "^|^", ";|;", "\x1f", "|", ";", "\t", ",")
"""Tried in this order, the longer ones first: `|` would seem to fit a dump made with `|#`."""

END: Final = "#end"
"""Name of the empty last column that `sacct -p` makes by ending each line with the delimiter."""

SEARCHED_LINES = 50
"""The header may come after a few lines of warnings, so many at most."""

MOST_COLUMNS = 1_000
"""Longest header in characters; a damaged line may be longer."""

_BETWEEN_NAMES = re.compile(r"\s*[A-Za-z]\w*(?:%-?\d+)?([^\w%]+)[A-Za-z]")
_PADDED = re.compile(r"\s*[A-Za-z]\w*( +[A-Za-z]\w*)+\s*")
_NAME = re.compile(r"\s*([A-Za-z][\w ]*(%-?\d+)?)?\s*")
_MANY = 2


def words(text: str) -> tuple[str, ...]:
    """The words of a text, for long lists of names.

    >>> words("JobID Submit")
    ('JobID', 'Submit')
    """
    return tuple(text.split())


@dataclass(frozen=True)
class DumpLayout:
    """The layout of one kind of dump. All names are in lower case.

    `shapes` is the form of a value of a typed column; a column that is neither typed nor free text fits anything.
    `used` are the columns worth reading. `headerless` is the order of columns where there is no header, if any.
    `beginnings` is how the text of some free columns begins, nearly always, unless it is empty. `lists` are columns
    whose values hold commas: resources, nodes, names.
    """

    kind: str
    known: frozenset[str]
    used: frozenset[str]
    free_text: frozenset[str]
    shapes: Mapping[str, re.Pattern[str]]
    command: str
    headerless: tuple[str, ...] = ()
    beginnings: Mapping[str, re.Pattern[str]] = field(default_factory=dict)
    lists: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Header:
    """The columns of a dump: `line` is the header's index among the lines, -1 if there is none."""

    line: int
    names: tuple[str, ...]
    shown: tuple[str, ...]
    delimiter: str

    @property
    def width(self) -> int:
        """Fields in a row."""
        return len(self.names)


def find_header(lines: Sequence[str], layout: DumpLayout, *, origin: str, delimiter: str | None = None) -> Header:
    """The header among the first lines, or the documented order where the rows fit that.

    Raises:
        DelimiterError: There is a header, but not with the passed delimiter, or its columns are padded with blanks.
        UnrecognisedInputError: No header, and the rows are not in the documented order.
    """
    header = _best_header(lines, layout)
    if delimiter is None or (header and header.delimiter == delimiter):
        header = header or _headerless(lines, layout, DELIMITERS)
    else:
        headerless = _headerless(lines, layout, (delimiter,))
        header = _reread(header, lines, layout, delimiter, origin) if header else headerless
    if header is None:
        _explain_absence(lines, layout, origin)
    return header


def unique_names(fields: Sequence[str]) -> tuple[str, ...]:
    """Column names in lower case without a width, repeated ones numbered; an empty last one is the end marker.

    >>> unique_names(["JobID", "State%20", "state", ""])
    ('jobid', 'state', 'state#2', '#end')
    """
    seen: Counter[str] = Counter()
    names = []
    for position, name in enumerate(fields):
        plain = name.strip().lower().split("%")[0].replace("_", "").replace(" ", "")
        if not plain:
            plain = END if position == len(fields) - 1 else "#unnamed"
        seen[plain] += 1
        names.append(plain if seen[plain] == 1 else f"{plain}#{seen[plain]}")
    return tuple(names)


def is_header(fields: Sequence[str], layout: DumpLayout) -> bool:
    """Whether the fields are column names: several known ones, and they are at least half of all."""
    if not _MANY <= len(fields) <= MOST_COLUMNS:
        return False
    names = [name for name in unique_names(fields) if name != END]
    n_known = sum(name.split("#")[0] in layout.known for name in names)
    return n_known >= _MANY and 2 * n_known >= len(names) and all(map(_NAME.fullmatch, fields))


def another_header(fields: Sequence[str], line: int, layout: DumpLayout, origin: str) -> None:
    """Stop where a second dump of other columns begins: under the first one's names its rows would be wrong.

    Raises:
        UnrecognisedInputError: The fields are column names.
    """
    if is_header(fields, layout):
        message = (
            f"{origin} line {line}: here begins another dump, of other columns:\n  {shorten(' '.join(fields))}\n"
            f"Nothing was loaded. Load each dump by itself, or make both with the same columns."
        )
        raise UnrecognisedInputError(message)


def _best_header(lines: Sequence[str], layout: DumpLayout) -> Header | None:
    for number, line in enumerate(lines[:SEARCHED_LINES]):
        fits = [d for d in _candidates(line) if is_header(line.split(d), layout)]
        if fits:
            return _header(line, max(fits, key=lambda d: _score(line.split(d), layout)), number)
    return None


def _candidates(line: str) -> Iterator[str]:
    yield from DELIMITERS
    between = _BETWEEN_NAMES.match(line)
    if between and between[1].strip(" "):
        yield between[1]


def _score(fields: Sequence[str], layout: DumpLayout) -> int:
    return sum(name in layout.known for name in unique_names(fields))


def _header(line: str, delimiter: str, number: int) -> Header:
    fields = line.split(delimiter)
    shown = tuple(name.strip() for name in (fields[:-1] if not fields[-1].strip() else fields))
    return Header(number, unique_names(fields), shown, delimiter)


def _reread(header: Header, lines: Sequence[str], layout: DumpLayout, delimiter: str, origin: str) -> Header:
    """The header read with the requested delimiter, if possible."""
    line = lines[header.line]
    if delimiter in line and is_header(line.split(delimiter), layout):
        return _header(line, delimiter, header.line)
    message = (
        f"{origin} line {header.line + 1}: the columns are not separated by {delimiter!r}:\n  {shorten(line)}\n"
        f"{header.delimiter!r} would fit: --delimiter {_for_shell(header.delimiter)}, or leave --delimiter out."
    )
    raise DelimiterError(message)


def _headerless(lines: Sequence[str], layout: DumpLayout, delimiters: Sequence[str]) -> Header | None:
    """The documented order, if one of the first lines fits it with one of the delimiters."""
    names = layout.headerless
    for delimiter in delimiters if names else ():
        for line in lines[:SEARCHED_LINES]:
            fields = line.split(delimiter, len(names) - 1)
            if len(fields) == len(names) and fits(fields, names, layout):
                trailing = _all_end_with(lines[:SEARCHED_LINES], delimiter, len(names))
                return Header(-1, (*names, END) if trailing else names, names, delimiter)
    return None


def fits(fields: Sequence[str], names: Sequence[str], layout: DumpLayout) -> bool:
    """Whether each field looks like a value of its column."""
    return all(
        (shape := layout.shapes.get(name.split("#")[0])) is None or shape.fullmatch(field)
        for field, name in zip(fields, names, strict=True)
    )


def _all_end_with(lines: Sequence[str], delimiter: str, width: int) -> bool:
    whole = [line for line in lines if line.count(delimiter) >= width - 1]
    return all(line.endswith(delimiter) and line.count(delimiter) >= width for line in whole)


def _explain_absence(lines: Sequence[str], layout: DumpLayout, origin: str) -> NoReturn:
    first = next((line for line in lines if line.strip()), "")
    padded = next((line for line in lines[:SEARCHED_LINES] if _PADDED.fullmatch(line)), None)
    if padded is not None and is_header(padded.split(), layout):
        message = (
            f"{origin}: the columns are padded with blanks, so values are cut and cannot be distinguished:\n"
            f"  {shorten(padded)}\nRequest delimited output (-P):\n  {layout.command}"
        )
        raise DelimiterError(message)
    order = f",\nor rows without a header in the order {'|'.join(layout.headerless)}" if layout.headerless else ""
    message = (
        f"{origin}: not {layout.kind}; it begins with\n  {shorten(first)}\n"
        f"Expected the output, with its header, of\n  {layout.command}{order}"
    )
    raise UnrecognisedInputError(message)


def _for_shell(delimiter: str) -> str:
    return "$'" + delimiter.encode("unicode_escape").decode("ascii") + "'"
