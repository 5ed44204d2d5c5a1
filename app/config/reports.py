"""Reports that are made and delivered on a schedule."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

from cronsim import CronSim, CronSimError
from pydantic import AfterValidator, Field

from app.config.deliver import KINDS, USER
from app.config.forms import Form
from app.config.zone import Zone
from ingest.settings import SettingsSection


def _cron(text: str) -> str:
    """An expression of five fields that comes due at some time."""
    shown = 'write it like "0 6 8 * *": minute, hour, day of the month, month, day of the week'
    if len(text.split()) != 5:
        message = f"not the five fields of cron; {shown}"
        raise ValueError(message)
    day, weekday = text.split()[2], text.split()[4].upper()
    if {*day.upper()} & {*"LW#"} or weekday.endswith("L") or "#" in weekday:
        message = "L, W and # are not known to every scheduler; write days as numbers"
        raise ValueError(message)
    if weekday != "*" and day != "*" and "*" in {weekday[0], day[0]}:
        message = f"{day} and {weekday}: schedulers differ on a step of days together with a day of the week; use one"
        raise ValueError(message)
    try:
        next(CronSim(text, _EPOCH))
    except CronSimError as error:
        reason = str(error)
        message = f"{reason[:1].lower()}{reason[1:]} in a cron expression; {shown}"
        raise ValueError(message) from None
    except StopIteration:
        message = f"names a day that never comes; {shown}"
        raise ValueError(message) from None
    return " ".join(text.split())


_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)

Cron = Annotated[str, AfterValidator(_cron)]
ReportName = Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9-]{0,32}[a-z0-9])?$")]
PeriodKind = Literal["day", "week", "month", "quarter"]


class ScheduledReport(SettingsSection):
    """A report for each period of the calendar, made once when it is due, and delivered."""

    name: ReportName = Field(description="its name: small letters, digits and hyphens")
    what: Literal["sla", "digest"] = Field(
        default="sla", description="sla: the objectives and their verdicts; digest: what a user or a run held and lost"
    )
    user: str | None = Field(default=None, min_length=1, description="of a digest: the user that it is about ...")
    run: str | None = Field(default=None, min_length=1, description="... or the run ...")
    users: Literal["all"] | None = Field(
        default=None, description='... or "all": a digest of its own for each user that held GPUs in the period'
    )
    opt_out: tuple[str, ...] = Field(default=(), description='with `users = "all"`: users who get none')
    period: PeriodKind = Field(default="month", description="the period of each: day, week (ISO), month or quarter")
    cluster: str | None = Field(default=None, description="the cluster; needed where there are several")
    claims: Path | None = Field(default=None, description="claims file; none: `claims` at the top")
    forms: tuple[Form, ...] = Field(
        default=("pdf", "json"), min_length=1, description="forms that are delivered: html, json, pdf, md, csv"
    )
    cron: Cron | None = Field(
        default=None,
        description="when: minute, hour, day of the month, month, day of the week. The report is on the last period "
        "that has ended then. None: 06:00 on the day of the contract's cut-off (`cutoff_days` after the period)",
    )
    zone: Zone | None = Field(default=None, description="zone of `cron`; none: the contract's, else UTC")
    catch_up: int = Field(
        default=3, ge=1, le=24, description="after an outage at most so many of the newest periods are made up for"
    )
    deliver: tuple[str, ...] = Field(default=(), description="names of targets; none: it is only kept")

    def beside(self, folder: Path) -> ScheduledReport:
        """The same with its claims file relative to a folder."""
        return self if self.claims is None else self.model_copy(update={"claims": folder / self.claims})


def cross_mistakes(values: dict[str, Any]) -> list[str]:
    """Mistakes between reports and targets, in values as they came from TOML, whatever other mistakes they have."""
    reports = _tables(values.get("reports"))
    deliver = values.get("deliver")
    of_kind = {kind: _tables(deliver.get(kind)) for kind in KINDS} if isinstance(deliver, dict) else {}
    targets = [target for tables in of_kind.values() for target in tables]
    names = {target.get("name") for target in targets if isinstance(target.get("name"), str)}
    found = [f"reports: {name!r} is the name of {count} reports" for name, count in _doubles(reports)]
    found += [f"deliver: {name!r} is the name of {count} targets" for name, count in _doubles(targets)]
    of_users = {target.get("name") for target in targets if USER in str([target.get("to"), target.get("path")])}
    mails = {mail.get("name"): _texts(mail.get("attach", ["pdf"])) for mail in of_kind.get("smtp", [])}
    for report in reports:
        label = f"reports: {report.get('name')!r}"
        deliveries = _texts(report.get("deliver"))
        known = ", ".join(sorted(map(str, names))) or "none"
        found += [
            f"{label} is delivered to {each!r}, which is no target; known: {known}"
            for each in deliveries
            if each not in names
        ]
        found += _subject_mistakes(label, report)
        found += [
            f"{label} is about no user, but the target {each!r} has {USER} in it: that is for a digest of a user"
            for each in deliveries
            if each in of_users and not {"user", "users"} & report.keys()
        ]
        forms = _texts(report.get("forms", ["pdf", "json"]))
        found += [
            f"{label} has no form {form!r}, which {each!r} attaches: add it to the report's forms"
            for each in deliveries
            for form in mails.get(each, ())
            if form not in forms
        ]
        found += [f"{label} is delivered to {each!r} twice" for each, count in Counter(deliveries).items() if count > 1]
    return found


def _subject_mistakes(label: str, report: dict[str, Any]) -> list[str]:
    """A digest is about one user, one run or every user, another report about none."""
    given = [name for name in ("user", "run", "users") if report.get(name) is not None]
    left_out = report.get("opt_out") is not None
    if report.get("what", "sla") == "digest":
        found = [] if len(given) == 1 else [f"{label} is a digest: it takes one of user, run and users"]
        only = [f'{label} has opt_out, which is for users = "all"'] if left_out and "users" not in given else []
        return [*found, *only]
    given += ["opt_out"] if left_out else []
    return [f'{label} takes no {name}: that is for a digest (what = "digest")' for name in given]


def _tables(value: object) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _texts(value: object) -> list[str]:
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


def _doubles(tables: list[dict[str, Any]]) -> list[tuple[str, int]]:
    names = Counter(name for each in tables if isinstance(name := each.get("name"), str))
    return [(name, count) for name, count in names.items() if count > 1]
