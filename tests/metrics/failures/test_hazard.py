"""What was seen of attempts in a window, and the rows told of them."""

from __future__ import annotations

import polars as pl
import pytest

from metrics.failures.exposure import POOLED, Histories, SizeRange, histories
from metrics.failures.hazard import CAUSES, CURVES, SUMMARY, hazard_curves, hazards, spells
from metrics.failures.interruptions import interruptions
from tests.metrics.tables import Row, at, attempt, attempts, event, events, joined, on_nodes

HOUR = 3600.0


def past(*ran: Row, nodes: dict[str, list[str]] | None = None, told: pl.DataFrame | None = None) -> Histories:
    result = attempts(*ran)
    held = on_nodes(result, nodes or {})
    return histories(result, interruptions(result, joined(result), held, events() if told is None else told))


def only(history: Histories, since: float = 0, until: float = 100) -> tuple[float, float, int]:
    _, seen = spells(history, at(since), at(until))
    assert len(seen.left) == 1
    return float(seen.entered[0]) / HOUR, float(seen.left[0]) / HOUR, int(seen.cause[0])


@pytest.mark.parametrize(
    ("state", "cause"),
    [
        ("NODE_FAIL", "infrastructure"),
        ("FAILED", "user"),
        ("OUT_OF_MEMORY", "user"),
        ("PREEMPTED", "preemption"),
        ("COMPLETED", "completed"),
        ("CANCELLED", "other"),
        ("TIMEOUT", "other"),
        ("REQUEUED", "other"),
    ],
)
def test_what_ended_an_attempt(state: str, cause: str) -> None:
    assert only(past(attempt("1", 0, 1, 4, state))) == (0, 3, CAUSES[cause])


def test_a_failure_with_a_critical_event_is_infrastructure() -> None:
    history = past(attempt("1", 0, 1, 4, "FAILED"), nodes={"1": ["n1"]}, told=events(event("n1", at(4))))
    assert only(history)[2] == CAUSES["infrastructure"]


@pytest.mark.parametrize(
    ("ran", "seen"),
    [
        (attempt("1", 0, 2, 15, "NODE_FAIL"), (8, 13, 1)),  # enters at its age when the window opened
        (attempt("1", 0, 12, 30, "NODE_FAIL"), (0, 8, 0)),  # censored where it closed
        (attempt("1", 0, 12, 20, "NODE_FAIL"), (0, 8, 1)),  # what ends with the window ran in it
        (attempt("1", 0, 12, None, "RUNNING"), (0, 8, 0)),
        (attempt("1", 0, 12, 15, "RUNAWAY"), (0, 3, 0)),  # nobody knows when it ended, or why
        (attempt("1", 0, 2, 99), (8, 18, 0)),
        (attempt("1", 0, 12, 16, "NODE_FAIL", suspended_s=HOUR), (0, 3, 1)),
    ],
)
def test_a_window_from_10_to_20_cuts_on_both_sides(ran: Row, seen: tuple[float, float, int]) -> None:
    assert only(past(ran), 10, 20) == seen


def test_het_job_is_one_attempt_that_ends_as_its_worst_component() -> None:
    history = past(
        attempt("11", 0, 0, 4, "NODE_FAIL", het_job_id="11"), attempt("12", 0, 0, 4, "CANCELLED", het_job_id="11")
    )
    assert only(history) == (0, 4, 1)


def crash_loop() -> Histories:
    """40 attempts of 8 GPUs that fail soon, 40 of 16 that end well; ages 1 to 40 minutes, and 10 hours."""
    soon = [attempt(f"a{n}", 0, 0, (n + 1) ** 2 / 60, "FAILED") for n in range(40)]
    well = [attempt(f"b{n}", 0, 0, 10, gpus=16) for n in range(40)]
    return past(*soon, *well)


def test_summary_has_counts_survival_and_shape_by_class_and_size() -> None:
    result = hazards(
        crash_loop(),
        at(0),
        at(100),
        [POOLED, SizeRange("5-8", 4, 8), SizeRange("9-16", 8, 16), SizeRange("none", 99, 100)],
    )
    assert dict(result.schema) == SUMMARY
    rows = {(row["class"], row["size"]): row for row in result.iter_rows(named=True)}
    pooled, large = rows["unplanned", "pooled"], rows["unplanned", "9-16"]
    assert (pooled["n_attempts"], pooled["n_failures"]) == (80, 40)
    assert pooled["survival_1h"] == pytest.approx(73 / 80)  # 1, 4, ... 49 minutes: seven
    assert pooled["survival_7d"] is None  # nobody was seen so old
    assert rows["unplanned", "5-8"]["note"].startswith("infant mortality") or rows["unplanned", "5-8"]["shape"] < 1
    assert (large["n_failures"], large["survival_1h"], large["shape"]) == (0, 1, None)
    assert large["note"].startswith("too few")
    assert rows["infrastructure", "pooled"]["n_failures"] == 0
    assert rows["unplanned", "none"]["n_attempts"] == 0


def test_the_curves_are_steps_by_age_with_what_was_at_risk() -> None:
    result = hazard_curves(crash_loop(), at(0), at(100), [POOLED])
    assert dict(result.schema) == CURVES
    survival = result.filter((pl.col("curve") == "survival") & (pl.col("class") == "unplanned"))
    assert survival["n_failures"].sum() == 40
    assert survival.row(0, named=True)["at_risk"] == 80
    assert survival["value"].is_sorted(descending=True)
    last = result.filter(pl.col("curve") == "incidence").group_by("class").agg(pl.col("value").last())
    # 40 of 80 fail, some of them after the other 40 have completed: all come to an end.
    assert last["value"].sum() == pytest.approx(1)


def test_long_curve_is_thinned_but_keeps_last_step_and_events() -> None:
    history = past(*(attempt(str(n), 0, 0, (n + 1) / 60, "FAILED") for n in range(500)))
    result = hazard_curves(history, at(0), at(100), [POOLED]).filter(
        (pl.col("curve") == "survival") & (pl.col("class") == "unplanned")
    )
    assert result.height == 200
    assert result["n_failures"].sum() == 500
    assert result.row(-1, named=True)["value"] == 0


def test_without_input_no_curves_result() -> None:
    assert hazard_curves(past(), at(0), at(10), [POOLED]).is_empty()
    assert hazards(past(), at(0), at(10), [POOLED])["n_attempts"].to_list() == [0, 0]
