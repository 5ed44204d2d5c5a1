"""`trackside ingest runlog`: run logs, and logs of other frameworks with the facts that they do not record."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from app.cli import source_files
from app.cli.options import path_of
from ingest.runlog.sources import FOLDER

if TYPE_CHECKING:
    import argparse

    from app.cli.options import Subparsers
    from app.config.settings import Config
    from ingest.runlog.translation import LogRequest


def add_parser(subparsers: Subparsers) -> None:
    """Add the source and its options."""
    parser = source_files.add_parser(subparsers, FOLDER)
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a fact that a log does not record; may be repeated: n_gpus=512, gpu_model=H100, dtype=bf16; or the "
        "name of a series of W&B or TensorBoard: loss_key=nll",
    )
    parser.add_argument(
        "--model",
        type=path_of,
        metavar="FILE",
        help="the model's own file with its sizes: config.json (Hugging Face) or params.json",
    )
    parser.add_argument(
        "--timezone", metavar="ZONE", help="time zone of times without one in logs of other frameworks: Europe/Berlin"
    )
    parser.add_argument(
        "--begin",
        metavar="TIME",
        help="begin of a log whose lines have no times, or times without a date: 2026-10-01T08:00:00Z",
    )
    parser.add_argument(
        "--year",
        type=int,
        choices=range(2000, 2101),
        metavar="YEAR",
        help="year in which a log begins, if its times have none (Oct  2 13:23:36) and neither the log nor its job "
        "gives it",
    )


def run(options: argparse.Namespace) -> int:
    """Load the files."""
    from app.cli.run_context import settings_and_root
    from ingest.runlog.store import ingest_files

    settings, _ = settings_and_root(options)
    return source_files.load(options, FOLDER, partial(ingest_files, logs=_request(options, settings)))


def _request(options: argparse.Namespace, settings: Config) -> LogRequest:
    """Request for logs of other frameworks: facts that they do not record, from the options and the configuration."""
    from app import clock
    from app.config.log_formats import tried_formats
    from app.config.place import config_file
    from app.errors import UsageError
    from ingest.iso_time import iso
    from ingest.runlog import facts
    from ingest.runlog.formats.text.times import parse_begin
    from ingest.runlog.translation import LogRequest

    timezone = options.timezone or settings.timezone
    begin = None if options.begin is None else parse_begin(options.begin, timezone)
    if begin is not None and begin > clock.now():
        raise UsageError(f"--begin {options.begin} lies in the future; now it is {iso(clock.now())}")
    return LogRequest(
        facts={**(facts.of_model(options.model) if options.model else {}), **facts.stated(options.set)},
        timezone=timezone,
        begin=begin,
        year=options.year,
        formats=tried_formats(settings.runlog, config_file(options.config)),
    )
