"""Whose the samples of nodes were: cases by hand, the slow twin, and the laws."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from random import Random
from typing import TYPE_CHECKING

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metrics import frames
from metrics.telemetry.node_attribution import SERIES, WHAT, CountedNodes, NodeDay, added_up, day_parts
from metrics.telemetry.occupancy import Occupants, occupants
from tests.metrics.tables import rows
from tests.metrics.telemetry import slow_node_attribution as slow
from tests.metrics.telemetry.slow_node_attribution import Sample, Stay

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

EPOCH = datetime(2026, 3, 1, 23, 58, tzinfo=UTC)  # two minutes before a midnight, so that days are cut
MIDNIGHT = 120
STEP = 10
READS, WRITES = "fs_read_bytes_per_s", "fs_written_bytes_per_s"
PARTS = ("attributed", "checks", "shared", "outside")
FINE = 2.0**-33
"""Of the greatest value of a series and day: how exact values are."""


def at(second: int) -> datetime:
    return EPOCH + timedelta(seconds=second)


def table(samples: Iterable[Sample]) -> pl.DataFrame:
    schema = {"node": frames.TEXT, "metric": frames.TEXT, "device": frames.TEXT, "ts": frames.TIME,
              "interval_s": pl.Float32(), "value": pl.Float32()}  # fmt: skip
    result = [(s.node, s.metric, s.device, at(s.at), s.lasts, s.value) for s in samples]
    return pl.DataFrame(result, schema=schema, orient="row", strict=False)


def prepared(stays: Sequence[Stay]) -> Occupants:
    keys = [{"cluster": "c", "scheduler": "slurm", "job_id": f"{s.job:03d}", "submitted_at": at(0)} for s in stays]
    on_nodes = rows(
        frames.ATTEMPT_NODES,
        *(
            key | {"node": s.node, "started_at": at(s.start), "ended_at": at(s.end), "milli_gpus": s.milli_gpus}
            for key, s in zip(keys, stays, strict=True)
        ),
    )
    owned = [(*key.values(), s.owner, s.check) for key, s in zip(keys, stays, strict=True)]
    schema = {name: frames.ATTEMPTS[name] for name in frames.ATTEMPT_KEY} | {
        "owner": frames.COUNT, "verification": frames.FLAG}  # fmt: skip
    owners = pl.DataFrame(owned, schema=schema, orient="row").unique(maintain_order=True)
    covered = rows(frames.COVERAGE, {"cluster": "c", "started_at": at(-1000), "ended_at": at(2000)})
    return occupants(on_nodes, owners, covered)


def by_day(samples: Sequence[Sample], there: Occupants) -> list[NodeDay]:
    """Newest first, as the samples before midnight have to know what follows; node by node, as large days are read."""
    days = [[s for s in samples if s.at >= MIDNIGHT], [s for s in samples if s.at < MIDNIGHT]]
    parts = [[s for s in day if s.node == node] for day in days for node in ("a", "b", "x")]
    return list(map(CountedNodes(there).day, day_parts(map(table, parts), there, step_s=STEP, hour_s=slow.HOUR)))


def owners(samples: Sequence[Sample], there: Occupants) -> pl.DataFrame:
    return owners_of(by_day(samples, there))


def owners_of(days: list[NodeDay]) -> pl.DataFrame:
    return added_up([day.owners for day in days], ["owner", *WHAT])


def nodes(samples: Sequence[Sample], there: Occupants) -> pl.DataFrame:
    return nodes_of(by_day(samples, there))


def nodes_of(days: list[NodeDay]) -> pl.DataFrame:
    return added_up([day.nodes for day in days], list(SERIES))


def steady(node: str, start: int, end: int, value: float = 100.0, metric: str = READS) -> list[Sample]:
    return [Sample(node, metric, "/data", t, STEP, value) for t in range(start, end, STEP)]


def test_node_values_belong_to_an_attempt_alone_on_it() -> None:
    """A sample is split where an attempt came and went."""
    result = owners(steady("a", 0, 100), prepared([Stay(1, "a", 15, 42, 1)]))
    assert result.to_dicts() == [
        {"owner": 1, "metric": READS, "device": "/data", "observed": 27_000, "value": 2700.0, "shared": 0,
         "shared_value": 0.0, "n_nodes": 1}
    ]  # fmt: skip


def test_node_of_several_attempts_is_unattributed_and_one_node() -> None:
    """Whose its values are cannot be told; the node counts once."""
    there = prepared([Stay(1, "a", 0, 60, 1, 4000), Stay(2, "a", 40, 100, 2)])  # one has no GPUs: it reads as well
    result = owners(steady("a", 0, 100), there)
    assert result.select("owner", "observed", "value", "shared", "shared_value").rows() == [
        (1, 40_000, 4000.0, 20_000, 2000.0),
        (2, 40_000, 4000.0, 20_000, 2000.0),
    ]
    (node,) = nodes(steady("a", 0, 100), there).to_dicts()
    assert (node["value"], node["attributed_value"], node["shared_value"], node["outside"]) == (10_000, 8000, 2000, 0)


def test_attempts_of_one_owner_share_a_node_with_no_other() -> None:
    there = prepared([Stay(1, "a", 0, 60, 7), Stay(2, "a", 40, 100, 7)])
    (result,) = owners(steady("a", 0, 100), there).to_dicts()
    assert (result["observed"], result["value"], result["shared"]) == (100_000, 10_000, 0)


def test_a_job_that_checks_a_node_stays_separate() -> None:
    there = prepared([Stay(1, "a", 0, 30, 1, check=True), Stay(2, "a", 30, 80, 2)])
    (node,) = nodes(steady("a", 0, 100), there).to_dicts()
    assert [node[f"{name}_value"] for name in PARTS] == [5000, 3000, 0, 2000]


def test_a_node_that_accounting_never_names_is_outside() -> None:
    (node,) = nodes(steady("x", 0, 100), prepared([Stay(1, "a", 0, 100, 1)])).to_dicts()
    assert (node["node"], node["outside"], node["outside_value"]) == ("x", 100_000, 10_000)


def test_a_gap_is_missing_and_no_zero() -> None:
    samples = [s for s in steady("a", 0, 100) if not 30 <= s.at < 60]
    (result,) = owners(samples, prepared([Stay(1, "a", 0, 100, 1)])).to_dicts()
    assert (result["observed"], result["value"]) == (70_000, 7000)


@pytest.mark.parametrize("odd", [float("nan"), float("inf"), None])
def test_what_is_no_number_is_missing(odd: float | None) -> None:
    samples = [replace(s, value=odd) if s.at == 50 else s for s in steady("a", 0, 100)]  # type: ignore[arg-type]  # on purpose
    (result,) = owners(samples, prepared([Stay(1, "a", 0, 100, 1)])).to_dicts()
    assert (result["observed"], result["value"]) == (90_000, 9000)


def test_time_of_nothing_is_exactly_nothing_whatever_went_before() -> None:
    samples = [replace(s, value=0.0 if s.at >= 50 else 2.0**38) for s in steady("a", 0, 100)]
    there = prepared([Stay(1, "a", 0, 50, 1), Stay(2, "a", 50, 100, 2)])
    assert owners(samples, there).select("owner", "value").rows() == [(1, 50 * 2.0**38), (2, 0.0)]


def test_a_node_observed_on_two_days_is_one_node() -> None:
    samples = steady("a", 0, 240) + steady("b", 0, 110) + steady("b", 150, 240)
    there = prepared([Stay(1, "a", 0, 240, 1), Stay(1, "b", 0, 240, 1), Stay(2, "a", 300, 310, 2)])
    result = owners(samples, there)
    assert result.select("owner", "n_nodes").rows() == [(1, 2)]


def test_node_with_a_sample_across_midnight_counts_once() -> None:
    samples = [Sample("a", READS, "/data", 60, 100, 1.0), Sample("a", READS, "/data", 200, 100, 1.0),
               Sample("a", WRITES, "/data", 120, 180, 1.0)]  # fmt: skip
    result = owners(samples, prepared([Stay(1, "a", 130, 300, 1)]))
    told = result.select("metric", pl.col("observed") + pl.col("shared"), "n_nodes")
    assert told.rows() == [(READS, 130_000, 1), (WRITES, 170_000, 1)]


def test_repeated_samples_count_once() -> None:
    there = prepared([Stay(1, "a", 0, 100, 1)])
    once = steady("a", 0, 100)
    assert owners(once + [replace(s, value=1.0) for s in once], there).equals(owners(once, there))


def test_no_samples_give_no_rows() -> None:
    there = prepared([Stay(1, "a", 0, 100, 1)])
    assert owners([], there).is_empty()
    assert nodes([], there).is_empty()


def test_a_window_cuts_stays_and_what_is_outside() -> None:
    there = prepared([Stay(1, "a", 0, 30, 1)]).within(at(15), at(42))
    (result,) = owners(steady("a", 0, 100), there).to_dicts()
    assert (result["observed"], result["value"]) == (15_000, 1500)
    (node,) = nodes(steady("a", 0, 100), there).to_dicts()
    assert (node["value"], node["attributed_value"], node["outside_value"]) == (2700, 1500, 1200)
    assert nodes(steady("a", 50, 100), there).is_empty()


def test_hourly_mean_is_shared_if_an_owner_came_or_went() -> None:
    hours = [Sample("a", READS, "/data", t, slow.HOUR, 100.0) for t in (-60, 0, 60)]
    there = prepared([Stay(1, "a", -60, 30, 1), Stay(2, "a", 30, 60, 2), Stay(3, "a", 60, 100, 2)])
    result = owners(hours, there)
    assert result.select("owner", "observed", "value", "shared", "shared_value").rows() == [
        (1, 60_000, 6000, 30_000, 3000),
        (2, 0, 0, 70_000, 7000),
    ]
    (node,) = nodes(hours, there).to_dicts()
    # Of the last hour the node may have done all by itself, or nothing.
    assert [node[f"{name}_value"] for name in PARTS] == [6000, 0, 12_000, 0]


def test_hour_of_consecutive_attempts_of_one_owner_is_the_owners() -> None:
    there = prepared([Stay(1, "a", 0, 30, 7), Stay(2, "a", 30, 60, 7)]).within(at(10), at(60))
    (result,) = owners([Sample("a", READS, "/data", 0, slow.HOUR, 100.0)], there).to_dicts()
    assert (result["observed"], result["value"], result["shared"]) == (50_000, 5000, 0)


# --- the slow twin, and laws


@st.composite
def clusters(draw: st.DrawFn) -> tuple[list[Sample], list[Stay]]:
    groups = draw(st.booleans())
    stays = []
    for job, start in enumerate(draw(st.lists(st.integers(-30, 260), max_size=7))):
        owner = draw(st.integers(0, 2)) if groups else job
        check = not groups and draw(st.integers(0, 5)) == 0
        long = start + draw(st.integers(0, 200))
        stays += [Stay(job, node, start, long, owner, 0, check) for node in draw(st.sampled_from(["a", "b", "ab"]))]
    chance = Random(draw(st.integers(0, 1 << 32)))
    size = draw(st.sampled_from([1.0, 1e-30, 1e12]))
    samples = []
    for node in ("a", "b", "x"):
        for metric, device in ((READS, "/data"), (READS, "/home"), ("cpu_busy", "")):
            phase = chance.randrange(STEP)
            after = 0
            for cell in range(26):
                fate = chance.randrange(12)
                if fate == 0 or cell < after:
                    continue
                lasts = None if fate == 1 else 7 if fate == 2 else 25 if fate == 3 else STEP
                if fate in {4, 5}:
                    after, lasts = cell + slow.HOUR // STEP, slow.HOUR - (fate == 5)
                value = size * chance.choice([0.0, 0.25, 3.0, 1e3])
                samples.append(Sample(node, metric, device, phase + cell * STEP, lasts, _single(value)))
    return samples, stays


def _single(value: float) -> float:
    return pl.Series([value], dtype=pl.Float32).cast(pl.Float64).item()  # type: ignore[no-any-return]  # a float


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(clusters())
def test_it_agrees_with_the_slow_twin(made: tuple[list[Sample], list[Stay]]) -> None:
    samples, stays = made
    there, expected = prepared(stays), slow.attribute(samples, stays, slow.spans(samples, STEP))
    most = max((abs(s.value) for s in samples), default=0.0) * 300
    days = by_day(samples, there)
    for result, key, slowly in (
        (owners_of(days), ("owner", *WHAT), expected.owners),
        (nodes_of(days), SERIES, expected.nodes),
    ):
        told = {tuple(row[name] for name in key): row for row in result.iter_rows(named=True)}
        assert told.keys() == slowly.keys()
        for each, sums in slowly.items():
            for name in told[each].keys() - set(key):
                if "value" in name:
                    assert told[each][name] == pytest.approx(float(sums[name]), rel=1e-12, abs=most * FINE)
                    assert sums[name] or not told[each][name], "nothing is exactly nothing"
                else:
                    assert told[each][name] == sums[name]


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(clusters(), st.randoms(use_true_random=False))
def test_every_observed_value_counts_once_in_any_order(made: tuple[list[Sample], list[Stay]], chance: object) -> None:
    samples, stays = made
    there = prepared(stays)
    mixed = samples.copy()
    chance.shuffle(mixed)  # type: ignore[attr-defined]  # random.Random
    days = by_day(samples, there)
    for day, again in zip(days, by_day(mixed, there), strict=True):
        assert day.owners.equals(again.owners)
        assert day.nodes.equals(again.nodes)
        assert day.nodes.select((pl.col("observed") == pl.sum_horizontal(PARTS)).all()).item()
        values = pl.sum_horizontal([f"{name}_value" for name in PARTS])
        assert day.nodes.select(((pl.col("value") - values).abs() <= pl.col("value") * 1e-12).all()).item()
        assert day.nodes.filter(pl.any_horizontal(pl.col(PARTS) < 0)).is_empty()
    seen = nodes_of(days).group_by(WHAT).agg(pl.exclude("node").sum()).sort(WHAT)
    own = owners_of(days).group_by(WHAT).agg(pl.col("observed", "value").sum()).sort(WHAT)
    both = seen.join(own, on=WHAT, how="left", suffix="_own", maintain_order="left").fill_null(0)
    assert both.select((pl.col("observed_own") == pl.col("attributed") + pl.col("checks")).all()).item()
    for row in both.iter_rows(named=True):
        assert row["value_own"] == pytest.approx(row["attributed_value"] + row["checks_value"], rel=1e-12)


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(clusters(), st.integers(0, 250))
def test_two_windows_add_up_to_the_whole(made: tuple[list[Sample], list[Stay]], cut: int) -> None:
    samples, stays = made
    there = prepared(stays)
    key = ["owner", *WHAT]
    halves = [by_day(samples, there.within(at(low), at(high))) for low, high in ((-1000, cut), (cut, 2000))]
    all_time = by_day(samples, there)
    assert _totals(halves) == pytest.approx(_totals([all_time]), rel=1e-12)
    both, whole = added_up([owners_of(half) for half in halves], key), owners_of(all_time)
    exact = [*key, "observed", "shared"]
    assert both.select(exact).equals(whole.select(exact))
    for name in ("value", "shared_value"):
        assert both[name].to_list() == pytest.approx(whole[name].to_list(), rel=1e-12)


def _totals(windows: list[list[NodeDay]]) -> list[float]:
    """Of all nodes together, what was observed and what of it was outside."""
    parts = [nodes_of(days) for days in windows]
    names = ["observed", "value", "outside", "outside_value"]
    return [float(sum(part[name].sum() for part in parts)) for name in names]
