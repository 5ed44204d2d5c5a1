r"""Tables with commas between the columns: those of a spreadsheet are read, those of Slurm's commands are ambiguous.

Slurm's commands quote nothing. With `--delimiter=,` they print `cpu=4,mem=10G,node=1`
as three of them, and commas of text look like delimiters: such a dump is refused. A spreadsheet that read a dump and
saved it as CSV wrote "cpu=4,mem=10G,node=1", quotes included; that is read.
"""

from __future__ import annotations

import csv
import io
import re
from itertools import chain
from typing import TYPE_CHECKING, Final

import numpy as np

from ingest.errors import DelimiterError, shorten

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import numpy.typing as npt

    from ingest.delimited.header import DumpLayout, Header

WITHIN: Final = frozenset(",=:/-[]")
"""Delimiters that TRES (`cpu=4,gres/gpu:h100=8`), node lists (`n[1-3,5]`) and lists of names hold themselves."""

MARK: Final = "\x1f"
"""Separator of the columns after the quotes are removed."""

_HEADER = re.compile(r'\s*"?[A-Za-z]\w*(%-?\d+)?"?(,"?[A-Za-z]\w*(%-?\d+)?"?)+,?\s*')
_BREAKS = re.compile(r"[\r\n]+")
_MANY = 1 << 20


def plain(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The same text; that of a spreadsheet with `MARK` between its columns, and without its quotes.

    A table with commas is held in memory as a whole: saved spreadsheets are small, and others will be refused.
    """
    chunks = iter(chunks)
    first = b""
    for chunk in chunks:
        first += chunk
        if b"\n" in first or len(first) > _MANY:
            break
    if has_commas(first.partition(b"\n")[0].decode(errors="replace").removeprefix("\ufeff")):
        first = b"".join(chain([first], chunks))
        yield unquoted(first) if b'"' in first and MARK.encode() not in first else first
        return
    yield first
    yield from chunks


def has_commas(line: str) -> bool:
    """Whether a line is a header with commas between its names, quoted or not.

    >>> has_commas("JobID,Submit,State"), has_commas('"JobID","Submit"'), has_commas("JobID|Submit")
    (True, True, False)
    """
    return _HEADER.fullmatch(line) is not None


def unquoted(data: bytes) -> bytes:
    """The table without quotes; the same where the quotes are not those of a table."""
    text = data.decode(errors="replace").removeprefix("\ufeff")
    try:
        rows = list(csv.reader(io.StringIO(text, newline=""), strict=True))
    except csv.Error:
        return data
    return "".join(MARK.join(_BREAKS.sub(" ", field) for field in row) + "\n" for row in rows).encode()


def header_without_quotes(lines: Sequence[str]) -> list[str]:
    """The first lines of an input, a header in quotes without them."""
    return [line.replace('"', "") if has_commas(line) else line for line in lines]


def refuse_ambiguous(
    counts: npt.NDArray[np.int64], header: Header, layout: DumpLayout, *, origin: str, offset: int
) -> None:
    """Stop where a row has more delimiters than columns, and lists of values hold that delimiter themselves.

    Args:
        counts: delimiters in each line.
        header: the columns.
        layout: which of them hold lists.
        origin: name of the input.
        offset: lines before these.

    Raises:
        DelimiterError: a row is of that kind.
    """
    lists = [shown for name, shown in zip(header.names, header.shown, strict=False) if name in layout.lists]
    if header.delimiter not in WITHIN or not lists:
        return
    over = np.flatnonzero(counts >= header.width)
    if len(over):
        message = (
            f"{origin} line {offset + 1 + over[0]}: {header.delimiter!r} separates the columns and occurs within "
            f"the values of {shorten(', '.join(lists))}: they cannot be distinguished, and nothing was loaded.\n"
            f"Export again with a delimiter that no value holds (-P, or --delimiter='|'):\n  {layout.command}"
        )
        raise DelimiterError(message)
