"""`trackside reports`: the reports that were written, and what differs between two of them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from app.cli import deliveries
from app.cli import options as shared

if TYPE_CHECKING:
    import argparse

    from app.cli.options import Subparsers

MANUAL = "how-to/reports"

EPILOG = """\
`trackside report` notes each report that it writes in reports.jsonl of the warehouse directory. A file that was moved,
changed or removed since is shown as such: its bytes are compared with their digest."""


def add_parser(subparsers: Subparsers) -> None:
    """Add the verb and its actions."""
    parser = shared.add_verb(
        subparsers,
        "reports",
        "reports that were written: list them, compare two, run the schedule, deliver again",
        epilog=EPILOG,
        manual=MANUAL,
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION", title="actions", required=True)
    _add_list(actions)
    deliveries.add_actions(partial(_add_action, actions))


def _add_action(
    actions: Subparsers, name: str, help_: str, *, warehouse: bool = True, epilog: str = ""
) -> argparse.ArgumentParser:
    common = shared.common_options(warehouse=warehouse, config=warehouse)
    description = help_[0].upper() + help_[1:] + "."
    return shared.add_parser(actions, name, help_, description=description, common=common, epilog=epilog, manual=MANUAL)


def _add_list(actions: Subparsers) -> None:
    parser = _add_action(actions, "list", "list the reports that were written, the newest first", epilog=EPILOG)
    parser.add_argument("--cluster", metavar="NAME", help="only of this cluster")
    parser.add_argument("--period", metavar="PERIOD", help="only of this period, as it was requested")
    shared.add_format(parser)
    shared.add_table(parser)


def run(options: argparse.Namespace) -> int:
    """Do one of the actions."""
    actions = {
        "list": _list,
        "run": deliveries.run,
        "deliveries": deliveries.deliveries,
        "resend": deliveries.resend,
    }
    return actions[options.action](options)


def _list(options: argparse.Namespace) -> int:
    from app.cli.rows import RowFormat, row_options
    from app.cli.run_context import warehouse_root
    from app.reports.listing import listed

    rows = listed(warehouse_root(options), cluster=options.cluster, period=options.period)
    RowFormat.of(options).put(rows, row_options(options), title="reports written")
    return 0
