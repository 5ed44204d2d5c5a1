"""`trackside doctor`: check the installation, the warehouse and each source."""

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
        "doctor",
        "check the installation, the warehouse and each source, and list the numbers that they allow",
    )
    parser.add_argument(
        "--repair",
        action="store_true",
        help="first move damaged samples aside, and return to the newest published copy where the database is damaged "
        "or older; nothing is deleted, and the data to load again are listed",
    )


def run(options: argparse.Namespace) -> int:
    """Check installation, warehouse and sources; with --repair mend the warehouse first."""
    from app import clock
    from app.cli import doctor
    from app.cli.run_context import settings_and_root

    settings, root = settings_and_root(options)
    if options.repair:
        from app.service import integrity

        integrity.print_report(integrity.repair(root, group=settings.warehouse_group, now=clock.now()))
    return doctor.examine(root, settings, now=clock.now())
