"""`trackside retention`: take out what is older than it is to be kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.cli.options import add_verb

if TYPE_CHECKING:
    import argparse
    from datetime import datetime
    from pathlib import Path

    from app.cli.options import Subparsers


EPILOG = """\
The configuration sets how long telemetry is stored; without it, for ever:
  [retention]
  samples_days = 90      samples of GPUs and nodes, in whole UTC days
  hours_days = 1095      hourly roll-ups; not shorter than samples_days

A sample is removed only after its hour has a roll-up (mean, maximum, 95th percentile, seconds above a threshold,
seconds covered). The next compute uses what is left: roll-ups, which cannot attribute an hour in which a node changed
hands, and without those accounting alone. Attempts, steps, health events and the counts of schedulers are never
removed. Each removal is recorded in the table removals, and shown by trackside status. trackside serve removes once a
day. Try it first: trackside retention --dry-run

--future moves rows with times later than now, from a clock that was wrong, to the table rejects. Loading refuses such
rows; earlier versions did not, and trackside doctor lists what they stored."""


def add_parser(subparsers: Subparsers) -> None:
    """Add the verb and its options."""
    parser = add_verb(
        subparsers,
        "retention",
        "remove samples and hourly roll-ups that are older than the configuration allows (config: retention)",
        writes=True,
        epilog=EPILOG,
        manual="how-to/retention",
    )
    parser.add_argument("--dry-run", action="store_true", help="print what would be removed, and change nothing")
    parser.add_argument(
        "--future", action="store_true", help="instead, move rows with times later than now to the table rejects"
    )


def run(options: argparse.Namespace) -> int:
    """Take out what is older than it is to be kept, or with --future rows of times that have not come yet."""
    from app import clock
    from app.cli.retention_report import print_report
    from app.cli.run_context import require_warehouse, settings_and_root
    from ingest.prometheus.store import retention
    from queries.warehouse import open_reader, open_writer

    settings, root = settings_and_root(options)
    require_warehouse(root)
    now = clock.now()
    if options.future:
        return _future(root, now, settings.warehouse_group, dry_run=options.dry_run, quiet=options.quiet)
    if options.dry_run:
        with open_reader(root) as reader:
            removed = retention.due(reader, settings.retention, now=now)
    else:
        with open_writer(root, verb="trackside retention", now=now, group=settings.warehouse_group) as writer:
            removed = retention.retain(writer, settings, now=now)
    if not options.quiet:
        print_report(removed, settings.retention, done=not options.dry_run)
    return 0


def _future(root: Path, now: datetime, group: str | None, *, dry_run: bool, quiet: bool) -> int:
    from app.cli import future_rows
    from queries.warehouse import open_reader, open_writer

    if dry_run:
        with open_reader(root) as reader:
            rows = future_rows.stored(reader, now=now)
    else:
        with open_writer(root, verb="trackside retention", now=now, group=group) as writer:
            rows = future_rows.reject(writer, now=now)
    if not quiet:
        future_rows.print_report(rows, done=not dry_run)
    return 0
