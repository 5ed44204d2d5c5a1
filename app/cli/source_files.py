"""`trackside ingest SOURCE FILE...` for sources that come as files only: options and work follow from their folder."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from app.cli.options import add_source

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from app.cli.options import Subparsers
    from ingest.source import SourceFolder
    from ingest.store.report import LoadReport


def add_parser(subparsers: Subparsers, folder: SourceFolder, *, required: bool = True) -> argparse.ArgumentParser:
    """Add the source and its options; the parser, for more of them. `required`: files must be named."""
    parser = add_source(
        subparsers,
        folder.name,
        folder.title,
        description=f"Read {folder.title.partition(':')[0]}.",
        epilog=folder.epilog,
        manual=folder.manual,
    )
    parser.add_argument("files", nargs="+" if required else "*", metavar="FILE", help=folder.files)
    parser.add_argument("--cluster", metavar="NAME", help="cluster of files that do not name one")
    return parser


def run(options: argparse.Namespace, folder: SourceFolder) -> int:
    """Load the files."""
    return load(options, folder, import_module(folder.loader).ingest_files)


def load(options: argparse.Namespace, folder: SourceFolder, ingest_files: Callable[..., list[LoadReport]]) -> int:
    """Load the files with a function that takes the arguments of `ingest.runlog.store.ingest_files`."""
    from app import clock
    from app.cli.ingest_hints import zone_hint
    from app.cli.ingest_report import accounting_is_loaded_of, finish
    from app.cli.run_context import note, progress, settings_and_root
    from ingest.slurm.load_files import once_only
    from queries.warehouse import open_writer

    once_only(options.files)
    settings, root = settings_and_root(options)
    now = clock.now()
    cluster = options.cluster or settings.cluster
    with (
        progress(quiet=options.quiet) as report,
        open_writer(root, verb=f"trackside ingest {folder.name}", now=now, group=settings.warehouse_group) as writer,
    ):
        reports = ingest_files(writer, options.files, cluster=cluster, now=now, progress=report)
        jobs_known = accounting_is_loaded_of(writer, reports)
    hint = zone_hint(reports, options, folder.name) if "timezone" in options else None
    if hint is not None:
        note(hint, quiet=options.quiet)
    alone = folder.without_jobs
    return finish(
        reports, files=True, quiet=options.quiet, jobs_known=jobs_known, without_jobs=alone, source=folder.name
    )
