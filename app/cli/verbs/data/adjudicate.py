"""`trackside adjudicate`: a person overrules a cause, a node state or a run join, or withdraws that."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.cli import options as shared
from metrics.failures.classes import CLASSES

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

    from app.adjudicate.make import Done
    from app.adjudicate.requests import CauseRequest, NodeStateRequest, RunJoinRequest, WithdrawRequest
    from app.cli.options import Subparsers
    from app.config.settings import Config


EPILOG = """\
A correction takes effect with the next computation. It survives late data and reading the sources again, and is shown
beside every number that it affects. It is never erased: a withdrawal records who withdrew it, when and why. Where two
corrections are about the same thing, the later one counts. The command prints what changed: verdicts, GPU-hours by
category, interruptions.

  trackside adjudicate cause --job 4711 --class infrastructure --cause nvlink --node n03 \\
      --author "A. Person" --reason "RMA 1234: NVLink bridge replaced"
  trackside adjudicate node-state --node n03 --from 2026-10-05T08:00 --until 2026-10-05T12:00 --state maintenance \\
      --author "A. Person" --reason "firmware, agreed on 2 October"
  trackside adjudicate run-join --run llama-8b --job 4712 --author "A. Person" --reason "resumed from its checkpoint"
  trackside adjudicate list --all
  trackside adjudicate withdraw adj-0123456789 --author "A. Person" --reason "wrong node\""""


MANUAL = "how-to/corrections"
"""The page of the manual about corrections."""


def add_parser(subparsers: Subparsers) -> None:
    """Add the verb and its actions."""
    parser = shared.add_verb(
        subparsers,
        "adjudicate",
        "correct a cause, a node state or a run join, with author and reason, or withdraw a correction",
        writes=True,
        epilog=EPILOG,
        manual=MANUAL,
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION", title="actions", required=True)
    for add in (_add_cause, _add_node_state, _add_run_join, _add_withdraw, _add_list):
        add(actions)


def _add_action(actions: Subparsers, name: str, help_: str) -> argparse.ArgumentParser:
    return shared.add_verb(actions, name, help_, writes=name != "list", manual=MANUAL)


def _add_cause(actions: Subparsers) -> None:
    parser = _add_action(actions, "cause", "correct the class, cause or node of an interruption")
    parser.add_argument("--run", dest="run_id", metavar="R", help="run of the interruption (a run id or a job id)")
    _add_attempts(parser)
    parser.add_argument(
        "--class",
        dest="kind",
        choices=CLASSES,
        help="class of the interruption",
    )
    parser.add_argument("--cause", metavar="WORD", help="the cause: nvlink, node_fail, out_of_memory, ...")
    parser.add_argument("--node", metavar="NODE", help="node that caused it, one that the attempt held")
    _add_cluster(parser)
    _add_signature(parser)


def _add_node_state(actions: Subparsers) -> None:
    parser = _add_action(
        actions, "node-state", "set the state of a node for an interval, in place of the recorded states"
    )
    parser.add_argument("--node", required=True, metavar="NODE", help="the scheduler's name of the node")
    parser.add_argument("--from", dest="since", required=True, metavar="TIME", help="from (UTC)")
    parser.add_argument("--until", required=True, metavar="TIME", help="to (UTC), not included")
    parser.add_argument(
        "--state",
        required=True,
        choices=("maintenance", "down", "drained", "in_service"),
        help="maintenance (agreed), down, drained, or in_service (it was not out of service)",
    )
    _add_cluster(parser)
    _add_signature(parser)


def _add_run_join(actions: Subparsers) -> None:
    parser = _add_action(actions, "run-join", "join a job's attempts to a run, or separate them from it")
    parser.add_argument("--run", dest="to_run", required=True, metavar="R", help="the run (a run id or a job id)")
    _add_attempts(parser)
    parser.add_argument(
        "--apart", action="store_true", help="separate the attempts from the run: they become a run of their own"
    )
    _add_cluster(parser)
    _add_signature(parser)


def _add_withdraw(actions: Subparsers) -> None:
    parser = _add_action(actions, "withdraw", "withdraw a correction: the derived value counts again")
    parser.add_argument("id", metavar="ID", help="id of the correction, from `adjudicate list`")
    _add_signature(parser)


def _add_list(actions: Subparsers) -> None:
    parser = _add_action(actions, "list", "list the corrections in force")
    parser.add_argument("--all", action="store_true", help="include withdrawn corrections")
    parser.add_argument("--cluster", metavar="NAME", help="only this cluster")
    shared.add_format(parser)


def _add_attempts(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--job", metavar="J", help="job of the attempts (raw id, or as Slurm displays it)")
    parser.add_argument("--attempt", type=int, metavar="N", help="number of the attempt in its run")
    parser.add_argument("--submitted", metavar="TIME", help="time of submission (UTC), where Slurm used a job id twice")


def _add_cluster(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--cluster", metavar="NAME", help="cluster (required if there are several)")


def _add_signature(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--author", metavar="NAME", help="who makes the correction (required; there is no default)")
    parser.add_argument("--reason", metavar="TEXT", help="why (required)")
    parser.add_argument(
        "--claims",
        type=shared.path_of,
        metavar="FILE",
        help="claims whose verdicts are compared (default: those of the configuration)",
    )
    either = parser.add_mutually_exclusive_group()
    either.add_argument(
        "--no-compute", dest="compute", action="store_false", help="only store it; the next compute applies it"
    )
    either.add_argument(
        "--dry-run", action="store_true", help="only print what it would change; nothing is stored, nothing is locked"
    )


def run(options: argparse.Namespace) -> int:
    """Write a person's correction and what it changed, or list the corrections."""
    from app import console
    from app.cli.run_context import require_warehouse, settings_and_root

    settings, root = settings_and_root(options)
    require_warehouse(root)
    if options.action == "list":
        return _list(options, root)
    done = _done(options, settings, root)
    _print_changes(done, quiet=options.quiet or options.dry_run)
    if options.dry_run:
        console.echo("Nothing was stored (--dry-run).")
    return 0


def _done(options: argparse.Namespace, settings: Config, root: Path) -> Done:
    """The correction made, or with --dry-run tried on a copy."""
    from app import clock
    from app.adjudicate import make
    from app.adjudicate.requests import Signature
    from app.cli.run_context import progress
    from queries.trial import open_trial
    from queries.warehouse import open_writer

    now = clock.now()
    signature = Signature(author=options.author, reason=options.reason)
    group = settings.warehouse_group
    opened = (
        open_trial(root, now=now)
        if options.dry_run
        else open_writer(root, verb="trackside adjudicate", now=now, group=group)
    )
    with progress(quiet=options.quiet) as report, opened as writer:
        return make.adjudicate(
            writer,
            settings,
            _request(options),
            signature,
            now=now,
            compute=options.compute,
            claims_path=options.claims,
            progress=lambda what: report(what, 0, 1),
        )


def _print_changes(done: Done, *, quiet: bool) -> None:
    """Print what was done, and its effect."""
    from app import console

    console.echo(done.message)
    for line in done.effect or ():
        console.echo(f"  {line}")
    if done.effect == ():
        console.echo("  it changes no verdict, no GPU-time and no interruption")
    if done.changed and done.effect is None and not quiet:
        console.echo("Next: trackside compute", error=True)


def _request(options: argparse.Namespace) -> CauseRequest | NodeStateRequest | RunJoinRequest | WithdrawRequest:
    from app.adjudicate.requests import CauseRequest, NodeStateRequest, RunJoinRequest, WhichAttempts, WithdrawRequest

    if options.action == "withdraw":
        return WithdrawRequest(options.id)
    if options.action == "node-state":
        return NodeStateRequest(
            cluster=options.cluster,
            node=options.node,
            since=options.since,
            until=options.until,
            state=options.state,
        )
    which = WhichAttempts(job=options.job, attempt=options.attempt, submitted=options.submitted)
    if options.action == "run-join":
        return RunJoinRequest(cluster=options.cluster, run=options.to_run, which=which, apart=options.apart)
    return CauseRequest(
        cluster=options.cluster,
        run=options.run_id,
        which=which,
        kind=options.kind,
        cause=options.cause,
        node=options.node,
    )


def _list(options: argparse.Namespace, root: Path) -> int:
    from app import console
    from app.cli.rows import RowFormat
    from app.corrections import describe, records
    from queries.warehouse import open_reader

    with open_reader(root) as reader:
        read_corrections = records.read_corrections(reader, options.cluster)
    rows = describe.as_rows([each for each in read_corrections if options.all or each.counts])
    rows_as = RowFormat.of(options)
    if rows_as.form != "table":
        rows_as.write(rows)
    elif rows.is_empty():
        console.echo("There are no corrections. To make one: trackside adjudicate --help")
    else:
        console.table("", rows, describe.SHOWN | (describe.SHOWN_WITHDRAWN if options.all else {}))
    return 0
