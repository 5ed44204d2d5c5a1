"""Whose the samples were: cases by hand, the slow twin, and the laws."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from random import Random
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from metrics import frames
from metrics.telemetry.gpu_attribution import GpuDay, added_up, day_activities, in_units
from metrics.telemetry.occupancy import Holders, holders
from metrics.telemetry.sample_grid import SampledMetric, at_most
from tests.metrics.tables import rows
from tests.metrics.telemetry import slow_gpu_attribution as slow
from tests.metrics.telemetry.slow_gpu_attribution import Era, Holder, Sample

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

EPOCH = datetime(2026, 3, 1, 23, 58, tzinfo=UTC)  # two minutes before a midnight, so that days are cut
MIDNIGHT = 120
STEP = 10
IDLE = 0.25
READING = SampledMetric({"gpu_util": 1_000_000, "power_w": 1000}, at_most(IDLE), STEP, hour_s=slow.HOUR)
CHECKS = "(?i)^hpc-verification"


def at(second: int) -> datetime:
    return EPOCH + timedelta(seconds=second)


def table(samples: Iterable[Sample]) -> pl.DataFrame:
    schema = {"cluster": frames.TEXT, "node": frames.TEXT, "gpu": frames.TEXT, "ts": frames.TIME,
              "interval_s": pl.Float32(), "gpu_util": pl.Float32(), "power_w": pl.Float32()}  # fmt: skip
    result = [("c", s.node, s.gpu, at(s.at), s.lasts, s.util, s.power) for s in samples]
    return pl.DataFrame(result, schema=schema, orient="row", strict=False)


def prepared(held: Sequence[Holder], eras: Sequence[Era]) -> Holders:
    key = [{"cluster": "c", "scheduler": "slurm", "job_id": f"{h.job:03d}", "submitted_at": at(0)} for h in held]
    attempts = rows(
        frames.ATTEMPTS,
        *(
            k | {"user": h.user, "partition": h.partition, "name": "hpc-verification" if h.check else "train"}
            for k, h in zip(key, held, strict=True)
        ),
    )
    on_nodes = rows(
        frames.ATTEMPT_NODES,
        *(
            k
            | {
                "node": h.node,
                "started_at": at(h.start),
                "ended_at": at(h.end),
                "milli_gpus": h.milli_gpus,
                "evidence": "assumed" if h.unsure else "accounting",
            }
            for k, h in zip(key, held, strict=True)
        ),
    )
    there = rows(
        frames.INVENTORY,
        *(
            {"cluster": "c", "node": e.node, "started_at": at(e.start), "ended_at": at(e.end), "milli_gpus": e.capacity}
            for e in eras
        ),
    )
    covered = rows(frames.COVERAGE, {"cluster": "c", "started_at": at(-1000), "ended_at": at(2000)})
    return holders(on_nodes, attempts, there, covered, verification=CHECKS)


def by_day(samples: Sequence[Sample], held: Holders, *, by_gpu: bool = False) -> list[GpuDay]:
    """Newest first, as the samples before midnight have to know what follows."""
    days = [[s for s in samples if s.at >= MIDNIGHT], [s for s in samples if s.at < MIDNIGHT]]
    return list(day_activities(map(table, days), held, READING, by_gpu=by_gpu))


def as_dict(result: pl.DataFrame, *key: str) -> dict[object, dict[str, int]]:
    """Rows by key, without zeros."""
    return {
        tuple(row[name] for name in key) if len(key) > 1 else row[key[0]]: {
            name: value for name, value in row.items() if name not in {*key, "cluster"} and value
        }
        for row in result.iter_rows(named=True)
    }


def without_zeros(result: Mapping[Any, Mapping[str, int]]) -> dict[object, dict[str, int]]:
    return {key: kept for key, sums in result.items() if (kept := {name: v for name, v in sums.items() if v})}


def steady(node: str, gpus: int, start: int, end: int, util: float | None = 0.5, **more: float | None) -> list[Sample]:
    """A sample each step by so many GPUs of a node; in `more` the utilisation of a GPU, as `gpu1=0.0`."""
    return [
        Sample(node, str(g), t, STEP, more.get(f"gpu{g}", util), 100.0)
        for g in range(gpus)
        for t in range(start, end, STEP)
    ]


def test_attempt_on_a_whole_node_has_all_that_was_observed() -> None:
    held = prepared([Holder(0, "a", 15, 45, 2000)], [Era("a", -999, 999, 2000)])
    result = in_units(by_day(steady("a", 2, 0, 60, 0.5, gpu1=0.1), held)[1].attempts, READING)
    assert result.to_dicts() == [
        {"attempt": 0, "n_samples": 6, "observed_s": 60, "judged_s": 60, "idle_s": 30, "gpu_util_s": 60,
         "gpu_util_sum": pytest.approx(30 * 0.5 + 30 * 0.1), "power_w_s": 60, "power_w_sum": 6000, "unattributed_s": 0,
         "unclear_s": 0}
    ]  # fmt: skip


def test_a_gap_is_missing_and_no_zero() -> None:
    samples = [s for s in steady("a", 1, 0, 100) if not 30 <= s.at < 60]
    held = prepared([Holder(0, "a", 0, 100, 1000)], [Era("a", -999, 999, 1000)])
    (result,) = in_units(by_day(samples, held)[1].attempts, READING).to_dicts()
    assert (result["observed_s"], result["gpu_util_sum"], result["power_w_sum"]) == (70, 35, 7000)


def test_sample_without_a_duration_counts_for_five_steps_at_most() -> None:
    samples = [Sample("a", "0", t, None, 0.5, 100.0) for t in (0, 10, 40, 200)]
    held = prepared([Holder(0, "a", -100, 1000, 1000)], [])
    seconds = [in_units(day.attempts, READING)["observed_s"].sum() for day in by_day(samples, held)]
    assert seconds == [50, 10 + 30 + 50]


def test_an_attempt_alone_on_a_node_has_the_gpus_that_were_busy() -> None:
    held = prepared([Holder(0, "a", 0, 100, 2000)], [Era("a", -999, 999, 4000)])
    (day,) = by_day(steady("a", 4, 0, 100, 0.0, gpu2=0.5), held)[1:]
    (result,) = in_units(day.attempts, READING).to_dicts()
    assert (result["observed_s"], result["idle_s"], result["gpu_util_sum"]) == (200, 100, 50)
    assert day.nodes.select("attributed", "outside").row(0) == (200_000, 200_000)


def test_gpus_read_at_other_times_are_attributed_as_exactly() -> None:
    samples = steady("a", 1, 0, 100, 0.5) + [replace(s, gpu="1", at=s.at + 5) for s in steady("a", 1, 0, 100, 1.0)]
    held = prepared([Holder(0, "a", 20, 108, 2000)], [Era("a", -999, 999, 2000)])
    (result,) = in_units(by_day(samples, held)[1].attempts, READING).to_dicts()
    assert (result["n_samples"], result["observed_s"], result["gpu_util_sum"]) == (8 + 8, 80 + 85, 40 + 85)


def test_attempt_never_has_more_observed_gpus_than_it_holds() -> None:
    """Telemetry may report more GPUs than the inventory."""
    held = prepared([Holder(0, "a", 0, 100, 1000)], [Era("a", -999, 999, 1000)])
    (result,) = in_units(by_day(steady("a", 2, 0, 100, 0.0, gpu1=0.5), held)[1].attempts, READING).to_dicts()
    assert (result["observed_s"], result["gpu_util_sum"]) == (100, 50)


def test_node_shared_by_users_gives_only_the_unattributed_time() -> None:
    held = prepared([Holder(0, "a", 0, 100, 3000), Holder(1, "a", 0, 50, 1000, user="bo")], [Era("a", -999, 999, 4000)])
    (day,) = by_day(steady("a", 4, 0, 100), held)[1:]
    assert as_dict(day.attempts.select("attempt", "observed", "unattributed"), "attempt") == {
        0: {"observed": 150_000, "unattributed": 150_000},
        1: {"unattributed": 50_000},
    }
    assert day.users.is_empty()
    assert day.nodes.drop("node").to_dicts() == [
        {"observed": 400_000, "attributed": 150_000, "verification": 0, "of_users": 0, "unattributed": 200_000,
         "outside": 50_000}
    ]  # fmt: skip


def test_node_shared_by_one_user_is_attributed_to_that_user() -> None:
    held = prepared(
        [Holder(0, "a", 0, 100, 1000), Holder(1, "a", 0, 100, 1000, partition="q")], [Era("a", -999, 999, 2000)]
    )
    (day,) = by_day(steady("a", 2, 0, 100), held)[1:]
    assert day.users.select("user", "partition", "observed", "gpu_util_sum").rows() == [
        ("al", None, 200_000, 100_000_000_000)
    ]
    assert day.nodes.select("of_users", "unattributed", "outside").row(0) == (200_000, 0, 0)
    assert day.attempts["unattributed"].to_list() == [100_000, 100_000]


@pytest.mark.parametrize("gpus", [500, 7000])
def test_parts_of_gpus_are_unattributed(gpus: int) -> None:
    held = prepared([Holder(0, "a", 0, 100, gpus)], [Era("a", -999, 999, 14_000)])  # 2 GPUs of 7 MIG devices each
    (day,) = by_day(steady("a", 2, 0, 100), held)[1:]
    assert as_dict(day.attempts, "attempt") == {0: dict.fromkeys(("unattributed", "unclear"), 200_000 * gpus // 14_000)}


def test_assumed_gpus_are_unattributed() -> None:
    held = prepared([Holder(0, "a", 0, 100, 2000, unsure=True)], [Era("a", -999, 999, 2000)])
    assert as_dict(by_day(steady("a", 2, 0, 100), held)[1].attempts, "attempt") == {
        0: {"unattributed": 200_000, "unclear": 200_000}
    }


def test_jobs_that_check_nodes_are_counted_separately() -> None:
    held = prepared([Holder(0, "a", 0, 30, 2000, check=True), Holder(1, "a", 30, 100, 2000)], [])
    (day,) = by_day(steady("a", 2, 0, 100), held)[1:]
    assert day.nodes.select("attributed", "verification", "outside").row(0) == (140_000, 60_000, 0)
    assert held.attempts["verification"].to_list() == [True, False]


def test_a_check_next_to_its_users_job_is_not_attributed() -> None:
    held = prepared([Holder(0, "a", 0, 100, 1000, check=True), Holder(1, "a", 0, 100, 1000)], [])
    (day,) = by_day(steady("a", 2, 0, 100), held)[1:]
    assert (day.users.height, day.nodes["unattributed"].item()) == (0, 200_000)


def test_nodes_that_accounting_never_names_are_outside() -> None:
    day = by_day(steady("x", 2, 0, 100), prepared([Holder(0, "a", 0, 100, 1000)], []))[1]
    assert day.nodes.select("node", "observed", "outside").rows() == [("x", 200_000, 200_000)]
    assert day.attempts.is_empty()


def test_repeated_samples_count_once() -> None:
    held = prepared([Holder(0, "a", 0, 100, 1000)], [])
    once = steady("a", 1, 0, 100)
    again = [replace(s, util=0.1) for s in once]
    assert by_day(once + again, held)[1].attempts.equals(by_day(once, held)[1].attempts)


def test_what_is_no_number_is_missing() -> None:
    held = prepared([Holder(0, "a", 0, 100, 1000)], [])
    (result,) = in_units(by_day(steady("a", 1, 0, 100, float("nan")), held)[1].attempts, READING).to_dicts()
    assert (result["observed_s"], result["judged_s"], result["gpu_util_s"], result["power_w_s"]) == (100, 0, 0, 100)


def test_no_samples_give_no_rows() -> None:
    day = by_day([], prepared([Holder(0, "a", 0, 100, 1000)], []))[0]
    assert (day.attempts.height, day.users.height, day.nodes.height) == (0, 0, 0)


def test_hourly_mean_is_unattributed_if_an_attempt_came_or_went() -> None:
    hours = [Sample("a", gpu, t, slow.HOUR, util, None) for gpu in "01" for t, util in ((0, 1.0), (60, 0.1))]
    held = prepared([Holder(0, "a", 0, 90, 2000), Holder(1, "a", 95, 120, 2000, user="bo")], [])
    (day,) = by_day(hours, held)[1:]
    told = as_dict(day.attempts, "attempt")
    assert told[0] == {"n_samples": 2, "observed": 120_000, "idle_known": 120_000, "gpu_util_known": 120_000,
                       "gpu_util_sum": 120_000 * 1_000_000, "unattributed": 60_000, "unclear": 60_000}  # fmt: skip
    assert told[1] == {"unattributed": 50_000, "unclear": 50_000}, "nor is it said that they were idle"
    assert day.nodes.select("attributed", "unattributed", "outside").row(0) == (120_000, 110_000, 10_000)


@pytest.mark.parametrize(("lasts", "end", "observed"), [(59, 60, 118), (59, 59, 0), (58, 50, 100)])
def test_nearly_an_hour_counts_for_the_hour_and_less_is_split(lasts: int, end: int, observed: int) -> None:
    held = prepared([Holder(0, "a", -10, end, 2000)], [])
    samples = [Sample("a", gpu, 0, lasts, 0.5, None) for gpu in "01"]
    assert in_units(by_day(samples, held)[1].attempts, READING)["observed_s"].to_list() == [observed]


def test_hour_cut_by_a_window_goes_to_its_only_attempt() -> None:
    held = prepared([Holder(0, "a", 0, 60, 1000), Holder(1, "b", 0, 50, 1000)], [])
    samples = [Sample(node, "0", 0, slow.HOUR, 0.5, None) for node in "ab"]
    result = in_units(by_day(samples, held.within(at(10), at(30)))[1].attempts, READING)
    assert result.select("attempt", "observed_s", "unattributed_s").rows() == [(0, 20, 0), (1, 0, 20)]


# --- the slow twin, and laws

NODES = ("a", "b")


@st.composite
def clusters(draw: st.DrawFn) -> tuple[list[Sample], list[Holder], list[Era]]:
    moment = st.integers(-30, 260)
    gpus = {node: draw(st.integers(1, 3)) for node in NODES}
    held = [
        Holder(
            job,
            draw(st.sampled_from(NODES)),
            start,
            start + draw(st.integers(0, 150)),
            draw(st.sampled_from([500, 1000, 1000, 2000, 3000])),
            draw(st.sampled_from(["al", "al", "bo", None])),
            draw(st.sampled_from(["p", "q", None])),
            draw(st.integers(0, 9)) == 0,
            draw(st.integers(0, 5)) == 0,
        )
        for job, start in enumerate(draw(st.lists(moment, max_size=6)))
    ]
    eras = []
    for node in NODES:
        cuts = sorted(draw(st.lists(moment, max_size=4, unique=True)))
        eras += [
            Era(node, a, b, draw(st.sampled_from([gpus[node] * 1000, gpus[node] * 1000, 2000, 4000])))
            for a, b in pairwise(cuts)
            if draw(st.booleans())
        ]
    regular = draw(st.booleans())
    samples = []
    for node in NODES:
        for gpu in range(gpus[node]):
            phase = 0 if regular else draw(st.integers(0, STEP - 1))
            chance = Random(draw(st.integers(0, 1 << 32)))
            after = 0
            for cell in range(26):
                fate = chance.randrange(20)
                if cell < after:
                    continue
                if fate == 0 or (fate == 1 and not regular):
                    continue
                util = None if fate == 2 else chance.choice([0.0, 0.25, 0.5, 1.0])
                lasts = None if fate == 3 else 7 if fate == 4 else 25 if fate == 5 else STEP
                if fate in {7, 8} and (not regular or cell % 6 == 0):
                    after, lasts = cell + slow.HOUR // STEP, slow.HOUR - (fate == 8)
                power = None if fate == 6 else float(chance.randrange(700))
                samples.append(Sample(node, str(gpu), phase + cell * STEP, lasts, util, power))
    return samples, held, eras


CROWDED = [Holder(0, "a", -1, 2, 500), Holder(1, "a", -1, 2, 1000, user="bo"), Holder(2, "a", 1, 1, 500)]
"""More GPUs than the node of one has, for two seconds; the third was never there, and does not round them apart."""


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(clusters())
@example(([Sample("a", "0", 0, STEP, 0.5, None)], CROWDED, []))
def test_it_agrees_with_the_slow_twin_to_the_last_digit(made: tuple[list[Sample], list[Holder], list[Era]]) -> None:
    samples, held, eras = made
    lasts = slow.spans(samples, STEP)
    for day, result in zip((True, False), by_day(samples, prepared(held, eras)), strict=True):
        own = [s for s in samples if (s.at >= MIDNIGHT) == day]
        expected = slow.attribute(own, held, eras, lasts, IDLE)
        assert as_dict(result.attempts, "attempt") == without_zeros(expected.attempts)
        assert as_dict(result.users, "user", "partition") == without_zeros(expected.users)
        assert as_dict(result.nodes, "node") == without_zeros(expected.nodes)


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(clusters(), st.randoms(use_true_random=False))
def test_every_observed_gpu_second_counts_once_in_any_order(
    made: tuple[list[Sample], list[Holder], list[Era]], chance: object
) -> None:
    samples, held, eras = made
    ready = prepared(held, eras)
    lasts = slow.spans(samples, STEP)
    mixed = samples.copy()
    chance.shuffle(mixed)  # type: ignore[attr-defined]  # random.Random
    days = by_day(samples, ready)
    for day, shuffled, apart in zip(days, by_day(mixed, ready), by_day(samples, ready, by_gpu=True), strict=True):
        assert all(getattr(day, name).equals(getattr(shuffled, name)) for name in ("attempts", "users", "nodes"))
        # GPUs put together or looked up one by one: the same sums.
        assert all(getattr(day, name).equals(getattr(apart, name)) for name in ("attempts", "users", "nodes"))
        parts = ["attributed", "verification", "of_users", "unattributed", "outside"]
        assert day.nodes.select((pl.col("observed") == pl.sum_horizontal(parts)).all()).item()
        assert day.nodes.filter(pl.any_horizontal(pl.col(parts) < 0)).is_empty()
        checks = day.attempts.join(ready.attempts, on="attempt").group_by("verification").agg(pl.col("observed").sum())
        sums = dict(checks.iter_rows())
        assert day.nodes["attributed"].sum() == sums.get(False, 0)
        assert day.nodes["verification"].sum() == sums.get(True, 0)
        assert day.nodes["of_users"].sum() == day.users["observed"].sum()
    total = sum(int(day.nodes["observed"].sum()) for day in days)
    assert total == 1000 * sum(lasts.values())


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(clusters())
def test_days_add_up_to_the_whole_and_gpus_to_their_attempt(
    made: tuple[list[Sample], list[Holder], list[Era]],
) -> None:
    samples, held, _ = made
    gpus = {node: len({s.gpu for s in samples if s.node == node}) for node in NODES}
    # Whole nodes: which part of a node is chosen goes by the day.
    ready = prepared(
        [replace(h, milli_gpus=1000 * gpus[h.node], unsure=False) for h in held],
        [Era(node, -999, 999, 1000 * n) for node, n in gpus.items()],
    )
    if {(s.node, s.gpu) for s in samples if s.at < MIDNIGHT} != {(s.node, s.gpu) for s in samples if s.at >= MIDNIGHT}:
        return
    days = by_day(samples, ready, by_gpu=True)
    (whole,) = day_activities([table(samples)], ready, READING, by_gpu=True)
    shares = ["unattributed", "unclear"]
    sums = pl.exclude("attempt", *shares).cast(pl.Int128)  # shares are rounded down each day
    own = whole.attempts.filter(pl.col("observed") > 0).with_columns(sums).drop(shares)
    both = added_up([day.attempts for day in days], ["attempt"])
    assert both.filter(pl.col("observed") > 0).drop(shares).equals(own)
    assert whole.gpus is not None
    of_gpus = added_up([whole.gpus], ["attempt", "node", "gpu"])
    assert added_up([whole.gpus.drop("node", "gpu")], ["attempt"]).equals(own)
    assert of_gpus["observed"].sum() == own["observed"].sum()
