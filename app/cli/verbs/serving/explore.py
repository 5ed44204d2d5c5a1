"""`trackside explore`: serve the explorer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.cli.options import add_address, add_verb

if TYPE_CHECKING:
    import argparse

    from app.cli.options import Subparsers


def add_parser(subparsers: Subparsers) -> None:
    """Add the verb and its options."""
    add_address(
        add_verb(subparsers, "explore", "serve the explorer on this machine", manual="how-to/questions#in-a-browser")
    )


def run(options: argparse.Namespace) -> int:
    """Serve what the warehouse holds."""
    from app.cli.run_context import settings_and_root
    from app.service.server import address, serve_explorer

    settings, root = settings_and_root(options)
    host, port = address(settings, host=options.host, port=options.port, without_login=options.without_login)
    return serve_explorer(root, settings, host=host, port=port)
