"""Ends of logs that were read while they were written: a line stored as cut is dropped once the log has all of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import polars as pl

from ingest.runlog.envelopes.escapes import without_escapes
from ingest.runlog.lines import AT_END

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from queries.warehouse import Writer

_ROOM: Final = 4_096
"""Bytes of colours that a line which is searched for may have."""


@dataclass
class CutLines:
    """Whether lines of a log that were stored as cut, from an earlier state of it, go on in its present text.

    Attributes:
        cuts: these lines.
    """

    cuts: Sequence[str]
    _found: set[str] = field(default_factory=set)

    def passed_on(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """The same chunks; each is searched before it is passed on."""
        if not self.cuts:
            yield from chunks
            return
        kept = _ROOM + max(len(self._beginning(cut)) for cut in self.cuts)
        before = b"\n"
        for chunk in chunks:
            before = self._search(before + chunk)[-kept:]
            yield chunk
        self._search(before + b"\n")

    def _search(self, text: bytes) -> bytes:
        """Search for the cut lines, which have no colours and may have been written over; returns the text."""
        plain = without_escapes(text).replace(b"\r", b"\n")
        for cut in self.cuts:
            if self._beginning(cut) in plain:
                self._found.add(cut)
        return text

    @staticmethod
    def _beginning(cut: str) -> bytes:
        """The bytes to search for, up to a colour that was cut: by now it is whole, and is removed from the text."""
        return b"\n" + cut.partition("\x1b")[0].encode()

    def is_continued(self, cut: str) -> bool:
        """Whether the text has a line that begins like a cut one; if it still ends there, it is refused again."""
        return cut in self._found


@dataclass
class CutRecords(CutLines):
    """The same for a binary log, whose cut end was stored as `bytes 17-23`: it goes on if the log has more bytes."""

    _size: int = 0

    def passed_on(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """The same chunks; their bytes are counted."""
        for chunk in chunks:
            self._size += len(chunk)
            yield chunk

    def is_continued(self, cut: str) -> bool:
        """Whether the log is longer than it was when its end was stored as cut."""
        end = cut.rpartition("-")[2]
        return end.isdigit() and int(end) < self._size


def with_reasons(origins: pl.DataFrame) -> pl.DataFrame:
    """Keys of the refused last lines of logs (`origin`): each with all reasons for which they may have been refused."""
    return origins.with_columns(source=pl.lit("runlog")).join(pl.DataFrame({"reason": AT_END}), how="cross")


def cut_lines(writer: Writer, origins: Sequence[str]) -> Mapping[str, list[str]]:
    """The lines of logs that were stored as cut, by the log; logs without any are not in it."""
    requested = with_reasons(pl.DataFrame({"origin": origins}, schema={"origin": pl.String}))
    cut = writer.matching("rejects", requested, keys=requested.columns)
    return dict(cut.group_by("origin").agg(pl.col("raw").unique().sort()).iter_rows())
