"""Rank times as jobs give them that no rule was made for: ranks missing or late, clocks apart, one rank, none slow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from metrics import frames
from metrics.stragglers.sessions import session_stragglers
from metrics.stragglers.slow_ranks import slow_ranks
from tests.metrics.stragglers.fleet import Fleet

if TYPE_CHECKING:
    from collections.abc import Callable

SLOW = Fleet(seed=5, nodes=16, slow=(6,), factor=1.15)
SOUND = Fleet(seed=5, nodes=16)


def verdict(rows: pl.DataFrame) -> dict[str, Any]:
    return session_stragglers([rows]).row(0, named=True)


def with_times(rows: pl.DataFrame) -> pl.DataFrame:
    """Lines of 110 s, of which 5 are waiting."""
    return frames.conform(rows.with_columns(wall_s=pl.lit(110.0), wait_s=pl.lit(5.0)), frames.RANK_STEPS)


def missing_ranks(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.filter(pl.col("rank") % 5 != 2)


def late_ranks(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.filter((pl.col("rank") < 100) | (pl.col("first_step") >= 2000))


def clocks_set(rows: pl.DataFrame) -> pl.DataFrame:
    """Clocks are set on the way: some lines end long after they began, or before."""
    off = (pl.col("rank") * 7 + pl.col("first_step") // 100) % 13
    return rows.with_columns(wall_s=pl.when(off == 0).then(-50.0).when(off == 1).then(4000.0).otherwise("wall_s"))


def shuffled(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.sample(fraction=1.0, shuffle=True, seed=2)


def no_length(rows: pl.DataFrame) -> pl.DataFrame:
    """Lines whose end is their beginning, as a clock of whole seconds may have it."""
    return rows.with_columns(wall_s=pl.lit(0.0))


def zero_work(rows: pl.DataFrame) -> pl.DataFrame:
    """A tenth of the lines say that nothing was computed."""
    idle = (pl.col("first_step") // 100 + pl.col("rank")) % 10 == 0
    return rows.with_columns(compute_s=pl.when(idle).then(0.0).otherwise("compute_s"))


def two_on_a_node(rows: pl.DataFrame) -> pl.DataFrame:
    """Another run on the same nodes at the same time, whose ranks are sound."""
    others = with_times(SOUND.rows()).with_columns(session=pl.lit("z"), run_id=pl.lit("z"))
    return pl.concat([rows, others])


CHANGES: list[Callable[[pl.DataFrame], pl.DataFrame]] = [
    missing_ranks, late_ranks, clocks_set, shuffled, no_length, zero_work,
]  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
def test_slow_node_is_named_all_the_same(change: Callable[[pl.DataFrame], pl.DataFrame]) -> None:
    found = verdict(change(with_times(SLOW.rows())))
    assert (found["cause"], found["nodes"]) == ("node", ["node-6"])


@pytest.mark.parametrize("change", CHANGES)
def test_sound_fleet_blames_no_node(change: Callable[[pl.DataFrame], pl.DataFrame]) -> None:
    found = verdict(change(with_times(SOUND.rows())))
    assert (found["cause"] != "node", found["nodes"]) == (True, [])


def test_runs_on_the_same_nodes_are_judged_apart() -> None:
    found = {row["run_id"]: row for row in session_stragglers([two_on_a_node(with_times(SLOW.rows()))]).to_dicts()}
    assert found["run-0"]["nodes"] == ["node-6"]
    assert found["z"]["cause"] == "none"


def test_one_rank_alone_is_not_judged() -> None:
    rows = with_times(SLOW.rows()).filter(pl.col("rank") == 51)
    found = session_stragglers([rows])
    assert set(found["cause"]) <= {"unknown"}
    assert not slow_ranks([rows])["slow"].any()


def test_all_ranks_equally_slow_is_no_straggler() -> None:
    rows = with_times(SOUND.rows()).with_columns(pl.col("compute_s") * 3)
    assert verdict(rows)["cause"] == "none"


def test_two_slow_nodes_are_both_named() -> None:
    found = verdict(with_times(Fleet(seed=6, nodes=16, slow=(3, 11), factor=1.2).rows()))
    assert (found["cause"], sorted(found["nodes"])) == ("node", ["node-11", "node-3"])


@pytest.mark.parametrize("bad", [-1.0, float("nan"), float("inf"), None])
def test_lines_that_cannot_be_count_as_unknown(bad: float | None) -> None:
    rows = with_times(SLOW.rows())
    damaged = pl.when(pl.col("rank") == 17).then(pl.lit(bad, dtype=pl.Float64)).otherwise("compute_s")
    found = verdict(rows.with_columns(compute_s=damaged))
    assert (found["cause"], found["nodes"]) == ("node", ["node-6"])


def test_steps_numbered_anew_after_a_restart_do_not_mix() -> None:
    """The same steps once more in another session, on which the slow node does not take part."""
    again = with_times(SLOW.rows()).filter(pl.col("node") != "node-6").with_columns(session=pl.lit("again"))
    found = {
        row["session"]: row for row in session_stragglers([pl.concat([with_times(SLOW.rows()), again])]).to_dicts()
    }
    assert found["session-0"]["nodes"] == ["node-6"]
    assert (found["again"]["cause"], found["again"]["nodes"]) == ("none", [])


def test_one_rank_a_stage_is_too_few_to_compare() -> None:
    """A pipeline without data-parallel ranks: each stage has one rank, so no rank has peers."""
    rows = SLOW.rows().filter((pl.col("run_id") == "run-0") & (pl.col("rank") < 8))
    one = verdict(rows.with_columns(stage=pl.col("rank"), compute_s=pl.col("compute_s") * (1 + pl.col("rank") / 10)))
    assert (one["cause"], one["nodes"]) == ("unknown", [])
    assert one["reason"] == "too few intervals, ranks or nodes to compare"
