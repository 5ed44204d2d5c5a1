"""What settled attempts leave out: runs of the others, found without them, are those of finding all runs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from app.compute.settled import closure
from metrics import frames
from metrics.runs.naming import NAMED
from metrics.runs.runs import run_attempts

BEGIN: Final = datetime(2026, 10, 1, tzinfo=UTC)
KEY: Final = list(frames.ATTEMPT_KEY)
GAP_S: Final = 4 * 3600.0


class Tried(NamedTuple):
    """An attempt of which little is known; hours since the beginning."""

    job: int
    submitted: int
    length: int = 1
    state: str = "COMPLETED"
    user: str = "a"
    het: int | None = None
    called: str | None = None
    word: str = "comment"


CALLED: Final = ("x", "y", "x@a", "x@1-20261001T000000Z", "1-20261001T000000Z", "2-20261001T030000Z", "y@", "@")
tried = st.builds(
    Tried,
    job=st.integers(1, 5),
    submitted=st.integers(0, 12),
    length=st.integers(0, 5),
    state=st.sampled_from(["COMPLETED", "NODE_FAIL", "FAILED"]),
    user=st.sampled_from(["a", "b"]),
    het=st.sampled_from([None, None, None, 1, 2]),
    called=st.sampled_from([None, None, *CALLED]),
    word=st.sampled_from(["comment", "environment", "explicit"]),
)
states = st.lists(tried, max_size=8, unique_by=lambda each: (each.job, each.submitted))


def attempts_of(rows: list[Tried]) -> pl.DataFrame:
    made = [
        {
            "cluster": "c",
            "scheduler": "slurm",
            "job_id": str(each.job),
            "submitted_at": BEGIN + timedelta(hours=each.submitted),
            "started_at": BEGIN + timedelta(hours=each.submitted),
            "ended_at": BEGIN + timedelta(hours=each.submitted + each.length),
            "state": each.state,
            "user": each.user,
            "name": "train",
            "het_job_id": None if each.het is None else str(each.het),
        }
        for each in rows
    ]
    if not made:
        return frames.empty(frames.ATTEMPTS)
    return frames.conform(pl.DataFrame(made, schema_overrides={"het_job_id": pl.String}), frames.ATTEMPTS)


def names_of(rows: list[Tried]) -> pl.DataFrame:
    named = [each for each in rows if each.called is not None]
    keys = attempts_of(named).select(KEY)
    return frames.conform(
        keys.with_columns(
            run_id=pl.Series([each.called for each in named], dtype=pl.String),
            joined_by=pl.Series([each.word for each in named], dtype=pl.String),
        ),
        NAMED,
    )


def found(rows: list[Tried]) -> pl.DataFrame:
    return run_attempts(attempts_of(rows), max_gap_s=GAP_S, explicit=names_of(rows))


@pytest.mark.slow
@given(kept=states, removed=states, added=states)
# A name that two users gave is one run's again, and one that nothing was called continues the run of a late attempt.
@example(kept=[Tried(1, 0, called="x")], removed=[Tried(2, 0, user="b", called="x")], added=[])
@example(kept=[Tried(2, 5, called="1-20261001T000000Z")], removed=[], added=[Tried(1, 0)])
@example(
    kept=[Tried(1, 0, called="x@a"), Tried(2, 5, called="x")], removed=[], added=[Tried(3, 0, 9, called="x", user="b")]
)
def test_runs_without_the_settled_are_those_of_all(kept: list[Tried], removed: list[Tried], added: list[Tried]) -> None:
    taken = {(each.job, each.submitted) for each in kept}
    removed, added = ([each for each in some if (each.job, each.submitted) not in taken] for some in (removed, added))
    before, after = [*kept, *removed], [*kept, *added]
    if not after:
        return
    last, now, attempts = found(before), found(after), attempts_of(after)
    gone = attempts_of(removed).select(KEY)

    def members_of(some: pl.DataFrame) -> pl.DataFrame:
        runs = last.join(pl.concat([some.select(KEY), gone]), on=KEY, how="semi").select("run_id")
        return last.join(runs, on="run_id", how="semi")

    is_new = pl.Series([each in added for each in after], dtype=pl.Boolean)
    some = closure(attempts, is_new, names_of(after), members_of, most=attempts.height)
    assert some is not None
    again = run_attempts(some.attempts, max_gap_s=GAP_S, explicit=names_of(after))
    replaced = pl.concat([some.runs, again.select("run_id")])
    settled = last.join(replaced, on="run_id", how="anti")
    assert_frame_equal(pl.concat([settled, again]).sort(KEY), now.sort(KEY), check_exact=True)


def test_a_name_brings_its_jobs_and_no_others() -> None:
    rows = [Tried(1, 0, called="x"), Tried(2, 5, called="x"), Tried(3, 0, called="y"), Tried(4, 5)]
    new = pl.Series([False, True, False, False])
    last = found(rows[:1] + rows[2:])
    some = closure(
        attempts_of(rows), new, names_of(rows), lambda each: last.join(each, on=KEY, how="semi"), most=len(rows)
    )
    assert some is not None
    assert sorted(some.attempts["job_id"]) == ["1", "2"]
    assert some.runs["run_id"].to_list() == ["x"]
