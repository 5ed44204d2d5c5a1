"""Storage of a lake's Parquet files: a folder that all machines see, or a bucket of S3's protocol.

Names are relative to that place. A file has its name when it is whole, and is never changed afterwards.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import shutil
import tempfile
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

import duckdb

from queries import directory, integrity
from queries.errors import WarehouseError, WriteError
from queries.lake.engine import REGION
from queries.lake.faults import NO_FILE, forbidden, is_no_bucket, is_refusal, no_bucket, unreadable
from queries.opening import first_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from obstore.store import S3Store

UNFINISHED: Final = ".unfinished"

_COMMITTED: Final = re.compile(rf"([0-9a-f]{{32}})/(?:tables|raw)/.+\.parquet(?:{re.escape(UNFINISHED)})?")

_RETRIES: Final = 10
_TIMEOUT: Final = timedelta(seconds=60)


class Storage(Protocol):
    """A place for files."""

    local: bool
    """Whether its files can be read where they are, as files."""

    def is_at(self, data_path: str) -> bool:
        """Whether this is the place that a path or an address names."""

    def require_writable(self) -> None:
        """Refuse a place in which no file can be made.

        Raises:
            WriteError: it is one.
        """

    def address(self, name: str) -> str:
        """The name as DuckDB opens it."""

    def name(self, address: str) -> str:
        """The other way round."""

    def writing(self, name: str) -> contextlib.AbstractContextManager[Path]:
        """A local file to be written; at the end it is at this place, whole."""

    def put(self, file: Path, name: str) -> None:
        """Copy a local file to this place."""

    def has(self, name: str, sha256: str) -> bool:
        """Whether a file is there with these contents."""

    def sizes(self, prefix: str) -> dict[str, int]:
        """Bytes of each file whose name begins so, by name; unfinished ones, too."""

    def fetch(self, name: str, target: Path) -> None:
        """Copy a file here, whole."""

    def remove(self, names: Iterable[str]) -> None:
        """Remove files; one that is gone already is fine."""


def origin_of(name: str) -> str | None:
    """The warehouse whose commits name a file so, while they write it, too; None: the name is not Trackside's.

    >>> origin_of(f"{'0f' * 16}/tables/main.runs/all/00000003-7-41.parquet"), origin_of("photos/cat.jpg")
    ('0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f', None)
    """
    match = _COMMITTED.fullmatch(name)
    return match[1] if match else None


def storage_of(data_path: str) -> Storage:
    """The place that a catalogue names.

    Raises:
        WarehouseError: it is of a kind that is not supported.
    """
    if data_path.startswith("s3://"):
        return Bucket(data_path)
    if "://" in data_path:
        raise WarehouseError(f"{data_path}: the files of a lake are in a folder or in s3://BUCKET/...")
    return FolderStorage(Path(data_path))


class FolderStorage:
    """A folder, on this machine or on one that all see."""

    local = True

    def __init__(self, root: Path) -> None:
        self.root = root

    def is_at(self, data_path: str) -> bool:
        """Whether this is the place that a path or an address names."""
        return self.root.resolve() == Path(data_path).resolve()

    def require_writable(self) -> None:
        """Refuse a place in which no file can be made."""
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self.root):
                pass
        except OSError as error:
            raise WriteError(f"{self.root} cannot be written: {error.strerror}. Nothing was changed.") from error

    def address(self, name: str) -> str:
        """The name as DuckDB opens it."""
        return str(self.root / name)

    def name(self, address: str) -> str:
        """The other way round."""
        return address.removeprefix(f"{self.root}/")

    @contextlib.contextmanager
    def writing(self, name: str) -> Iterator[Path]:
        """A local file to be written; at the end it is at this place, whole."""
        place = self.root / name
        unfinished = place.with_name(place.name + UNFINISHED)
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            yield unfinished
            directory.sync(unfinished)
            unfinished.replace(place)
        except (OSError, duckdb.IOException) as error:
            why = error.strerror if isinstance(error, OSError) else first_line(error)
            raise WriteError(f"{place} cannot be written: {why or error}. Nothing was changed.") from error

    def put(self, file: Path, name: str) -> None:
        """Copy a local file to this place."""
        with self.writing(name) as unfinished:
            shutil.copyfile(file, unfinished)

    def has(self, name: str, sha256: str) -> bool:
        """Whether a file is there with these contents."""
        file = self.root / name
        return file.exists() and integrity.digest_of(file) == sha256

    def sizes(self, prefix: str) -> dict[str, int]:
        """Bytes of each file whose name begins so, by name; unfinished ones, too."""
        return {self.name(path): size for path, size in _files_below(str(self.root / prefix))}

    def fetch(self, name: str, target: Path) -> None:
        """Copy a file here, whole."""
        unfinished = target.with_name(f"{target.name}{UNFINISHED}-{os.getpid()}")
        shutil.copyfile(self.root / name, unfinished)
        unfinished.replace(target)

    def remove(self, names: Iterable[str]) -> None:
        """Remove files; one that is gone already is fine."""
        for name in names:
            (self.root / name).unlink(missing_ok=True)


def _files_below(folder: str) -> Iterator[tuple[str, int]]:
    """Paths and bytes of the files in a folder and those below it; a `Path` of each would take longer than its stat.

    Left out are folders that this user may not read, which are of others (`lost+found`), and files that a commit names
    otherwise meanwhile.
    """
    with contextlib.suppress(FileNotFoundError, NotADirectoryError, PermissionError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _files_below(entry.path)
            else:
                with contextlib.suppress(FileNotFoundError):
                    if entry.is_file():
                        yield entry.path, entry.stat().st_size


class Bucket:
    """A bucket of S3's protocol, or what is below a prefix of one; with the keys of the environment."""

    local = False

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")

    def is_at(self, data_path: str) -> bool:
        """Whether this is the place that a path or an address names."""
        return self._url == data_path.rstrip("/")

    def require_writable(self) -> None:
        """Nothing: a bucket that is not there is refused when it is listed."""

    def address(self, name: str) -> str:
        """The name as DuckDB opens it."""
        return f"{self._url}/{name}"

    def name(self, address: str) -> str:
        """The other way round."""
        return address.removeprefix(f"{self._url}/")

    @contextlib.contextmanager
    def writing(self, name: str) -> Iterator[Path]:
        """A local file to be written; at the end it is at this place, whole."""
        with tempfile.TemporaryDirectory(prefix="trackside-lake-") as folder:
            file = Path(folder, "file.parquet")
            try:
                yield file
            except duckdb.IOException as error:
                raise WriteError(f"{file} cannot be written: {first_line(error)}. Nothing was changed.") from error
            self.put(file, name)

    def put(self, file: Path, name: str) -> None:
        """Copy a local file to this place."""
        with self._errors():
            self._store.put(name, file)

    def has(self, name: str, sha256: str) -> bool:  # noqa: ARG002 - the same question of every place
        """Whether a file is there with these contents: not known without reading it, so it is put again."""
        return False

    def sizes(self, prefix: str) -> dict[str, int]:
        """Bytes of each file whose name begins so, by name."""
        with self._errors():
            return {each["path"]: each["size"] for some in self._store.list(prefix) for each in some}

    def fetch(self, name: str, target: Path) -> None:
        """Copy a file here, whole."""
        target.parent.mkdir(parents=True, exist_ok=True)
        unfinished = target.with_name(f"{target.name}{UNFINISHED}-{os.getpid()}")
        with self._errors(reads=name), unfinished.open("wb") as file:
            for part in self._store.get(name).stream():
                file.write(part)
        unfinished.replace(target)

    def remove(self, names: Iterable[str]) -> None:
        """Remove files; one that is gone already is fine."""
        with self._errors():
            for name in names:
                with contextlib.suppress(FileNotFoundError):
                    self._store.delete(name)

    @functools.cached_property
    def _store(self) -> S3Store:
        from obstore.store import S3Store  # noqa: PLC0415 - an extra

        bucket, _, prefix = self._url.removeprefix("s3://").partition("/")
        endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
        return S3Store(
            bucket,
            prefix=prefix or None,
            region=os.environ.get("AWS_REGION", REGION),
            **({"endpoint": endpoint} if endpoint else {}),  # type: ignore[arg-type]  # its own kind of options
            client_options={"timeout": _TIMEOUT, "allow_http": (endpoint or "").startswith("http:")},
            retry_config={"max_retries": _RETRIES, "retry_timeout": timedelta(seconds=180)},
        )

    @contextlib.contextmanager
    def _errors(self, reads: str = "") -> Iterator[None]:
        """Turn errors of the server into ours: the first line, for what follows is obstore's own structure."""
        try:
            from obstore import exceptions  # noqa: PLC0415 - an extra
        except ImportError:
            raise WarehouseError(
                "a lake in S3 needs obstore, which is not installed: pip install 'trackside[lake]'"
            ) from None
        try:
            yield
        except (exceptions.PermissionDeniedError, exceptions.UnauthenticatedError) as error:
            raise forbidden(self._url, first_line(error)) from None
        except (exceptions.BaseError, OSError, ValueError) as error:
            if is_no_bucket(str(error)):
                raise no_bucket(self._url) from None
            if is_refusal(str(error)):
                raise forbidden(self._url, first_line(error)) from None
            if reads and isinstance(error, FileNotFoundError):
                raise unreadable(self._url, self.address(reads), NO_FILE) from None
            raise WriteError(f"{self._url}: {first_line(error)}\nRun it again: what was committed is kept.") from None
