"""`trackside dashboards`: write the Grafana boards and their provisioning files, or check boards."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.cli.options import add_verb, path_of

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

    from app.cli.options import Subparsers


HOW_TO_LOAD = """\
To load them, one of:
  by hand        Grafana: Dashboards > New > Import, and choose {boards}/fleet.json
  provisioning   cp -r {dir}/provisioning/dashboards {dir}/provisioning/datasources /etc/grafana/provisioning/
                 and start Grafana with TRACKSIDE_BOARDS={boards} TRACKSIDE_PROMETHEUS_URL=<your Prometheus>
Prometheus scrapes `trackside serve`: {dir}/provisioning/prometheus.yaml
Its rules (rule_files): {dir}/rules/recording.yaml {dir}/rules/alerts.yaml; each alert: trackside docs alerts"""


def add_parser(subparsers: Subparsers) -> None:
    """Add the verb and its options."""
    parser = add_verb(
        subparsers, "dashboards", "Grafana boards: write them, or check them", warehouse=False, manual="how-to/grafana"
    )
    parser.add_argument("action", choices=("build", "check"), help="build: write the JSON; check: validate the JSON")
    parser.add_argument(
        "--dir",
        type=path_of,
        metavar="D",
        help="folder of the boards (default: ./grafana for build, the included boards for check)",
    )
    parser.add_argument(
        "--cluster",
        default="",
        metavar="NAME",
        help="build: the label that recorded series get, for a Prometheus of one cluster that does not name it",
    )


def run(options: argparse.Namespace) -> int:
    """Build or check.

    Raises:
        UsageError: a board has mistakes; they are printed first.
        BoardError: a folder or file cannot be used.
    """
    return _check(options.dir, quiet=options.quiet) if options.action == "check" else _build(options)


def _build(options: argparse.Namespace) -> int:
    from pathlib import Path

    from app import console
    from app.claims.file import read_claims
    from app.claims.targets import targets_of
    from app.config import settings as config
    from dashboards.build import build
    from ingest.prometheus.target import mapping_of

    target = options.dir or Path("grafana")
    settings = config.load(options.config)
    targets = targets_of(read_claims(settings.claims), settings.rules.flop_convention)
    written = build(target, targets, mapping=mapping_of(settings), cluster=options.cluster)
    if not options.quiet:
        for path in written:
            console.echo(str(path))
        folder = target.resolve()
        console.echo(HOW_TO_LOAD.format(dir=folder, boards=folder / "boards"), error=True)
    return 0


def _check(target: Path | None, *, quiet: bool) -> int:
    from app import console
    from app.errors import UsageError
    from dashboards import lint
    from dashboards.check import check

    checked = check(target)
    name = "the included boards" if target is None else str(target)
    for finding in checked.findings:
        console.echo(str(finding))
    if n := len(checked.findings):
        raise UsageError(f"{n} {'mistake' if n == 1 else 'mistakes'} in {name}, listed above")
    if not quiet:
        boards = f"{checked.boards} {'board' if checked.boards == 1 else 'boards'}"
        console.echo(f"{name}: {boards}, {checked.panels} panels, no mistakes")
        for each in lint.left_out():
            console.echo(f"not checked here: {each}")
    return 0
