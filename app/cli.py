"""The command line: it parses arguments, hands them to one function per verb, and turns errors into exit statuses.

Nothing heavy is imported here: `trackside --help` must be instant. Each verb imports what it needs.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from app.errors import INTERNAL, INTERRUPTED, exit_status

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

DESCRIPTION = """\
Does GPU time become training progress? Trackside accounts for every GPU-second of a cluster exactly once, and derives
goodput, ETTR, MTTF and time to restart from that one account, each with its definition and evidence."""

EPILOG = """\
See it all on a simulated cluster:  trackside demo

A first look at your own cluster, on a machine where sacct works:
  trackside ingest slurm          read Slurm (the last 30 days; later only what is new)
  trackside compute               build the ledger and the numbers
  trackside show goodput          ... ettr mttf restarts lost interruptions runs nodes
  trackside ingest prometheus     add GPU telemetry; ingest runlog: what training loops logged
  trackside explore               look at it in a browser
  trackside verify                judge a vendor's headline claims against your data

Without Slurm at hand, load files: trackside ingest slurm sacct.txt events.txt nodes.txt
Every verb explains itself: trackside VERB --help"""

SHOW_EPILOG = """\
what to show, and what it can be split --by:
  goodput        productive share of GPU-time, of what was allocated and of what there was
                 --by day, node, user, account, partition, run
  ettr           productive share of queued and scheduled time, over runs; --run R: the arithmetic of one
                 --by run
  mttf           mean time to failure by job size, with exact intervals; --at GPUS: scaled to that size
  mfu            model FLOP utilisation over kept steps, by FLOP convention; --run R: of one run
                 --by run
  restarts       from an interruption to the next start, by cause
                 --by event
  lost           where all GPU-time went, by category and cause
                 --by day, node, user, account, partition, run
  interruptions  every attempt that ended otherwise than by completing, and why
  runs           training runs: attempts, how they were joined, bounds of their ETTR; --run R: one
  nodes          nodes, those whose failures cost most first, and what to do

times are UTC: 2026-10-01, 2026-10-01T12:00, or backwards from the end of the data: 7d, 24h"""

SHOWN = ("goodput", "ettr", "mttf", "mfu", "restarts", "lost", "interruptions", "runs", "nodes")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit status."""
    parser = build_parser()
    options = parser.parse_args(arguments)
    if options.version:
        options.verb, options.run = "version", "version"
    if options.verb is None:
        parser.print_help()
        return 0
    return _guarded(options)


def _guarded(options: argparse.Namespace) -> int:
    try:
        return _verb(options.run)(options)
    except KeyboardInterrupt:
        _complain("interrupted; what was not finished can be done again")
        return INTERRUPTED
    except BrokenPipeError:  # the reader of our output (head, less) has gone: not an error
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:  # noqa: BLE001 - the last line: no traceback for what a person can mend
        return _said(error)


def _said(error: Exception) -> int:
    """Say what went wrong, and return the exit status for it."""
    if _was_interrupted(error):
        _complain("interrupted; what was not finished can be done again")
        return INTERRUPTED
    status = exit_status(error)
    if status is None or os.environ.get("TRACKSIDE_DEBUG"):
        import traceback  # noqa: PLC0415 - only when something is wrong with us

        traceback.print_exception(error)
    if status is None:
        _complain(f"this is a fault of Trackside ({type(error).__name__}); please report it with the lines above")
        return INTERNAL
    _complain(str(error))
    return status


def _was_interrupted(error: BaseException | None) -> bool:
    """Whether a Ctrl-C is behind it: DuckDB wraps one into errors of its own."""
    while error is not None:
        if isinstance(error, KeyboardInterrupt) or "query interrupted" in str(error).lower():
            return True
        error = error.__cause__ or error.__context__
    return False


def _complain(message: str) -> None:
    """Say it, without what would steer the terminal: messages name files and rows, and those hold anything."""
    plain = "".join(each if each.isprintable() or each in "\n\t" else "\ufffd" for each in message)
    sys.stderr.write(f"trackside: {plain}\n")


def _verb(name: str) -> Callable[[argparse.Namespace], int]:
    from app import verbs  # noqa: PLC0415 - heavy

    found: Callable[[argparse.Namespace], int] = getattr(verbs, name)
    return found


def build_parser() -> argparse.ArgumentParser:
    """The parser with all verbs; `tests` walks it to see that everything has help."""
    parser = argparse.ArgumentParser(
        prog="trackside", description=DESCRIPTION, epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--version", action="store_true", help="print version and the versions of the engines")
    common = _common_options()
    without_warehouse = _common_options("--warehouse")  # for verbs that have a folder of their own, or none
    without_both = _common_options("--warehouse", "--config")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", title="verbs")

    def add(
        name: str, help_: str, *, options: argparse.ArgumentParser = common, **more: str
    ) -> argparse.ArgumentParser:
        made = verbs.add_parser(
            name,
            help=help_,
            description=help_[0].upper() + help_[1:] + ".",
            parents=[options],
            formatter_class=argparse.RawDescriptionHelpFormatter,
            **more,  # type: ignore[arg-type]  # argparse types its keywords one by one
        )
        made.set_defaults(run=name)
        return made

    _demo_options(
        add(
            "demo",
            "simulate a cluster, read it through the real ingesters, and show everything on it",
            options=without_warehouse,
        )
    )
    _ingest_sources(add("ingest", "read a source into the warehouse; reading twice equals reading once"), common)
    _window_options(add("compute", "rebuild the ledger and the numbers from what was ingested"))
    add("status", "show what was read, how fresh it is, what was refused, and which checks warn")
    add("doctor", "check the installation, the warehouse and each source, and say which numbers they allow")
    _show_options(add("show", "answer a question about the cluster", epilog=SHOW_EPILOG))
    _verify_options(
        add("verify", "judge claims against the data: supported, refuted or undetermined", epilog=VERIFY_EPILOG)
    )
    _report_options(
        add("report", "write a report for a period: what was promised, what was delivered, how sure we are")
    )
    _explore_options(add("explore", "serve the explorer on this machine"))
    _serve_options(
        add("serve", "keep up to date and serve: ingest and compute on a schedule, explorer, /metrics, /healthz")
    )
    _dashboards_options(add("dashboards", "Grafana boards: write them, or check them", options=without_warehouse))
    _simulate_options(
        add(
            "simulate",
            "write the files that the sources of a simulated cluster would have written",
            options=without_both,
        )
    )
    _recorder_options(
        add(
            "recorder",
            "print the one-file run-log recorder for training loops",
            options=without_both,
            epilog=RECORDER_EPILOG,
        )
    )
    _sql_options(add("sql", "run one SELECT on the published warehouse, sandboxed"))
    _export_options(add("export", "write a whole table or view"))
    return parser


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

INGEST_EPILOG = f"""\
Files are told apart by content: accounting, node events, nodes, reservations, topology, settings, accounts, QOS,
account changes, runaway jobs, sdiag; sacct --json and slurmrestd's answers, too. A complete picture, made where Slurm
works (only the first is a must):

  {DUMP_COMMANDS.replace(chr(10), chr(10) + "  ").rstrip()}

then: trackside ingest slurm *.txt"""

PROMETHEUS_EPILOG = """\
Without files the server is asked (--url, or [prometheus] url in the configuration); a token comes from the environment
variable that token_env names, never from the command line. Files: OpenMetrics text with timestamps, or Parquet with the
columns of gpu_hours. Reading twice equals reading once."""

RUNLOG_EPILOG = """\
Run logs are JSON lines, written by the recorder (trackside recorder > trackside_log.py); gzip is accepted. A log that
still grows may be read again at any time: what is new is added. --cluster is for logs that name none themselves."""

RECORDER_EPILOG = """\
trackside recorder > trackside_log.py     one file, standard library only: copy it beside your training script
  import trackside_log
  log = trackside_log.start("run.jsonl", run_id="llama-8b", n_gpus=16, params_active=8.03e9, layers=32, heads=32,
                            head_dim=128, seq_len=8192, dtype="bf16", gpu_model="H100")
  for step in range(first, last):
      with log.step(step, tokens=batch_tokens): train()
      if step % 500 == 0:
          with log.checkpoint(step): save()
It never stops training: what goes wrong with the log is said once on stderr. Only rank 0 writes (RANK, SLURM_PROCID).
The file itself tells the rest: checkpoint_async for saves in the background, event("checkpoint_load"), event("eval").
then: trackside ingest runlog run.jsonl"""

VERIFY_EPILOG = """\
A claims file is TOML with one [[claim]] each: id, metric, quoted (the words used), read_as (what is tested), kind
(delivered: judged by bounds; capability: judged by its 95 % interval), target, direction (at_least or at_most), and
where they apply gpus, min_run_hours and flop_convention. Copy app/claims.toml, the default, and change it.

exit status: 3 if any claim is refuted, else 4 if any is undetermined, else 0 (errors use neither)"""


def _common_options(*left_out: str) -> argparse.ArgumentParser:
    """Options of all verbs, but those that a verb has no use for: what is offered is obeyed."""
    common = argparse.ArgumentParser(add_help=False)
    group = common.add_argument_group("common options")
    if "--warehouse" not in left_out:
        group.add_argument(
            "--warehouse",
            type=Path,
            metavar="DIR",
            help="warehouse directory (else $TRACKSIDE_WAREHOUSE, else the config)",
        )
    if "--config" not in left_out:
        group.add_argument(
            "--config", type=Path, metavar="FILE", help="configuration (else $TRACKSIDE_CONFIG, else ./trackside.toml)"
        )
    group.add_argument("--quiet", "-q", action="store_true", help="no progress, only results and errors")
    return common


def _window_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--since", metavar="TIME", help="from (UTC): 2026-10-01, or 7d before the end of the data")
    parser.add_argument("--until", metavar="TIME", help="to (UTC), not included; default: the end of the data")


def _format_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--format", choices=("table", "json", "csv", "parquet"), default="table", help="default: table (export: csv)"
    )
    parser.add_argument(
        "--output", "-o", type=Path, metavar="FILE", help="write there; an ending .json, .csv or .parquet is a --format"
    )


def _ingest_sources(parser: argparse.ArgumentParser, common: argparse.ArgumentParser) -> None:
    sources = parser.add_subparsers(dest="source", metavar="SOURCE", title="sources", required=True)
    slurm = sources.add_parser(
        "slurm",
        help="accounting, node events and inventory of Slurm: live, or from files",
        description="Read Slurm: live where sacct works, or from files.",
        epilog=INGEST_EPILOG,
        parents=[common],
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _slurm_options(slurm)
    prometheus = sources.add_parser(
        "prometheus",
        help="GPU telemetry (DCGM) from a Prometheus-compatible server, or from files",
        description="Read GPU utilisation, tensor activity, power and XIDs.",
        epilog=PROMETHEUS_EPILOG,
        parents=[common],
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    prometheus.add_argument("files", nargs="*", metavar="FILE", help="OpenMetrics text or Parquet, .gz is fine")
    prometheus.add_argument(
        "--url", metavar="URL", help="base address of the server, for example http://prometheus:9090"
    )
    prometheus.add_argument("--cluster", metavar="NAME", help="cluster that the series belong to")
    _window_options(prometheus)
    runlog = sources.add_parser(
        "runlog",
        help="run logs of training loops: steps, checkpoints, events",
        description="Read run logs.",
        epilog=RUNLOG_EPILOG,
        parents=[common],
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    runlog.add_argument(
        "files", nargs="+", metavar="FILE", help="run logs (JSON lines), .gz is fine; - is standard input"
    )
    runlog.add_argument("--cluster", metavar="NAME", help="cluster of logs that do not name one")


def _demo_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--no-serve", action="store_true", help="stop after the numbers, the report and the board")
    parser.add_argument("--dir", type=Path, metavar="D", help="where to work (default: ./trackside-demo)")
    _host_options(parser)


def _host_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--host", metavar="ADDRESS", help="address to listen on (default: 127.0.0.1, this machine only)"
    )
    parser.add_argument("--port", type=int, metavar="PORT", help="port (default: 8050; 0 takes a free one)")


def _report_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", choices=("sla",), metavar="WHAT", help="sla")
    parser.add_argument(
        "--period",
        required=True,
        metavar="PERIOD",
        help="2026-10 (a month), 2026-W40, 2026-10-05, or FROM..UNTIL (UTC)",
    )
    parser.add_argument("--cluster", metavar="NAME", help="only this cluster (needed where there are several)")
    parser.add_argument(
        "--claims", type=Path, metavar="FILE", help="TOML file of claims (default: the vendor's headlines)"
    )
    parser.add_argument("--format", choices=("html", "json"), default=None, help="default: html, or what FILE ends in")
    parser.add_argument(
        "--output", "-o", type=Path, metavar="FILE", help="write there (default: sla-CLUSTER-PERIOD.html)"
    )


def _explore_options(parser: argparse.ArgumentParser) -> None:
    _host_options(parser)


def _serve_options(parser: argparse.ArgumentParser) -> None:
    _host_options(parser)
    parser.add_argument(
        "--every",
        type=float,
        metavar="MINUTES",
        help="ingest and compute that often; 0 only serves (config: serve.every_minutes)",
    )


def _dashboards_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "action", choices=("build", "check"), help="build: write the JSON; check: validate what is written"
    )
    parser.add_argument(
        "--dir",
        type=Path,
        metavar="D",
        help="folder of the boards (default: ./grafana for build; the ones that ship for check)",
    )


def _simulate_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--dir", type=Path, required=True, metavar="D", help="folder for the files")
    parser.add_argument("--gpus", type=int, default=1024, metavar="N", help="GPUs, a multiple of 8 (default: 1024)")
    parser.add_argument("--days", type=int, default=61, metavar="N", help="days from 2026-09-01 on (default: 61)")
    parser.add_argument("--seed", type=int, default=2026, metavar="N", help="the same seed gives the same files")


def _recorder_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--output", "-o", type=Path, metavar="FILE", help="write there (default: standard output)")


def _slurm_options(parser: argparse.ArgumentParser) -> None:
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
    _window_options(parser)


def _show_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", choices=SHOWN, metavar="WHAT", help=", ".join(SHOWN))
    parser.add_argument("--cluster", metavar="NAME", help="only this cluster")
    _window_options(parser)
    parser.add_argument("--by", metavar="DIMENSION", help="split by: see below")
    parser.add_argument("--run", dest="run_id", metavar="R", help="only this run (a run id or a job id)")
    parser.add_argument("--at", type=_gpus, metavar="GPUS", help="job size for mttf (default: 1024)")
    parser.add_argument("--explain", action="store_true", help="also print definition, SQL, parts and evidence")
    _format_options(parser)


def _gpus(text: str) -> float:
    value = float(text)
    if not 0 < value < 1e7:
        raise argparse.ArgumentTypeError("a number of GPUs above 0")
    return value


def _verify_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--claims", type=Path, metavar="FILE", help="TOML file of claims (default: the vendor's headlines)"
    )
    parser.add_argument("--cluster", metavar="NAME", help="only this cluster")
    _window_options(parser)
    _format_options(parser)


def _sql_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "sql", metavar="SELECT", help='for example: "SELECT category, SUM(gpu_seconds) FROM gpu_time GROUP BY 1"'
    )
    _format_options(parser)


def _export_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("table", help="table or view; `trackside export tables` lists them")
    _format_options(parser)
    parser.set_defaults(format=None)


if __name__ == "__main__":
    sys.exit(main())
