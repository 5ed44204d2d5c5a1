"""`trackside ingest prometheus`: read telemetry from a server or from files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.cli.options import add_period, add_source

if TYPE_CHECKING:
    import argparse

    from app.cli.options import Subparsers


EPILOG = """\
Without files, Trackside queries the server (--url, or [prometheus] url in the configuration) from where the last ingest
ended. Secrets come from environment variables, never from the command line. Files: OpenMetrics or Prometheus text with
timestamps, saved answers of the HTTP API (JSON), Parquet with the columns of a Trackside table (gpu_samples, gpu_hours,
node_samples, node_hours, cluster_samples, health_events), or Parquet with one reading per row. Reading twice equals
reading once.

  trackside ingest prometheus --url http://prometheus:9090 --cluster my-cluster
  trackside ingest prometheus --since 2026-10-01 --until 2026-11-01     fills in a month
  trackside ingest prometheus bundle.om.gz hours.parquet                from a cluster without a network"""


def add_parser(subparsers: Subparsers) -> None:
    """Add the source and its options."""
    parser = add_source(
        subparsers,
        "prometheus",
        "telemetry of GPUs, nodes, networks and filesystems from a Prometheus-compatible server, or from files",
        description="Read telemetry: activity and health of GPUs, nodes, networks and filesystems.",
        epilog=EPILOG,
        manual="sources/prometheus",
    )
    parser.add_argument(
        "files",
        nargs="*",
        metavar="FILE",
        help="OpenMetrics text, JSON of the HTTP API, or Parquet; gzip and zstd are accepted",
    )
    parser.add_argument("--url", metavar="URL", help="base address of the server, for example http://prometheus:9090")
    parser.add_argument("--cluster", metavar="NAME", help="cluster that the series belong to")
    add_period(parser)


def run(options: argparse.Namespace) -> int:
    """Read telemetry from a server or from files."""
    from app import clock
    from app.cli.ingest_report import accounting_is_loaded, finish
    from app.cli.run_context import progress, settings_and_root
    from app.times import moment
    from ingest.prometheus.load_files import ingest_files
    from ingest.prometheus.load_live import ingest_live
    from ingest.prometheus.target import TelemetryRequest
    from ingest.slurm.load_files import once_only
    from queries.warehouse import open_writer

    once_only(options.files)
    settings, root = settings_and_root(options)
    now = clock.now()
    request = TelemetryRequest(
        url=options.url,
        cluster=options.cluster,
        since=moment(options.since, end=now),
        until=moment(options.until, end=now),
    )
    with (
        progress(quiet=options.quiet) as report,
        open_writer(root, verb="trackside ingest prometheus", now=now, group=settings.warehouse_group) as writer,
    ):
        if options.files:
            reports = ingest_files(writer, settings, options.files, request, now=now, progress=report)
        else:
            reports = ingest_live(writer, settings, request, now=now, progress=report)
        jobs_known = accounting_is_loaded(writer)
    return finish(reports, files=bool(options.files), quiet=options.quiet, jobs_known=jobs_known, source="prometheus")
