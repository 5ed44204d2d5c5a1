"""`trackside status`: what was read, how fresh it is, what was refused, and which checks warn."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.cli.options import add_verb

if TYPE_CHECKING:
    import argparse

    from app.cli.options import Subparsers


EPILOG = """\
rows now: what the warehouse holds, however often it was loaded. The last load is everything that one ingest read: its
rows were new, known (loaded before, perhaps with other values), skipped by design (job steps), or rejected.

--format json prints one object; times are UTC, unknown values are null:
  warehouse, data_version, seen_at
  sources   cluster, source, rows (by table, now), loads, covers_from, covers_until, age_s, and last_load: loaded_at,
            inputs, read, new, known, skipped, rejected, warnings
  warnings  cluster, source, kind, message        differences from earlier loads
  gaps      cluster, source, started_at, ended_at, gap_s    time that no load covers
  removals  cluster, table_name, before, rows, removed_at   what trackside retention removed
  ledgers   cluster, since, until, computed_at, loads_since
  rejects   cluster, source, reason, n, first_seen          rejected rows
  checks    name, severity, description, n        data checks with findings"""


def add_parser(subparsers: Subparsers) -> None:
    """Add the verb and its options."""
    parser = add_verb(
        subparsers,
        "status",
        "show what the warehouse holds, the last load of each source, its age, rejected rows and warnings",
        epilog=EPILOG,
        manual="sources/slurm#is-the-data-complete",
    )
    parser.add_argument("--format", choices=("table", "json"), default="table", help="default: table")


def run(options: argparse.Namespace) -> int:
    """Show what was read and what was refused."""
    from app import clock, console
    from app.cli import status
    from app.cli.run_context import warehouse_root
    from queries.warehouse import open_reader

    with open_reader(warehouse_root(options)) as reader:
        if options.format == "json":
            console.document(status.document(reader, now=clock.now()))
        else:
            status.status(reader, now=clock.now())
    return 0
