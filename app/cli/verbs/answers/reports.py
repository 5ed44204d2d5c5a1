"""`trackside reports`: the reports that were written, and what differs between two of them."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING

from app.cli import deliveries
from app.cli import options as shared

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

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
        "reports already written: list them, compare two, run the schedule, deliver again",
        epilog=EPILOG,
        manual=MANUAL,
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION", title="actions", required=True)
    _add_list(actions)
    _add_diff(actions)
    deliveries.add_actions(partial(_add_action, actions))


def _add_action(actions: Subparsers, name: str, help_: str, *, epilog: str = "") -> argparse.ArgumentParser:
    return shared.add_verb(actions, name, help_, epilog=epilog, manual=MANUAL)


def _add_list(actions: Subparsers) -> None:
    parser = _add_action(actions, "list", "list the reports that were written, the newest first", epilog=EPILOG)
    parser.add_argument("--cluster", metavar="NAME", help="only of this cluster")
    parser.add_argument(
        "--period", metavar="PERIOD", help="only of this period, as it was written in the request: 2026-10"
    )
    shared.add_format(parser)
    shared.add_table(parser)


DIFF_EPILOG = """\
A and B are files that `trackside report sla --format json` wrote, or the beginnings of digests that `trackside reports
list` shows. Every number and word is compared: section, part (an objective, a category, an incident by run and
attempt), field, the value in each report, and the difference of two numbers. The exit status is 0, also where they
differ.

examples:
  trackside reports diff october.json october-again.json
  trackside reports diff 3f9a12 c07b55 --section objectives --section incidents
  trackside reports diff october.json november.json --format csv"""


def _add_diff(actions: Subparsers) -> None:
    parser = _add_action(actions, "diff", "compare two SLA reports, number by number", epilog=DIFF_EPILOG)
    parser.add_argument("was", metavar="A", help="a report: a JSON file, or the beginning of its digest")
    parser.add_argument("now", metavar="B", help="the report that is compared with it")
    parser.add_argument("--section", action="append", metavar="NAME", help="only this section; may be repeated")
    shared.add_format(parser)
    shared.add_table(parser)


def run(options: argparse.Namespace) -> int:
    """Do one of the actions."""
    actions = {
        "list": _list,
        "diff": _diff,
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


def _diff(options: argparse.Namespace) -> int:
    from app import console
    from app.cli.rows import RowFormat, row_options
    from app.errors import UsageError
    from app.reports.differences import differences, reasons
    from app.reports.sla.document import read_report

    was, now = (read_report(_file_of(each, options)) for each in (options.was, options.now))
    found = differences(was, now)
    rest = reasons(found)
    if options.section:
        if unknown := sorted(set(options.section) - was.keys()):
            raise UsageError(f"--section {unknown[0]}: a report has {', '.join(sorted(was.keys() - {'sha256'}))}")
        found = found.filter(found["section"].is_in(options.section))
    sections = found["section"].unique(maintain_order=True).to_list()
    summary = f"{found.height:,} differences in {', '.join(sections)}." if sections else "The reports are the same."
    if rest:
        summary += f" The inputs of the numbers differ in: {', '.join(rest)}."
    console.echo(summary, error=True)
    RowFormat.of(options).put(found, row_options(options), title="differences between two reports")
    return 0


def _file_of(given: str, options: argparse.Namespace) -> Path:
    """A file; or that of the newest report whose digest begins so."""
    from pathlib import Path

    from app.cli.run_context import warehouse_root
    from app.errors import UsageError
    from app.reports.listing import listed

    if Path(given).exists() or not _DIGEST.fullmatch(given):
        return Path(given)
    rows = listed(warehouse_root(options))
    found = rows.filter(rows["sha256"].str.starts_with(given), rows["form"] == "json")
    if found.is_empty():
        raise UsageError(f"{given} is no file, and no report in JSON has such a digest: trackside reports list")
    if found["sha256"].n_unique() > 1:
        raise UsageError(f"{given}: the digests of {found['sha256'].n_unique()} reports begin so; give more of it")
    return Path(found["path"][0])


_DIGEST = re.compile("[0-9a-f]{4,64}")
