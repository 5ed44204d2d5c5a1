"""What tells causes apart that a replay takes for one: pauses, lengths of sequences, blocking receives, links."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import polars as pl
import pytest

from metrics.stragglers.clues import passes
from metrics.stragglers.compute_sums import estimated_slowdown
from metrics.stragglers.operations import trace
from metrics.stragglers.verdict import verdict
from metrics.stragglers.what_if import what_if
from tests.metrics.oracles import blocking_pipeline
from tests.metrics.oracles.pipeline import Pipeline
from tests.metrics.stragglers.test_what_if import usual

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.metrics.oracles.pipeline import Own


def chance(*which: object) -> float:
    return random.Random(f"{which}").random()


def sequences(kind: str, step: int, rank: int, stage: int, number: int) -> float:
    """A micro-batch takes as long forward as backward in proportion, on each stage."""
    length = 3.0 if chance(step, rank, number) < 0.2 else 1.0
    return usual(kind) * (length if kind.endswith("compute") else 1)


def pauses(kind: str, step: int, rank: int, stage: int, number: int) -> float:
    """One forward pass in ten takes 5 seconds longer, on whichever worker."""
    paused = kind == "forward-compute" and chance(step, rank, stage, number) < 0.1
    return usual(kind) + (5.0 if paused else 0.0)


def scatter(kind: str, step: int, rank: int, stage: int, number: int) -> float:
    """Passes take longer now and then, forward and backward ones for no common reason."""
    longer = kind.endswith("compute") and chance(kind, step, rank, stage, number) < 0.2
    return usual(kind) * (3.0 if longer else 1.0)


@pytest.mark.parametrize(
    ("own", "cause", "words"),
    [
        (sequences, "job_shape", "micro-batches"),
        (pauses, "launch", "pauses of the host"),
        (scatter, "unknown", "alike"),
    ],
)
def test_pauses_are_no_sequences(own: Own, cause: str, words: str) -> None:
    answer = verdict(what_if(Pipeline(4, 2, 6, 8, own).rows()))
    assert answer.cause == cause
    assert words in answer.reason
    assert answer.workers == ()


def test_passes_of_one_length_are_unknown() -> None:
    assert passes(trace(Pipeline(2, 2, 3, 2, usual).rows())) is None


def test_passes_alike_is_the_correlation() -> None:
    """Two micro-batches of which the longer takes longer both ways: 1; the other way round: -1."""

    def own(kind: str, step: int, rank: int, stage: int, number: int) -> float:
        longer = number == (0 if kind == "forward-compute" or step < 0 else 1)
        return usual(kind) * (1.5 if longer and kind.endswith("compute") else 1)

    found = passes(trace(Pipeline(2, 1, 2, 2, own).rows()))
    assert found is not None
    assert (found.alike, found.forward, found.backward) == pytest.approx((-1, 0.2, 0.2))


def slow_into(rank: int, stage: int) -> Callable[[int, int], float]:
    return lambda *at: 1.5 if at == (rank, stage) else blocking_pipeline.TRANSFER_S


@pytest.mark.parametrize(
    ("rank", "stage", "place", "times"),
    [
        (1, 2, "into stage 2 of data-parallel rank 1", 30.0),
        (2, 3, "between stages 2 and 3 of data-parallel rank 2", 15.5),
        (0, 0, "between stages 0 and 1 of data-parallel rank 0", 15.5),
    ],
)
def test_slow_link_of_blocking_receives_is_named(rank: int, stage: int, place: str, times: float) -> None:
    """No host is late: receives begin late because the worker waits for what it received before.

    The first and the last stage receive from one side only: 30 times one way, as usual the other.
    """
    result = what_if(blocking_pipeline.trace_rows(3, 4, 8, 4, slow_into(rank, stage)))
    answer = verdict(result)
    assert answer.cause == "network"
    assert f"transfers {place} take {times} times" in answer.reason


def test_slow_transfers_everywhere_name_no_link() -> None:
    def own(kind: str, step: int, rank: int, stage: int, number: int) -> float:
        slow = kind.endswith(("-send", "-recv")) and chance(step, number) < 0.3
        return 3.0 if slow else usual(kind)

    answer = verdict(what_if(Pipeline(6, 4, 6, 8, own).rows()))
    assert answer.cause == "network"
    assert "on no single link" in answer.reason


@pytest.mark.parametrize(("slow_steps", "cause"), [(1, "unknown"), (2, "unknown"), (3, "node")])
def test_slow_worker_of_few_steps_is_no_node(slow_steps: int, cause: str) -> None:
    def own(kind: str, step: int, rank: int, stage: int, number: int) -> float:
        slow = (rank, stage) == (1, 1) and step < slow_steps and kind.endswith("compute")
        return usual(kind) * (6.0 if slow else 1)

    answer = verdict(what_if(Pipeline(4, 3, 6, 8, own).rows()))
    assert answer.cause == cause
    assert bool(answer.workers) == (cause == "node")
    assert cause == "node" or "for three steps" in answer.reason


def test_several_slow_workers_are_all_named() -> None:
    def own(kind: str, step: int, rank: int, stage: int, number: int) -> float:
        slow = (rank, stage) in {(1, 1), (4, 0)} and kind.endswith("compute")
        return usual(kind) * (2.0 if slow else 1)

    answer = verdict(what_if(Pipeline(6, 2, 6, 4, own).rows()))
    assert {(one.dp_rank, one.stage) for one in answer.workers} == {(1, 1), (4, 0)}
    assert "rank 1, stage 1" in answer.reason
    assert "rank 4, stage 0" in answer.reason


@pytest.mark.parametrize(("stages", "least", "most"), [(1, 0.0, 0.05), (4, 0.05, 0.55)])
def test_sums_of_a_slow_worker_err_as_stated(stages: int, least: float, most: float) -> None:
    """The manual states the error: up to 5 % too high without a pipeline, up to half with one."""
    for slow in (1.2, 1.6, 2.5):
        rows = Pipeline(8, stages, 8, 2, slow_worker(slow)).rows()
        sums = rows.filter(pl.col("kind").str.ends_with("-compute"))
        sums = sums.group_by("step", "dp_rank", "stage").agg(compute_s=pl.col("duration_s").sum())
        error = estimated_slowdown(sums)["slowdown"].item() / what_if(rows).slowdown - 1
        assert least <= error <= most


def slow_worker(times: float) -> Own:
    return lambda kind, _, *worker: usual(kind) * (times if worker[:2] == (1, 0) and kind.endswith("compute") else 1)
