r"""Bytes of a delimited dump to regular rows, also where free text has torn lines.

sacct and sacctmgr escape nothing: a job name may hold the delimiter, a comment a line break. So most lines are read
at once by polars, and the few that have too many or too few delimiters are put together one by one:

- too few: the record continues in the next line, unless that is a whole record;
- too many: the surplus belongs to free text; only a reading in which all times, ids and counts fit is taken;
- neither works: the row is refused, with its line and the reason. A guess is never loaded.

A large dump is read block by block (`read_blocks`). Blocks end before a line that is whole beyond doubt, so that every
torn record lies in one block: whatever the size of the blocks, the same rows come out, with the same line numbers.
"""

from __future__ import annotations

import codecs
import re
from collections import Counter
from copy import copy
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from ingest.delimited.header import SEARCHED_LINES, DumpLayout, Header, another_header, find_header
from ingest.delimited.repair import Assembler, DumpRecord, UnreadableRecord, doubted
from ingest.delimited.spreadsheet import MARK, plain, refuse_ambiguous
from ingest.errors import TruncatedInputError, UnrecognisedInputError
from ingest.load_warnings import LoadWarning
from ingest.tables import RAW_LIMIT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

LINE: Final = "#line"
"""Column with the number of the (first) line that a row came from, counted from 1."""

Longs: TypeAlias = npt.NDArray[np.int64]

BLOCK: Final = 1 << 26
"""Bytes of a large dump that are read at a time."""

_HEADED = 1 << 20
"""Bytes in which the header is searched."""

_AHEAD = 2
"""Lines behind a line that help to decide whether it is torn."""

_SCANNED = 1 << 24
_SPARE = b"\x1f\x1e\x1d\x1c\x01\x02\x03\x04\x05\x06\x07\x08\x0b\x0c\x0e\x0f"
_ENDS = re.compile(rb"\r+\n")
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_FEWEST, _ENOUGH = 4, 64
"""Least characters, and most bytes, to detect UTF-16 without a byte order mark."""


@dataclass(frozen=True)
class DumpRows:
    """The rows of a dump, all columns text (empty is null), with the refused and skipped ones.

    `frame` has the columns of the layout's `used` that exist, and `LINE`. Every row of the input is in `frame`, in
    `refused` or counted in `n_skipped`. `doubts` counts rows by the columns whose text is left out, see `DumpRecord`.
    """

    frame: pl.DataFrame
    header: Header
    refused: list[UnreadableRecord]
    n_skipped: int
    n_damaged: int
    _text: _DelimitedText
    _torn: dict[int, str] = field(default_factory=dict)
    doubts: Counter[tuple[str, ...]] = field(default_factory=Counter)

    @property
    def warnings(self) -> list[LoadWarning]:
        """Remarks about the text itself, which is sacctmgr's: for sacct's see `row_counts`."""
        return [*damaged(self.n_damaged), *doubted(self.doubts, of_sacct=False)]

    @property
    def n_read(self) -> int:
        """Rows in the input; the header at the top and blank lines are none."""
        return self.frame.height + len(self.refused) + self.n_skipped

    def raw(self, line: int) -> str:
        """The row that begins on a line, as it came."""
        return self._torn.get(line) or self._text.restore(self._text.line(line - 1 - self._text.offset))[:RAW_LIMIT]


def read_rows(
    data: bytes, layout: DumpLayout, *, origin: str, delimiter: str | None = None, accept_truncated: bool = False
) -> DumpRows:
    """Read a delimited dump.

    Raises:
        UnrecognisedInputError: The input is empty, or not of this layout.
        DelimiterError: The header's columns are not separated by the delimiter.
        TruncatedInputError: The last row is cut off (with `accept_truncated` it is refused instead).
    """
    [rows] = read_blocks(
        [data], layout, origin=origin, delimiter=delimiter, accept_truncated=accept_truncated, block=2 * len(data) + 1
    )
    return rows


def read_blocks(
    chunks: Iterable[bytes],
    layout: DumpLayout,
    *,
    origin: str,
    delimiter: str | None = None,
    accept_truncated: bool = False,
    block: int = BLOCK,
) -> Iterator[DumpRows]:
    """Read a delimited dump that comes in chunks, cut anywhere, about `block` bytes at a time; at least one block.

    Raises:
        UnrecognisedInputError: The input is empty, or not of this layout.
        DelimiterError: The header's columns are not separated by the delimiter.
        TruncatedInputError: The last row is cut off (with `accept_truncated` it is refused instead).
    """
    header: Header | None = None
    rest: list[bytes] = []
    n_damaged = offset = min_size = 0
    for lines, last in _whole_lines(plain(decoded(chunks)), block, rest):
        data, count = _utf8(lines)
        n_damaged += count
        if not last and (len(data) < min_size or (header is None and not _shows_header(data))):
            rest.append(data)
            continue
        if not data or data.isspace():
            if not last:
                rest.append(data)
                continue
            message = f"{origin} is empty: nothing to load. Did the command that wrote it fail?"
            raise UnrecognisedInputError(message)
        beginning = data[:_HEADED].decode(errors="replace")
        if delimiter == "," and MARK in beginning:
            delimiter = None  # a spreadsheet's, whose commas are gone
        lines_of_beginning = beginning.split("\n")[:SEARCHED_LINES]
        header = header or find_header(lines_of_beginning, layout, origin=origin, delimiter=delimiter)
        text = _DelimitedText(data, header.delimiter, offset)
        if not last:
            stop = _last_whole(text, header, layout)
            if stop is None:  # only torn lines so far; wait for many more, or it takes for ever
                min_size = 2 * len(data)
                rest.append(data)
                continue
            rest.append(data[_bytes_of(data, text, stop) :])
            text = text.upto(stop)
        above = _above(text, header)
        refuse_ambiguous(text.counts[above:], header, layout, origin=origin, offset=text.offset + above)
        rows = _rows(text, header, layout, n_damaged, end=(origin, accept_truncated) if last else None)
        _refuse_other_header(rows, layout, origin)
        yield rows
        offset, n_damaged, min_size = offset + len(text.ends), 0, 0


def _rows(
    text: _DelimitedText, header: Header, layout: DumpLayout, n_damaged: int, *, end: tuple[str, bool] | None
) -> DumpRows:
    """The rows of one block; `end`, for the last one: the input's name, and whether it may be cut off."""
    assembler = Assembler(header, layout, text.mark)
    torn = _torn_lines(text, header, layout)
    if end is not None and not text.ended and not assembler.last_fits(text.line(len(torn) - 1)):
        torn[-1] = len(torn) > _above(text, header)
    outcomes = [*_before_header(text, header), *_assemble(text, torn, assembler)]
    if end is not None:
        _check_end(text, outcomes, end[0], accept_truncated=end[1])
    rows = [
        outcome._replace(fields=tuple(map(text.restore, outcome.fields)))
        for outcome in outcomes
        if isinstance(outcome, DumpRecord)
    ]
    frame = _regular(text, torn, header, layout)
    if rows:
        frame = pl.concat([frame, _irregular(rows, header, layout)]).sort(LINE)
    repeated = _repeated_header(header, frame) if _worded(frame) else None
    columns_read = frame if repeated is None else frame.filter(~repeated)
    return DumpRows(
        frame=columns_read,
        header=header,
        refused=[_restored(text, outcome) for outcome in outcomes if isinstance(outcome, UnreadableRecord)],
        n_skipped=frame.height - columns_read.height,
        n_damaged=n_damaged,
        _text=text,
        _torn={row.line: text.restore(row.raw)[:RAW_LIMIT] for row in rows},
        doubts=Counter(row.doubts for row in rows if row.doubts),
    )


def _whole_lines(chunks: Iterable[bytes], block: int, rest: list[bytes]) -> Iterator[tuple[bytes, bool]]:
    """The UTF-8 input in chunks that end with a line, without byte order mark and CRLF; and whether it is the last.

    Bytes that the caller puts into `rest` are repeated before the next chunk.
    """
    waiting: list[bytes | memoryview] = []
    size = 0
    started = False
    for chunk in chunks:
        waiting.append(chunk)
        size += len(chunk)
        if size < block or b"\n" not in chunk:
            continue
        stop = chunk.rfind(b"\n") + 1
        data = b"".join([*rest, *waiting[:-1], memoryview(chunk)[:stop]])
        rest.clear()
        waiting, size = [chunk[stop:]], len(chunk) - stop
        yield _plain_ends(data if started else data.removeprefix(codecs.BOM_UTF8)), False
        started = True
    data = b"".join([*rest, *waiting])
    yield _plain_ends(data if started else data.removeprefix(codecs.BOM_UTF8)), True


def decoded(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """UTF-16 as UTF-8 (as a whole: it is rare, and small); everything else as it is."""
    chunks = iter(chunks)
    first = b""
    for chunk in chunks:
        first += chunk
        if len(first) >= _ENOUGH:
            break
    if (encoding := utf_16(first)) is not None:
        yield b"".join(chain([first], chunks)).decode(encoding, errors="replace").encode()
        return
    yield first
    yield from chunks


def as_utf_8(data: bytes) -> bytes:
    r"""A text as UTF-8 without a byte order mark: `>` of PowerShell writes UTF-16.

    >>> [as_utf_8(data) for data in (b"{}", b"\xef\xbb\xbf{}", "{}".encode("utf-16"))]
    [b'{}', b'{}', b'{}']
    """
    encoding = utf_16(data[:_ENOUGH])
    text = data if encoding is None else data.decode(encoding, "replace").encode()
    return text.removeprefix(codecs.BOM_UTF8)


def utf_16(data: bytes) -> str | None:
    r"""The UTF-16 encoding of a text by its mark, or by NUL in most second bytes; None: not UTF-16.

    >>> [utf_16(data) for data in (b"\xff\xfes\0", b"s\0t\0e\0p\0", b"\0s\0t\0e\0p", b"step", b"step\0\0\0\0")]
    ['utf-16', 'utf-16-le', 'utf-16-be', None, None]
    """
    if data.startswith(_UTF16):
        return "utf-16"
    first, second = data[:_ENOUGH:2], data[1:_ENOUGH:2]
    for encoding, high, low in (("utf-16-be", first, second), ("utf-16-le", second, first)):
        if len(high) >= _FEWEST and 10 * high.count(0) > 9 * len(high) and 0 not in low:
            return encoding
    return None


def _shows_header(data: bytes) -> bool:
    """Whether all lines are present in which the header is searched."""
    return len(data) >= _HEADED or data.count(b"\n") > SEARCHED_LINES


def _last_whole(text: _DelimitedText, header: Header, layout: DumpLayout) -> int | None:
    """The last line that is whole independent of later lines: a block may end before it."""
    torn = _torn_lines(text, header, layout)[:-_AHEAD]
    whole = np.flatnonzero(~torn)
    first = max(_above(text, header), 0)
    return int(whole[-1]) if len(whole) and whole[-1] > first else None


def _bytes_of(data: bytes, text: _DelimitedText, lines: int) -> int:
    """Bytes of the first lines in the data as it came: its delimiter may be longer than the text's."""
    stop = int(text.starts[lines])
    longer = len(text.delimiter.encode()) - len(text.mark.encode())
    return stop + longer * int(text.counts[:lines].sum()) if len(data) != len(text.data) else stop


def clean(data: bytes, origin: str) -> tuple[bytes, list[LoadWarning]]:
    """UTF-8 with plain line ends: no byte order mark, no CRLF, damaged characters replaced and warned of."""
    data = _plain_ends(b"".join(decoded([data])).removeprefix(codecs.BOM_UTF8))
    if not data or data.isspace():
        message = f"{origin} is empty: nothing to load. Did the command that wrote it fail?"
        raise UnrecognisedInputError(message)
    mended, count = _utf8(data)
    return mended, damaged(count)


def clean_blocks(chunks: Iterable[bytes], origin: str, block: int) -> Iterator[tuple[bytes, int]]:
    """Results of `clean` for the chunks, in blocks of at least `block` bytes that end with a line (except the last).

    Each comes with the number of damaged characters that were replaced in it.

    Raises:
        UnrecognisedInputError: The input is empty.
    """
    blank = True
    for lines, _ in _whole_lines(decoded(chunks), block, []):
        blank = blank and (not lines or lines.isspace())
        yield _utf8(lines)
    if blank:
        message = f"{origin} is empty: nothing to load. Did the command that wrote it fail?"
        raise UnrecognisedInputError(message)


def _plain_ends(data: bytes) -> bytes:
    """Idempotent, since bytes in front of the next block are converted again."""
    if b"\r" not in data:
        return data
    data = data.replace(b"\r\n", b"\n")  # a tenth of the time of the pattern
    return _ENDS.sub(b"\n", data) if b"\r\n" in data else data


def _utf8(data: bytes) -> tuple[bytes, int]:
    """Replaces damaged characters, so that one does not cost the whole dump; also returns their number."""
    if data.isascii():
        return data, 0
    try:
        data.decode()
    except UnicodeDecodeError:
        mended = data.decode(errors="replace").encode()
        return mended, mended.count("\ufffd".encode()) - data.count("\ufffd".encode())
    return data, 0


def damaged(count: int) -> list[LoadWarning]:
    """The warning about characters that were replaced, if any were."""
    return [LoadWarning("characters_replaced", count)] if count else []


class _DelimitedText:
    """The bytes with a delimiter of one byte, the end of each line, and its number of delimiters.

    `offset` is the number of lines of the input that came before.
    """

    def __init__(self, data: bytes, delimiter: str, offset: int = 0) -> None:
        self.delimiter = delimiter
        self.offset = offset
        mark = delimiter.encode()
        if len(mark) > 1:  # one byte that occurs nowhere else stands for it from here on
            spare = next((byte for byte in _SPARE if byte not in data), None)
            if spare is None:
                message = f"no control character is free to replace the delimiter {delimiter!r}"
                raise UnrecognisedInputError(message)
            data, mark = data.replace(mark, bytes([spare])), bytes([spare])
        self.data = data
        self.mark = mark.decode()
        self.ended = data.endswith(b"\n")
        self.ends, self.counts = _scan(data, mark[0])
        self.starts: Longs = np.concatenate([np.zeros(1, np.int64), self.ends[:-1] + 1])

    def upto(self, stop: int) -> _DelimitedText:
        """The same text, ended before a line."""
        short = copy(self)
        short.ended = True
        short.ends, short.starts, short.counts = self.ends[:stop], self.starts[:stop], self.counts[:stop]
        return short

    def line(self, index: int) -> str:
        """One line without its end."""
        return self.data[self.starts[index] : self.ends[index]].decode()

    def restore(self, text: str) -> str:
        """The text with the delimiter as it was in the input."""
        return text if self.mark == self.delimiter else text.replace(self.mark, self.delimiter)


def _scan(data: bytes, mark: int) -> tuple[Longs, Longs]:
    """The end of each line, and its number of delimiters; block by block, so that memory is bounded."""
    buffer = np.frombuffer(data, np.uint8)
    ends, totals, seen = [], [], 0
    for start in range(0, len(buffer), _SCANNED):
        block = buffer[start : start + _SCANNED]
        newlines, marks = np.flatnonzero(block == ord("\n")), np.flatnonzero(block == mark)
        ends.append(newlines + start)
        totals.append(np.searchsorted(marks, newlines) + seen)
        seen += len(marks)
    if not data.endswith(b"\n"):
        ends.append(np.array([len(data)]))
        totals.append(np.array([seen]))
    counts: Longs = np.diff(np.concatenate(totals), prepend=0).astype(np.int64)
    return np.concatenate(ends), counts


def _above(text: _DelimitedText, header: Header) -> int:
    """Lines of this block before the first row: the header, and the lines before it."""
    return max(header.line + 1 - text.offset, 0)


def _torn_lines(text: _DelimitedText, header: Header, layout: DumpLayout) -> npt.NDArray[np.bool_]:
    """Mask of the lines after the header that may be torn. A line is judged with the `_AHEAD` lines behind it."""
    torn: npt.NDArray[np.bool_] = text.counts != header.width - 1
    if header.names[-1] in layout.free_text:  # a line break in the last column: the line before looks whole
        blank = text.ends == text.starts
        torn[:-1] |= torn[1:] & ~blank[1:] & (text.counts[1:] < header.width - 1)
        torn[:-1] |= blank[1:] & np.append(torn[2:], False)
    torn[: _above(text, header)] = False
    return torn


def _assemble(
    text: _DelimitedText, torn: npt.NDArray[np.bool_], assembler: Assembler
) -> Iterator[DumpRecord | UnreadableRecord]:
    edges = np.flatnonzero(np.diff(torn.astype(np.int8), prepend=0, append=0))
    for start, stop in edges.reshape(-1, 2).tolist():
        lines = [text.line(index) for index in range(start, stop)]
        yield from assembler.assemble(lines, text.offset + start + 1)


def _before_header(text: _DelimitedText, header: Header) -> Iterator[UnreadableRecord]:
    """Lines above the header are not of the table; they are counted, not dropped silently."""
    for index in range(header.line if text.offset == 0 else 0):
        if line := text.line(index).strip():
            yield UnreadableRecord(index + 1, "it precedes the header", line[:RAW_LIMIT], index + 1)


def _check_end(
    text: _DelimitedText, outcomes: list[DumpRecord | UnreadableRecord], origin: str, *, accept_truncated: bool
) -> None:
    """A dump that stops in the middle of a row was not written to its end; rows may be missing after it."""
    last = outcomes[-1] if outcomes else None
    if text.ended or accept_truncated or not isinstance(last, UnreadableRecord):
        return
    if last.cut and last.last == text.offset + len(text.ends):
        message = (
            f"{origin} line {last.line}: the last row is cut off ({last.reason}).\n"
            f"Was the disk full, or the command stopped? Export again, or load the rest with --accept-truncated."
        )
        raise TruncatedInputError(message)


def _regular(text: _DelimitedText, torn: npt.NDArray[np.bool_], header: Header, layout: DumpLayout) -> pl.DataFrame:
    """All lines that are not torn, in one read."""
    whole = ~torn
    whole[: _above(text, header)] = False
    lines = np.flatnonzero(whole) + text.offset + 1
    columns_read = _columns_read(header, layout)
    if not len(lines):
        return pl.DataFrame(schema=dict.fromkeys((*columns_read.values(), LINE), pl.String)).cast({LINE: pl.Int64})
    data, above = _join(text, whole)
    frame = pl.read_csv(
        data,
        has_header=False,
        skip_lines=above,
        n_rows=len(lines),
        truncate_ragged_lines=True,  # those behind them, that is
        separator=text.mark,
        quote_char=None,
        infer_schema=False,
        columns=list(columns_read),
        new_columns=list(header.names),
    )
    return frame.with_columns(pl.Series(LINE, lines, pl.Int64))


def _join(text: _DelimitedText, whole: npt.NDArray[np.bool_]) -> tuple[bytes, int]:
    """Bytes with a number of lines to skip, followed by the whole ones. Copied only if others lie between."""
    edges = np.flatnonzero(np.diff(whole.astype(np.int8), prepend=0, append=0)).reshape(-1, 2)
    if len(edges) == 1:
        return text.data, int(edges[0, 0])
    view = memoryview(text.data)
    chunks = [view[text.starts[start] : text.ends[stop - 1] + 1] for start, stop in edges.tolist()]
    return b"".join(chunks), 0


def _irregular(rows: list[DumpRecord], header: Header, layout: DumpLayout) -> pl.DataFrame:
    columns_read = _columns_read(header, layout)
    columns = {name: [row.fields[index] or None for row in rows] for index, name in columns_read.items()}
    frame = pl.DataFrame(columns, schema=dict.fromkeys(columns_read.values(), pl.String))
    return frame.with_columns(pl.Series(LINE, [row.line for row in rows], pl.Int64))


def _columns_read(header: Header, layout: DumpLayout) -> dict[int, str]:
    """The columns worth reading, by position. The first two also detect a repeated header."""
    return {index: name for index, name in enumerate(header.names) if name in layout.used}


def _worded(frame: pl.DataFrame) -> bool:
    """Whether the first column, ids as a rule, has a word anywhere: only then may a row be a header."""
    names = [name for name in frame.columns if name != LINE]
    return bool(names) and str(frame[names[0]].max()) >= "A"


def _repeated_header(header: Header, frame: pl.DataFrame) -> pl.Series:
    """Mask of repeated headers in concatenated dumps."""
    shown = dict(zip(header.names, header.shown, strict=False))
    names = [name for name in frame.columns if name != LINE]
    same = [pl.col(name).str.to_lowercase() == shown[name].lower() for name in names[:4]]
    return frame.select(pl.all_horizontal(same).fill_null(value=False)).to_series()


def _refuse_other_header(rows: DumpRows, layout: DumpLayout, origin: str) -> None:
    """Stop at a second header of as many columns in another order; rows under one of another width are refused anyway.

    Our own command ends each row with a typed column once more. Such dumps are all alike, and no job name may
    stop one.
    """
    if "#" in rows.header.names[-1][1:] or not _worded(rows.frame):
        return
    names = [name for name in rows.frame.columns if name != LINE]
    worded = rows.frame.filter(pl.col(names[0]).str.to_lowercase().is_in(list(layout.known)))
    for line in worded[LINE]:
        another_header(rows.raw(line).split(rows.header.delimiter), line, layout, origin)


def _restored(text: _DelimitedText, refused: UnreadableRecord) -> UnreadableRecord:
    return refused._replace(raw=text.restore(refused.raw))
