"""`trackside simulate`: write the files that the sources of a simulated cluster would have written."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from app.cli.options import add_verb, path_of

if TYPE_CHECKING:
    import argparse

    from app.cli.options import Subparsers


def add_parser(subparsers: Subparsers) -> None:
    """Add the verb and its options."""
    parser = add_verb(
        subparsers,
        "simulate",
        "write the files of the sources of a simulated cluster",
        warehouse=False,
        config=False,
    )
    parser.add_argument("--dir", type=path_of, required=True, metavar="D", help="folder for the files")
    parser.add_argument(
        "--gpus", type=int, default=1024, metavar="N", help="GPUs, a multiple of 8, at least 64 (default: 1024)"
    )
    parser.add_argument("--days", type=int, default=61, metavar="N", help="days from 2026-09-01 on (default: 61)")
    parser.add_argument("--seed", type=int, default=2026, metavar="N", help="the same seed gives the same files")


def run(options: argparse.Namespace) -> int:
    """Write the files, and print what to do with them.

    Raises:
        UsageError: there is no such cluster, or the folder cannot be written.
    """
    from app import console
    from app.demo import simulate
    from app.errors import UsageError
    from app.times import iso

    if options.gpus < 64 or options.gpus % 8:
        raise UsageError(f"--gpus {options.gpus}: a multiple of 8, at least 64")
    if not 1 <= options.days <= 3660:
        raise UsageError(f"--days {options.days}: at least 1, at most 3660")
    if options.seed < 0:
        raise UsageError(f"--seed {options.seed}: not below 0")
    settings = simulate.Settings(gpus=options.gpus, days=options.days, seed=options.seed)
    report = (lambda _: None) if options.quiet else (lambda what: console.echo(what, error=True))
    try:
        simulate.simulate(settings, options.dir, report=report)
    except OSError as error:
        raise UsageError(f"{options.dir} cannot be written: {error.strerror}") from None
    sources = options.dir / "sources"
    console.echo(f"The truth: {options.dir / 'truth.json'} and {options.dir / 'truth'}")
    console.echo("Read the files as if they came from a real cluster:")
    console.echo(f"  trackside ingest slurm {' '.join(str(sources / name) for name in simulate.SLURM_FILES)}")
    snapshots = " ".join(str(sources / name) for name in simulate.SNAPSHOT_FILES)
    until = iso(datetime.fromtimestamp(settings.end, UTC))
    console.echo(f"  trackside ingest slurm --cluster demo --until {until} {snapshots}")
    objects = " ".join(str(sources / name) for name in simulate.KUBERNETES_FILES)
    console.echo(f"  trackside ingest kubernetes --cluster demo {objects}")
    telemetry = " ".join(str(sources / name) for name in simulate.TELEMETRY_FILES)
    console.echo(f"  trackside ingest prometheus --cluster demo {telemetry}")
    console.echo(f"  trackside ingest runlog {sources / 'runs'}/*.jsonl")
    if (sources / "ranks").exists():
        console.echo(f"  trackside ingest ranks {sources / 'ranks'}/*.jsonl")
    return 0
