"""Hours of samples: every number against plain Python, exactness of sums, and the seconds above a threshold."""

from __future__ import annotations

import math
from itertools import groupby

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.prometheus.store.rollup import ActivityThresholds, nodes_rolled_up, rolled_up
from ingest.tables import GPU_HOURS, GPU_SAMPLES, NODE_HOURS, NODE_SAMPLES, conform
from tests.support.slurm.parsing import at

T = 1_795_248_000  # 2026-11-21T08:00:00Z, an hour
RULES = ActivityThresholds(tensor=0.02, gr_engine=0.1, gpu_util=0.1)
Cell = tuple[str, int, int, float | None]
"""Device or GPU, minute after T, seconds and value."""

CELLS = st.lists(
    st.tuples(
        st.sampled_from(["a", "b"]),
        st.integers(0, 179),
        st.sampled_from([15, 30, 60]),
        st.none() | st.floats(0, 1, width=32),
    ),
    max_size=60,
    unique_by=lambda cell: cell[:2],
)


def nodes(cells: list[Cell], metric: str = "cpu_busy") -> pl.DataFrame:
    rows = [
        ("c", "n1", metric, device, at(T + 60 * minute), s, value)
        for device, minute, s, value in cells
        if value is not None
    ]
    return pl.DataFrame(rows, schema=NODE_SAMPLES, orient="row")


def gpus(cells: list[Cell], metric: str = "tensor_active") -> pl.DataFrame:
    rows = {
        "cluster": ["c"] * len(cells),
        "node": ["n1"] * len(cells),
        "gpu": [gpu for gpu, *_ in cells],
        "ts": [at(T + 60 * minute) for _, minute, *_ in cells],
        "interval_s": [s for _, _, s, _ in cells],
        metric: [value for *_, value in cells],
    }
    return conform(pl.DataFrame(rows, schema_overrides={metric: pl.Float32}), GPU_SAMPLES)


def slow(cells: list[Cell], threshold: float) -> dict[tuple[str, int], tuple[float, ...]]:
    """By device and hour: mean, max, p95, above_s, covered_s."""
    result: dict[tuple[str, int], tuple[float, ...]] = {}
    by_hour = sorted(cell for cell in cells if cell[3] is not None)
    for key, group in groupby(by_hour, lambda cell: (cell[0], cell[1] // 60)):
        pairs = [(s, value) for _, _, s, value in group if value is not None]
        covered = sum(s for s, _ in pairs)
        values = sorted(value for _, value in pairs)
        place = 0.95 * (len(values) - 1)
        low, high = values[math.floor(place)], values[math.ceil(place)]
        result[key] = (
            sum(s * value for s, value in pairs) / covered,
            values[-1],
            low + (high - low) * (place % 1),
            sum(s for s, value in pairs if value >= threshold),
            covered,
        )
    return result


def by_hour(hours: pl.DataFrame, place: str) -> dict[tuple[str, int], tuple[float, ...]]:
    return {
        (row[place], round(row["ts"].timestamp() - T) // 3600): tuple(
            row[name] for name in ("mean", "max", "p95", "above_s", "covered_s")
        )
        for row in hours.iter_rows(named=True)
    }


@settings(deadline=None)
@given(CELLS)
def test_an_hour_is_what_plain_python_makes_of_its_samples(cells: list[Cell]) -> None:
    expected = slow(cells, 0.5)
    of_nodes = nodes_rolled_up(nodes(cells), {"cpu_busy": 0.5, "load1": 3.0})
    of_gpus = rolled_up(gpus(cells), RULES, {"tensor_active": 0.5}).filter(pl.col("metric") == "tensor_active")
    for result in (by_hour(of_nodes, "device"), by_hour(of_gpus, "gpu")):
        assert result.keys() == expected.keys()
        for key, numbers in expected.items():
            assert result[key] == pytest.approx(numbers)
    assert dict(of_nodes.schema) == NODE_HOURS
    assert dict(of_gpus.schema) == GPU_HOURS


@settings(deadline=None)
@given(CELLS)
def test_mean_times_covered_is_the_sum_over_the_samples(cells: list[Cell]) -> None:
    result = nodes_rolled_up(nodes(cells))
    total = sum(s * value for _, _, s, value in cells if value is not None)
    assert (result["mean"] * result["covered_s"]).sum() == pytest.approx(total)
    assert result["covered_s"].sum() == sum(s for _, _, s, value in cells if value is not None)
    assert result["above_s"].null_count() == result.height


@pytest.mark.slow
@settings(deadline=None)
@given(CELLS, st.randoms())
def test_the_order_of_the_samples_changes_nothing(cells: list[Cell], chance: object) -> None:
    shuffled = sorted(cells, key=lambda _: chance.random())  # type: ignore[attr-defined]  # a random.Random
    assert rolled_up(gpus(shuffled), RULES).equals(rolled_up(gpus(cells), RULES))
    assert nodes_rolled_up(nodes(shuffled)).equals(nodes_rolled_up(nodes(cells)))


def test_a_value_at_the_threshold_counts_as_32_bits_hold_it() -> None:
    cells: list[Cell] = [("a", 0, 60, 0.1), ("a", 1, 60, 0.0999)]
    assert nodes_rolled_up(nodes(cells), {"cpu_busy": 0.1})["above_s"].to_list() == [60]
    result = rolled_up(gpus(cells, "gpu_util"), RULES, {"gpu_util": 0.1}).filter(pl.col("metric") == "gpu_util")
    assert result.select("threshold", "above_s").row(0) == (pytest.approx(0.1), 60)


def test_activity_has_no_threshold_of_its_own_and_none_is_zero() -> None:
    result = rolled_up(gpus([("a", 0, 60, 0.5)]), RULES, {"power_w": 700.0})
    rows = {row["metric"]: row for row in result.iter_rows(named=True)}
    assert rows.keys() == {"tensor_active", "active"}  # power was not read, so nothing is said of it
    assert (rows["active"]["threshold"], rows["active"]["above_s"], rows["active"]["active_s"]) == (None, None, 60)
    assert rows["tensor_active"]["above_s"] is None


def test_without_samples_no_hours_result() -> None:
    assert rolled_up(gpus([]), RULES).is_empty()
    assert nodes_rolled_up(nodes([])).is_empty()
