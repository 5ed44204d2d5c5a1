"""Stalls: what explains a late step, and which rank the others waited for."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl
import pytest

from metrics import frames
from metrics.stragglers.stalls import RANK_LINES, STALLS, STEP_GAPS, stalls

BEGIN = datetime(2026, 3, 1, tzinfo=UTC)
OF_RUN = {"cluster": "c", "run_id": "r", "job_id": "7"}


def at(second: float) -> datetime:
    return BEGIN + timedelta(seconds=second)


def gap(**changes: Any) -> pl.DataFrame:
    """Steps take 10 s; the one at 1000 s lasts until 1610 s."""
    row = {
        **OF_RUN,
        "step": 100,
        "began_at": at(1000),
        "resumed_at": at(1610),
        "usual_s": 10.0,
        "n_gpus": 16,
        **changes,
    }
    return pl.DataFrame([row], schema=STEP_GAPS)


def events(*rows: tuple[str, float, float | None]) -> pl.DataFrame:
    every = [
        {**OF_RUN, "scheduler": "slurm", "kind": kind, "ts": at(since), "blocking": True,
         "ended_at": None if until is None else at(until)}
        for kind, since, until in rows
    ]  # fmt: skip
    return frames.conform(pl.DataFrame(every, schema=frames.RUN_EVENTS), frames.RUN_EVENTS)


def lines(waits: dict[int, float | None], since: float = 600, until: float = 2210) -> pl.DataFrame:
    rows = [
        {**OF_RUN, "rank": rank, "node": f"n{rank // 8}", "first_step": 60, "steps": 100, "compute_s": 900.0,
         "wait_s": wait, "started_at": at(since), "ended_at": at(until)}
        for rank, wait in waits.items()
    ]  # fmt: skip
    return frames.conform(pl.DataFrame(rows), RANK_LINES) if rows else frames.empty(RANK_LINES)


def only(gaps: pl.DataFrame, of: pl.DataFrame | None = None, ranks: pl.DataFrame | None = None) -> dict[str, Any]:
    result = stalls(gaps, events() if of is None else of, lines({}) if ranks is None else ranks)
    assert dict(result.schema) == STALLS
    return result.row(0, named=True)


def test_without_events_and_ranks_the_kind_is_unknown() -> None:
    row = only(gap())
    assert (row["kind"], row["last_rank"], row["seconds"], row["times"]) == ("unknown", None, 600.0, 61.0)
    assert row["lost_gpu_s"] == 16 * 600
    assert row["reason"].startswith("cannot tell")
    assert only(gap(n_gpus=None))["lost_gpu_s"] is None


@pytest.mark.parametrize(
    ("event", "kind"),
    [
        (("data", 1005, 1600), "data"),
        (("checkpoint_save", 1010, 1400), "checkpoint"),
        (("checkpoint_load", 900, None), "checkpoint"),
        (("data", 1005, 1100), "unknown"),
        (("step", 1005, 1600), "unknown"),
    ],
)
def test_events_that_take_most_of_it_explain_it(event: tuple[str, float, float | None], kind: str) -> None:
    assert only(gap(), events(event))["kind"] == kind


def test_an_evaluation_is_no_stall() -> None:
    assert stalls(gap(), events(("eval", 1005, 1600)), lines({})).is_empty()


def test_rank_that_did_not_wait_is_the_one_waited_for() -> None:
    row = only(gap(), ranks=lines({**dict.fromkeys(range(32), 640.0), 13: 12.0}))
    assert (row["kind"], row["last_rank"], row["last_node"]) == ("collective", 13, "n1")
    assert row["reason"] == "the other ranks wait for rank 13 on n1"


def test_where_all_wait_the_collective_stands_still() -> None:
    row = only(gap(), ranks=lines(dict.fromkeys(range(32), 640.0)))
    assert (row["kind"], row["last_rank"]) == ("collective", None)


@pytest.mark.parametrize(
    "ranks",
    [
        lines({0: 640.0, 1: 12.0}),
        lines(dict.fromkeys(range(32))),
        lines(dict.fromkeys(range(32), 5.0)),
        lines({**dict.fromkeys(range(32), 640.0), 13: 12.0}, since=0, until=900),
    ],
    ids=["too few ranks", "no waiting recorded", "nobody waited", "lines of another time"],
)
def test_no_rank_is_named_without_evidence(ranks: pl.DataFrame) -> None:
    row = only(gap(), ranks=ranks)
    assert (row["kind"], row["last_rank"], row["last_node"]) == ("unknown", None, None)


def test_an_event_outweighs_ranks_and_no_rank_is_last() -> None:
    row = only(gap(), events(("data", 1005, 1600)), lines({**dict.fromkeys(range(32), 640.0), 13: 12.0}))
    assert (row["kind"], row["last_rank"]) == ("data", None)


def test_runs_outside_a_scheduler_are_matched_by_name() -> None:
    nobodys = events(("data", 1005, 1600)).with_columns(job_id=pl.lit(None, pl.String()))
    assert only(gap(job_id=None), nobodys)["kind"] == "data"
    assert only(gap(), nobodys)["kind"] == "unknown"


def test_the_costliest_comes_first_and_nothing_makes_nothing() -> None:
    two = pl.concat([gap(), gap(began_at=at(5000), resumed_at=at(9000))])
    assert stalls(two, events(), lines({}))["seconds"].to_list() == [3990.0, 600.0]
    assert stalls(gap().clear(), events(), lines({})).is_empty()


def stopped(last: dict[int, int]) -> pl.DataFrame:
    """Lines of ten steps of 100 s up to each rank's last one."""
    rows = [
        {**OF_RUN, "rank": rank, "node": f"n{rank // 8}", "first_step": 10 * line, "steps": 10, "compute_s": 90.0,
         "wait_s": 1.0, "started_at": at(100 * line), "ended_at": at(100 * line + 100)}
        for rank, lines_of_rank in last.items() for line in range(lines_of_rank)
    ]  # fmt: skip
    return frames.conform(pl.DataFrame(rows), RANK_LINES)


def test_rank_that_stopped_before_the_others_is_named() -> None:
    row = only(gap(), ranks=stopped({**dict.fromkeys(range(16), 10), 13: 6}))
    assert (row["kind"], row["last_rank"], row["last_node"]) == ("collective", 13, "n1")
    assert row["reason"] == "rank 13 on n1 recorded no step after 59; the middle rank reached 99"


@pytest.mark.parametrize("last", [{13: 9}, dict.fromkeys(range(8), 5), {}], ids=["a line", "half of them", "none"])
def test_ranks_that_stopped_about_together_name_none(last: dict[int, int]) -> None:
    row = only(gap(), ranks=stopped({**dict.fromkeys(range(16), 10), **last}))
    assert (row["kind"], row["last_rank"]) == ("unknown", None)
