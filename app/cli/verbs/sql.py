"""`trackside sql`: run one SELECT on the published warehouse."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.cli.options import add_format, add_verb

if TYPE_CHECKING:
    import argparse

    from app.cli.options import Subparsers


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


def run(options: argparse.Namespace) -> int:
    """Run one SELECT, and print or write its rows."""
    from app import console
    from app.cli.rows import RowFormat
    from app.cli.run_context import settings_and_root
    from queries.sandbox.run import Limits, user_sql

    settings, root = settings_and_root(options)
    limits = Limits(settings.sql.rows, settings.sql.seconds, settings.sql.memory_mb, settings.sql.result_mb)
    rows, more = user_sql(root, options.sql, limits)
    RowFormat.of(options).put(rows)
    if more:
        console.echo(f"only the first {rows.height:,} rows are shown (config: sql.rows, sql.result_mb)", error=True)
    return 0
