"""`trackside report`: documents about a period, made of the numbers that `show` and `verify` give."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.cli import options as shared
from app.reports.forms import FORMS
from ingest.counted import counted

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from app.cli.options import Subparsers
    from app.reports.bundle.check import BundleCheck


MANUAL = "how-to/reports"

BUNDLE = """\
The bundle holds the rows that the verdicts are computed from, with pseudonyms in place of users, accounts, nodes,
names of jobs and partitions. Before it is written, the report is computed again from these rows: if a number differs,
or if a name is left in them, nothing is written.
An encrypted key is refused: sign the folder's MANIFEST.json with ssh-keygen -Y sign -n trackside-evidence."""

CHECK = """\
It needs no warehouse and no configuration. Files that were changed, that are missing or surplus are named; then the
ledger is computed anew from the inputs, and every verdict and number is compared.

exit status: 0 if all of it holds, 3 if a file, the signature or a number does not (errors use neither)"""


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
    _add_digest(reports)
    _add_schema(reports)
    _add_bundle(reports)
    _add_check(reports)


def _add(
    reports: Subparsers, name: str, help_: str, *, warehouse: bool = True, epilog: str = ""
) -> argparse.ArgumentParser:
    return shared.add_verb(reports, name, help_, warehouse=warehouse, config=warehouse, epilog=epilog, manual=MANUAL)


def _add_sla(reports: Subparsers) -> None:
    parser = _add(reports, "sla", "the SLA report: what was promised, and what was measured")
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
        help="report of an earlier period in JSON: numbers that differ by now are listed as corrections to it",
    )
    parser.add_argument("--format", choices=FORMS, default=None, help="default: html, or what FILE ends in")
    parser.add_argument(
        "--output", "-o", type=shared.path_of, metavar="FILE", help="write there (default: sla-CLUSTER-PERIOD.html)"
    )


def _add_digest(reports: Subparsers) -> None:
    parser = _add(
        reports, "digest", "a digest for a user or a run: GPU-hours held, GPU-hours lost and to what, what to change"
    )
    subject = parser.add_mutually_exclusive_group(required=True)
    subject.add_argument("--user", metavar="NAME", help="of this user's runs")
    subject.add_argument("--run", dest="of_run", metavar="ID", help="of this run (`trackside show runs` lists them)")
    parser.add_argument(
        "--period", required=True, metavar="PERIOD", help="2026-W41 (an ISO week), or as for `report sla`"
    )
    _add_cluster(parser)
    parser.add_argument("--format", choices=FORMS, default=None, help="default: html, or what FILE ends in")
    parser.add_argument(
        "--output", "-o", type=shared.path_of, metavar="FILE", help="write there (default: digest-user-NAME-...html)"
    )


def _add_cluster(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--cluster", metavar="NAME", help="only this cluster (required if there are several)")


def _add_schema(reports: Subparsers) -> None:
    parser = _add(reports, "schema", "print the JSON schema of the report's JSON form (draft 2020-12)", warehouse=False)
    parser.add_argument("--output", "-o", type=shared.path_of, metavar="FILE", help="write there (default: print it)")


def _add_bundle(reports: Subparsers) -> None:
    parser = _add(
        reports, "bundle", "a bundle of evidence for the other party: inputs without names, signed", epilog=BUNDLE
    )
    parser.add_argument("--period", required=True, metavar="PERIOD", help="2026-10 (a month), or as for `report sla`")
    _add_cluster(parser)
    shared.add_claims(parser)
    parser.add_argument(
        "--output",
        "-o",
        type=shared.path_of,
        metavar="PATH",
        help="a folder, or a file that ends in .tar.gz (default: evidence-CLUSTER-PERIOD.tar.gz)",
    )
    parser.add_argument(
        "--pseudonyms",
        type=shared.path_of,
        metavar="FILE",
        help="file with the secret and the real names, created if missing (default: PATH.names.json); "
        "keep it to yourself",
    )
    parser.add_argument(
        "--sign",
        type=shared.path_of,
        metavar="KEY",
        help="sign with this SSH key (ed25519); ssh-keygen verifies it, too",
    )


def _add_check(reports: Subparsers) -> None:
    parser = _add(
        reports,
        "check",
        "check the signature of a bundle, and compute its verdicts again",
        warehouse=False,
        epilog=CHECK,
    )
    parser.add_argument("bundle", type=shared.path_of, metavar="BUNDLE", help="a folder, or a .tar.gz")
    parser.add_argument(
        "--signer",
        type=shared.path_of,
        metavar="FILE",
        help="allowed signers, in the format of ssh-keygen: one of them must have signed",
    )
    shared.add_format(parser)
    shared.add_table(parser)


def run(options: argparse.Namespace) -> int:
    """Write a report, or what belongs to one."""
    return {"sla": _sla, "digest": _digest, "schema": _schema, "bundle": _bundle, "check": _check}[options.what](
        options
    )


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


def _digest(options: argparse.Namespace) -> int:
    """Write the digest of a user or a run.

    Raises:
        UsageError: no such user, run, cluster or period, nothing known of it, or the file cannot be written.
    """
    from pathlib import Path

    from app import console
    from app.cli.run_context import settings_and_root
    from app.clusters import clusters, select_cluster
    from app.output_file import write_file
    from app.reports.digest import document as digest
    from app.reports.digest.render import file_name, rendered
    from app.reports.digest.words import summary_of
    from app.reports.sla.document import sealed
    from app.reports.sla.write import form_of
    from app.times import parse_period
    from app.window import Window
    from queries.warehouse import open_reader

    settings, root = settings_and_root(options)
    period, form = parse_period(options.period), form_of(options.format, options.output)
    kind, name = ("user", options.user) if options.user is not None else ("run", options.of_run)
    with open_reader(root) as reader:
        window = Window(select_cluster("a digest", clusters(reader), options.cluster), *period)
        subject = digest.Subject(kind, name)
        document = sealed(digest.document(reader, window, options.period, subject, settings.cost))
    target = options.output or Path(file_name(document, form))
    write_file(target, rendered(document, form))
    if not options.quiet:
        console.echo(f"{target}: {summary_of(document)}; sha256 {document['sha256'][:16]}", error=True)
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


def _bundle(options: argparse.Namespace) -> int:
    """Write the evidence for the report of a period of one cluster."""
    from pathlib import Path

    from app import clock
    from app.claims.file import read_contract
    from app.cli.run_context import settings_and_root
    from app.clusters import clusters, select_cluster
    from app.reports import records
    from app.reports.bundle.write import write_bundle
    from app.reports.sla.write import file_name
    from app.times import parse_period
    from app.window import Window
    from queries.warehouse import open_reader

    settings, root = settings_and_root(options)
    claims = options.claims or settings.claims
    period = parse_period(options.period, read_contract(claims).time_zone)
    say = _say(quiet=options.quiet)
    with open_reader(root) as reader:
        window = Window(select_cluster("a bundle", clusters(reader), options.cluster), *period)
        usual = file_name(window.cluster, options.period, "tar.gz").replace("sla-", "evidence-", 1)
        target = options.output or Path(usual)
        made = write_bundle(
            reader,
            window,
            options.period,
            claims_path=claims,
            target=target,
            names_path=options.pseudonyms or target.with_name(f"{target.name}.names.json"),
            key_path=options.sign,
            progress=say,
        )
    records.keep(root, records.of_document(made.document, target, "bundle", clock.now(), "bundle"))
    signed = f"signed by {made.fingerprint}" if made.fingerprint else "not signed (--sign KEY)"
    held = f"{counted(made.files, 'file')}, {counted(made.rows, 'row')}"
    say(f"{target}: {held}, {signed}; every verdict was reproduced from it")
    if made.whole:
        say("the bundle holds all time of the cluster: inputs of the period alone do not reproduce the numbers")
    if made.unsure:
        say(f"names not searched for in the bundle, because the report uses them as words: {', '.join(made.unsure)}")
    return 0


def _say(*, quiet: bool) -> Callable[[str], None]:
    """A function that prints a line on standard error; it does nothing if `quiet`."""
    from app import console

    def say(text: str) -> None:
        if not quiet:
            console.echo(text, error=True)

    return say


def _check(options: argparse.Namespace) -> int:
    """Check a bundle; 3 if something in it does not hold."""
    from app import console
    from app.cli.rows import RowFormat, row_options
    from app.errors import REFUTED
    from app.reports.bundle.check import check

    say = _say(quiet=options.quiet)
    found = check(options.bundle, options.signer, say)
    for text in _findings(found):
        console.echo(text, error=True)
    if found.rows is not None:
        title = f"{found.cluster} {found.period}: the report and what its inputs give"
        RowFormat.of(options).put(found.rows, row_options(options), title=title)
    return 0 if found.holds else REFUTED


def _findings(found: BundleCheck) -> list[str]:
    """The findings of the check, a line each."""
    lines = [f"files: {each}" for each in found.altered] or ["files: all as the manifest lists them"]
    if found.unsigned:
        lines.append(f"signature: {found.unsigned}")
    elif found.signer is None:
        lines.append("signature: none; the author of the bundle is unknown")
    else:
        who = found.signer.principal or "the owner of the key was not checked (--signer FILE)"
        lines.append(f"signature: good, by {found.signer.fingerprint}: {who}")
    if found.altered or found.unsigned:
        return [*lines, "the verdicts were not recomputed"]
    lines += [f"number: {each}" for each in found.differences]
    return [*lines, f"evidence for the report with sha256 {found.report_sha256[:16]}"]
