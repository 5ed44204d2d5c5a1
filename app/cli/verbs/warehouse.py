"""`trackside warehouse`: copy a warehouse to another place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.cli.options import add_verb, path_of

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

    from app.cli.options import Subparsers
    from app.progress import ReportProgress
    from queries.warehouse import Copied


EPILOG = """\
To move a warehouse, to back it up, or to go on with it elsewhere:
  trackside warehouse copy trackside-data /backup/trackside
The source is read as it was last published: it may be written to meanwhile. The target is new or empty, half a copy
that was stopped, or an earlier copy of the same warehouse, of which only tables and days that differ are copied again.
Each file of samples is compared with its digest, and each table with its source, by cluster and day, before the copy is
published. What differs can be seen first: --dry-run"""


def add_parser(subparsers: Subparsers) -> None:
    """Add the verb and its options."""
    parser = add_verb(
        subparsers,
        "warehouse",
        "copy a warehouse to another place, table by table and day by day, and compare the two",
        warehouse=False,
        epilog=EPILOG,
        manual="how-to/retention",
    )
    parser.set_defaults(kept="what was copied is kept")
    parser.add_argument("action", choices=("copy",), help="copy: have TO be what is published of FROM")
    parser.add_argument("source", metavar="FROM", type=path_of, help="warehouse directory to read")
    parser.add_argument("target", metavar="TO", type=path_of, help="warehouse directory to write; made if missing")
    parser.add_argument("--dry-run", action="store_true", help="print what would be copied, and change nothing")


def run(options: argparse.Namespace) -> int:
    """Copy a warehouse."""
    from app import console
    from app.config import settings
    from app.progress import progress
    from queries.warehouse import would_copy

    source, target = options.source.absolute(), options.target.absolute()
    _refuse_same(source, target)
    with progress("copy", quiet=options.quiet) as report:
        if options.dry_run:
            taken = would_copy(source, target, report=report)
        else:
            taken = _copy(source, target, settings.load(options.config).warehouse_group, report)
    if not options.quiet:
        console.echo(_said(taken, source, target, done=not options.dry_run))
    return 0


def _copy(source: Path, target: Path, group: str | None, report: ReportProgress) -> Copied:
    from app import clock
    from queries.warehouse import copy, open_reader, open_writer

    with open_reader(source):  # before anything is made
        pass
    now = clock.now()
    with open_writer(target, verb="trackside warehouse copy", now=now, group=group, half_copied=True) as writer:
        return copy(source, writer, report=report)


def _refuse_same(source: Path, target: Path) -> None:
    """Refuse to copy a directory into itself.

    Raises:
        UsageError: one of the two is in the other.
    """
    from app.errors import UsageError

    here, there = source.resolve(), target.resolve()
    if here == there or here in there.parents or there in here.parents:
        raise UsageError(f"{target} and {source} are one directory, or one is in the other: copy elsewhere")


def _said(taken: Copied, source: Path, target: Path, *, done: bool) -> str:
    """The line at the end."""
    from app.formatting import display

    if not (taken.rows or taken.files or taken.tables):
        return f"{target} is what is published of {source}: every table, cluster and day is the same."
    counted = (
        f"{taken.rows:,} rows in {len(taken.tables):,} tables and {taken.files:,} files of samples "
        f"({display(float(taken.bytes), 'bytes')})"
    )
    if not done:
        return f"Would be copied from {source} to {target} (nothing was changed): {counted}."
    return f"Copied from {source} to {target}, and compared: {counted}."
