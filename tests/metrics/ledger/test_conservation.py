"""Laws of the ledger: it adds up over any windows and groups, and a day follows from what inputs say of that day."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import TYPE_CHECKING

import polars as pl
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from metrics import frames
from metrics.ledger.inputs import Inputs, index_inputs
from metrics.ledger.sweep import sweep_ledger, with_names
from metrics.units import DAY_US
from tests.metrics.ledger.slow_ledger import Attempt, Cluster
from tests.metrics.ledger.test_ledger import EPOCH, clusters, inputs, ledger, sums, times
from tests.metrics.oracles.fingerprints import fingerprints
from tests.metrics.oracles.ledger import gpu_time

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

DAYS = 6000
"""Seconds that a second of a random cluster is stretched to, for it to last some days."""


def stretched(arguments: Mapping[str, pl.DataFrame], factor: int) -> dict[str, pl.DataFrame]:
    """All times, and all durations, so many times as far from `EPOCH`."""

    def one(rows: pl.DataFrame) -> pl.DataFrame:
        moments = [name for name, kind in rows.schema.items() if kind == frames.TIME]
        origin = pl.lit(EPOCH, dtype=frames.TIME)
        return rows.with_columns(
            *((origin + (pl.col(name) - origin) * factor).alias(name) for name in moments),
            *(pl.col(name) * factor for name in rows.columns if name == "suspended_s"),
        )

    return {name: one(rows) for name, rows in arguments.items()}


def by_day(whole: Inputs, days: Iterable[int] | None = None) -> dict[int, pl.DataFrame]:
    """The rows of each day, or of these, made of nothing but that day's inputs."""
    result = {}
    for day in range(*whole.days()) if days is None else days:
        some = whole.within(day, day + 1)
        result[day] = in_order(frames.conform(with_names(sweep_ledger(some), some), frames.LEDGER))
    return result


def in_order(result: pl.DataFrame) -> pl.DataFrame:
    return result.sort(result.columns, nulls_last=True)


def lasting(cluster: Cluster) -> Inputs:
    return index_inputs(**over_days(cluster))


def over_days(cluster: Cluster) -> dict[str, pl.DataFrame]:
    return stretched(inputs(cluster), DAYS)


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(clusters())
def test_day_from_its_own_inputs_equals_its_rows_in_the_whole(cluster: Cluster) -> None:
    whole = gpu_time(**stretched(inputs(cluster), DAYS))
    assert in_order(pl.concat(by_day(lasting(cluster)).values())).equals(in_order(whole))


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Cluster, Cluster]:
    """A cluster, and what is known of it later: one attempt, state or wait more, or another one of them."""
    later = draw(clusters())
    before, of_attempts = later, draw(st.booleans())
    if later.attempts and of_attempts:
        left_out = draw(st.integers(0, len(later.attempts) - 1))
        changed = draw(st.sampled_from(["gone", "open", "unseen"]))
        one = later.attempts[left_out]
        rest = later.attempts[:left_out], later.attempts[left_out + 1 :]
        others: dict[str, tuple[Attempt, ...]] = {
            "gone": (),
            "open": (replace(one, end=None),),
            "unseen": (replace(one, logged=(), active=()),),
        }
        before = replace(later, attempts=(*rest[0], *others[changed], *rest[1]))
    elif later.states:
        before = replace(later, states=later.states[1:])
    elif later.waits:
        before = replace(later, waits=later.waits[1:])
    assume(before != later)
    return before, later


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(pairs())
def test_days_of_the_same_fingerprint_have_the_same_rows(pair: tuple[Cluster, Cluster]) -> None:
    before, later = map(lasting, pair)
    old, new = (fingerprints(over_days(each)) for each in pair)
    assert old.keys() == new.keys()
    same = [day for day in old if old[day] == new[day]]
    rows, others = by_day(before, same), by_day(later, same)
    for day in same:
        assert rows[day].equals(others[day])


def test_late_data_change_the_fingerprints_of_their_days_only() -> None:
    known = Attempt(0, "n1", 0, 55, 4000)
    late = Attempt(1, "n2", 20, 26, 1000)
    old, new = (
        fingerprints(over_days(Cluster(60, {"n1": 4000, "n2": 8000}, each))) for each in ((known,), (known, late))
    )
    begin = int(EPOCH.timestamp() * 1e6)
    touched = {(begin + second * DAYS * 1_000_000) // DAY_US for second in range(20, 26)}
    assert {day for day in old if old[day] != new[day]} == touched
    assert len(old) > len(touched)


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(clusters(), st.randoms(use_true_random=False))
def test_input_order_changes_neither_rows_nor_fingerprints(cluster: Cluster, chance: object) -> None:
    shuffle: Callable[..., None] = chance.shuffle  # type: ignore[attr-defined]  # random.Random, as hypothesis hands it over
    mixed = {}
    for name, rows in inputs(cluster).items():
        order = list(range(rows.height))
        shuffle(order)
        mixed[name] = rows[order]
    assert in_order(gpu_time(**mixed)).equals(in_order(ledger(cluster)))
    assert fingerprints(mixed) == fingerprints(inputs(cluster))


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(clusters(), st.sampled_from([2, 7, 86_400]))
def test_scaling_time_scales_durations_and_nothing_else(cluster: Cluster, factor: int) -> None:
    longer = sums(gpu_time(**stretched(inputs(cluster), factor)))
    assert longer == {key: factor * gpus for key, gpus in sums(ledger(cluster)).items()}


def spent(result: pl.DataFrame, low: int, high: int, by: list[str]) -> dict[tuple[object, ...], int]:
    """Thousandths of GPU-microseconds within a window, by group."""
    begin = int(EPOCH.timestamp() * 1e6)
    started = pl.max_horizontal(pl.col("started_at").dt.epoch("us"), begin + low * 1_000_000)
    ended = pl.min_horizontal(pl.col("ended_at").dt.epoch("us"), begin + high * 1_000_000)
    kept = result.filter(started < ended).group_by(by).agg((pl.col("milli_gpus") * (ended - started)).sum())
    return {row[:-1]: row[-1] for row in kept.rows()}


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(clusters(), st.lists(times, min_size=2, max_size=5))
def test_windows_and_groups_add_up(cluster: Cluster, cuts: list[int]) -> None:
    result, edges = ledger(cluster), sorted(cuts)
    fine = ["node", "job_id", "state", "category", "cause", "evidence"]
    whole = spent(result, edges[0], edges[-1], fine)
    parts = [spent(result, low, high, fine) for low, high in itertools.pairwise(edges)]
    for key in whole.keys() | {key for part in parts for key in part}:
        assert whole.get(key, 0) == sum(part.get(key, 0) for part in parts)
    assert sum(whole.values()) == sum(cluster.gpus.values()) * (edges[-1] - edges[0]) * 1_000_000
    for group in (["node"], ["job_id"], ["category"]):
        place_of = fine.index(group[0])
        for (name,), gpus in spent(result, edges[0], edges[-1], group).items():
            assert gpus == sum(value for key, value in whole.items() if key[place_of] == name)
