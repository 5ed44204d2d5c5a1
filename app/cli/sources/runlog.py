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


def add_parser(subparsers: Subparsers) -> None:
    """Add the source and its options."""
    parser = source_files.add_parser(subparsers, FOLDER)
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a fact that a log of another framework does not record: n_gpus=512, gpu_model=H100, dtype=bf16; or the "
        "name of a series of W&B or TensorBoard: loss_key=nll",
    )
    parser.add_argument(
        "--model",
        type=path_of,
        metavar="FILE",
        help="the model's own file with its sizes: config.json (Hugging Face) or params.json",
    )


def run(options: argparse.Namespace) -> int:
    """Load the files."""
    from ingest.runlog import facts
    from ingest.runlog.store import ingest_files

    stated = {**(facts.of_model(options.model) if options.model else {}), **facts.stated(options.set)}
    return source_files.load(options, FOLDER, partial(ingest_files, facts=stated))
