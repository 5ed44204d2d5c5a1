"""`trackside fleet`: read, compute and commit every cluster of a fleet, by many workers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.cli.options import add_format, add_verb, number_of

if TYPE_CHECKING:
    import argparse
    from contextlib import AbstractContextManager

    from app.cli.options import Subparsers
    from app.config.fleet import FleetSettings
    from app.fleet.coordinator import Workers
    from app.fleet.task import TaskOutcome

EPILOG = """\
The configuration names the configuration file of each cluster, and the lake that all clusters are committed to:
  [fleet]
  clusters = ["clusters/*.toml"]
  lake = "ducklake:postgres:dbname=lake host=db"
For each cluster a worker does what a cycle of `trackside serve` does: it reads the sources that are configured,
computes what has changed, and commits it. A cluster that fails stops no other. Run it again at any time: it reads
what is new, and does what is left."""


def add_parser(subparsers: Subparsers) -> None:
    """Add the verb and its options."""
    parser = add_verb(
        subparsers,
        "fleet",
        "read, compute and commit every cluster of a fleet, on several workers",
        warehouse=False,
        epilog=EPILOG,
        manual="how-to/past-one-machine",
    )
    parser.set_defaults(kept="what was committed is kept, and workers of a scheduler finish what they have begun")
    parser.add_argument("cluster", nargs="*", metavar="CLUSTER", help="only these clusters (default: all)")
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--workers",
        type=number_of("processes", least=0, most=1024),
        metavar="N",
        help="worker processes on this machine; 0: none, one cluster after another (default: [fleet] workers)",
    )
    where.add_argument(
        "--scheduler",
        metavar="ADDRESS",
        help="address of a Dask scheduler whose workers are used, such as tls://scheduler.example.org:8786 (default: "
        "[fleet] scheduler)",
    )
    parser.add_argument(
        "--without-tls",
        action="store_true",
        help="use a scheduler on another machine without TLS: whoever can connect to it can run any code",
    )
    add_format(parser)


def run(options: argparse.Namespace) -> int:
    """Bring the fleet up to date, and report what became of each cluster."""
    from app.cli.rows import RowFormat
    from app.cli.run_context import progress
    from app.config import settings as config
    from app.fleet.clusters import tasks_of
    from app.fleet.coordinator import run_tasks
    from app.fleet.report import as_rows, line_of, require_all

    settings, form = config.load(options.config), RowFormat.of(options)
    tasks, outcomes = tasks_of(settings, options.cluster)

    def ended(outcome: TaskOutcome) -> None:
        if not options.quiet:
            for line in line_of(outcome):
                _echo(line)

    for outcome in outcomes:
        ended(outcome)
    with _workers(options, settings.fleet) as workers:
        with progress("fleet", quiet=options.quiet) as report:
            outcomes += run_tasks(tasks, workers, report=report, ended=ended)
        form.put(as_rows(outcomes))  # before the workers are let go of, which may fail
    require_all(outcomes)
    return 0


def _echo(line: str) -> None:
    from app import console

    console.echo(line, error=True)


def _workers(options: argparse.Namespace, fleet: FleetSettings) -> AbstractContextManager[Workers]:
    """The workers that run the tasks: those of the command line, else those of the configuration."""
    from contextlib import nullcontext

    from app.fleet import dask_workers
    from app.fleet.here import Here
    from app.fleet.scheduler import requested

    if options.scheduler is not None or (options.workers is None and fleet.scheduler):
        address = requested(options.scheduler, fleet)
        return dask_workers.joined(address, fleet, without_tls=options.without_tls)
    count = fleet.workers if options.workers is None else options.workers
    return dask_workers.started(count) if count else nullcontext(Here())
