"""`trackside report`: documents about a period, made of the numbers that `show` and `verify` give."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.cli import options as shared
from app.reports.forms import FORMS

if TYPE_CHECKING:
    import argparse

    from app.cli.options import Subparsers


MANUAL = "how-to/reports"


def add_parser(subparsers: Subparsers) -> None:
    """Add the verb and its reports."""
    parser = shared.add_verb(
        subparsers,
        "report",
        "write a report for a period: objectives, measured values and their uncertainty",
        manual=MANUAL,
    )
    reports = parser.add_subparsers(dest="what", metavar="REPORT", title="reports", required=True)
    _add_sla(reports)
    _add_schema(reports)


def _add(
    reports: Subparsers, name: str, help_: str, *, warehouse: bool = True, epilog: str = ""
) -> argparse.ArgumentParser:
    common = shared.common_options(warehouse=warehouse, config=warehouse)
    description = help_[0].upper() + help_[1:] + "."
    return shared.add_parser(reports, name, help_, description=description, common=common, epilog=epilog, manual=MANUAL)


def _add_sla(reports: Subparsers) -> None:
    parser = _add(reports, "sla", "what was promised, and what was measured")
    parser.add_argument(
        "--period",
        required=True,
        metavar="PERIOD",
        help="2026-10 (a month), 2026-Q3, 2026-W40, 2026-10-05, or FROM..UNTIL (UTC, or the contract's zone)",
    )
    _add_cluster(parser)
    shared.add_claims(parser)
    parser.add_argument(
        "--earlier",
        type=shared.path_of,
        metavar="FILE",
        help="an earlier period's report in JSON: what the data give otherwise now is listed as corrections to it",
    )
    parser.add_argument("--format", choices=FORMS, default=None, help="default: html, or what FILE ends in")
    parser.add_argument(
        "--output", "-o", type=shared.path_of, metavar="FILE", help="write there (default: sla-CLUSTER-PERIOD.html)"
    )


def _add_cluster(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--cluster", metavar="NAME", help="only this cluster (required if there are several)")


def _add_schema(reports: Subparsers) -> None:
    parser = _add(reports, "schema", "the JSON schema of the report's JSON form (draft 2020-12)", warehouse=False)
    parser.add_argument("--output", "-o", type=shared.path_of, metavar="FILE", help="write there (default: print it)")


def run(options: argparse.Namespace) -> int:
    """Write a report, or what belongs to one."""
    return {"sla": _sla, "schema": _schema}[options.what](options)


def _sla(options: argparse.Namespace) -> int:
    """Write the SLA report of a period of one cluster.

    Raises:
        UsageError: no such cluster, no such period, nothing known of it, or the file cannot be written.
    """
    from pathlib import Path

    from app import clock, console
    from app.claims.file import read_contract
    from app.cli.run_context import settings_and_root
    from app.clusters import clusters, select_cluster
    from app.reports import records
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
    kept = records.keep(root, records.of_document(document, target, form, clock.now()))
    if not options.quiet:
        summary = ", ".join(f"{count} {verdict}" for verdict, count in document["summary"].items() if count)
        console.echo(f"{target}: {summary}; sha256 {document['sha256'][:16]}", error=True)
        if kept is not None:
            console.echo(f"not noted for `trackside reports list`: {kept}", error=True)
    return 0


def _schema(options: argparse.Namespace) -> int:
    from app import console
    from app.json_text import as_json
    from app.output_file import write_file
    from app.reports.sla.model import schema

    text = as_json(schema(), indent=2)
    if options.output is None:
        console.echo(text)
    else:
        write_file(options.output, (text + "\n").encode())
    return 0
