"""`trackside compute`: rebuild the derived tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.cli.options import add_period, add_verb

if TYPE_CHECKING:
    import argparse

    from app.cli.options import Subparsers


def add_parser(subparsers: Subparsers) -> None:
    """Add the verb and its options."""
    parser = add_verb(
        subparsers,
        "compute",
        "compute the ledger and the numbers from the loaded data",
        writes=True,
        manual="concepts/ledger",
    )
    add_period(parser)
    parser.set_defaults(kept="nothing was changed: the numbers of the computation before are kept")
    parser.add_argument(
        "--full",
        action="store_true",
        help="compute every day of the ledger and every window, also where nothing changed",
    )


def run(options: argparse.Namespace) -> int:
    """Rebuild the derived tables, and report what changed, cluster by cluster."""
    from app import clock, console
    from app.cli.run_context import progress, require_warehouse, settings_and_root
    from app.compute.unchanged import inputs_digest, last_outcome
    from app.errors import NothingToComputeError
    from app.times import iso, moment
    from ingest.counted import counted
    from queries.warehouse import open_writer

    settings, root = settings_and_root(options)
    require_warehouse(root)
    now = clock.now()
    since, until = moment(options.since, end=None), moment(options.until, end=None)
    inputs = inputs_digest(settings, since=since, until=until)
    with (
        progress(quiet=options.quiet) as report,
        open_writer(root, verb="trackside compute", now=now, group=settings.warehouse_group) as writer,
    ):
        done = None if options.full else last_outcome(writer, inputs)
        claims_error = None
        if done is None:
            from app.claims.stored import StoredClaims
            from app.compute import pipeline

            claims = StoredClaims.read(settings.claims)
            claims_error = claims.error
            done = pipeline.compute(
                writer,
                settings,
                now=now,
                since=since,
                until=until,
                full=options.full,
                inputs=inputs if claims.error is None else None,
                verdicts=claims.verdicts,
                progress=report,
            )
        loaded = bool(done.clusters or writer.query("any_attempts")["any"].item())
    if not options.quiet:
        for window, days in zip(done.clusters, done.days, strict=True):
            console.echo(
                f"{window.cluster}: {iso(window.since)} to {iso(window.until)}; of {counted(days.known, 'day')} of the "
                f"ledger {days.changed:,} changed",
                error=True,
            )
        for cluster in done.empty:
            console.echo(
                f"{cluster}: no time of its accounting is loaded, so there is nothing to compute",
                error=True,
            )
        for result in done.warnings:
            console.echo(f"warning: {result.check.description} ({result.count}; {result.check.name})", error=True)
    if claims_error is not None:
        console.echo(f"warning: the numbers are computed, but no verdict is stored: {claims_error}", error=True)
    if not done.clusters:
        raise NothingToComputeError(f"nothing was computed: {_why(loaded=loaded)}")
    if not options.quiet:
        console.echo("Next: trackside show goodput", error=True)
    return 0


def _why(*, loaded: bool) -> str:
    """Why no cluster has time to compute, and what to do."""
    if not loaded:
        return "no accounting is loaded. First: trackside ingest slurm"
    return (
        "what is loaded covers no time yet.\n"
        "Slurm's accounting needs a job that has started: trackside ingest slurm\n"
        "Kubernetes is observed from one reading to the next. Read it again: trackside ingest kubernetes, or run "
        "trackside serve"
    )
