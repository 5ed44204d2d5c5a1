"""`trackside schedule`: when scheduled reports are due, and timers of other schedulers for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.cli import options as shared

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from app.cli.options import Subparsers
    from app.reports.schedule.export import TimerJob

MANUAL = "how-to/schedule"

SCHEDULERS = ("systemd", "cron", "kubernetes")

EPILOG = """\
`trackside serve` runs the schedule by itself. Where it does not run, another scheduler does: each of its jobs calls
`trackside reports run NAME`, which makes what is due and delivers it once."""


def add_parser(subparsers: Subparsers) -> None:
    """Add the verb and its actions."""
    parser = shared.add_verb(
        subparsers,
        "schedule",
        "show when reports are due, or write timers for systemd, cron or Kubernetes",
        epilog=EPILOG,
        manual=MANUAL,
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION", title="actions", required=True)
    show = _add(actions, "show", "list when reports are due next")
    show.add_argument("name", nargs="?", metavar="NAME", help="only this report")
    shared.add_format(show)
    shared.add_table(show)
    export = _add(actions, "export", "write timers that run the reports, for another scheduler")
    export.add_argument("scheduler", choices=SCHEDULERS, help="kind of timer")
    export.add_argument(
        "--output", "-o", type=shared.path_of, metavar="DIR", help="write the files there (default: print)"
    )
    export.add_argument(
        "--user", default="trackside", metavar="USER", help="systemd: user of the service (default: trackside)"
    )
    export.add_argument(
        "--image", default="trackside:latest", metavar="IMAGE", help="kubernetes: image of the container"
    )
    export.add_argument(
        "--claim", default="trackside-data", metavar="NAME", help="kubernetes: PersistentVolumeClaim with the warehouse"
    )
    export.add_argument(
        "--config-map", default="trackside-config", metavar="NAME", help="kubernetes: ConfigMap with trackside.toml"
    )
    export.add_argument("--namespace", metavar="NAME", help="kubernetes: namespace (default: that of kubectl)")


def _add(actions: Subparsers, name: str, help_: str) -> argparse.ArgumentParser:
    return shared.add_verb(actions, name, help_, manual=MANUAL)


def run(options: argparse.Namespace) -> int:
    """Do one of the actions."""
    return {"show": _show, "export": _export}[options.action](options)


def _show(options: argparse.Namespace) -> int:
    import polars as pl

    from app import clock
    from app.cli.rows import RowFormat, row_options
    from app.cli.run_context import settings_and_root
    from app.reports.schedule.assemble import requested_reports
    from app.reports.schedule.make import plan_of
    from app.times import iso

    settings, _ = settings_and_root(options)
    rows = []
    for report in requested_reports(settings, options.name):
        plan = plan_of(report, settings)
        for due, period in plan.coming(clock.now()):
            local = f"{due.astimezone(plan.shown_zone):%a %Y-%m-%d %H:%M} {plan.shown_zone}"
            rows.append((report.name, period, iso(due), local, ", ".join(report.deliver)))
    names = ["report", "period", "due_at", "local", "deliver"]
    frame = pl.DataFrame(rows, schema=dict.fromkeys(names, pl.String), orient="row").sort("due_at", maintain_order=True)
    RowFormat.of(options).put(frame, row_options(options), title="when reports are due")
    return 0


def _export(options: argparse.Namespace) -> int:
    from app import clock, console
    from app.cli.run_context import settings_and_root
    from app.output_file import write_file
    from app.reports.schedule import export
    from app.reports.schedule.assemble import requested_reports
    from app.reports.schedule.make import plan_of

    settings, _ = settings_and_root(options)
    jobs = [export.job_of(plan_of(report, settings)) for report in requested_reports(settings, None)]
    files = _files(options, jobs)
    if options.output is None:
        for name, text in files.items():
            console.echo(f"# {name}\n{text}" if len(files) > 1 else text.rstrip("\n"))
    else:
        options.output.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            write_file(options.output / name, text.encode())
            console.echo(str(options.output / name), error=True)
    for job in jobs:
        if options.scheduler != "cron" and (skipped := export.skipped_time(job, clock.now())):
            console.echo(
                f"warning: {job.name}: on {skipped:%Y-%m-%d} the clocks of {job.zone} skip that time, and "
                f"{options.scheduler} leaves the run out; the next one makes up for it. Choose another time of day",
                error=True,
            )
    return 0


def _files(options: argparse.Namespace, jobs: Sequence[TimerJob]) -> dict[str, str]:
    """The files, by name."""
    from app.reports.schedule import export

    if options.scheduler == "kubernetes":
        text = export.manifests(
            jobs,
            image=options.image,
            claim=options.claim,
            config_map=options.config_map,
            namespace=options.namespace,
        )
        return {"trackside-reports.yaml": text}
    command = _command(options)
    if options.scheduler == "systemd":
        return export.systemd_files(jobs, command, user=options.user)
    return {"trackside-reports.crontab": export.crontab(jobs, command)}


def _command(options: argparse.Namespace) -> list[str]:
    """`trackside` with what every run needs: by whole paths, since a scheduler has its own folder and environment."""
    import shutil
    import sys
    from pathlib import Path

    from app.cli.run_context import settings_and_root
    from app.config import place

    program = str(Path(shutil.which("trackside") or sys.argv[0]).absolute())
    _, root = settings_and_root(options)
    config = place.config_file(options.config)
    more = [] if config is None else ["--config", str(config.resolve())]
    return [program, *more, "--warehouse", str(root.resolve())]
