"""The schedule for other schedulers, as these read it: systemd's own check, Kubernetes' published models, cron."""

from __future__ import annotations

import shutil
import subprocess
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import pytest
import yaml
from cronsim import CronSim

from app.reports.schedule.export import TimerJob, calendars, crontab, job_of, manifests, skipped_time, systemd_files
from app.reports.schedule.plan import ReportPlan
from tests.support.kubernetes.models import faults

if TYPE_CHECKING:
    from pathlib import Path

BERLIN = ZoneInfo("Europe/Berlin")
PLANS = (
    ReportPlan("monthly", "month", period_zone=BERLIN),
    ReportPlan("late", "month", cutoff_days=30),
    ReportPlan("weekly", "week", cutoff_days=3),
    ReportPlan("quarterly", "quarter", cutoff_days=14),
    ReportPlan("daily", "day", cron="30 2 * * *", zone=BERLIN),
    ReportPlan("either", "month", cron="0 6 1 * 1-5"),
    ReportPlan("sunday", "week", cron="*/20 6 * * 7"),
)
JOBS = [job_of(plan) for plan in PLANS]
COMMAND = ["/opt/a b/100%/$x/trackside", "--warehouse", '/srv/w"q']
ANALYZE = shutil.which("systemd-analyze")


@pytest.mark.skipif(ANALYZE is None, reason="no systemd-analyze here")
def test_systemd_accepts_every_unit(tmp_path: Path) -> None:
    program = tmp_path / "trackside"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    files = systemd_files(JOBS, [str(program), *COMMAND[1:]], user="root")
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    checked = subprocess.run(
        [str(ANALYZE), "verify", "--man=no", "--recursive-errors=no", *[str(tmp_path / name) for name in files]],
        capture_output=True,
        text=True,
        check=False,
    )
    ours = [line for line in checked.stderr.splitlines() if "trackside" in line]
    assert (checked.returncode, ours) == (0, [])


@pytest.mark.skipif(ANALYZE is None, reason="no systemd-analyze here")
@pytest.mark.parametrize("job", JOBS, ids=lambda job: job.name)
def test_systemd_elapses_when_cron_does(job: TimerJob) -> None:
    asked = [str(ANALYZE), "calendar", "--base-time=2026-10-20 00:00:00 UTC", "--iterations=1", *calendars(job)]
    shown = subprocess.run(asked, capture_output=True, text=True, check=True, env={"TZ": "UTC", "LC_ALL": "C"}).stdout
    found = [line.split(maxsplit=3)[-1] for line in shown.splitlines() if "Next elapse" in line or "(in UTC)" in line]
    times = [
        datetime.strptime(" ".join(line.split()[-3:-1]), "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC) for line in found
    ]
    assert min(times) == next_of(job)


def next_of(job: TimerJob) -> datetime:
    """By cronsim, the first time after the moment that systemd was asked about."""
    begin = datetime(2026, 10, 20, tzinfo=UTC).astimezone(ZoneInfo(job.zone))
    return next(CronSim(job.cron, begin)).astimezone(UTC)


def test_cron_jobs_hold_what_the_api_has() -> None:
    text = manifests(JOBS, image="registry.example/trackside:1", claim="w", config_map="c", namespace="ml")
    made = list(yaml.safe_load_all(text))
    assert [each["metadata"]["name"] for each in made] == [f"trackside-report-{plan.name}" for plan in PLANS]
    for each in made:
        job = {"apiVersion": "batch/v1", "kind": "Job", **each["spec"]["jobTemplate"]}
        assert faults(job) == []
        assert (each["apiVersion"], each["kind"], each["metadata"]["namespace"]) == ("batch/v1", "CronJob", "ml")
        assert each["spec"]["concurrencyPolicy"] in {"Allow", "Forbid", "Replace"}
        assert ZoneInfo(each["spec"]["timeZone"]).key == each["spec"]["timeZone"]
        assert len(each["spec"]["schedule"].split()) == 5
        assert len(each["metadata"]["name"]) <= 52  # Kubernetes adds eleven characters for its jobs


def test_a_crontab_line_runs_the_words_that_were_given(tmp_path: Path) -> None:
    """As cron does it: a percent sign ends the command unless it is escaped, the rest is for the shell."""
    program = tmp_path / "a b" / "trackside"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\nfor each in "$@"; do echo "$each"; done\n')
    program.chmod(0o755)
    lines = crontab(JOBS, [str(program), *COMMAND[1:], "100% $x"]).splitlines()
    line = next(each for each in lines if " monthly " in each)
    called = line.split(maxsplit=5)[5].replace("\\%", "%")
    said = subprocess.run(["/bin/sh", "-c", called], capture_output=True, text=True, check=True).stdout
    assert said.splitlines() == ["reports", "run", "monthly", *COMMAND[1:], "100% $x", "--quiet"]
    assert "%" not in line.replace("\\%", "")


def test_a_time_that_the_clocks_skip_is_named() -> None:
    now = datetime(2026, 11, 1, tzinfo=UTC)
    skipped = skipped_time(TimerJob("daily", "30 2 * * *", "Europe/Berlin"), now)
    assert skipped is not None
    assert skipped.date().isoformat() == "2027-03-28"
    assert skipped_time(TimerJob("daily", "30 6 * * *", "Europe/Berlin"), now) is None
