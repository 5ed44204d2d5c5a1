"""Disagreements of two control planes, against a walk through every second, and which side was wrong."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metrics import frames
from metrics.agreement.agreement import HELD, PAIRS, SIDES, SYNC_INTERVALS, sync_intervals
from metrics.agreement.summary import agreement_summary, sync_lags
from tests.metrics.agreement.slow_agreement import Pair, Span, Story, disagreements
from tests.metrics.tables import START, rows

if TYPE_CHECKING:
    from collections.abc import Sequence

UNTIL = 30
NODES = ("n1", "n2")
HOSTS = ("h1", "h2")


def second(number: int | None) -> datetime | None:
    return None if number is None else START + timedelta(seconds=number)


def only(schema: frames.Schema, given: Sequence[Span]) -> pl.DataFrame:
    """A frame of the schema from spans: what it does not have is left out."""
    table = [
        {"cluster": "c", "node": each.node, "started_at": second(each.begin), "ended_at": second(each.end),
         "state": each.what, "milli_gpus": each.gpus * 1000, "reason": each.what}
        for each in given
    ]  # fmt: skip
    return pl.DataFrame([{name: row.get(name) for name in schema} for row in table], schema=schema)


def found(story: Story, listed: int = 0) -> pl.DataFrame:
    pairs = [
        {"cluster": "c", "node": each.node, "kubernetes_node": each.host, "started_at": second(each.begin),
         "ended_at": second(each.end), "terminating_at": second(each.asked)}
        for each in story.pairs
    ]  # fmt: skip
    return sync_intervals(
        rows(PAIRS, *pairs),
        only(SIDES, story.slurm),
        only(SIDES, story.hosts),
        only(HELD, story.jobs),
        only(frames.INVENTORY, story.there),
        slurm_known=rows(frames.COVERAGE, {"cluster": "c", "started_at": START, "ended_at": second(UNTIL)}),
        kubernetes_known=(START, START + timedelta(seconds=UNTIL)),
        pods_listed_at=second(listed),
    )


def spans_of(names: Sequence[str], states: Sequence[str], gpus: int = 0) -> st.SearchStrategy[Span]:
    ends = st.none() | st.integers(0, UNTIL)
    return st.builds(
        Span, st.sampled_from(names), st.integers(0, UNTIL - 1), ends, st.sampled_from(states), st.just(gpus)
    )


@st.composite
def stories(draw: st.DrawFn) -> Story:
    pairs = []
    for node, host in draw(st.lists(st.sampled_from([(n, h) for n in NODES for h in HOSTS]), unique=True, max_size=3)):
        begin = draw(st.integers(0, UNTIL - 1))
        end = draw(st.none() | st.integers(begin, UNTIL))
        pairs.append(Pair(node, host, begin, end, draw(st.none() | st.integers(begin, UNTIL))))
    hosts = draw(st.lists(spans_of(HOSTS, ("down", "drained", "unknown")), max_size=4))
    there = [Span(node, draw(st.integers(0, 3)), draw(st.sampled_from([20, 30])), "", 8) for node in NODES]
    slurm = draw(st.lists(spans_of(NODES, ("down", "drained", "maintenance", "unknown")), max_size=4))
    jobs = draw(st.lists(spans_of(NODES, ("COMPLETED", "FAILED"), 4), max_size=3))
    return Story(tuple(pairs), tuple(slurm), tuple(hosts), tuple(jobs), tuple(there))


@pytest.mark.slow
@given(stories())
def test_disagreements_are_those_of_a_walk(story: Story) -> None:
    table = found(story)
    shown = table.select(
        "node", "kubernetes_node", "kind", from_start("started_at"), from_start("ended_at"),
        "gpu_seconds", "held_gpu_seconds",
    )  # fmt: skip
    expected = disagreements(story, UNTIL)
    assert sorted(shown.rows(), key=str) == sorted(expected, key=str)


def from_start(moment: str) -> pl.Expr:
    """Seconds after `START`."""
    return pl.col(moment).dt.epoch("s") - int(START.timestamp())


THERE = (Span("n1", 0, 30, "", 8),)
HERE = (Pair("n1", "h1", 0, None),)


def one(
    *, slurm: Sequence[Span] = (), hosts: Sequence[Span] = (), jobs: Sequence[Span] = (), pairs: Sequence[Pair] = HERE
) -> list[dict[str, Any]]:
    return found(Story(tuple(pairs), tuple(slurm), tuple(hosts), tuple(jobs), THERE)).to_dicts()


def test_cordon_that_slurm_follows_is_its_lag_until_drained() -> None:
    job = Span("n1", 2, 15, "COMPLETED", 8)
    (row,) = one(hosts=[Span("h1", 5, None, "drained")], slurm=[Span("n1", 8, None, "drained")], jobs=[job])
    names = ("kind", "began_by", "ended_by", "wrong", "evidence", "slurm_state")
    assert [row[name] for name in names] == ["cordoned", "kubernetes", "slurm", "slurm", "followed", "allocated"]
    assert (row["started_at"], row["ended_at"], row["settled_at"]) == (second(5), second(8), second(15))
    assert (row["gpu_seconds"], row["held_gpu_seconds"]) == (24, 24)


def test_repair_to_return_is_seen_through_an_unobserved_end() -> None:
    unsure = [Span("h1", 0, 10, "drained"), Span("h1", 10, 14, "unknown")]
    (row,) = one(hosts=unsure, slurm=[Span("n1", 0, 20, "drained")])
    assert (row["kind"], row["began_by"], row["ended_by"], row["wrong"]) == (
        "out_of_slurm", "kubernetes", "slurm", "slurm"
    )  # fmt: skip
    assert (row["started_at"], row["ended_at"], row["begin_uncertain_s"]) == (second(14), second(20), 4)


def test_what_ran_shows_which_side_was_wrong() -> None:
    away = [Span("h1", 5, 15, "down")]
    cases = {
        ("kubernetes", "work_completed"): Span("n1", 1, 10, "COMPLETED", 8),
        ("slurm", "node_fail"): Span("n1", 1, 16, "NODE_FAIL", 8),
        ("unknown", None): Span("n1", 1, 25, "COMPLETED", 8),
    }
    for expected, job in cases.items():
        (row,) = one(hosts=away, jobs=[job])
        assert (row["wrong"], row["evidence"]) == expected
    (row,) = one(hosts=[Span("h1", 5, 15, "drained")], jobs=[Span("n1", 7, 9, "FAILED", 8)])
    assert (row["wrong"], row["evidence"]) == ("slurm", "work_placed")


def test_node_that_is_down_in_slurm_alone_is_nobodys_fault() -> None:
    (row,) = one(slurm=[Span("n1", 5, 15, "down")])
    assert (row["kind"], row["began_by"], row["ended_by"], row["wrong"]) == (
        "out_of_slurm",
        "slurm",
        "slurm",
        "unknown",
    )
    (row,) = one(slurm=[Span("n1", 5, 15, "down")], hosts=[Span("h1", 9, None, "drained")])[:1]
    assert (row["ended_by"], row["wrong"], row["evidence"]) == ("kubernetes", "kubernetes", "followed")


def test_maintenance_and_unobserved_hosts_are_no_disagreement() -> None:
    assert one(slurm=[Span("n1", 5, 15, "maintenance")]) == []
    assert one(slurm=[Span("n1", 5, 15, "down")], hosts=[Span("h1", 5, 15, "unknown")]) == []


def test_pods_gone_before_the_first_list_are_no_disagreement() -> None:
    pods = (Pair("n1", "h1", 5, 10), Pair("n1", "h1", 14, None))
    spans = [
        found(Story(pairs, (), (), (), THERE), listed=listed)
        .select(from_start("started_at"), from_start("ended_at"))
        .rows()
        for pairs, listed in ((pods, 20), (pods, 2), (pods, 12), (pods[1:], 3))
    ]
    # An end that was observed tells from then on; else the first list does.
    assert spans == [[(10, 14)], [(2, 5), (10, 14)], [(10, 14)], [(3, 14)]]


def test_unknown_gpus_of_a_job_leave_what_was_held_unknown() -> None:
    job = Span("n1", 2, 15, "COMPLETED", 8)
    story = Story(HERE, (), (Span("h1", 5, 10, "drained"),), (job,), THERE)
    held = only(HELD, [job]).with_columns(milli_gpus=pl.lit(None, dtype=pl.Int64))
    (row,) = sync_intervals(
        rows(PAIRS, {"cluster": "c", "node": "n1", "kubernetes_node": "h1", "started_at": START}),
        only(SIDES, story.slurm), only(SIDES, story.hosts), held, only(frames.INVENTORY, THERE),
        slurm_known=rows(frames.COVERAGE, {"cluster": "c", "started_at": START, "ended_at": second(UNTIL)}),
        kubernetes_known=(START, START + timedelta(seconds=UNTIL)),
    ).to_dicts()  # fmt: skip
    assert (row["gpu_seconds"], row["held_gpu_seconds"]) == (40, None)


def test_lags_count_what_still_waits_as_censored() -> None:
    base = dict.fromkeys(SYNC_INTERVALS) | {"cluster": "c", "node": "n", "kind": "cordoned"}
    given = [
        base | {"started_at": second(0), "ended_at": second(end or UNTIL), "settled_at": second(end and end + 5),
                "began_by": "kubernetes", "ended_by": "slurm" if end else "open", "wrong": "slurm",
                "begin_uncertain_s": 0.0, "end_uncertain_s": 0.0, "gpu_seconds": 8.0, "slurm_state": "idle",
                "kubernetes_state": "cordoned"}
        for end in (2, 4, 6, None)
    ]  # fmt: skip
    table = pl.DataFrame(given, schema=SYNC_INTERVALS)
    lags = {row["lag"]: row for row in sync_lags(table).to_dicts()}
    drain, drained = lags["cordon to drain requested"], lags["cordon to drained"]
    assert (drain["n"], drain["n_open"], drain["median_s"], drain["p90_s"]) == (4, 1, 4, None)
    assert (drained["median_s"], drained["longest_s"]) == (9, 30)
    (row,) = agreement_summary(table, "wrong").to_dicts()
    assert (row["subject"], row["n"], row["n_open"], row["gpu_s"], row["total_s"]) == ("slurm", 4, 1, 32, 42)
    assert row["held_gpu_s"] is None
