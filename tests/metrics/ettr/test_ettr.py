"""ETTR: productive over queued plus scheduled time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from metrics.ettr.confidence import MOST_DRAWN, interval_over_runs
from metrics.ettr.ettr import ettr_by_run, ettr_total, imputed, runs_of_other_work, waits
from metrics.ledger.ledger import other_work
from metrics.runs.runs import runs
from metrics.sample_statistics import bootstrap_ratio_interval
from tests.metrics.tables import Row, at, attempt, attempts, joined, spent, sums

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

HOUR = 3600.0
RUN = "7-20260302T000000Z"


def waited(*result: Row, since: float = 0, until: float = 100) -> list[tuple[bool, float, float]]:
    """(before the first start, GPUs, hours) of each wait."""
    ran = attempts(*result)
    table = waits(ran, joined(ran), at(since), at(until))
    return [(initial, gpus / 1000, wait / HOUR) for _, _, initial, gpus, wait in table.rows()]


def by_run(ran: pl.DataFrame, ledger: pl.DataFrame, *, since: float = 0, until: float = 100) -> pl.DataFrame:
    window: tuple[datetime, datetime] = (at(since), at(until))
    known = joined(ran)
    return ettr_by_run(waits(ran, known, *window), ledger, imputed(ran, known, *window), runs(ran, known))


# --- waiting -----------------------------------------------------------------------------------------

FAILED = attempt("7", 1, 3, 5, "NODE_FAIL", gpus=16)


@pytest.mark.parametrize(
    ("history", "expected"),
    [
        ([FAILED], [(True, 16, 2)]),
        # from the end of the interrupted attempt, Slurm's hold included
        ([FAILED, attempt("7", 5, 6, 9, gpus=16, eligible_at=at(5.5))], [(True, 16, 2), (False, 16, 1)]),
        # eligible an hour after the submission, as with --begin or a dependency
        ([attempt("7", 1, 3, 5, eligible_at=at(2))], [(True, 8, 1)]),
        # waits still, after an interruption and at first
        ([FAILED, attempt("7", 5, None, None, "PENDING", gpus=16)], [(True, 16, 2), (False, 16, 95)]),
        ([attempt("7", 1, None, None, "PENDING")], [(True, 8, 99)]),
        # given up while it waited
        ([FAILED, attempt("7", 5, None, 6, "CANCELLED", gpus=16)], [(True, 16, 2), (False, 16, 1)]),
        # no waiting at all
        ([attempt("7", 1, 1, 5)], []),
        ([attempt("7", 1, 1, 5, "RESIZING", gpus=16), attempt("7", 5, 5, 9)], []),
        # no GPUs were told yet: those asked for
        ([attempt("7", 1, None, None, "PENDING", gpus=0, req_milli_gpus=32_000)], [(True, 32, 99)]),
    ],
)
def test_waits_by_hand(history: list[Row], expected: list[tuple[bool, float, float]]) -> None:
    assert waited(*history) == expected


def test_a_job_that_never_became_eligible_does_not_wait() -> None:
    """1.2: wall clock is scheduled time and *eligible* but queued time. Held and dependent jobs have no Eligible."""
    assert waited(attempt("7", 1, None, None, "PENDING", eligible_at=None)) == []


def test_het_components_wait_together() -> None:
    het: dict[str, Any] = {"het_job_id": "7"}
    assert waited(attempt("7", 1, 3, 5, gpus=8, **het), attempt("8", 1, 3, 5, gpus=16, **het)) == [(True, 24, 2)]


@pytest.mark.parametrize(
    ("since", "until", "hours"),
    [(0, 100, 2), (2, 100, 1), (0, 2, 1), (1.5, 2, 0.5), (3, 100, 0), (0, 1, 0)],
)
def test_waits_are_clipped_to_the_window(since: float, until: float, hours: float) -> None:
    result = waited(attempt("7", 1, 3, 5), since=since, until=until)
    assert [wait for _, _, wait in result] == ([hours] if hours else [])


# --- imputed -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("history", "gpu_s"),
    [
        ([attempt("7", 0, 0, 5, gpus=1024)], 1024 * (5 * 3600 - 300 - 1800)),
        ([attempt("7", 0, 0, 0.25, gpus=1024)], 0),  # shorter than what is taken to be lost
        ([attempt("7", 0, 0, 0, "FAILED")], 0),
        (
            [attempt("7", 0, 0, 5, "NODE_FAIL"), attempt("7", 5, 6, 8)],  # each attempt pays
            8 * (5 * 3600 - 2100) + 8 * (2 * 3600 - 2100),
        ),
    ],
)
def test_imputed_productive_time_by_hand(history: list[Row], gpu_s: float) -> None:
    ran = attempts(*history)
    assert imputed(ran, joined(ran), at(0), at(100))["imputed_gpu_s"].to_list() == [gpu_s]


@pytest.mark.parametrize(("since", "until"), [(10, 100), (5, 100), (-10, 0)])
def test_an_attempt_outside_the_window_imputes_nothing(since: float, until: float) -> None:
    ran = attempts(attempt("7", 0, 0, 5))
    assert imputed(ran, joined(ran), at(since), at(until))["imputed_gpu_s"].sum() == 0


def test_an_attempt_that_never_started_imputes_nothing() -> None:
    ran = attempts(attempt("7", 0, None, 5, "CANCELLED"))
    assert imputed(ran, joined(ran), at(0), at(100)).is_empty()


@pytest.mark.parametrize("cut", [1, 5, 9.9])
def test_imputed_time_of_a_window_split_in_two_adds_up(cut: float) -> None:
    """The overhead is lost at the attempt's start and end, not at the edges of every window that looks at it."""
    ran = attempts(attempt("7", 0, 0, 10))
    parts = [imputed(ran, joined(ran), at(low), at(high))["imputed_gpu_s"].sum() for low, high in [(0, cut), (cut, 10)]]
    assert sum(parts) == pytest.approx(8 * (10 * 3600 - 2100))


def test_suspended_time_is_imputed_no_training() -> None:
    """Ten hours of which five were suspended: at most half can have trained, and no more may be assumed."""
    ran = attempts(attempt("7", 0, 0, 10)).with_columns(suspended_s=pl.lit(5.0 * HOUR))
    parts = [imputed(ran, joined(ran), at(low), at(high))["imputed_gpu_s"].sum() for low, high in [(0, 6), (6, 10)]]
    assert parts == [pytest.approx(8 * (5 * HOUR - 2100)), 0.0]


# --- the ratio ---------------------------------------------------------------------------------------


def test_ettr_by_hand() -> None:
    # 16 GPUs: eligible at 1 h, runs 3-5 h (2 h), waits 1 h after its failure, runs 6-9 h (3 h)
    ran = attempts(FAILED, attempt("7", 5, 6, 9, gpus=16))
    run = "7-20260302T010000Z"
    ledger = sums(
        spent("productive", 16 * 4, subject=run),
        spent("lost", 16 * 0.5, subject=run),
        spent("startup", 16 * 0.5, subject=run),
    )
    result = by_run(ran, ledger).row(0, named=True)
    assert (result["run_id"], result["n_attempts"]) == (run, 2)
    assert result["allocated"] == 16 * 5 * HOUR
    assert result["queued_initial"] == 16 * 2 * HOUR
    assert result["queued_requeue"] == 16 * 1 * HOUR
    assert result["wall_gpu_s"] == 16 * 8 * HOUR
    assert result["ettr"] == result["ettr_low"] == result["ettr_high"] == 4 / 8
    assert result["ettr_without_initial_queue"] == pytest.approx(4 / 6)
    assert result["ettr_imputed"] == pytest.approx((5 * 3600 - 2 * 2100) / (8 * 3600))


def test_bounds_count_unobserved_time_as_lost_and_productive() -> None:
    ran = attempts(attempt("7", 0, 2, 12, gpus=1))
    ledger = sums(spent("productive", 8, subject=RUN), spent("unattributed", 2, subject=RUN, evidence="accounting"))
    result = by_run(ran, ledger).row(0, named=True)
    assert (result["ettr_low"], result["ettr_high"]) == (pytest.approx(8 / 12), pytest.approx(10 / 12))
    assert result["ettr_without_initial_queue_low"] == pytest.approx(0.8)
    assert result["ettr_without_initial_queue_high"] == pytest.approx(1.0)
    assert result["ettr"] is None  # a fifth of the allocated time was not seen
    assert result["unseen_share"] == pytest.approx(0.2)


def test_gpus_active_while_one_is_idle_are_productive_at_most() -> None:
    ran = attempts(attempt("7", 0, 2, 12, gpus=1))
    ledger = sums(
        spent("productive", 6, subject=RUN),
        spent("stalled", 3, subject=RUN, evidence="telemetry", cause="lockstep"),
        spent("stalled", 1, subject=RUN, evidence="telemetry", cause="inactive"),
    )
    result = by_run(ran, ledger).row(0, named=True)
    assert [result[name] for name in ("ettr_low", "ettr", "ettr_high")] == pytest.approx([6 / 12, 6 / 12, 9 / 12])
    assert result["ettr_without_initial_queue_high"] == pytest.approx(0.9)


def test_value_is_productive_over_wall_time_with_little_unseen() -> None:
    """1.2: ETTR = R / W, W = Q + R + U; the part that nobody saw is in W."""
    ran = attempts(attempt("7", 0, 0, 100, gpus=1))
    ledger = sums(
        spent("productive", 90, subject=RUN),
        spent("lost", 5, subject=RUN),
        spent("unattributed", 5, subject=RUN, evidence="accounting"),
    )
    assert by_run(ran, ledger)["ettr"].item() == pytest.approx(0.90)


def test_assumed_productive_time_is_lost_in_the_low_bound() -> None:
    """5.4: unattributed and assumed GPU-time counts all unproductive (low)."""
    ran = attempts(attempt("7", 0, 0, 10, gpus=1))
    result = by_run(ran, sums(spent("productive", 10, subject=RUN, evidence="assumed"))).row(0, named=True)
    assert (result["ettr_low"], result["ettr_high"]) == (0.0, 1.0)


def test_a_run_that_never_started_has_no_ettr() -> None:
    ran = attempts(attempt("7", 0, None, None, "PENDING"))
    assert by_run(ran, sums(spent("no_demand", 5, subject="(no attempt)"))).is_empty()


def test_requeue_waits_of_windows_add_up_to_those_of_the_whole() -> None:
    """A run that waited all through a window for its next attempt wanted to train: W includes that queue."""
    ran = attempts(attempt("7", 0, 0, 10, "NODE_FAIL"), attempt("7", 10, 30, 40))

    def queued(since: float, until: float) -> float:
        held = max(0, min(10, until) - since) + max(0, min(40, until) - max(30, since))
        table = by_run(ran, sums(spent("lost", 8 * held, subject=RUN)), since=since, until=until)
        return float(ettr_total(table)["queued_requeue"].sum())

    assert queued(0, 10) + queued(10, 20) + queued(20, 40) == queued(0, 40) == 8 * 20 * HOUR


# --- the total ---------------------------------------------------------------------------------------

GOLDEN = {"1": (95, 100), "2": (40, 50), "3": (8, 20)}
"""Productive and wall hours; each run waits two hours of its wall time."""


def golden_total(gpus: Mapping[str, int]) -> tuple[pl.DataFrame, pl.DataFrame]:
    ran = attempts(*(attempt(job, 0, 2, wall, gpus=gpus[job]) for job, (_, wall) in GOLDEN.items()))
    ledger = []
    for job, (productive, wall) in GOLDEN.items():
        run = f"{job}-20260302T000000Z"
        ledger.append(spent("productive", productive * gpus[job], subject=run))
        ledger.append(spent("lost", (wall - 2 - productive) * gpus[job], subject=run))
    result = by_run(ran, sums(*ledger))
    return result, ettr_total(result)


@pytest.mark.parametrize(
    ("gpus", "expected"),
    [({"1": 1024, "2": 64, "3": 8}, 0.94463), ({"1": 1, "2": 1, "3": 1}, 0.84118)],
)
def test_golden_total_is_a_ratio_of_sums(gpus: dict[str, int], expected: float) -> None:
    _, total = golden_total(gpus)
    assert total["n"].item() == 3
    assert total["ettr"].item() == pytest.approx(expected, abs=5e-6)
    assert total["ettr_low"].item() == total["ettr_high"].item() == total["ettr"].item()


def test_total_is_the_mean_of_runs_weighted_by_gpu_time() -> None:
    result, total = golden_total({"1": 1024, "2": 64, "3": 8})
    weighted = result.select((pl.col("ettr") * pl.col("wall_gpu_s")).sum() / pl.col("wall_gpu_s").sum()).item()
    assert total["ettr"].item() == pytest.approx(weighted)
    assert result["ettr"].mean() == pytest.approx(0.71667, abs=5e-6)  # a different quantity


def test_clusters_are_totalled_separately() -> None:
    result, total = golden_total({"1": 8, "2": 8, "3": 8})
    both = ettr_total(pl.concat([result, result.with_columns(cluster=pl.lit("d"))]))
    assert both["cluster"].to_list() == ["c", "d"]
    assert both["ettr"].to_list() == [total["ettr"].item()] * 2


# --- laws --------------------------------------------------------------------------------------------

minutes = st.integers(0, 600)


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(kept=st.integers(1, 600), lost=st.integers(1, 600), startup=minutes, wait=minutes, queue=minutes)
def test_failure_never_raises_ettr_for_the_same_kept_work(
    kept: int, lost: int, startup: int, wait: int, queue: int
) -> None:
    begin, length = queue / 60, kept / 60
    smooth = attempts(attempt("7", 0, begin, begin + length))
    before = by_run(smooth, sums(spent("productive", 8 * length, subject=RUN)))
    broken = begin + (kept // 2 + lost) / 60
    again = broken + wait / 60
    end = again + (startup + kept - kept // 2) / 60
    failed = attempts(attempt("7", 0, begin, broken, "NODE_FAIL"), attempt("7", broken, again, end))
    after = by_run(
        failed,
        sums(
            spent("productive", 8 * length, subject=RUN),
            spent("lost", 8 * lost / 60, subject=RUN),
            spent("startup", 8 * startup / 60, subject=RUN),
        ),
    )
    for name in ("ettr", "ettr_low", "ettr_high", "ettr_without_initial_queue"):
        low, high = after[name].item(), before[name].item()
        assert 0 <= low <= high + 1e-9 <= 1 + 2e-9


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["productive", "lost", "stalled", "unattributed"]),
                          st.sampled_from(["log", "telemetry", "accounting", "assumed"]),
                          st.integers(1, 50)), min_size=1, max_size=6), st.integers(0, 50))  # fmt: skip
def test_bounds_enclose_the_value(result: list[tuple[str, str, int]], queue: int) -> None:
    ran = attempts(attempt("7", 0, queue, 90, gpus=1))
    ledger = sums(*(spent(kind, hours, evidence=reported, subject=RUN) for kind, reported, hours in result))
    row = by_run(ran, ledger).row(0, named=True)
    for name in ("ettr", "ettr_without_initial_queue"):
        low, value, high = row[f"{name}_low"], row[name], row[f"{name}_high"]
        assert 0 <= low <= high <= 1
        if value is not None:
            assert low - 1e-12 <= value <= high + 1e-12


def test_a_resize_costs_no_imputed_restart() -> None:
    """Two hours on 16 GPUs, resized to 8 for three more: one start and one end, 5 min and 30 min lost."""
    ran = attempts(attempt("7", 0, 0, 2, "RESIZING", gpus=16), attempt("7", 2, 2, 5, "COMPLETED", gpus=8))
    result = imputed(ran, joined(ran), at(0), at(10))
    assert result["imputed_gpu_s"].item() == pytest.approx((2 * HOUR - 300) * 16 + (3 * HOUR - 1800) * 8)


# --- what is provisional, checkpoint writes, the mean of the runs ------------------------------------


def test_provisional_time_is_in_the_value_and_not_the_low_bound() -> None:
    """5.4: the low bound is what nothing can take back; a live run may yet lose its last steps."""
    ran = attempts(attempt("7", 0, 0, 10, gpus=1))
    ledger = sums(spent("productive", 6, subject=RUN), spent("productive", 2, subject=RUN, cause="provisional"),
                  spent("lost", 2, subject=RUN))  # fmt: skip
    result = by_run(ran, ledger).row(0, named=True)
    assert (result["ettr_low"], result["ettr"], result["ettr_high"]) == (0.6, 0.8, 0.8)
    assert (result["productive"], result["productive_sure"]) == (8 * HOUR, 6 * HOUR)


def test_papers_first_version_counts_saves_as_productive() -> None:
    ran = attempts(attempt("7", 0, 2, 12, gpus=1))
    ledger = sums(
        spent("productive", 7, subject=RUN),
        spent("checkpoint", 2, subject=RUN),
        spent("unattributed", 0.5, subject=RUN, evidence="accounting"),
        spent("lost", 0.5, subject=RUN),
    )
    result = by_run(ran, ledger).row(0, named=True)
    assert result["ettr"] == pytest.approx(7 / 12)
    assert result["ettr_with_checkpoint_writes"] == result["ettr_with_checkpoint_writes_low"] == pytest.approx(9 / 12)
    assert result["ettr_with_checkpoint_writes_high"] == pytest.approx(9.5 / 12)


@pytest.mark.parametrize("gpus", [{"1": 1024, "2": 64, "3": 8}, {"1": 1, "2": 1, "3": 1}])
def test_golden_mean_of_runs_does_not_depend_on_their_size(gpus: dict[str, int]) -> None:
    """9.8: 95/100, 40/50 and 8/20 have a mean of 0.71667, whatever the runs weigh."""
    _, total = golden_total(gpus)
    assert total["ettr_mean"].item() == pytest.approx(0.71667, abs=5e-6)
    assert total["ettr_mean_low"].item() == total["ettr_mean_high"].item() == total["ettr_mean"].item()
    assert total["ettr_runs"].item() == 3


def test_mean_of_runs_is_null_where_too_little_is_observed() -> None:
    ran = attempts(attempt("7", 0, 0, 90, gpus=64), attempt("8", 0, 0, 1, gpus=1))
    ledger = sums(
        spent("productive", 64 * 90, subject=RUN),
        spent("unattributed", 1, subject="8-20260302T000000Z", evidence="accounting"),
    )
    total = ettr_total(by_run(ran, ledger)).row(0, named=True)
    assert total["ettr"] == pytest.approx(1, abs=1e-3)
    assert (total["ettr_mean_low"], total["ettr_mean"], total["ettr_mean_high"]) == (0.5, None, 1.0)


# --- intervals over runs -----------------------------------------------------------------------------


def generated(random: np.random.Generator, n: int) -> pl.DataFrame:
    """Runs of one kind: each loses a time of its own, and large ones lose more."""
    wall = random.lognormal(3.0, 0.6, n)
    share = random.beta(18, 2, n) * np.where(wall > 30, 0.97, 1.0)
    return pl.DataFrame(
        {"cluster": "c", "run_id": [f"r{i:04}" for i in range(n)], "productive": wall * share, "checkpoint": wall * 0.0,
         "wall_gpu_s": wall, "after_start_gpu_s": wall}
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("weighted", [True, False])
def test_intervals_over_runs_have_their_nominal_coverage(*, weighted: bool) -> None:
    """Fails only if the upper end of the 95 % interval of the observed coverage is below 95 %."""
    random = np.random.default_rng(20_260_301)
    all_runs = generated(random, 400_000)
    productive, wall = all_runs["productive"].to_numpy(), all_runs["wall_gpu_s"].to_numpy()
    truth = float(productive.sum() / wall.sum() if weighted else (productive / wall).mean())
    sets, held = 200, 0
    for number in range(sets):
        result = interval_over_runs(generated(random, 100), "ettr", weighted=weighted, seed=number)
        assert result.low is not None
        assert result.high is not None
        held += result.low <= truth <= result.high
    assert stats.binomtest(held, sets).proportion_ci(0.95).high >= 0.95


def test_too_few_runs_have_no_interval_and_a_note() -> None:
    runs_ = generated(np.random.default_rng(1), 12)
    result = interval_over_runs(runs_, "ettr", weighted=True, seed=1)
    assert (result.low, result.high) == (None, None)
    assert result.method.startswith("too few runs for an interval: they weigh as much as")
    assert interval_over_runs(runs_.clear(), "ettr", weighted=True, seed=1).low is None


def test_the_order_of_the_runs_changes_no_interval() -> None:
    runs_ = generated(np.random.default_rng(1), 60)
    assert interval_over_runs(runs_, "ettr", weighted=True, seed=1) == interval_over_runs(
        runs_.reverse(), "ettr", weighted=True, seed=1
    )


def test_interval_of_very_many_runs_equals_that_of_drawing_each() -> None:
    runs_ = generated(np.random.default_rng(3), 5 * MOST_DRAWN)
    result = interval_over_runs(runs_, "ettr", weighted=True, seed=1)
    each = bootstrap_ratio_interval(runs_["productive"].to_numpy(), runs_["wall_gpu_s"].to_numpy(), seed=1)
    assert each is not None
    assert result.low is not None
    assert result.high is not None
    assert result.high - result.low == pytest.approx(each.high - each.low, rel=0.15)
    assert (result.low + result.high) / 2 == pytest.approx((each.low + each.high) / 2, rel=1e-3)


# --- laws of windows, order and time -----------------------------------------------------------------


@settings(max_examples=30, deadline=None)
@given(kept=st.integers(1, 300), lost=st.integers(0, 300), queue=st.integers(0, 300), factor=st.sampled_from([2, 3, 7]))
def test_rescaling_time_changes_no_ratio(kept: int, lost: int, queue: int, factor: int) -> None:
    def ratios(scale: float) -> tuple[float, ...]:
        start, stop = queue * scale / 60, (queue + kept + lost) * scale / 60
        ledger = sums(spent("productive", 8 * kept * scale / 60, subject=RUN),
                      spent("lost", 8 * lost * scale / 60, subject=RUN))  # fmt: skip
        ran = attempts(attempt("7", 0, start, stop))
        return by_run(ran, ledger, until=10_000).select("ettr", "ettr_low", "ettr_without_initial_queue").row(0)

    assert ratios(factor) == pytest.approx(ratios(1))


def test_the_order_of_attempts_and_sums_changes_nothing() -> None:
    ran = attempts(FAILED, attempt("7", 5, 6, 9, gpus=16), attempt("8", 0, 2, 4))
    first, second = "7-20260302T010000Z", "8-20260302T000000Z"
    ledger = sums(
        spent("productive", 64, subject=first),
        spent("lost", 16, subject=first),
        spent("productive", 16, subject=second),
    )
    assert by_run(ran, ledger).equals(by_run(ran.reverse(), ledger.reverse()))


# --- runs that never train ---------------------------------------------------------------------------

NAMES = ("jupyter", "train", None)


@given(st.lists(st.lists(st.sampled_from(NAMES), min_size=1, max_size=3), max_size=5))
def test_runs_of_other_work_have_no_other_attempt(names: list[list[str | None]]) -> None:
    ran = attempts(*(
        attempt(str(10 * run + number), number, number, number + 1, name=name)
        for run, own in enumerate(names) for number, name in enumerate(own)
    ))  # fmt: skip
    in_runs = joined(ran).with_columns(run_id=pl.col("job_id").cast(pl.Int64).floordiv(10).cast(pl.String))
    found = runs_of_other_work(other_work(ran, {"interactive": "^jupyter"}), in_runs)
    expected = {str(run) for run, own in enumerate(names) if all(name == "jupyter" for name in own)}
    assert found.select("cluster", "run_id").rows() == [("c", run) for run in found["run_id"]]
    assert sorted(found["run_id"]) == sorted(expected)
