"""The text that names a lake where otherwise a warehouse directory is named.

    ducklake:postgres:dbname=lake host=db user=trackside     the catalogue is in PostgreSQL (words of libpq)
    ducklake:sqlite:/srv/lake/catalogue.sqlite               in a file of SQLite
    ducklake:/srv/lake/catalogue.ducklake                    in a file of DuckDB

It never holds a password: it is shown in configurations, in lists of processes and in messages.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from queries.errors import WarehouseError

PREFIX: Final = "ducklake:"

Kind = Literal["postgres", "sqlite", "duckdb"]

_OTHER_KIND: Final = re.compile(r"(?!sqlite:)\w+:|[^/]*\bpassword\s*=", re.IGNORECASE)
"""Text after the prefix if the catalogue is named in an unsupported form."""

_PASSWORD: Final = re.compile(r"\b(password|passfile|sslpassword)\s*=", re.IGNORECASE)


@dataclass(frozen=True)
class Address:
    """Address of a lake's catalogue.

    Attributes:
        kind: what holds it.
        at: of PostgreSQL the words of libpq, else the absolute path of the file.
    """

    kind: Kind
    at: str

    def __str__(self) -> str:
        """As it is named on the command line."""
        return PREFIX + ("" if self.kind == "duckdb" else f"{self.kind}:") + self.at

    @property
    def file(self) -> Path | None:
        """The file that holds the catalogue; None where PostgreSQL does."""
        return None if self.kind == "postgres" else Path(self.at)


def address_of(place: Path | str) -> Address | None:
    """The lake that a path names; None if it names a directory.

    A file is relative to the directory before the prefix, if there is one: that of a configuration.

    >>> address_of("ducklake:postgres:dbname=lake host=db").at, address_of(Path("/etc/ducklake:lake.db")).at
    ('dbname=lake host=db', '/etc/lake.db')
    >>> address_of("trackside-data") is None
    True

    Raises:
        WarehouseError: it holds a password, or names nothing.
    """
    text = str(place)
    begin = text.find(PREFIX)
    if begin < 0 or (begin > 0 and text[begin - 1] != "/"):
        return None
    kind, at = _parts(text[begin + len(PREFIX) :])
    if kind == "postgres":
        _refuse_secrets(at)
        return Address(kind, at)
    if not at:
        raise WarehouseError(f"{PREFIX} names no catalogue: {PREFIX}postgres:dbname=... or {PREFIX}FILE")
    return Address(kind, str((Path(text[:begin]) / at).absolute()))


def _parts(text: str) -> tuple[Kind, str]:
    if text.startswith("postgres:"):
        return "postgres", text.removeprefix("postgres:").strip()
    if _OTHER_KIND.match(text):  # it is not repeated: an address of PostgreSQL may hold a password
        raise WarehouseError(
            f"the catalogue of a lake is named {PREFIX}postgres:dbname=lake host=db.example.org user=trackside\n"
            f"(the words of libpq, and no postgresql://), {PREFIX}sqlite:FILE or {PREFIX}FILE."
        )
    if text.startswith("sqlite:"):
        return "sqlite", text.removeprefix("sqlite:")
    return "duckdb", text


def _refuse_secrets(words: str) -> None:
    """Refuse a password, without repeating it.

    Raises:
        WarehouseError: there is one, or the address has another form.
    """
    if _PASSWORD.search(words):
        raise WarehouseError(
            "the address of a lake must not hold a password: others can read command lines and configurations.\n"
            "Put it into ~/.pgpass or $PGPASSWORD (or name a service: service=NAME), and take it out of the address."
        )
    if "://" in words or ":/" in words or "=" not in words:
        raise WarehouseError(
            f"{PREFIX}postgres: takes the words of libpq: dbname=lake host=db.example.org user=trackside\n"
            "An address that begins with postgresql:// is not taken."
        )
