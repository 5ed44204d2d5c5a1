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
sacct -a -D -P --noconvert -S 2026-10-01 -o ALL > sacct.txt
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
"""The commands of a complete dump, for a shell on a machine where Slurm works."""

EPILOG = f"""\
The kind of each file is detected from its contents: accounting, node events, nodes, reservations, topology, settings,
accounts, QOS, account changes, runaway jobs, sdiag, sacct --json, or a response of slurmrestd. A complete dump, made
where Slurm works (only the first file is required):

  {DUMP_COMMANDS.replace(chr(10), chr(10) + "  ").rstrip()}

then: trackside ingest slurm *.txt

Snapshots (nodes, sdiag, reservations, topology, accounts, QOS, runaway jobs) need a time: that of --until, else the
time in the file (nodes, sdiag), else the end of the period that the other files of the same load cover. A snapshot
without any of these is refused: it is never taken for the present state."""


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
        help="output of Slurm's commands (below; .gz is accepted; - is standard input). Without files, Trackside reads "
        "the running Slurm",
    )
    parser.add_argument("--cluster", metavar="NAME", help="cluster of inputs that do not name one")
    parser.add_argument("--timezone", metavar="ZONE", help="time zone of times without one: UTC, Europe/Berlin")
    parser.add_argument("--delimiter", metavar="TEXT", help="column delimiter (default: detected)")
    parser.add_argument("--accept-truncated", action="store_true", help="load a file even if its last row is cut off")
    parser.add_argument(
        "--again", action="store_true", help="live with --since: read again the windows that earlier loads cover"
    )
    parser.add_argument(
        "--since",
        metavar="TIME",
        help="live: from (UTC), 2026-10-01 or 7d before now. With files: start of the period that the dump was "
        "requested "
        "for (sacct -S); no row is left out",
    )
    parser.add_argument(
        "--until",
        metavar="TIME",
        help="live: to (UTC), not included; default: now. With files: end of the period that the dump was requested "
        "for "
        "(sacct -E), and the time of snapshots that carry none",
    )


def run(options: argparse.Namespace) -> int:
    """Read Slurm, live or from files."""
    from app import clock
    from app.cli.delimiter import delimiter
    from app.cli.ingest_hints import cluster_hint, column_hint, zone_hint
    from app.cli.ingest_report import finish
    from app.cli.run_context import note, progress, settings_and_root
    from app.times import iso, moment
    from ingest.slurm import load_files
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
            from ingest.slurm.live.ingest import ingest_live

            reports = ingest_live(
                writer,
                settings,
                request,
                now=now,
                runner=_runner(settings.slurm.timeout_s),
                progress=report,
                notify=lambda text: note(text, quiet=options.quiet),
                again=options.again,
            )
    loaded = [each.parsed for each in reports if each.parsed is not None]
    if options.files and loaded and (request.since or request.until):
        since, until = (iso(each) if each else "as in the files" for each in (request.since, request.until))
        whole = len(loaded) == len(reports) and not any(parsed.rows_rejected for parsed in loaded)
        text = f"period that the files count as requested for: {since} to {until}"
        note(text + ("; no row was left out" if whole else ""), quiet=options.quiet)
    if options.files:
        hints = (*map(column_hint, reports), zone_hint(reports, options), cluster_hint(reports, options))
        for hint in filter(None, hints):
            note(hint, quiet=options.quiet)
    return finish(reports, files=bool(options.files), quiet=options.quiet, source="slurm")


def _refuse_mixed(options: argparse.Namespace) -> None:
    """Refuse options for files in a live ingest, and the other way round."""
    from app.errors import UsageError

    if options.files and options.again:
        raise UsageError(
            "--again queries Slurm for time that was read before; leave it out with files: loading twice is safe"
        )
    if not options.files and (options.timezone or options.delimiter or options.accept_truncated):
        raise UsageError("--timezone, --delimiter and --accept-truncated apply to files, and no file is given")


def _runner(timeout_s: float) -> Runner:
    from ingest.slurm.commands.runner import subprocess_runner

    return lambda command, environment: subprocess_runner(command, environment, timeout_s=timeout_s)
