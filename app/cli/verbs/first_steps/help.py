"""`trackside help`: the manual's answer about one topic."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.cli.options import add_verb

if TYPE_CHECKING:
    import argparse

    from app.cli.options import Subparsers


def add_parser(subparsers: Subparsers) -> None:
    """Add the verb and its options."""
    parser = add_verb(
        subparsers,
        "help",
        "explain a verb, a question, a metric, a term or an exit status",
        warehouse=False,
        config=False,
    )
    parser.add_argument(
        "topic",
        nargs="*",
        metavar="TOPIC",
        help="ingest slurm, ettr, goodput_allocated, lemon, 34, claims, ...; without it, the list of verbs",
    )


def run(options: argparse.Namespace) -> int:
    """Print what the manual has on a topic. `trackside help` alone is `trackside --help` (see `app.cli.main`)."""
    from app.cli.help import docs

    docs.explain(" ".join(options.topic))
    return 0
