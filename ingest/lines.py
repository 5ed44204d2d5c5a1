r"""Bytes of a delimited dump to regular rows, however people's text has torn it.

sacct and sacctmgr escape nothing: a job name may hold the delimiter, a comment a line break. So most lines are read
at once by polars, and the few that have too many or too few delimiters are put together one by one:

- too few: the record goes on in the next line, unless that is a whole record;
- too many: the surplus belongs to free text; only a reading in which all times, ids and counts fit is taken;
- neither works: the row is refused, with its line and the reason. A guess is never loaded.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from ingest.errors import TruncatedInputError, UnrecognisedInputError
from ingest.frames import RAW_LIMIT
from ingest.header import SEARCHED_LINES, Header, Layout, find_header
from ingest.records import Assembler, Refused, Row

if TYPE_CHECKING:
    from collections.abc import Iterator

LINE: Final = "#line"
"""Column with the number of the (first) line that a row came from, counted from 1."""

Longs: TypeAlias = npt.NDArray[np.int64]

_BLOCK = 1 << 24
_SPARE = b"\x1f\x1e\x1d\x1c\x01\x02\x03\x04\x05\x06\x07\x08\x0b\x0c\x0e\x0f"
_UTF16 = (b"\xff\xfe", b"\xfe\xff")


@dataclass(frozen=True)
class Rows:
    """The rows of a dump, all columns text (empty is null), and what became of the others.

    `frame` has the columns of the layout's `used` that are there, and `LINE`. Every row of the input is in `frame`, in
    `refused` or counted in `n_skipped`.
    """

    frame: pl.DataFrame
    header: Header
    refused: list[Refused]
    n_skipped: int
    warnings: list[str]
    _text: _Text
    _torn: dict[int, str] = field(default_factory=dict)

    @property
    def n_read(self) -> int:
        """Rows in the input; the header at the top and blank lines are none."""
        return self.frame.height + len(self.refused) + self.n_skipped

    def raw(self, line: int) -> str:
        """The row that begins on a line, as it came."""
        return self._torn.get(line) or self._text.restore(self._text.line(line - 1))[:RAW_LIMIT]


def read_rows(
    data: bytes, layout: Layout, *, origin: str, delimiter: str | None = None, accept_truncated: bool = False
) -> Rows:
    """Read a delimited dump.

    Raises:
        UnrecognisedInputError: The input is empty, or not of this layout.
        DelimiterError: The header's columns are not separated by the delimiter.
        TruncatedInputError: The last row is cut off (with `accept_truncated` it is refused instead).
    """
    data, warnings = clean(data, origin)
    header = find_header(_first_lines(data), layout, origin=origin, delimiter=delimiter)
    text = _Text(data, header.delimiter)
    assembler = Assembler(header, layout, text.mark)
    torn = _torn_lines(text, header, layout, assembler)
    outcomes = [*_before_header(text, header), *_assemble(text, torn, assembler)]
    _check_end(text, outcomes, origin, accept_truncated=accept_truncated)
    rows = [outcome for outcome in outcomes if isinstance(outcome, Row)]
    frame = _regular(text, torn, header, layout)
    if rows:
        frame = pl.concat([frame, _irregular(rows, header, layout)]).sort(LINE)
    repeated = frame.select(_repeated_header(header, frame)).to_series()
    kept = frame.filter(~repeated) if repeated.any() else frame
    return Rows(
        frame=kept,
        header=header,
        refused=[_restored(text, outcome) for outcome in outcomes if isinstance(outcome, Refused)],
        n_skipped=frame.height - kept.height,
        warnings=warnings,
        _text=text,
        _torn={row.line: text.restore(row.raw)[:RAW_LIMIT] for row in rows},
    )


def clean(data: bytes, origin: str) -> tuple[bytes, list[str]]:
    """UTF-8 with plain line ends: no byte order mark, no CRLF, damaged characters replaced and warned of."""
    if data.startswith(_UTF16):
        data = data.decode("utf-16", errors="replace").encode()
    data = data.removeprefix(b"\xef\xbb\xbf")
    if b"\r\n" in data:
        data = data.replace(b"\r\n", b"\n")
    if not data or data.isspace():
        message = f"{origin} is empty: nothing to load. Did the command that wrote it fail?"
        raise UnrecognisedInputError(message)
    return _utf8(data)


def _utf8(data: bytes) -> tuple[bytes, list[str]]:
    """One damaged name must not cost the whole dump."""
    if data.isascii():
        return data, []
    try:
        data.decode()
    except UnicodeDecodeError:
        mended = data.decode(errors="replace").encode()
        count = mended.count("\ufffd".encode()) - data.count("\ufffd".encode())
        return mended, [f"{count} damaged characters (not UTF-8) were replaced"]
    return data, []


class _Text:
    """The bytes with a delimiter of one byte, the end of each line, and how many delimiters it holds."""

    def __init__(self, data: bytes, delimiter: str) -> None:
        self.delimiter = delimiter
        mark = delimiter.encode()
        if len(mark) > 1:  # one byte that occurs nowhere else stands for it from here on
            spare = next((byte for byte in _SPARE if byte not in data), None)
            if spare is None:
                message = f"no control character is free to stand for the delimiter {delimiter!r}"
                raise UnrecognisedInputError(message)
            data, mark = data.replace(mark, bytes([spare])), bytes([spare])
        self.data = data
        self.mark = mark.decode()
        self.ended = data.endswith(b"\n")
        self.ends, self.counts = _scan(data, mark[0])
        self.starts: Longs = np.concatenate([np.zeros(1, np.int64), self.ends[:-1] + 1])

    def line(self, index: int) -> str:
        """One line without its end."""
        return self.data[self.starts[index] : self.ends[index]].decode()

    def restore(self, text: str) -> str:
        """The text with the delimiter as it was in the input."""
        return text if self.mark == self.delimiter else text.replace(self.mark, self.delimiter)


def _scan(data: bytes, mark: int) -> tuple[Longs, Longs]:
    """Where each line ends, and how many delimiters it has; block by block, so that memory stays flat."""
    buffer = np.frombuffer(data, np.uint8)
    ends, totals, seen = [], [], 0
    for start in range(0, len(buffer), _BLOCK):
        block = buffer[start : start + _BLOCK]
        newlines, marks = np.flatnonzero(block == ord("\n")), np.flatnonzero(block == mark)
        ends.append(newlines + start)
        totals.append(np.searchsorted(marks, newlines) + seen)
        seen += len(marks)
    if not data.endswith(b"\n"):
        ends.append(np.array([len(data)]))
        totals.append(np.array([seen]))
    counts: Longs = np.diff(np.concatenate(totals), prepend=0).astype(np.int64)
    return np.concatenate(ends), counts


def _first_lines(data: bytes) -> list[str]:
    return data[: 1 << 20].decode(errors="replace").split("\n")[:SEARCHED_LINES]


def _torn_lines(text: _Text, header: Header, layout: Layout, assembler: Assembler) -> npt.NDArray[np.bool_]:
    """Which lines after the header need a closer look."""
    torn: npt.NDArray[np.bool_] = text.counts != header.width - 1
    if header.names[-1] in layout.free_text:  # a line break in the last column: the line before looks whole
        blank = text.ends == text.starts
        torn[:-1] |= torn[1:] & ~blank[1:] & (text.counts[1:] < header.width - 1)
        torn[:-1] |= blank[1:] & np.append(torn[2:], False)
    if not text.ended and not assembler.last_fits(text.line(len(torn) - 1)):
        torn[-1] = True
    torn[: header.line + 1] = False
    return torn


def _assemble(text: _Text, torn: npt.NDArray[np.bool_], assembler: Assembler) -> Iterator[Row | Refused]:
    edges = np.flatnonzero(np.diff(torn.astype(np.int8), prepend=0, append=0))
    for start, stop in edges.reshape(-1, 2).tolist():
        yield from assembler.assemble([text.line(index) for index in range(start, stop)], start + 1)


def _before_header(text: _Text, header: Header) -> Iterator[Refused]:
    """What stands above the header is not ours, but nothing is dropped unseen."""
    for index in range(header.line):
        if line := text.line(index).strip():
            yield Refused(index + 1, "it stands above the header", line[:RAW_LIMIT], index + 1)


def _check_end(text: _Text, outcomes: list[Row | Refused], origin: str, *, accept_truncated: bool) -> None:
    """A dump that stops in the middle of a row was not written to its end; rows may be missing after it."""
    last = outcomes[-1] if outcomes else None
    if text.ended or accept_truncated or not isinstance(last, Refused):
        return
    if last.cut and last.last == len(text.ends):
        message = (
            f"{origin} line {last.line}: the last row is cut off ({last.reason}).\n"
            f"Was the disk full, or the command stopped? Export again, or load what is there with --accept-truncated."
        )
        raise TruncatedInputError(message)


def _regular(text: _Text, torn: npt.NDArray[np.bool_], header: Header, layout: Layout) -> pl.DataFrame:
    """All lines that need no closer look, in one read."""
    whole = ~torn
    whole[: header.line + 1] = False
    lines = np.flatnonzero(whole) + 1
    kept = _kept(header, layout)
    if not len(lines):
        return pl.DataFrame(schema=dict.fromkeys((*kept.values(), LINE), pl.String)).cast({LINE: pl.Int64})
    frame = pl.read_csv(
        _join(text, whole),
        has_header=False,
        separator=text.mark,
        quote_char=None,
        infer_schema=False,
        columns=list(kept),
        new_columns=list(header.names),
    )
    return frame.with_columns(pl.Series(LINE, lines, pl.Int64))


def _join(text: _Text, whole: npt.NDArray[np.bool_]) -> bytes:
    edges = np.flatnonzero(np.diff(whole.astype(np.int8), prepend=0, append=0)).reshape(-1, 2)
    view = memoryview(text.data)
    pieces = [view[text.starts[start] : text.ends[stop - 1] + 1] for start, stop in edges.tolist()]
    return b"".join(pieces)


def _irregular(rows: list[Row], header: Header, layout: Layout) -> pl.DataFrame:
    kept = _kept(header, layout)
    columns = {name: [row.fields[index] or None for row in rows] for index, name in kept.items()}
    frame = pl.DataFrame(columns, schema=dict.fromkeys(kept.values(), pl.String))
    return frame.with_columns(pl.Series(LINE, [row.line for row in rows], pl.Int64))


def _kept(header: Header, layout: Layout) -> dict[int, str]:
    """The columns worth reading, by position. The first two also tell a repeated header."""
    return {index: name for index, name in enumerate(header.names) if name in layout.used}


def _repeated_header(header: Header, frame: pl.DataFrame) -> pl.Expr:
    """Concatenated dumps bring their header along."""
    shown = dict(zip(header.names, header.shown, strict=False))
    names = [name for name in frame.columns if name != LINE]
    if not names:
        return pl.lit(value=False)
    same = [pl.col(name).str.to_lowercase() == shown[name].lower() for name in names[:4]]
    return pl.all_horizontal(same).fill_null(value=False)


def _restored(text: _Text, refused: Refused) -> Refused:
    return refused._replace(raw=text.restore(refused.raw))
