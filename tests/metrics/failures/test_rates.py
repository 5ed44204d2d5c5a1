"""Events over exposure."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metrics import frames, statistics
from metrics.failures import exposure as exposures
from metrics.failures.exposure import OVER_128, POOLED, SizeRange, around, buckets, executed, exposure, risk_in
from metrics.failures.interruptions import interruptions
from metrics.failures.rates import failure_rates, law_in, rates_by, rates_by_cause
from tests.metrics.tables import Row, at, attempt, attempts, event, events, interruption, joined, on_nodes, rows

if TYPE_CHECKING:
    import random

DAY = 24.0


def rates(
    ran: pl.DataFrame, failed: pl.DataFrame, *sizes: SizeRange, since: float = 0, until: float = 30 * DAY
) -> pl.DataFrame:
    return failure_rates(ran, failed, at(since), at(until), sizes or (POOLED,))


def interrupted(*result: Row) -> pl.DataFrame:
    return rows(frames.INTERRUPTIONS, *result)


def one(
    table: pl.DataFrame, kind: str = "infrastructure", counted: str = "attempts", size: str = "pooled"
) -> dict[str, Any]:
    chosen = (pl.col("class") == kind) & (pl.col("counted") == counted) & (pl.col("size") == size)
    return table.filter(chosen).row(0, named=True)


# --- exposure ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ran", "hours"),
    [
        (attempt("1", 0, 10, 14, "COMPLETED"), 4),
        (attempt("1", 0, 10, 14, "CANCELLED"), 4),
        (attempt("1", 0, 10, 14, "FAILED"), 4),
        (attempt("1", 0, 10, 14, "RESIZING"), 4),
        (attempt("1", 0, 10, 14, suspended_s=3600.0), 3),
        (attempt("1", 0, 10, None, "RUNNING"), 20),  # so far: the window ends at 30
        (attempt("1", 0, 2, 14), 9),  # clipped to the window, which begins at 5
        (attempt("1", 0, 20, 99), 10),
        (attempt("1", 0, 1, 99), 25),
        (attempt("1", 0, None, None, "PENDING"), 0),
        (attempt("1", 0, None, 9, "CANCELLED"), 0),
        (attempt("1", 0, 10, 10, "FAILED"), 0),
        (attempt("1", 0, 1, 5), 0),  # over before the window
        (attempt("1", 0, 1, 4), 0),
        (attempt("1", 0, 30, 40), 0),  # begins after it
        (attempt("1", 0, 31, None, "RUNNING"), 0),
        (attempt("1", 0, 10, 14, gpus=0), 0),
    ],
)
def test_what_an_attempt_gives_however_it_ended(ran: Row, hours: float) -> None:
    result = exposure(executed(attempts(ran)), at(5), at(30))
    assert result["run_s"].to_list() == ([hours * 3600.0] if hours else [])


def test_denominator_has_running_cancelled_and_completed() -> None:
    ran = attempts(
        attempt("1", 0, 0, DAY, "COMPLETED", gpus=16),
        attempt("2", 0, 0, 2 * DAY, "CANCELLED", gpus=16),
        attempt("3", 0, 27 * DAY, None, "RUNNING", gpus=16),
        attempt("4", 0, 0, 4 * DAY, "NODE_FAIL", gpus=16),
    )
    failed = interruptions(ran, joined(ran), on_nodes(ran, {}), events())
    result = one(rates(ran, failed, POOLED, *buckets(16)), size="9-16")
    assert result["exposure_job_days"] == 1 + 2 + 3 + 4
    assert result["exposure_gpu_days"] == 160
    assert result["exposure_node_days"] == 20
    assert (result["n_failures"], result["n_attempts"], result["n_censored"]) == (1, 4, 3)
    assert result["mttf_d"] == 10
    assert result["rate_per_gpu_day"] == pytest.approx(1 / 160)


hours = st.integers(0, 100)


@st.composite
def histories(draw: st.DrawFn) -> list[Row]:
    result: list[Row] = []
    for job in range(draw(st.integers(0, 8))):
        started = draw(hours)
        ended = draw(st.one_of(st.none(), st.integers(started, 100)))
        suspended = 0.0 if ended is None else draw(st.integers(0, ended - started)) * 3600.0
        state = "RUNNING" if ended is None else draw(st.sampled_from(["COMPLETED", "NODE_FAIL", "FAILED", "CANCELLED"]))
        size = draw(st.sampled_from([1, 8, 16, 1024]))
        result.append(attempt(str(job), 0, started, ended, state, gpus=size, suspended_s=suspended))
    return result


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(histories(), st.lists(hours, min_size=3, max_size=3))
def test_a_window_split_in_two_adds_up(history: list[Row], cuts: list[int]) -> None:
    ran = attempts(*history)
    failed = interruptions(ran, joined(ran), on_nodes(ran, {}), events())
    low, middle, high = sorted(cuts)
    sizes = (POOLED, SizeRange("small", 0, 8), SizeRange("large", 8, 1024))
    whole = rates(ran, failed, *sizes, since=low, until=high)
    first = rates(ran, failed, *sizes, since=low, until=middle)
    second = rates(ran, failed, *sizes, since=middle, until=high)
    assert (first["n_failures"] + second["n_failures"]).to_list() == whole["n_failures"].to_list()
    for name in ("exposure_gpu_days", "exposure_node_days", "exposure_job_days"):
        assert (first[name] + second[name]).to_list() == pytest.approx(whole[name].to_list())


def test_split_window_sums_up_for_a_suspended_running_attempt() -> None:
    ran = attempts(attempt("1", 0, 0, None, "RUNNING", suspended_s=3600.0))
    whole, first, second = (
        float(exposure(executed(ran), at(low), at(high))["run_s"].sum()) for low, high in [(0, 10), (0, 5), (5, 10)]
    )
    assert first + second == whole


@settings(max_examples=15, deadline=None)
@given(histories(), st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_matter(history: list[Row], chance: random.Random) -> None:
    ran = attempts(*history)
    failed = interruptions(ran, joined(ran), on_nodes(ran, {}), events())
    shuffled = attempts(*chance.sample(history, len(history)))
    result = rates(shuffled, failed.sample(fraction=1, shuffle=True, seed=chance.randint(0, 99)), *buckets(16))
    expected = rates(ran, failed, *buckets(16))
    assert result["n_failures"].to_list() == expected["n_failures"].to_list()
    assert result["exposure_gpu_days"].to_list() == pytest.approx(expected["exposure_gpu_days"].to_list())


# --- sizes -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("gpus", "label"),
    [(0.5, "1"), (1, "1"), (2, "2"), (3, "3-4"), (4, "3-4"), (5, "5-8"), (8, "5-8"), (8.001, "9-16"),
     (1024, "513-1024"), (1025, "1025-2048")],
)  # fmt: skip
def test_each_size_is_in_one_bucket_the_upper_edge_included(gpus: float, label: str) -> None:
    result = rates(attempts(attempt("1", 0, 0, DAY, gpus=gpus)), interrupted(), *buckets(2048))
    assert result.filter(pl.col("n_attempts") > 0)["size"].unique().to_list() == [label]


@pytest.mark.parametrize(("gpus", "inside"), [(959, 0), (960, 1), (1024, 1), (1088, 1), (1089, 0)])
def test_around_a_size_is_within_a_sixteenth_with_both_ends(gpus: float, inside: int) -> None:
    result = rates(attempts(attempt("1", 0, 0, DAY, gpus=gpus)), interrupted(), around(1024))
    assert (result["size"][0], result["n_attempts"][0]) == ("960-1088", inside)


@pytest.mark.parametrize(("gpus", "inside"), [(128, 0), (129, 1)])
def test_metas_failure_rate_is_of_jobs_of_more_than_128_gpus(gpus: float, inside: int) -> None:
    assert rates(attempts(attempt("1", 0, 0, DAY, gpus=gpus)), interrupted(), OVER_128)["n_attempts"][0] == inside


@given(st.floats(0.001, 100_000))
def test_buckets_are_adjacent_powers_of_two_up_to_the_largest(largest: float) -> None:
    result = buckets(largest)
    assert result[-1].high >= largest
    assert [size.high for size in result] == [2.0**k for k in range(len(result))]
    assert [size.low for size in result] == [0, *(size.high for size in result[:-1])]


# --- estimates ---------------------------------------------------------------------------------------


def thirty_days_at_1024_gpus(failures: int) -> tuple[pl.DataFrame, pl.DataFrame]:
    """30 days of 1024-GPU exposure in failures + 1 equal attempts, all but the last of which fail."""
    length = 30 * DAY / (failures + 1)
    ran = attempts(
        *(
            attempt(str(n), n * length, n * length, (n + 1) * length, "NODE_FAIL" if n < failures else "CANCELLED",
                    gpus=1024)
            for n in range(failures + 1)
        )
    )  # fmt: skip
    return ran, interruptions(ran, joined(ran), on_nodes(ran, {}), events())


@pytest.mark.parametrize(
    ("failures", "mttf", "low", "high"),
    [(0, None, 8.1326, None), (1, 30, 5.3844, 1184.94), (3, 10, 3.4218, 48.491), (91, 0.32967, 0.2685, 0.4095)],
)
def test_golden_mttf_of_a_size(failures: int, mttf: float | None, low: float, high: float | None) -> None:
    result = one(rates(*thirty_days_at_1024_gpus(failures), around(1024)), size="960-1088")
    assert result["n_failures"] == failures
    assert result["mttf_d"] == (None if mttf is None else pytest.approx(mttf, rel=1e-4))
    assert result["mttf_low_d"] == pytest.approx(low, rel=2e-4)
    assert result["mttf_high_d"] == (None if high is None else pytest.approx(high, rel=2e-4))


def test_pooled_mttf_is_of_one_gpu() -> None:
    result = one(rates(*thirty_days_at_1024_gpus(3), POOLED))
    assert result["mttf_d"] == pytest.approx(10 * 1024)
    assert result["mttf_low_d"] == pytest.approx(3.4218 * 1024, rel=2e-4)
    assert result["rate_per_gpu_day"] == pytest.approx(3 / 30 / 1024)
    assert result["rate_low"] == pytest.approx(1 / result["mttf_high_d"])
    assert result["rate_high"] == pytest.approx(1 / result["mttf_low_d"])


def test_rate_without_failures_is_zero_and_mttf_is_unbounded() -> None:
    result = one(rates(*thirty_days_at_1024_gpus(0), POOLED))
    assert (result["rate_per_gpu_day"], result["rate_low"], result["mttf_d"], result["mttf_high_d"]) == (
        0,
        0,
        None,
        None,
    )
    assert result["rate_high"] == pytest.approx(3.6889 / 30 / 1024, rel=1e-4)


_ESTIMATES = (
    "rate_per_gpu_day", "rate_low", "rate_high", "jeffreys_low", "jeffreys_high", "mttf_d", "mttf_low_d", "mttf_high_d"
)  # fmt: skip


@pytest.mark.parametrize(
    "ran",
    [
        attempts(),
        attempts(attempt("1", 0, None, None, "PENDING")),
        attempts(attempt("1", 0, 5, 5, "NODE_FAIL")),  # an event, but no time at risk
    ],
)
def test_without_exposure_every_estimate_is_null(ran: pl.DataFrame) -> None:
    failed = interruptions(ran, joined(ran), on_nodes(ran, {}), events())
    for row in rates(ran, failed, POOLED, around(8)).iter_rows(named=True):
        assert {name: row[name] for name in _ESTIMATES} == dict.fromkeys(_ESTIMATES)


def test_the_interval_holds_the_estimate() -> None:
    for failures in (1, 2, 5, 20):
        result = one(rates(*thirty_days_at_1024_gpus(failures), POOLED))
        assert result["mttf_low_d"] < result["mttf_d"] < result["mttf_high_d"]
        assert result["jeffreys_low"] < result["rate_per_gpu_day"] < result["jeffreys_high"]
        assert math.isclose(result["mttf_d"] * result["rate_per_gpu_day"], 1)


# --- what counts as a failure ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "cause", "infrastructure", "unplanned"),
    [
        ("infrastructure", "node_fail", 1, 1),
        ("user", "failed", 0, 1),
        ("user", "out_of_memory", 0, 1),
        ("user", "cancelled", 0, 0),
        ("preemption", "preempted", 0, 0),
        ("timeout", "timeout", 0, 0),
        ("planned", "requeued", 0, 0),
    ],
)
def test_which_interruptions_count(kind: str, cause: str, infrastructure: int, unplanned: int) -> None:
    ran = attempts(attempt("1", 0, 0, DAY, "FAILED"))
    result = rates(ran, interrupted(interruption("1", 0, DAY, kind, cause=cause)))
    assert one(result)["n_failures"] == infrastructure
    assert one(result, "unplanned")["n_failures"] == unplanned


@pytest.mark.parametrize(("ended", "counts"), [(5, 0), (5.001, 1), (10, 1), (10.001, 0)])
def test_a_failure_belongs_to_the_window_that_it_ran_in(ended: float, counts: int) -> None:
    ran = attempts(attempt("1", 0, 0, 20, "RUNNING"))
    failed = interrupted(interruption("1", 0, ended))
    assert one(rates(ran, failed, since=5, until=10))["n_failures"] == counts


def test_incident_of_two_attempts_interrupts_two_of_three() -> None:
    ran = attempts(
        attempt("1", 0, 0, DAY, "NODE_FAIL"), attempt("2", 0, 0, DAY, "NODE_FAIL"), attempt("3", 0, 0, DAY, "COMPLETED")
    )
    shared: dict[str, Any] = {"incident": "n1@20260303T000000Z"}
    result = rates(ran, interrupted(interruption("1", 0, DAY, **shared), interruption("2", 0, DAY, **shared)))
    assert (one(result)["n_failures"], one(result)["n_censored"]) == (2, 1)
    assert one(result, counted="incidents")["n_failures"] == 1


def test_censored_attempts_have_exposure_and_no_event() -> None:
    """Column n_censored: of the attempts that gave exposure, those without an event."""
    ran = attempts(
        attempt("1", 0, 0, DAY, "NODE_FAIL"), attempt("2", 0, 0, DAY, "NODE_FAIL"), attempt("3", 0, 0, DAY, "COMPLETED")
    )
    shared: dict[str, Any] = {"incident": "n1@20260303T000000Z"}
    result = rates(ran, interrupted(interruption("1", 0, DAY, **shared), interruption("2", 0, DAY, **shared)))
    assert one(result, counted="incidents")["n_censored"] == 1


def test_attempt_failed_at_its_start_is_not_taken_off_censored() -> None:
    ran = attempts(attempt("1", 5, 5, 5, "NODE_FAIL"), attempt("2", 0, 0, DAY, "COMPLETED"))
    result = one(rates(ran, interrupted(interruption("1", 5, 5))))
    assert (result["n_failures"], result["n_attempts"], result["n_censored"]) == (1, 1, 1)


def test_incident_over_two_sizes_counts_the_same_in_any_order() -> None:
    ran = attempts(attempt("1", 0, 0, DAY, "NODE_FAIL", gpus=1), attempt("2", 0, 0, DAY, "NODE_FAIL", gpus=4))
    shared: dict[str, Any] = {"incident": "n1@20260303T000000Z"}
    failed = interrupted(
        interruption("1", 0, DAY, milli_gpus=1000, **shared), interruption("2", 0, DAY, milli_gpus=4000, **shared)
    )
    forth, back = (rates(ran, each, POOLED, *buckets(4)) for each in (failed, failed.reverse()))
    assert forth["n_failures"].to_list() == back["n_failures"].to_list()


def test_attempts_of_unknown_gpus_are_no_executions() -> None:
    """A component of unknown GPUs makes the whole het job one of these."""
    ran = attempts(
        attempt("1", 0, 0, DAY, gpus=8),
        attempt("2", 0, 0, DAY, milli_gpus=None),
        attempt("11", 0, 0, DAY, gpus=8, het_job_id="11"),
        attempt("12", 0, 0, DAY, milli_gpus=None, het_job_id="11"),
        attempt("21", 0, 0, DAY, gpus=8, het_job_id="21"),
        attempt("22", 0, 0, DAY, gpus=0, het_job_id="21"),
    )
    assert executed(ran).select("job", "gpus").rows() == [("1", 8.0), ("21", 8.0)]


def test_failed_het_job_is_one_interruption_of_its_whole_size() -> None:
    het: dict[str, Any] = {"het_job_id": "11"}
    ran = attempts(
        attempt("11", 0, 0, DAY, "NODE_FAIL", gpus=512, **het), attempt("12", 0, 0, DAY, "NODE_FAIL", gpus=512, **het)
    )
    failed = interruptions(ran, joined(ran), on_nodes(ran, {}), events())
    result = one(rates(ran, failed, around(1024)), size="960-1088")
    assert (result["n_failures"], result["exposure_job_days"]) == (1, 1)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 90), st.sampled_from(["n1", "n2"]), st.booleans()), max_size=8))
def test_incidents_are_never_more_than_interrupted_attempts(failed: list[tuple[int, str, bool]]) -> None:
    ran = attempts(*(attempt(str(n), 0, 0, 1 + minute / 60, "NODE_FAIL") for n, (minute, _, _) in enumerate(failed)))
    nodes = {str(n): [node] for n, (_, node, _) in enumerate(failed)}
    seen = [event(node, at(1, minutes=minute)) for minute, node, reported in failed if reported]
    result = rates(ran, interruptions(ran, joined(ran), on_nodes(ran, nodes), events(*seen)))
    incidents, interrupted_attempts = one(result, counted="incidents")["n_failures"], one(result)["n_failures"]
    assert min(1, len(failed)) <= incidents <= interrupted_attempts == len(failed)


@pytest.mark.parametrize(
    ("state", "reported", "gpus", "counts"),
    [
        ("NODE_FAIL", False, 256, 1),
        ("NODE_FAIL", False, 128, 0),  # not over 128 GPUs
        ("FAILED", True, 256, 1),
        ("FAILED", False, 256, 0),
        ("REQUEUED", True, 256, 0),  # infrastructure to us; the paper does not say
        ("CANCELLED", True, 256, 0),
    ],
)
def test_metas_rate_is_node_fail_and_failures_with_a_critical(
    state: str, reported: bool, gpus: float, counts: int
) -> None:
    ran = attempts(attempt("1", 0, 0, DAY, state, gpus=gpus), attempt("2", 0, 0, DAY, gpus=256))
    failed = interruptions(ran, joined(ran), on_nodes(ran, {"1": ["n1"]}), events(*[event("n1", at(DAY))] * reported))
    result = rates(ran, failed, POOLED, OVER_128, *buckets(256)).filter(pl.col("class") == "meta_rf")
    assert result.select("counted", "size", "n_failures").rows() == [("attempts", "over 128", counts)]


def test_unplanned_incidents_merge_what_is_of_the_hardware_only() -> None:
    ran = attempts(*(attempt(str(n), 0, 0, DAY, "FAILED") for n in range(4)))
    shared: dict[str, Any] = {"incident": "n1@20260303T000000Z"}
    result = rates(
        ran,
        interrupted(
            interruption("0", 0, DAY, **shared),
            interruption("1", 0, DAY, **shared),
            interruption("2", 0, DAY, "user", cause="failed", incident=None),
            interruption("3", 0, DAY, "user", cause="failed", incident=None),
        ),
    )
    assert one(result, "unplanned")["n_failures"] == 4
    assert one(result, "unplanned", "incidents")["n_failures"] == 3
    assert one(result, "unplanned", "incidents")["n_censored"] == 0


# --- bursts ------------------------------------------------------------------------------------------


def days_of_failures(*by_day: int) -> tuple[pl.DataFrame, pl.DataFrame]:
    """An 8-GPU attempt runs throughout; that many short ones fail at noon of each day."""
    ran = [attempt("all", 0, 0, None, "RUNNING")]
    for day, n in enumerate(by_day):
        ran += [attempt(f"{day}.{i}", 0, day * DAY + 12, day * DAY + 12 + 1e-3, "NODE_FAIL") for i in range(n)]
    table = attempts(*ran)
    return table, interruptions(table, joined(table), on_nodes(table, {}), events())


def test_phi_is_pearsons_chi_squared_of_the_daily_counts() -> None:
    """8 failures on the first of four days: 2 were to come on each, so (36 + 3 x 4) / 2 over 3 is 8."""
    burst = one(rates(*days_of_failures(8, 0, 0, 0), until=4 * DAY))
    assert burst["phi"] == pytest.approx(8, rel=1e-3)
    assert burst["phi_p"] < 1e-4
    days = burst["exposure_gpu_days"]
    assert (burst["mttf_low_d"], burst["mttf_high_d"]) == pytest.approx((0.09 / 4 * days, 19.749 / 4 * days), rel=0.01)
    even = one(rates(*days_of_failures(2, 2, 2, 2), until=4 * DAY))
    assert even["phi"] == pytest.approx(0, abs=1e-3)
    assert even["mttf_d"] == pytest.approx(burst["mttf_d"])
    for low, high in (("rate_low", "rate_high"), ("jeffreys_low", "jeffreys_high"), ("mttf_low_d", "mttf_high_d")):
        assert burst[low] < even[low] < even[high] < burst[high]


def test_a_burst_by_chance_changes_nothing() -> None:
    result = one(rates(*days_of_failures(3, 1, 2, 2), until=4 * DAY))
    assert result["phi_p"] > 0.05
    plain = statistics.mttf_interval(8.0, result["exposure_gpu_days"])
    assert (result["mttf_low_d"], result["mttf_high_d"]) == pytest.approx(plain)


def test_without_failures_or_with_one_day_phi_is_null() -> None:
    assert one(rates(*days_of_failures(0, 0), until=2 * DAY))["phi"] is None
    assert one(rates(*days_of_failures(3), until=DAY))["phi"] is None


def test_a_failure_at_midnight_is_of_the_day_that_it_ended() -> None:
    """Two attempts of a day each; both fail at its end: one a day, not none and two."""
    ran = attempts(attempt("1", 0, 0, DAY, "NODE_FAIL"), attempt("2", 0, DAY, 2 * DAY, "NODE_FAIL"))
    failed = interruptions(ran, joined(ran), on_nodes(ran, {}), events())
    assert one(rates(ran, failed, until=3 * DAY))["phi"] == 0


@settings(max_examples=60, deadline=None)
@given(histories(), st.integers(0, 60), st.integers(1, 60))
def test_exposure_by_day_equals_cutting_at_every_midnight(history: list[Row], low: int, length: int) -> None:
    past = exposures.histories(attempts(*history), interrupted())
    since, until = at(low), at(low + length)
    risk = risk_in(past, since, until)
    for column in range(risk.daily.shape[1]):
        midnight = max(since, at(DAY * (low // 24 + column)))
        following = min(until, at(DAY * (low // 24 + column + 1)))
        for row, gpus in enumerate(risk.gpus):
            cut = exposure(past.ran, since, until).filter(pl.col("gpus") == gpus)
            days = sum(
                max(0.0, (min(b, following) - max(a, midnight)).total_seconds()) / 86_400
                for a, b in cut.select("from_at", "to_at").rows()
            )
            assert risk.daily[row, column] == pytest.approx(days * gpus, abs=1e-9)
            assert (risk.daily[row, column] > 0) == (days > 0)


# --- what a pooled MTTF says of the 1/N law ------------------------------------------------------------


def test_pooled_mttf_reports_whether_the_law_was_tested() -> None:
    few = one(rates(*thirty_days_at_1024_gpus(3), POOLED))
    assert few["note"] == "MTTF of one GPU: divide by a job's GPUs (assumes 1/N: the data cannot test it)"
    assert one(rates(*thirty_days_at_1024_gpus(3), around(1024)), size="960-1088")["note"] is None


def test_the_law_of_a_window_is_that_of_its_failures_by_job_size() -> None:
    """1 failure in the time that 9 come at 100 times the GPUs."""
    ran = [attempt("all", 0, 0, None, "RUNNING", gpus=1), attempt("big", 0, 0, None, "RUNNING", gpus=100)]
    ran += [attempt(f"1.{n}", 0, 1 + n, 1 + n + 1e-3, "NODE_FAIL", gpus=1) for n in range(1)]
    ran += [attempt(f"9.{n}", 0, 1 + n, 1 + n + 1e-3, "NODE_FAIL", gpus=100) for n in range(9)]
    table = attempts(*ran)
    failed = interruptions(table, joined(table), on_nodes(table, {}), events())
    past = exposures.histories(table, failed)
    law = law_in(past, at(0), at(10 * DAY), "infrastructure")
    assert (law.n_failures, law.n_sizes, law.smallest, law.largest) == (10, 2, 1, 100)
    assert law.b == pytest.approx(math.log(9) / math.log(100), rel=1e-3)


# --- causes, users, partitions -----------------------------------------------------------------------


def test_failures_by_cause_share_the_exposure_and_sum_up() -> None:
    ran = attempts(*(attempt(str(n), 0, 0, DAY, "FAILED") for n in range(4)), attempt("5", 0, 0, 6 * DAY))
    failed = interrupted(
        interruption("0", 0, DAY),
        interruption("1", 0, DAY, "user", cause="out_of_memory"),
        interruption("2", 0, DAY, "user", cause="out_of_memory"),
        interruption("3", 0, DAY, "user", cause="cancelled"),
    )
    result = rates_by_cause(exposures.histories(ran, failed), at(0), at(30 * DAY))
    assert result.select("class", "cause", "n_failures", "share", "exposure_gpu_days").rows() == [
        ("user", "out_of_memory", 2, pytest.approx(2 / 3), 80),
        ("infrastructure", "node_fail", 1, pytest.approx(1 / 3), 80),
    ]
    assert result["n_failures"].sum() == one(rates(ran, failed), "unplanned")["n_failures"]


def test_failures_by_user_are_of_that_users_own_exposure() -> None:
    ran = attempts(
        attempt("1", 0, 0, DAY, "NODE_FAIL", user="ann"),
        attempt("2", 0, 0, 2 * DAY, user="ann"),
        attempt("3", 0, 0, 5 * DAY, user="bob"),
        attempt("4", 0, 0, DAY, user=None),
    )
    result = rates_by(exposures.histories(ran, interrupted(interruption("1", 0, DAY))), at(0), at(30 * DAY), "user")
    chosen = result.filter((pl.col("class") == "infrastructure") & (pl.col("counted") == "attempts"))
    assert chosen.select("user", "n_failures", "n_attempts", "n_censored", "exposure_gpu_days").rows() == [
        ("bob", 0, 1, 1, 40),
        ("ann", 1, 2, 1, 24),
        (None, 0, 1, 1, 8),
    ]


def test_by_user_of_no_rows_is_empty() -> None:
    past = exposures.histories(attempts(), interrupted())
    assert rates_by(past, at(0), at(DAY), "user").is_empty()
    assert rates_by_cause(past, at(0), at(DAY)).is_empty()
