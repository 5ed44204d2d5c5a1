"""Renamed users, and names and uids that do not go together."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import polars as pl

from metrics import frames
from metrics.people.access import CHANGES
from metrics.people.names import RENAMES, UIDS, mismatches, renames, with_latest_names

BEGIN = datetime(2026, 9, 1, tzinfo=UTC)


def day(number: int) -> datetime:
    return BEGIN + timedelta(days=number)


def renamed(
    number: int, old: str, new: str, reused: int | None = None
) -> tuple[str, datetime, str, str, datetime | None]:
    return ("c", day(number), old, new, None if reused is None else day(reused))


def changes(*rows: tuple[int, str, str, str]) -> pl.DataFrame:
    every = [("c", day(number), "root", action, subject, detail) for number, action, subject, detail in rows]
    return pl.DataFrame(every, schema=CHANGES, orient="row")


def latest(rows: list[tuple[int, str]], *of: tuple[str, datetime, str, str, datetime | None]) -> list[str]:
    users = pl.DataFrame(
        {"cluster": "c", "user": [user for _, user in rows], "at": [day(number) for number, _ in rows]}
    )
    names = pl.DataFrame(of, schema=RENAMES, orient="row")
    return with_latest_names(users.cast({"at": frames.TIME}), names, user="user", at="at")["user"].to_list()


def test_renames_know_when_a_name_was_given_again() -> None:
    found = renames(
        changes(
            (1, "Modify Users", "(name='b')", "name='c'"),
            (3, "Modify Users", "(name='a')", "name='b'"),  # a has the name of b from then on
            (4, "Modify Users", "(name='x' || name='y')", "admin_level=2"),
            (5, "Add Associations", "id_assoc=7", "mod_time=1, acct='llm', user='a', `partition`=''"),
            (6, "Modify Users", "(name='d')", "name='d'"),
        )
    )
    assert found.rows() == [renamed(1, "b", "c", 3), renamed(3, "a", "b", 5)]


def test_users_have_their_latest_names() -> None:
    assert latest([(0, "a"), (9, "a"), (9, "b")], renamed(1, "a", "b"), renamed(2, "b", "c")) == ["c", "c", "c"]


def test_name_given_again_is_another_persons_from_then_on() -> None:
    rows = [(0, "b"), (5, "b"), (0, "a")]
    assert latest(rows, renamed(1, "b", "c", 3), renamed(3, "a", "b")) == ["c", "b", "b"]


def test_mismatches_leave_out_who_was_renamed() -> None:
    rows = [("c", "a", 1, 0), ("c", "b", 1, 5), ("c", "x", 2, 0), ("c", "y", 2, 3), ("c", "z", 3, 1), ("c", "z", 4, 6)]
    uids = pl.DataFrame([(*row[:3], day(row[3]), day(row[3])) for row in rows], schema=UIDS, orient="row")
    of_uids, of_users = mismatches(uids, pl.DataFrame([renamed(2, "a", "b")], schema=RENAMES, orient="row"))
    assert of_uids.rows() == [("c", 2, ["x", "y"], day(3))]
    assert of_users.rows() == [("c", "z", [3, 4], day(6))]
