"""`trackside ingest runlog`: read run logs of training loops."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.cli.options import add_source

if TYPE_CHECKING:
    import argparse

    from app.cli.options import Subparsers


EPILOG = """\
Run logs are JSON lines, written by the recorder (trackside recorder > trackside_log.py); gzip is accepted. A log that
still grows may be read again at any time: what is new is added. --cluster is for logs that name none themselves."""


def add_parser(subparsers: Subparsers) -> None:
    """Add the source and its options."""
    parser = add_source(
        subparsers,
        "runlog",
        "run logs of training loops: steps, checkpoints, events",
        description="Read run logs.",
        epilog=EPILOG,
        manual="sources/run-logs",
    )
    parser.add_argument(
        "files", nargs="+", metavar="FILE", help="run logs (JSON lines), .gz is fine; - is standard input"
    )
    parser.add_argument("--cluster", metavar="NAME", help="cluster of logs that do not name one")


def run(options: argparse.Namespace) -> int:
    """Read run logs."""
    from app import clock
    from app.cli.ingest_report import accounting_is_loaded, finish
    from app.cli.run_context import progress, settings_and_root
    from ingest.runlog import store
    from ingest.slurm.load_files import once_only
    from queries.warehouse import open_writer

    once_only(options.files)
    settings, root = settings_and_root(options)
    now = clock.now()
    cluster = options.cluster or settings.cluster
    with (
        progress(quiet=options.quiet) as report,
        open_writer(root, verb="trackside ingest runlog", now=now, group=settings.warehouse_group) as writer,
    ):
        reports = store.ingest_files(writer, options.files, cluster=cluster, now=now, progress=report)
        jobs_known = accounting_is_loaded(writer)
    return finish(reports, files=bool(options.files), quiet=options.quiet, jobs_known=jobs_known)
