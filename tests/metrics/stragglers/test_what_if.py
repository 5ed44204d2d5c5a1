"""What-if analysis: replays against plain Python, planted causes, shares that add up."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metrics.stragglers.compute_sums import estimated_slowdown
from metrics.stragglers.dependencies import dependencies
from metrics.stragglers.operations import trace
from metrics.stragglers.replay import own_times, step_times_s
from metrics.stragglers.verdict import verdict
from metrics.stragglers.what_if import PARTS, PipelineStage, what_if
from tests.metrics.oracles.pipeline import Own, Pipeline

if TYPE_CHECKING:
    from collections.abc import Callable

USUAL = {"forward-compute": 1.0, "backward-compute": 2.0, "gc": 0.0, "optimizer": 0.1}


def usual(kind: str, *_: int) -> float:
    return USUAL.get(kind, 0.01)


@st.composite
def pipelines(draw: st.DrawFn) -> Pipeline:
    seed = draw(st.integers(0, 2**32))

    def own(*which: object) -> float:
        return usual(str(which[0])) * random.Random(f"{seed}{which}").uniform(0.5, 2)

    ranks, stages = draw(st.integers(1, 3)), draw(st.integers(1, 4))
    overlapped = draw(st.booleans())
    return Pipeline(ranks, stages, draw(st.integers(1, 4)), draw(st.integers(1, 2)), own, overlapped=overlapped)


@given(pipelines())
def test_replay_equals_the_plain_pipeline(job: Pipeline) -> None:
    measured = trace(job.rows())
    waits = dependencies(measured)
    own = own_times(measured, waits)
    expected = [job.step_time_s(step) for step in range(job.steps)]
    assert measured.step_times_s.tolist() == pytest.approx(expected)
    assert step_times_s(waits, own).tolist() == pytest.approx(expected)


@given(pipelines())
def test_own_times_are_those_of_the_pipeline(job: Pipeline) -> None:
    measured = trace(job.rows())
    own = own_times(measured, dependencies(measured))
    for at, (stage, kind, number) in enumerate(measured.operations):
        for step in range(job.steps):
            expected = [job.own(kind, step, rank, stage, number) for rank in range(job.ranks)]
            assert own[at, step].tolist() == pytest.approx(expected, abs=1e-9)


@pytest.mark.slow
@given(pipelines(), st.randoms(use_true_random=False))
def test_shares_add_up_in_any_order_of_rows(job: Pipeline, chance: random.Random) -> None:
    rows = job.rows()
    result = what_if(rows)
    assert not result.shares or sum(result.shares.values()) == pytest.approx(1, abs=1e-6)
    assert bool(result.shares) == (abs(result.measured_s - result.ideal_s) > 1e-8)
    assert what_if(rows.sample(fraction=1, shuffle=True, seed=chance.randrange(2**31))) == result


def test_a_trace_need_not_number_what_has_one_chunk() -> None:
    rows = planted(lambda kind, step, rank, *_: usual(kind) * (1 + rank + step / 10)).rows()
    assert what_if(rows.drop("number", "chunk", "place")) == what_if(rows)


def test_gradients_are_scattered_while_another_chunk_is_computed() -> None:
    """Two chunks on one stage: the second one's gradients (3 s) overlap with the first one's backward pass (2 s)."""
    program = [
        ("forward-compute", 0, 0, 0, 0.0, 1.0), ("forward-compute", 1, 1, 1, 1.0, 1.0),
        ("backward-compute", 0, 1, 1, 2.0, 2.0), ("backward-compute", 1, 0, 0, 4.0, 2.0),
        ("grads-reduce-scatter", 0, 1, 1, 4.0, 3.0), ("grads-reduce-scatter", 1, 0, 0, 7.0, 1.5),
        ("layernorm-grads-all-reduce", 0, -1, -1, 8.5, 0.25), ("separate-grads-all-reduce", 0, -1, -1, 8.75, 0.5),
        ("optimizer", 0, -1, -1, 9.25, 0.25),
    ]  # fmt: skip
    rows = pl.DataFrame(
        [(0, 0, step, *one) for step in range(2) for one in program],
        schema=["dp_rank", "stage", "step", "kind", "number", "chunk", "place", "started_s", "duration_s"],
        orient="row",
    )
    measured = trace(rows)
    waits = dependencies(measured)
    own = own_times(measured, waits)
    assert step_times_s(waits, own).tolist() == pytest.approx([9.5, 9.5])
    kinds = [(operation.kind, operation.number) for operation in measured.operations]
    own[kinds.index(("grads-reduce-scatter", 0))] = 1.0
    assert step_times_s(waits, own).tolist() == pytest.approx([8.5, 8.5])


def planted(own: Own, late: Own = lambda *_: 0.0) -> Pipeline:
    return Pipeline(4, 3, 6, 3, own, late)


def test_equal_work_is_no_straggler() -> None:
    result = what_if(planted(usual).rows())
    assert result.slowdown == pytest.approx(1)
    assert verdict(result).cause == "none"


def test_one_slow_worker_is_a_node_and_named() -> None:
    def own(kind: str, step: int, rank: int, stage: int, number: int) -> float:
        slow = 2.5 if (rank, stage) == (2, 1) and kind in {"forward-compute", "backward-compute"} else 1
        return usual(kind) * slow

    result = what_if(planted(own).rows())
    answer = verdict(result)
    assert (answer.cause, answer.workers) == ("node", (PipelineStage(2, 1),))
    assert result.peers[PipelineStage(2, 1)] == pytest.approx(2.5)
    assert result.m_w == pytest.approx(1, abs=0.1)
    assert result.slowest == (PipelineStage(2, 1),)


def test_a_slow_worker_of_the_last_stage_is_a_node_too() -> None:
    def own(kind: str, step: int, rank: int, stage: int, number: int) -> float:
        return usual(kind) * (2.0 if (rank, stage) == (0, 2) else 1)

    assert verdict(what_if(planted(own).rows())).workers == (PipelineStage(0, 2),)


def test_a_heavy_last_stage_is_the_shape_of_the_job() -> None:
    def own(kind: str, step: int, rank: int, stage: int, number: int) -> float:
        return usual(kind) * (1.8 if stage == 2 and kind.endswith("compute") else 1)

    result = what_if(planted(own).rows())
    answer = verdict(result)
    assert (answer.cause, answer.workers) == ("job_shape", ())
    assert "stage 2" in answer.reason
    assert result.m_s is not None
    assert result.m_s > 0.9


def test_uneven_micro_batches_are_the_shape_of_the_job() -> None:
    def own(kind: str, step: int, rank: int, stage: int, number: int) -> float:
        length = random.Random(f"{step} {rank} {number}").choice([0.3, 0.5, 3.0])
        return usual(kind) * (length if kind.endswith("compute") else 1)

    answer = verdict(what_if(Pipeline(6, 2, 6, 8, own).rows()))
    assert (answer.cause, answer.workers) == ("job_shape", ())
    assert "micro-batches" in answer.reason


def test_a_rank_slow_on_every_stage_has_more_data() -> None:
    def own(kind: str, step: int, rank: int, stage: int, number: int) -> float:
        return usual(kind) * (2.0 if rank == 1 and kind.endswith("compute") else 1)

    answer = verdict(what_if(planted(own).rows()))
    assert (answer.cause, answer.workers) == ("job_shape", ())
    assert "rank 1" in answer.reason


def test_one_rank_does_not_distinguish_a_node_from_a_stage() -> None:
    def own(kind: str, step: int, rank: int, stage: int, number: int) -> float:
        return usual(kind) * (2.0 if stage == 1 and kind.endswith("compute") else 1)

    assert verdict(what_if(Pipeline(1, 3, 6, 3, own).rows())).cause == "unknown"


def test_slow_transfers_are_the_network() -> None:
    def own(kind: str, step: int, rank: int, stage: int, number: int) -> float:
        slow = kind in {"forward-send", "forward-recv"} and rank == 3 and stage <= 1
        return 3.0 if slow else usual(kind)

    assert verdict(what_if(planted(own).rows())).cause == "network"


def test_late_launches_are_the_host() -> None:
    def late(kind: str, step: int, rank: int, stage: int, number: int) -> float:
        return 2.0 if kind == "forward-compute" and stage == 0 else 0.0

    result = what_if(planted(usual, late=late).rows())
    assert verdict(result).cause == "launch"
    assert result.measured_s / result.replayed_s > 1.3


def test_incomplete_steps_are_left_out_and_counted() -> None:
    rows = planted(usual).rows()
    of_step = pl.col("step")
    cut = rows.filter(~((of_step == 0) & (pl.col("kind") == "optimizer") & (pl.col("dp_rank") == 1)))
    cut = pl.concat([cut, cut.filter(of_step == 1).head(1)])
    result = what_if(cut)
    assert (result.steps, result.incomplete_steps) == (1, 2)
    untimed = rows.with_columns(duration_s=pl.when(of_step == 2).then(float("nan")).otherwise("duration_s"))
    assert what_if(untimed).incomplete_steps == 1


def test_a_rank_without_a_stage_is_left_out_and_named() -> None:
    """As where the file of one worker is missing: the others may wait for it, which is no fault of the network."""
    rows = planted(usual).rows()
    whole = what_if(rows)
    cut = what_if(rows.filter(~((pl.col("dp_rank") == 1) & (pl.col("stage") == 0))))
    assert (cut.incomplete_ranks, whole.incomplete_ranks) == ((1,), ())
    assert (cut.steps, set(cut.ranks)) == (whole.steps, set(whole.ranks) - {1})
    late = replace(
        cut, measured_s=2.0, replayed_s=2.0, ideal_s=1.0, shares={**dict.fromkeys(PARTS, 0.0), "communication": 1.0}
    )
    assert verdict(late).cause == "unknown"
    assert verdict(replace(late, incomplete_ranks=())).cause == "network"


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda rows: rows.with_columns(kind=pl.lit("sleep")), "unknown kinds"),
        (lambda rows: rows.head(0), "no step"),
        (lambda rows: rows.filter(~pl.col("kind").eq("forward-recv") | (pl.col("stage") != 1)), "receives 0"),
        (lambda rows: rows.filter(~pl.col("kind").eq("forward-send") | (pl.col("number") < 3)), "launched"),
    ],
)
def test_what_is_no_trace_is_refused_with_reason(spoil: Callable[[pl.DataFrame], pl.DataFrame], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        what_if(spoil(planted(usual).rows()))


def test_sums_estimate_the_slowdown_of_each_run() -> None:
    sums = pl.DataFrame(
        {
            "run": ["a", "a", "a", "b", "b", "c", "d", "d"],
            "step": [1, 1, 1, 1, 1, 1, 1, 1],
            "compute_s": [4.0, 1.0, 1.0, 2.0, None, 3.0, 5.0, 5.0],
        }
    )
    answer = estimated_slowdown(sums, by=["run"])
    assert answer.rows() == [("a", 2.0, 1, 3), ("d", 1.0, 1, 2)]
    assert estimated_slowdown(sums.filter(pl.col("run") == "c")).is_empty()


@pytest.mark.parametrize("missing", [0, 2])
def test_absent_rank_is_named_and_no_fault_of_the_network(missing: int) -> None:
    """The others may have waited for a rank of which there is no file at all: that looks like slow transfers."""

    def own(kind: str, step: int, rank: int, stage: int, number: int) -> float:
        slow = kind in {"forward-send", "forward-recv"} and rank == 3 and stage <= 1
        return 3.0 if slow else usual(kind)

    rows = planted(own).rows()
    result = what_if(rows.filter(pl.col("dp_rank") != missing))
    assert result.incomplete_ranks == (missing,)
    assert (verdict(what_if(rows)).cause, verdict(result).cause) == ("network", "unknown")


def test_sends_with_a_single_stage_leave_the_cause_open() -> None:
    answer = verdict(what_if(planted(usual).rows().filter(pl.col("stage") == 0)))
    assert answer.cause == "unknown"
    assert "the others are missing" in answer.reason


def test_clocks_that_disagree_leave_the_cause_open() -> None:
    rows = planted(usual).rows()
    together = what_if(rows)
    ahead = pl.when(pl.col("stage") == 1).then(50.0).otherwise(0.0)
    apart = what_if(rows.with_columns(pl.col("started_s") + ahead))
    assert together.clocks_apart_s == pytest.approx(0, abs=1e-9)
    assert apart.clocks_apart_s > 40
    assert verdict(apart).cause == "unknown"
    assert "clocks" in verdict(apart).reason
