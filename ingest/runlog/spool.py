"""Frames that wait until a log is read to its end: from some size on in a temporary file, not in memory."""

from __future__ import annotations

import io
import os
import tempfile
import weakref
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Final

import polars as pl

from queries.errors import WriteError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

MOST_HELD: Final = 1 << 26
"""Bytes of frames in memory: more are moved to a temporary file."""

_Place = tuple[int, int]
"""Place of a frame in the file: its first byte, and the number of its bytes."""


@dataclass
class Spool:
    """Frames of one schema in the order in which they were added, each under a key.

    A column of a frame in which nothing has a value takes no room. The temporary file has no name: it is gone once the
    process ends, however that is. It is in the folder that `TMPDIR` names, or in /tmp where that cannot be written.

    Attributes:
        schema: of all frames that come back.
        height: rows in all frames.
    """

    schema: Mapping[str, pl.DataType]
    height: int = 0
    _frames: dict[int | None, list[pl.DataFrame | _Place]] = field(default_factory=dict)
    _held: int = 0
    _file: IO[bytes] | None = None

    def add(self, frame: pl.DataFrame, key: int | None = None) -> None:
        """Put a frame behind those of its key.

        Raises:
            WriteError: there is no room for the temporary file.
        """
        if frame.is_empty():
            return
        used = frame.select(column for column in frame if column.null_count() < frame.height)
        used = used if used.width else frame[:, :1]
        self.height += frame.height
        self._frames.setdefault(key, []).append(used)
        self._held += int(used.estimated_size())
        if self._held > MOST_HELD:
            self._spill()

    def frames(self, key: int | None = None) -> Iterator[pl.DataFrame]:
        """The frames of a key; they can be read any number of times."""
        lacking = {name: pl.lit(None, dtype=kind) for name, kind in self.schema.items()}
        for each in self._frames.get(key, ()):
            frame = each if isinstance(each, pl.DataFrame) else self._read(each)
            own = {name: value for name, value in lacking.items() if name not in frame.columns}
            yield frame.with_columns(**own).select(list(self.schema))

    def whole(self, key: int | None = None) -> pl.DataFrame:
        """All frames of a key as one."""
        return pl.concat([pl.DataFrame(schema=self.schema), *self.frames(key)])

    def numbers(self) -> list[int]:
        """The keys that frames were added under, the smallest first."""
        return sorted(key for key in self._frames if key is not None)

    def _spill(self) -> None:
        """Move all frames that are in memory to the file."""
        try:
            self._write()
        except OSError as error:
            reason = error.strerror or str(error)
            raise WriteError(f"{_folder()}, the folder for temporary files: {reason}.\n{_MAKE_ROOM}") from error

    def _write(self) -> None:
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="trackside-")  # noqa: SIM115 - it is open as long as this is
            weakref.finalize(self, self._file.close)
        end = self._file.seek(0, io.SEEK_END)
        for parts in self._frames.values():
            for number, each in enumerate(parts):
                if isinstance(each, pl.DataFrame):
                    each.write_ipc(self._file)
                    begin, end = end, self._file.tell()
                    parts[number] = (begin, end - begin)
        self._held = 0

    def _read(self, place: _Place) -> pl.DataFrame:
        assert self._file is not None  # noqa: S101 - it has places
        begin, size = place
        self._file.seek(begin)
        return pl.read_ipc(io.BytesIO(self._file.read(size)))


def _folder() -> str:
    """The folder in which temporary files are, or would be."""
    try:
        return tempfile.gettempdir()
    except OSError:  # none can be written
        return os.environ.get("TMPDIR", "/tmp")  # noqa: S108 - it is named, not used


_MAKE_ROOM: Final = (
    "A log of millions of steps needs room there, about 200 bytes a step. Free some, or name another folder "
    "(TMPDIR=/scratch), and run the command again: nothing is loaded twice."
)


def joined(frames: Iterable[pl.DataFrame], rows: int) -> Iterator[pl.DataFrame]:
    """The same rows in frames of a minimal size, except the last: small frames cost as much as large ones."""
    waiting: list[pl.DataFrame] = []
    height = 0
    for frame in frames:
        waiting.append(frame)
        height += frame.height
        if height >= rows:
            yield pl.concat(waiting)
            waiting, height = [], 0
    if waiting:
        yield pl.concat(waiting)
