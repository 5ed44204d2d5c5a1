"""`trackside dashboards`: write the Grafana boards with what loads them, or check boards."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.cli.options import add_verb, path_of

if TYPE_CHECKING:
    import argparse

    from app.cli.options import Subparsers


HOW_TO_LOAD = """\
To load them, one of:
  by hand        Grafana: Dashboards > New > Import, and choose {boards}/fleet.json
  provisioning   cp -r {dir}/provisioning/dashboards {dir}/provisioning/datasources /etc/grafana/provisioning/
                 and start Grafana with TRACKSIDE_BOARDS={boards} TRACKSIDE_PROMETHEUS_URL=<your Prometheus>
Prometheus scrapes `trackside serve`: {dir}/provisioning/prometheus.yaml"""


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


def run(options: argparse.Namespace) -> int:
    """Build or check.

    Raises:
        UsageError: a folder or file cannot be used, or a board has mistakes; those are listed first.
    """
    from pathlib import Path

    from app import boards, console
    from app.claims.file import read_claims
    from app.config import settings as config

    if options.action == "check":
        return boards.check(options.dir, quiet=options.quiet)
    target = options.dir or Path("grafana")
    settings = config.load(options.config)
    claims = read_claims(settings.claims)
    written = boards.build(target, boards.targets_of(claims, settings.rules.flop_convention))
    if not options.quiet:
        for path in written:
            console.say(str(path))
        place = target.resolve()
        console.say(HOW_TO_LOAD.format(dir=place, boards=place / "boards"), error=True)
    return 0
