"""People, rules and the scheduler's state on a real Slurm: what the test did with sacctmgr is what Trackside tells.

The truth is what the test asked sacctmgr and sbatch for, and when.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from app.results.people.use import coordinator_rows
from app.window import Window
from queries.warehouse import open_reader
from tests.lab.processes import now
from tests.lab.scenario.played import played
from tests.support.command import trackside_on

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.lab import SlurmLab

pytestmark = [pytest.mark.lab, pytest.mark.xdist_group("lab")]

QUICK = ("-p", "main", "-n1", "--gres=gpu:1", "-t", "5")
LOST, SIBLING = 900_001, (2 << 26) + 9
"""Ids of a job whose end was lost, and of a federated job that another cluster ran; no job of the lab comes near."""

RUNNING, REVOKED = 1, 0x80000
_COLUMNS = (
    "mod_time account cpus_req job_name id_assoc id_array_job id_array_task id_job id_qos id_resv id_wckey id_user "
    "id_group het_job_id het_job_offset state_reason_prev mem_req nodelist nodes_alloc node_inx `partition` priority "
    "state timelimit time_submit time_eligible time_start time_end work_dir tres_alloc tres_req exit_code flags"
)


@dataclass(frozen=True)
class Span:
    """When a command was given and when it was done, in epoch seconds."""

    begin: float
    end: float

    def has(self, moment: datetime | None) -> bool:
        """Whether a time cut to whole seconds lies within."""
        return moment is not None and int(self.begin) <= moment.timestamp() <= self.end


@dataclass(frozen=True)
class Scenario:
    """What was done when, and the warehouse that was made of it."""

    lab: SlurmLab
    warehouse: Path
    did: dict[str, Span]
    jobs: dict[str, int]
    ingested: Span

    def row(self, table: str, **which: object) -> dict[str, Any]:
        """The one row of a table with these values."""
        with open_reader(self.warehouse) as reader:
            [row] = reader.table(table).filter(**which).to_dicts()
        return row


def timed(lab: SlurmLab, *change: str) -> Span:
    """One change of the accounts, and when it was made."""
    begin = now()
    lab.sacctmgr("-i", *change)
    return Span(begin, now())


def put_job(lab: SlurmLab, job: int, state: int, start: int, end: int) -> None:
    """A row of accounting that slurmctld knows nothing of."""
    noted = int(now())
    values = (
        f"{noted},'llm',1,'row',1,0,4294967294,{job},1,0,0,2001,2001,0,4294967294,0,0,'None assigned',1,'0','main',1,"
        f"{state},30,{start},{start},{start},{end},'/tmp','','1=1,4=1,1001=8',0,0"
    )
    names = ",".join(_COLUMNS.split())
    statement = f"INSERT INTO bench_job_table ({names}) VALUES ({values})"
    sql(lab, statement)


def sql(lab: SlurmLab, statement: str) -> str:
    socket = str(lab.layout.mariadb_socket)
    return lab.run(["mariadb", "-N", "-S", socket, "-uroot", "slurm_acct_db", "-e", statement]).stdout


@pytest.fixture(scope="module")
def scenario(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scenario]:
    with played(lambda lab: _play(lab, tmp_path_factory)) as scenario:
        yield scenario


def _play(lab: SlurmLab, tmp_path_factory: pytest.TempPathFactory) -> Scenario:
    did = {}
    jobs = {"first": lab.sbatch("sleep 1", *QUICK), "second": lab.sbatch("sleep 1", *QUICK)}
    did["account"] = timed(
        lab, "add", "account", "robots", "parent=research", "Cluster=bench", "Description=a|b",
        "GrpTRES=gres/gpu=16", "MaxWall=1-00:00:00",
    )  # fmt: skip
    did["user"] = timed(lab, "add", "user", "dave", "Account=robots", "MaxJobs=10", "Fairshare=7")
    did["stranger"] = timed(lab, "add", "user", "eve", "Account=robots", "Partition=main")
    did["qos"] = timed(
        lab, "add", "qos", "urgent", "Priority=1000", "Preempt=normal,capped", "PreemptMode=requeue", "GraceTime=90",
        "UsageFactor=2.5", "Flags=DenyOnLimit", "MaxTRESPerUser=gres/gpu=4",
    )  # fmt: skip
    did["level"] = timed(lab, "modify", "user", "where", "name=alice", "set", "AdminLevel=Operator")
    did["coordinator"] = timed(lab, "add", "coordinator", "Accounts=research", "Names=dave")
    for change in ("add", "delete"):
        did[f"{change} another"] = timed(lab, change, "coordinator", "Accounts=robots", "Names=eve")
    begin = now()
    jobs["of the new user"] = lab.sbatch("sleep 1", *QUICK, "-A", "robots", user="dave")
    did["submission"] = Span(begin, now())
    jobs["cancelled"] = lab.sbatch("sleep 300", *QUICK)
    lab.wait_for(jobs["cancelled"], "RUNNING")
    lab.scancel(jobs["cancelled"])
    for job in jobs.values():
        lab.wait_for(job)
    put_job(lab, LOST, RUNNING, int(begin) - 60, 0)
    put_job(lab, SIBLING, REVOKED, int(begin) - 60, int(begin) - 30)
    warehouse = tmp_path_factory.mktemp("accounts") / "w"
    begin = now()
    trackside_on(lab, warehouse, "ingest", "slurm")
    return Scenario(lab, warehouse, did, jobs, Span(begin, now()))


def test_new_user_has_the_observed_provisioning_and_submission(
    scenario: Scenario,
) -> None:
    dave = scenario.row("users", user="dave", account="robots")
    assert scenario.did["user"].has(dave["provisioned_at"])
    assert scenario.did["submission"].has(dave["first_job_at"])
    job = scenario.row("attempts", job_id=str(scenario.jobs["of the new user"]))
    assert dave["first_job_at"] == job["submitted_at"]
    assert dave["admin_level"] == "Operator"  # since the lab was made
    assert dave["association"] == number_of(scenario.lab, "dave", "robots")


def number_of(lab: SlurmLab, user: str, account: str) -> str:
    shown = lab.sacctmgr("-nP", "show", "assoc", f"Users={user}", f"Accounts={account}", "Format=ID")
    return shown.strip()


def test_a_user_who_never_submitted_has_no_first_job(scenario: Scenario) -> None:
    eve = scenario.row("users", user="eve")
    assert (eve["account"], eve["admin_level"], eve["first_job_at"]) == ("robots", "None", None)
    assert scenario.did["stranger"].has(eve["provisioned_at"])
    old = scenario.row("users", user="dave", account="ops")
    assert old["first_job_at"] is None
    assert old["provisioned_at"] < eve["provisioned_at"]


def test_of_several_jobs_the_first_submission_counts(scenario: Scenario) -> None:
    alice = scenario.row("users", user="alice")
    first = scenario.row("attempts", job_id=str(scenario.jobs["first"]))
    assert alice["first_job_at"] == first["submitted_at"]
    assert alice["admin_level"] == "Operator"


def test_limits_are_as_they_were_set(scenario: Scenario) -> None:
    robots = scenario.row("associations", account="robots", user="")
    assert (robots["parent"], robots["limits"]) == ("research", ["GrpTRES=gres/gpu=16", "MaxWall=1-00:00:00"])
    assert scenario.ingested.has(robots["first_seen_at"])
    dave = scenario.row("associations", account="robots", user="dave")
    assert (dave["fairshare"], dave["qos"]) == ("7", ["normal"])
    assert dave["limits"] == ["MaxJobs=10", "MaxWall=1-00:00:00"]  # the second is its account's
    assert scenario.row("associations", user="eve")["partition"] == "main"


def test_a_quality_of_service_is_as_it_was_made(scenario: Scenario) -> None:
    urgent = scenario.row("qos", name="urgent")
    assert {name: urgent[name] for name in ("priority", "preempt_mode", "usage_factor", "grace_s")} == {
        "priority": 1000, "preempt_mode": "requeue", "usage_factor": 2.5, "grace_s": 90.0,
    }  # fmt: skip
    assert sorted(urgent["preempts"]) == ["capped", "normal"]
    assert (urgent["flags"], urgent["limits"]) == (["DenyOnLimit"], ["MaxTRESPerUser=gres/gpu=4"])


def test_every_change_has_its_author_and_time(scenario: Scenario) -> None:
    changes = {"account": ("Add Accounts", "robots"), "qos": ("Add QOS", "urgent"), "stranger": ("Add Users", "eve")}
    for what, (action, subject) in changes.items():
        row = scenario.row("transactions", action=action, subject=subject)
        assert (row["actor"], row["cluster"]) == ("root", "bench")
        assert scenario.did[what].has(row["ts"])
    assert scenario.did["level"].has(scenario.row("transactions", action="Modify Users")["ts"])
    account = scenario.row("transactions", action="Add Accounts", subject="robots")
    assert "description='a|b'" in account["detail"]


def test_coordinators_are_those_of_changes_and_lists(scenario: Scenario) -> None:
    """Slurm lists accounts below the one that a user was made coordinator of, too."""
    added = scenario.row("transactions", action="Add Account Coord", subject="dave")
    assert (added["detail"], scenario.did["coordinator"].has(added["ts"])) == ("research", True)
    with open_reader(scenario.warehouse) as reader:
        rows = (
            coordinator_rows(
                reader, Window("bench", datetime(2026, 1, 1, tzinfo=UTC), datetime.fromtimestamp(now(), UTC))
            )
            .select("user", "account")
            .rows()
        )
        listed = reader.frame('SELECT "user", account FROM coordinators ORDER BY ALL').rows()
    assert ("dave", "research") in rows
    assert {user for user, _ in rows} == {"dave"}
    assert ("eve", "") in listed
    assert set(rows) <= set(listed)


def test_the_scheduler_counts_the_jobs_that_the_test_submitted(scenario: Scenario) -> None:
    def stat(name: str) -> float:
        row = scenario.row("scheduler_stats", section="general", name=name)
        assert scenario.ingested.has(row["ts"])
        return float(row["value"])

    assert stat("Jobs submitted") == stat("Jobs started") == len(scenario.jobs)
    assert stat("Jobs canceled") == 1
    assert stat("Jobs completed") == len(scenario.jobs) - 1
    assert stat("Jobs pending") == stat("DBD Agent queue size") == 0
    with open_reader(scenario.warehouse) as reader:
        numbers = reader.table("scheduler_stats")
    batch = numbers.filter(section="rpc", name="REQUEST_SUBMIT_BATCH_JOB count")
    assert batch["value"].to_list() == [len(scenario.jobs)]
    assert not numbers["name"].str.contains("alice|dave").any()


def test_only_the_lost_job_is_runaway_and_listing_fixes_nothing(scenario: Scenario) -> None:
    lost = scenario.row("runaway_jobs")
    assert (lost["job_id"], lost["state"]) == (str(LOST), "RUNNING")
    assert scenario.ingested.has(lost["first_seen_at"])
    there = sql(scenario.lab, f"SELECT state, time_end, deleted FROM bench_job_table WHERE id_job = {LOST}")
    assert there.split() == ["1", "0", "0"]


def test_the_shadow_of_a_federated_job_holds_nothing(scenario: Scenario) -> None:
    row = scenario.row("attempts", job_id=str(SIBLING))
    assert (row["state"], row["n_nodes"], row["n_gpus"], row["started_at"]) == ("REVOKED", 0, 0, None)


def test_a_changed_limit_keeps_its_first_observation(scenario: Scenario, tmp_path: Path) -> None:
    before = scenario.row("associations", account="robots", user="dave")
    scenario.lab.sacctmgr("-i", "modify", "user", "dave", "where", "Account=robots", "set", "MaxJobs=3")
    dump = tmp_path / "assoc.txt"
    dump.write_text(scenario.lab.sacctmgr("-P", "show", "assoc"))
    requested = datetime.fromtimestamp(int(now()), UTC)
    mine = replace(scenario, warehouse=Path(shutil.copytree(scenario.warehouse, tmp_path / "w")))  # others read theirs
    trackside_on(mine.lab, mine.warehouse, "ingest", "slurm", str(dump), "--until", requested.isoformat())
    after = mine.row("associations", account="robots", user="dave")
    assert after["limits"] == ["MaxJobs=3", "MaxWall=1-00:00:00"]
    assert (after["first_seen_at"], after["last_seen_at"]) == (before["first_seen_at"], requested)
    assert after["association"] == before["association"]
