from __future__ import annotations

import itertools
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.slurm.accounting.sacct import merge_attempts
from ingest.tables import ATTEMPTS, empty
from tests.support.slurm.parsing import at, parse, same_rows, text

if TYPE_CHECKING:
    from datetime import datetime

T = 1795247000


def row(**values: object) -> dict[str, object]:
    usual = {"cluster": "c", "scheduler": "slurm", "job_id": "1", "submitted_at": at(T), "state": "PENDING"}
    return {**dict.fromkeys(ATTEMPTS), "n_nodes": 0, "n_gpus": 0, **usual, **values}


def frame(*rows: dict[str, object]) -> pl.DataFrame:
    return pl.DataFrame(list(rows), schema=ATTEMPTS, orient="row")


def merged(*rows: dict[str, object]) -> list[dict[str, Any]]:
    """The attempts of the rows, which must come out the same in every order."""
    results = [merge_attempts(*(frame(one) for one in order)) for order in itertools.permutations(rows)]
    assert all(same_rows(results[0], other) for other in results)
    return results[0].sort("job_id", "submitted_at").to_dicts()


PENDING = row()
RUNNING = row(state="RUNNING", started_at=at(T + 10), elapsed_s=5.0)
LATER = row(state="RUNNING", started_at=at(T + 10), elapsed_s=50.0)
ENDED = row(state="COMPLETED", started_at=at(T + 10), ended_at=at(T + 100), elapsed_s=90.0)


def test_nothing_gives_nothing() -> None:
    assert merge_attempts().height == 0
    assert merge_attempts(empty(ATTEMPTS), empty(ATTEMPTS)).height == 0


def test_the_most_complete_observation_wins() -> None:
    [got] = merged(PENDING, RUNNING, LATER)
    assert (got["state"], got["elapsed_s"]) == ("RUNNING", 50)
    [got] = merged(ENDED, LATER, PENDING)
    assert (got["state"], got["ended_at"]) == ("COMPLETED", at(T + 100))


def test_of_two_ends_the_later_wins() -> None:
    [got] = merged(ENDED, {**ENDED, "ended_at": at(T + 160), "state": "FAILED"})
    assert (got["state"], got["ended_at"]) == ("FAILED", at(T + 160))


def test_who_cancelled_is_remembered_from_the_first_sight() -> None:
    first = {**ENDED, "state": "CANCELLED", "cancelled_by": "2001", "exit_code": 0, "exit_signal": 0}
    again = {**ENDED, "state": "CANCELLED", "exit_code": 0, "exit_signal": 15}
    [got] = merged(first, again)
    assert (got["cancelled_by"], got["exit_code"], got["exit_signal"]) == ("2001", 0, 15)


def test_two_numbers_that_belong_together_are_never_mixed() -> None:
    [got] = merged({**ENDED, "exit_code": 15, "exit_signal": 0}, {**ENDED, "exit_code": 0, "exit_signal": 15})
    assert (got["exit_code"], got["exit_signal"]) == (15, 0)


def test_text_with_replaced_characters_gives_way_to_a_whole_one() -> None:
    latin, whole = ({**ENDED, "user": f"jos{end}", "account": f"caf{end}"} for end in ("\ufffd", "é"))
    [got] = merged(latin, whole, {**ENDED, "user": None})
    assert (got["user"], got["account"]) == ("josé", "café")
    [got] = merged(latin, PENDING)
    assert got["user"] == "jos\ufffd"


def test_constant_fields_are_filled_from_any_observation() -> None:
    [got] = merged({**ENDED, "name": "a"}, {**RUNNING, "user": "alice", "uid": 7, "work_dir": "/w", "name": "b"})
    assert (got["user"], got["uid"], got["work_dir"], got["name"]) == ("alice", 7, "/w", "a")


def test_equal_rows_of_dumps_with_different_columns_are_combined() -> None:
    [got] = merged({**ENDED, "partition": "main"}, {**ENDED, "account": "llm", "exit_code": 0, "exit_signal": 0})
    assert (got["partition"], got["account"], got["exit_code"]) == ("main", "llm", 0)


def test_a_row_without_db_index_is_the_attempt_of_its_second() -> None:
    [got] = merged({**RUNNING, "db_index": 5}, ENDED)
    assert (got["db_index"], got["state"], got["submitted_at"]) == (5, "COMPLETED", at(T))


def test_two_db_indexes_in_one_second_are_two_attempts() -> None:
    """They are a microsecond apart."""
    first, second = merged({**ENDED, "db_index": 5}, {**RUNNING, "db_index": 3})
    assert (first["db_index"], first["submitted_at"]) == (3, at(T))
    assert (second["db_index"], second["submitted_at"]) == (5, at(T, 1))


def test_rows_once_kept_separate_stay_separate() -> None:
    once = merge_attempts(frame({**ENDED, "db_index": 5}, {**RUNNING, "db_index": 3}))
    assert same_rows(merge_attempts(once, frame({**ENDED, "db_index": 5})), once)


def test_other_schedulers_may_have_fractions_of_a_second() -> None:
    rows = [row(scheduler="kubernetes", submitted_at=at(T, fraction)) for fraction in (1, 500_000)]
    assert len(merged(*rows)) == 2


def test_rows_of_other_seconds_are_ignored() -> None:
    again = row(submitted_at=at(T + 101), state="RUNNING", started_at=at(T + 110), elapsed_s=3.0, user="bob")
    first, second = merged({**ENDED, "user": "alice"}, again)
    assert (first["user"], second["user"]) == ("alice", "bob")
    assert merged(again) == [second]


# --- laws ---------------------------------------------------------------------------------------------

small = st.integers(0, 3)
few_times = st.none() | small.map(lambda n: at(T + 1000 * n))


@st.composite
def sightings(draw: st.DrawFn) -> dict[str, object]:
    """A row of one of few attempts. A job whose id is even never has a db_index, so that no second mixes both."""
    job, second = draw(small), draw(st.integers(0, 2))
    indexed = st.integers(1, 3) if job % 2 else st.none()
    submitted: datetime = at(T + 40_000 * second)
    maybe = draw(few_times)
    return row(
        cluster=draw(st.sampled_from("cd")),
        job_id=str(job),
        submitted_at=submitted + timedelta(microseconds=draw(st.integers(0, 2))),
        db_index=draw(indexed),
        state=draw(st.sampled_from(["PENDING", "RUNNING", "COMPLETED", "FAILED"])),
        started_at=maybe,
        ended_at=draw(few_times) if maybe else None,
        elapsed_s=draw(st.none() | small.map(float)),
        cancelled_by=draw(st.none() | st.sampled_from(["1", "2"])),
        exit_code=draw(st.none() | small),
        exit_signal=draw(st.none() | small),
        partition=draw(st.none() | st.sampled_from(["a", "b", "a,b"])),
        user=draw(st.none() | st.just("u")),
        work_dir=draw(st.none() | st.sampled_from(["/a", "/b"])),
        node_list=draw(st.none() | st.sampled_from(["n1", "n[1-2]"])),
        n_nodes=draw(small),
        n_gpus=draw(small),
        reason=draw(st.none() | st.just("Priority")),
    )


many = st.lists(sightings(), max_size=12).map(lambda rows: frame(*rows) if rows else empty(ATTEMPTS))


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(many, many)
def test_merging_is_commutative(a: pl.DataFrame, b: pl.DataFrame) -> None:
    assert same_rows(merge_attempts(a, b), merge_attempts(b, a))


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(many, many, many)
def test_merging_is_associative(a: pl.DataFrame, b: pl.DataFrame, c: pl.DataFrame) -> None:
    whole = merge_attempts(a, b, c)
    assert same_rows(merge_attempts(merge_attempts(a, b), c), whole)
    assert same_rows(merge_attempts(a, merge_attempts(b, c)), whole)


@settings(max_examples=30, deadline=None)
@given(many)
def test_merging_again_changes_nothing(a: pl.DataFrame) -> None:
    once = merge_attempts(a)
    assert same_rows(merge_attempts(once, a, once), once)


@settings(max_examples=25, deadline=None)
@given(many)
def test_each_key_is_present_once(a: pl.DataFrame) -> None:
    once = merge_attempts(a)
    assert once.select("cluster", "scheduler", "job_id", "submitted_at").is_unique().all()


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 2, 5])
def test_a_dump_read_in_pieces_is_the_dump_read_at_once(size: int) -> None:
    rows = [
        {"JobIDRaw": str(n % 5), "Submit": str(T + 100 * n), "Start": str(T + 100 * n), "DBIndex": str(n)}
        for n in range(12)
    ]
    whole = parse(text(*rows)).frames["attempts"]
    pieces = [parse(text(*rows[n : n + size + 1])).frames["attempts"] for n in range(0, len(rows), size)]
    assert same_rows(merge_attempts(*pieces[::-1]), whole)


def test_reported_end_replaces_an_assumed_one_even_if_earlier() -> None:
    guessed = row(state="COMPLETED", started_at=at(T + 10), ended_at=at(T + 900), end_guessed=True, elapsed_s=890.0)
    reported = row(state="COMPLETED", started_at=at(T + 10), ended_at=at(T + 60), elapsed_s=50.0)
    [result] = merged(RUNNING, guessed, reported)
    assert (result["ended_at"], result["end_guessed"]) == (at(T + 60), None)
    [result] = merged(LATER, guessed)
    assert (result["ended_at"], result["end_guessed"]) == (at(T + 900), True)
