"""A Slurm that is a list of jobs: its commands answer as the real ones do, at a time that the test sets."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from app.config import settings as config
from ingest.errors import SourceDownError
from ingest.slurm.commands.runner import Completed
from ingest.slurm.live import ingest as live_ingest
from ingest.slurm.load_files import Options
from ingest.slurm.settings import Slurm
from ingest.store.report import first_error
from queries.warehouse import open_reader, open_writer
from tests.support.slurm.parsing import DATA

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    import polars as pl

    from ingest.load_warnings import LoadWarning
    from ingest.store.report import LoadReport

BORN = datetime(2026, 1, 1, tzinfo=UTC)
COLUMNS = (DATA / "columns.sacct-e.txt").read_text(encoding="utf-8").split()
DENIED = Completed(1, b"", b"Access/permission denied")
AWAY = Completed(1, b"", b"sacct: error: slurm_persist_conn_open_without_init: failed to open connection")


@dataclass
class Job:
    """A job with what will happen to it. Never eligible: held, or waiting for another job."""

    id: int
    submit: datetime
    start: datetime | None = None
    end: datetime | None = None
    state: str = "COMPLETED"
    eligible: bool = True

    def row(self, now: datetime) -> dict[str, str]:
        """What sacct knows of it at that time."""
        started = self.start is not None and self.start <= now
        ended = self.end is not None and self.end <= now
        return {
            "JobID": str(self.id),
            "JobIDRaw": str(self.id),
            "DBIndex": str(self.id),
            "Cluster": "c1",
            "Partition": "main",
            "User": "alice",
            "Account": "lab",
            "UID": "2001",
            "Submit": epoch(self.submit),
            "Eligible": epoch(self.submit) if self.eligible else "Unknown",
            "Start": epoch(self.start) if self.start and started else "None" if ended else "Unknown",
            "End": epoch(self.end) if self.end and ended else "Unknown",
            "State": self.state if ended else "RUNNING" if started else "PENDING",
            "ExitCode": "0:0",
            "NNodes": "1",
            "AllocTRES": "cpu=1,gres/gpu=8,node=1" if started else "",
            "NodeList": "n1" if started else "None assigned",
            "JobName": "train",
        }

    def in_window(self, since: datetime, until: datetime, now: datetime) -> bool:
        """Whether sacct shows it for that window: what was never eligible is not in any."""
        ended = self.end is not None and self.end <= now
        return self.eligible and self.submit < until and not (ended and self.end is not None and self.end < since)


def epoch(moment: datetime) -> str:
    """As SLURM_TIME_FORMAT=%s prints it."""
    return str(int(moment.timestamp()))


@dataclass
class FakeSlurm:
    """A runner. `failing` may answer in place of any command, or raise."""

    jobs: list[Job]
    now: datetime
    failing: Callable[[list[str]], Completed | None] = lambda _: None
    columns: list[str] = field(default_factory=lambda: list(COLUMNS))
    min_job_age: int = 300
    uid: int = 0
    admin_level: str = "None"
    private_data: str = "none"
    born: datetime = BORN
    step: dict[str, str] | None = None
    commands: list[list[str]] = field(default_factory=list)

    def __call__(self, command: list[str], _: Mapping[str, str]) -> Completed:
        self.commands.append(command)
        failed = self.failing(command)
        if failed is not None:
            return failed
        if command == ["sacct", "-e"]:
            return Completed(0, " ".join(self.columns).encode(), b"")
        if command[0] == "sacct":
            return Completed(0, self._sacct(command), b"")
        output = " ".join(command)
        name = value(command, "-M") if "-M" in command else "c1"
        result = [text for words, text in self._answers(name).items() if words in output]
        return Completed(0, result[0].encode(), b"") if result else DENIED

    def _answers(self, name: str) -> dict[str, str]:
        header = "Cluster|NodeName|TimeStart|TimeEnd|State|StateRaw|Reason|User"
        return {
            "sacctmgr show config": f"PrivateData = none\n\nPrivateData = {self.private_data}\n",
            "id -un": "alice\n",
            "id -u": f"{self.uid}\n",
            "show user alice format=AdminLevel": f"{self.admin_level}\n",
            "show config": f"ClusterName = {name}\nMinJobAge = {self.min_job_age} sec\n",
            "show event": f"{header}\nc1||{epoch(self.born)}|Unknown|||Cluster Registered TRES|\n",
            "show reservation -o": "No reservations in the system\n",
            "show node": "NodeName=n1 State=IDLE CfgTRES=cpu=8,gres/gpu=8\n",
        }

    def _sacct(self, command: list[str]) -> bytes:
        names = value(command, "-o").split(",")
        there = [job for job in self.jobs if job.submit <= self.now]
        if "-j" in command:
            requested = value(command, "-j").split(",")
            rows = [job for job in there if str(job.id) in requested]
        else:
            low, high = window(command)
            rows = [job for job in there if job.in_window(low, high, self.now)]
        cells = [job.row(self.now) for job in rows]
        if self.step is not None:
            cells += [
                each | dict.fromkeys(("JobID", "JobIDRaw"), f"{each['JobID']}.batch") | self.step for each in cells
            ]
        lines = [names, *([each.get(name, "") for name in names] for each in cells)]
        return ("\n".join("\x1f".join(line) for line in lines) + "\n").encode()

    def windows(self) -> list[tuple[datetime, datetime]]:
        """The windows that sacct was asked for."""
        return [window(command) for command in self.commands if command[0] == "sacct" and "-S" in command]

    def requested_ids(self) -> list[str]:
        """The job ids that sacct was asked for."""
        return [
            job
            for command in self.commands
            if command[0] == "sacct" and "-j" in command
            for job in value(command, "-j").split(",")
        ]


def value(command: list[str], option: str) -> str:
    """What follows an option."""
    return command[command.index(option) + 1]


def window(command: list[str]) -> tuple[datetime, datetime]:
    """The window of a sacct command."""
    low, high = (datetime.fromisoformat(value(command, option)).replace(tzinfo=UTC) for option in ("-S", "-E"))
    return low, high


@dataclass
class LiveReports:
    """What an ingest said: reports, notes, and how long it waited."""

    reports: list[LoadReport]
    notes: list[str]
    waits: list[float]

    @property
    def warnings(self) -> list[LoadWarning]:
        """The warnings of all reports that the load before did not give."""
        return [warning for report in self.reports for warning in report.fresh]

    @property
    def error(self) -> Exception | None:
        """What failed first."""
        return first_error(self.reports)


def ingest(
    root: Path,
    slurm: FakeSlurm,
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    again: bool = False,
    **settings: object,
) -> LiveReports:
    """One live ingest at the fake's time; nothing waits."""
    section = Slurm.model_validate({"pause_s": 0, **settings})
    notes: list[str] = []
    waits: list[float] = []
    slurm.commands.clear()
    with open_writer(root, verb="test", now=slurm.now) as writer:
        reports = live_ingest.ingest_live(
            writer,
            config.Config(slurm=section),
            Options(since=since, until=until),
            now=slurm.now,
            runner=slurm,
            progress=lambda *_: None,
            notify=notes.append,
            sleep=waits.append,
            again=again,
        )
    return LiveReports(reports, notes, waits)


TABLES = ("attempts", "attempt_nodes", "node_states", "cluster_settings", "rejects")


def tables(root: Path) -> dict[str, list[tuple[object, ...]]]:
    """The rows of all tables that accounting and events feed, in one order."""
    with open_reader(root) as reader:
        return {name: sorted(reader.table(name).rows(), key=repr) for name in TABLES}


def table(root: Path, name: str) -> pl.DataFrame:
    """One table or view."""
    with open_reader(root) as reader:
        return reader.table(name)


def hours(number: float) -> timedelta:
    """So many hours."""
    return timedelta(hours=number)


def days(number: float) -> timedelta:
    """So many days."""
    return timedelta(days=number)


def whole(moment: datetime) -> datetime:
    return moment.replace(microsecond=0)


def many(number: int, *, since: datetime, until: datetime, seed: int = 1) -> list[Job]:
    """Jobs of all lengths, some of which never start."""
    chance = random.Random(seed)
    actual = []
    for each in range(number):
        submit = since + (until - since) * chance.random()
        start = submit + hours(chance.choice([0, 1, 30]))
        end = start + hours(chance.choice([0.1, 5, 100]))
        if chance.random() < 0.2:
            actual.append(Job(each + 1, whole(submit), None, whole(start), "CANCELLED"))
        else:
            actual.append(Job(each + 1, whole(submit), whole(start), whole(end)))
    return actual


def states(root: Path) -> dict[str, str]:
    return dict(table(root, "attempts").select("job_id", "state").iter_rows())


def commands_with(slurm: FakeSlurm, *words: str) -> list[str]:
    """The commands with all of these words."""
    return [" ".join(command) for command in slurm.commands if set(words) <= set(command)]


def start(moment: datetime) -> str:
    """As a question to sacctmgr says it."""
    return f"Start={moment:%Y-%m-%dT%H:%M:%S}"


def hung(command: list[str]) -> Completed | None:
    raise SourceDownError(command, None, "")


def when(fails: Callable[[datetime, datetime], bool], answer: Completed) -> Callable[[list[str]], Completed | None]:
    """Answers so for windows of which that is true."""

    def failing(command: list[str]) -> Completed | None:
        return answer if "-S" in command and fails(*window(command)) else None

    return failing
