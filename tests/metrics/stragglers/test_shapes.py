"""Sessions that are slow without a slow node, and slow nodes that look like the shape of a job."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pytest

from metrics import frames
from metrics.stragglers.sessions import session_stragglers

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]

NODES, GPUS, INTERVALS = 8, 8, 60
RANK = np.arange(NODES * GPUS)
LATE = (np.arange(INTERVALS) >= 30)[:, None]


def session(
    times: Floats, *, seed: int = 0, restart: int = 0, run: str = "r", stage: npt.NDArray[np.int64] | None = None
) -> pl.DataFrame:
    """A job whose ranks take so many times their usual time; each restart shifts the nodes by one."""
    chance = np.random.default_rng(seed)
    seconds = 10 * np.exp(chance.normal(0, 0.01, (INTERVALS, len(RANK))) + chance.normal(0, 0.004, len(RANK))) * times
    interval, rank = np.meshgrid(np.arange(INTERVALS), RANK, indexing="ij")
    columns = {
        "cluster": "c", "run_id": run, "session": f"{run}.{restart}", "rank": rank.ravel(),
        "node": [f"n{(one // GPUS + restart) % NODES}" for one in rank.ravel()],
        "stage": None if stage is None else pl.Series(stage[rank.ravel()]),
        "first_step": interval.ravel() * 100, "steps": 100, "compute_s": seconds.ravel(),
    }  # fmt: skip
    return frames.conform(pl.DataFrame(columns), frames.RANK_STEPS)


def slow(*ranks: int, times: float = 1.3) -> Floats:
    return np.where(np.isin(RANK, ranks), times, 1.0)


def causes(rows: pl.DataFrame) -> list[tuple[str, list[str]]]:
    return [(row["cause"], row["nodes"]) for row in session_stragglers([rows]).sort("session").to_dicts()]


def test_a_rank_that_is_slow_on_any_node_blames_none() -> None:
    rows = pl.concat([session(slow(13), seed=number, restart=number) for number in range(4)])
    answer = session_stragglers([rows])
    assert set(answer["cause"]) == {"job_shape"}
    assert set(answer["reason"]) == {"rank 13 is slow on whichever node it runs: its work is more"}
    assert causes(rows.filter(session="r.0")) == [("node", ["n1"])]


def test_another_rank_on_the_same_node_names_the_node() -> None:
    """Each restart shifts the nodes, and with them the rank that is slow."""
    rows = [session(slow((1 - number) % NODES * GPUS + 3), seed=number, restart=number) for number in range(4)]
    assert causes(pl.concat(rows)) == [("node", ["n1"])] * 4


def test_rank_0_has_duties_in_each_run() -> None:
    rows = [session(slow(0), seed=number, restart=number, run=f"run{number}") for number in range(3)]
    assert causes(pl.concat(rows)) == [("job_shape", [])] * 3
    rows = [session(slow(9), seed=number, restart=number, run=f"run{number}") for number in range(3)]
    assert causes(pl.concat(rows)) == [("node", ["n1"]), ("node", ["n2"]), ("node", ["n3"])]


def test_a_stage_with_more_work_is_named_as_that() -> None:
    stage = RANK // 16
    (row,) = session_stragglers([session(np.where(stage == 3, 1.4, 1.0), stage=stage)]).to_dicts()
    assert (row["cause"], row["nodes"]) == ("job_shape", [])
    assert row["reason"].startswith("stage 3 computes 3")
    both = np.where(stage == 3, 1.3, 1.0) * slow(13, times=1.5)
    assert causes(session(both, stage=stage)) == [("node", ["n1"])]


def test_a_rank_slow_on_all_its_stages_has_more_data() -> None:
    """Two nodes to a stage, and rank 13 of each is slow; with a stage on each GPU of a node it may be the node."""
    (row,) = session_stragglers([session(slow(13, 29, 45, 61), stage=RANK // 16)]).to_dicts()
    assert (row["cause"], row["nodes"]) == ("job_shape", [])
    assert row["reason"] == "rank 13 of each stage is slow, on several nodes: its data are more work"
    assert causes(session(slow(*range(24, 32)), stage=RANK % 8)) == [("node", ["n3"])]
    three = session(slow(13, 29, 45), stage=RANK // 16)
    assert causes(three) == [("job_shape", [])]


def test_a_node_that_became_slow_on_the_way_is_no_stage() -> None:
    hot = RANK // GPUS == 2
    assert causes(session(np.where(hot, 1.3, 1.0))) == [("unknown", [])]
    assert causes(session(np.where(hot & LATE, 1.3, 1.0))) == [("node", ["n2"])]


@pytest.mark.parametrize(
    ("times", "cause", "reason"),
    [
        (lambda _: np.where(RANK < 32, 1.25, 1.0), "unknown", "too many of them"),
        (lambda _: np.where(RANK % GPUS == 0, 1.3, 1.0), "job_shape", "8 of 8 nodes"),
        (lambda _: np.where(LATE, 1.5, 1.0), "none", "no rank"),
        (lambda chance: np.exp(chance.normal(0, 0.1, (INTERVALS, len(RANK)))), "job_shape", "another one"),
        (lambda chance: 1 + 2.0 * (chance.random((INTERVALS, len(RANK))) < 0.05), "job_shape", "nodes are slow"),
    ],
    ids=["two models of GPUs", "loader on each node", "all ranks", "uneven batches", "data loading"],
)  # fmt: skip
def test_no_node_is_blamed(times: Callable[[np.random.Generator], Floats], cause: str, reason: str) -> None:
    (row,) = session_stragglers([session(times(np.random.default_rng(1)))]).to_dicts()
    assert (row["cause"], row["nodes"]) == (cause, [])
    assert reason in row["reason"]


@pytest.mark.parametrize("lacking", [["stage", "wait_s"], ["steps"], ["compute_s"], ["node"], ["rank"]])
def test_missing_columns_blame_no_node_unduly(lacking: list[str]) -> None:
    """Without steps, seconds, nodes or ranks nothing can be compared; stages and waiting are not needed."""
    known = session_stragglers([session(slow(13)).drop(lacking, strict=False)])
    assert known["nodes"].to_list() == ([["n1"]] if "stage" in lacking else [[]] * known.height)


def test_lines_that_are_missing_leave_the_verdict() -> None:
    rows = session(slow(13))
    for left in (pl.col("node") != "n5", pl.col("rank") != 12, (pl.col("node") != "n3") | (pl.col("first_step") < 900)):
        assert causes(rows.filter(left)) == [("node", ["n1"])]
    assert causes(rows.filter(pl.col("node") != "n1")) == [("none", [])]


def with_waits(rows: pl.DataFrame, *, transfer_s: pl.Expr, host_s: pl.Expr) -> pl.DataFrame:
    """Ranks that wait for the slowest one and for transfers, and for which the host takes its time."""
    longest = pl.col("compute_s").max().over("session", "first_step")
    wait = longest - pl.col("compute_s") + transfer_s
    return rows.with_columns(wait_s=wait, wall_s=pl.col("compute_s") + wait + host_s)


SECOND_HALF = pl.col("first_step") >= 3000


@pytest.mark.parametrize(
    ("transfer_s", "host_s", "cause", "reason"),
    [
        (pl.lit(2.0), pl.lit(0.5), "none", "no rank"),
        (pl.when(SECOND_HALF).then(6.0).otherwise(2.0), pl.lit(0.5), "network", "3.0 times"),
        (pl.lit(2.0), pl.when(SECOND_HALF).then(4.0).otherwise(0.5), "launch", "8.0 times"),
        (pl.lit(2.0), pl.lit(30.0), "launch", "for 7"),
        (
            pl.lit(2.0),
            pl.when(pl.col("first_step") % 1000 == 500).then(20.0).otherwise(0.5),
            "job_shape",
            "now and then",
        ),
        (pl.when(pl.col("first_step") == 900).then(500.0).otherwise(2.0), pl.lit(0.5), "none", "no rank"),
    ],
    ids=["usual", "transfers", "host", "most is the host's", "checkpoints", "a stall"],
)
def test_time_that_no_rank_computes(transfer_s: pl.Expr, host_s: pl.Expr, cause: str, reason: str) -> None:
    rows = with_waits(session(np.ones(len(RANK))), transfer_s=transfer_s, host_s=host_s)
    (row,) = session_stragglers([rows]).to_dicts()
    assert (row["cause"], row["nodes"]) == (cause, [])
    assert reason in row["reason"]
    if cause == "network":
        assert row["lost_gpu_s"] == pytest.approx(30 * 4.0 * 64, rel=0.01)
        assert "step 3000" in row["reason"]
        assert "links" in row["action"]


def test_a_restart_on_a_slow_network_is_shown_by_the_others() -> None:
    fast = with_waits(session(np.ones(len(RANK))), transfer_s=pl.lit(2.0), host_s=pl.lit(0.5))
    slower = with_waits(session(np.ones(len(RANK)), seed=1, restart=1), transfer_s=pl.lit(6.0), host_s=pl.lit(0.5))
    assert causes(pl.concat([fast, slower])) == [("none", []), ("network", [])]
    assert causes(slower) == [("unknown", [])]
    assert causes(pl.concat([fast, slower.with_columns(wait_s=None)])) == [("none", []), ("none", [])]


def test_a_slow_node_is_the_cause_before_the_network() -> None:
    rows = with_waits(session(slow(13)), transfer_s=pl.when(SECOND_HALF).then(6.0).otherwise(2.0), host_s=pl.lit(0.5))
    assert causes(rows) == [("node", ["n1"])]
