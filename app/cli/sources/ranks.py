"""`trackside ingest ranks`: rank times, traces, and logs of frameworks with what they do not record."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from app.cli import source_files
from ingest.ranks.sources import FOLDER

if TYPE_CHECKING:
    import argparse

    from app.cli.options import Subparsers


def add_parser(subparsers: Subparsers) -> None:
    """Add the source and its options."""
    parser = source_files.add_parser(subparsers, FOLDER)
    parser.add_argument(
        "--run", dest="run_id", metavar="RUN", help="run of a log or trace; without it, the file's name"
    )
    parser.add_argument("--job", metavar="ID", help="job of a log or trace that names none")
    parser.add_argument("--timezone", metavar="ZONE", help="time zone of times in logs without one: Europe/Berlin")
    parser.add_argument(
        "--begin", metavar="TIME", help="begin of a trace whose times count from 0: 2026-10-01T08:00:00Z"
    )


def run(options: argparse.Namespace) -> int:
    """Load the files."""
    from app import clock
    from app.cli.run_context import settings_and_root
    from app.times import moment
    from ingest.ranks.stated import Stated
    from ingest.ranks.store import ingest_files

    settings, _ = settings_and_root(options)
    begin = moment(options.begin, end=clock.now()) if options.begin else None
    stated = Stated(options.run_id, options.job, options.timezone or settings.timezone, begin)
    return source_files.load(options, FOLDER, partial(ingest_files, stated=stated))
