"""`trackside show QUESTION`: answer a question about the cluster; each question is one file in `app.show.questions`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.cli.options import add_format, add_period, add_verb
from app.cli.question_names import Names

if TYPE_CHECKING:
    import argparse

    from app.cli.options import Subparsers


EPILOG = """\
what to show, and what it can be split --by:
  goodput        productive share: of wall time (job, as Google's library), of allocated GPU-time and of all there was;
                 scheduling x runtime x program
                 --by day, node, user, account, partition, run; bucket: where logged runs' wall time went
  ettr           productive share of queued and scheduled time, over runs, measured and expected; --run R: the
                 arithmetic of one
                 --by run; with --run R: stretch (second by second), class
  mttf           mean time to failure by job size, with exact intervals; --at GPUS: scaled to that size
                 --by size, law, hazard, reference, cause, partition, user
  mfu            model FLOP utilisation over kept steps, by FLOP convention; --run R: of one run; --convention NAME
                 --by run, step, gpu_model; proxy: logs against tensor activity; estimate: runs without logs
  restarts       from an interruption to the next start, by cause; --run R: of one run
                 --by stage (detection to recovery), event
  lost           where all GPU-time went, by category and cause
                 --by cause, category, day, node, user, account, partition, run
  interruptions  every attempt that ended otherwise than by completing, why, and what it cost; --run R: of one run
                 --by cause, class, node, order (preempted for a run that came back from a failure)
  runs           training runs: attempts, how they were joined, bounds of their ETTR; --run R: one
  nodes          nodes, those whose failures cost most first, and what to do
  lemons         nodes that fail more often than chance gives (the last 28 days), and what could have been detected
  checkpoints    how often runs save, how often would lose least, and the GPU-hours to be won; --run R: of one run
  waste          allocated GPU-time that shows no work: standing still, GPUs never used, loops of failures, time limits
                 --by kind, state, user, account, partition, run
  utilisation    what allocated GPUs did: utilisation, tensor activity, idle GPU-hours, power, energy (needs telemetry)
                 --by user, account, partition, run, attempt
  filesystems    operations, bytes and response time by mount, as nodes tell of them (needs telemetry of nodes)
                 --by user, account, partition, run, attempt, node
  network        what InfiniBand ports carried (needs telemetry of nodes)
                 --by user, account, partition, run, attempt, node
  health         incidents of nodes (XID, ECC, links, mounts, conditions), the attempts they touch, and what to do
                 --by node, attempt, kind

times are UTC: 2026-10-01, 2026-10-01T12:00, or backwards from the end of the data: 7d, 24h"""

SHOWN = (
    "goodput", "ettr", "mttf", "mfu", "restarts", "lost", "interruptions", "runs", "nodes", "lemons",
    "checkpoints", "waste", "utilisation",
    "filesystems", "network", "health",
)  # fmt: skip


def add_parser(subparsers: Subparsers) -> None:
    """Add the verb and its options."""
    parser = add_verb(
        subparsers, "show", "answer a question about the cluster", epilog=EPILOG, manual="how-to/questions"
    )
    parser.add_argument("what", choices=Names(SHOWN), metavar="WHAT", help=", ".join(SHOWN))
    parser.add_argument("--cluster", metavar="NAME", help="only this cluster")
    add_period(parser)
    parser.add_argument("--by", metavar="DIMENSION", help="split by: see below")
    parser.add_argument("--run", dest="run_id", metavar="R", help="only this run (a run id or a job id)")
    parser.add_argument("--at", type=_gpus, metavar="GPUS", help="job size for mttf (default: 1024)")
    parser.add_argument("--convention", metavar="NAME", help="FLOP convention for mfu: palm_full, causal_half, ...")
    parser.add_argument("--explain", action="store_true", help="also print definition, SQL, parts and evidence")
    add_format(parser)


def _gpus(text: str) -> float:
    from argparse import ArgumentTypeError

    value = float(text)
    if not 0 < value < 1e7:
        raise ArgumentTypeError("a number of GPUs above 0")
    return value


def run(options: argparse.Namespace) -> int:
    """Answer a question."""
    from functools import partial

    from app import console
    from app.cli.rows import RowFormat
    from app.cli.run_context import settings_and_root
    from app.cli.windows import Period, windows
    from app.errors import UsageError
    from app.results.windows import CLAIMED_GPUS
    from app.show import question_of
    from app.show.answer import Question, explain
    from app.show.ask import ask
    from app.times import iso
    from queries.warehouse import open_reader

    _, root = settings_and_root(options)
    of_runs = ("runs", "ettr", "mfu", "checkpoints", "restarts", "interruptions")
    if options.run_id is not None and options.what not in of_runs:
        raise UsageError(f"--run is for `show {', '.join(of_runs)}`; `show {options.what}` can be split with --by")
    if options.at is not None and options.what != "mttf":
        raise UsageError("--at is for `show mttf`")
    if options.convention is not None and options.what != "mfu":
        raise UsageError("--convention is for `show mfu`")
    question = Question(
        by=options.by, run=options.run_id, at_gpus=options.at or CLAIMED_GPUS, convention=options.convention
    )
    with open_reader(root) as reader:
        requested = windows(reader, Period(options.cluster, options.since, options.until))
        refuse = partial(console.say, error=True)
        answer, shown = ask(reader, requested, question_of(options.what), question, report=refuse)
        explained = explain(reader, answer, shown) if options.explain else None
    rows_as = RowFormat.of(options)
    if rows_as.form != "table":
        rows_as.write(answer.rows, extra=explained and {"explain": explained})
        return 0
    if answer.shown.is_empty():
        console.say(answer.when_empty)
    else:
        spans = ", ".join(f"{w.cluster} {iso(w.since)} to {iso(w.until)}" for w in shown)
        console.table(f"{answer.title}: {spans}", answer.shown, answer.columns)
    for each in answer.notes:
        console.say(each)
    if explained is not None:
        for details in answer.details:
            console.table(details.title, details.rows, details.columns)
        console.explanation(explained)
    return 0
