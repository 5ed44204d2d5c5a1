"""The bytes of a bundle: a folder, or a tar file compressed by gzip. Reading one trusts nothing in it.

Only plain files with short names of our own alphabet are taken out, so no path leaves the folder, no link is followed
and no device is made; sizes are limited before anything is written.
"""

from __future__ import annotations

import gzip
import io
import os
import re
import shutil
import tarfile
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Final

from app.errors import UsageError
from app.output_file import write_file
from ingest.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Protocol

    class Readable(Protocol):
        """A file that is read from."""

        def read(self, size: int, /) -> bytes:
            """At most so many bytes."""
            ...


NAME: Final = re.compile(r"(?:inputs/)?[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
"""A file's name in a bundle."""

MOST_FILES: Final = 200
MOST_BYTES: Final = 4 << 30
"""Bytes of all files together, decompressed."""

_BLOCK: Final = 512
_PORTION: Final = 1 << 20


def write(target: Path, files: Mapping[str, Path | bytes]) -> None:
    """Write a bundle: a folder, or `.tar.gz` where the name ends in that. The same files give the same bytes.

    Raises:
        UsageError: it cannot be written, or the folder holds something else.
    """
    if target.name.endswith((".tar.gz", ".tgz")):
        write_file(target, _tar(files))
        return
    try:
        if target.is_dir() and any(target.iterdir()) and not (target / "MANIFEST.json").exists():
            raise UsageError(f"{target} holds other things; name a new folder, or a file that ends in .tar.gz")
        if target.exists():
            shutil.rmtree(target)
        for name, content in files.items():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            (target / name).write_bytes(_bytes(content))
    except OSError as error:
        raise UsageError(f"{target} cannot be written: {error.strerror}") from None


def _tar(files: Mapping[str, Path | bytes]) -> bytes:
    packed = io.BytesIO()
    with (
        gzip.GzipFile("", "wb", 6, packed, mtime=0) as zipped,
        tarfile.open(fileobj=zipped, mode="w|", format=tarfile.USTAR_FORMAT) as tar,
    ):
        for name in sorted(files):
            content = _bytes(files[name])
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(content), 0o644
            tar.addfile(member, io.BytesIO(content))
    return packed.getvalue()


def _bytes(content: Path | bytes) -> bytes:
    return content if isinstance(content, bytes) else content.read_bytes()


# Reading ---------------------------------------------------------------------------------------------------------


def unpack(bundle: Path, folder: Path) -> list[str]:
    """Take the files of a bundle out into an empty folder.

    Returns:
        Their names.

    Raises:
        InputError: it is no bundle, or holds what a bundle has not.
    """
    try:
        if bundle.is_dir():
            return _copied(bundle, folder)
        with bundle.open("rb") as file, gzip.GzipFile(fileobj=file, mode="rb") as unzipped:
            return _untarred(unzipped, folder, bundle)
    except FileNotFoundError:
        raise InputError(f"{bundle} cannot be read: No such file or directory") from None
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError(f"{bundle} is no bundle, or is cut: {error}") from None
    except OSError as error:
        raise InputError(f"{bundle} cannot be read: {error.strerror or error}") from None


def _copied(bundle: Path, folder: Path) -> list[str]:
    names: list[str] = []
    whole = 0
    for parent, folders, files in os.walk(bundle):
        for each in (*folders, *files):
            path = Path(parent) / each
            name = path.relative_to(bundle).as_posix()
            if path.is_symlink() or not (path.is_file() or name == "inputs"):
                raise InputError(f"{bundle}: {name!r} is no plain file; nothing was read")
            if path.is_file():
                whole += path.stat().st_size
                _allow(bundle, name, names, whole)
                with path.open("rb") as source:
                    _put(source, folder / name, path.stat().st_size)
                names.append(name)
    return names


def _untarred(unzipped: Readable, folder: Path, bundle: Path) -> list[str]:
    names: list[str] = []
    whole = 0
    while True:
        block = unzipped.read(_BLOCK)
        if not block.strip(b"\0"):
            return names
        try:
            member = tarfile.TarInfo.frombuf(block, "utf-8", "strict")
        except (tarfile.TarError, UnicodeDecodeError) as error:
            raise InputError(f"{bundle} is no tar file: {error}") from None
        name = member.name.removeprefix("./").rstrip("/")
        if member.isdir() and name in {"", ".", "inputs"}:
            continue
        if not member.isreg():
            raise InputError(f"{bundle}: {name!r} is no plain file; nothing was read")
        whole += member.size
        _allow(bundle, name, names, whole)
        _put(unzipped, folder / name, member.size)
        unzipped.read(-member.size % _BLOCK)
        names.append(name)


def _allow(bundle: Path, name: str, names: list[str], whole: int) -> None:
    if not NAME.fullmatch(name) or ".." in name:
        raise InputError(f"{bundle}: {name!r} is no name of a file of a bundle; nothing was read")
    if name in names:
        raise InputError(f"{bundle}: {name!r} is in it twice; nothing was read")
    if len(names) >= MOST_FILES:
        raise InputError(f"{bundle} has more than {MOST_FILES} files; nothing was read")
    if whole > MOST_BYTES:
        raise InputError(f"{bundle} holds more than {MOST_BYTES >> 30} GiB; nothing was read")


def _put(source: Readable, target: Path, size: int) -> None:
    target.parent.mkdir(exist_ok=True)
    with target.open("xb") as file:
        while size:
            portion = source.read(min(size, _PORTION))
            if not portion:
                raise EOFError("a file in it ends early")
            file.write(portion)
            size -= len(portion)
