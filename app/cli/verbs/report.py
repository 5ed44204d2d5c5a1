"""`trackside report`: documents about a period, made of the numbers that `show` and `verify` give."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.cli.options import add_claims, add_verb, path_of
from app.clusters import clusters, select_cluster
from app.reports.forms import FORMS

if TYPE_CHECKING:
    import argparse

    from app.cli.options import Subparsers


def add_parser(subparsers: Subparsers) -> None:
    """Add the verb and its options."""
    parser = add_verb(
        subparsers,
        "report",
        "write a report for a period: objectives, measured values and their uncertainty",
        manual="how-to/reports",
    )
    parser.add_argument(
        "what", choices=("sla",), metavar="REPORT", help="sla: what was promised, and what was measured"
    )
    parser.add_argument(
        "--period",
        required=True,
        metavar="PERIOD",
        help="2026-10 (a month), 2026-Q3, 2026-W40, 2026-10-05, or FROM..UNTIL (UTC, or the contract's zone)",
    )
    parser.add_argument("--cluster", metavar="NAME", help="only this cluster (required if there are several)")
    add_claims(parser)
    parser.add_argument(
        "--earlier",
        type=path_of,
        metavar="FILE",
        help="an earlier period's report in JSON: what the data give otherwise now is listed as corrections to it",
    )
    parser.add_argument("--format", choices=FORMS, default=None, help="default: html, or what FILE ends in")
    parser.add_argument(
        "--output", "-o", type=path_of, metavar="FILE", help="write there (default: sla-CLUSTER-PERIOD.html)"
    )


def run(options: argparse.Namespace) -> int:
    """Write the SLA report of a period of one cluster.

    Raises:
        UsageError: no such cluster, no such period, nothing known of it, or the file cannot be written.
    """
    from pathlib import Path

    from app import console
    from app.claims.file import read_contract
    from app.cli.run_context import settings_and_root
    from app.reports.sla.write import file_name, form_of, write_sla
    from app.times import parse_period
    from app.window import Window
    from queries.warehouse import open_reader

    settings, root = settings_and_root(options)
    claims = options.claims or settings.claims
    period = parse_period(options.period, read_contract(claims).time_zone)
    form = form_of(options.format, options.output)
    with open_reader(root) as reader:
        window = Window(select_cluster("a report", clusters(reader), options.cluster), *period)
        target = options.output or Path(file_name(window.cluster, options.period, form))
        document = write_sla(reader, window, options.period, claims, target, form, options.earlier)
    if not options.quiet:
        summary = ", ".join(f"{count} {verdict}" for verdict, count in document["summary"].items() if count)
        console.echo(f"{target}: {summary}; sha256 {document['sha256'][:16]}", error=True)
    return 0
