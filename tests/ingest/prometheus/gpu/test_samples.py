"""Raw readings on the grid, loads merged, hours rolled up."""

from __future__ import annotations

import itertools
import random

import numpy as np
import polars as pl
import pytest

from ingest.load_warnings import messages
from ingest.prometheus.gpu.readings import from_readings
from ingest.prometheus.gpu.samples import LONG, end, of_whole_gpus, too_sparse, usable, usual_step
from ingest.prometheus.mapping.mapping import builtin
from ingest.prometheus.series.gather import Gathering
from ingest.prometheus.series.labels import SAMPLES
from ingest.prometheus.store.merge import merge
from ingest.prometheus.store.rollup import ActivityThresholds, rolled_up
from ingest.tables import GPU_SAMPLES, conform
from tests.support.slurm.parsing import at

T = 1_795_248_000  # 2026-11-21T08:00:00Z, an hour
RULES = ActivityThresholds(tensor=0.02, gr_engine=0.1, gpu_util=0.1)
Reading = tuple[float, float]


def readings(
    *values: Reading, column: str = "tensor_active", gpu: str = "0", instance: str = "", node: str = "n1"
) -> pl.DataFrame:
    rows = [
        (column, node, gpu, instance, at(T + int(second), round(second % 1 * 1e6)), value) for second, value in values
    ]
    return pl.DataFrame(rows, schema=LONG, orient="row")


NAMES = {
    "tensor_active": "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE",
    "power_w": "DCGM_FI_DEV_POWER_USAGE",
    "energy": "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",
}


def samples(*frames: pl.DataFrame, interval_s: int = 60) -> pl.DataFrame:
    """The samples of a file with these readings; those of a time that has one already are of another job's series."""
    gathering = Gathering()
    key = ["column", "node", "gpu"]
    read = pl.concat(frames).with_columns(job=pl.int_range(pl.len()).over(*key, "ts").cast(pl.String))
    for (column, node, gpu, job), rows in read.partition_by(*key, "job", as_dict=True).items():
        labels = {"__name__": NAMES[column], "Hostname": node, "gpu": gpu, "hpc_job": job}
        number = gathering.number(labels)
        times = rows["ts"].dt.epoch("ms").to_numpy()
        gathering.add(np.full(times.size, number), times, rows["value"].to_numpy())
    parsed = from_readings(gathering.finish(), builtin(), cluster="c", interval_s=interval_s)
    return parsed.frames["gpu_samples"]


def intervals(frame: pl.DataFrame, column: str = "tensor_active") -> list[tuple[float, float, float | None]]:
    """From, to (seconds after T) and value of each sample."""
    seconds = frame.sort("node", "gpu", "ts").select(
        pl.col("ts").dt.epoch("ms") / 1000 - T, end("ts", "interval_s").dt.epoch("ms").alias("end") / 1000 - T, column
    )
    return [(low, high, None if value is None else round(value, 6)) for low, high, value in seconds.rows()]


def sample(second: float, interval_s: float, **values: float) -> pl.DataFrame:
    row = {"cluster": "c", "node": "n1", "gpu": "0", "ts": at(T + int(second), round(second % 1 * 1e6))}
    return conform(
        pl.DataFrame({key: [value] for key, value in {**row, "interval_s": interval_s, **values}.items()}), GPU_SAMPLES
    )


def test_a_reading_covers_the_time_before_it() -> None:
    regular = [(15.0 * n, 0.5 if n <= 4 else 1.0) for n in range(1, 9)]
    assert intervals(samples(readings(*regular))) == [(0, 60, 0.5), (60, 120, 1.0)]


def test_energy_gives_power_where_no_gauge_does() -> None:
    """500 W for two minutes, then 700 W: in mJ; at 240 s another GPU, whose counter is lower, takes the place."""
    counter = [(15.0 * n, 9e9 + 15e3 * (500 * min(n, 8) + 700 * max(n - 8, 0))) for n in range(17)]
    counter += [(15.0 * n, 1e6 + 15e3 * 300 * (n - 17)) for n in range(17, 21)]
    power = [(15.0 * n, 650.0) for n in range(5, 9)]
    both = samples(readings(*counter, column="energy"), readings(*power, column="power_w"))
    expected = [(0, 60, 500.0), (60, 120, 650.0), (120, 180, 700.0), (180, 240, 700.0), (240, 300, 300.0)]
    assert intervals(both, "power_w") == expected


@pytest.mark.parametrize(
    "counter",
    [
        [(0, 0.0), (400, 2e8), (460, 2.3e8)],  # silent for longer than a series may be
        [(0, 5e9), (60, 9e12), (120, 9e12 + 3e7)],  # 150 MW are no GPU's
        [(0, 5e9), (60, 2.0**63 - 16), (400, 7e9), (460, 7e9 + 3e7)],  # blank
    ],
)
def test_energy_leaves_unknown_what_it_misses(counter: list[Reading]) -> None:
    assert samples(readings(*counter, column="energy"))["power_w"].drop_nulls().to_list() == [500.0]


def test_a_gap_stays_a_gap() -> None:
    regular = [(15.0 * n, 0.5) for n in (*range(1, 5), *range(13, 17))]
    assert intervals(samples(readings(*regular))) == [(0, 60, 0.5), (180, 240, 0.5)]


def test_cells_at_the_ends_cover_only_what_was_read() -> None:
    result = samples(readings(*[(15.0 * n, 0.5) for n in range(3, 11)]))
    assert intervals(result) == [(30, 60, 0.5), (60, 120, 0.5), (120, 150, 0.5)]


def test_last_cell_is_whole_when_no_further_reading_is_due() -> None:
    result = samples(readings(*[(7.0 + 15 * n, 0.5) for n in range(8)]))
    assert intervals(result) == [(0, 60, 0.5), (60, 120, 0.5)]


def test_readings_of_other_metrics_keep_a_cell_whole() -> None:
    power = readings(*[(15.0 * n, 700.0) for n in range(1, 9)], column="power_w")
    result = samples(readings((15, 0.5), (30, 0.5)), power)
    assert intervals(result) == [(0, 60, 0.5), (60, 120, None)]
    assert intervals(result, "power_w") == [(0, 60, 700.0), (60, 120, 700.0)]


def test_a_series_per_job_doubles_nothing() -> None:
    one = readings((15, 0.5), (30, 0.5), (45, 0.5), (60, 0.5))
    assert samples(one, one).equals(samples(one))


def test_instances_add_up_to_a_gpu_and_its_own_value_wins() -> None:
    parts = [
        readings((60, 0.25), instance="1"),
        readings((60, 0.75), instance="2"),
        readings((60, 10.0), instance="1", column="memory_used_bytes"),
        readings((60, 20.0), instance="2", column="memory_used_bytes"),
        readings((60, 0.9), instance="1", column="gr_engine_active"),
        readings((60, 0.4), column="gr_engine_active"),
        readings((60, 300.0), instance="1", column="power_w"),
        readings((60, 700.0), column="power_w"),
    ]
    result = of_whole_gpus(pl.concat(parts)).sort("column")
    assert result.select("column", "value").rows() == [
        ("gr_engine_active", 0.4),
        ("memory_used_bytes", 30.0),
        ("power_w", 700.0),
        ("tensor_active", 0.75),
    ]


def test_loading_twice_equals_loading_once() -> None:
    one = samples(readings(*[(15.0 * n, n / 10) for n in range(1, 9)]))
    nothing = one.clear()
    assert merge(merge(nothing, one, interval_s=60), one, interval_s=60).equals(one)


def test_a_new_value_beats_an_old_one_and_any_value_beats_none() -> None:
    old = sample(0, 60, tensor_active=0.5, power_w=700.0)
    merged = merge(old, sample(0, 60, tensor_active=0.25, gpu_util=1.0), interval_s=60)
    row = merged.row(0, named=True)
    assert (row["tensor_active"], row["power_w"], row["gpu_util"]) == (0.25, 700.0, 1.0)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_the_edge_of_a_file_does_not_replace_a_whole_cell(order: tuple[int, int]) -> None:
    both = [sample(0, 60, tensor_active=0.5), sample(0, 30, tensor_active=0.1)]
    merged = merge(both[order[0]], both[order[1]], interval_s=60)
    assert intervals(merged) == [(0, 60, 0.5)]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_edges_that_complete_each_other_both_stay(order: tuple[int, int]) -> None:
    both = [sample(0, 30, tensor_active=0.5), sample(30, 30, tensor_active=0.1)]
    assert intervals(merge(both[order[0]], both[order[1]], interval_s=60)) == [(0, 30, 0.5), (30, 60, 0.1)]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_shorter_of_two_edges_in_a_cell_keeps_the_remaining_time(order: tuple[int, int]) -> None:
    both = [sample(0, 40, tensor_active=0.5), sample(15, 45, tensor_active=0.1)]
    merged = merge(both[order[0]], both[order[1]], interval_s=60)
    assert intervals(merged) == [(0, 15, 0.5), (15, 60, 0.1)]
    for again in both:
        assert merge(merged, again, interval_s=60).equals(merged)


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2), (2, 0, 1)])
def test_edge_between_two_longer_keeps_the_middle_of_the_cell(order: tuple[int, ...]) -> None:
    """A whole cell then replaces all three."""
    three = [sample(0, 25, tensor_active=0.5), sample(20, 20, tensor_active=0.1), sample(35, 25, tensor_active=0.9)]
    merged = three[0].clear()
    for number in order:
        merged = merge(merged, three[number], interval_s=60)
    assert intervals(merged) == [(0, 25, 0.5), (25, 35, 0.1), (35, 60, 0.9)]
    assert intervals(merge(merged, sample(0, 60, tensor_active=0.3), interval_s=60)) == [(0, 60, 0.3)]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_segments_cut_anywhere_cover_the_same_time(seed: int) -> None:
    chance = random.Random(seed)
    lines = [(15.0 * n, round(chance.random(), 3)) for n in range(1, 200)]
    cuts = [0, *sorted(chance.sample(range(5, len(lines) - 5), 6)), len(lines)]
    pieces = [lines[max(0, low - 2) : high] for low, high in itertools.pairwise(cuts)]
    chance.shuffle(pieces)
    merged = samples(readings(*lines)).clear()
    for piece in pieces:
        merged = merge(merged, samples(readings(*piece)), interval_s=60)
    spans = [(low, high) for low, high, _ in intervals(merged)]
    assert all(before[1] == after[0] for before, after in itertools.pairwise(spans))
    assert (spans[0][0], spans[-1][1]) == (0, 15.0 * 199)


def test_a_finer_reading_of_the_same_time_replaces_a_coarser_one() -> None:
    merged = merge(sample(0, 3600, tensor_active=0.5), sample(600, 60, tensor_active=0.1), interval_s=60)
    assert intervals(merged) == [(600, 660, 0.1)]


def test_a_coarser_reading_of_the_same_time_replaces_finer_ones() -> None:
    fine = pl.concat([sample(60 * n, 60, tensor_active=0.5) for n in range(61)])
    merged = merge(fine, sample(0, 3600, tensor_active=0.1), interval_s=3600)
    assert intervals(merged) == [(0, 3600, 0.1), (3600, 3660, 0.5)]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_overlapping_pieces_in_any_order_equal_the_whole(seed: int) -> None:
    chance = random.Random(seed)
    lines = [
        (15.0 * n + 3, round(chance.random(), 3), gpu)
        for n in range(200)
        for gpu in ("0", "1")
        if not 40 < n < 60 or gpu == "1"
    ]

    def load(piece: list[tuple[float, float, str]]) -> pl.DataFrame:
        return samples(*[readings((second, value), gpu=gpu) for second, value, gpu in piece])

    whole = load(lines)
    cuts = sorted(chance.sample(range(20, len(lines) - 20), 3))
    pieces = [lines[max(0, low - 10) : high + 10] for low, high in zip([0, *cuts], [*cuts, len(lines)], strict=True)]
    chance.shuffle(pieces)
    merged = whole.clear()
    for piece in pieces:
        merged = merge(merged, load(piece), interval_s=60)
    assert merged.equals(whole)


def test_hours_have_time_weighted_means_and_covered_seconds() -> None:
    hour = pl.concat(
        [sample(0, 60, tensor_active=0.5, power_w=100.0), sample(60, 30, tensor_active=0.0, power_w=700.0)]
    )
    result = {row["metric"]: row for row in rolled_up(hour, RULES).iter_rows(named=True)}
    assert set(result) == {"tensor_active", "power_w", "active"}
    assert (result["power_w"]["mean"], result["power_w"]["max"], result["power_w"]["covered_s"]) == (300.0, 700.0, 90.0)
    assert (result["active"]["active_s"], result["active"]["covered_s"]) == (60.0, 90.0)
    assert result["active"]["mean"] == pytest.approx(2 / 3)
    assert result["power_w"]["active_s"] is None


@pytest.mark.parametrize(
    ("values", "active"),
    [
        ({"tensor_active": 0.02}, True),
        ({"tensor_active": 0.019}, False),
        ({"tensor_active": 0.0, "gr_engine_active": 1.0, "gpu_util": 1.0}, False),
        ({"gr_engine_active": 0.1, "gpu_util": 0.0}, True),
        ({"gr_engine_active": 0.09, "gpu_util": 1.0}, False),
        ({"gpu_util": 0.1}, False),
        ({"gpu_util": 0.11}, True),
        ({"power_w": 700.0}, None),
    ],
)
def test_activity_comes_from_the_best_metric_available(values: dict[str, float], active: bool | None) -> None:
    result = rolled_up(sample(0, 60, **values), RULES).filter(pl.col("metric") == "active")
    assert result["active_s"].to_list() == ([] if active is None else [60.0 if active else 0.0])


def test_what_cannot_be_is_left_out_and_counted() -> None:
    told_by = {"DCGM_FI_DEV_GPU_UTIL": 5000.0, "DCGM_FI_DEV_GPU_UTIL_RATIO": 97.0, "DCGM_FI_PROF_SM_ACTIVE": 0.5}
    rows = [(name, "n1", "0", "", "", at(T), value) for name, value in told_by.items()]
    result = usable(pl.DataFrame(rows, schema=SAMPLES, orient="row"))
    assert result.values.select("column", "value").rows() == [("sm_active", 0.5)]
    assert result.n_left_out == 2
    strange, percents = messages(result.warnings)
    assert strange == "DCGM_FI_DEV_GPU_UTIL: 1 value is implausible, and left out"
    assert percents.startswith("DCGM_FI_DEV_GPU_UTIL_RATIO: read as a ratio")
    assert usable(pl.DataFrame(schema=SAMPLES)).values.is_empty()


def test_accepted_values_are_those_of_the_mapping() -> None:
    rows = [("my_power_mw", "n1", "0", "", "", at(T), 700_000.0), ("my_power_mw", "n1", "0", "", "", at(T), 1e12)]
    exported = pl.DataFrame(rows, schema=SAMPLES, orient="row")
    entry = {"name": "my_power_mw", "fills": "gpu_samples.power_w", "scale": 1e-3, "high": 1e7}
    result = usable(exported, builtin().and_more([entry], origin="mine"))
    assert result.values.select("column", "value").rows() == [("power_w", 700.0)]
    assert result.n_left_out == 1


def test_values_sparser_than_the_interval_are_reported() -> None:
    rare = pl.concat([sample(300 * n, 60, tensor_active=0.5) for n in range(5)])
    (output,) = messages(too_sparse(rare, interval_s=60))
    assert "set prometheus.interval_s to 300 or more" in output
    assert too_sparse(rare, interval_s=300) == []
    assert too_sparse(sample(0, 60), interval_s=60) == []


def test_the_usual_step_is_the_median_one() -> None:
    assert usual_step(pl.concat([sample(120 * n, 60, tensor_active=0.5) for n in range(5)])) == 120
    assert usual_step(sample(0, 60)) is None
