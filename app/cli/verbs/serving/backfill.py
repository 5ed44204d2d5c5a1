"""`trackside backfill`: the history of `/metrics`, for a Prometheus that began to scrape later than the data begin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from app.cli.options import add_claims, add_period, add_verb, path_of

if TYPE_CHECKING:
    import argparse

    from app.cli.options import Subparsers

EPILOG: Final = """\
To load it, on the machine of Prometheus:
  promtool tsdb create-blocks-from openmetrics FILE DATA_DIRECTORY
Its retention (--storage.tsdb.retention.time) must reach back to the first moment. Load each file once: a second time
stores the same samples twice until the blocks are compacted."""

STEPS_S: Final = {"1h": 3600, "6h": 6 * 3600, "1d": 24 * 3600}
"""By --every: seconds between two moments."""

NEWEST_S: Final = 3 * 3600
"""Newer samples are left out: their time is in Prometheus' head block, which promtool must not overlap."""


def add_parser(subparsers: Subparsers) -> None:
    """Add the verb and its options."""
    parser = add_verb(
        subparsers,
        "backfill",
        "write the history of /metrics as OpenMetrics text, for promtool",
        epilog=EPILOG,
        manual="how-to/grafana",
    )
    parser.add_argument("--cluster", metavar="NAME", help="only this cluster")
    add_period(parser)
    parser.add_argument("--every", choices=tuple(STEPS_S), default="1d", help="time between two samples (default: 1d)")
    add_claims(parser)
    parser.add_argument(
        "--output", "-o", type=path_of, metavar="FILE", help="write there (default: trackside-history.om)"
    )


def run(options: argparse.Namespace) -> int:
    """Write the history.

    Raises:
        UsageError: no such cluster or period, no moment to write, or the file cannot be written.
    """
    from datetime import timedelta
    from pathlib import Path

    from app import clock, console
    from app.claims.file import read_claims
    from app.cli.run_context import settings_and_root
    from app.errors import UsageError
    from app.output_file import write_file
    from app.periods import Period, windows
    from app.progress import progress
    from app.service.history import history, moments
    from app.window import Window
    from queries.warehouse import open_reader

    settings, root = settings_and_root(options)
    every = timedelta(seconds=STEPS_S[options.every])
    before = clock.now() - timedelta(seconds=NEWEST_S)
    claims = tuple(read_claims(options.claims or settings.claims))
    with open_reader(root) as reader, progress("history", quiet=options.quiet) as report:
        requested = []
        for window in windows(reader, Period(options.cluster, options.since, options.until)):
            since = reader.query("computed", cluster=window.cluster)["since"][0]
            requested.append((Window(window.cluster, since, window.until), moments(window, every, before=before)))
        if not any(at for _, at in requested):
            raise UsageError("no moment of the history lies in the data and is older than three hours")
        text, missing = history(reader, requested, claims, report=report)
    target = options.output or Path("trackside-history.om")
    write_file(target, text)
    if not options.quiet:
        console.echo(f"wrote {target}: {sum(len(at) for _, at in requested)} moments", error=True)
    for each in missing:
        console.echo(f"left out: {each.part} of {each.cluster} {each.window}: {each.reason}", error=True)
    return 0
