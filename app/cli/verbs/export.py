"""`trackside export`: write a whole table or view."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.cli.options import add_format, add_table, add_verb

if TYPE_CHECKING:
    import argparse
    from collections.abc import Collection

    import polars as pl

    from app.cli.options import Subparsers
    from queries.warehouse import Reader


def add_parser(subparsers: Subparsers) -> None:
    """Add the verb and its options."""
    parser = add_verb(subparsers, "export", "write a whole table or view", manual="reference/dictionary")
    parser.add_argument("table", metavar="TABLE", help="table or view; `trackside export tables` lists them")
    parser.add_argument(
        "--account",
        action="append",
        default=[],
        metavar="NAME",
        help="only rows of this account's runs and attempts; may be repeated. Other tables are refused",
    )
    add_format(parser, usual="csv, or what FILE ends in")
    add_table(parser)
    parser.set_defaults(format=None)


def run(options: argparse.Namespace) -> int:
    """Write a whole table, or list the tables."""
    from app import console
    from app.cli.rows import RowFormat, row_options
    from app.cli.run_context import warehouse_root
    from queries.warehouse import open_reader

    root = warehouse_root(options)
    with open_reader(root) as reader:
        if options.table == "tables":
            for name in sorted(reader.relations()):
                console.echo(name)
            return 0
        name = _table(options.table, reader.relations())
        rows = _of_accounts(reader, name, options.account) if options.account else reader.table(name)
    RowFormat.of(options).put(rows, row_options(options), title=options.table)
    return 0


def _of_accounts(reader: Reader, name: str, accounts: Collection[str]) -> pl.DataFrame:
    """The rows of a table that are of these accounts: by its own column, by the attempt or by the run they name.

    Raises:
        UsageError: nothing in the table says whose its rows are.
    """
    from app.errors import UsageError
    from metrics.frames import ATTEMPT_KEY

    rows = reader.table(name)
    if "account" in rows.columns:
        return rows.filter(rows["account"].is_in(accounts))
    for owners, key in (("attempts", list(ATTEMPT_KEY)), ("runs", ["cluster", "run_id"])):
        if set(key) <= set(rows.columns):
            owned = reader.table(owners)
            return rows.join(owned.filter(owned["account"].is_in(accounts)), on=key, how="semi")
    raise UsageError(f"--account: rows of {name} name no account, attempt or run, so whose they are is not known")


def _table(name: str, names: Collection[str]) -> str:
    """The name of a table.

    Raises:
        QueryError: there is none of that name.
    """
    from app.near_names import did_you_mean
    from queries.errors import QueryError

    if name in names:
        return name
    hint = did_you_mean(name, names, most=3)
    raise QueryError(f"there is no table {name!r}{hint}\nAll of them: trackside export tables")
