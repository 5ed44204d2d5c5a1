"""`trackside sql`: run one SELECT on the published warehouse."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.cli.options import add_format, add_table, add_verb

if TYPE_CHECKING:
    import argparse

    from app.cli.options import Subparsers
    from queries.sandbox.run import SandboxLimits


def add_parser(subparsers: Subparsers) -> None:
    """Add the verb and its options."""
    parser = add_verb(
        subparsers,
        "sql",
        "run one SELECT on the published warehouse, sandboxed",
        manual="how-to/questions#your-own-sql",
    )
    parser.add_argument(
        "sql", metavar="SELECT", help='for example: "SELECT category, SUM(gpu_seconds) FROM gpu_time GROUP BY 1"'
    )
    add_format(parser)
    add_table(parser)


def run(options: argparse.Namespace) -> int:
    """Run one SELECT, and print or write its rows."""
    from app import console
    from app.cli.rows import RowFormat, row_options
    from app.cli.run_context import warehouse_root
    from queries.sandbox.run import user_sql

    rows, more = user_sql(warehouse_root(options), options.sql, limits(options))
    RowFormat.of(options).put(rows, row_options(options))
    if more:
        console.echo(f"only the first {rows.height:,} rows are shown (config: sql.rows, sql.result_mb)", error=True)
    return 0


def limits(options: argparse.Namespace) -> SandboxLimits:
    """The limits of the configuration. Without a file they are the defaults, and no settings are imported."""
    from app.cli.run_context import settings_and_root
    from app.config.place import config_file
    from queries.sandbox.run import SandboxLimits

    if config_file(options.config) is None:
        return SandboxLimits()
    own = settings_and_root(options)[0].sql
    return SandboxLimits(own.rows, own.seconds, own.memory_mb, own.result_mb)
