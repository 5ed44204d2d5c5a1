"""`trackside docs`: the manual in the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.cli.options import add_verb

if TYPE_CHECKING:
    import argparse

    from app.cli.options import Subparsers


def add_parser(subparsers: Subparsers) -> None:
    """Add the verb and its options."""
    parser = add_verb(
        subparsers, "docs", "print a page of the manual, or the list of pages", warehouse=False, config=False
    )
    parser.add_argument(
        "topic",
        nargs="?",
        metavar="TOPIC",
        help="a page, or PAGE#SECTION; without it, the list of pages. The last part of a name is enough: claims",
    )


def run(options: argparse.Namespace) -> int:
    """Print a page of the manual, a section of it, or the list of pages."""
    from app.cli.help import docs

    docs.show(options.topic)
    return 0
