"""Reservations as real Slurm tells them, what becomes of them over time, and the maintenance they mean."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.context import ParseContext
from ingest.errors import InputError, MissingColumnError, TimeZoneError, UnrecognisedInputError
from ingest.slurm.detect import detect_kind
from ingest.slurm.nodes.reservations import maintenance_states, merge_reservations, parse_reservations
from ingest.tables import NODE_STATES, RESERVATIONS, Parsed, empty
from tests.support.slurm.parsing import DATA, at, refusals

if TYPE_CHECKING:
    from collections.abc import Callable

NOW = at(1795281830)
START = 1795281817
"""When the reservations of the lab's captures began."""

RECORD = (
    "ReservationName=m StartTime=1795281817 EndTime=1795285417 Duration=01:00:00 Nodes=n[1-2] NodeCnt=2 CoreCnt=128 "
    "Features=(null) PartitionName=(null) Flags=MAINT,SPEC_NODES TRES=cpu=128 Users=root Groups=(null) Accounts=(null) "
    "Licenses=(null) State=ACTIVE BurstBuffer=(null) Watts=n/a MaxStartDelay=(null)"
)
HEADER = "Assocs|Cluster|TimeEnd|Flags|ID|Name|NodeName|TimeStart|TRES|UnusedWall"
CLOSED = "2|c|1795281824|MAINT,SPEC_NODES|1|m|n[1-2]|1795281817|cpu=128|0.000000"
REOPENED = "2|c|1795285417|MAINT,SPEC_NODES|1|m|n1|1795281824|cpu=64|0.000000"


def listed(*records: str, **options: Any) -> Parsed:
    text = "\n".join([*records, ""])
    return parse_reservations(text.encode(), ParseContext("r.txt", **{"cluster": "c", "until": NOW, **options}))


def history(*rows: str, header: str = HEADER, **options: Any) -> Parsed:
    text = "\n".join([header, *rows, ""])
    return parse_reservations(text.encode(), ParseContext("r.txt", **{"until": NOW, **options}))


def frame(parsed: Parsed) -> pl.DataFrame:
    return parsed.frames["reservations"]


def rows(parsed: Parsed) -> list[dict[str, Any]]:
    return frame(parsed).to_dicts()


# --- texts --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["reservations-first.scontrol.txt", "reservations-first-o.scontrol.txt"])
def test_the_list_of_real_slurm_is_read_in_both_forms(name: str) -> None:
    data = (DATA / name).read_bytes()
    assert detect_kind(data) == "slurm.reservations"
    parsed = parse_reservations(data, ParseContext(name, cluster="bench", until=NOW))
    assert (parsed.rows_read, parsed.rows_loaded, parsed.rows_rejected) == (5, 5, 0)
    assert dict(frame(parsed).schema) == RESERVATIONS
    daily, future, _, patch, project = rows(parsed)
    assert patch == {
        "cluster": "bench",
        "name": "maint1",
        "started_at": at(START),
        "ended_at": at(START + 3600),
        "node_list": "n[1-2]",
        "n_nodes": 2,
        "partition": None,
        "flags": ["MAINT", "IGNORE_JOBS", "SPEC_NODES"],
        "users": ["root"],
        "accounts": [],
        "maintenance": True,
        "last_seen_at": NOW,
    }
    assert (daily["flags"], daily["users"], daily["partition"]) == (["DAILY"], ["alice", "bob"], "main")
    assert (future["node_list"], future["n_nodes"], future["started_at"]) == ("n[1-6]", 6, at(START + 7200))
    assert (project["accounts"], project["maintenance"]) == (["llm"], False)


def test_captured_history_has_real_ends_and_changed_nodes() -> None:
    data = (DATA / "reservations-second.sacctmgr.txt").read_bytes()
    assert detect_kind(data) == "slurm.reservations"
    parsed = parse_reservations(data, ParseContext("x", until=NOW))
    assert parsed.clusters == {"bench"}
    actual = frame(parsed).filter(pl.col("name").is_in(["gone", "maint1"]))
    assert actual.select("name", "started_at", "ended_at", "node_list").rows() == [
        ("gone", at(START), at(START + 7), "n4"),
        ("maint1", at(START), at(START + 7), "n[1-2]"),
        ("maint1", at(START + 7), at(START + 3600), "n1"),
    ]


def test_an_empty_list_is_a_snapshot_and_no_error() -> None:
    text = b"No reservations in the system\n"
    assert detect_kind(text) == "slurm.reservations"
    parsed = parse_reservations(text, ParseContext("x", cluster="c", until=NOW))
    assert (parsed.rows_read, set(parsed.clusters)) == (0, {"c"})
    assert parsed.covers_from == parsed.covers_until == NOW


def test_a_reservation_by_count_has_no_nodes_yet() -> None:
    [row] = rows(listed(RECORD.replace("Nodes=n[1-2]", "Nodes=(null)")))
    assert (row["node_list"], row["n_nodes"]) == (None, 2)
    assert maintenance_states(frame(listed(RECORD.replace("Nodes=n[1-2]", "Nodes=(null)")))).is_empty()


@pytest.mark.parametrize("read", [lambda: listed(RECORD, until=None), lambda: history(CLOSED, until=None)])
def test_reservations_without_a_date_are_of_no_use(read: Callable[[], Parsed]) -> None:
    with pytest.raises(InputError, match="--until"):
        read()


def test_undated_list_has_the_time_of_what_is_loaded_with_it() -> None:
    parsed = listed(RECORD, until=None, reached=NOW)
    assert rows(parsed)[0]["last_seen_at"] == parsed.covers_from == parsed.covers_until == NOW
    assert parsed.warnings == []


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (RECORD.replace("1795281817", "soon"), "StartTime: not a time: 'soon'"),
        (RECORD.replace("StartTime=1795281817", "StartTime=Unknown"), "no StartTime"),
        (RECORD.replace("EndTime=1795285417", "EndTime=1795281000"), "EndTime is before StartTime"),
        (RECORD.replace("n[1-2]", "n[1-"), "node list 'n[1-': unbalanced bracket"),
        (RECORD[: RECORD.index(" Flags")], "no State: the record is cut off"),
    ],
)
def test_only_the_impossible_record_is_refused(record: str, reason: str) -> None:
    parsed = listed(record, RECORD.replace("Name=m", "Name=other"))
    assert refusals(parsed) == [(1, reason)]
    assert [row["name"] for row in rows(parsed)] == ["other"]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (CLOSED.replace("1795281817", "Unknown"), "no StartTime"),
        (CLOSED.replace("|c|", "||"), "no cluster name"),
        (CLOSED.replace("|m|", "||"), "no name"),
        ("2|c|1795281824", "3 fields, expected 10"),
    ],
)
def test_implausible_history_row_is_refused_alone(row: str, reason: str) -> None:
    parsed = history(row, REOPENED)
    assert refusals(parsed) == [(2, reason)]
    assert len(rows(parsed)) == 1


def test_the_history_needs_nodes_and_flags() -> None:
    with pytest.raises(MissingColumnError, match="columns: NodeName, Flags"):
        history("c|m|x|1795281817|1795285417|0", header="Cluster|Name|TRES|TimeStart|TimeEnd|UnusedWall")


def test_a_missing_column_has_the_name_of_sacctmgrs_heading() -> None:
    text = "Cluster|Name|Start|End|NodeNames|Flags\nc|m|1795281817|1795281824|n1|MAINT\n"
    with pytest.raises(MissingColumnError, match=r"missing columns: TimeStart, TimeEnd, NodeName\nfound: .*Start"):
        parse_reservations(text.encode(), ParseContext("r.txt", until=NOW))


def test_local_times_need_a_zone() -> None:
    local = RECORD.replace("1795281817", "2026-11-21T17:23:37").replace("1795285417", "2026-11-21T18:23:37")
    with pytest.raises(TimeZoneError):
        listed(local)
    assert rows(listed(local, timezone="UTC"))[0]["started_at"] == at(START)


def test_another_text_is_no_list_of_reservations() -> None:
    with pytest.raises(UnrecognisedInputError):
        history("x", header="hello")


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_cut_or_change_is_read_or_refused_and_counted(data: st.DataObject) -> None:
    whole = data.draw(st.sampled_from([f"{RECORD}\n{RECORD}\n", f"{HEADER}\n{CLOSED}\n{REOPENED}\n"]))
    place = data.draw(st.integers(0, len(whole)))
    text = whole[:place] + data.draw(st.sampled_from(["", "|", "=", "\n", "n[", "\x00", "é", "ReservationName="]))
    text += data.draw(st.sampled_from(["", whole[place:], whole[place + 3 :]]))
    try:
        parsed = parse_reservations(text.encode(), ParseContext("x", cluster="c", timezone="UTC", until=NOW))
    except InputError:
        return
    reported = (parsed.rows_loaded, parsed.rows_duplicate, parsed.rows_skipped, parsed.rows_rejected)
    assert parsed.rows_read == sum(reported)
    maintenance_states(frame(parsed))


# --- over time ----------------------------------------------------------------------------------------


def later(record: str, seconds: int, **changes: str) -> pl.DataFrame:
    """The record as it was listed so many seconds later, with other values."""
    for old, new in changes.items():
        record = record.replace(getattr(_Now, old), new)
    return frame(listed(record, until=at(1795281830 + seconds)))


class _Now:
    end = "1795285417"
    nodes = "n[1-2]"


def merged(*frames: pl.DataFrame) -> pl.DataFrame:
    """The reservations of all, which must come out the same in every order and repeated."""
    results = [merge_reservations(*order) for order in itertools.permutations([*frames, frames[0]])]
    for order in itertools.permutations(frames):
        there = empty(RESERVATIONS)
        for one in order:
            there = merge_reservations(there, one)
        results.append(there)
    assert all(result.equals(results[0]) for result in results)
    return results[0]


def test_what_was_read_last_counts() -> None:
    extended = merged(later(RECORD, 0), later(RECORD, 60, end="1795289017"))
    assert extended["ended_at"].to_list() == [at(1795289017)]
    shortened = merged(later(RECORD, 0, end="1795289017"), later(RECORD, 60))
    assert shortened["ended_at"].to_list() == [at(1795285417)]


def test_history_wins_over_the_list_except_for_its_users() -> None:
    """The list alone has for whom a reservation is."""
    actual = merged(frame(listed(RECORD.replace("n[1-2]", "n1"))), frame(history(CLOSED, REOPENED)))
    assert actual.select("started_at", "ended_at", "node_list", "users").rows() == [
        (at(START), at(1795281824), "n[1-2]", ["root"]),
        (at(1795281824), at(1795285417), "n1", []),
    ]


@pytest.mark.slow
def test_a_list_changes_no_record_that_the_history_has_closed() -> None:
    changed = RECORD.replace("n[1-2]", "n1")
    before = later(RECORD, -10)
    in_between = frame(history(CLOSED, REOPENED))
    days_later = later(changed, 2000)
    actual = merged(before, in_between, days_later, later(changed, 3000, end="1795289017"))
    assert actual.select("started_at", "ended_at", "node_list", "users").rows() == [
        (at(START), at(1795281824), "n[1-2]", ["root"]),
        (at(1795281824), at(1795285417), "n1", []),
    ]
    assert spans(maintenance_states(actual)) == [
        ("n1", at(START), at(1795281824)),
        ("n1", at(1795281824), at(1795285417)),
        ("n2", at(START), at(1795281824)),
    ]


def test_a_history_that_is_read_after_the_list_corrects_it() -> None:
    listed_later = later(RECORD.replace("n[1-2]", "n1"), 2000)
    actual = merged(listed_later, frame(history(CLOSED, until=at(START + 100))))
    assert actual.select("ended_at", "node_list").rows() == [(at(1795281824), "n[1-2]")]


def test_undated_history_closes_what_a_later_record_continues() -> None:
    undated = history(CLOSED, REOPENED, until=None, reached=at(START))
    assert frame(undated)["last_seen_at"].to_list() == [at(1795281824), at(START)]
    actual = merged(frame(undated), later(RECORD.replace("n[1-2]", "n1"), 2000))
    assert actual.select("ended_at", "node_list").rows() == [(at(1795281824), "n[1-2]"), (at(1795285417), "n1")]


_records = st.builds(
    lambda start, end, nodes, flags, users, seen: {
        "cluster": "c",
        "name": "m",
        "started_at": at(START + start),
        "ended_at": at(START + 10 + end),
        "node_list": nodes,
        "n_nodes": None,
        "partition": None,
        "flags": flags,
        "users": users,
        "accounts": [],
        "maintenance": "MAINT" in flags,
        "last_seen_at": at(START + seen) if seen else None,
    },
    st.integers(0, 2),
    st.integers(0, 2),
    st.sampled_from(["n1", "n2", None]),
    st.sampled_from([["MAINT"], []]),
    st.lists(st.sampled_from(["alice", "bob"]), unique=True),
    st.sampled_from([0, 1, 2, 3, 10, 11, 12, 13, 50]),  # from 10 on the end may have passed
)


@settings(max_examples=100, deadline=None)
@given(records=st.lists(_records, min_size=1, max_size=6), data=st.data())
def test_reservations_merge_the_same_in_any_order_and_repeated(
    records: list[dict[str, Any]], data: st.DataObject
) -> None:
    def alone(record: dict[str, Any]) -> pl.DataFrame:
        return pl.DataFrame([record], schema=RESERVATIONS, orient="row")

    order = data.draw(st.permutations(records)) + data.draw(st.lists(st.sampled_from(records), max_size=3))
    there = empty(RESERVATIONS)
    for record in order:
        there = merge_reservations(there, alone(record))
    assert there.equals(merge_reservations(*map(alone, records)))


@settings(max_examples=100, deadline=None)
@given(closed=_records, lists=st.lists(_records, max_size=5), data=st.data())
def test_in_any_order_what_is_closed_keeps_its_nodes_and_end(
    closed: dict[str, Any], lists: list[dict[str, Any]], data: st.DataObject
) -> None:
    closed["last_seen_at"] = closed["ended_at"]
    for number, record in enumerate(lists):
        record["started_at"], record["ended_at"] = closed["started_at"], at(START + 100 + number)
    there = empty(RESERVATIONS)
    for record in data.draw(st.permutations([closed, *lists, *lists[:1]])):
        there = merge_reservations(there, pl.DataFrame([record], schema=RESERVATIONS, orient="row"))
    reported = ["ended_at", "node_list", "flags", "maintenance"]
    assert there.select(reported).rows() == [tuple(closed[name] for name in reported)]


# --- maintenance --------------------------------------------------------------------------------------


def spans(states: pl.DataFrame) -> list[tuple[Any, ...]]:
    return states.select("node", "started_at", "ended_at").rows()


def test_maintenance_is_a_planned_state_of_each_node() -> None:
    states = maintenance_states(frame(listed(RECORD)))
    assert dict(states.schema) == NODE_STATES
    assert spans(states) == [(node, at(START), at(START + 3600)) for node in ("n1", "n2")]
    assert states.row(0, named=True) == {
        "cluster": "c",
        "node": "n1",
        "started_at": at(START),
        "source": "slurm.reservations",
        "ended_at": at(START + 3600),
        "state": "maintenance",
        "state_raw": "m",
        "reason": "reservation m",
        "actor": None,
        "planned": True,
    }


def test_a_reservation_for_people_is_no_maintenance() -> None:
    assert maintenance_states(frame(listed(RECORD.replace("MAINT,", "")))).is_empty()


def test_a_changed_reservation_ends_where_its_next_record_begins() -> None:
    states = maintenance_states(merged(frame(listed(RECORD)), frame(history(REOPENED))))
    assert spans(states) == [
        ("n1", at(START), at(1795281824)),
        ("n1", at(1795281824), at(1795285417)),
        ("n2", at(START), at(1795281824)),
    ]
