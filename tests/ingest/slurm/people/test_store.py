"""People, rules and the scheduler's state in the warehouse: the same in any order, and however often they come."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from app.config.settings import Config
from ingest.context import ParseContext
from ingest.slurm.detect import detect_kind
from ingest.slurm.load_files import Options, ingest_files
from ingest.slurm.parsers import parse
from ingest.slurm.write import write_input
from ingest.store.request import from_file
from queries.warehouse import open_reader, open_writer
from tests.support.slurm.parsing import DATA, at, text

if TYPE_CHECKING:
    from pathlib import Path

    import polars as pl

    from ingest.store.report import LoadReport

ASKED = datetime(2026, 11, 21, 18, tzinfo=UTC)
LOADED = ASKED + timedelta(days=2)
TABLES = ("users", "associations", "qos", "transactions", "scheduler_stats", "runaway_jobs", "attempts", "rejects")

ALICE = {"User": "alice", "Account": "llm", "Cluster": "bench"}
FIRST, LATER = 1795282000, 1795283000


def sample(name: str, when: datetime = ASKED) -> tuple[bytes, datetime]:
    return (DATA / name).read_bytes(), when


def submitted(job: str, moment: int, **more: str) -> tuple[bytes, datetime]:
    times = dict.fromkeys(("Submit", "Eligible", "Start"), str(moment)) | {"End": str(moment + 100)}
    return text(ALICE | {"JobID": job, "JobIDRaw": job, "DBIndex": job} | times | more), ASKED


INPUTS = {
    "assoc": sample("assoc.sacctmgr.txt"),
    "assoc, a day later and after changes": (
        b"Cluster|Account|User|Partition|ID|Share|MaxJobs\nbench|llm|bob|||1|11\nbench|llm|new|||1|\n",
        ASKED + timedelta(days=1),
    ),
    "users": sample("users.sacctmgr.txt"),
    "users, when dave was still an operator": (
        b"User|Def Acct|Admin\ndave|ops|Operator\nmallory|ops|Operator\n",
        datetime(2026, 11, 21, 17, 20, tzinfo=UTC),
    ),
    "qos": sample("qos.sacctmgr.txt"),
    "qos, later": (b"Name|Priority|GraceTime\nhigh|2000|00:00:30\n", ASKED + timedelta(hours=1)),
    "transactions": sample("transactions-epoch.sacctmgr.txt"),
    "transactions, local": sample("transactions.sacctmgr.txt"),
    "sdiag": sample("sdiag.txt"),
    "runaway": sample("runaway.sacctmgr.txt"),
    "runaway, later": sample("runaway.sacctmgr.txt", ASKED + timedelta(hours=1)),
    "later job": submitted("8", LATER),
    "first job": submitted("7", FIRST),
    "earlier job of another account": submitted("6", FIRST - 50, Account="vision"),
}


def loaded(root: Path, names: list[str]) -> dict[str, pl.DataFrame]:
    """The tables after loading these inputs in this order."""
    with open_writer(root, verb="test", now=LOADED) as writer:
        for name in names:
            data, requested = INPUTS[name]
            given = ParseContext(origin=name, cluster="bench", timezone="UTC", until=requested)
            parsed = parse(detect_kind(data), data, given)
            write_input(writer, parsed, request=from_file(name), data=data, now=LOADED, cluster="bench")
    with open_reader(root) as reader:
        return {name: (result := reader.table(name)).sort(result.columns) for name in TABLES}


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> dict[str, pl.DataFrame]:
    return loaded(tmp_path_factory.mktemp("people") / "w", list(INPUTS))


def user(result: dict[str, pl.DataFrame], name: str) -> dict[str, Any]:
    [row] = result["users"].filter(user=name).to_dicts()
    return row


def test_user_is_combined_from_associations_changes_accounting(reference: dict[str, pl.DataFrame]) -> None:
    assert user(reference, "alice") == {
        "cluster": "bench",
        "user": "alice",
        "account": "llm",
        "association": "7",
        "admin_level": "Operator",
        "provisioned_at": at(1795281483),
        "first_job_at": at(FIRST),
    }
    bob = user(reference, "bob")
    assert (bob["admin_level"], bob["first_job_at"]) == ("None", None)


def test_the_latest_account_change_decides_who_administrates(reference: dict[str, pl.DataFrame]) -> None:
    assert user(reference, "dave")["admin_level"] == "None"  # an operator until 17:26:06
    assert user(reference, "mallory")["admin_level"] == "Operator"  # no change tells anything else


def test_provisioning_time_is_null_if_no_change_reports_it(reference: dict[str, pl.DataFrame]) -> None:
    assert user(reference, "new")["provisioned_at"] is None


def test_rules_are_as_they_were_last_seen(reference: dict[str, pl.DataFrame]) -> None:
    [bob] = reference["associations"].filter(user="bob").to_dicts()
    assert (bob["limits"], bob["association"]) == (["MaxJobs=11"], 8)
    assert (bob["first_seen_at"], bob["last_seen_at"]) == (ASKED, ASKED + timedelta(days=1))
    priorities = dict(reference["qos"].select("name", "priority").rows())
    assert priorities == {"high": 2000, "normal": 0, "capped": 0}
    assert reference["transactions"].height == 42
    assert set(reference["runaway_jobs"]["last_seen_at"]) == {ASKED + timedelta(hours=1)}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_in_any_order_and_repeated_the_rows_are_the_same(
    reference: dict[str, pl.DataFrame], tmp_path: Path, seed: int
) -> None:
    shuffled = random.Random(seed)
    order = shuffled.sample(list(INPUTS), len(INPUTS)) + shuffled.sample(list(INPUTS), 4)
    result = loaded(tmp_path / "w", order)
    for name, rows in reference.items():
        assert result[name].equals(rows), (name, order)


def ingested(root: Path, files: list[str], **options: Any) -> list[LoadReport]:
    with open_writer(root, verb="test", now=ASKED) as writer:
        return ingest_files(writer, Config(), files, Options(**options), now=ASKED, progress=lambda *_: None)


def test_undated_files_are_as_late_as_those_loaded_with_them(tmp_path: Path) -> None:
    jobs = tmp_path / "jobs.txt"
    jobs.write_bytes(INPUTS["later job"][0])
    rules = [str(DATA / name) for name in ("qos.sacctmgr.txt", "assoc.sacctmgr.txt", "runaway.sacctmgr.txt")]
    assert [report.error for report in ingested(tmp_path / "w", [*rules, str(jobs)])] == [None] * 4
    with open_reader(tmp_path / "w") as reader:
        for name in ("qos", "associations", "runaway_jobs"):
            assert set(reader.table(name)["last_seen_at"]) == {at(LATER + 100)}


def test_undated_files_alone_are_refused_unless_a_time_is_given(tmp_path: Path) -> None:
    file = str(DATA / "assoc.sacctmgr.txt")
    [report] = ingested(tmp_path / "w", [file])
    assert "--until" in str(report.error)
    [report] = ingested(tmp_path / "w", [file], until=ASKED)
    assert report.error is None


@pytest.mark.slow
def test_first_job_is_that_of_the_merged_account_in_any_order(tmp_path: Path) -> None:
    assoc = tmp_path / "assoc.txt"
    assoc.write_text("Cluster|Account|User|Partition|ID|Share|MaxJobs\nbench|a|alice|||1|\nbench|b|alice|||1|\n")
    times = {"Submit": str(FIRST), "Eligible": str(FIRST), "JobIDRaw": "7", "JobID": "7", "DBIndex": "7"}
    waits = {"State": "PENDING", "Start": "Unknown", "End": "Unknown", "NodeList": "None assigned", "Account": "a"}
    ended = {"Start": str(FIRST), "End": str(FIRST + 100), "Account": "b"}
    one, two, both = tmp_path / "one.txt", tmp_path / "two.txt", tmp_path / "both.txt"
    rows = [ALICE | times | waits, ALICE | times | ended]
    for file, some in ((one, rows[:1]), (two, rows[1:]), (both, rows)):
        file.write_bytes(text(*some))
    reported = []
    for number, files in enumerate(([assoc, one, two], [assoc, both], [one, two, assoc], [assoc, two, one])):
        root = tmp_path / f"w{number}"
        for file in files:
            with open_writer(root, verb="test", now=ASKED) as writer:
                requested = Options(until=ASKED if file == assoc else None)
                [report] = ingest_files(writer, Config(), [str(file)], requested, now=ASKED, progress=lambda *_: None)
                assert report.error is None
        with open_reader(root) as reader:
            reported.append(reader.table("users").sort("account").select("account", "first_job_at").rows())
    assert reported == [[("a", None), ("b", at(FIRST))]] * 4
