"""`trackside job [ID]`: another name of `trackside run`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.cli.verbs.answers import run as run_verb

if TYPE_CHECKING:
    import argparse

    from app.cli.options import Subparsers


def add_parser(subparsers: Subparsers) -> None:
    """Add the verb and its options."""
    run_verb.add_options(subparsers, "job")


def run(options: argparse.Namespace) -> int:
    """Print the page about a run."""
    return run_verb.run(options)
