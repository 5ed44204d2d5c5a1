"""The schedule for other schedulers: systemd, cron, Kubernetes. Each runs one command, which makes what is due."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, cast
from zoneinfo import ZoneInfo

import yaml
from cronsim import CronSim

from app.reports.schedule.plan import HOUR

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import tzinfo

    from app.reports.schedule.plan import ReportPlan

_DAYS: Final = ("Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat")
_ANY: Final = datetime(2000, 1, 1)  # noqa: DTZ001 - only its fields are read


@dataclass(frozen=True)
class TimerJob:
    """A report's run, for another scheduler.

    Attributes:
        name: of the report.
        cron: when.
        zone: of `cron`.
        exact: False where it runs each day, because cron cannot name the days; the command makes what is due.
    """

    name: str
    cron: str
    zone: str
    exact: bool = True

    @property
    def unit(self) -> str:
        """Name of its unit, or of its CronJob."""
        return f"trackside-report-{self.name}"


def job_of(plan: ReportPlan) -> TimerJob:
    """The run of a report, its times as a cron expression.

    >>> from app.reports.schedule.plan import ReportPlan
    >>> job_of(ReportPlan("monthly", "month")).cron, job_of(ReportPlan("weekly", "week", cutoff_days=3)).cron
    ('0 6 8 * *', '0 6 * * 4')
    """
    if plan.cron is not None:
        return TimerJob(plan.name, _portable(plan.cron), _name_of(plan.zone))
    zone, hour, days = _name_of(plan.period_zone), HOUR.hour, plan.cutoff_days
    if plan.kind == "week":
        return TimerJob(plan.name, f"0 {hour} * * {(days + 1) % 7}", zone)
    if plan.kind == "day":
        return TimerJob(plan.name, f"0 {hour} * * *", zone)
    if days < 28:  # a day that every month has
        months = "*" if plan.kind == "month" else "1,4,7,10"
        return TimerJob(plan.name, f"0 {hour} {days + 1} {months} *", zone)
    return TimerJob(plan.name, f"0 {hour} * * *", zone, exact=False)


def _portable(cron: str) -> str:
    """The expression with days of the week from 0 to 6: not every scheduler accepts 7 as Sunday.

    >>> _portable("0 6 * * 5-7"), _portable("0 6 * * MON-FRI")
    ('0 6 * * 0,5,6', '0 6 * * MON-FRI')
    """
    *others, weekday = cron.split()
    if "7" in weekday:
        weekday = ",".join(map(str, _weekdays(CronSim(cron, _ANY)))) or "*"
    return " ".join([*others, weekday])


def _name_of(zone: tzinfo) -> str:
    return str(getattr(zone, "key", "UTC"))


def words_of(job: TimerJob, command: Sequence[str]) -> list[str]:
    """The words of the command that a scheduler runs.

    >>> words_of(TimerJob("monthly", "0 6 8 * *", "UTC"), ["/usr/bin/trackside", "--config", "/etc/trackside.toml"])
    ['/usr/bin/trackside', 'reports', 'run', 'monthly', '--config', '/etc/trackside.toml']
    """
    program, *more = command
    return [program, "reports", "run", job.name, *more]


# systemd ---------------------------------------------------------------------------------------------------------


def systemd_files(jobs: Sequence[TimerJob], command: Sequence[str], *, user: str) -> dict[str, str]:
    """A service and a timer for each report, by name of the file.

    Args:
        jobs: the runs.
        command: `trackside`, and the options of every run.
        user: who runs it: must be able to read the warehouse, and write beside it.
    """
    files: dict[str, str] = {}
    for job in jobs:
        called = " ".join(_systemd_quoted(word) for word in words_of(job, command))
        files[f"{job.unit}.service"] = _SERVICE.format(name=job.name, user=user, command=called)
        times = "\n".join(f"OnCalendar={each}" for each in calendars(job))
        files[f"{job.unit}.timer"] = _TIMER.format(name=job.name, times=times, note=_note(job))
    return files


_SERVICE: Final = """\
[Unit]
Description=Trackside: report {name}
Wants=network-online.target
After=network-online.target

[Service]
Type=oneshot
User={user}
ExecStart={command}
# Secrets that the configuration names by *_env, as NAME=value in a file that only root reads:
EnvironmentFile=-/etc/trackside/secrets.env
"""

_TIMER: Final = """\
[Unit]
Description=Trackside: when the report {name} is due
{note}
[Timer]
{times}
Persistent=true

[Install]
WantedBy=timers.target
"""


def _note(job: TimerJob) -> str:
    return "" if job.exact else "# Each day: the command makes the report when it is due, and otherwise nothing.\n"


def _systemd_quoted(word: str) -> str:
    """A word of ExecStart: percent and dollar signs are systemd's own, blanks need quotes."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{escaped}"' if any(each.isspace() for each in word) or not word else escaped


def calendars(job: TimerJob) -> list[str]:
    """The times of a run as systemd's calendar events.

    Where an expression names days of the month and of the week, cron means either: that is two events.

    >>> calendars(TimerJob("a", "30 6 8 * *", "Europe/Berlin"))
    ['*-*-08 06:30:00 Europe/Berlin']
    >>> calendars(TimerJob("a", "0 6 1 * 1", "UTC"))
    ['*-*-01 06:00:00 UTC', 'Mon *-*-* 06:00:00 UTC']
    """
    parsed = CronSim(job.cron, _ANY)
    clock = f"{_listed(parsed.hours, 24)}:{_listed(parsed.minutes, 60)}:00 {job.zone}"
    months, days = _listed(parsed.months, 12), _listed(parsed.days, 31)
    names = ",".join(_DAYS[day] for day in _weekdays(parsed))
    if not names or days == "*":
        return [f"{f'{names} ' if names else ''}*-{months}-{days} {clock}"]
    return [f"*-{months}-{days} {clock}", f"{names} *-{months}-* {clock}"]


def _weekdays(parsed: CronSim) -> list[int]:
    """Days of the week from 0, Sunday; none where all are meant."""
    found = sorted({cast("int", day) % 7 for day in parsed.weekdays})
    return [] if len(found) == 7 else found


def _listed(numbers: Iterable[int], whole: int) -> str:
    found = sorted(numbers)
    return "*" if len(found) == whole else ",".join(f"{number:02}" for number in found)


# cron ------------------------------------------------------------------------------------------------------------


def crontab(jobs: Sequence[TimerJob], command: Sequence[str]) -> str:
    """Lines of a crontab, in turn for each zone.

    Args:
        jobs: the runs.
        command: as above.
    """
    lines = [
        "# Reports of Trackside. cronie (RHEL, Fedora, Arch) supports CRON_TZ; the cron of Debian and Ubuntu ignores",
        "# it and runs lines by the machine's own time: there, use systemd timers, or set the times in that zone.",
        "# Each line makes what is due and was not made, so a missed run is made up for by the next one.",
    ]
    for zone in dict.fromkeys(job.zone for job in jobs):
        lines += ["", f"CRON_TZ={zone}"]
        for job in jobs:
            if job.zone == zone:
                lines += [] if job.exact else ["# each day: the command makes the report when it is due"]
                lines.append(f"{job.cron} {_called(command, job)}")
    return "\n".join(lines) + "\n"


def _called(command: Sequence[str], job: TimerJob) -> str:
    """The command of a line; cron ends it at a percent sign that is not escaped."""
    return shlex.join([*words_of(job, command), "--quiet"]).replace("%", "\\%")


# Kubernetes ------------------------------------------------------------------------------------------------------


def manifests(jobs: Sequence[TimerJob], *, image: str, claim: str, config_map: str, namespace: str | None) -> str:
    """A CronJob for each report, as YAML.

    Args:
        jobs: the runs.
        image: the container's image with Trackside.
        claim: the PersistentVolumeClaim with the warehouse, at /data: its folder /data/warehouse.
        config_map: the ConfigMap with trackside.toml and the claims.
        namespace: of all; None: kubectl's own.
    """
    made = [_cron_job(job, image=image, claim=claim, config_map=config_map, namespace=namespace) for job in jobs]
    return str(yaml.safe_dump_all(made, sort_keys=False))


def _cron_job(job: TimerJob, *, image: str, claim: str, config_map: str, namespace: str | None) -> dict[str, Any]:
    labels = {"app.kubernetes.io/name": "trackside", "app.kubernetes.io/component": "report"}
    metadata: dict[str, Any] = {"name": job.unit, "labels": labels}
    metadata |= {} if namespace is None else {"namespace": namespace}
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": metadata,
        "spec": {
            "schedule": job.cron,
            "timeZone": job.zone,
            "concurrencyPolicy": "Forbid",
            "startingDeadlineSeconds": 3600,
            "successfulJobsHistoryLimit": 3,
            "failedJobsHistoryLimit": 3,
            "jobTemplate": {"spec": _job_spec(job, labels, image=image, claim=claim, config_map=config_map)},
        },
    }


def _job_spec(job: TimerJob, labels: dict[str, str], *, image: str, claim: str, config_map: str) -> dict[str, Any]:
    arguments = ["--config", "/etc/trackside/trackside.toml", "--warehouse", "/data/warehouse"]
    container = {
        "name": "report",
        "image": image,
        "command": ["trackside", "reports", "run", job.name, *arguments],
        "envFrom": [{"secretRef": {"name": "trackside-secrets", "optional": True}}],
        "volumeMounts": [
            {"name": "data", "mountPath": "/data"},
            {"name": "config", "mountPath": "/etc/trackside", "readOnly": True},
        ],
    }
    volumes = [
        {"name": "data", "persistentVolumeClaim": {"claimName": claim}},
        {"name": "config", "configMap": {"name": config_map}},
    ]
    pod = {"restartPolicy": "Never", "containers": [container], "volumes": volumes}
    return {"backoffLimit": 2, "template": {"metadata": {"labels": {**labels}}, "spec": pod}}


# Clock changes ---------------------------------------------------------------------------------------------------


def skipped_time(job: TimerJob, now: datetime) -> datetime | None:
    """The next of a run's times, within three years, that the clocks skip; None: there is none.

    systemd and Kubernetes leave such a run out. `serve` and Debian's cron run it right after.
    """
    parsed, zone = CronSim(job.cron, _ANY), ZoneInfo(job.zone)
    for tick in CronSim(job.cron, now.astimezone(zone)):
        if tick - now > timedelta(days=3 * 366):
            return None
        if tick.hour not in parsed.hours or tick.minute not in parsed.minutes:
            return tick
    return None
