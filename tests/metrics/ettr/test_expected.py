"""The expected ETTR of many runs at once, beside the closed forms for one."""

from __future__ import annotations

import math
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metrics import theory
from metrics.ettr.ettr import ordered
from metrics.ettr.expected import FORMS, LARGE_LOSS, expected, inputs_of, over_runs, own_inputs, starts
from tests.metrics.oracles import theory as oracle
from tests.metrics.tables import attempt, attempts, joined

DAY_S = 86_400.0


def run(mttf_s: float | None, *costs: float, productive_s: float | None = None) -> dict[str, Any]:
    """A run by its MTTF, restart, checkpoint interval, write and queue time in seconds."""
    reported = {"mttf_s": mttf_s} | dict(zip(("restart_s", "interval_s", "write_s", "queue_s"), costs, strict=True))
    where = {"restart_from": "measured", "interval_from": "measured"}
    return {"cluster": "c", "run_id": "r", "wall_gpu_s": 1.0, "productive_s": productive_s} | reported | where


SCHEMA = {"mttf_s": pl.Float64, "productive_s": pl.Float64}


def of(*runs: dict[str, Any]) -> pl.DataFrame:
    return expected(pl.DataFrame(runs, schema_overrides=SCHEMA))


def rsc_1(nodes: int) -> float:
    return theory.mttf_d(theory.failures_per_gpu_day(6.50), nodes * 8) * DAY_S


@pytest.mark.parametrize(
    ("nodes", "minutes", "form", "value"),
    [
        (2000, (5, 60, 0, 0), "closed_form", 0.6840),
        (2000, (5, 60, 0, 0), "exact", 0.7202),
        (2000, (5, 5, 0, 0), "closed_form", 0.9323),
        (2000, (5, 5, 0, 0), "exact", 0.9345),
        (1000, (5, 30, 0, 1), "with_queue", 0.9056),
        (1000, (5, 30, 0, 1), "finite", 0.90510),
        (12500, (5, 7, 0, 0), "closed_form", 0.5204),
        (12500, (5, 7, 0, 0), "exact", 0.615),
        (1500, (5, 7.016, 1 / 6, 0), "closed_form", 0.9205),
        (1500, (5, 38.43, 5, 0), "closed_form", 0.7398),
        (2000, (5, 33.28, 5, 0), "closed_form", 0.6995),
        (128, (5, 60, 0, 0), "closed_form", 0.9798),
    ],
)
def test_the_golden_numbers_of_9_3(nodes: int, minutes: tuple[float, ...], form: str, value: float) -> None:
    result = of(run(rsc_1(nodes), *(each * 60 for each in minutes), productive_s=7 * DAY_S))
    assert result[form].item() == pytest.approx(value, rel=0.005)


seconds = st.floats(0, 1e4)


@settings(max_examples=200, deadline=None)
@given(st.floats(1, 1e9), st.tuples(seconds, st.floats(1, 1e5), seconds, seconds), st.floats(1, 1e8))
def test_every_form_is_that_of_one_run(mttf_s: float, costs: tuple[float, ...], kept_s: float) -> None:
    result = of(run(mttf_s, *costs, productive_s=kept_s)).row(0, named=True)
    u0, dt, w, q = costs
    one = oracle.EttrInputs(mttf_s=mttf_s, restart_s=u0, checkpoint_interval_s=dt, checkpoint_write_s=w, queue_s=q)
    slow = {
        "closed_form": oracle.ettr(one),
        "with_queue": oracle.ettr_with_queue(one),
        "finite": oracle.ettr_of_run(one, kept_s),
        "exact": oracle.ettr_exact(one),
    }
    for form in FORMS:
        assert result[form] == pytest.approx(slow[form], rel=1e-6, abs=1e-12)
    assert result["expected"] == result["exact" if one.lost_share > LARGE_LOSS else "finite"]


def test_run_of_unknown_productive_time_has_the_long_run_value() -> None:
    result = of(run(1e6, 300, 3600, 0, 60)).row(0, named=True)
    assert (result["regime"], result["expected"], result["finite"]) == ("with_queue", result["with_queue"], None)


def test_without_failures_only_writes_and_the_first_start_cost() -> None:
    result = of(run(math.inf, 300, 3600, 360, 60, productive_s=36_000)).row(0, named=True)
    assert result["exact"] == result["closed_form"] == result["with_queue"] == pytest.approx(1 / 1.1)
    assert result["finite"] == pytest.approx(36_000 / (36_000 + 300 + 60) / 1.1)


def test_without_a_rate_nothing_is_expected() -> None:
    result = of(run(None, 300, 3600, 0, 60, productive_s=1000)).row(0, named=True)
    assert [result[name] for name in (*FORMS, "expected")] == [None] * 5


# --- inputs ------------------------------------------------------------------------------------------


def measured(run_id: str, gpus: int, *, startup: float = 0.0, queued: float = 0.0) -> dict[str, Any]:
    known = {"queued_initial": queued, "queued_requeue": 0.0, "productive": 7200.0 * gpus, "ettr": 0.9}
    return {"cluster": "c", "run_id": run_id, "milli_gpus": gpus * 1000, "wall_gpu_s": 8000.0 * gpus} | known | {
        "startup": startup
    }  # fmt: skip


STARTED = pl.DataFrame(
    {
        "cluster": ["c"] * 2,
        "run_id": ["a", "b"],
        "n_starts": [2, 1],
        "started_gpus": [32.0, 8.0],
        "seen_gpus": [None] * 2,
    },
    schema_overrides={"seen_gpus": pl.Float64},
)
SAVES = pl.DataFrame({"cluster": ["c"], "run_id": ["a"], "interval_s": [1800.0], "write_s": [20.0]})


def test_inputs_are_the_runs_where_measured_else_the_clusters() -> None:
    by_run = pl.DataFrame([measured("a", 16, startup=3200, queued=6400), measured("b", 8, queued=80)])
    result = inputs_of(own_inputs(by_run, STARTED, SAVES), 10.0).rows(named=True)
    assert [row["mttf_s"] for row in result] == [10 * DAY_S / 16, 10 * DAY_S / 8]
    assert [(row["restart_s"], row["restart_from"]) for row in result] == [(100, "measured"), (100, "of the cluster")]
    assert [(row["interval_s"], row["write_s"]) for row in result] == [(1800, 20), (1800, 20)]
    assert [row["queue_s"] for row in result] == [200, 10]
    assert [row["productive_s"] for row in result] == [7200, 7200]


def test_unmeasured_inputs_are_metas_assumptions() -> None:
    result = inputs_of(own_inputs(pl.DataFrame([measured("b", 8)]), STARTED, SAVES.clear()), math.inf).row(
        0, named=True
    )
    assert (result["restart_s"], result["interval_s"], result["write_s"]) == (300, 3600, 0)
    assert (result["restart_from"], result["interval_from"]) == ("assumed", "assumed")


def test_a_resize_is_no_start() -> None:
    ran = attempts(attempt("7", 0, 0, 2, "RESIZING", gpus=16), attempt("7", 2, 2, 5, gpus=8))
    result = starts(ordered(ran, joined(ran)))
    assert result.select("n_starts", "started_gpus").row(0) == (1, 16.0)


def test_gpus_of_all_starts_are_unknown_if_those_of_one_are() -> None:
    ran = attempts(attempt("7", 0, 0, 2, "NODE_FAIL", gpus=8), attempt("7", 2, 2, 5, milli_gpus=None))
    result = starts(ordered(ran, joined(ran)))
    assert result.select("n_starts", "started_gpus").row(0) == (2, None)


def test_starts_without_a_log_do_not_change_the_others() -> None:
    """Two attempts of 8 GPUs, of which one logged, and restarted in place: its two startups took 200 s each."""
    ran = attempts(attempt("7", 0, 0, 2, "NODE_FAIL", gpus=8), attempt("7", 2, 2, 5, gpus=8))
    runs = joined(ran)
    seen = pl.DataFrame({"cluster": ["c"] * 2, "run_id": [runs["run_id"][0]] * 2, "gpus": [8.0, 8.0]})
    started = starts(ordered(ran, runs), seen)
    own = measured(runs["run_id"][0], 8) | {"cluster": "c", "startup": 8 * 400.0}
    result = inputs_of(own_inputs(pl.DataFrame([own]), started, SAVES.clear()), math.inf).row(0, named=True)
    assert (result["restart_s"], result["restart_from"]) == (200, "measured")


def test_the_cluster_is_the_mean_weighted_by_wall_time() -> None:
    small, large = run(1e6, 300, 3600, 0, 0), run(1e4, 300, 3600, 0, 0)
    result = of(small, large | {"wall_gpu_s": 3.0})
    total = over_runs(result).row(0, named=True)
    assert total["expected"] == pytest.approx((result["expected"][0] + 3 * result["expected"][1]) / 4)
    assert (total["n"], total["exact_share"], total["wall_gpu_s"]) == (2, 0.75, 4.0)
