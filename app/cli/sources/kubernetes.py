"""`trackside ingest kubernetes`: objects of Kubernetes, from the API server or from files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.cli import source_files
from app.cli.options import path_of
from ingest.kubernetes.sources import FOLDER

if TYPE_CHECKING:
    import argparse

    from app.cli.options import Subparsers
    from ingest.kubernetes.settings import Kubernetes


def add_parser(subparsers: Subparsers) -> None:
    """Add the source and its options."""
    parser = source_files.add_parser(subparsers, FOLDER, required=False)
    parser.add_argument(
        "--kubeconfig", type=path_of, metavar="FILE", help="live: read the API server of a kubeconfig (list and watch)"
    )
    parser.add_argument("--context", metavar="NAME", help="context of the kubeconfig; default: its current one")
    parser.add_argument("--in-cluster", action="store_true", help="live: with the service account of this pod")
    parser.add_argument("--rbac", action="store_true", help="print the role that reading live needs, and exit")


def run(options: argparse.Namespace) -> int:
    """Load files, or read the API server."""
    if options.rbac:
        from app.console import echo
        from ingest.kubernetes.live.rbac import rbac_manifest

        echo(rbac_manifest().rstrip())
        return 0
    if options.files:
        _refuse_mixed(options)
        return source_files.run(options, FOLDER)
    return _live(options)


def _live(options: argparse.Namespace) -> int:
    """Read the API server."""
    from app import clock
    from app.cli.ingest_report import finish
    from app.cli.run_context import progress, settings_and_root
    from ingest.kubernetes.live.ingest import ingest_live
    from queries.warehouse import open_writer

    settings, root = settings_and_root(options)
    now = clock.now()
    server = _server(options, settings.kubernetes)
    with (
        progress(quiet=options.quiet) as report,
        open_writer(root, verb="trackside ingest kubernetes", now=now, group=settings.warehouse_group) as writer,
    ):
        cluster = options.cluster or settings.cluster
        reports = ingest_live(writer, server, cluster=cluster, now=now, progress=report)
    return finish(reports, files=False, quiet=options.quiet)


def _server(options: argparse.Namespace, settings: Kubernetes) -> Kubernetes:
    """Server of the request: that of the options, else that of the configuration."""
    named = {"kubeconfig": options.kubeconfig, "context": options.context, "in_cluster": options.in_cluster}
    given = {name: value for name, value in named.items() if value}
    if options.in_cluster:
        given["kubeconfig"] = None
    return settings.model_copy(update=given)


def _refuse_mixed(options: argparse.Namespace) -> None:
    """Refuse options for a live ingest with files."""
    from app.errors import UsageError

    if options.kubeconfig or options.context or options.in_cluster:
        raise UsageError("--kubeconfig, --context and --in-cluster read live; leave them out with files")
