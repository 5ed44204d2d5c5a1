"""The command line: it parses arguments, hands them to one function per verb, and turns errors into exit statuses.

Nothing heavy is imported here: `trackside --help` must be instant. Each verb imports what it needs.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from app import panics
from app.cli.help import (
    ADJUDICATE_EPILOG,
    DESCRIPTION,
    EPILOG,
    INGEST_EPILOG,
    PROMETHEUS_EPILOG,
    RECORDER_EPILOG,
    RETENTION_EPILOG,
    RUNLOG_EPILOG,
    SHOW_EPILOG,
    STATUS_EPILOG,
    VERIFY_EPILOG,
    manual_topic,
)
from app.errors import INTERNAL, INTERRUPTED, exit_status

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

SHOWN = (
    "goodput", "ettr", "mttf", "mfu", "restarts", "lost", "interruptions", "runs", "nodes", "lemons",
    "checkpoints", "waste", "utilisation",
    "filesystems", "network", "health",
)  # fmt: skip


_MEMORY = "dirty_decay_ms:10000,muzzy_decay_ms:-1"
"""polars gives memory back to the system after ten seconds, not after half a second: large inputs need it again."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit status."""
    os.environ.setdefault("_RJEM_MALLOC_CONF", _MEMORY)  # read when polars is imported
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
    except BaseException as error:
        if not panics.is_panic(error):
            raise
        return _panicked(error)


def _panicked(error: BaseException) -> int:
    """Say that a library gave up; it has printed on its own where, and our traceback would tell a person no more."""
    if os.environ.get("TRACKSIDE_DEBUG"):
        import traceback  # noqa: PLC0415 - only when something is wrong with us

        traceback.print_exception(error)
    _complain(
        f"{panics.message(error)}: this is a fault of Trackside; please report it, with the command and what it read"
    )
    return INTERNAL


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
    from app.cli import verbs  # noqa: PLC0415 - heavy

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
    _compute_options(add("compute", "rebuild the ledger and the numbers from what was ingested"))
    _status_options(
        add(
            "status",
            "show what there is, what the last load brought, how fresh it is, what was refused, and what warns",
            epilog=STATUS_EPILOG,
        )
    )
    _doctor_options(
        add("doctor", "check the installation, the warehouse and each source, and say which numbers they allow")
    )
    _show_options(add("show", "answer a question about the cluster", epilog=SHOW_EPILOG))
    _verify_options(
        add("verify", "judge claims against the data: supported, refuted or undetermined", epilog=VERIFY_EPILOG)
    )
    _adjudicate_actions(
        add(
            "adjudicate",
            "overrule a cause, a node state or a run join, with author and reason; or take that back",
            epilog=ADJUDICATE_EPILOG,
        ),
        common,
    )
    _report_options(
        add("report", "write a report for a period: what was promised, what was delivered, how sure we are")
    )
    _explore_options(add("explore", "serve the explorer on this machine"))
    _serve_options(
        add("serve", "keep up to date and serve: ingest and compute on a schedule, explorer, /metrics, /healthz")
    )
    _retention_options(
        add(
            "retention",
            "take out samples and hours that are older than they are to be kept (config: retention)",
            epilog=RETENTION_EPILOG,
        )
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
    _docs_options(add("docs", "print a page of the manual, or the list of pages", options=without_both))
    for command, each in commands(parser):
        line = f"Manual: trackside docs {manual_topic(command)}"
        each.epilog = f"{each.epilog}\n\n{line}" if each.epilog else line
    return parser


def commands(parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Every verb with its parser, and every source or action of one: `ingest`, `ingest slurm`, ..."""
    for action in parser._actions:  # noqa: SLF001 - argparse has no other way to list its subparsers
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            for made in action.choices.values():
                yield made.prog.partition(" ")[2], made
                yield from commands(made)


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


def _compute_options(parser: argparse.ArgumentParser) -> None:
    _window_options(parser)
    parser.add_argument(
        "--full", action="store_true", help="compute every day of the ledger, not only those whose inputs changed"
    )


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
    parser.add_argument(
        "--spreadsheet-safe",
        action="store_true",
        help="for CSV: an apostrophe before texts that a spreadsheet would run as a formula (those of users may)",
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
        help="telemetry of GPUs, nodes, networks and filesystems from a Prometheus-compatible server, or from files",
        description="Read telemetry: what GPUs, nodes, networks and filesystems did, and what was ill.",
        epilog=PROMETHEUS_EPILOG,
        parents=[common],
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    prometheus.add_argument("files", nargs="*", metavar="FILE", help="OpenMetrics text or Parquet; gzip, zstd are fine")
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


def _retention_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--dry-run", action="store_true", help="only say what would be taken out")
    parser.add_argument("--future", action="store_true", help="take out rows of times that have not come yet instead")


def _doctor_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--repair",
        action="store_true",
        help="first move damaged samples aside, and go back to the newest published copy where the database is damaged "
        "or older; nothing is deleted, and what is to be loaded again is listed",
    )


def _docs_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "topic",
        nargs="?",
        metavar="TOPIC",
        help="a page, or PAGE#SECTION; without it, the list of pages. The last part of a name is enough: claims",
    )


def _status_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--format", choices=("table", "json"), default="table", help="default: table")


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


def _show_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", choices=SHOWN, metavar="WHAT", help=", ".join(SHOWN))
    parser.add_argument("--cluster", metavar="NAME", help="only this cluster")
    _window_options(parser)
    parser.add_argument("--by", metavar="DIMENSION", help="split by: see below")
    parser.add_argument("--run", dest="run_id", metavar="R", help="only this run (a run id or a job id)")
    parser.add_argument("--at", type=_gpus, metavar="GPUS", help="job size for mttf (default: 1024)")
    parser.add_argument("--convention", metavar="NAME", help="FLOP convention for mfu: palm_full, causal_half, ...")
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


def _adjudicate_actions(parser: argparse.ArgumentParser, common: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", title="actions", required=True)

    def add(name: str, help_: str) -> argparse.ArgumentParser:
        return actions.add_parser(
            name,
            help=help_,
            description=help_[0].upper() + help_[1:] + ".",
            parents=[common],
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )

    cause = add("cause", "say what class, cause or node an interruption really had")
    cause.add_argument("--run", dest="run_id", metavar="R", help="of this run (a run id or a job id)")
    _which_attempts(cause)
    cause.add_argument(
        "--class",
        dest="kind",
        choices=("infrastructure", "user", "preemption", "planned", "timeout"),
        help="class of the interruption",
    )
    cause.add_argument("--cause", metavar="WORD", help="what it was: nvlink, node_fail, out_of_memory, ...")
    cause.add_argument("--node", metavar="NODE", help="the node to blame, one that the attempt held")
    state = add("node-state", "say what state a node was in for an interval; nothing else holds within it")
    state.add_argument("--node", required=True, metavar="NODE", help="the scheduler's name of the node")
    state.add_argument("--from", dest="since", required=True, metavar="TIME", help="from (UTC)")
    state.add_argument("--until", required=True, metavar="TIME", help="to (UTC), not included")
    state.add_argument(
        "--state",
        required=True,
        choices=("maintenance", "down", "drained", "in_service"),
        help="maintenance (agreed), down, drained, or in_service (it was not out of service)",
    )
    join = add("run-join", "say that a job's attempts are part of a run, or are not")
    join.add_argument("--run", dest="to_run", required=True, metavar="R", help="the run (a run id or a job id)")
    _which_attempts(join)
    join.add_argument("--apart", action="store_true", help="they are not part of it, but a run of their own")
    join.set_defaults(run_id=None)
    withdraw = add("withdraw", "take a correction back: what was derived holds again")
    withdraw.add_argument("id", metavar="ID", help="of the correction, as `adjudicate list` shows it")
    for each in (cause, state, join, withdraw):
        if each is not withdraw:
            each.add_argument("--cluster", metavar="NAME", help="the cluster (needed where there are several)")
        each.add_argument("--author", metavar="NAME", help="who says so (required: nobody is guessed)")
        each.add_argument("--reason", metavar="TEXT", help="why (required)")
        each.add_argument(
            "--claims", type=Path, metavar="FILE", help="claims whose verdicts to compare (default: the configured)"
        )
        each.add_argument(
            "--no-compute", dest="compute", action="store_false", help="only write it down: the next compute applies it"
        )
    listed = add("list", "show the corrections that count")
    listed.add_argument("--all", action="store_true", help="withdrawn ones, too")
    listed.add_argument("--cluster", metavar="NAME", help="only this cluster")
    _format_options(listed)


def _which_attempts(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--job", metavar="J", help="of this job (raw id, or as people see it)")
    parser.add_argument("--attempt", type=int, metavar="N", help="only the run's attempt of this number")
    parser.add_argument(
        "--submitted", metavar="TIME", help="only what was submitted then (UTC), where an id was given twice"
    )


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
