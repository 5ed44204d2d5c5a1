"""`trackside warehouse`: copy a warehouse to another place, into a lake, or out of one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.cli.options import add_verb, number_of, path_of

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

    from app.cli.options import Subparsers
    from app.progress import ReportProgress
    from queries.warehouse import Copied


KEEP_DAYS = 7
"""Time for which replaced files stay in a lake."""

MOST_DAYS = 36_500

EPILOG = """\
To move a warehouse or to back it up:
  trackside warehouse copy trackside-data /backup/trackside
The source is read as it was last published: it may be written to meanwhile. The target is new or empty, an
unfinished copy, or an earlier copy of the same warehouse, of which only tables and days that differ are copied again.
Each file of samples is compared with its digest, and each table with its source, by cluster and day, before the copy is
published. --dry-run lists the differences first.

A lake holds the warehouses of many clusters: a catalogue in PostgreSQL, and files in a folder that all machines see, or
in a bucket. Each cluster's directory is copied into it, again whenever it has changed; any machine reads all of them.
  trackside warehouse copy trackside-data 'ducklake:postgres:dbname=lake host=db' --data-path s3://bucket/lake
  trackside show goodput --warehouse 'ducklake:postgres:dbname=lake host=db'"""


def add_parser(subparsers: Subparsers) -> None:
    """Add the verb and its options."""
    parser = add_verb(
        subparsers,
        "warehouse",
        "copy a warehouse to another place, or into a lake and out of one, table by table, and compare the two",
        warehouse=False,
        epilog=EPILOG,
        manual="how-to/past-one-machine",
    )
    parser.set_defaults(kept="what was copied is kept")
    parser.add_argument(
        "action",
        choices=("copy", "vacuum"),
        help="copy: make TO the same as the published state of FROM; vacuum: remove files that the lake "
        "FROM no longer uses",
    )
    parser.add_argument("source", metavar="FROM", type=path_of, help="warehouse directory, or lake, to read")
    parser.add_argument(
        "target", metavar="TO", type=path_of, nargs="?", help="directory, or lake, to write; made if missing"
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="print what would be copied or removed, and change nothing"
    )
    parser.add_argument(
        "--full",
        action="store_true",
        help="into a lake: compare every row, not only tables and months marked as changed since the last copy",
    )
    parser.add_argument(
        "--data-path",
        metavar="PLACE",
        help="of a new lake: where its files are to be stored, a folder or s3://BUCKET/...",
    )
    parser.add_argument(
        "--keep-days",
        type=number_of("days", least=0, most=MOST_DAYS),
        default=KEEP_DAYS,
        metavar="DAYS",
        help=f"of vacuum: how long replaced files are kept for queries that still read them (default: {KEEP_DAYS})",
    )
    parser.add_argument("--cluster", metavar="CLUSTER", help="from a lake: only the warehouse of this cluster")


def run(options: argparse.Namespace) -> int:
    """Copy a warehouse, or tidy a lake."""
    from app.errors import UsageError

    if (options.action == "vacuum") != (options.target is None):
        raise UsageError("copy needs two places, and vacuum one: warehouse copy FROM TO, warehouse vacuum LAKE")
    return _vacuum(options) if options.action == "vacuum" else _run_copy(options)


def _vacuum(options: argparse.Namespace) -> int:
    from datetime import timedelta

    from app import clock, console
    from app.formatting import display
    from ingest.counted import counted
    from queries.warehouse import vacuum

    before = clock.now() - timedelta(days=options.keep_days)
    removed = vacuum(options.source, before=before, dry_run=options.dry_run)
    if not options.quiet:
        busy = f"; of {counted(removed.busy, 'warehouse')} being committed none" if removed.busy else ""
        done = "would be removed" if options.dry_run else "removed"
        console.echo(
            f"{_shown(options.source)}: {counted(removed.replaced, 'file')} replaced and {removed.loose:,} never "
            f"committed, {display(float(removed.bytes), 'bytes')}, {done}{busy}."
        )
    return 0


def _run_copy(options: argparse.Namespace) -> int:
    from app import console
    from app.progress import progress
    from queries.lake.address import address_of

    with progress("copy", quiet=options.quiet) as report:
        copy = _copy if address_of(options.target) is None else _copy_to_lake
        taken = copy(options, report)
    if not options.quiet:
        console.echo(_summary(taken, _shown(options.source), _shown(options.target), done=not options.dry_run))
    return 0


def _copy(options: argparse.Namespace, report: ReportProgress) -> Copied:
    """Copy a directory or a lake into a directory."""
    from app import clock
    from app.config import settings
    from queries.warehouse import copy, open_reader, open_writer, would_copy

    source, target, cluster = options.source, options.target.absolute(), options.cluster
    _refuse_same(source.absolute(), target)
    if options.dry_run:
        return would_copy(source, target, report=report, cluster=cluster)
    group = settings.load(options.config).warehouse_group
    with open_reader(source, cluster=cluster):  # before anything is made
        pass
    verb = "trackside warehouse copy"
    with open_writer(target, verb=verb, now=clock.now(), group=group, half_copied=True) as writer:
        return copy(source, writer, report=report, cluster=cluster)


def _copy_to_lake(options: argparse.Namespace, report: ReportProgress) -> Copied:
    """Copy a directory into a lake."""
    from app import clock
    from queries.warehouse import copy_to_lake

    return copy_to_lake(
        options.source,
        options.target,
        now=clock.now(),
        report=report,
        data_path=_absolute(options.data_path),
        dry_run=options.dry_run,
        full=options.full,
    )


def _absolute(data_path: str | None) -> str | None:
    """A folder with its whole path; the address of a bucket as it is."""
    return data_path if data_path is None or "://" in data_path else str(path_of(data_path).absolute())


def _shown(place: Path) -> str:
    """A directory with its whole path, a lake as it is named."""
    from queries.lake.address import address_of

    address = address_of(place)
    return str(place.absolute() if address is None else address)


def _refuse_same(source: Path, target: Path) -> None:
    """Refuse to copy a directory into itself.

    Raises:
        UsageError: one of the two is in the other.
    """
    from app.errors import UsageError

    here, there = source.resolve(), target.resolve()
    if here == there or here in there.parents or there in here.parents:
        raise UsageError(f"{target} and {source} are one directory, or one is in the other: copy elsewhere")


def _summary(taken: Copied, source: str, target: str, *, done: bool) -> str:
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
