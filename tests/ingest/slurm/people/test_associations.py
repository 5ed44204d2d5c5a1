"""Associations, users, qualities of service and account changes, as sacctmgr 22.05 prints them."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from hypothesis import given as given_any
from hypothesis import strategies as st

from ingest.context import ParseContext
from ingest.errors import InputError, MissingColumnError, SourceDownError, TimeZoneError, UnrecognisedInputError
from ingest.slurm.commands.runner import Completed
from ingest.slurm.detect import detect_kind
from ingest.slurm.parsers import parse
from ingest.slurm.people.associations import fetch_associations
from ingest.slurm.people.merge import merge_associations, merge_users
from ingest.slurm.people.transactions import fetch_transactions, of_cluster
from ingest.tables import ASSOCIATIONS, USERS, Parsed
from tests.support.slurm.parsing import DATA, at, refusals

if TYPE_CHECKING:
    from random import Random

ASKED = at(1795284000)


def read(data: bytes, **options: Any) -> Parsed:
    """Whatever it is, asked at ASKED of cluster bench."""
    known: dict[str, Any] = {"origin": "input.txt", "cluster": "bench", "until": ASKED, **options}
    return parse(detect_kind(data), data, ParseContext(**known))


def sample(name: str, **options: Any) -> Parsed:
    return read((DATA / name).read_bytes(), **options)


def table(*lines: str) -> bytes:
    return ("\n".join(lines) + "\n").encode()


def only(parsed: Parsed, table: str, /, **values: str) -> dict[str, Any]:
    [row] = parsed.frames[table].filter(**values).to_dicts()
    return row


# --- associations and users ----------------------------------------------------------------------------


def test_associations_have_exactly_the_limits_set_in_slurm() -> None:
    parsed = sample("assoc.sacctmgr.txt")
    assert (parsed.source, parsed.rows_read, parsed.rows_loaded, parsed.rows_rejected) == (
        "slurm.associations", 13, 13, 0,
    )  # fmt: skip
    assert only(parsed, "associations", user="bob") == {
        "cluster": "bench",
        "account": "llm",
        "user": "bob",
        "partition": "",
        "association": 8,
        "parent": None,
        "fairshare": "1",
        "default_qos": "normal",
        "qos": ["capped", "normal"],
        "limits": ["GrpTRES=gres/gpu=16", "MaxJobs=10", "MaxWall=1-00:00:00"],
        "first_seen_at": ASKED,
        "last_seen_at": ASKED,
    }
    robots = only(parsed, "associations", account="robots")
    assert (robots["user"], robots["parent"]) == ("", "research")
    assert robots["limits"] == ["GrpTRESMins=cpu=100,gres/gpu=6000"]
    assert only(parsed, "associations", user="carol")["fairshare"] == "parent"
    assert only(parsed, "associations", user="eve")["partition"] == "main"
    assert only(parsed, "associations", account="ops", user="")["limits"] == []


def test_users_come_from_associations_without_absent_fields() -> None:
    users = sample("assoc.sacctmgr.txt").frames["users"]
    assert users.select("user", "account", "association").sort("user").rows() == [
        ("alice", "llm", "7"), ("bob", "llm", "8"), ("carol", "vision", "9"), ("dave", "ops", "10"),
        ("eve", "llm", "12"), ("odd", "vision", "13"), ("root", "root", "2"),
    ]  # fmt: skip
    assert users.select("admin_level", "provisioned_at", "first_job_at").null_count().row(0) == (7, 7, 7)


@pytest.mark.parametrize("name", ["users.sacctmgr.txt", "users-plain.sacctmgr.txt"])
def test_user_tables_give_administrators_and_no_limits(name: str) -> None:
    """Limits come from the table that has all of them."""
    parsed = sample(name)
    assert parsed.frames["associations"].is_empty()
    levels = {row["user"]: (row["account"], row["admin_level"]) for row in parsed.frames["users"].to_dicts()}
    assert levels["root"] == ("root", "Administrator")
    assert levels["alice"] == ("llm", "Operator")
    assert levels["dave"] == ("ops", "None")
    assert (parsed.rows_read, parsed.rows_loaded) == (7, 7)


def test_description_with_pipes_does_not_shift_account_columns() -> None:
    parsed = sample("accounts.sacctmgr.txt")
    assert set(parsed.frames["users"]["user"]) == {"alice", "bob", "carol", "dave", "eve", "odd", "root"}
    assert (parsed.rows_read, parsed.rows_loaded, parsed.rows_skipped, parsed.rows_rejected) == (13, 7, 6, 0)


def test_the_indents_of_a_tree_are_no_part_of_a_name() -> None:
    parsed = read(table("Cluster|Account|User|Share", "c|root||1", "c| llm||60", "c|  llm|alice|1"))
    assert set(parsed.frames["associations"]["account"]) == {"root", "llm"}


def test_qos_added_and_taken_away_keep_their_signs() -> None:
    parsed = read(table("Cluster|Account|User|Share|QOS", "c|llm|alice|1|normal,+high,-capped"))
    assert only(parsed, "associations", user="alice")["qos"] == ["normal", "+high", "-capped"]


def test_absent_columns_are_unknown_and_not_empty() -> None:
    row = only(read(table("Cluster|Account|User|Share", "c|llm|alice|1")), "associations", user="alice")
    assert (row["qos"], row["limits"], row["association"]) == (None, None, None)


def test_of_several_associations_in_an_account_the_first_is_kept() -> None:
    rows = ("c|llm|eve|main|30", "c|llm|eve|scav|4")
    parsed = read(table("Cluster|Account|User|Partition|ID|Share", *(f"{row}|1" for row in rows)))
    assert parsed.frames["associations"].height == 2
    assert only(parsed, "users", user="eve")["association"] == "4"


def test_cell_of_several_accounts_gives_a_user_in_each() -> None:
    data = table("User|Account|Admin", "alice|llm,vision|None", "bob|llm|None", "alice|llm,vision|None")
    parsed = read(data)
    assert parsed.frames["users"].select("user", "account").rows() == [
        ("alice", "llm"), ("alice", "vision"), ("bob", "llm"),
    ]  # fmt: skip
    assert (parsed.rows_read, parsed.rows_loaded, parsed.rows_duplicate, parsed.rows_skipped) == (3, 2, 1, 0)


def test_a_user_may_be_called_none() -> None:
    assert only(read(table("Cluster|Account|User|Share", "c|llm|none|1")), "users", user="none")


def test_rows_of_several_clusters_stay_separate() -> None:
    parsed = read(table("Cluster|Account|User|Share", "a|llm|alice|1", "b|llm|alice|2"))
    assert parsed.clusters == {"a", "b"}
    assert only(parsed, "associations", cluster="b")["fairshare"] == "2"


def test_repeated_row_is_a_duplicate_and_a_torn_one_a_reject() -> None:
    parsed = read(table("Cluster|Account|User|Share", "c|llm|alice|1", "c|llm|alice|1", "c|llm"), cluster="c")
    assert (parsed.rows_read, parsed.rows_loaded, parsed.rows_duplicate, parsed.rows_rejected) == (3, 1, 1, 1)
    assert refusals(parsed)[0][0] == 4


def test_undated_input_is_refused_with_a_hint_at_until() -> None:
    for name in ("assoc.sacctmgr.txt", "qos.sacctmgr.txt", "runaway.sacctmgr.txt"):
        with pytest.raises(InputError, match="--until"):
            sample(name, until=None)


@pytest.mark.parametrize(
    ("header", "lacking"),
    [
        ("Cluster|User|Share|GrpJobs", "Account"),
        ("Cluster|Account|Share|GrpJobs", "User"),
        ("Account|User|Share|GrpJobs", "Cluster"),
    ],
)
def test_a_missing_column_is_reported_with_the_command(header: str, lacking: str) -> None:
    with pytest.raises(MissingColumnError, match=f"missing: {lacking}[^|]*\n(.|\n)*sacctmgr -P show assoc"):
        read(table(header, "a|b|c|1"), cluster=None)


@pytest.mark.parametrize(
    "header",
    [
        "Cluster|Account|User|Problem",  # sacctmgr show problem
        "Account|User|RawShares|NormShares|RawUsage|EffectvUsage|FairShare",  # sshare: a factor, no shares
        "Cluster|Account|Login|Proper Name|Used|Energy",  # sreport
    ],
)
def test_similar_tables_are_not_taken_for_associations(header: str) -> None:
    with pytest.raises(UnrecognisedInputError):
        detect_kind(table(header, "|".join("1" for _ in header.split("|"))))


# --- merging -------------------------------------------------------------------------------------------

moments = st.integers(0, 3).map(lambda day: ASKED + timedelta(days=day))
sights = st.builds(
    lambda when, number, shares, limits: (
        {"cluster": "c", "account": "llm", "user": "alice", "partition": "", "association": number}
        | {"parent": None, "fairshare": shares, "default_qos": None, "qos": None, "limits": limits}
        | {"first_seen_at": when, "last_seen_at": when}
    ),
    moments,
    st.sampled_from([None, 7]),
    st.sampled_from([None, "1", "2"]),
    st.sampled_from([None, [], ["MaxJobs=1"], ["MaxJobs=2", "MaxWall=1"]]),
)


@given_any(st.lists(sights, min_size=1, max_size=5), st.randoms(use_true_random=False), st.data())
def test_associations_merge_the_same_in_any_order_and_parts(
    seen: list[dict[str, Any]],
    random: Random,
    data: st.DataObject,
) -> None:
    def frame(rows: list[dict[str, Any]]) -> pl.DataFrame:
        return pl.DataFrame(rows, schema=ASSOCIATIONS)

    whole = merge_associations(frame(seen))
    shuffled = random.sample(seen, len(seen))
    cut = data.draw(st.integers(0, len(seen)))
    parts = merge_associations(merge_associations(frame(shuffled[:cut])), merge_associations(frame(shuffled[cut:])))
    assert parts.equals(whole)
    assert merge_associations(parts, whole, frame(seen)).equals(whole)


def test_newest_association_wins_and_the_first_time_is_kept() -> None:
    old = read(table("Cluster|Account|User|Share|MaxJobs|ID", "c|llm|alice|1|5|7"), until=ASKED)
    new = read(table("Cluster|Account|User|Share|MaxJobs", "c|llm|alice|1|"), until=ASKED + timedelta(days=1))
    for frames in ((old, new), (new, old), (old, new, old)):
        [row] = merge_associations(*(parsed.frames["associations"] for parsed in frames)).to_dicts()
        assert (row["limits"], row["association"]) == ([], 7)
        assert (row["first_seen_at"], row["last_seen_at"]) == (ASKED, ASKED + timedelta(days=1))


def test_users_merge_to_earliest_times_and_highest_level() -> None:
    def user(level: str | None, made: datetime | None, number: str | None) -> pl.DataFrame:
        return pl.DataFrame([("c", "alice", "llm", number, level, made, None)], schema=USERS, orient="row")

    parts = [user("Operator", None, "12"), user("None", ASKED, "9"), user(None, ASKED - timedelta(days=1), None)]
    for order in (parts, parts[::-1], [*parts, *parts]):
        [row] = merge_users(*order).to_dicts()
        assert (row["admin_level"], row["association"]) == ("Operator", "9")
        assert row["provisioned_at"] == ASKED - timedelta(days=1)


# --- qualities of service ------------------------------------------------------------------------------


def test_qualities_of_service_are_read_with_all_that_is_set() -> None:
    parsed = sample("qos.sacctmgr.txt")
    assert (parsed.source, parsed.rows_read, parsed.rows_loaded) == ("slurm.qos", 3, 3)
    assert only(parsed, "qos", name="high") == {
        "cluster": "bench",
        "name": "high",
        "priority": 1000,
        "preempts": ["capped", "normal"],
        "preempt_mode": "requeue",
        "flags": ["DenyOnLimit", "NoReserve"],
        "usage_factor": 2.5,
        "grace_s": 90.0,
        "limits": ["GrpJobs=7", "MaxTRESPerUser=cpu=8,gres/gpu=4", "MaxWall=2-00:00:00"],
        "first_seen_at": ASKED,
        "last_seen_at": ASKED,
    }
    assert only(parsed, "qos", name="capped")["limits"] == ["MaxTRESPerUser=gres/gpu=2"]
    assert only(parsed, "qos", name="normal")["limits"] == []


def test_qos_without_a_cluster_needs_an_explicit_one() -> None:
    with pytest.raises(MissingColumnError, match="--cluster NAME"):
        sample("qos.sacctmgr.txt", cluster=None)


# --- account changes -----------------------------------------------------------------------------------

PROVISIONED = {
    "alice": 1795281483, "bob": 1795281483, "carol": 1795281483, "dave": 1795281483, "eve": 1795281533,
    "odd": 1795281534, "one": 1795281534, "root": 1795281482,
}  # fmt: skip


@pytest.mark.parametrize("name", ["transactions.sacctmgr.txt", "transactions-epoch.sacctmgr.txt"])
def test_account_changes_are_read_whole_with_delimiters_in_texts(name: str) -> None:
    parsed = sample(name, timezone="UTC", until=None)
    changes = parsed.frames["transactions"]
    assert (parsed.rows_read, parsed.rows_loaded, parsed.rows_rejected) == (42, 42, 0)
    assert only(parsed, "transactions", action="Modify Users", detail="admin_level=2") == {
        "cluster": "bench",
        "ts": at(1795281966),
        "actor": "root",
        "action": "Modify Users",
        "subject": "(name='alice' || name='eve')",
        "detail": "admin_level=2",
    }
    robots = only(parsed, "transactions", action="Add Accounts", subject="robots")
    assert robots["detail"] == "description='a|b, c `d`', organization='lab|x'"
    assert changes.filter(pl.col("subject") == "(id_assoc=7 || id_assoc=8)").height == 1
    assert only(parsed, "transactions", action="Remove Users")["detail"] == ""
    assert (parsed.covers_from, parsed.covers_until) == (at(1795281482), at(1795281967))


@pytest.mark.parametrize("name", ["transactions.sacctmgr.txt", "transactions-epoch.sacctmgr.txt"])
def test_users_were_provisioned_when_their_association_was_made(name: str) -> None:
    """Also those whose association is removed since."""
    users = sample(name, timezone="UTC").frames["users"]
    assert {row["user"]: row["provisioned_at"] for row in users.to_dicts()} == {
        user: at(when) for user, when in PROVISIONED.items()
    }
    assert users.filter(user="eve").select("account", "association").row(0) == ("llm", "12")


HEADER = "TimeStamp|Action|Actor|Where|Cluster|ID|Info"


def test_change_of_all_clusters_counts_for_each_unless_one_given() -> None:
    data = table(
        HEADER,
        "1795281483|Add Users|root|alice||1|admin_level=1",
        "1795281483|Add Associations|root|id_assoc=7|a|2|acct='llm', user='alice'",
        "1795281483|Add Associations|root|id_assoc=9|b|3|acct='llm', user='alice'",
    )
    apart = read(data, cluster=None)
    assert apart.frames["transactions"].filter(action="Add Users")["cluster"].to_list() == ["a", "b"]
    assert (apart.rows_read, apart.rows_loaded) == (3, 3)
    given = read(data, cluster="a")
    assert given.frames["transactions"].filter(action="Add Users")["cluster"].to_list() == ["a"]
    own = of_cluster(given, "a")
    assert (own.rows_loaded, own.rows_skipped) == (2, 1)
    assert own.clusters == {"a"}
    assert own.frames["users"].select("cluster", "association").rows() == [("a", "7")]


def test_a_break_in_a_description_leaves_one_change() -> None:
    data = table(HEADER, "1795281483|Add Accounts|root|x||1|description='first", "second|third', organization='lab'")
    [row] = read(data).frames["transactions"].to_dicts()
    assert row["detail"] == "description='first\nsecond|third', organization='lab'"


def test_a_condition_goes_on_to_its_closing_bracket() -> None:
    data = table("Time|Action|Actor|Where|Info", "1795281483|Modify Users|root|(name='a' ||name='b')|admin_level=2")
    [row] = read(data).frames["transactions"].to_dicts()
    assert (row["subject"], row["detail"]) == ("(name='a' ||name='b')", "admin_level=2")


def test_account_made_without_a_user_provisions_none() -> None:
    data = table(HEADER, "1795281483|Add Associations|root|id_assoc=3|c|1|acct='research', user='', shares=10")
    assert read(data).frames["users"].is_empty()


def test_local_times_need_a_zone() -> None:
    with pytest.raises(TimeZoneError, match="--timezone"):
        sample("transactions.sacctmgr.txt")


def test_a_change_without_a_time_is_refused_and_kept() -> None:
    parsed = read(table(HEADER, "1795281483|Add Users|root|a||1|admin_level=1", "soon|Add Users|root|b||2|x=1"))
    assert refusals(parsed) == [(3, "timestamp: not a time: 'soon'")]


# --- live ----------------------------------------------------------------------------------------------


def test_slurmdbd_down_is_reported_as_such() -> None:
    with pytest.raises(SourceDownError, match="slurmdbd"):
        fetch_associations(lambda *_: Completed(1, b"", b"sacctmgr: error: Problem talking to the database"))


def test_changes_are_requested_by_window_and_typed_columns() -> None:
    """A typed column stands between each two texts."""
    requested: list[list[str]] = []

    def runner(command: list[str], _: object) -> Completed:
        requested.append(command)
        return Completed(0, table(HEADER), b"")

    fetch_transactions(runner, since=at(1795281483), until=ASKED)
    assert requested[0][4:6] == ["Start=2026-11-21T17:18:03", "End=2026-11-21T18:00:00"]
    assert requested[0][6].endswith("Where,Cluster,ID,Info")
    with pytest.raises(InputError, match="empty"):
        fetch_transactions(runner, since=ASKED, until=ASKED)
