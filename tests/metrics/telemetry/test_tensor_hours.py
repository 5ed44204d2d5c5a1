"""Hours of tensor pipes by the attempt that held the GPUs: cases by hand, and a slow twin in plain Python."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import TYPE_CHECKING

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metrics import frames
from metrics.telemetry.occupancy import holders
from metrics.telemetry.tensor_hours import tensor_hours
from tests.metrics.tables import rows

if TYPE_CHECKING:
    from collections.abc import Sequence

DAY = datetime(2026, 3, 1, tzinfo=UTC)
FIRST = int(DAY.timestamp()) // 3600
CHECKS = "^hpc-verification"
NODES = ("a", "b")
GPUS = 2


@dataclass(frozen=True)
class Holder:
    """An attempt on a node from one minute of the day to another."""

    job: int
    node: str
    start: int
    end: int
    milli_gpus: int = 2000
    user: str = "al"
    evidence: str = "accounting"
    name: str = "train"


@dataclass(frozen=True)
class Hour:
    node: str
    gpu: int
    hour: int
    tensor: float | None = 0.5
    clock: float | None = 1.8e9


def at(minute: int) -> datetime:
    return DAY + timedelta(minutes=minute)


def table(hours: Sequence[Hour]) -> pl.DataFrame:
    schema = {"node": frames.TEXT, "gpu": frames.TEXT, "ts": frames.TIME, "tensor_active": pl.Float64(),
              "sm_clock_hz": pl.Float64()}  # fmt: skip
    result = [(h.node, str(h.gpu), at(60 * h.hour), h.tensor, h.clock) for h in hours]
    return pl.DataFrame(result, schema=schema, orient="row")


TensorTime = dict[tuple[int, int], tuple[float, float, float, float | None]]


def by_attempt(hours: Sequence[Hour], held: Sequence[Holder], *, capacity: int = 2000, again: int = 0) -> TensorTime:
    """Held and seen GPUs, activity and clock by job and hour; the inventory was read again at the minute `again`."""
    jobs = {h.job: h for h in held}
    key = {job: {"cluster": "c", "scheduler": "slurm", "job_id": f"{job:02d}", "submitted_at": DAY} for job in jobs}
    attempts = rows(frames.ATTEMPTS, *(key[job] | {"user": h.user, "name": h.name} for job, h in jobs.items()))
    on_nodes = rows(
        frames.ATTEMPT_NODES,
        *(
            key[h.job]
            | {"node": h.node, "started_at": at(h.start), "ended_at": at(h.end), "milli_gpus": h.milli_gpus,
               "evidence": h.evidence}
            for h in held
        ),
    )  # fmt: skip
    spans = [(-3000, again), (again, 6000)]
    there = rows(
        frames.INVENTORY,
        *(
            {"cluster": "c", "node": node, "started_at": at(a), "ended_at": at(b), "milli_gpus": capacity}
            for node in NODES
            for a, b in spans
        ),
    )
    covered = rows(frames.COVERAGE, {"cluster": "c", "started_at": at(-3000), "ended_at": at(6000)})
    ready = holders(on_nodes, attempts, there, covered, verification=CHECKS)
    checks = ready.attempts.filter("verification")["attempt"]
    result = tensor_hours(table(hours), ready, left_out=checks).join(ready.attempts, on="attempt")
    return {
        (int(row["job_id"]), row["hour"] - FIRST): (
            row["held_gpus"], row["seen_gpus"], row["tensor_active"], row["sm_clock_hz"])
        for row in result.iter_rows(named=True)
    }  # fmt: skip


def full(hour: int, *nodes: str, tensor: float = 0.5) -> list[Hour]:
    return [Hour(node, gpu, hour, tensor) for node in nodes for gpu in range(GPUS)]


def test_tensor_hours_are_whole_hours_of_whole_nodes() -> None:
    hours = [hour for number in range(4) for hour in full(number, "a")]
    result = by_attempt(hours, [Holder(0, "a", 60, 200)])
    assert result == {(0, 1): (2, 2, 0.5, 1.8e9), (0, 2): (2, 2, 0.5, 1.8e9)}


@pytest.mark.parametrize("end", [119, 120])
def test_tensor_hours_include_the_edge_and_no_cut_hour(end: int) -> None:
    assert list(by_attempt(full(1, "a"), [Holder(0, "a", 60, end)])) == ([(0, 1)] if end == 120 else [])


def test_tensor_hours_count_no_node_without_samples() -> None:
    result = by_attempt(full(0, "a"), [Holder(0, "a", 0, 60), Holder(0, "b", 0, 60)])
    assert result == {(0, 0): (4, 2, 0.5, 1.8e9)}


def test_tensor_hours_of_a_part_of_a_node_are_unattributed() -> None:
    """One of two GPUs has samples, and two attempts hold one each: either may be the one."""
    held = [Holder(0, "a", 0, 60, 1000), Holder(1, "a", 0, 60, 1000)]
    assert by_attempt([Hour("a", 0, 0)], held) == {}
    assert by_attempt([Hour("a", 0, 0)], held[:1]) == {}


@pytest.mark.parametrize(
    "other",
    [Holder(1, "a", 30, 31), Holder(1, "a", 59, 90, user="bo"), Holder(1, "a", 0, 60, 500)],
    ids=["one minute", "across the end", "half a GPU"],
)
def test_tensor_hours_with_other_holders_are_unattributed(other: Holder) -> None:
    assert by_attempt(full(0, "a"), [Holder(0, "a", 0, 60), other]) == {}


def test_tensor_hours_of_assumed_gpus_and_of_checks_are_left_out() -> None:
    assert by_attempt(full(0, "a"), [Holder(0, "a", 0, 60, evidence="assumed")]) == {}
    assert by_attempt(full(0, "a"), [Holder(0, "a", 0, 60, name="hpc-verification")]) == {}


def test_tensor_hours_are_not_cut_by_a_repeated_inventory() -> None:
    assert list(by_attempt(full(0, "a"), [Holder(0, "a", 0, 60)], again=30)) == [(0, 0)]


def test_tensor_hours_weigh_clocks_by_activity_or_have_none() -> None:
    mixed = [Hour("a", 0, 0, 0.2, 1e9), Hour("a", 1, 0, 0.6, 2e9)]
    assert by_attempt(mixed, [Holder(0, "a", 0, 60)])[0, 0][2:] == (0.4, 1.75e9)
    none = [Hour("a", 0, 0, 0.2, None), Hour("a", 1, 0, None, 2e9)]
    assert by_attempt(none, [Holder(0, "a", 0, 60)], capacity=1000) == {(0, 0): (2, 1, 0.2, None)}


def test_tensor_hours_of_no_hours_are_none() -> None:
    assert by_attempt([], [Holder(0, "a", 0, 60)]) == {}


def slowly(hours: Sequence[Hour], held: Sequence[Holder]) -> TensorTime:
    """The same, minute by minute."""
    stays = [h for h in held if h.start < h.end]
    reported: TensorTime = {}
    for job in {h.job for h in stays}:
        for hour in range(24):
            own = []
            minutes = range(60 * hour, 60 * hour + 60)
            mine = [h for h in stays if h.job == job and h.start <= minutes[0] and h.end > minutes[-1]]
            sure = [h for h in mine if h.evidence != "assumed"]
            for h in sure:
                others = [o for o in stays if o.node == h.node and o.job != job and
                          any(o.start <= minute < o.end for minute in minutes)]  # fmt: skip
                seen = {s.gpu for s in hours if s.node == h.node and s.tensor is not None}
                if not others and h.milli_gpus >= max(1000 * GPUS, 1000 * len(seen)) and h.name == "train":
                    own += [s for s in hours if (s.node, s.hour) == (h.node, hour) and s.tensor is not None]
            if own:
                active = [(Fraction(str(s.tensor)), s.clock) for s in own]
                timed = sum(tensor for tensor, clock in active if clock is not None)
                ticked = sum(tensor * Fraction(clock) for tensor, clock in active if clock is not None)
                reported[job, hour] = (
                    sum(h.milli_gpus for h in sure) / 1000, len(own),
                    float(sum(tensor for tensor, _ in active) / len(own)), float(ticked / timed) if timed else None,
                )  # fmt: skip
    return reported


@st.composite
def days(draw: st.DrawFn) -> tuple[list[Hour], list[Holder]]:
    hours = [
        Hour(node, gpu, hour, draw(st.sampled_from([0.25, 0.5, 0.125, 0.0, None])),
             draw(st.sampled_from([1.8e9, 1.5e9, None])))
        for node in NODES
        for gpu in range(GPUS)
        for hour in draw(st.sets(st.integers(0, 4)))
    ]  # fmt: skip
    held = []
    for job in range(draw(st.integers(0, 4))):
        start = draw(st.sampled_from([-30, 0, 30, 60, 120]))
        end = start + draw(st.sampled_from([0, 60, 61, 90, 240]))
        name, user = draw(st.sampled_from([("train", "al"), ("train", "bo"), ("hpc-verification", "root")]))
        evidence = draw(st.sampled_from(["accounting", "accounting", "accounting", "assumed"]))
        for node in draw(st.sets(st.sampled_from(NODES), min_size=1)):
            milli = draw(st.sampled_from([2000, 2000, 1000, 500]))
            held.append(Holder(job, node, start, end, milli, user, evidence, name))
    return hours, held


@settings(max_examples=60, deadline=None)
@given(days())
def test_tensor_hours_agree_with_the_slow_twin(made: tuple[list[Hour], list[Holder]]) -> None:
    hours, held = made
    result, want = by_attempt(hours[::-1], held), slowly(hours, held)
    assert result.keys() == want.keys()
    for key, row in want.items():
        assert result[key][:3] == row[:3]
        assert result[key][3] == (None if row[3] is None else pytest.approx(row[3], rel=1e-15))
