"""Tar archives of input files: plain, gzip or Zstandard. Their files are unpacked one by one into a folder of ours.

Names in an archive are shown and never used: nothing is written outside that folder. Links and devices are skipped.
"""

from __future__ import annotations

import tarfile
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, BinaryIO, Final, NamedTuple, cast

from ingest.errors import DamagedStreamError, InputError, TruncatedInputError, UnrecognisedInputError
from ingest.files.input import Input, as_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

LARGEST: Final = 1 << 36
"""Bytes that the files of an archive may have together: 1 TB of zeros fits into 1 GB of gzip."""

MOST: Final = 100_000
"""Files of an archive."""

_MAGIC: Final = slice(257, 262)
_PIECE: Final = 1 << 20


class Member(NamedTuple):
    """A file to read: its path, its name, and the reason if it cannot be read."""

    path: str
    shown: str
    error: Exception | None = None


@contextmanager
def unpacked(names: Iterable[str], is_selected: Callable[[str, str], bool]) -> Iterator[list[Member]]:
    """Files, and instead of each archive its requested files; unpacked ones exist within the context.

    Of an archive that is cut or damaged those before the damage are returned, and itself with the error.

    Args:
        names: of files; files other than tar archives are passed on.
        is_selected: whether the file at a path, with its name, is an input.
    """
    with TemporaryDirectory(prefix="trackside-") as folder:
        place = Path(folder)
        yield [
            one for name in names for one in (_members(name, place, is_selected) if _is_archive(name) else _plain(name))
        ]


def _plain(name: str) -> list[Member]:
    return [Member(name, name)]


def is_archive(head: bytes) -> bool:
    """Whether a file that begins like this, unpacked, is a tar archive."""
    return head[_MAGIC] == b"ustar"


def _is_archive(name: str) -> bool:
    """Whether a file is a tar archive, packed or not; a pipe is not examined."""
    try:
        if not Path(name).is_file():
            return False
        with Input(name) as source:
            return is_archive(source.head)
    except (InputError, OSError, ValueError):
        return False


def _members(name: str, folder: Path, is_selected: Callable[[str, str], bool]) -> list[Member]:
    found: list[Member] = []
    try:
        for member, content in _files(name):
            path = folder / str(len(list(folder.iterdir())))
            with path.open("wb") as file:
                while piece := content.read(_PIECE):
                    file.write(piece)
            shown = as_text(f"{name}/{member.name}")
            if is_selected(str(path), shown):
                found.append(Member(str(path), shown))
            else:
                path.unlink()
    except InputError as error:
        return [*found, Member(name, name, error)]
    except (tarfile.TarError, EOFError, ValueError) as error:
        damaged = DamagedStreamError(f"{as_text(name)}: the archive is cut or damaged: {error}")
        return [*found, Member(name, name, damaged)]
    unread = UnrecognisedInputError(f"{as_text(name)}: an archive without a file that is read here")
    return found or [Member(name, name, unread)]


def _files(name: str) -> Iterator[tuple[tarfile.TarInfo, BinaryIO]]:
    """The plain files of an archive, as far as they are not too many or too large.

    Raises:
        InputError: it is cut, damaged or too large.
    """
    total = 0
    with Input(name) as source, tarfile.open(fileobj=_MemberStream(source), mode="r|") as archive:  # type: ignore[call-overload]  # it only reads
        for number, member in enumerate(archive):
            total += member.size
            if number >= MOST or total > LARGEST:
                most = f"{MOST:,} files or {LARGEST >> 30} GiB"
                message = f"{source.name}: an archive of more than {most}; unpack it and name the files"
                raise InputError(message)
            content = archive.extractfile(member) if member.isfile() else None
            if content is not None:
                yield member, cast("BinaryIO", content)


class _MemberStream:
    """An input as a file that is read once."""

    def __init__(self, source: Input) -> None:
        self._chunks = iter(source)
        self._name = source.name
        self._rest = b""

    def read(self, size: int) -> bytes:
        """So many bytes.

        Raises:
            TruncatedInputError: it has ended before: two blocks of zeros are the end of an archive.
        """
        parts, left = [], size
        while left > 0:
            self._rest = self._rest or next(self._chunks, b"")
            if not self._rest:
                message = f"{self._name}: the archive is cut off; copy or write it again"
                raise TruncatedInputError(message)
            parts.append(self._rest[:left])
            left, self._rest = left - len(parts[-1]), self._rest[left:]
        return b"".join(parts)
