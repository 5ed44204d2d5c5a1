"""`trackside show onboarding` on changes as a real slurmdbd (22.05) writes them: people moved, renamed, removed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from app.api import QUESTIONS
from app.results.people.use import access_rows, coordinator_rows
from app.show.answer import Question
from app.window import Window
from queries.warehouse import open_reader
from tests.support.command import trackside
from tests.support.kubernetes.objects import as_list, pod

if TYPE_CHECKING:
    from pathlib import Path

FIRST = 1_790_812_800  # 2026-10-01T00:00:00Z
LISTED = datetime.fromtimestamp(FIRST + 100, UTC)


def made(second: int, user: str, account: str, number: int, partition: str = "") -> str:
    values = f"mod_time={FIRST}, acct='{account}', user='{user}', `partition`='{partition}', shares=1, grp_jobs=NULL"
    return f"{FIRST + second}|Add Associations|root|id_assoc={number}|bench|{number}|{values}"


CHANGES = "\n".join(
    (
        "TimeStamp|Action|Actor|Where|Cluster|ID|Info",
        made(1, "alice", "llm", 7),
        made(1, "carol", "vision", 9),
        f"{FIRST + 2}|Add Users|root|frank||26|admin_level=2",
        made(2, "frank", "llm", 11, "main"),
        made(3, "frank", "llm", 12, "debug"),
        made(5, "carol", "llm", 13),
        f"{FIRST + 5}|Modify Associations|root|(id_assoc=13)|bench|30|is_def=1",
        f"{FIRST + 7}|Remove Associations|root|id_assoc=9|bench|31|",
        f"{FIRST + 7}|Add Account Coord|root|bob||32|llm",
        f"{FIRST + 8}|Modify Users|root|(name='dave')||33|admin_level=1",
        f"{FIRST + 12}|Modify Users|root|(name='frank')||34|name='franka'",
        f"{FIRST + 12}|Remove Account Coords|root|(user='bob') && (acct='llm')||35|",
        f"{FIRST + 14}|Remove Account Coords|root|(user='alice')||36|",
        f"{FIRST + 14}|Remove Users|root|name='alice'||37|",
        f"{FIRST + 16}|Add Users|root|alice||40|admin_level=1",
        made(16, "alice", "ops", 15),
        f"{FIRST + 16}|Remove Associations|root|id_assoc=12|bench|42|",
        f"{FIRST + 19}|Modify Users|root|(name='carol')||43|name='caroline'\n",
    )
)
LIST = """\
Cluster|Account|User|Partition|ID|ParentName|Share
bench|ops|alice||15||1
bench|llm|caroline||13||1
bench|llm|franka|main|11||1
"""
COORDINATORS = """\
User|Def Acct|Admin|Coord Accounts|Cluster|Account|Partition|Share
alice|ops|None|llm|bench|ops||1
caroline|llm|None||bench|llm||1
franka|llm|Operator||bench|llm|main|1
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, text in (("changes", CHANGES), ("list", LIST), ("coordinators", COORDINATORS)):
        (tmp_path / name).write_text(text)
    return tmp_path


def ingested(root: Path, *names: str, until: datetime = LISTED) -> None:
    files = [str(root / name) for name in names]
    done = trackside(
        "ingest", "slurm", *files, "--cluster", "bench", "--until", until.isoformat(), "--warehouse", str(root / "w")
    )
    assert done.returncode == 0, done.stderr


def shown(root: Path) -> dict[tuple[str, str], dict[str, Any]]:
    with open_reader(root / "w") as reader:
        rows = access_rows(reader, Window("bench", datetime.fromtimestamp(FIRST, UTC), LISTED + timedelta(days=1)))
    return {(row["user"], row["account"]): row for row in rows.iter_rows(named=True)}


@pytest.mark.slow
@pytest.mark.parametrize("order", [("changes", "list", "coordinators"), ("coordinators", "list", "changes")])
def test_moved_renamed_and_new_people_are_each_one_row(root: Path, order: tuple[str, ...]) -> None:
    for name in order:
        ingested(root, name)
    states = {who: row["state"] for who, row in shown(root).items()}
    assert states == {
        ("alice", "llm"): "removed",  # the person who had the name before
        ("alice", "ops"): "new",
        ("caroline", "vision"): "removed",  # moved to llm, and renamed after that
        ("caroline", "llm"): "new",
        ("franka", "llm"): "new",  # the association for the partition debug went, that for main stays
    }


def test_additions_that_no_change_records_are_unknown(root: Path) -> None:
    ingested(root, "list")
    with open_reader(root / "w") as reader:
        day = Window("bench", datetime.fromtimestamp(FIRST, UTC), LISTED + timedelta(days=1))
        answer = QUESTIONS["onboarding"](reader, day, Question(by="user"))
    assert "When 3 users were added is unknown" in answer.headline


def test_removals_name_who_and_levels_are_the_latest(root: Path) -> None:
    ingested(root, "changes", "list", "coordinators")
    rows = shown(root)
    assert {who for who, row in rows.items() if row["removed_by"] == "root"} == {
        ("alice", "llm"),
        ("caroline", "vision"),
    }
    assert (rows["franka", "llm"]["admin_level"], rows["alice", "ops"]["admin_level"]) == ("Operator", "None")


@pytest.mark.slow
def test_list_of_later_overrules_an_earlier_removal(root: Path) -> None:
    (root / "back").write_text(LIST + "bench|vision|caroline||16||1\n")
    ingested(root, "changes", "list")
    ingested(root, "back", until=LISTED + timedelta(seconds=50))
    assert shown(root)["caroline", "vision"]["state"] == "new"


@pytest.mark.slow
def test_work_of_kubernetes_needs_no_association(root: Path) -> None:
    ingested(root, "changes", "list")
    (root / "pods").write_bytes(as_list(pod("notebook", ended=50, labels={"trackside.io/user": "zoe"})))
    done = trackside("ingest", "kubernetes", str(root / "pods"), "--cluster", "bench", "--warehouse", str(root / "w"))
    assert done.returncode == 0, done.stderr
    assert "zoe" not in {user for user, _ in shown(root)}


def managed(root: Path) -> list[tuple[str, str]]:
    with open_reader(root / "w") as reader:
        rows = coordinator_rows(reader, Window("bench", datetime.fromtimestamp(FIRST, UTC), LISTED + timedelta(days=1)))
    return rows.select("user", "account").rows()


@pytest.mark.slow
def test_coordinators_are_those_of_the_latest_observation(root: Path) -> None:
    early = datetime.fromtimestamp(FIRST + 10, UTC)
    ingested(root, "changes", until=early)
    assert managed(root) == []  # bob was one for five seconds
    for more in ("Add Account Coord|root|frank||50|vision", "Add Account Coord|root|carol||51|vision"):
        (root / "more").write_text(f"TimeStamp|Action|Actor|Where|Cluster|ID|Info\n{FIRST + 9}|{more}\n")
        ingested(root, "more", until=early)
    assert managed(root) == [("caroline", "vision"), ("franka", "vision")]  # by their latest names
    ingested(root, "coordinators")  # a later list has neither as coordinator of anything
    assert managed(root) == [("alice", "llm")]
    gone = f"{FIRST + 200}|Remove Accounts|root|name='llm'||60|"
    (root / "gone").write_text(f"TimeStamp|Action|Actor|Where|Cluster|ID|Info\n{gone}\n")
    ingested(root, "gone", until=LISTED + timedelta(seconds=200))
    assert managed(root) == []


def test_tables_of_accounts_name_coordinators_per_account(root: Path) -> None:
    (root / "accounts").write_text(
        "Account|Descr|Org|Coord Accounts|Cluster|Par Name|User|Share\n"
        "llm|llm|llm|alice,caroline|bench|root||1\nllm|llm|llm|alice,caroline|bench||alice|1\n"
    )
    ingested(root, "accounts")
    assert managed(root) == [("alice", "llm"), ("caroline", "llm")]


def test_onboarding_shows_who_coordinates_accounts(root: Path) -> None:
    ingested(root, "changes", "list", "coordinators")
    with open_reader(root / "w") as reader:
        window = Window("bench", datetime.fromtimestamp(FIRST, UTC), LISTED + timedelta(days=1))
        answer = QUESTIONS["onboarding"](reader, window, Question(by="user"))
    assert "Coordinators of accounts: alice (llm)." in answer.notes
    found = {row["user"]: row["coordinates"] for row in answer.rows.iter_rows(named=True)}
    assert (found["alice"], found["franka"]) == ("llm", None)
