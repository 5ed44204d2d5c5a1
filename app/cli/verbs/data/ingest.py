"""`trackside ingest SOURCE`: read a source into the warehouse; one file in `app.cli.sources`, or a folder of files."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from app.cli import source_files, sources
from app.cli.options import add_verb, modules_of
from ingest.registry import FOLDERS

if TYPE_CHECKING:
    import argparse

    from app.cli.options import Subparsers


def add_parser(subparsers: Subparsers) -> None:
    """Add the verb, and the parser of each source."""
    parser = add_verb(
        subparsers,
        "ingest",
        "load a source into the warehouse; loading twice equals loading once",
        writes=True,
        manual="tutorial",
    )
    named = parser.add_subparsers(dest="source", metavar="SOURCE", title="sources", required=True)
    named.elsewhere = _load_a_file  # type: ignore[attr-defined]  # `Parser` reads it
    own = modules_of(sources)
    for folder in FOLDERS:
        if folder.name in own:
            import_module(own[folder.name]).add_parser(named)
        else:
            source_files.add_parser(named, folder)


def _load_a_file(name: str) -> str:
    """The end of a refusal of a file in place of a source; of any other word nothing."""
    from app.cli.file_kinds import command_for

    command = command_for(name)
    return "" if command is None else f"; that file is loaded by: {command}"


def run(options: argparse.Namespace) -> int:
    """Read one source."""
    own = modules_of(sources)
    if options.source in own:
        status: int = import_module(own[options.source]).run(options)
        return status
    return source_files.run(options, next(folder for folder in FOLDERS if folder.name == options.source))
