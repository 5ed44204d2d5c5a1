"""Messages for errors of a catalogue, or of the storage of a lake's files. No message holds a secret."""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING, Final

import duckdb

from queries.errors import CorruptWarehouseError, LockedWarehouseError, NoWarehouseError, WarehouseError, WriteError
from queries.opening import first_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from queries.lake.address import Address

_QUOTED: Final = re.compile(r'"[^"]*=[^"]*"')
"""Words of libpq as DuckDB repeats them: other programs' configurations may have put more into them."""

_MISSING: Final = ("explicitly disabled", "database does not exist", "does not exist - and creating")
_UNREACHABLE: Final = ("unable to connect to postgres", "connection to server", "server closed the connection")
_BUSY: Final = ("set lock", "conflicting lock", "database is locked")
_FORBIDDEN: Final = (
    "(http 403)",
    "(http 401)",
    "(http 400)",
    "http 403 ",
    "http 401 ",
    "http 400 ",
    "access denied",
    "accessdenied",
    "expiredtoken",
    "invalidtoken",
)
"""Of a server that refuses; many answer 400 to a token that has expired, and to the keys of another region."""
_NO_BUCKET: Final = ("nosuchbucket", "specified bucket does not exist")
_REFUSED: Final = ("permission denied for", "must be owner of")
_NO_CATALOGUE: Final = (
    "file is not a database",
    "not a valid duckdb database file",
    "unable to open database",
    ": is a directory",
)
_LOST: Final = re.compile(r'No files found that match the pattern "([^"]+)"')
_SILENT: Final = ("could not establish connection", "could not connect to server", "could not resolve host")
NO_FILE: Final = "there is no such file"
_VERSION: Final = ("ducklake catalog version", "catalog version mismatch")


class BusyError(LockedWarehouseError):
    """A file that holds the catalogue is open in another process at this moment."""


class BucketError(WarehouseError):
    """The files are in a bucket, and DuckDB's extension for those is not loaded yet."""


@contextlib.contextmanager
def catalogue_errors(address: Address) -> Iterator[None]:
    """Turn DuckDB's errors about a catalogue into this package's.

    Raises:
        NoWarehouseError, BusyError, WriteError, CorruptWarehouseError, WarehouseError: see their classes.
    """
    try:
        yield
    except duckdb.Error as error:
        raise explained(address, error) from None


def explained(address: Address, error: duckdb.Error) -> WarehouseError:
    """An error of DuckDB about a lake as one of this package."""
    why = without_secrets(first_line(error))
    text = str(error).lower()
    if any(words in text for words in _BUSY):
        return BusyError(f"{address} is open in another process at this moment: {why}")
    if any(words in text for words in _UNREACHABLE):
        return WarehouseError(
            f"the catalogue of {address} cannot be reached: {without_secrets(_reason(str(error)))}\n"
            "Is PostgreSQL up, does it have this database, and may this user connect to it from here? Its password "
            "comes from ~/.pgpass or $PGPASSWORD. Try psql with the same words."
        )
    if any(words in text for words in _MISSING):
        return NoWarehouseError(no_lake(address))
    if any(words in text for words in _VERSION):
        return CorruptWarehouseError(f"{address} was made by another version of DuckLake: {why}")
    if any(words in text for words in _REFUSED):
        return _refused(address, str(error))
    return _of_files(address, error, why)


def _refused(address: Address, message: str) -> WarehouseError:
    """That a role of PostgreSQL may not do what was asked of it."""
    line = next(line for line in message.splitlines() if any(words in line.lower() for words in _REFUSED))
    reason = re.sub(r"^.*ERROR: +", "", line).strip()
    return WarehouseError(
        f"PostgreSQL refuses this user in the catalogue of {address}: {without_secrets(reason)}\n"
        "Whoever reads the lake needs SELECT on all tables of its schema. Whoever commits needs to write them, too: "
        "use the role that owns them, or grant it all on the schema."
    )


def _of_files(address: Address, error: duckdb.Error, why: str) -> WarehouseError:
    """An error about the files of a lake, or about one that is no catalogue."""
    text = str(error).lower()
    if any(words in text for words in _NO_CATALOGUE):
        return NoWarehouseError(f"{address} is no catalogue of a lake: {why}")
    if "requires the extension httpfs" in text:
        return BucketError(f"{address}: {why}")
    if lost := _LOST.search(str(error)):
        return unreadable(address, lost[1], NO_FILE)
    return _of_store(address, text, why)


def _of_store(address: Address, text: str, why: str) -> WarehouseError:
    """An error of the object store with the files of a lake, or one that has no other explanation."""
    if is_refusal(text):
        return forbidden(str(address), why)
    if is_no_bucket(text):
        return no_bucket(str(address))
    if any(words in text for words in _SILENT):
        return WarehouseError(
            f"the object store with the files of {address} does not answer: {why}\n"
            "Is it up, and can this machine reach it? AWS_ENDPOINT_URL_S3 names a server that is not Amazon's."
        )
    return WriteError(f"{address}: {why}\nRun it again: what was committed is kept, the rest is done again.")


def unreadable(lake: Address | str, file: str, why: str) -> CorruptWarehouseError:
    """That a file of a lake, or of the place of its files, cannot be read, though the catalogue counts it."""
    return CorruptWarehouseError(
        f"{lake}: {file}, which its catalogue counts, cannot be read: {why}\n"
        "Is the place of the lake's files mounted here, with all of them? If a file is lost,\n"
        "copy it back from a backup, or copy each cluster's directory into a new lake, with another --data-path."
    )


def is_refusal(text: str) -> bool:
    """Whether an object store's error means that it refuses the keys."""
    return any(words in text.lower() for words in _FORBIDDEN)


def forbidden(place: str, why: str) -> WarehouseError:
    """Error for an object store that refuses the request, with the keys that it checks."""
    return WarehouseError(
        f"the object store refuses the files of {place}: {why}\n"
        "It goes by the keys in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (AWS_SESSION_TOKEN, too, if they are "
        "temporary):\nare they set here, have they expired, are they of AWS_REGION, and may they read this bucket, and "
        "write it where it is copied into? What was committed is kept."
    )


def is_no_bucket(text: str) -> bool:
    """Whether an object store's error means that the bucket does not exist."""
    return any(words in text.lower() for words in _NO_BUCKET)


def no_bucket(place: str) -> WarehouseError:
    """That there is no such bucket."""
    return WarehouseError(
        f"{place}: there is no such bucket. Make it first, or name another: --data-path s3://BUCKET/...\n"
        "AWS_ENDPOINT_URL_S3 names a server that is not Amazon's."
    )


def no_lake(address: Address) -> str:
    """That there is none, and how to make one."""
    return (
        f"there is no lake at {address} yet.\nMake it by copying a warehouse into it:\n"
        f"  trackside warehouse copy trackside-data '{address}' --data-path FOLDER_OR_S3"
    )


def _reason(message: str) -> str:
    """The message of PostgreSQL's library, without the values that it was given."""
    _, found, reason = message.rpartition('": ')
    return " ".join((reason if found else message).split())[:300]


def without_secrets(text: str) -> str:
    """A message without the quoted words of libpq.

    >>> without_secrets('unable to connect at "host=db password=hunter2": refused')
    'unable to connect at "...": refused'
    """
    return _QUOTED.sub('"..."', text)
