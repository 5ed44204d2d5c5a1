"""The SQL files of this package as values: schema steps, views, named queries, checks, and their comments."""

from __future__ import annotations

import functools
import hashlib
import re
from dataclasses import dataclass, replace
from importlib import resources
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Iterator

Severity = Literal["stop", "warn"]

_TABLE = re.compile(r"((?:^--[^\n]*\n)+)CREATE TABLE ([\w.]+) \(\n(.*?)^\);", re.MULTILINE | re.DOTALL)
_COLUMN = re.compile(r'^ {4}"?(\w+)"?\s+(.+?),?\s+-- (.+)$')
_ADDED = re.compile(r'^ALTER TABLE ([\w.]+) ADD COLUMN "?(\w+)"? (.+?); +-- (.+)$', re.MULTILINE)
_DROPPED = re.compile(r"^DROP TABLE ([\w.]+);", re.MULTILINE)
_SELECTED = re.compile(r'^ {4}[^-\n]*?"?(\w+)"?,? +-- (.+)$', re.MULTILINE)
_PARAMETER = re.compile(r"\$([a-z_]+)")


@dataclass(frozen=True)
class Column:
    """A column as its schema file declares it."""

    name: str
    type: str
    description: str


@dataclass(frozen=True)
class Table:
    """A table as its schema file declares it; `description` defines one row."""

    name: str
    description: str
    columns: tuple[Column, ...]

    @property
    def shown(self) -> str:
        """The name that people use: of a table that is stored in a schema of its own, the view's."""
        return self.name.rpartition(".")[2]


_COMMENT: Final = re.compile(r"\s*--[^\n]*")


@dataclass(frozen=True)
class SchemaStep:
    """A numbered schema step: applied once, never edited after a release."""

    number: int
    name: str
    sql: str

    @functools.cached_property
    def sha256(self) -> str:
        """Digest of the text without comments, stored in the warehouse so that an edited step is noticed."""
        return hashlib.sha256(_COMMENT.sub("", self.sql).encode()).hexdigest()


@dataclass(frozen=True)
class Named:
    """A view or a named query; `description` is the comment it opens with."""

    name: str
    description: str
    sql: str
    file: str = ""
    """The path of a named query: `queries/named/results/restarts.sql`."""

    @property
    def columns(self) -> tuple[tuple[str, str], ...]:
        """Columns that have a comment next to them: name and meaning."""
        return tuple(_SELECTED.findall(self.sql))

    @property
    def parameters(self) -> frozenset[str]:
        """Names of the `$parameters` in it."""
        return frozenset(_PARAMETER.findall(self.sql))


@dataclass(frozen=True)
class Check:
    """A query that returns offending rows; `stop` prevents the commit, `warn` only reports them.

    Attributes:
        of: the rows that may be offending, as `FROM ...`: without any it need not be planned. Empty: it always is.
        names: the column of its rows whose first values the finding names; empty: the finding has their number.
        sql: with `$since` it can check a part of the ledger, and the attempts in that part.
    """

    name: str
    severity: Severity
    description: str
    sql: str
    of: str = ""
    names: str = ""

    @property
    def of_part(self) -> bool:
        """Whether it can check only the time since a moment."""
        return "$since" in self.sql


def _files(folder: str) -> Iterator[tuple[str, str]]:
    """The SQL files of a folder, not of those in it: names and texts, in the order of the names."""
    files = [item for item in (resources.files("queries") / folder).iterdir() if item.name.endswith(".sql")]
    for item in sorted(files, key=lambda each: each.name):
        yield item.name, item.read_text(encoding="utf-8")


def _folders(folder: str) -> Iterator[str]:
    """The folders in a folder, one below the other, in the order of their names."""
    for item in sorted((resources.files("queries") / folder).iterdir(), key=lambda each: each.name):
        if item.is_dir():
            yield f"{folder}/{item.name}"


def _opening_comment(sql: str) -> str:
    lines = []
    for line in sql.splitlines():
        if not line.startswith("--"):
            break
        lines.append(line.removeprefix("--").strip())
    return " ".join(lines)


@functools.cache
def schema_steps() -> tuple[SchemaStep, ...]:
    """All schema steps in order."""
    return tuple(SchemaStep(int(name[:4]), name, sql) for name, sql in _files("schema"))


@functools.cache
def views() -> tuple[Named, ...]:
    """The stable names that boards and people use, in order of creation."""
    return tuple(Named(name[5:-4], _opening_comment(sql), sql) for name, sql in _files("views"))


@functools.cache
def named_queries() -> dict[str, Named]:
    """The parameterised reads by name; a name is in one folder only.

    Raises:
        ValueError: two folders have a query of one name.
    """
    queries: dict[str, Named] = {}
    for folder in _folders("named"):
        for name, sql in _files(folder):
            query = Named(name[:-4], _opening_comment(sql), sql, f"queries/{folder}/{name}")
            if query.name in queries:
                raise ValueError(f"{query.file}: there is {queries[query.name].file} already; names are unique")
            queries[query.name] = query
    return dict(sorted(queries.items()))


@functools.cache
def checks() -> tuple[Check, ...]:
    """The data checks.

    Each file opens with `-- stop: ...` or `-- warn: ...`, and may have `-- names: COLUMN` and `-- of: FROM ...` next.
    """
    parsed = []
    for name, sql in _files("checks"):
        opening, _, of = _opening_comment(sql).partition(" of: ")
        comment, _, names = opening.partition(" names: ")
        severity, _, description = comment.partition(": ")
        if severity not in {"stop", "warn"}:
            raise ValueError(f"queries/checks/{name}: the first line must begin with '-- stop: ' or '-- warn: '")
        parsed.append(Check(name[:-4], "stop" if severity == "stop" else "warn", description, sql, of, names))
    return tuple(parsed)


def tables_of(step: SchemaStep) -> tuple[Table, ...]:
    """Tables that a schema step declares, with the comments next to them."""
    tables = []
    for comment, name, body in _TABLE.findall(step.sql):
        columns = tuple(Column(*match.groups()) for line in body.splitlines() if (match := _COLUMN.match(line)))
        tables.append(Table(name, " ".join(line.removeprefix("--").strip() for line in comment.splitlines()), columns))
    return tuple(tables)


def added_by(step: SchemaStep) -> tuple[tuple[str, Column], ...]:
    """Columns that a schema step adds to tables of earlier ones, each with its table's name."""
    return tuple((table, Column(*rest)) for table, *rest in _ADDED.findall(step.sql))


def tables() -> dict[str, Table]:
    """Every table by the name that people use, in schema order."""
    return tables_after(schema_steps())


@functools.cache
def tables_after(steps: tuple[SchemaStep, ...]) -> dict[str, Table]:
    """The tables that steps declare, with the changes that later ones make to those of earlier ones."""
    tables: dict[str, Table] = {}
    for step in steps:
        for name in _DROPPED.findall(step.sql):
            del tables[name]
        tables.update({table.name: table for table in tables_of(step)})
        for name, column in added_by(step):
            tables[name] = replace(tables[name], columns=(*tables[name].columns, column))
    return {table.shown: table for table in tables.values()}


def table(name: str) -> Table:
    """A table by the name that people use.

    Raises:
        KeyError: the schema declares none of that name.
    """
    return tables()[name]


def all_tables() -> tuple[Table, ...]:
    """Every table, in schema order."""
    return tuple(tables().values())


def literal(text: str) -> str:
    """Text as a SQL string literal.

    >>> literal("Alice's")
    "'Alice''s'"
    """
    return "'" + text.replace("'", "''") + "'"


def sample_time(name: str) -> str:
    """The column with the time that decides in which day's file a row of a sample table lies.

    >>> sample_time("gpu_samples"), sample_time("rank_steps")
    ('ts', 'started_at')
    """
    return "ts" if any(column.name == "ts" for column in table(name).columns) else "started_at"


def sample_tables() -> tuple[str, ...]:
    """Tables whose rows live in Parquet partitions (declared in the schema `raw`)."""
    return tuple(table.shown for table in all_tables() if table.name.startswith("raw."))
