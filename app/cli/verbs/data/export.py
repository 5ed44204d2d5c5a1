"""`trackside export`: write a whole table or view."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.cli.options import add_format, add_table, add_verb

if TYPE_CHECKING:
    import argparse
    from collections.abc import Collection

    from app.cli.options import Subparsers


def add_parser(subparsers: Subparsers) -> None:
    """Add the verb and its options."""
    parser = add_verb(subparsers, "export", "write a whole table or view", manual="reference/dictionary")
    parser.add_argument("table", metavar="TABLE", help="table or view; `trackside export tables` lists them")
    parser.add_argument(
        "--account",
        action="append",
        default=[],
        metavar="NAME",
        help="only rows of this account's attempts, jobs and runs, without the names of others' runs; may be repeated. "
        "Tables that name none of these are refused",
    )
    add_format(parser, usual="csv, or what FILE ends in")
    add_table(parser)
    parser.set_defaults(format=None)


def run(options: argparse.Namespace) -> int:
    """Write a whole table, or list the tables."""
    from app import console
    from app.cli.rows import RowFormat, row_options
    from app.cli.run_context import warehouse_root
    from app.cli.tenants import rows_of_accounts
    from queries.warehouse import open_reader

    root = warehouse_root(options)
    with open_reader(root) as reader:
        if options.table == "tables":
            for name in sorted(reader.relations()):
                console.echo(name)
            return 0
        name = _table(options.table, reader.relations())
        rows = rows_of_accounts(reader, name, options.account) if options.account else reader.table(name)
    RowFormat.of(options).put(rows, row_options(options), title=options.table)
    return 0


def _table(name: str, names: Collection[str]) -> str:
    """The name of a table.

    Raises:
        QueryError: there is none of that name.
    """
    from queries.errors import QueryError
    from queries.near_names import did_you_mean

    if name in names:
        return name
    hint = did_you_mean(name, names, most=3)
    raise QueryError(f"there is no table {name!r}{hint}\nAll of them: trackside export tables")
