"""`trackside serve`: keep the warehouse up to date, and serve explorer, `/metrics` and `/healthz`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.cli.options import add_address, add_verb

if TYPE_CHECKING:
    import argparse

    from app.cli.options import Subparsers


def add_parser(subparsers: Subparsers) -> None:
    """Add the verb and its options."""
    parser = add_verb(
        subparsers,
        "serve",
        "ingest and compute on a schedule, and serve the explorer, /metrics and /healthz",
        manual="how-to/serve-behind-a-proxy",
    )
    add_address(parser)
    parser.add_argument(
        "--every",
        type=float,
        metavar="MINUTES",
        help="time between two cycles of ingest and compute; 0: only serve (config: serve.every_minutes)",
    )


def run(options: argparse.Namespace) -> int:
    """Ingest and compute on a schedule; serve explorer, exporter and health."""
    from app.cli.run_context import settings_and_root
    from app.service import server

    settings, root = settings_and_root(options)
    return server.serve(
        root,
        settings,
        host=options.host,
        port=options.port,
        every_minutes=options.every,
        without_login=options.without_login,
    )
