"""Slow ranks from sums of computation: planted ones are found, chance and the job's shape blame nobody."""

from __future__ import annotations

import polars as pl
import pytest

from metrics.stragglers.sessions import session_stragglers
from metrics.stragglers.slow_ranks import slow_ranks
from tests.metrics.stragglers.fleet import Fleet


def flagged(rows: pl.DataFrame) -> set[str]:
    return set(slow_ranks([rows]).filter("slow")["node"])


@pytest.mark.slow
@pytest.mark.parametrize(("factor", "duty"), [(1.05, 1.0), (1.1, 0.3), (1.3, 0.2)])
def test_planted_ranks_are_found_and_only_those(factor: float, duty: float) -> None:
    fleets = [Fleet(seed, slow=(5, 40), factor=factor, duty=duty) for seed in range(4)]
    hits = [flagged(fleet.rows()) for fleet in fleets]
    assert sum(len(hit & {"node-5", "node-40"}) for hit in hits) >= 7
    assert sum(len(hit - {"node-5", "node-40"}) for hit in hits) <= 1


@pytest.mark.slow
def test_a_healthy_fleet_has_no_slow_rank() -> None:
    assert sum(len(flagged(Fleet(seed).rows())) for seed in range(8)) <= 1


def test_the_slow_stretch_is_dated() -> None:
    rows = Fleet(nodes=16, slow=(3,), factor=1.0).rows()
    late = (pl.col("rank") == 27) & (pl.col("first_step") >= 4000)
    slow = rows.with_columns(compute_s=pl.when(late).then(pl.col("compute_s") * 1.2).otherwise("compute_s"))
    row = slow_ranks([slow]).filter("slow").row(0, named=True)
    assert (row["rank"], row["node"]) == (27, "node-3")
    assert row["since_step"] == pytest.approx(4000, abs=200)
    assert row["ratio_since"] == pytest.approx(1.2, abs=0.03)
    assert row["ratio"] < 1.1


def test_order_and_doubles_of_rows_make_no_difference() -> None:
    rows = Fleet(nodes=16, slow=(3,)).rows()
    shuffled = pl.concat([rows, rows.head(500)]).sample(fraction=1, shuffle=True, seed=4)
    assert slow_ranks([shuffled]).equals(slow_ranks([rows]))


@pytest.mark.parametrize(
    "few",
    [
        pl.col("rank") < 3,
        pl.col("first_step") < 400,
        pl.col("node") == "node-3",
    ],
)
def test_too_little_to_compare_is_not_tested(few: pl.Expr) -> None:
    rows = Fleet(nodes=16, slow=(3,), factor=2.0).rows().filter(few)
    answer = slow_ranks([rows])
    assert answer["slow"].null_count() == answer.height > 0
    assert session_stragglers([rows])["cause"].to_list() == ["unknown"]


def test_unmeasured_rows_do_not_count() -> None:
    rows = Fleet(nodes=16).rows()
    spoiled = rows.with_columns(compute_s=pl.lit(None, pl.Float64))
    assert slow_ranks([spoiled]).is_empty()
    assert session_stragglers([spoiled]).is_empty()
    infinite = pl.concat(
        [rows, rows.head(9).with_columns(first_step=pl.lit(9_999, pl.Int64), compute_s=pl.lit(float("inf")))]
    )
    assert slow_ranks([infinite]).equals(slow_ranks([rows]))


def test_pipeline_stages_are_compared_among_themselves() -> None:
    rows = Fleet(nodes=16, slow=(3,), factor=1.0).rows().with_columns(stage=pl.col("rank") // 32)
    heavy = rows.with_columns(
        compute_s=pl.when(pl.col("stage") == 3).then(pl.col("compute_s") * 1.5).otherwise("compute_s")
    )
    assert not flagged(heavy)
    assert session_stragglers([heavy])["cause"].to_list() == ["job_shape"]


def test_a_node_is_named_and_priced_and_confirmed_by_another_run() -> None:
    rows = Fleet(nodes=32, slow=(3,), factor=1.3).rows()
    row = session_stragglers([rows]).row(0, named=True)
    assert (row["session"], row["cause"], row["nodes"], row["confirmed"]) == ("session-0", "node", ["node-3"], False)
    assert row["explained"] > 0.8
    assert row["confidence"] > 0.999
    assert "drain it" in row["action"]
    assert row["slowest_s"] / row["middle_s"] == pytest.approx(row["slowdown"])
    assert row["lost_gpu_s"] == pytest.approx(60 * 100 * 0.3 * 128, rel=0.05)
    again = rows.filter(pl.col("session") == "session-0").with_columns(session=pl.lit("later"), run_id=pl.lit("other"))
    assert session_stragglers([pl.concat([rows, again])]).filter(cause="node")["confirmed"].to_list() == [True, True]


def test_a_slowest_rank_that_changes_is_the_shape_of_the_job() -> None:
    rows = Fleet(nodes=16, interval_sigma=0.15).rows()
    row = session_stragglers([rows]).row(0, named=True)
    assert (row["cause"], row["nodes"]) == ("job_shape", [])
    assert row["slowdown"] > 1.3


def test_many_slow_nodes_are_no_fault_of_one() -> None:
    rows = Fleet(nodes=16, slow=tuple(range(0, 16, 2)), factor=1.4).rows()
    row = session_stragglers([rows]).row(0, named=True)
    assert (row["cause"], row["nodes"]) == ("job_shape", [])
    assert "8 of 16 nodes" in row["reason"]


def test_a_stall_of_one_interval_is_no_slow_rank() -> None:
    rows = Fleet(nodes=16, interval_sigma=0.003, rank_sigma=0.003).rows()
    stalled = (pl.col("rank") == 27) & pl.col("first_step").is_in([3000, 3100])
    slow = rows.with_columns(compute_s=pl.when(stalled).then(pl.col("compute_s") * 1.8).otherwise("compute_s"))
    assert not flagged(slow)
    longer = stalled | ((pl.col("rank") == 27) & (pl.col("first_step") == 3200))
    slow = rows.with_columns(compute_s=pl.when(longer).then(pl.col("compute_s") * 1.8).otherwise("compute_s"))
    assert flagged(slow) == {"node-3"}


def test_slow_neighbouring_nodes_may_be_an_unrecorded_stage() -> None:
    rows = Fleet(nodes=16).rows()
    heavy = pl.col("rank") >= 96
    slow = rows.with_columns(compute_s=pl.when(heavy).then(pl.col("compute_s") * 1.2).otherwise("compute_s"))
    row = session_stragglers([slow]).row(0, named=True)
    assert (row["cause"], row["nodes"]) == ("unknown", [])
    assert "not recorded" in row["reason"]
    one_more = heavy | (pl.col("rank") == 12)
    slow = rows.with_columns(compute_s=pl.when(one_more).then(pl.col("compute_s") * 1.3).otherwise("compute_s"))
    assert session_stragglers([slow])["nodes"].to_list() == [["node-1"]]


def test_intervals_of_ratios_cover_the_truth() -> None:
    rows = Fleet(nodes=64, slow=(3,), rank_sigma=0.0, factor=1.2, duty=0.5).rows()
    ranks = slow_ranks([rows])
    slow = ranks.filter(rank=27).row(0, named=True)
    assert slow["ratio_low"] < 1.2**0.5 < slow["ratio_high"]
    alike = ranks.filter(pl.col("rank") != 27)
    covered = alike.select((pl.col("ratio_low") <= 1) & (pl.col("ratio_high") >= 1)).to_series().mean()
    assert 0.92 <= covered <= 0.98  # type: ignore[operator]  # a share


def test_sessions_in_parts_are_judged_as_one() -> None:
    rows = Fleet(nodes=64, slow=(3, 40)).rows()
    parts = rows.partition_by("session")
    assert session_stragglers(parts).equals(session_stragglers([rows]))
    assert session_stragglers([]).is_empty()


def test_node_that_is_slow_as_a_whole_in_most_runs_is_named() -> None:
    rows = Fleet(nodes=16).rows()
    hot = pl.col("node") == "node-15"
    slow = rows.with_columns(compute_s=pl.when(hot).then(pl.col("compute_s") * 1.2).otherwise("compute_s"))
    again = [slow.with_columns(session=pl.lit(name), run_id=pl.lit(name)) for name in ("a", "b")]
    assert session_stragglers([pl.concat(again)])["nodes"].to_list() == [["node-15"], ["node-15"]]
    healthy = [rows.with_columns(session=pl.lit(name), run_id=pl.lit(name)) for name in ("d", "e", "f")]
    assert session_stragglers([pl.concat([*again, *healthy])])["nodes"].explode().drop_nulls().is_empty()
