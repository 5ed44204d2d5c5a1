"""Access to a cluster, against a slow twin."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metrics.people import access as metric
from metrics.people.access import CHANGES, JOBS, LISTED, access, median_to_first_job, onboarding

BEGIN = datetime(2026, 9, 1, tzinfo=UTC)
UNTIL = BEGIN + timedelta(days=100)
NAMES = (("ann", "a"), ("ann", "b"), ("bob", "a"))


def day(number: float) -> datetime:
    return BEGIN + timedelta(days=number)


def added(number: float, user: str, account: str, identity: int, actor: str = "root") -> tuple[Any, ...]:
    detail = f"mod_time=1, acct='{account}', user='{user}', `partition`='', shares=1"
    return ("c", day(number), actor, "Add Associations", f"id_assoc={identity}", detail)


def removed(number: float, subject: str, action: str = "Remove Associations") -> tuple[Any, ...]:
    return ("c", day(number), "eve", action, subject, "")


def of(
    listed: list[tuple[Any, ...]] = [],  # noqa: B006 - read only
    changes: list[tuple[Any, ...]] = [],  # noqa: B006 - it is not changed
    jobs: list[tuple[Any, ...]] = [],  # noqa: B006 - it is not changed
    accounted_from: datetime | None = BEGIN,
) -> pl.DataFrame:
    return access(
        pl.DataFrame(listed, schema=LISTED, orient="row"),
        pl.DataFrame(changes, schema=CHANGES, orient="row"),
        pl.DataFrame(jobs, schema=JOBS, orient="row"),
        until=UNTIL,
        accounted_from=accounted_from,
    )


def seen(user: str, account: str, first: float, last: float, latest: float) -> tuple[Any, ...]:
    return ("c", user, account, "None", None, day(first), day(last), day(latest))


def job(user: str, account: str, first: float, last: float) -> tuple[Any, ...]:
    return ("c", user, account, 3, day(first), day(last))


def states(rows: pl.DataFrame) -> dict[tuple[str, str], str]:
    return {(user, account): state for user, account, state in rows.select("user", "account", "state").rows()}


def test_access_states_follow_from_lists_and_jobs() -> None:
    rows = of(
        [
            seen("old", "a", 1, 90, 90),
            seen("idle", "a", 1, 90, 90),
            seen("gone", "a", 1, 40, 90),
            seen("on", "a", 1, 90, 90),
        ],
        [added(95, "new", "a", 9)],
        [job("idle", "a", 2, 50), job("on", "a", 2, 99), job("stray", "a", 2, 99)],
    )
    assert states(rows) == {
        ("old", "a"): "never used",
        ("idle", "a"): "dormant",
        ("gone", "a"): "removed",
        ("on", "a"): "active",
        ("new", "a"): "new",
        ("stray", "a"): "no association",
    }


def test_access_without_any_list_is_unknown() -> None:
    rows = of(jobs=[job("ann", "a", 1, 99)])
    assert rows.select("state", "has_association").row(0) == ("active", None)


def test_access_removed_user_loses_every_account() -> None:
    changes = [added(1, "ann", "a", 1), added(1, "ann", "b", 2), added(1, "bob", "a", 3)]
    rows = of(changes=[*changes, removed(5, "(name='ann' || name='zoe')", "Remove Users")])
    assert states(rows) == {("ann", "a"): "removed", ("ann", "b"): "removed", ("bob", "a"): "never used"}
    assert rows.filter(pl.col("user") == "ann")["removed_by"].unique().to_list() == ["eve"]


def test_access_added_again_after_removal_holds() -> None:
    rows = of(changes=[added(1, "ann", "a", 1), removed(5, "(id_assoc=1)"), added(80, "ann", "a", 2, "sup")])
    row = rows.row(0, named=True)
    assert (row["has_association"], row["removed_at"], row["added_at"], row["added_by"]) == (True, None, day(1), "root")


def renamed(number: float, old: str, new: str) -> tuple[Any, ...]:
    return ("c", day(number), "eve", "Modify Users", f"(name='{old}')", f"mod_time=1, name='{new}'")


def test_access_of_a_renamed_user_is_one_row() -> None:
    changes = [added(1, "ann", "a", 1), renamed(20, "ann", "anna"), renamed(30, "anna", "anne")]
    lists = [seen("ann", "a", 1, 15, 90), seen("anne", "a", 31, 90, 90)]
    rows = of(lists, changes, [job("ann", "a", 3, 10), job("anne", "a", 40, 95)])
    row = rows.row(0, named=True)
    assert rows.height == 1
    assert (row["user"], row["state"], row["n_attempts"], row["added_at"]) == ("anne", "active", 6, day(1))
    assert row["to_first_job_s"] == 2 * 86_400


def test_access_of_a_name_that_another_got_is_apart() -> None:
    changes = [added(1, "ann", "a", 1), renamed(20, "ann", "anna"), added(50, "ann", "a", 2, "sup")]
    rows = of(changes=changes, jobs=[job("ann", "a", 52, 95)])
    found = {row["user"]: (row["added_at"], row["added_by"], row["n_attempts"]) for row in rows.iter_rows(named=True)}
    assert found == {"anna": (day(1), "root", 0), "ann": (day(50), "sup", 3)}


def test_access_of_a_renamed_user_who_left_is_removed() -> None:
    changes = [added(1, "ann", "a", 1), renamed(20, "ann", "anna"), removed(30, "(name='anna')", "Remove Users")]
    assert states(of(changes=changes)) == {("anna", "a"): "removed"}


def test_access_renamed_in_another_cluster_stays() -> None:
    changes = [added(1, "ann", "a", 1), ("d", *renamed(20, "ann", "anna")[1:])]
    assert states(of(changes=changes)) == {("ann", "a"): "never used"}


def test_access_time_to_first_job_needs_accounting_from_before() -> None:
    changes, jobs = [added(10, "ann", "a", 1)], [job("ann", "a", 12, 99)]
    assert of(changes=changes, jobs=jobs)["to_first_job_s"].to_list() == [2 * 86_400]
    assert of(changes=changes, jobs=jobs, accounted_from=day(11))["to_first_job_s"].to_list() == [None]
    assert of(changes=changes, jobs=[job("ann", "a", 9, 99)])["to_first_job_s"].to_list() == [None]


def test_access_of_equal_names_in_two_clusters_is_apart() -> None:
    here, there = (pl.DataFrame([added(1, "ann", "a", 1)], schema=CHANGES, orient="row") for _ in range(2))
    changes = pl.concat([here, there.with_columns(cluster=pl.lit("d"))])
    gone = pl.DataFrame([removed(5, "(id_assoc=1)")], schema=CHANGES, orient="row")
    rows = access(
        pl.DataFrame(schema=LISTED), pl.concat([changes, gone]), pl.DataFrame(schema=JOBS),
        until=UNTIL, accounted_from=BEGIN,
    )  # fmt: skip
    assert dict(rows.select("cluster", "state").rows()) == {"c": "removed", "d": "never used"}


moments = st.integers(0, 99)
histories = st.lists(
    st.one_of(
        st.tuples(st.just("add"), moments, st.sampled_from(NAMES)),
        st.tuples(st.just("remove"), moments, st.sampled_from(NAMES)),
        st.tuples(st.just("user"), moments, st.sampled_from(NAMES)),
    ),
    max_size=6,
    unique_by=lambda each: each[1],
)


@given(histories, st.randoms())
def test_access_by_changes_is_that_of_a_replay(history: list[Any], shuffle: Any) -> None:
    """One change after the other, in time: what is there at the end is there."""
    numbers = {name: place for place, name in enumerate(NAMES, start=1)}
    changes, there, first = [], dict[tuple[str, str], bool](), dict[tuple[str, str], int]()
    for kind, moment, name in sorted(history, key=lambda each: each[1]):
        if kind == "add":
            changes.append(added(moment, name[0], name[1], numbers[name]))
            there[name] = True
            first.setdefault(name, moment)
        elif kind == "remove":
            changes.append(removed(moment, f"(id_assoc={numbers[name]})"))
            there |= {name: False} if name in there else {}
        else:
            changes.append(removed(moment, f"(name='{name[0]}')", "Remove Users"))
            there |= {each: False for each in there if each[0] == name[0]}
    # A removal of what was never made is of nobody that is known.
    known = {name for name in NAMES if name in first}
    shuffle.shuffle(changes)
    rows = of(changes=changes)
    found = {(row["user"], row["account"]): row for row in rows.iter_rows(named=True)}
    assert set(found) == known
    for name in known:
        assert (found[name]["state"] != "removed") == there[name]
        assert found[name]["added_at"] == day(first[name])


def slow_median(times: list[tuple[float, bool]]) -> float | None:
    """Kaplan-Meier by hand: the first time at which half of them, or fewer, are left."""
    left = 1.0
    for at in sorted({time for time, used in times if used}):
        risk = sum(time >= at for time, _ in times)
        left *= 1 - sum(used and time == at for time, used in times) / risk
        if left <= 0.5:
            return at
    return None


@given(st.lists(st.tuples(st.integers(1, 9).map(float), st.booleans()), min_size=1, max_size=9))
def test_median_to_first_job_counts_who_still_waits(times: list[tuple[float, bool]]) -> None:
    rows = pl.DataFrame(
        {
            "to_first_job_s": [time if used else None for time, used in times],
            "waiting_s": [None if used else time for time, used in times],
        },
        schema={"to_first_job_s": pl.Float64, "waiting_s": pl.Float64},
    )
    wanted = slow_median(times)
    assert median_to_first_job(rows)[0] == (wanted if wanted is None else pytest.approx(wanted))


def test_median_to_first_job_at_once_is_zero() -> None:
    rows = pl.DataFrame(
        {"to_first_job_s": [0.0, 0.0, 60.0], "waiting_s": [None] * 3}, schema_overrides={"waiting_s": pl.Float64}
    )
    assert median_to_first_job(rows)[:2] == (0, 0)


def test_onboarding_counts_by_month_and_actor() -> None:
    rows = of(
        changes=[added(1, "ann", "a", 1), added(40, "bob", "a", 2, "sup"), added(41, "cid", "b", 3, "sup")],
        jobs=[job("ann", "a", 3, 99), job("bob", "a", 44, 60)],
    )
    by_actor = {row["subject"]: row for row in onboarding(rows, "actor").iter_rows(named=True)}
    assert {name: (row["n"], row["n_used"], row["n_dormant"]) for name, row in by_actor.items()} == {
        "root": (1, 1, 0),
        "sup": (2, 1, 2),
    }
    assert by_actor["root"]["median_s"] == 2 * 86_400
    months = dict(onboarding(rows, "month").select("subject", "n_added").rows())
    assert months == {"2026-09": 1, "2026-10": 2}


def test_access_publishes_its_metrics() -> None:
    assert all(re.fullmatch("[a-z_]+", entry.name) for entry in metric.METRICS)
