"""Empty frames, null columns and attempts of no length: every function takes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
import pytest

from metrics import frames
from metrics.ettr.ettr import ettr_by_run, ettr_total, imputed, waits
from metrics.failures.diagnosis import EVENTS
from metrics.failures.exposure import POOLED, around, executed, exposure
from metrics.failures.interruptions import critical_states, interruptions
from metrics.failures.rates import failure_rates
from metrics.frames import empty
from metrics.goodput.goodput import goodput, lost
from metrics.ledger.capacity import allocated_intervals, coverage, inventory
from metrics.ledger.demand import waiting
from metrics.ledger.ledger import with_silence
from metrics.restarts.restarts import restart_summary, restarts
from metrics.runs.runs import executions, run_attempts, runs
from tests.metrics.oracles.ledger import gpu_time
from tests.metrics.tables import at, attempt, attempts, event, events, on_nodes

if TYPE_CHECKING:
    from collections.abc import Callable

WINDOW = (at(0), at(24))
ON_A_NODE: frames.Schema = {name: frames.NODE_STATES[name] for name in ("cluster", "node", "started_at", "ended_at")}

EMPTY: dict[str, tuple[Callable[[], pl.DataFrame], frames.Schema | None]] = {
    "run_attempts": (lambda: run_attempts(empty(frames.ATTEMPTS)), frames.RUN_ATTEMPTS),
    "executions": (lambda: executions(empty(frames.ATTEMPTS), empty(frames.RUN_ATTEMPTS)), None),
    "runs": (lambda: runs(empty(frames.ATTEMPTS), empty(frames.RUN_ATTEMPTS)), None),
    "critical_states": (lambda: critical_states(empty(frames.NODE_STATES), critical_reasons="x"), EVENTS),
    "interruptions": (
        lambda: interruptions(
            empty(frames.ATTEMPTS), empty(frames.RUN_ATTEMPTS), empty(frames.ATTEMPT_NODES), empty(EVENTS)
        ),
        frames.INTERRUPTIONS,
    ),
    "restarts": (
        lambda: restarts(empty(frames.ATTEMPTS), empty(frames.RUN_ATTEMPTS), empty(frames.INTERRUPTIONS)),
        frames.RESTARTS,
    ),
    "restart_summary": (lambda: restart_summary(empty(frames.RESTARTS)), None),
    "failure_rates of no size": (
        lambda: failure_rates(empty(frames.ATTEMPTS), empty(frames.INTERRUPTIONS), *WINDOW, []),
        None,
    ),
    "exposure": (lambda: exposure(executed(empty(frames.ATTEMPTS)), *WINDOW), None),
    "goodput": (lambda: goodput(empty(frames.LEDGER_SUMS), pl.Series("cluster", [], dtype=pl.String)), None),
    "lost": (lambda: lost(empty(frames.LEDGER_SUMS)), None),
    "waits": (lambda: waits(empty(frames.ATTEMPTS), empty(frames.RUN_ATTEMPTS), *WINDOW), None),
    "imputed": (lambda: imputed(empty(frames.ATTEMPTS), empty(frames.RUN_ATTEMPTS), *WINDOW), None),
    "ettr": (lambda: ettr_total(_ettr(empty(frames.ATTEMPTS), empty(frames.LEDGER_SUMS))), None),
    "coverage": (lambda: coverage(empty(frames.COVERAGE)), frames.COVERAGE),
    "inventory": (
        lambda: inventory(
            empty(frames.NODES), empty(frames.ATTEMPT_NODES), empty(frames.NODE_STATES), empty(frames.COVERAGE)
        ),
        frames.INVENTORY,
    ),
    "allocated_intervals": (lambda: allocated_intervals(empty(frames.ATTEMPT_NODES), empty(frames.COVERAGE)), None),
    "gpu_time": (lambda: _ledger(empty(frames.ATTEMPT_NODES)), frames.LEDGER),
    "with_silence": (
        lambda: with_silence(
            empty(frames.NODE_STATES), pl.DataFrame(schema={"cluster": pl.String, "slurmd_timeout_s": pl.Int64})
        ),
        frames.NODE_STATES,
    ),
    "waiting": (
        lambda: waiting(
            empty(frames.ATTEMPTS), empty(frames.NODES), empty(frames.INVENTORY), empty(frames.COVERAGE)
        ).demand(),
        frames.DEMAND,
    ),
}


def _ettr(ran: pl.DataFrame, ledger: pl.DataFrame) -> pl.DataFrame:
    joined = run_attempts(ran)
    return ettr_by_run(waits(ran, joined, *WINDOW), ledger, imputed(ran, joined, *WINDOW), runs(ran, joined))


def _ledger(held: pl.DataFrame) -> pl.DataFrame:
    return gpu_time(
        inventory=empty(frames.INVENTORY),
        attempt_nodes=held,
        node_states=empty(frames.NODE_STATES),
        demand=empty(ON_A_NODE),
        states_known=empty(frames.COVERAGE),
        covered=empty(frames.COVERAGE),
    )


@pytest.mark.parametrize("name", EMPTY)
def test_nothing_in_nothing_out(name: str) -> None:
    function, schema = EMPTY[name]
    result = function()
    assert result.is_empty()
    assert pl.Null not in result.dtypes
    if schema is not None:
        assert dict(result.schema) == schema


def test_failure_rates_of_nothing_are_rows_of_zeros_and_nulls() -> None:
    result = failure_rates(empty(frames.ATTEMPTS), empty(frames.INTERRUPTIONS), *WINDOW, [POOLED, around(1024)])
    assert result.height == 4 * 2
    assert result["exposure_gpu_days"].to_list() == [0.0] * 8
    for name in ("rate_per_gpu_day", "rate_low", "rate_high", "jeffreys_low", "mttf_d", "mttf_low_d", "mttf_high_d"):
        assert result[name].to_list() == [None] * 8
    assert pl.Null not in result.dtypes


OPTIONAL = [name for name in frames.ATTEMPTS if name not in frames.ATTEMPT_KEY]


@pytest.mark.slow
@pytest.mark.parametrize("missing", [*OPTIONAL, "all of them"])
def test_a_null_in_any_column_breaks_nothing(missing: str) -> None:
    gone = dict.fromkeys(OPTIONAL if missing == "all of them" else [missing])
    ran = attempts(attempt("7", 0, 1, 5, "NODE_FAIL") | gone, attempt("7", 5, 6, 9) | gone)
    joined = run_attempts(ran)
    assert joined.height == 2
    assert joined["run_id"].null_count() == 0
    held = on_nodes(ran.with_columns(milli_gpus=8000), {"7": ["n1"]})
    failed = interruptions(ran, joined, held, events(event("n1", at(5))))
    again = restarts(ran, joined, failed)
    assert restart_summary(again).height <= 2
    assert runs(ran, joined).height == joined["run_id"].n_unique()
    failure_rates(ran, failed, *WINDOW, [POOLED])
    assert ettr_total(_ettr(ran, empty(frames.LEDGER_SUMS))).height <= 1


def test_attempts_of_no_length_or_before_the_window_are_harmless() -> None:
    ran = attempts(
        attempt("1", 0, 0, 0, "FAILED"),
        attempt("2", 5, 5, 5, "NODE_FAIL"),
        attempt("3", -50, -40, -30, "NODE_FAIL"),
        attempt("4", 24, 24, 30, "NODE_FAIL"),
    )
    joined = run_attempts(ran)
    failed = interruptions(ran, joined, on_nodes(ran, {"2": ["n1"]}), events(event("n1", at(5))))
    assert failed.height == 4
    assert failed["runtime_s"].min() == 0
    assert exposure(executed(ran), *WINDOW).is_empty()
    assert waits(ran, joined, *WINDOW).is_empty()
    assert imputed(ran, joined, *WINDOW)["imputed_gpu_s"].sum() == 0
    assert restarts(ran, joined, failed).is_empty()
