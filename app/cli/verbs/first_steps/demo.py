"""`trackside demo`: simulate a cluster, read it, and show everything on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.cli.options import add_address, add_verb, path_of

if TYPE_CHECKING:
    import argparse

    from app.cli.options import Subparsers


def add_parser(subparsers: Subparsers) -> None:
    """Add the verb and its options."""
    parser = add_verb(
        subparsers,
        "demo",
        "simulate a cluster, ingest its files like real ones, and show every result",
        warehouse=False,
        manual="tutorial",
    )
    parser.add_argument("--no-serve", action="store_true", help="stop after the numbers, the report and the boards")
    parser.add_argument("--dir", type=path_of, metavar="D", help="folder of the demo (default: ./trackside-demo)")
    add_address(parser)
    parser.set_defaults(kept="the steps that are done are kept")


def run(options: argparse.Namespace) -> int:
    """Make the demo in a folder, print its numbers, and serve the explorer unless --no-serve is given."""
    from app.config import settings as config
    from app.demo import demo
    from app.service.server import address

    settings = config.Config() if options.config is None else config.load(options.config)
    folder = options.dir or demo.DEFAULT_FOLDER
    if options.no_serve:
        demo.show(folder, settings, quiet=options.quiet)
        return 0
    # Refused before the minutes that the rest takes.
    listen = address(settings, host=options.host, port=options.port, without_login=options.without_login)
    demo.show(folder, settings, quiet=options.quiet)
    demo.serve(folder, settings, listen)
    return 0
