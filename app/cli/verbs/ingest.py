"""`trackside ingest SOURCE`: read a source into the warehouse; each source is one file in `app.cli.sources`."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from app.cli import sources
from app.cli.files import modules_of
from app.cli.options import add_verb

if TYPE_CHECKING:
    import argparse

    from app.cli.options import Subparsers


def add_parser(subparsers: Subparsers) -> None:
    """Add the verb, and the parser of each source."""
    parser = add_verb(
        subparsers, "ingest", "read a source into the warehouse; reading twice equals reading once", manual="tutorial"
    )
    named = parser.add_subparsers(dest="source", metavar="SOURCE", title="sources", required=True)
    for name in modules_of(sources):
        source = import_module(f"{sources.__name__}.{name}")
        source.add_parser(named)


def run(options: argparse.Namespace) -> int:
    """Read one source."""
    source = import_module(f"{sources.__name__}.{options.source}")
    status: int = source.run(options)
    return status
