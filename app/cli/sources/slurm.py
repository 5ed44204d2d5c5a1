"""`trackside ingest slurm`: read Slurm, live or from files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.cli.options import add_source

if TYPE_CHECKING:
    import argparse

    from app.cli.options import Subparsers
    from ingest.slurm.commands.runner import Runner


DUMP_COMMANDS = """\
export TZ=UTC SLURM_TIME_FORMAT=%s
sacct -a -D -X -P --noconvert -S 2026-10-01 -o ALL > sacct.txt
sacctmgr -P show event Start=2026-10-01 \\
    Format=Cluster,NodeName,TimeStart,TimeEnd,State,StateRaw,Reason,User > events.txt
sacctmgr -P show reservation Start=2026-10-01 End=now \\
    Format=Cluster,ID,Name,Start,End,NodeNames,Flags,TRES,UnusedWall,Associations > reservations.txt
sacctmgr -P show transactions Start=2026-10-01 \\
    Format=Time,Action,Actor,Where,Cluster,ID,Info > transactions.txt
sacctmgr -P show assoc > assoc.txt
sacctmgr -P show qos > qos.txt
scontrol show node > nodes.txt
scontrol show topology > topology.txt
scontrol show config > config.txt
sdiag > sdiag.txt
"""
"""What makes a complete picture, for a shell on a machine where Slurm works."""

EPILOG = f"""\
Files are told apart by content: accounting, node events, nodes, reservations, topology, settings, accounts, QOS,
account changes, runaway jobs, sdiag; sacct --json and slurmrestd's answers, too. A complete picture, made where Slurm
works (only the first is a must):

  {DUMP_COMMANDS.replace(chr(10), chr(10) + "  ").rstrip()}

then: trackside ingest slurm *.txt

What holds at a moment only is of the time that --until says; else of the time in it (nodes, sdiag); else, where it
tells none (reservations, topology, accounts, QOS, runaway jobs), of the time up to which the files loaded with it
reach. Alone and without --until it is refused: it is never taken for what holds now."""


def add_parser(subparsers: Subparsers) -> None:
    """Add the source and its options."""
    parser = add_source(
        subparsers,
        "slurm",
        "accounting, node events and inventory of Slurm: live, or from files",
        description="Read Slurm: live where sacct works, or from files.",
        epilog=EPILOG,
        manual="sources/slurm",
    )
    parser.add_argument(
        "files",
        nargs="*",
        metavar="FILE",
        help="what Slurm's commands printed (below; .gz is fine; - is standard input). Without files the running Slurm "
        "is read",
    )
    parser.add_argument("--cluster", metavar="NAME", help="cluster of inputs that do not name one")
    parser.add_argument("--timezone", metavar="ZONE", help="zone of times that carry none: UTC, Europe/Berlin")
    parser.add_argument("--delimiter", metavar="TEXT", help="column delimiter; default: found by itself")
    parser.add_argument("--accept-truncated", action="store_true", help="load a file although its last row is cut")
    parser.add_argument(
        "--again", action="store_true", help="live with --since: read windows again that earlier loads speak for"
    )
    parser.add_argument(
        "--since",
        metavar="TIME",
        help="live: from (UTC), 2026-10-01 or 7d before now. With files: what the dump was asked for (sacct -S), no "
        "row is left out",
    )
    parser.add_argument(
        "--until",
        metavar="TIME",
        help="live: to (UTC), not included; default: now. With files: what the dump was asked for (sacct -E), and when "
        "that was made which tells no time itself",
    )


def run(options: argparse.Namespace) -> int:
    """Read Slurm, live or from files."""
    from app import clock
    from app.cli.delimiter import delimiter
    from app.cli.ingest_report import finish
    from app.cli.run_context import note, progress, settings_and_root
    from app.times import iso, moment
    from ingest.slurm import load_files
    from ingest.slurm.live.ingest import ingest_live
    from queries.warehouse import open_writer

    _refuse_mixed(options)
    settings, root = settings_and_root(options)
    now = clock.now()
    end = None if options.files else now
    request = load_files.Options(
        cluster=options.cluster,
        timezone=options.timezone,
        delimiter=None if options.delimiter is None else delimiter(options.delimiter),
        accept_truncated=options.accept_truncated,
        since=moment(options.since, end=end),
        until=moment(options.until, end=end),
    )
    with (
        progress(quiet=options.quiet) as report,
        open_writer(root, verb="trackside ingest slurm", now=now, group=settings.warehouse_group) as writer,
    ):
        if options.files:
            reports = load_files.ingest_files(writer, settings, options.files, request, now=now, progress=report)
        else:
            reports = ingest_live(
                writer,
                settings,
                request,
                now=now,
                runner=_runner(settings.slurm.timeout_s),
                progress=report,
                tell=lambda text: note(text, quiet=options.quiet),
                again=options.again,
            )
    loaded = [each.parsed for each in reports if each.parsed is not None]
    if options.files and loaded and (request.since or request.until):
        since, until = (iso(each) if each else "what they tell" for each in (request.since, request.until))
        whole = len(loaded) == len(reports) and not any(parsed.rows_rejected for parsed in loaded)
        text = f"taken as what the files were asked for: {since} to {until}"
        note(text + ("; no row was left out" if whole else ""), quiet=options.quiet)
    return finish(reports, files=bool(options.files), quiet=options.quiet)


def _refuse_mixed(options: argparse.Namespace) -> None:
    """What is about files is nothing for live reading, and the other way round."""
    from app.errors import UsageError

    if options.files and options.again:
        raise UsageError("--again asks Slurm for what was read before; leave it out with files: loading twice is safe")
    if not options.files and (options.timezone or options.delimiter or options.accept_truncated):
        raise UsageError("--timezone, --delimiter and --accept-truncated are about files, and none is named")


def _runner(timeout_s: float) -> Runner:
    from ingest.slurm.commands.runner import subprocess_runner

    return lambda command, environment: subprocess_runner(command, environment, timeout_s=timeout_s)
