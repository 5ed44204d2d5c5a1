"""Actions of `trackside reports` on the schedule: run, deliveries, resend."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable

    from app.config.settings import Config
    from app.reports.delivery.outbox import Delivery, MadeReport, Outbox
    from app.reports.schedule.run import Runner, ScheduledRun

RUN_EPILOG = """\
A report that is due is made once for each period, and delivered to each of its targets; what was made or delivered
before is left as it is. It is safe to run at any time, and repeatedly: timers of other schedulers call it (trackside
schedule export); `trackside serve` does the same by itself."""

RESEND_EPILOG = """\
`trackside reports deliveries` lists the keys. The same files are sent again under the same key."""


def add_actions(add: Callable[..., argparse.ArgumentParser]) -> None:
    """Add the actions; `add` takes name, help and epilog."""
    parser = add("run", "make and deliver the scheduled reports that are due", epilog=RUN_EPILOG)
    parser.add_argument("name", nargs="?", metavar="NAME", help="a report of the configuration (default: all of them)")
    parser.add_argument(
        "--period",
        metavar="PERIOD",
        help="make the report of this period, due or not; needs NAME. An unchanged report is not delivered again",
    )
    parser = add("deliveries", "list deliveries: which report went where, and which failed")
    parser.add_argument("--dead", action="store_true", help="only deliveries that were given up")
    _add_rows(parser)
    parser = add("resend", "deliver a report again, or all deliveries that were given up", epilog=RESEND_EPILOG)
    parser.add_argument("key", nargs="?", metavar="KEY", help="key of the delivery")
    parser.add_argument("--target", metavar="NAME", help="only to this target")
    parser.add_argument("--dead", action="store_true", help="all deliveries that were given up")


def _add_rows(parser: argparse.ArgumentParser) -> None:
    from app.cli.options import add_format, add_table

    add_format(parser)
    add_table(parser)


def _runner(options: argparse.Namespace) -> tuple[Config, Runner]:
    import time

    from app import clock
    from app.cli.run_context import settings_and_root
    from app.reports.schedule.assemble import runner_of

    settings, root = settings_and_root(options)
    return settings, runner_of(root, settings, now=clock.now, sleep=time.sleep)


def run(options: argparse.Namespace) -> int:
    """Make and deliver what is due.

    Raises:
        UsageError: no such report, or no such period.
        DeliveryError: something was not made, or not delivered.
    """
    from app.errors import UsageError
    from app.reports.schedule.assemble import requested_reports

    settings, runner = _runner(options)
    if options.period is not None and options.name is None:
        raise UsageError("--period needs the name of a report: trackside reports run NAME --period 2026-10")
    done = [runner.run(report, options.period) for report in requested_reports(settings, options.name)]
    if not options.quiet:
        _say(line for each in done for line in _lines(each))
    _raise_failures([line for each in done for line in _failures(each)])
    return 0


def resend(options: argparse.Namespace) -> int:
    """Deliver again.

    Raises:
        UsageError: no such report or target.
        DeliveryError: something was not delivered.
    """
    _, runner = _runner(options)
    chosen = _chosen(runner.outbox, options.key, options.target, dead=options.dead)
    done = [runner.sender.send(made, target) for made, target in chosen]
    if not options.quiet:
        _say(map(_outcome, done) if done else ["nothing was given up"])
    _raise_failures([_outcome(each) for each in done if each.outcome != "delivered"])
    return 0


def _chosen(outbox: Outbox, key: str | None, target: str | None, *, dead: bool) -> list[tuple[MadeReport, str]]:
    """Reports with the targets to send them to again."""
    from app.errors import UsageError

    made = {each.key: each for each in outbox.made()}
    if (key is None) != dead:
        raise UsageError("give the KEY of a report, or --dead for all deliveries that were given up")
    if key is not None and (key not in made or made[key].sha256 is None):
        raise UsageError(f"there is no report {key!r} to send; the keys: trackside reports deliveries")
    found = [each for each in outbox.deliveries(key) if target in {None, each.target}]
    if dead:
        found = [each for each in found if each.outcome == "dead"]
    if not found and key is not None:
        raise UsageError(f"{key} was not to be delivered {'anywhere' if target is None else f'to {target!r}'}")
    return [(made[each.key], each.target) for each in found]


def deliveries(options: argparse.Namespace) -> int:
    """List outcomes."""
    from app.cli.rows import RowFormat, row_options
    from app.cli.run_context import settings_and_root
    from app.reports.delivery.listing import listed
    from app.reports.delivery.outbox import Outbox, folder_of

    settings, root = settings_and_root(options)
    rows = listed(Outbox(folder_of(root, settings.deliver.outbox)), dead=options.dead)
    RowFormat.of(options).put(rows, row_options(options), title="deliveries of reports")
    return 0


def _lines(done: ScheduledRun) -> list[str]:
    """Outcome of a run, in words."""
    if done.busy:
        return [f"{done.report}: another process is at work on it; nothing was done"]
    lines = [f"{done.report}: made {made.period}: {made.summary} ({made.key})" for made in done.made]
    lines += [_outcome(each) for each in done.deliveries if each.outcome == "delivered"]
    lines += [f"{done.report}: waits for data: {each}" for each in done.waiting]
    return lines or ([] if done.failures or done.deliveries else [f"{done.report}: nothing is due"])


def _failures(done: ScheduledRun) -> list[str]:
    return [
        *(f"{done.report}: {each}" for each in done.failures),
        *(_outcome(each) for each in done.deliveries if each.outcome != "delivered"),
    ]


def _outcome(each: Delivery) -> str:
    if each.outcome == "delivered":
        return f"{each.key}: delivered to {each.target}{f' ({each.reason})' if each.reason else ''}"
    return f"{each.key}: not delivered to {each.target}: {each.reason}"


def _raise_failures(failures: list[str]) -> None:
    from app.errors import DeliveryError

    if failures:
        raise DeliveryError("\n".join(failures) + "\nWhat was given up is kept: trackside reports resend --dead")


def _say(lines: Iterable[str]) -> None:
    from app import console

    for line in lines:
        console.echo(line, error=True)
