r"""The lines of a log in blocks, as columns: drawn-over ones taken apart, ones that no format reads left out."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from ingest.delimited.reader import clean_blocks
from ingest.errors import UnrecognisedInputError
from ingest.runlog.envelopes.escapes import without_escapes
from ingest.runlog.envelopes.stamps import MARK

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

BLOCK: Final = 1 << 23
"""Bytes that are read at a time."""

PIECE: Final = 1 << 14
"""Bytes of lines in which words are searched at once: a piece without one is not even split into lines."""

DENSE: Final = 8
"""Blocks that are read as a whole from one on of which every second line, or every second piece, has a word."""

OFTEN_DRAWN: Final = 8
"""Blocks with a carriage return in so many lines, or more of them, are taken apart at once."""

_NO_TEXT: Final = b"\x01"
"""A byte that text does not have."""

_LINE_END: Final = ord("\n")
_RETURN: Final = ord("\r")
_LINES: Final = {"line": pl.Int64(), "text": pl.String()}
_PARTS: Final = _LINES | {"part": pl.Int64()}
_Numbers = np.ndarray[tuple[int], np.dtype[np.int64]]
STAMP: Final = (
    r"([0-9]{4}[-/][0-9]{2}[-/][0-9]{2}|20[0-9]{6})[T _]"
    r"([0-9]{2}:[0-9]{2}:[0-9]{2})(?:[.,]([0-9]{1,9}))?\s?"
    r"(Z|(?:UTC|GMT)(?:[+-](?:0?[0-9]|1[0-4])(?::?[0-9]{2})?)?\b|[+-][0-9]{2}:?[0-9]{2}"
    r"|[+-](?:0[0-9]|1[0-4])(?:[\s\])|,]|$))?"
)
"""A date, also 20251202 (Primus, glog), and a time: `date`, `time`, `fraction`, `offset`.

An offset of hours alone (`+02`) is one if nothing but a blank, a bracket or a comma follows, which is then in it."""
_LEADING: Final = r"^\s*((?:\[[^\]\s]*\] )?\[?[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}[^\s\]\x1f]*)"
"""A stamp with which a line begins."""
_MARKED: Final = "^([^{0}]*){0}([^{0}]*){0}(.*)$".format(MARK.decode())
"""The usual time of a line, what the file has in its place, and the rest of the line."""
_ZONE: Final = r"(?:Z|[+-]\d{2}:?\d{2})$"
"""The end of a stamp with a zone."""
_BAR_AND_MORE: Final = r"(\d+%\|[^|\r]*\| +\d+/\d+ \[[^\]\r]*\])([^\r])"
"""A progress bar, and text behind it from another writer."""


def lines_in_blocks(chunks: Iterable[bytes], origin: str, words: list[str]) -> Iterator[tuple[pl.DataFrame, bool]]:
    """Lines of a log in blocks: `line` (from 1), `part` (of a line that was written over) and `text`.

    Also whether the last of them is the last of the log and has no line end. Where there are `words`, only lines with
    one of them. `in_file` is what the file has, if a line has another time there than in its text (`stamps.MARK`).
    """
    first, dense, full = 1, 0, 0
    try:
        for block, _ in clean_blocks(chunks, origin, BLOCK):
            data = without_escapes(block)
            count = _line_ends(data) + (not data.endswith(b"\n"))
            if b"\r" in data and data.count(b"\r") * OFTEN_DRAWN > count:
                yield _unmarked(drawn_apart(data, first, words)), not data.endswith(b"\n")
            else:
                mine = words if not dense else []
                lines, is_sparse = _numbered(data, first, mine, in_pieces=not full)
                dense = DENSE if mine and 2 * lines.height > count else max(dense - 1, 0)
                full = DENSE if mine and not full and not is_sparse else max(full - 1, 0)
                yield _unmarked(apart(lines)), not data.endswith(b"\n")
            first += count
    except UnrecognisedInputError:  # it is blank
        return


def _unmarked(lines: pl.DataFrame) -> pl.DataFrame:
    """Lines with usual times as text, and with `in_file`, if any is marked."""
    if not lines["text"].str.contains(MARK.decode(), literal=True).any():
        return lines
    time, in_place, rest = (lines["text"].str.extract(f"(?s){_MARKED}", group) for group in (1, 2, 3))
    return lines.with_columns(text=(time + rest).fill_null(lines["text"]), in_file=in_place + rest)


def in_file(records: pl.DataFrame, lines: pl.DataFrame) -> pl.DataFrame:
    """Records, or lines, with the texts that the file has in these lines."""
    if "in_file" not in lines.columns:
        return records
    texts = lines.select("line", pl.col("part").cast(records.schema["part"]), text=pl.coalesce("in_file", "text"))
    own = records.drop("text").join(texts, on=["line", "part"], how="left", maintain_order="left")
    return own.select(records.columns)


def _line_ends(data: bytes | memoryview) -> int:
    """The number of lines that end in a text; this takes a third of the time of `count`."""
    return int(np.count_nonzero(np.frombuffer(data, dtype=np.uint8) == _LINE_END))


def _numbered(data: bytes, first: int, words: Sequence[str], *, in_pieces: bool) -> tuple[pl.DataFrame, bool]:
    """The lines of a block, of which the first has this number; where there are words, those with one, and the last.

    Also whether most of its pieces have no word (where they are searched).
    """
    pieces = (list(_pieces(data)) if words and in_pieces else []) or [data]
    counts = [_line_ends(piece) for piece in pieces]
    counts[-1] += not data.endswith(b"\n")
    sizes, begins = np.array(counts), first + np.cumsum([0, *counts[:-1]])
    if len(pieces) > 1:
        mine = pl.Series([piece.decode() for piece in pieces]).str.contains(any_of(words))
        kept = mine.scatter(len(pieces) - 1, values=[True]).arg_true().to_numpy()
        sizes, begins, pieces = sizes[kept], begins[kept], [pieces[number] for number in kept]
    total = int(sizes.sum())
    numbers = np.arange(total) + np.repeat(begins - (np.cumsum(sizes) - sizes), sizes)
    lines = pl.DataFrame({"line": numbers, "text": _texts(b"".join(pieces), total)}, schema=_LINES)
    if words:
        lines = lines.filter(lines["text"].str.contains(any_of(words)).scatter(total - 1, values=[True]))
    return lines, 2 * len(pieces) <= len(counts)


def _pieces(data: bytes) -> Iterator[bytes]:
    """A text in pieces that end with a line."""
    begin = 0
    while begin < len(data):
        end = data.find(b"\n", begin + PIECE) + 1 or len(data)
        yield data[begin:end]
        begin = end


def any_of(words: Sequence[str]) -> str:
    """A pattern of lines with one of these texts: all are searched at once, at the speed of one."""
    return "|".join(map(re.escape, words))


def _texts(data: bytes, count: int) -> pl.Series:
    """The lines of a text: by the reader of CSV where it can do it, which takes a fifth of the time of a split."""
    if count > 1 and _NO_TEXT not in data:
        options = {"has_header": False, "quote_char": None, "truncate_ragged_lines": True}
        table = pl.read_csv(data, separator=_NO_TEXT.decode(), schema={"text": pl.String}, **options)  # type: ignore[arg-type]  # of several types
        if table.height == count:
            return table["text"].fill_null("") if table["text"].has_nulls() else table["text"]
    return pl.Series([data.removesuffix(b"\n").decode()], dtype=pl.String).str.split("\n").explode()


def apart(lines: pl.DataFrame) -> pl.DataFrame:
    """Lines that were written over, or are behind a bar, taken apart, if there are any."""
    if lines.select(pl.col("text").str.contains("\r", literal=True).any()).item():
        return _each_apart(lines)
    whole = lines.with_columns(part=pl.lit(0, dtype=pl.Int64))
    bars = lines.filter(pl.col("text").str.contains("%|", literal=True))
    more = bars.filter(pl.col("text").str.contains(_BAR_AND_MORE))
    if more.is_empty():
        return whole
    others = whole.join(more, on="line", how="anti", maintain_order="left")
    return pl.concat([others, _each_apart(more).select(others.columns)]).sort("line", "part")


def _each_apart(lines: pl.DataFrame) -> pl.DataFrame:
    """Lines that were written over, and progress bars with something behind them, taken apart.

    The stamp of a container or a collector before such a line is of its end: the last part has it, unless it has as
    many stamps of its own as the first (then lines end with carriage returns alone). A stamp with a zone goes
    before one without, too.
    """
    text = pl.col("text").str.strip_chars_end("\r").str.replace_all(_BAR_AND_MORE, "$1\r$2")
    parts = lines.with_columns(text.str.split("\r"), _stamp=text.str.extract(_LEADING)).explode("text")
    is_last = pl.int_range(pl.len()).over("line") == pl.len().over("line") - 1
    stamps = pl.col("text").str.count_matches(STAMP)
    has_zone = pl.col("text").str.extract(_LEADING).str.contains(_ZONE).fill_null(value=False)
    lacks_one = (stamps < stamps.first().over("line")) | (pl.col("_stamp").str.contains(_ZONE) & ~has_zone)
    stamped = pl.when(is_last & lacks_one).then(pl.concat_str("_stamp", "text", separator=" "))
    return parts.select(
        "line",
        pl.coalesce(stamped, "text").alias("text"),
        part=pl.int_range(pl.len(), dtype=pl.Int64).over("line"),
    )


def drawn_apart(data: bytes, first: int, words: Sequence[str]) -> pl.DataFrame:
    """A block of lines of which many were written over: what `apart` makes of them, all at once.

    Where there are words, only parts with one, the last part, and all parts of the few lines that `apart` handles.

    Args:
        data: the block.
        first: number of its first line.
        words: texts of which every line that is read has one; none: all are.
    """
    numbers, places = _places(data)
    texts = _texts(data.replace(b"\r", b"\n"), len(numbers))
    parts = pl.DataFrame({"line": first + numbers, "text": texts, "part": places}, schema=_PARTS)
    mixed = _mixed(parts)
    parts = parts.filter(_until_blank(texts, numbers, places))
    if words:
        has_word = parts["text"].str.contains(any_of(words))
        parts = parts.filter(has_word.scatter(parts.height - 1, values=[True]))
    if mixed.is_empty():
        return parts
    others = parts.join(mixed, on="line", how="anti", maintain_order="left")
    return pl.concat([others, _each_apart(mixed).select(others.columns)]).sort("line", "part")


def _places(data: bytes) -> tuple[_Numbers, _Numbers]:
    """The parts into which line ends and carriage returns divide a text: the line of each (from 0), its place there."""
    every = np.frombuffer(data, dtype=np.uint8)
    ends = every[(every == _LINE_END) | (every == _RETURN)] == _LINE_END
    if not data.endswith((b"\n", b"\r")):
        ends = np.append(ends, values=False)
    numbers = np.cumsum(ends) - ends
    begins = np.flatnonzero(np.diff(numbers, prepend=-1))
    return numbers, np.arange(len(numbers)) - begins[numbers]


def _until_blank(texts: pl.Series, numbers: _Numbers, places: _Numbers) -> pl.Series:
    """Whether each part is kept: all but empty ones at the end of a line that has others."""
    filled = np.where((texts.str.len_bytes() > 0).to_numpy(), places, 0)
    last = np.maximum.reduceat(filled, np.flatnonzero(places == 0))
    return pl.Series(places <= last[numbers])


def _mixed(parts: pl.DataFrame) -> pl.DataFrame:
    """Lines (`line`, `text`) that are not simply their parts: a stamp before them, or something behind a bar."""
    text = parts["text"]
    continues = text.str.find("]", literal=True) + 1 < text.str.len_bytes()
    bars = parts.filter(continues & text.str.contains("%|", literal=True))
    behind = bars.filter(bars["text"].str.contains(_BAR_AND_MORE))
    has_others = (parts["part"] > 0) | (parts["part"].shift(-1) > 0).fill_null(value=False)
    stamped = parts.filter(has_others & text.str.contains(_LEADING))
    own = parts.filter(parts["line"].is_in(pl.concat([behind["line"], stamped["line"]]).unique().implode()))
    return own.group_by("line", maintain_order=True).agg(pl.col("text").str.join("\r"))
