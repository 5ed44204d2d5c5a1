"""`trackside dashboards`: write the Grafana boards and what loads them, check boards, or bring them to a Grafana."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.cli.options import add_verb, path_of

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

    from app.cli.options import Subparsers
    from dashboards.delivery.push import BoardChange
    from dashboards.grafana import Json


HOW_TO_LOAD = """\
To load them, one of:
  over the API   GRAFANA_TOKEN=<of a service account> trackside dashboards push --grafana <its address>
  by hand        Grafana: Dashboards > New > Import, and choose {boards}/fleet.json
  provisioning   cp -r {dir}/provisioning/dashboards {dir}/provisioning/datasources /etc/grafana/provisioning/
                 and start Grafana with TRACKSIDE_BOARDS={boards} TRACKSIDE_PROMETHEUS_URL=<your Prometheus>
  Kubernetes     kubectl apply -n <namespace of Grafana> -f {dir}/kubernetes/
SQL boards (optional, with the DuckDB data source): {dir}/sql-boards, {dir}/provisioning/duckdb; trackside docs grafana
Prometheus scrapes `trackside serve`: {dir}/provisioning/prometheus.yaml
Its rules (rule_files): {dir}/rules/recording.yaml {dir}/rules/alerts.yaml; each alert: trackside docs alerts"""


HOW_TO_READ = """\
Grafana's SQL boards read {target}/current: it must be at the same path for Grafana.
Its data source: provisioning/duckdb of `trackside dashboards build`, with TRACKSIDE_PARQUET={target},
or by hand motherduck-duckdb-datasource with an empty path and {target}/{views} as its Init SQL"""

DONE = {
    "new": "made",
    "changed": "replaced",
    "unchanged": "unchanged",
    "edited": "left: edited in Grafana (--replace-edits replaces it)",
    "provisioned": "left: Grafana reads it from files, and would undo a change",
}
"""Message about a board, by kind of change."""

WOULD = {"new": "would be made", "changed": "would be replaced", "edited": "would be left: edited in Grafana"}
"""Message in a dry run, where it differs."""

NO_GRAFANA = """\
where is Grafana? Give --grafana URL, or set GRAFANA_URL or grafana.url in the configuration.
The token of a service account with the role Editor comes from the environment: GRAFANA_TOKEN"""


def add_parser(subparsers: Subparsers) -> None:
    """Add the verb and its options."""
    parser = add_verb(
        subparsers,
        "dashboards",
        "Grafana boards: write them, check them, push them, or publish the tables of the SQL boards",
        manual="how-to/grafana",
    )
    parser.add_argument(
        "action",
        choices=("build", "check", "push", "publish"),
        help="build: write the JSON; check: validate the JSON; push: upload the boards to Grafana by its HTTP API; "
        "publish: write the tables of the SQL boards as Parquet",
    )
    parser.add_argument(
        "--dir",
        type=path_of,
        metavar="D",
        help="folder of the boards (default: ./grafana for build, the included boards for check and push), or of the "
        "tables (default for publish: the setting grafana.parquet)",
    )
    parser.add_argument(
        "--cluster",
        default="",
        metavar="NAME",
        help="build: cluster label of the recorded series, for a Prometheus whose series do not have one",
    )
    parser.add_argument(
        "--grafana", metavar="URL", help="push: address of Grafana (default: $GRAFANA_URL, or the setting)"
    )
    parser.add_argument("--folder", metavar="UID", help="push: folder for boards that are new (default: trackside)")
    parser.add_argument(
        "--sql", action="store_true", help="push: the SQL boards, too; they need the DuckDB data source"
    )
    parser.add_argument("--dry-run", action="store_true", help="push: print what would change, and change nothing")
    parser.add_argument("--diff", action="store_true", help="push: print the differences too")
    parser.add_argument(
        "--replace-edits", action="store_true", help="push: replace boards that a person edited in Grafana, too"
    )


def run(options: argparse.Namespace) -> int:
    """Build, check, push or publish.

    Raises:
        UsageError: a board has mistakes; they are printed first.
        BoardError: a folder, file or Grafana cannot be used.
        ServerDownError: Grafana does not answer.
    """
    if options.action == "check":
        return _check(options.dir, quiet=options.quiet)
    if options.action == "publish":
        return _publish(options)
    return _push(options) if options.action == "push" else _build(options)


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


def _publish(options: argparse.Namespace) -> int:
    from app import console
    from app.cli.run_context import settings_and_root
    from app.errors import UsageError
    from queries.published import VIEWS, publish
    from queries.warehouse import open_reader

    settings, root = settings_and_root(options)
    target = options.dir or settings.grafana.parquet
    if target is None:
        raise UsageError("where to? Give --dir D, or set grafana.parquet in the configuration")
    with open_reader(root) as reader:
        version = publish(reader, target)
    if not options.quiet:
        for path in sorted(version.iterdir()):
            console.echo(str(path))
        console.echo(HOW_TO_READ.format(target=target.absolute(), views=VIEWS), error=True)
    return 0


def _push(options: argparse.Namespace) -> int:
    import os

    from app.config import settings as config
    from app.errors import UsageError
    from dashboards.delivery import push
    from dashboards.delivery.server import Grafana

    url = options.grafana or os.environ.get("GRAFANA_URL", "") or config.load(options.config).grafana.url
    token = os.environ.get("GRAFANA_TOKEN", "").strip()
    if not url or not token:
        raise UsageError(NO_GRAFANA if not url else "the environment variable GRAFANA_TOKEN holds no token")
    grafana, boards = Grafana(url, token), _boards_of(options)
    left = 0
    for change in push.changes(grafana, boards, folder=options.folder or push.FOLDER):
        saved = not options.dry_run and push.push(grafana, change, replace_edits=options.replace_edits)
        left += change.kind == "provisioned" or (change.kind == "edited" and not options.replace_edits)
        _say(change, options, saved=saved)
    return 2 if left else 0


def _boards_of(options: argparse.Namespace) -> list[Json]:
    """The boards of the folder, checked; without one the included ones with the thresholds of the configured claims."""
    from app.claims.file import read_claims
    from app.claims.targets import targets_of
    from app.config import settings as config
    from dashboards.build import boards, sql_boards
    from dashboards.check import boards_in

    if options.dir is not None:
        _check(options.dir, quiet=True)
        return boards_in(options.dir)
    settings = config.load(options.config)
    targets = targets_of(read_claims(settings.claims), settings.rules.flop_convention)
    makers = {**boards(), **(sql_boards() if options.sql else {})}
    return [make(targets) for make in makers.values()]


def _say(change: BoardChange, options: argparse.Namespace, *, saved: bool) -> None:
    """Print one line about a board, and its differences if they were requested."""
    from app import console

    if saved and change.kind == "edited":
        done = "replaced; the edits are in its version history"
    elif options.dry_run and options.replace_edits and change.kind == "edited":
        done = "would be replaced, edits included"
    else:
        done = (WOULD if options.dry_run else {}).get(change.kind, DONE[change.kind])
    if not (options.quiet and change.kind == "unchanged"):
        console.echo(f"{change.board['title']} ({change.uid}): {done}")
    if options.diff:
        for line in change.diff:
            console.echo(f"  {line}")
